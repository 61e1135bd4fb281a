//! `aynig clean`: shows and removes the leftovers of finished attempts.
//!
//! Invariant: without `--apply` nothing is removed, and each line gives the item, its age, its size and the
//! reason. `runner::clean` decides.

use std::os::unix::ffi::OsStrExt;

use aynig::clock;
use aynig::contract::ids::BranchName;
use aynig::contract::retention::age_words;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::flows::leftovers::{ask_for_deleted, drivers, main_branch, workspaces as ended};
use aynig::ops::inside::persons_only;
use aynig::ops::runs::leftovers::leftovers;
use aynig::ops::runs::list;
use aynig::ops::workspace;
use aynig::runner::clean;
use aynig::runner::clean::{Action, CleanOptions, Item, Kind, Merged, Report};
use aynig::runner::pluralize;

use crate::cli::args::Clean;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::{end_calls, shutdown};
use crate::cli::ui::{BAD, CARE, FAINT, GOOD, STRONG, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Clean) -> Result<Exit, Error> {
    if arguments.apply {
        persons_only("cleaning up")?;
    }
    let repo = app.repo();
    let named = arguments.into.as_ref().map(|name| {
        BranchName::new(name.as_bytes()).map_err(|error| Error::usage(format!("--into: {error}")))
    });
    let named = named.transpose()?;
    let main = main_branch(&repo, named.as_ref())?;
    if let (Some(named), None) = (&named, &main) {
        return Err(Error::usage(format!("--into {named}: there is no such branch"))
            .hint("`git branch --all` lists the branches there are"));
    }
    let narrowed = arguments.logs
        || arguments.worktrees
        || arguments.rescue
        || arguments.deferred
        || arguments.workspaces
        || arguments.runs;
    let workspaces = workspace::at(&repo, &app.process, shutdown()?)?;
    let wanted = CleanOptions {
        logs: arguments.logs || !narrowed,
        worktrees: arguments.worktrees || !narrowed,
        rescue: arguments.rescue || !narrowed,
        deferred: arguments.deferred || !narrowed,
        deferred_asked: arguments.deferred,
        workspaces: arguments.workspaces || !narrowed,
        workspaces_asked: arguments.workspaces,
        runs: arguments.runs || !narrowed,
        runs_asked: arguments.runs,
        lasting: workspaces.lasting()?,
        older_than: arguments.older_than,
        keep: arguments.keep,
        main,
        hints: !narrowed,
        apply: arguments.apply,
        now: clock::wall_seconds(),
    };
    if wanted.workspaces {
        end_calls(&repo)?;
        ask_for_deleted(&repo, &workspaces)?.iter().for_each(|words| ui::warn(words));
    }
    let mut report = clean::clean(&repo, &wanted)?;
    // Files of deleted runs are moved first.
    let all = if wanted.runs || wanted.workspaces { list(&repo)? } else { Vec::new() };
    let of_runs = leftovers(&repo, &wanted, &all)?;
    report.add(workspaces.leftovers(&wanted)?);
    report.add(of_runs);
    report.add(drivers(&repo, &wanted, &all)?);
    report.add(ended(&repo, &workspaces, &wanted, &all)?);
    let failed = report.items.iter().any(|item| item.action == Action::Failed);
    if arguments.json {
        ui::answer_json(&report);
    } else {
        for line in lines(&report) {
            ui::answer(&line);
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Worktree => "worktree",
        Kind::Logs => "logs",
        Kind::Sightings => "sightings",
        Kind::Rescue => "rescue",
        Kind::Deferred => "deferred",
        Kind::Workspace => "workspace",
        Kind::Archive => "archive",
        Kind::Run => "run",
        Kind::Driver => "driver",
    }
}

fn action(action: Action) -> (&'static str, anstyle::Style) {
    match action {
        Action::Remove => ("would go", CARE),
        Action::Removed => ("removed", GOOD),
        Action::Stays => ("stays", FAINT),
        Action::Failed => ("failed", BAD),
    }
}

fn lines(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report.items.iter().flat_map(item_lines).collect();
    lines.extend(report.merged.iter().flat_map(merged_lines));
    let count = |action: Action| report.items.iter().filter(|item| item.action == action).count();
    if report.retained > 0 {
        lines.push(styled(
            FAINT,
            format!(
                "kept the logs of {}: in use, recent, or the newest of a branch (--older-than, --keep)",
                pluralize(report.retained, "attempt")
            ),
        ));
    }
    let (going, disk) = match report.applied {
        true => (format!("{} removed", count(Action::Removed)), "now"),
        false => (format!("{} would be removed", count(Action::Remove)), "afterwards"),
    };
    lines.push(format!(
        "{going}, {} stay; on disk: {} before, {} {disk}",
        count(Action::Stays) + count(Action::Failed),
        size(report.before),
        size(report.after)
    ));
    if !report.applied && count(Action::Remove) > 0 {
        lines.push("Nothing was removed; the same command with --apply does it.".to_owned());
    }
    lines
}

fn item_lines(item: &Item) -> Vec<String> {
    let (word, style) = action(item.action);
    let mut about: Vec<String> = Vec::new();
    about.extend(item.branch.as_ref().map(|branch| format!("branch {branch}")));
    about.extend(item.age.map(|age| format!("{} old", age_words(age))));
    about.extend(item.bytes.map(size));
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let mut lines = vec![format!(
        "{}  {:9}  {}{}: {}",
        styled(style, format!("{word:8}")),
        kind(item.kind),
        styled(STRONG, ui::sanitize(&item.name)),
        ui::sanitize(&about),
        ui::sanitize(&item.why)
    )];
    lines.extend(item.next.as_ref().map(|next| format!("          next: {}", ui::sanitize(next))));
    lines
}

fn merged_lines(merged: &Merged) -> [String; 2] {
    let about = format!("its work is in {}: {}", merged.into, merged.how);
    [
        format!(
            "{}  {:9}  {}: {}",
            styled(CARE, "merged  "),
            "branch",
            styled(STRONG, ui::sanitize(&merged.branch.to_string())),
            ui::sanitize(&about)
        ),
        format!("          to remove it: {}", ui::sanitize(&merged.command)),
    ]
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, words) in
            [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")]
        {
            assert_eq!(size(bytes), words);
        }
    }
}
