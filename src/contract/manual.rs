//! State commits made by hand or by a process a command left behind: `set-state` and `set-working`.
//!
//! Invariant: `set-state` can neither declare `working` nor write a runner-managed trailer, in any
//! case of letters. Whatever the arguments, a draft from here obeys sections 4 and 5 of
//! CONTRACT.md.

use bstr::{BStr, BString};

use super::bounds::FROM_ATTEMPT_KEY;
use super::carried::{KeepTrailers, kept_and_given};
use super::commits::{LeaseTerms, OVERRIDES_KEY, SOURCE_KEY, lease_head, seconds_trailer, source_trailer};
use super::head::STATE_KEY;
use super::ids::{AttemptId, BranchName, RemoteName, StateName};
use super::lease::{
    DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS, ORIGIN_KEY, RUN_KEY, RUNNER_KEY, SECONDS_KEY, parse_seconds,
};
use super::message::Draft;
use super::titles::{default_subject, lease_title};
use super::trailers::{Trailer, Trailers, is_runner_managed};

/// The arguments of `set-state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualState {
    /// The state to declare.
    pub state: StateName,
    /// The subject; the default if absent or blank.
    pub subject: Option<String>,
    /// The body, as bytes since it may come from a file.
    pub body: Option<Vec<u8>>,
    /// The lease length requested for the command, in seconds.
    pub lease_seconds: Option<u64>,
    /// The trailers, those that are kept included, in their order.
    pub trailers: Vec<Trailer>,
    /// The remote the commit is pushed to.
    pub source: Option<RemoteName>,
    /// The `dwp-run-id` of the lease it is set over.
    pub overrides: Option<BString>,
    /// The attempt that sets it on a branch which is not its own.
    pub from_attempt: Option<BString>,
}

/// The arguments of `set-working`, and HEAD's trailers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManualLease {
    /// The trailers at HEAD.
    pub(crate) head: Trailers,
    /// Which of them are carried over; a lease has the `dwp-*` ones at least.
    pub(crate) keep: KeepTrailers,
    /// The attempt of a new lease; a renewal keeps HEAD's.
    pub(crate) attempt: AttemptId,
    /// The runner of a new lease; a renewal keeps HEAD's.
    pub(crate) runner: String,
    /// The length, in seconds. If absent, a renewal keeps HEAD's and a new lease takes the default.
    pub(crate) seconds: Option<u64>,
    /// The subject; the default if absent or blank.
    pub(crate) subject: Option<String>,
    /// The body.
    pub(crate) body: Option<Vec<u8>>,
    /// Extra trailers as given.
    pub(crate) trailers: Vec<Trailer>,
    /// The remote the commit is pushed to. If absent, a renewal keeps HEAD's.
    pub(crate) source: Option<RemoteName>,
    /// The branch.
    pub(crate) branch: BranchName,
}

/// Why a commit by hand is refused before anything is composed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManualError {
    /// `set-state --state working`.
    #[error("state \"working\" cannot be set by set-state, it is a lease; use set-working")]
    Working,
    /// A trailer that only the runner may write.
    #[error("trailer key {key:?} is written by the runner only; choose another key")]
    RunnerManaged {
        /// The key as given.
        key: String,
    },
    /// `set-working` on a HEAD without a state to work on.
    #[error(
        "the newest commit of the branch has no legal dwp-state or dwp-origin-state, so there is no state to work on; \
         use set-state first"
    )]
    NoOrigin,
}

/// Drafts the commit of `set-state`. Its trailers have the order of a command's result: state,
/// kept, given, source.
///
/// # Errors
/// [`ManualError::Working`] and [`ManualError::RunnerManaged`].
pub fn set_state_draft(asked: &ManualState) -> Result<Draft, ManualError> {
    if asked.state.is_working() {
        return Err(ManualError::Working);
    }
    check(&asked.trailers)?;
    let mut trailers = Trailers::new();
    trailers.push(Trailer::new(STATE_KEY, asked.state.as_str()));
    trailers.extend(seconds_trailer(asked.lease_seconds));
    trailers.extend(asked.trailers.iter().cloned());
    trailers.extend(source_trailer(asked.source.as_ref()));
    trailers.extend(asked.overrides.as_ref().map(|run| Trailer::new(OVERRIDES_KEY, run.clone())));
    trailers.extend(asked.from_attempt.as_ref().map(|run| Trailer::new(FROM_ATTEMPT_KEY, run.clone())));
    Ok(draft(default_subject(&asked.state), asked.subject.as_deref(), asked.body.as_deref(), trailers))
}

/// Drafts the commit of `set-working`: a renewal if HEAD is `working`, else a new claim on HEAD's
/// state.
///
/// # Errors
/// [`ManualError::NoOrigin`] and [`ManualError::RunnerManaged`].
pub(crate) fn set_working_draft(asked: &ManualLease) -> Result<Draft, ManualError> {
    check(&asked.trailers)?;
    let state = asked.head.last(STATE_KEY).and_then(|value| StateName::parse(value).ok());
    let origin = asked.head.last(ORIGIN_KEY).and_then(|value| StateName::parse(value).ok());
    let renewing = state.as_ref().is_some_and(StateName::is_working);
    let origin = if renewing { origin } else { state.or(origin) }.ok_or(ManualError::NoOrigin)?;
    // On a HEAD that is not a lease, a run id belongs to another attempt.
    let held = |key| if renewing { asked.head.last(key) } else { None };
    let terms = LeaseTerms {
        attempt: asked.attempt,
        runner: asked.runner.clone(),
        seconds: asked
            .seconds
            .or_else(|| held(SECONDS_KEY).map(parse_seconds))
            .unwrap_or(DEFAULT_LEASE_SECONDS)
            .min(MAX_LEASE_SECONDS),
        source: asked.source.clone(),
        branch: asked.branch.clone(),
    };
    let kept_value = |trailer: &Trailer| {
        [RUN_KEY, RUNNER_KEY]
            .into_iter()
            .find(|key| trailer.key == *key)
            .and_then(held)
            .filter(|value| !value.is_empty())
    };
    let mut trailers: Trailers = lease_head(&BString::from(origin.as_str()), &terms)
        .into_iter()
        .map(|trailer| match kept_value(&trailer) {
            Some(value) => Trailer::new(trailer.key, value),
            None => trailer,
        })
        .collect();
    if asked.source.is_none() {
        trailers.extend(held(SOURCE_KEY).map(|value: &BStr| Trailer::new(SOURCE_KEY, value)));
    }
    trailers.extend(kept_and_given(asked.keep, &asked.head, &asked.head, &asked.trailers));
    let title = lease_title(&trailers);
    Ok(draft(title, asked.subject.as_deref(), asked.body.as_deref(), trailers))
}

fn check(trailers: &[Trailer]) -> Result<(), ManualError> {
    match trailers.iter().find(|trailer| is_runner_managed(trailer.key.trim_ascii())) {
        Some(trailer) => Err(ManualError::RunnerManaged { key: trailer.key.to_string() }),
        None => Ok(()),
    }
}

fn draft(title: BString, subject: Option<&str>, body: Option<&[u8]>, trailers: Trailers) -> Draft {
    let subject = subject.filter(|subject| !subject.trim().is_empty());
    let subject = subject.map_or(title, BString::from);
    Draft { subject, body: BString::from(body.unwrap_or_default()), trailers }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers(list: &[(&str, &str)]) -> Trailers {
        list.iter().map(|(key, value)| Trailer::new(*key, *value)).collect()
    }

    fn state(name: &str) -> ManualState {
        ManualState {
            state: StateName::parse(name).expect("legal"),
            subject: None,
            body: None,
            lease_seconds: None,
            trailers: Vec::new(),
            source: None,
            overrides: None,
            from_attempt: None,
        }
    }

    fn lease(head: &[(&str, &str)]) -> ManualLease {
        ManualLease {
            head: trailers(head),
            keep: KeepTrailers::Dwp,
            attempt: AttemptId::parse(b"0f8fad5b-d9cb-469f-a165-70867728950e").expect("a UUID"),
            runner: String::from("here"),
            seconds: None,
            subject: None,
            body: None,
            trailers: Vec::new(),
            source: None,
            branch: BranchName::new("task").expect("a name"),
        }
    }

    fn text(draft: Result<Draft, ManualError>) -> String {
        draft.expect("accepted").encode().expect("writable").to_string()
    }

    #[test]
    fn set_state() {
        assert_eq!(text(set_state_draft(&state("build"))), "chore: set build\n\ndwp-state: build\n");
        let full = ManualState {
            subject: Some(String::from("go")),
            body: Some(b"do it\xff\n".to_vec()),
            trailers: vec![Trailer::new("dwp-a", "1"), Trailer::new("dwp-b", "2")],
            source: RemoteName::parse("origin").ok(),
            ..state("build")
        };
        let expected =
            "go\n\ndo it\u{fffd}\n\ndwp-state: build\ndwp-a: 1\ndwp-b: 2\ndwp-source: git:origin\n";
        assert_eq!(text(set_state_draft(&full)), expected);
    }

    #[test]
    fn set_state_refuses() {
        assert_eq!(set_state_draft(&state("working")), Err(ManualError::Working));
        for key in ["dwp-state", "Dwp-Run-Id", " dwp-source "] {
            let asked = ManualState { trailers: vec![Trailer::new(key, "x")], ..state("build") };
            assert_eq!(set_state_draft(&asked), Err(ManualError::RunnerManaged { key: String::from(key) }));
        }
        let forged = ManualState { trailers: vec![Trailer::new("a", "b\ndwp-state: c")], ..state("build") };
        assert!(set_state_draft(&forged).expect("composed later").encode().is_err());
    }

    #[test]
    fn a_new_lease_by_hand() {
        let head =
            [("dwp-state", "build"), ("dwp-run-id", "stale"), ("dwp-origin-state", "old"), ("dwp-a", "1")];
        assert_eq!(
            text(set_working_draft(&lease(&head))),
            "working: build (here)\n\ndwp-state: working\ndwp-origin-state: build\n\
             dwp-run-id: 0f8fad5b-d9cb-469f-a165-70867728950e\ndwp-runner-id: here\ndwp-lease-seconds: 300\naynig-branch: task\n\
             dwp-a: 1\n"
        );
    }

    #[test]
    fn a_renewal_by_hand_keeps_the_lease() {
        let head = [
            ("dwp-state", "working"),
            ("dwp-origin-state", "build"),
            ("dwp-run-id", "r-1"),
            ("dwp-runner-id", "there"),
            ("dwp-lease-seconds", "60"),
            ("dwp-source", "git:origin"),
            ("dwp-a", "1"),
        ];
        let expected = "working: build (there)\n\ndwp-state: working\ndwp-origin-state: build\ndwp-run-id: r-1\n\
             dwp-runner-id: there\ndwp-lease-seconds: 60\naynig-branch: task\ndwp-source: git:origin\ndwp-a: 1\n";
        assert_eq!(text(set_working_draft(&lease(&head))), expected);
        let longer = ManualLease { seconds: Some(900), source: RemoteName::parse("up").ok(), ..lease(&head) };
        let expected = expected.replace(": 60", ": 900").replace("git:origin", "git:up");
        assert_eq!(text(set_working_draft(&longer)), expected);
        let endless =
            head.map(|(key, value)| (key, if value == "60" { "99999999999999999999" } else { value }));
        assert!(text(set_working_draft(&lease(&endless))).contains("dwp-lease-seconds: 31536000\n"));
    }

    #[test]
    fn set_working_needs_an_origin() {
        for head in [
            [("x", "y")].as_slice(),
            &[("dwp-state", "../x")],
            &[("dwp-state", "working")],
            &[("dwp-state", "working"), ("dwp-origin-state", "")],
        ] {
            assert_eq!(set_working_draft(&lease(head)), Err(ManualError::NoOrigin), "{head:?}");
        }
        assert!(
            text(set_working_draft(&lease(&[("dwp-origin-state", "build")])))
                .contains("dwp-origin-state: build\n")
        );
        let managed =
            ManualLease { trailers: vec![Trailer::new("DWP-STATE", "x")], ..lease(&[("dwp-state", "a")]) };
        assert!(matches!(set_working_draft(&managed), Err(ManualError::RunnerManaged { .. })));
    }
}
