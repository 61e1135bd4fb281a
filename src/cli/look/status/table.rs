//! Renders branches: one branch in a few lines, or several as a table.
//!
//! Invariant: on a terminal no line of the table is wider than the terminal, and cut text ends in `…`.
//! Without a terminal each branch is one complete line, for `grep` and `awk`. The next step is never cut,
//! because it is to be copied: it gets a line of its own.

use crate::cli::ui;
use crate::cli::ui::columns::{cell, cut, width};
use crate::cli::ui::{BAD, CALL, CARE, FAINT, GOOD, STRONG, styled};
use aynig::clock;
use aynig::ops::view::branch::{BranchView, KINDS, LeaseView, WAITS, WaitsView};
use aynig::runner::pluralize;

/// The gap between two columns.
const GAP: usize = 2;

/// The minimum width of a name on a narrow terminal.
const LEAST: usize = 6;

/// The maximum width of a subject shown with other text.
const MOST_ABOUT: usize = 50;

/// The widest name without a terminal that others are padded to. A wider one is shown in full.
const MOST_PADDED: usize = 60;

/// How many of the [`KINDS`], which are in the order of the table, have a line of their own that says what to type.
const WANTED: usize = 4;

/// Sorts for people: branches that need one first, then by name.
pub(crate) fn sort(rows: &mut [BranchView]) {
    rows.sort_by_cached_key(|row| (rank(row), row.branch.clone()));
}

fn rank(row: &BranchView) -> usize {
    let place = KINDS.iter().position(|label| *label == row.label()).unwrap_or(KINDS.len());
    // Meant to run, so it comes next to the invalid ones.
    if row.mistake && !row.is_stalled() && row.waits.is_none() { 2 } else { place }
}

/// The summary in one line: `12 branches: 1 stalled, 2 working; 3 branches declare no state`.
pub(crate) fn summary(rows: &[BranchView], unmanaged: usize) -> String {
    let counts: Vec<String> = KINDS
        .iter()
        .map(|label| (rows.iter().filter(|row| row.label() == *label).count(), label))
        .filter(|(count, _)| *count > 0)
        .map(|(count, label)| match (*label, count) {
            (WAITS, 1) => "1 waits for you".to_owned(),
            (WAITS, many) => format!("{many} wait for you"),
            (label, count) => format!("{count} {label}"),
        })
        .collect();
    let mut parts = Vec::new();
    if !rows.is_empty() {
        parts.push(format!("{}: {}", pluralize(rows.len(), "branch"), counts.join(", ")));
    }
    if unmanaged > 0 {
        let verb = if unmanaged == 1 { "declares" } else { "declare" };
        parts.push(format!("{} {verb} no state", pluralize(unmanaged, "branch")));
    }
    parts.join("; ")
}

fn style(row: &BranchView) -> anstyle::Style {
    match row.kind {
        WAITS if !row.mistake => CALL,
        "ready" => GOOD,
        "working" if !row.mistake => CARE,
        "expired" | "invalid" => BAD,
        _ if row.state.as_deref() == Some("stalled") || row.mistake => BAD,
        _ if row.rests => FAINT,
        "waiting" | "parked" => STRONG,
        _ => FAINT,
    }
}

/// The state for people: `working (review)` if the lease names the triggering state.
fn state_words(row: &BranchView) -> String {
    let state = row.state.clone().unwrap_or_else(|| "-".to_owned());
    let words = match (&row.lease, &row.origin) {
        (Some(_), Some(origin)) => format!("{state} ({origin})"),
        _ => state,
    };
    ui::sanitize(&words)
}

/// The name that it waits for, since when, and the answers.
fn question_words(row: &BranchView, waits: &WaitsView) -> String {
    let answers = waits.answers.as_ref().map(|answers| format!(": {}", answers.join(", ")));
    format!("{}, for {}{}", waits.whom, waited_words(row, waits, clock::span), answers.unwrap_or_default())
}

/// How long an answer has been waited for, and how long it will be.
fn waited_words(row: &BranchView, waits: &WaitsView, span: fn(u64) -> String) -> String {
    let left = row.wakes_in.map(|left| match left {
        1.. => format!(", {} left", span(left.unsigned_abs())),
        _ => format!(", over {}", span(left.unsigned_abs())),
    });
    format!("{}{}", span(waits.age), left.unwrap_or_default())
}

/// The next step for people, for output in which a line may be long.
fn next_words(row: &BranchView) -> String {
    if let Some(waits) = &row.waits {
        let more = if row.in_brief().is_empty() { String::new() } else { format!(" ({})", row.in_brief()) };
        return ui::sanitize(&(question_words(row, waits) + &more));
    }
    let first = match (&row.lease, &row.command, &row.why) {
        (Some(lease), _, _) => {
            let more = [&row.why, &row.reason, &lease.gone];
            let more: Vec<&str> = more.into_iter().flatten().map(String::as_str).collect();
            let is_wanted = row.mistake
                || row.cancel.is_some()
                || row.deferred.is_some()
                || lease.gone.is_some()
                || row.ended.is_some();
            let more =
                if is_wanted && !more.is_empty() { format!(" ({})", more.join("; ")) } else { String::new() };
            return ui::sanitize(&format!("{}: {}{more}", lease.runner, time_words(lease)));
        }
        (None, Some(first), _) | (None, None, Some(first)) => first.as_str(),
        (None, None, None) => "",
    };
    let words = match (first, row.in_brief()) {
        ("", only) | (only, "") => only.to_owned(),
        (first, more) => format!("{first} ({more})"),
    };
    ui::sanitize(&words)
}

/// The time left of a lease, and how long it has been observed if that counts.
fn time_words(lease: &LeaseView) -> String {
    let left = clock::span(lease.left.unsigned_abs());
    let words = if lease.left < 0 { format!("expired {left} ago") } else { format!("{left} left") };
    format!("{words}{}", seen_words(lease))
}

fn seen_words(lease: &LeaseView) -> String {
    lease.seen.map_or_else(String::new, |(seen, wanted)| {
        format!(", seen for {} of {}", clock::span(seen), clock::span(wanted))
    })
}

/// A complete line for each branch.
pub(crate) fn plain(rows: &[BranchView]) -> Vec<String> {
    let widest = |of: &dyn Fn(&BranchView) -> String| {
        let widths = rows.iter().map(|row| width(&of(row)));
        widths.filter(|width| *width <= MOST_PADDED).max().unwrap_or(0)
    };
    let padded = |text: &str, columns: usize| cell(text, columns.max(width(text)));
    let branches = widest(&|row| ui::sanitize(&row.branch));
    let states = widest(&state_words);
    let labels = widest(&|row| row.label().to_owned()).max(9);
    rows.iter()
        .map(|row| {
            let subject = row.about().filter(|words| !words.is_empty());
            let next = next_words(row);
            let gap = if next.is_empty() { "" } else { "  " };
            let subject =
                subject.map_or_else(String::new, |subject| format!("{gap}\"{}\"", ui::sanitize(subject)));
            format!(
                "{}  {}  {}  {}{}",
                styled(STRONG, padded(&ui::sanitize(&row.branch), branches)),
                styled(style(row), padded(&state_words(row), states)),
                styled(FAINT, cell(row.label(), labels)),
                next,
                styled(FAINT, subject),
            )
        })
        .collect()
}

/// The cells of a row. The last one is cut first.
struct Cells {
    texts: [String; 6],
    style: anstyle::Style,
    /// On a line of its own.
    note: Option<String>,
}

const HEADINGS: [&str; 6] = ["BRANCH", "STATE", "KIND", "HOLDER", "TIME", "ABOUT"];

/// The index of each column.
const BRANCH: usize = 0;
const STATE: usize = 1;
const KIND: usize = 2;
const HOLDER: usize = 3;
const TIME: usize = 4;

/// The format of times, and whether the state is shown if the kind implies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Wide,
    Narrow,
}

/// The time until a lease expires or a parked branch wakes.
fn time_cell(row: &BranchView, fit: Fit) -> String {
    let span = |seconds: i64| match fit {
        Fit::Wide => clock::span(seconds.unsigned_abs()),
        Fit::Narrow => clock::span_in_short(seconds.unsigned_abs()),
    };
    if let Some(waits) = &row.waits {
        return waited_words(row, waits, if fit == Fit::Wide { clock::span } else { clock::span_in_short });
    }
    match (&row.lease, row.wakes_in, fit) {
        (Some(lease), _, _) => {
            let over = if lease.left < 0 { "over" } else { "left" };
            let seen = match (lease.seen, fit) {
                (Some((seen, wanted)), Fit::Narrow) => format!(", seen {seen}/{wanted} s"),
                _ => seen_words(lease),
            };
            format!("{} {over}{seen}", span(lease.left))
        }
        (None, Some(left), Fit::Wide) if left > 0 => format!("wakes in {}", span(left)),
        (None, Some(left), Fit::Wide) => format!("wakes {} ago", span(left)),
        (None, Some(left), Fit::Narrow) if left > 0 => format!("in {}", span(left)),
        (None, Some(left), Fit::Narrow) => format!("{} ago", span(left)),
        (None, None, _) => String::new(),
    }
}

fn cells(row: &BranchView, fit: Fit) -> Cells {
    let wanted = rank(row) < WANTED;
    let reason = Some(row.in_brief()).filter(|words| {
        !words.is_empty() && (row.not_before.is_none() || row.mistake || row.waits.is_some())
    });
    let answers = row.waits.as_ref().and_then(|waits| waits.answers.as_ref());
    let answers = answers.map(|answers| format!("answers: {}; ", answers.join(", "))).unwrap_or_default();
    let reason = reason.map(|reason| ui::sanitize(&format!("{answers}{reason}")));
    let about = row.why.as_deref().or_else(|| row.about());
    let about = about.map(ui::sanitize).unwrap_or_default();
    let beside = row.command.as_deref().map(ui::sanitize).or_else(|| reason.clone().filter(|_| !wanted));
    let about = match beside {
        Some(beside) if about.is_empty() => beside,
        Some(beside) => format!("{}  ({beside})", cut(&about, MOST_ABOUT)),
        None => about,
    };
    let lease = row.lease.as_ref().map(|lease| &lease.runner);
    let holder = lease.or(row.waits.as_ref().map(|waits| &waits.whom));
    let holder = holder.map(|holder| ui::sanitize(holder)).unwrap_or_default();
    let state = match (&row.origin, fit) {
        (Some(origin), Fit::Narrow) if row.lease.is_some() || row.is_stalled() => ui::sanitize(origin),
        _ => state_words(row),
    };
    let time = time_cell(row, fit);
    let texts = [ui::sanitize(&row.branch), state, row.label().to_owned(), holder, time, about];
    Cells { texts, style: style(row), note: reason.filter(|_| wanted) }
}

/// The widths that all columns but the last need.
fn natural(rows: &[Cells]) -> [usize; 5] {
    let mut widths = [0; 5];
    for (at, taken) in widths.iter_mut().enumerate() {
        let widest = rows.iter().map(|row| width(&row.texts[at])).max().unwrap_or(0);
        // An unused column is left out.
        *taken = if widest == 0 { 0 } else { widest.max(HEADINGS[at].len()) };
    }
    widths
}

/// The sum of the widths, with the gaps.
fn taken(widths: &[usize; 5]) -> usize {
    widths.iter().filter(|taken| **taken > 0).map(|taken| taken + GAP).sum()
}

/// Shrinks the widths to fit: the most important columns last. A column too narrow to be useful is dropped.
fn shrunk(mut widths: [usize; 5], columns: usize) -> [usize; 5] {
    let over = |widths: &[usize; 5]| taken(widths).saturating_sub(columns + GAP);
    let shrink = |widths: &mut [usize; 5], at: usize, least: usize| {
        let least = least.min(widths[at]);
        widths[at] = widths[at].saturating_sub(over(widths)).max(least);
    };
    shrink(&mut widths, HOLDER, LEAST);
    shrink(&mut widths, STATE, LEAST);
    shrink(&mut widths, BRANCH, (columns * 2 / 5).max(LEAST));
    for at in [HOLDER, STATE] {
        if over(&widths) > 0 {
            widths[at] = 0;
        }
    }
    for at in [BRANCH, TIME, KIND] {
        shrink(&mut widths, at, LEAST);
    }
    widths
}

/// A table for a terminal with so many columns.
pub(crate) fn table(rows: &[BranchView], columns: usize) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let drawn = |fit| rows.iter().map(|row| cells(row, fit)).collect::<Vec<Cells>>();
    let mut cells = drawn(Fit::Wide);
    let mut widths = natural(&cells);
    if taken(&widths) + (columns / 4).clamp(LEAST, MOST_ABOUT) > columns {
        cells = drawn(Fit::Narrow);
        widths = shrunk(natural(&cells), columns);
    }
    let mut lines = vec![line(&HEADINGS.map(str::to_owned), &widths, columns, FAINT, FAINT)];
    for row in &cells {
        lines.push(line(&row.texts, &widths, columns, STRONG, row.style));
        if let Some(note) = &row.note {
            lines.push(format!("    {}", styled(FAINT, note)));
        }
    }
    lines
}

/// One line of the table, no wider than `columns`.
fn line(
    texts: &[String; 6],
    widths: &[usize; 5],
    columns: usize,
    first: anstyle::Style,
    others: anstyle::Style,
) -> String {
    let styles = [first, others, others, anstyle::Style::new(), anstyle::Style::new(), FAINT];
    let mut room = columns;
    let mut line = String::new();
    for (at, text) in texts.iter().enumerate() {
        let wanted = widths.get(at).copied().unwrap_or(room);
        let last = at == texts.len() - 1;
        // In less room than that the last column would contain only an ellipsis.
        if wanted == 0 || room == 0 || (last && room < LEAST) {
            continue;
        }
        let taken = wanted.min(room);
        let shown = if last { cut(text, taken) } else { cell(text, taken) };
        line.push_str(&styled(styles[at], shown));
        room = room.saturating_sub(taken);
        let gap = if last { 0 } else { GAP.min(room) };
        line.push_str(&" ".repeat(gap));
        room -= gap;
    }
    line
}

/// One branch in a few lines.
pub(crate) fn lines(row: &BranchView) -> Vec<String> {
    let mut lines = vec![format!(
        "{}  {}  {}",
        styled(STRONG, ui::sanitize(&row.branch)),
        styled(style(row), state_words(row)),
        styled(FAINT, row.label())
    )];
    let mut add = |label: &str, text: &str| lines.push(format!("  {label:9}{}", ui::sanitize(text)));
    if let (Some(commit), Some(subject)) = (&row.commit, &row.subject) {
        let short: String = commit.chars().take(10).collect();
        let date = row.committed_at.map(clock::format_utc).unwrap_or_default();
        add("commit", &format!("{short}  {date}  {subject}"));
    }
    if let Some(asked) = &row.asked {
        add("asked", asked);
    }
    if let Some(lease) = &row.lease {
        let until = clock::format_utc(lease.expires_at);
        let left = clock::span(lease.left.unsigned_abs());
        let left = if lease.left < 0 {
            format!("expired {left} ago ({until})")
        } else {
            format!("{left} left (until {until})")
        };
        let seen = seen_words(lease);
        add("lease", &format!("{}, attempt {}, {left}{seen}", lease.runner, lease.run_id));
    }
    if let Some(waits) = &row.waits {
        let since = clock::format_utc(waits.since);
        add(
            "waits",
            &format!("for {}, {} (since {since})", waits.whom, waited_words(row, waits, clock::span)),
        );
        match &waits.answers {
            Some(list) => add("answers", &list.join(", ")),
            // The note says what is wrong with them.
            None if row.mistake => {}
            None => add("answers", "any state"),
        }
    }
    if let Some(command) = &row.command {
        add("command", command);
    }
    if let Some(why) = &row.why {
        add("why", why);
    }
    // For a branch at rest there is room for the whole reason here.
    if let Some(note) = if row.is_stalled() { Some(row.in_brief()) } else { row.reason.as_deref() } {
        add("note", note);
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(branch: &str, state: &str, kind: &'static str) -> BranchView {
        BranchView { branch: branch.into(), state: Some(state.into()), kind, ..BranchView::default() }
    }

    fn lease(left: i64) -> Option<LeaseView> {
        Some(LeaseView {
            run_id: "r".into(),
            runner: "host\u{1b}".into(),
            seconds: 60,
            expires_at: 1_000,
            left,
            gone: None,
            seen: (left < 0).then_some((31, 40)),
        })
    }

    fn rows() -> Vec<BranchView> {
        let subject = |text: &str| Some(text.to_owned());
        let mut rows = vec![
            BranchView { command: Some(".aynig/command/review".into()), ..row("a", "review", "ready") },
            BranchView {
                lease: lease(7),
                origin: Some("build".into()),
                subject: subject("go"),
                ..row("feature/b", "working", "working")
            },
            BranchView { lease: lease(-9), reason: Some("run out".into()), ..row("c", "working", "expired") },
            BranchView {
                reason: Some("`retry`".into()),
                subject: subject("set"),
                why: Some("It broke.".into()),
                ..row("d", "stalled", "waiting")
            },
            BranchView { not_before: Some(7_300), ..row("e", "later", "parked") },
            BranchView {
                reason: Some("no command".into()),
                brief: Some(String::new()),
                rests: true,
                subject: subject("漢字"),
                ..row("f", "done", "waiting")
            },
            BranchView { reason: Some("not x".into()), mistake: true, ..row("g", "oops", "waiting") },
        ];
        rows[4].retime(0);
        rows
    }

    fn stripped(lines: &[String]) -> Vec<String> {
        lines
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn plain_lines_are_aligned_harmless_and_whole() {
        assert_eq!(
            stripped(&plain(&rows())),
            [
                "a          review           ready      .aynig/command/review",
                "feature/b  working (build)  working    host\u{fffd}: 7 s left  \"go\"",
                "c          working          expired    host\u{fffd}: expired 9 s ago, seen for 31 s of 40 s",
                "d          stalled          stalled    It broke. (`retry`)  \"set\"",
                "e          later            parked     until 1970-01-01T02:01:40Z (in 2 h 1 min)",
                "f          done             rests      \"漢字\"",
                "g          oops             waiting    not x",
            ]
        );
    }

    #[test]
    fn a_reason_is_in_parentheses_if_there_is_one() {
        let why = Some("exit 0 without SET_STATE".to_owned());
        let ended =
            BranchView { lease: lease(7), why, ended: Some("noDeclaration"), ..row("a", "", "working") };
        assert_eq!(next_words(&ended), "host\u{fffd}: 7 s left (exit 0 without SET_STATE)");
        let waits = Some(WaitsView { whom: "ana".into(), age: 7, ..WaitsView::default() });
        let asked = BranchView { waits, ..row("a", "orch-idle", WAITS) };
        assert_eq!(next_words(&asked), "ana, for 7 s");
        assert_eq!(next_words(&BranchView { reason: Some("none".into()), ..asked }), "ana, for 7 s (none)");
    }

    #[test]
    fn the_table_begins_with_what_needs_a_person() {
        let mut rows = rows();
        sort(&mut rows);
        assert_eq!(
            stripped(&table(&rows, 120)),
            [
                "BRANCH     STATE            KIND     HOLDER  TIME                             ABOUT",
                "d          stalled          stalled                                           It broke.",
                "    `retry`",
                "g          oops             waiting",
                "    not x",
                "c          working          expired  host\u{fffd}   9 s over, seen for 31 s of 40 s",
                "    run out",
                "feature/b  working (build)  working  host\u{fffd}   7 s left                         go",
                "a          review           ready                                             .aynig/command/review",
                "e          later            parked           wakes in 2 h 1 min",
                "f          done             rests                                             漢字",
            ]
        );
        assert_eq!(
            stripped(&table(&rows[..1], 40)),
            ["BRANCH  STATE    KIND     ABOUT", "d       stalled  stalled  It broke.", "    `retry`"],
            "without columns that nobody needs"
        );
    }

    #[test]
    fn what_one_looks_for_shrinks_last() {
        let long = |text: &str| Some(format!("{text} and much more that is said beside the point"));
        let lease = |left| {
            Some(LeaseView {
                run_id: "r".into(),
                runner: "a-rather-long-host-name".into(),
                seconds: 60,
                expires_at: 1_000,
                left,
                gone: None,
                seen: None,
            })
        };
        let origin = Some("slow".to_owned());
        let mut rows = [
            BranchView {
                lease: lease(100_000),
                origin: origin.clone(),
                subject: long("set"),
                ..row("feature/monday", "working", "working")
            },
            BranchView {
                not_before: Some(200_000),
                subject: long("later"),
                ..row("feature/asleep", "build", "parked")
            },
            BranchView { why: long("It broke"), origin, ..row("broke", "stalled", "waiting") },
        ];
        rows[1].retime(0);
        let drawn = |columns| stripped(&table(&rows, columns));
        assert_eq!(
            drawn(80),
            [
                "BRANCH          STATE  KIND     HOLDER                   TIME       ABOUT",
                "feature/monday  slow   working  a-rather-long-host-name  27 h left  set and muc…",
                "feature/asleep  build  parked                            in 2 d     later and m…",
                "broke           slow   stalled                                      It broke an…",
            ]
        );
        assert_eq!(
            drawn(60),
            [
                "BRANCH          STATE  KIND     HOLDER             TIME",
                "feature/monday  slow   working  a-rather-long-ho…  27 h left",
                "feature/asleep  build  parked                      in 2 d",
                "broke           slow   stalled",
            ]
        );
        assert_eq!(
            drawn(40)[..3],
            [
                "BRANCH          KIND     TIME",
                "feature/monday  working  27 h left",
                "feature/asleep  parked   in 2 d",
            ]
        );
    }

    #[test]
    fn summaries() {
        assert_eq!(
            summary(&rows(), 2),
            "7 branches: 1 stalled, 1 expired, 1 working, 1 ready, 1 parked, 1 waiting, 1 rests; 2 branches declare no state"
        );
        assert_eq!(summary(&rows()[..1], 0), "1 branch: 1 ready");
        assert_eq!(summary(&[], 1), "1 branch declares no state");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            names in prop::collection::vec(("\\PC{1,30}", "[a-z]{1,20}", "\\PC{0,40}"), 1..6),
            columns in 1_usize..120,
        ) {
            let rows: Vec<BranchView> = names
                .iter()
                .map(|(branch, state, subject)| BranchView {
                    lease: lease(1_000_000),
                    subject: Some(subject.clone()),
                    ..row(branch, state, "working")
                })
                .collect();
            for line in stripped(&table(&rows, columns)) {
                prop_assert!(width(&line) <= columns, "{columns}: {line:?}");
            }
        }
    }
}
