//! Builds the row of a branch from what the survey judged.

use bstr::ByteSlice;

use crate::contract::bounds::Bound;
use crate::contract::cancel::Cancel;
use crate::contract::commits;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::contract::kept::Kept;
use crate::contract::lease::Lease;
use crate::contract::message::Message;
use crate::contract::protocol::misspelt_fields;
use crate::contract::requeue::{Interrupted, interrupted_before, rescued};
use crate::contract::sighting::Watched;
use crate::contract::story::Stall;
use crate::contract::unable::{is_untaken, unable};
use crate::contract::waits_for::WaitsFor;
use crate::engine::driver::{GATE, IDLE, STEP, TURN, run_of};
use crate::git::Repo;
use crate::git::objects::commits::Stored;
use crate::ledger::tip::ledger_ref;
use crate::ops::history::host::saved_below;
use crate::ops::missing;
use crate::ops::runs::runner;
use crate::ops::view::branch::{Act, BranchView, LeaseView, UNTAKEN, WaitsView};
use crate::ops::view::lease::{gone_words, in_skew, runner_words};
use crate::runner::attempt::cancel::{Found, find};
use crate::runner::attempt::files;
use crate::runner::authority::Authority;
use crate::runner::events::warning::Warning;
use crate::runner::landing::ask::newest_request;
use crate::runner::options::{Options, Trust};
use crate::runner::shell_quote;
use crate::runner::survey::verdict::{Leased, Reason, RunIn, Severity};
use crate::runner::survey::words::{
    asks_again, bounded, if_you_vouch, in_place, requests_again, unsigned_lease,
};
use crate::runner::survey::{Branch, CommandsFrom, Verdict};

/// Builds the row of a surveyed branch. `from` is the source of commands if it is not each branch, `now` is
/// in seconds since the epoch. `options` are those of a plain run here. `unsigned` is why the HEAD of a
/// stalled branch is not trusted.
pub(crate) fn row(
    repo: &Repo,
    authority: &Authority,
    from: Option<&CommandsFrom>,
    branch: &Branch,
    unsigned: Option<&str>,
    options: &Options,
    now: i64,
) -> BranchView {
    let stored = branch.head.and_then(|head| repo.commit(head).ok());
    let message = stored.as_ref().map(|stored| Message::parse(&stored.message));
    let mut row = BranchView {
        branch: branch.name.to_string(),
        commit: branch.head.map(|head| head.to_string()),
        kind: branch.verdict.word(),
        act: Act::of(&branch.verdict),
        subject: message.as_ref().map(|message| message.subject.to_string()),
        wish: message.as_ref().and_then(wish),
        committed_at: stored.as_ref().map(|stored| stored.committed_at),
        ..BranchView::default()
    };
    match &branch.verdict {
        Verdict::Unmanaged => row.reason = Some("HEAD declares no state".to_owned()),
        Verdict::Invalid(invalid) => {
            row.state = stored.as_ref().and_then(declared);
            row.reason = Some(invalid.to_string());
        }
        Verdict::Leased(lease) => under_lease(&mut row, repo, authority, &options.trust, branch, lease),
        Verdict::UnsignedLease { leased: lease, why } => {
            leased(&mut row, &lease.lease, lease.seen);
            row.mistake = true;
            row.reason = branch.head.map(|head| unsigned_lease(&branch.name, authority.source(), head, why));
        }
        Verdict::Waiting { state, reason } => {
            caused(&mut row, reason);
            asked(&mut row, state, stored.as_ref());
            if state.is_stalled() {
                let head = stored.as_ref().map(|stored| Head::read(&stored.facts()));
                let failed = head.as_ref().and_then(Head::failed);
                stalled(&mut row, authority, (branch, failed.as_ref()), reason, unsigned);
            } else {
                waiting(&mut row, repo, (authority, from), (branch, stored.as_ref()), (state, reason));
            }
        }
        Verdict::Parked { state, until, .. } => {
            asked(&mut row, state, stored.as_ref());
            row.not_before = Some(*until);
            row.again = again(&row, repo, stored.as_ref(), options.on_interrupt.most);
        }
        Verdict::Bounded { state, bound } => {
            asked(&mut row, state, stored.as_ref());
            parked_by(&mut row, bounded(&branch.name, authority.source(), bound), bound);
        }
        Verdict::WaitsForYou { state, until, trouble } => {
            asked(&mut row, state, stored.as_ref());
            row.not_before = *until;
            let question = message.as_ref().and_then(|message| WaitsFor::of(&message.trailers));
            let since = row.committed_at.unwrap_or(now);
            row.waits = question.map(|question| WaitsView::new(&question, since));
            for_somebody(&mut row, authority, &branch.name, trouble.as_ref());
            if authority.source().is_none() {
                of_a_stray(&mut row, repo, branch.head);
            }
        }
        Verdict::Ready { event, command, run_in } => {
            asked(&mut row, &event.state, stored.as_ref());
            let in_place = (*run_in == RunIn::Checkout).then(|| skipped(authority, branch));
            row.again = again(&row, repo, stored.as_ref(), options.on_interrupt.most);
            ready(&mut row, &command.path, in_place);
        }
        Verdict::Excluded(exclusion) => {
            row.cause = Some(exclusion.word());
            row.reason = Some(exclusion.to_string());
        }
        Verdict::SkippedCurrent { state } => {
            asked(&mut row, state, stored.as_ref());
            row.reason = Some(skipped(authority, branch));
        }
    }
    if matches!(branch.verdict, Verdict::Parked { .. } | Verdict::Ready { .. })
        && message.is_some_and(|message| is_untaken(&message.trailers, now))
    {
        (row.mistake, row.cause) = (true, Some(UNTAKEN));
    }
    row.retime(now);
    row
}

/// Returns the request in words if the subject does not have them. A stalled branch has its reason
/// instead.
fn wish(message: &Message) -> Option<String> {
    let state = StateName::parse(message.trailers.last("dwp-state")?).ok()?;
    commits::wish(message, &state)
        .filter(|_| !state.is_stalled())
        .map(|line| line.to_str_lossy().into_owned())
}

/// Returns the request below a lease in words: its subject, or the first line of its body if the subject
/// only names the state.
fn request(repo: &Repo, branch: &BranchName, lease: CommitId) -> Option<String> {
    let event = newest_request(repo, branch, lease)?;
    let words = commits::wish(&event.message, &event.state);
    Some(words.unwrap_or(event.message.subject.as_bstr()).to_str_lossy().into_owned())
}

/// Adds why the state is not run.
fn caused(row: &mut BranchView, reason: &Reason) {
    row.mistake = reason.severity() == Severity::Misconfigured;
    row.rests = reason.severity() == Severity::Terminal;
    row.cause = Some(reason.word());
    if let Reason::Preferred { runner, until } = reason {
        row.preferred = Some((runner.clone(), *until));
    }
}

/// Adds what a lease is for, and what becomes of it.
fn under_lease(
    row: &mut BranchView,
    repo: &Repo,
    authority: &Authority,
    trust: &Trust,
    branch: &Branch,
    lease: &Leased,
) {
    let asked = |lease: &Lease| find(repo, trust, lease.attempt(), &branch.name, lease.commit, None);
    let found = if lease.over { Found::default() } else { asked(&lease.lease) };
    leased(row, &lease.lease, lease.seen);
    if let Some(view) = &mut row.lease {
        view.gone = gone_words(repo, authority.source(), &lease.lease, &branch.name)
            .or_else(|| in_skew(repo, authority.source(), &lease.lease).filter(|_| !lease.over));
    }
    row.asked = branch.head.and_then(|head| request(repo, &branch.name, head));
    if lease.over {
        let is_current = repo.checkout().and_then(|here| here.branch).as_ref() == Some(&branch.name);
        let next = "the lease has run out; the next `aynig run` sets the branch stalled";
        row.reason = Some(if is_current {
            format!("{next}; it {}", skipped(authority, branch))
        } else {
            next.to_owned()
        });
    } else if let Some(cancel) = found.heeded {
        row.reason = Some(format!("cancel asked by {}", asked_words(&cancel)));
        // The body is the reason of the request.
        (row.cancel, row.wish) = (Some(cancel.by), None);
    } else if let Some((Cancel { by, .. }, why)) = found.refused {
        row.reason = Some(Warning::CancelNotTrusted { by, why }.to_string());
        row.wish = None;
    } else if row.mistake {
        let lease = &lease.lease;
        let is_here = lease.attempt().is_some_and(|attempt| files::find(repo, attempt).is_some());
        row.reason = Some(asks_again(&branch.name, authority.source(), lease.origin.as_ref(), is_here));
    }
}

/// That a plain run skips the branch checked out here, and the command that runs it.
fn skipped(authority: &Authority, branch: &Branch) -> String {
    let line = in_place(&branch.name, authority.source());
    format!("is checked out here, so plain `aynig run` skips it; `{line}` runs it in place")
}

/// Adds what would run, where, and why again.
fn ready(row: &mut BranchView, command: &str, in_place: Option<String>) {
    row.command = Some(command.to_owned());
    let reasons: Vec<String> = row.again.clone().into_iter().chain(in_place).chain(row.why.clone()).collect();
    row.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
}

/// Adds the bound that parks the branch.
fn parked_by(row: &mut BranchView, words: String, bound: &Bound) {
    row.mistake = !matches!(*bound, Bound::Stalled { .. });
    row.cause = Some(bound.word());
    row.not_before = bound.until();
    row.reason = Some(words.clone());
    row.bound = Some(words);
}

/// Replaces the advice for a driver whose ledger is not here: `git clone` copies branches alone.
fn of_a_stray(row: &mut BranchView, repo: &Repo, head: Option<CommitId>) {
    let Some(Ok(Some(run))) = head.map(|head| run_of(repo, head)) else { return };
    if let (Some(waits), Ok(None)) = (&mut row.waits, repo.read_ref(ledger_ref(run).as_str().into())) {
        waits.whom = "the repository that began its run".to_owned();
        row.reason =
            Some(format!("the ledger of run {run} is not here, so its gate cannot be answered here"));
    }
}

/// Adds how to answer a branch that waits for somebody.
fn for_somebody(row: &mut BranchView, authority: &Authority, name: &BranchName, trouble: Option<&Reason>) {
    row.cause = trouble.map(Reason::word);
    row.mistake = trouble.is_some_and(|reason| reason.severity() == Severity::Misconfigured);
    let remote = authority.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    let is_gate = row.state.as_deref().is_some_and(|state| [GATE, STEP].contains(&state));
    let run = row.branch.strip_suffix("/flow").filter(|_| is_gate).and_then(|name| name.rsplit('/').next());
    let is_of_node = row.state.as_deref().is_some_and(|state| [TURN, IDLE].contains(&state));
    // What else a node waits for is the command itself.
    let asks = row.waits.as_ref().is_some_and(|waits| waits.whom.contains("aynig orch approvals"));
    let hint = match run {
        Some(run) => Some(format!("`aynig flow show {run}` shows what is asked")),
        None if is_of_node => asks.then(|| "`aynig orch approvals` shows what is asked".to_owned()),
        None => Some(format!("`aynig answer {}{remote}` shows what is asked", shell_quote(name))),
    };
    row.reason = match (hint, trouble) {
        (Some(hint), Some(trouble)) => Some(format!("{hint}; {trouble}")),
        (hint, trouble) => hint.or_else(|| trouble.map(ToString::to_string)),
    };
}

/// Adds how to retry a stalled branch.
fn stalled(
    row: &mut BranchView,
    authority: &Authority,
    (surveyed, failed): (&Branch, Option<&StateName>),
    reason: &Reason,
    unsigned: Option<&str>,
) {
    let commit = surveyed.head.map(|head| head.short()).unwrap_or_default();
    if let (Some(why), Some(head)) = (unsigned, surveyed.head) {
        row.reason = Some(format!("{why}; {}", if_you_vouch(&surveyed.name, authority.source(), head)));
        return;
    }
    let hint = format!(
        "`git log -1 {commit}` says why, `{}` asks again",
        requests_again(&surveyed.name, authority.source(), failed)
    );
    // Most workflows have no command for `stalled`.
    row.brief = row.rests.then(|| hint.clone());
    row.reason = Some(format!("{hint}; {reason}"));
}

/// Adds why a state is not run. If it has no command, adds the one that was probably meant.
fn waiting(
    row: &mut BranchView,
    repo: &Repo,
    (authority, from): (&Authority, Option<&CommandsFrom>),
    (branch, stored): (&Branch, Option<&Stored>),
    (state, reason): (&StateName, &Reason),
) {
    let commands = match from {
        Some(from) => from.tree,
        None => stored.and_then(|stored| repo.directory_in(stored.tree, ".aynig").ok()?),
    };
    let commands = commands.filter(|_| row.rests);
    let roles = commands.map(|tree| missing::roles_for(repo, tree, state)).unwrap_or_default();
    if !roles.is_empty() {
        let lines: Vec<String> = roles.iter().map(|role| format!("`{}`", runner(Some(role)))).collect();
        let by = format!("left to runners of its role: {}", lines.join(" or "));
        row.reason = Some(format!("{reason}; {by}"));
        row.brief = Some(by);
        return;
    }
    let near = commands.and_then(|tree| missing::command(repo, tree, state)).zip(stored);
    let question = near.as_ref().map(|(near, _)| format!("did you mean {near}?")).unwrap_or_default();
    row.reason = Some(match &near {
        Some((near, stored)) => {
            let line = missing::corrected(repo, authority, (&branch.name, stored), (state, near));
            format!("{reason}; {question} {line} requests it")
        }
        None => reason.to_string(),
    });
    row.brief = row.rests.then_some(question);
}

/// Why the state is requested again, and where the work is, in words. `stored` is HEAD.
fn again(row: &BranchView, repo: &Repo, stored: Option<&Stored>, most: u32) -> Option<String> {
    let interrupted = row.interrupted.map(|times| Interrupted { times, most }.to_string());
    let mut facts: Vec<String> =
        interrupted.into_iter().chain(row.unable.iter().map(ToString::to_string)).collect();
    if facts.is_empty() {
        return None;
    }
    let saved = row.rescue.as_deref().zip(stored).map(|(name, stored)| saved_below(repo, stored, name));
    facts.extend(saved.map(|saved| format!("work saved: {saved}")));
    Some(facts.join("; "))
}

/// Returns the value of `dwp-state`, valid or not.
fn declared(stored: &Stored) -> Option<String> {
    Message::parse(&stored.message).trailers.last("dwp-state").map(|state| state.to_str_lossy().into_owned())
}

/// Fills in the fields of a state that is not leased.
fn asked(row: &mut BranchView, state: &StateName, stored: Option<&Stored>) {
    row.state = Some(state.to_string());
    if let Some(Head::Ready(event)) = stored.map(|stored| Head::read(&stored.facts())) {
        row.origin = event.message.trailers.last("dwp-origin-state").map(ToString::to_string);
        row.interrupted = interrupted_before(&event.message.trailers);
        row.unable = unable(&event.message.trailers);
        row.rescue = rescued(&event.message.trailers).map(ToString::to_string);
        let stalled = Stall::of(&event).map(|stall| stall.reason).filter(|reason| !reason.is_empty());
        row.why = stalled.or_else(|| misspelt_fields(&event.message.trailers));
    }
}

/// The author of a request, and the reason.
fn asked_words(cancel: &Cancel) -> String {
    if cancel.why.is_empty() { cancel.by.clone() } else { format!("{}: {}", cancel.by, cancel.why) }
}

fn leased(row: &mut BranchView, lease: &Lease, watched: Option<Watched>) {
    row.state = Some("working".to_owned());
    row.origin = lease.origin.as_ref().map(ToString::to_string);
    let kept = Kept::of(&lease.message);
    row.mistake |= matches!(kept, Some(Kept::Invalid(_)));
    row.ended = kept.as_ref().map(Kept::word);
    row.why = kept.as_ref().map(Kept::words);
    row.lease = Some(LeaseView {
        run_id: lease.run_id.to_string(),
        runner: runner_words(lease),
        seconds: lease.seconds,
        expires_at: lease.expires_at(),
        left: 0,
        gone: None,
        seen: watched.map(|watched| match watched {
            Watched::Over { seen, wanted } | Watched::Remaining { seen, wanted, .. } => (seen, wanted),
        }),
    });
}
