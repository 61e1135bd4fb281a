//! A branch's history as a story: who did what, how long it took, what failed and what followed.
//!
//! Invariant: it is read from the commits alone, so anyone with the repository could tell it. Only the
//! durations come from the run, because commits are dated to the second.

use std::collections::HashMap;
use std::time::Duration;

use bstr::ByteSlice;

use crate::cli::ui;
use crate::cli::ui::{BAD, FAINT, GOOD, STRONG, styled};
use aynig::clock;
use aynig::contract::commits::stalled_run;
use aynig::contract::head::{Event, Head};
use aynig::contract::ids::BranchName;
use aynig::contract::lease::Lease;
use aynig::git::Repo;
use aynig::ops::error::Error;

use crate::cli::help::demo::scene::Feature;

/// The duration of each attempt, by its id.
pub(crate) type Times = HashMap<String, Duration>;

/// The story of one branch.
#[derive(Debug)]
pub(crate) struct Story {
    /// Its lines, to be printed.
    pub(crate) lines: Vec<String>,
    /// Its current state; none while it is leased.
    pub(crate) state: Option<String>,
}

/// Tells the story of `feature`'s branch.
pub(crate) fn tell(repo: &Repo, feature: &Feature, times: &Times) -> Result<Story, Error> {
    let branch = feature.branch();
    let mut lines =
        vec![format!("{}  {}", styled(STRONG, &branch), styled(FAINT, format!("\"{}\"", feature.wish)))];
    let mut lease: Option<Lease> = None;
    let mut state = None;
    for head in heads(repo, &branch)? {
        match head {
            Head::Working(held) => (lease, state) = (Some(held), None),
            Head::Ready(event) => {
                lines.push(format!("  {}", sentence(&event, lease.take().as_ref(), times)));
                state = Some(event.state.to_string());
            }
            Head::Unmanaged | Head::Invalid(_) => {}
        }
    }
    Ok(Story { lines, state })
}

/// The HEADs of the branch's history, oldest first.
fn heads(repo: &Repo, branch: &BranchName) -> Result<Vec<Head>, Error> {
    let trying = format!("read the history of {branch}");
    let tip = repo
        .branch_head(branch)
        .map_err(|error| Error::because(&trying, &error))?
        .ok_or_else(|| Error::setup(format!("could not {trying}: it is gone")))?;
    let mut heads = Vec::new();
    for stored in repo.history(tip) {
        let stored = stored.map_err(|error| Error::because(&trying, &error))?;
        heads.push(Head::read(&stored.facts()));
    }
    heads.reverse();
    Ok(heads)
}

/// One transition: the command, the resulting state, its duration, and the reason.
fn sentence(event: &Event, lease: Option<&Lease>, times: &Times) -> String {
    let hash = styled(FAINT, event.commit.short());
    let Some(lease) = lease else {
        return format!("{hash}  {:>9} → {:<9}  asked for, by hand", "", event.state.as_str());
    };
    let from = lease.origin.as_ref().map_or("?", |state| state.as_str());
    let run = lease.run_id.to_str_lossy();
    let time = times.get(run.as_ref()).map_or_else(String::new, |time| short(*time));
    let to = format!("{:<9}", event.state.as_str());
    let (to, why) = if event.state.is_stalled() && stalled_run(&event.message.trailers).is_some() {
        (styled(BAD, to), failure(event, from))
    } else if event.state.as_str() == "done" {
        (styled(GOOD, to), event.message.subject.to_str_lossy().into_owned())
    } else {
        (to, event.message.subject.to_str_lossy().into_owned())
    };
    format!("{hash}  {from:>9} → {to}  {time:>6}  {}", ui::sanitize(&why))
}

/// A duration of mostly milliseconds.
fn short(time: Duration) -> String {
    if time < Duration::from_secs(1) { format!("{} ms", time.as_millis()) } else { clock::duration(time) }
}

/// The reason in a stalled commit: the most telling line of output, else the outcome.
fn failure(event: &Event, from: &str) -> String {
    let body = event.message.body.to_str_lossy();
    let said = body.lines().map(str::trim).find(|line| line.starts_with("FAILED "));
    match said {
        Some(line) => format!("{from} did not exit with 0: {line}"),
        None => body.lines().next().unwrap_or("no reason was given").to_owned(),
    }
}
