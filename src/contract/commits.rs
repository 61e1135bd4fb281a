//! Drafts of the commits the runner writes: claim, renewal, advance and stall (sections 4 to 6 of
//! CONTRACT.md).
//!
//! Invariant: every draft made here from parsed input encodes; a stalled one whatever the dead
//! lease contains. `git` adds parents, tree, dates and signature.

use bstr::{BStr, BString, ByteSlice};

use super::carried::{Ask, handed_on, kept_and_given};
use super::declaration::Declaration;
use super::head::{Event, STATE_KEY};
use super::ids::{AttemptId, BranchName, RemoteName, StateName};
use super::lease::{BRANCH_KEY, ORIGIN_KEY, RUN_KEY, RUNNER_KEY, SECONDS_KEY};
use super::message::{Draft, Message, broken_trailer_rule};
use super::titles::{default_subject, lease_title, repeats_state, stalled_title};
use super::trailers::{Trailer, Trailers, trim};

pub(crate) const SOURCE_KEY: &str = "dwp-source";
/// Names a run: in the states of its driver, and in what is published of it.
pub const OF_RUN_KEY: &str = "aynig-run";
pub(crate) const STALLED_RUN_KEY: &str = "dwp-stalled-run";
/// Names the attempt whose live lease a state was set over (CONTRACT 5.25).
pub const OVERRIDES_KEY: &str = "aynig-overrides";

/// Replaces a run id or origin state that cannot be read (CONTRACT 5.11).
pub(crate) const UNKNOWN: &str = "unknown";

/// The values a runner puts into the lease it claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    /// The new attempt.
    pub(crate) attempt: AttemptId,
    /// The runner's id: the host's name unless configured. Line breaks and NUL in it become spaces.
    pub(crate) runner: String,
    /// The length of the lease, in seconds.
    pub(crate) seconds: u64,
    /// The remote the claim is pushed to, if a remote decides.
    pub(crate) source: Option<RemoteName>,
    /// The branch.
    pub(crate) branch: BranchName,
}

/// Drafts the claim on a ready branch. It carries the trigger's own unreserved `dwp-*` trailers, so
/// that `keep_trailers` finds them (CONTRACT 5.6), except those of one request alone (4.18).
pub(crate) fn lease_draft(trigger: &Event, terms: &LeaseTerms) -> Draft {
    let mut trailers = lease_head(&BString::from(trigger.state.as_str()), terms);
    trailers.extend(handed_on(&trigger.message.trailers).cloned());
    Draft { subject: lease_title(&trailers), body: BString::default(), trailers }
}

/// The runner-managed trailers at the top of every lease.
pub(crate) fn lease_head(origin: &BString, terms: &LeaseTerms) -> Trailers {
    let mut trailers = Trailers::new();
    trailers.push(Trailer::new(STATE_KEY, StateName::working().as_str()));
    trailers.push(Trailer::new(ORIGIN_KEY, origin.clone()));
    trailers.push(Trailer::new(RUN_KEY, terms.attempt.to_string()));
    trailers.push(Trailer::new(RUNNER_KEY, terms.runner.replace(['\n', '\r', '\0'], " ")));
    trailers.push(Trailer::new(SECONDS_KEY, terms.seconds.to_string()));
    trailers.push(Trailer::new(BRANCH_KEY, terms.branch.as_bstr()));
    trailers.extend(source_trailer(terms.source.as_ref()));
    trailers
}

/// Drafts a fresh `working` commit with the trailers of the lease it follows (CONTRACT 6.3, 10.3).
pub(crate) fn renewal_draft(lease: &Message) -> Draft {
    let subject = lease_title(&lease.trailers);
    Draft { subject, body: BString::default(), trailers: lease.trailers.clone() }
}

/// Drafts the commit that a successful command declared. `ask` is the request that it
/// may hand on.
pub(crate) fn advance_draft(
    declaration: &Declaration,
    lease: &Trailers,
    ask: &Ask,
    source: Option<&RemoteName>,
) -> Draft {
    let subject = declaration.subject.as_deref().filter(|subject| !subject.trim().is_empty());
    let subject = subject.map_or_else(|| default_subject(&declaration.state), BString::from);
    let mut trailers = Trailers::new();
    trailers.push(Trailer::new(STATE_KEY, declaration.state.as_str()));
    trailers.extend(seconds_trailer(declaration.lease_seconds));
    let (keep, given) = (declaration.keep_trailers, &declaration.trailers);
    trailers.extend(kept_and_given(keep, lease, &ask.message.trailers, given));
    trailers.extend(source_trailer(source));
    let given = declaration.body.as_deref();
    let body = if declaration.keep_body {
        ask.body_with(given.map(str::as_bytes))
    } else {
        BString::from(given.unwrap_or_default())
    };
    Draft { subject, body, trailers }
}

/// Drafts the end of a failed or abandoned attempt.
///
/// `run_id` may come from a hostile lease: if it cannot be written unchanged, [`UNKNOWN`] is
/// written. `body` is made writable: NUL is dropped and a scissors line is indented.
pub(crate) fn stalled_draft(run_id: &BStr, origin: Option<&StateName>, body: &str) -> Draft {
    let trimmed = trim(run_id);
    let legible = !trimmed.is_empty() && broken_trailer_rule(STALLED_RUN_KEY.as_bytes(), trimmed).is_none();
    let run = if legible { trimmed } else { UNKNOWN.as_bytes() };
    let mut trailers = Trailers::new();
    trailers.push(Trailer::new(STATE_KEY, StateName::stalled().as_str()));
    trailers.push(Trailer::new(STALLED_RUN_KEY, run));
    trailers.push(Trailer::new(ORIGIN_KEY, origin.map_or(UNKNOWN, StateName::as_str)));
    Draft { subject: stalled_title(body), body: writable(body), trailers }
}

fn writable(body: &str) -> BString {
    let mut text = BString::default();
    for line in body.split('\n') {
        if super::trailers::is_scissors(line.replace('\0', "").as_bytes()) {
            text.push(b' ');
        }
        text.extend(line.bytes().filter(|byte| *byte != 0));
        text.push(b'\n');
    }
    text
}

/// The first line of the body, if the subject is only the default one: the work requested, in the
/// words of its author. `None` if the subject describes it, or nothing does.
pub fn wish<'a>(message: &'a Message, state: &StateName) -> Option<&'a BStr> {
    if !repeats_state(message.subject.as_bstr(), state) {
        return None;
    }
    message.body.lines().map(ByteSlice::trim).find(|line| !line.is_empty()).map(BStr::new)
}

pub(crate) fn source_trailer(source: Option<&RemoteName>) -> Option<Trailer> {
    source.map(|remote| Trailer::new(SOURCE_KEY, remote.to_source()))
}

pub(crate) fn seconds_trailer(seconds: Option<u64>) -> Option<Trailer> {
    seconds.map(|seconds| Trailer::new(SECONDS_KEY, seconds.to_string()))
}

/// The attempt a stalled commit closed, as written in `dwp-stalled-run`.
pub fn stalled_run(trailers: &Trailers) -> Option<&BStr> {
    trailers.last(STALLED_RUN_KEY)
}

#[cfg(test)]
mod tests {
    use bstr::ByteSlice;
    use proptest::prelude::*;

    use super::super::carried::KeepTrailers;
    use super::super::head::{CommitFacts, Head};
    use super::super::ids::CommitId;
    use super::super::trailers::tests as git;
    use super::*;

    fn head(message: &[u8]) -> Head {
        let id = CommitId::from_bytes(&[7; 20]).expect("20 bytes");
        Head::read(&CommitFacts { id, committed_at: 100, message })
    }

    fn event(message: &str) -> Event {
        let Head::Ready(event) = head(message.as_bytes()) else { panic!("{message} is not ready") };
        event
    }

    fn terms(source: Option<&str>) -> LeaseTerms {
        let attempt = AttemptId::parse(b"0f8fad5b-d9cb-469f-a165-70867728950e").expect("a UUID");
        let source = source.map(|name| RemoteName::parse(name).expect("legal"));
        LeaseTerms {
            attempt,
            runner: String::from("host-1"),
            seconds: 300,
            source,
            branch: BranchName::new("task").expect("a name"),
        }
    }

    fn encoded(draft: &Draft) -> String {
        draft.encode().expect("what the runner drafts can be written").to_string()
    }

    const TRIGGER: &str = "t\n\nprompt\n\ndwp-log-level: debug\nother: x\ndwp-state: build\ndwp-run-id: old\ndwp-pr: 7\n\
         dwp-waits-for: ana\ndwp-answers: yes\ndwp-not-before: 1970-01-01T00:00:00Z\n";

    /// CONTRACT 5.1, 5.2, 5.6
    #[test]
    fn lease() {
        let expected = "working: build (host-1)\n\ndwp-state: working\ndwp-origin-state: build\n\
             dwp-run-id: 0f8fad5b-d9cb-469f-a165-70867728950e\ndwp-runner-id: host-1\ndwp-lease-seconds: 300\n\
             aynig-branch: task\ndwp-source: git:origin\ndwp-log-level: debug\ndwp-pr: 7\n";
        assert_eq!(encoded(&lease_draft(&event(TRIGGER), &terms(Some("origin")))), expected);
        let local = encoded(&lease_draft(&event(TRIGGER), &terms(None)));
        assert_eq!(local, expected.replace("dwp-source: git:origin\n", ""));
    }

    #[test]
    fn a_runner_id_cannot_forge_trailers() {
        let terms = LeaseTerms { runner: String::from("h\ndwp-state: done\0"), ..terms(None) };
        let text = encoded(&lease_draft(&event(TRIGGER), &terms));
        assert!(text.contains("\ndwp-runner-id: h dwp-state: done\n"), "{text}");
    }

    #[test]
    fn renewal_repeats_the_lease() {
        let lease = lease_draft(&event(TRIGGER), &terms(None));
        let bytes = lease.encode().unwrap();
        let Head::Working(read) = head(&bytes) else { panic!("a lease is working") };
        assert_eq!(renewal_draft(&read.message).encode().unwrap(), bytes);
    }

    fn declaration(keep_trailers: KeepTrailers, trailers: &[(&str, &str)]) -> Declaration {
        Declaration {
            state: StateName::parse("review").unwrap(),
            subject: None,
            body: Some(String::from("look\n\nhere\n")),
            lease_seconds: None,
            keep_body: false,
            keep_trailers,
            trailers: trailers.iter().map(|(key, value)| Trailer::new(*key, *value)).collect(),
        }
    }

    /// CONTRACT 4.12
    #[test]
    fn advance() {
        let ask = Ask { message: event(TRIGGER).message, heading: String::from("[reply]") };
        let lease = lease_draft(&event(TRIGGER), &terms(None)).trailers;
        let origin = RemoteName::parse("origin").unwrap();
        let declared = declaration(KeepTrailers::Dwp, &[("dwp-pr", "8"), ("x", "y")]);
        let draft = advance_draft(&declared, &lease, &ask, Some(&origin));
        assert_eq!(
            encoded(&draft),
            "chore: set review\n\nlook\n\nhere\n\ndwp-state: review\ndwp-log-level: debug\ndwp-pr: 8\n\
             x: y\ndwp-source: git:origin\n"
        );
        let all = advance_draft(&declaration(KeepTrailers::All, &[]), &lease, &ask, None);
        assert!(encoded(&all).ends_with("dwp-log-level: debug\ndwp-pr: 7\nother: x\n"), "{}", encoded(&all));
        let plain = advance_draft(&declaration(KeepTrailers::None, &[]), &lease, &ask, None);
        assert_eq!(encoded(&plain), "chore: set review\n\nlook\n\nhere\n\ndwp-state: review\n");
        let kept = Declaration { keep_body: true, ..declaration(KeepTrailers::None, &[]) };
        let draft = encoded(&advance_draft(&kept, &lease, &ask, None));
        assert_eq!(draft, "chore: set review\n\nprompt\n\n[reply]\n\nlook\n\nhere\n\ndwp-state: review\n");
        let asked = Declaration { lease_seconds: Some(60), ..declaration(KeepTrailers::Dwp, &[]) };
        let draft = encoded(&advance_draft(&asked, &lease, &ask, None));
        assert!(
            draft.ends_with("dwp-state: review\ndwp-lease-seconds: 60\ndwp-log-level: debug\ndwp-pr: 7\n"),
            "{draft}"
        );
        let titled = Declaration {
            subject: Some(String::from(" review: ready ")),
            ..declaration(KeepTrailers::None, &[])
        };
        assert!(encoded(&advance_draft(&titled, &lease, &ask, None)).starts_with("review: ready\n\n"));
        let blank = Declaration { subject: Some(String::from(" ")), ..declaration(KeepTrailers::None, &[]) };
        assert!(encoded(&advance_draft(&blank, &lease, &ask, None)).starts_with("chore: set review\n\n"));
    }

    /// CONTRACT 5.5, 5.11
    #[test]
    fn stalled() {
        let build = StateName::parse("build").unwrap();
        let draft = stalled_draft(BStr::new("r-1"), Some(&build), "exited with 3\n");
        assert_eq!(
            encoded(&draft),
            "stalled: exited with 3\n\nexited with 3\n\ndwp-state: stalled\ndwp-stalled-run: r-1\ndwp-origin-state: build\n"
        );
        assert_eq!(stalled_run(&draft.trailers), Some(BStr::new("r-1")));
        for hostile in ["", " \t", "a\nb", "a\0b"] {
            let draft = stalled_draft(
                BStr::new(hostile),
                None,
                "a\0\n# ------------------------ >8 ------------------------",
            );
            let text = encoded(&draft);
            assert!(text.ends_with("dwp-stalled-run: unknown\ndwp-origin-state: unknown\n"), "{text}");
            assert!(text.contains("\n # ------------------------ >8"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn leases_and_stalls_of_any_commit_can_be_written(message in git::message(), run in any::<Vec<u8>>(), body in any::<String>()) {
            let trigger = [message.as_slice(), b"\n\ndwp-state: build\n"].concat();
            if let Head::Ready(event) = head(&trigger) {
                let bytes = lease_draft(&event, &terms(None)).encode();
                prop_assert!(bytes.is_ok(), "{:?}", bytes);
                let Head::Working(lease) = head(&bytes.unwrap()) else { panic!("a lease is working") };
                prop_assert_eq!(lease.attempt(), Some(terms(None).attempt));
                prop_assert!(renewal_draft(&lease.message).encode().is_ok());
            }
            let stalled = stalled_draft(run.as_bstr(), None, &body).encode();
            prop_assert!(stalled.is_ok(), "{:?}", stalled);
        }
    }
}
