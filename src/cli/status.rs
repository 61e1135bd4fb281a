//! `aynig status`: what branches are, who holds them, and what would be run.
//!
//! Invariant: it reads the same scan as a pass, so what it says is what `aynig run` would do at this moment, and it
//! changes nothing. The wording of reasons is `runner::scan`'s and `runner::resolve`'s.

use std::time::Duration;

use bstr::ByteSlice;
use serde_json::{Value, json};

use crate::clock;
use crate::contract::head::Event;
use crate::contract::ids::BranchName;
use crate::contract::lease::{Lease, Liveness};
use crate::contract::message::Message;
use crate::contract::sighting::Watched;
use crate::git::commit::Stored;
use crate::git::{Repo, Store};
use crate::runner::arbiter::Arbiter;
use crate::runner::observe::recall;
use crate::runner::options::{CurrentBranch, Options, Selection};
use crate::runner::scan::{Candidate, Scanned, Venue, Verdict, scan};
use crate::runner::trust::vet;
use crate::runner::typed;

use super::args::Status;
use super::entry::Surroundings;
use super::error::{CommandError, Exit};
use super::run::{branch_globs, plain_options, role};
use super::settings;
use super::target::{self, runner_words};
use super::ui::{self, BAD, CARE, FAINT, GOOD, STRONG, styled};

const IN_PLACE: &str = "is checked out here, so plain `aynig run` skips it; `aynig run --current-branch include` runs it in place";

/// One branch, ready to be shown.
#[derive(Debug, Default)]
struct Row {
    branch: String,
    commit: Option<String>,
    state: Option<String>,
    kind: &'static str,
    origin: Option<String>,
    lease: Option<LeaseRow>,
    command: Option<String>,
    reason: Option<String>,
    subject: Option<String>,
    committed_at: Option<i64>,
    not_before: Option<i64>,
}

#[derive(Debug)]
struct LeaseRow {
    run_id: String,
    runner: String,
    seconds: u64,
    expires_at: i64,
    /// Negative once it is over.
    left: i64,
    /// For how many seconds passes on this host have seen it, and how many a takeover by that takes.
    seen: Option<(u64, u64)>,
}

/// Runs the subcommand.
pub fn run(store: &Store, surroundings: &Surroundings, arguments: &Status) -> Result<Exit, CommandError> {
    let repo = store.handle();
    let arbiter = target::arbiter(&repo, arguments.remote.as_ref())?;
    arbiter.refresh(&repo)?;
    let plain = Options {
        role: role(&repo, arguments.role.clone())?,
        trust: settings::trust(&repo)?,
        ..plain_options(&repo, surroundings)
    };
    if arguments.all || !arguments.branch.is_empty() {
        let globs = branch_globs(&arguments.branch)?;
        let options = Options { selection: Selection { globs, ..Selection::everything() }, ..plain };
        return several(&repo, &arbiter, &options, arguments);
    }
    let branch = target::branch(&repo, &arbiter, None)?;
    target::existing_head(&repo, &arbiter, &branch)?;
    one(&repo, &arbiter, &plain, &branch, arguments.json)
}

fn several(
    repo: &Repo,
    arbiter: &Arbiter,
    options: &Options,
    arguments: &Status,
) -> Result<Exit, CommandError> {
    let now = clock::wall_seconds();
    let mut rows = Vec::new();
    let mut unmanaged = 0_usize;
    let mut seen = scan(repo, arbiter, options, now)?;
    recall(repo, arbiter, options, &mut seen);
    vet(repo, &options.trust, &mut seen);
    for scanned in seen {
        if !options.selection.admits(&scanned.branch) {
            continue;
        }
        // A branch that was asked for by name is an answer, whatever it is.
        if matches!(scanned.verdict, Verdict::Unmanaged) && arguments.branch.is_empty() {
            unmanaged += 1;
            continue;
        }
        rows.push(row(repo, arbiter, &scanned, now));
    }
    if arguments.json {
        ui::answer_json(&rows.iter().map(row_json).collect());
        return Ok(Exit::Done);
    }
    for line in table(&rows) {
        ui::answer(&line);
    }
    match (unmanaged, rows.is_empty()) {
        (0, true) => ui::narrate("no branch matches"),
        (0, false) => {}
        (1, _) => ui::narrate(&styled(FAINT, "1 branch declares no state")),
        (count, _) => ui::narrate(&styled(FAINT, format!("{count} branches declare no state"))),
    }
    Ok(Exit::Done)
}

fn one(
    repo: &Repo,
    arbiter: &Arbiter,
    plain: &Options,
    branch: &BranchName,
    json: bool,
) -> Result<Exit, CommandError> {
    let now = clock::wall_seconds();
    let name = globset::escape(&branch.to_string());
    let globs = branch_globs(&[name])?;
    let options =
        Options { selection: Selection { current: CurrentBranch::Include, globs }, ..plain.clone() };
    let mut seen = scan(repo, arbiter, &options, now)?;
    recall(repo, arbiter, &options, &mut seen);
    vet(repo, &options.trust, &mut seen);
    let Some(scanned) = seen.iter().find(|scanned| scanned.branch == *branch) else {
        return Err(CommandError::failed(format!("branch {branch} vanished while it was looked at"))
            .hint("`git branch` lists the branches there are"));
    };
    let row = row(repo, arbiter, scanned, now);
    if json {
        ui::answer_json(&row_json(&row));
    } else {
        for line in lines(&row) {
            ui::answer(&line);
        }
    }
    Ok(Exit::Done)
}

fn row(repo: &Repo, arbiter: &Arbiter, scanned: &Scanned, now: i64) -> Row {
    let stored = scanned.head.and_then(|head| repo.commit(head).ok());
    let mut row = Row {
        branch: scanned.branch.to_string(),
        commit: scanned.head.map(|head| head.to_string()),
        subject: stored.as_ref().map(|stored| Message::parse(&stored.message).subject.to_string()),
        committed_at: stored.as_ref().map(|stored| stored.committed_at),
        ..Row::default()
    };
    let current = repo.checkout().and_then(|here| here.branch).as_ref() == Some(&scanned.branch);
    match &scanned.verdict {
        Verdict::Unmanaged => {
            row.kind = "unmanaged";
            row.reason = Some("HEAD declares no state".to_owned());
        }
        Verdict::Invalid { why } => {
            row.kind = "invalid";
            row.state = stored.as_ref().and_then(declared);
            row.reason = Some(why.clone());
        }
        Verdict::Held(lease) => {
            row.kind = "working";
            leased(&mut row, lease, now, scanned.watched);
        }
        Verdict::Expired(lease) => {
            row.kind = "expired";
            leased(&mut row, lease, now, scanned.watched);
            let next = "the lease has run out; the next `aynig run` sets the branch stalled";
            row.reason = Some(if current { format!("{next}; it {IN_PLACE}") } else { next.to_owned() });
        }
        Verdict::Passed { event, reason, .. } => {
            row.kind = "waiting";
            ready(&mut row, event);
            row.reason = Some(if event.state.is_stalled() {
                let branch = typed(&row.branch);
                let remote = arbiter.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
                format!(
                    "`git log -1 {}` says why, `aynig set-state --retry --branch {branch}{remote}` asks again; {reason}",
                    event.commit.short()
                )
            } else {
                reason.clone()
            });
        }
        Verdict::Parked { event, until } => {
            row.kind = "parked";
            ready(&mut row, event);
            row.not_before = Some(*until);
            let left = ui::duration(Duration::from_secs(until.abs_diff(now)));
            row.reason = Some(format!("until {} (in {left})", clock::format_utc(*until)));
        }
        Verdict::Ready(Candidate { event, command, venue, .. }) => {
            row.kind = "ready";
            ready(&mut row, event);
            row.command = Some(command.path.clone());
            row.reason = (*venue == Venue::InPlace).then(|| IN_PLACE.to_owned());
        }
        Verdict::Excluded { reason } => {
            row.kind = "excluded";
            row.reason = Some(reason.clone());
        }
    }
    row
}

/// What `dwp-state` says, legal or not.
fn declared(stored: &Stored) -> Option<String> {
    Message::parse(&stored.message).trailers.last("dwp-state").map(|state| state.to_str_lossy().into_owned())
}

fn ready(row: &mut Row, event: &Event) {
    row.state = Some(event.state.to_string());
    let origin = event.message.trailers.last("dwp-origin-state");
    row.origin = origin.map(ToString::to_string);
}

fn leased(row: &mut Row, lease: &Lease, now: i64, watched: Option<Watched>) {
    row.state = Some("working".to_owned());
    row.origin = lease.origin.as_ref().map(ToString::to_string);
    let left = match lease.liveness(now) {
        Liveness::Live { left } => i64::try_from(left).unwrap_or(i64::MAX),
        Liveness::Expired { over } => -i64::try_from(over).unwrap_or(i64::MAX),
    };
    row.lease = Some(LeaseRow {
        run_id: lease.run_id.to_string(),
        runner: runner_words(lease),
        seconds: lease.seconds,
        expires_at: lease.expires_at(),
        left,
        seen: watched.map(|watched| match watched {
            Watched::Over { seen, wanted } | Watched::Remaining { seen, wanted, .. } => (seen, wanted),
        }),
    });
}

fn row_json(row: &Row) -> Value {
    let lease = row.lease.as_ref();
    json!({
        "branch": row.branch,
        "commit": row.commit,
        "state": row.state,
        "kind": row.kind,
        "originState": row.origin,
        "runId": lease.map(|lease| &lease.run_id),
        "runner": lease.map(|lease| &lease.runner),
        "leaseSeconds": lease.map(|lease| lease.seconds),
        "expiresAt": lease.map(|lease| clock::format_utc(lease.expires_at)),
        "secondsLeft": lease.map(|lease| lease.left),
        "notBefore": row.not_before.map(clock::format_utc),
        "secondsSeen": lease.and_then(|lease| lease.seen).map(|(seen, _)| seen),
        "command": row.command,
        "reason": row.reason,
        "subject": row.subject,
        "date": row.committed_at.map(clock::format_utc),
    })
}

fn style(row: &Row) -> anstyle::Style {
    match row.kind {
        "ready" => GOOD,
        "working" => CARE,
        "expired" | "invalid" => BAD,
        _ if row.state.as_deref() == Some("stalled") => BAD,
        "waiting" | "parked" => STRONG,
        _ => FAINT,
    }
}

/// The state as people read it: `working (review)` where a lease says what for.
fn state_words(row: &Row) -> String {
    let state = row.state.clone().unwrap_or_else(|| "-".to_owned());
    let words = match (&row.lease, &row.origin) {
        (Some(_), Some(origin)) => format!("{state} ({origin})"),
        _ => state,
    };
    ui::harmless(&words)
}

/// What comes next, as people read it.
fn next_words(row: &Row) -> String {
    let words = match (&row.lease, &row.command, &row.reason) {
        (Some(lease), _, _) if lease.left < 0 => {
            format!("{}: expired {} s ago{}", lease.runner, lease.left.unsigned_abs(), seen_words(lease))
        }
        (Some(lease), _, _) => format!("{}: {} s left{}", lease.runner, lease.left, seen_words(lease)),
        (None, Some(command), Some(reason)) => format!("{command} ({reason})"),
        (None, Some(command), None) => command.clone(),
        (None, None, reason) => reason.clone().unwrap_or_default(),
    };
    ui::harmless(&words)
}

/// For how long a lease has been seen, where that is counted.
fn seen_words(lease: &LeaseRow) -> String {
    lease.seen.map_or_else(String::new, |(seen, wanted)| format!(", seen for {seen} s of {wanted} s"))
}

fn table(rows: &[Row]) -> Vec<String> {
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let branches = width(&mut rows.iter().map(|row| ui::harmless(&row.branch).chars().count()));
    let states = width(&mut rows.iter().map(|row| state_words(row).chars().count()));
    rows.iter()
        .map(|row| {
            format!(
                "{}  {}  {}  {}",
                styled(STRONG, format!("{:branches$}", ui::harmless(&row.branch))),
                styled(style(row), format!("{:states$}", state_words(row))),
                styled(FAINT, format!("{:9}", row.kind)),
                next_words(row)
            )
        })
        .collect()
}

fn lines(row: &Row) -> Vec<String> {
    let mut lines = vec![format!(
        "{}  {}  {}",
        styled(STRONG, ui::harmless(&row.branch)),
        styled(style(row), state_words(row)),
        styled(FAINT, row.kind)
    )];
    let mut add = |label: &str, text: &str| lines.push(format!("  {label:9}{}", ui::harmless(text)));
    if let (Some(commit), Some(subject)) = (&row.commit, &row.subject) {
        let short: String = commit.chars().take(10).collect();
        let date = row.committed_at.map(clock::format_utc).unwrap_or_default();
        add("commit", &format!("{short}  {date}  {subject}"));
    }
    if let Some(lease) = &row.lease {
        let until = clock::format_utc(lease.expires_at);
        let left = if lease.left < 0 {
            format!("expired {} s ago ({until})", lease.left.unsigned_abs())
        } else {
            format!("{} s left (until {until})", lease.left)
        };
        let seen = seen_words(lease);
        add("lease", &format!("{}, attempt {}, {left}{seen}", lease.runner, lease.run_id));
    }
    if let Some(command) = &row.command {
        add("command", command);
    }
    if let Some(reason) = &row.reason {
        add("note", reason);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let lease = |left| {
            Some(LeaseRow {
                run_id: "r".into(),
                runner: "host\u{1b}".into(),
                seconds: 60,
                expires_at: 1_000,
                left,
                seen: (left < 0).then_some((31, 40)),
            })
        };
        let row = |branch: &str, state: &str, kind| Row {
            branch: branch.into(),
            state: Some(state.into()),
            kind,
            ..Row::default()
        };
        vec![
            Row { command: Some(".aynig/command/review".into()), ..row("a", "review", "ready") },
            Row { lease: lease(7), origin: Some("build".into()), ..row("feature/b", "working", "working") },
            Row { lease: lease(-9), ..row("c", "working", "expired") },
        ]
    }

    #[test]
    fn the_table_is_aligned_and_harmless() {
        let plain: Vec<String> =
            table(&rows()).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(
            plain,
            [
                "a          review           ready      .aynig/command/review",
                "feature/b  working (build)  working    host\u{fffd}: 7 s left",
                "c          working          expired    host\u{fffd}: expired 9 s ago, seen for 31 s of 40 s",
            ]
        );
    }
}
