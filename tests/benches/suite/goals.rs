//! What the cases are held against: a goal, what this run measured, and the floor beside it.

use super::measure::median;
use super::{Row, Sample, as_float};

/// One goal for the number that a row gives.
struct Goal {
    /// How the text of its row begins. A size in it is `*`.
    row: &'static str,
    what: &'static str,
    number: fn(&Row) -> f64,
    /// The floor's number, if there is a floor.
    floor: Option<fn(&Row) -> f64>,
    limit: Limit,
    unit: &'static str,
}

enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

use Limit::{AtLeast, AtMost};

/// The time of a step in milliseconds.
fn ours(row: &Row) -> f64 {
    wall(row, &row.ours)
}

fn floor(row: &Row) -> f64 {
    wall(row, &row.git)
}

fn wall(row: &Row, samples: &[Sample]) -> f64 {
    median(samples.iter().map(|sample| sample.wall_ms)) / row.steps.map_or(1.0, as_float)
}

/// The time that exceeds the floor's, in milliseconds.
fn above(row: &Row) -> f64 {
    median(row.git.iter().zip(&row.ours).map(|(git, ours)| ours.wall_ms - git.wall_ms))
}

/// The time as a part of the floor's.
fn part(row: &Row) -> f64 {
    median(row.git.iter().zip(&row.ours).map(|(git, ours)| ours.wall_ms / git.wall_ms))
}

fn peak(row: &Row) -> f64 {
    let kib = row.ours.iter().map(|sample| sample.peak_kib).max().unwrap_or(0);
    as_float(usize::try_from(kib).unwrap_or(usize::MAX)) / 1024.0
}

/// How many in a second.
fn rate(row: &Row) -> f64 {
    1000.0 / ours(row)
}

fn floor_rate(row: &Row) -> f64 {
    1000.0 / floor(row)
}

fn other(row: &Row) -> f64 {
    row.other.unwrap_or(f64::NAN)
}

const GOALS: [Goal; 31] = [
    Goal {
        row: "* operations on a ledger by 8 writers",
        what: "operations on a ledger, 8 writers together",
        number: rate,
        floor: Some(floor_rate),
        limit: AtLeast(100.0),
        unit: "a second",
    },
    Goal {
        row: "* operations on a ledger by one writer",
        what: "an operation on a ledger",
        number: ours,
        floor: Some(floor),
        limit: AtMost(10.0),
        unit: "ms",
    },
    Goal {
        row: "* operations on a ledger by one writer",
        what: "the ledger of these turns, packed",
        number: other,
        floor: None,
        limit: AtMost(50.0),
        unit: "MiB",
    },
    Goal {
        row: "* events into a journal",
        what: "events into a journal, in synced groups",
        number: |row| other(row) * rate(row),
        floor: Some(|row| other(row) * floor_rate(row)),
        limit: AtLeast(80_000.0),
        unit: "a second",
    },
    Goal {
        row: "* events folded",
        what: "1,000,000 events folded into a state",
        number: |row| ours(row) * 1_000_000.0 / other(row),
        floor: Some(|row| floor(row) * 1_000_000.0 / other(row)),
        limit: AtMost(2_000.0),
        unit: "ms",
    },
    Goal {
        row: "* events folded",
        what: "memory for it",
        number: peak,
        floor: None,
        limit: AtMost(64.0),
        unit: "MiB",
    },
    Goal {
        row: "the newest",
        what: "the newest page of a journal",
        number: ours,
        floor: Some(floor),
        limit: AtMost(20.0),
        unit: "ms",
    },
    Goal {
        row: "workspace rollback",
        what: "a rollback, as a part of `git worktree remove` and `add`",
        number: part,
        floor: None,
        limit: AtMost(0.25),
        unit: "",
    },
    Goal {
        row: "a step of a flow:",
        what: "a step of a flow",
        number: ours,
        floor: Some(floor),
        limit: AtMost(15.0),
        unit: "ms",
    },
    Goal {
        row: "a step of a flow through",
        what: "a step of a flow through a hub",
        number: ours,
        floor: Some(floor),
        limit: AtMost(60.0),
        unit: "ms",
    },
    Goal {
        row: "* steps of a flow, in all",
        what: "40 steps of a flow",
        number: ours,
        floor: Some(floor),
        limit: AtMost(600.0),
        unit: "ms",
    },
    Goal {
        row: "flow start",
        what: "a flow's start to its first agent, above plain git",
        number: above,
        floor: None,
        limit: AtMost(40.0),
        unit: "ms",
    },
    Goal {
        row: "idle pass, * flows at a gate",
        what: "an idle pass over 10,000 gates, above `for-each-ref`",
        number: above,
        floor: None,
        limit: AtMost(50.0),
        unit: "ms",
    },
    Goal {
        row: "of it:",
        what: "a message to a node to its agent",
        number: ours,
        floor: Some(floor),
        limit: AtMost(60.0),
        unit: "ms",
    },
    Goal {
        row: "of it through",
        what: "a message to a node to its agent through a hub",
        number: ours,
        floor: Some(floor),
        limit: AtMost(250.0),
        unit: "ms",
    },
    Goal {
        row: "a hand-off between two hosts",
        what: "a hand-off between hosts that ask every 2 s",
        number: ours,
        floor: Some(floor),
        limit: AtMost(3_000.0),
        unit: "ms",
    },
    Goal {
        row: "from the append of an event",
        what: "99 of 100 events to 50 clients",
        number: ours,
        floor: Some(floor),
        limit: AtMost(100.0),
        unit: "ms",
    },
    growth("a push of a state: * runs of", "a push with 1,000 runs, as a multiple of 10 runs"),
    growth("a pass with nothing to do: * runs of", "a pass, likewise"),
    growth("`status` of one branch: * runs of", "`status`, likewise"),
    growth("`orch run list`: * runs of", "`orch run list`, likewise"),
    growth("`status --all`: * runs of", "`status --all`, likewise"),
    growth("`clean`, which only shows: * runs of", "`clean`, likewise"),
    growth("the page's list: * runs of", "the page's list, likewise"),
    growth("a push of a state: * runs after", "a push after 990 of the runs have ended, and `clean`"),
    growth("a pass with nothing to do: * runs after", "a pass, likewise"),
    growth("`status` of one branch: * runs after", "`status`, likewise"),
    growth("`orch run list`: * runs after", "`orch run list`, likewise"),
    growth("`status --all`: * runs after", "`status --all`, likewise"),
    growth("`clean`, which only shows: * runs after", "`clean`, likewise"),
    growth("the page's list: * runs after", "the page's list, likewise"),
];

/// The goal of a call in a repository with many runs: at most twice its time with few. The floor is plain git's growth.
const fn growth(row: &'static str, what: &'static str) -> Goal {
    Goal { row, what, number: part, floor: Some(other), limit: AtMost(2.0), unit: "" }
}

/// The lines above the table of goals.
pub(crate) const HEAD: &str = "| goal | at most | measured | floor | |\n|---|---|---|---|---|";

/// Whether a text begins like this, where `*` is a number.
fn begins(text: &str, start: &str) -> bool {
    match start.split_once('*') {
        Some((before, after)) => text
            .strip_prefix(before)
            .is_some_and(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(after)),
        None => text.starts_with(start),
    }
}

/// The lines of the goals that a row of a table belongs to.
pub(super) fn lines(row: &Row) -> Vec<String> {
    let of_row = GOALS.iter().filter(|goal| begins(&row.what, goal.row));
    of_row.map(|goal| goal.line(row)).collect()
}

impl Goal {
    fn line(&self, row: &Row) -> String {
        let number = (self.number)(row);
        let (limit, met) = match self.limit {
            AtMost(limit) => (format!("{} {}", shown(limit), self.unit), number <= limit),
            AtLeast(limit) => (format!("at least {} {}", shown(limit), self.unit), number >= limit),
        };
        let floor = self.floor.map_or_else(|| "–".to_owned(), |floor| shown(floor(row)));
        let met = if met { "met" } else { "**missed**" };
        format!("| {} | {} | {} | {floor} | {met} |", self.what, limit.trim_end(), shown(number))
    }
}

fn shown(number: f64) -> String {
    match number {
        _ if number < 1.0 => format!("{number:.2}"),
        _ if number < 100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}
