//! Renders an entry of the log: one line that says what happened, and details below it.
//!
//! Invariant: on a terminal the first line fits its width. The others are never cut, because they contain
//! names to be copied. Text from commits is printed without control characters.

use bstr::{BStr, ByteSlice};

use crate::cli::ui;
use crate::cli::ui::columns::{cut, width};
use crate::cli::ui::{BAD, CARE, FAINT, GOOD, styled};
use aynig::clock;
use aynig::clock::{span, span_in_short};
use aynig::contract::commits::OVERRIDES_KEY;
use aynig::contract::commits::wish;
use aynig::contract::deferred::delivered;
use aynig::contract::head::Event;
use aynig::contract::lease::{Liveness, liveness_at};
use aynig::contract::parking::{Parking, parking};
use aynig::contract::protocol::misspelt_fields;
use aynig::contract::requeue::interrupted_before;
use aynig::contract::story::{Attempt, Commits, Declared, Entry, LeaseMark, Outcome, Stall};
use aynig::contract::titles::repeats_state;
use aynig::contract::waits_for::{ANSWERED_KEY, WaitsFor};
use aynig::ops::history::host::Host;
use aynig::ops::view::deferred::DeferredView;
use aynig::runner::{pluralize, saved_elsewhere};

/// Widths of the columns between the commit and the text; 0 hides a column. The event and the runner may take
/// more if there is more room.
struct Widths {
    date: usize,
    what: usize,
    time: usize,
    who: usize,
}

/// From the widest to the narrowest. A column is hidden before it becomes too narrow to be useful.
const WIDTHS: [Widths; 6] = [
    Widths { date: 20, what: 20, time: 11, who: 10 },
    Widths { date: 20, what: 14, time: SHORT, who: 10 },
    Widths { date: 20, what: 14, time: SHORT, who: 0 },
    Widths { date: 20, what: 14, time: 0, who: 0 },
    Widths { date: DAY, what: 14, time: 0, who: 0 },
    Widths { date: 0, what: 14, time: 0, who: 0 },
];

/// At this width a duration shows only its largest unit.
const SHORT: usize = 7;

/// The number of characters of an attempt's id that identify it.
const SHORT_ID: usize = 8;

/// The width of a date without a time.
const DAY: usize = 10;

/// The gap between two columns.
const GAP: usize = 2;

/// A runner's name shorter than this does not identify it.
const LEAST_WHO: usize = 6;

/// With less room than this the text gets a line of its own.
const ROOM: usize = 40;

/// The indentation of the lines below the first.
const INDENT: &str = "            ";

/// The context in which lines are rendered.
pub(crate) struct Renderer<'a> {
    /// Looks up logs and rescued work.
    pub(crate) host: &'a Host<'a>,
    /// Seconds since the epoch.
    pub(crate) now: i64,
    /// The width of the terminal, if it is one.
    pub(crate) columns: Option<usize>,
    /// Whether every lease has a line.
    pub(crate) leases: bool,
}

/// The first line of an entry.
struct First {
    id: String,
    date: i64,
    style: anstyle::Style,
    what: String,
    /// In seconds; negative if the clocks of its commits disagree.
    time: Option<i64>,
    who: String,
    text: String,
}

impl First {
    /// The parts before the text with their column widths, for a line of `columns` columns.
    fn parts(&self, columns: usize) -> Vec<(anstyle::Style, String, usize)> {
        let takes = |widths: &Widths| {
            let who = if widths.who == 0 { 0 } else { widths.who.min(width(&self.who).max(LEAST_WHO)) };
            let taken = [width(&self.id), widths.date, widths.what.max(width(&self.what)), widths.time, who];
            taken.iter().filter(|taken| **taken > 0).fold(0, |sum, taken| sum + taken + GAP) - GAP
        };
        let [.., narrowest] = &WIDTHS;
        let widths = WIDTHS.iter().find(|widths| takes(widths) <= columns).unwrap_or(narrowest);
        let mut date = clock::format_utc(self.date);
        date.truncate(widths.date);
        let time = self.time.map(|time| seconds(time, widths.time <= SHORT)).unwrap_or_default();
        let time = format!("{}{time}", " ".repeat(widths.time.saturating_sub(width(&time))));
        let plain = anstyle::Style::new();
        let mut parts = vec![(FAINT, self.id.clone(), 0), (plain, date, widths.date)];
        parts.extend([(self.style, self.what.clone(), widths.what), (plain, time, widths.time)]);
        parts.push((plain, self.who.clone(), widths.who));
        let there = [true, widths.date > 0, true, widths.time > 0, widths.who > 0];
        parts.into_iter().zip(there).filter(|(_, there)| *there).map(|(part, _)| part).collect()
    }
}

/// The lines below the first line of an attempt.
#[derive(Default)]
struct Below(Vec<String>);

impl Below {
    fn add(&mut self, label: &str, text: &str) {
        self.0.push(format!("{INDENT}{}", styled(FAINT, ui::sanitize(&format!("{label:9}{text}")))));
    }

    /// Reports oddities of the commit that ended an attempt, and its author if it is someone else.
    fn end(&mut self, attempt: &Attempt, event: &Event, author: &BStr) {
        if let Some(other) = Stall::of(event).and_then(|stall| stall.run_id)
            && other != attempt.run_id
        {
            self.add("attempt", &format!("it names another one: {}", text(other.as_bstr())));
        }
        if let Some(over) = attempt.overdue() {
            self.add("lease", &format!("had been over for {} by the dates of the commits", span(over)));
        }
        if attempt.seconds().is_some_and(|taken| taken < 0) {
            self.add("clocks", "the end is dated before the beginning: those of two hosts disagree");
        }
        if event.message.trailers.last(OVERRIDES_KEY).is_some_and(|run| run == attempt.run_id) {
            let forced = attempt.kept.is_none() && attempt.overdue().is_none();
            let how = if forced { "over the lease (--force)" } else { "over the lease" };
            self.add("set by", &format!("{}, {how}", text(author)));
        } else if *author != attempt.author {
            self.add("set by", &text(author));
        }
    }

    /// The leases: `each` of them, or the number of renewals.
    fn leases(&mut self, attempt: &Attempt, each: bool) {
        let (run, count) = (text(attempt.run_id.as_bstr()), attempt.renewals());
        if each {
            for lease in std::iter::once(&attempt.newest).chain(&attempt.earlier) {
                let date = clock::format_utc(lease.committed_at);
                self.add("lease", &format!("{}  {date}  for {}", lease.commit.short(), span(lease.seconds)));
            }
            self.add("attempt", &run);
        } else if count > 0 {
            let held = seconds(attempt.held(), false);
            self.add("lease", &format!("renewed {} over {held}, attempt {run}", times(count)));
        }
    }
}

/// Whether the log may explain the outcome: the attempt failed or is still running.
fn wants_log(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Ended { event, .. } => {
            Stall::of(event).is_some() || interrupted_before(&event.message.trailers).is_some()
        }
        Outcome::Open | Outcome::TakenOver { .. } | Outcome::Spoilt { .. } => true,
    }
}

impl Renderer<'_> {
    /// Renders an entry as styled lines.
    pub(crate) fn lines(&self, entry: &Entry) -> Vec<String> {
        match entry {
            Entry::Attempt(attempt) => self.attempt(attempt),
            Entry::Declared(declared) => self.draw(&Self::declared(declared)),
            Entry::Commits(commits) => {
                commits_first(commits, "").iter().flat_map(|first| self.draw(first)).collect()
            }
            Entry::Before(commits) => commits_first(commits, "before the first state: ")
                .iter()
                .flat_map(|first| self.draw(first))
                .collect(),
            Entry::Invalid { invalid, committed_at, author } => self.draw(&First {
                id: invalid.commit.short(),
                date: *committed_at,
                style: BAD,
                what: "(invalid)".to_owned(),
                time: None,
                who: text(author.as_bstr()),
                text: ui::sanitize(&invalid.reason),
            }),
        }
    }

    /// Renders a state that waits beside the branch.
    pub(crate) fn waiting(&self, waiting: &DeferredView) -> Vec<String> {
        self.draw(&First {
            id: waiting.commit.chars().take(10).collect(),
            date: waiting.date.map_or(self.now, |date| date.0),
            style: CARE,
            what: format!("({})", ui::sanitize(waiting.state.as_deref().unwrap_or("no state"))),
            time: None,
            who: ui::sanitize(&waiting.sender),
            text: ui::sanitize(&waiting.left()),
        })
    }

    /// The first line. Without room for its text, the text gets a line of its own.
    fn draw(&self, first: &First) -> Vec<String> {
        let mut left = self.columns.unwrap_or(usize::MAX);
        let mut line = String::new();
        for (style, part, wanted) in first.parts(left) {
            let shown = cut(&part, left);
            left = left.saturating_sub(width(&shown));
            let fill = wanted.saturating_sub(width(&shown)).saturating_add(GAP).min(left);
            left -= fill;
            line.push_str(&styled(style, shown));
            line.push_str(&" ".repeat(fill));
        }
        if first.text.is_empty() {
            return vec![line.trim_end().to_owned()];
        }
        if width(&first.text) <= left || left >= ROOM {
            line.push_str(&cut(&first.text, left));
            return vec![line];
        }
        let columns = self.columns.unwrap_or(usize::MAX).saturating_sub(INDENT.len());
        vec![line.trim_end().to_owned(), format!("{INDENT}{}", cut(&first.text, columns))]
    }

    fn attempt(&self, attempt: &Attempt) -> Vec<String> {
        let mut below = Below::default();
        for saved in self.host.saved(attempt) {
            let elsewhere = || saved_elsewhere(&saved.name, &attempt.runner.to_str_lossy());
            let name = if saved.here { saved.name.clone() } else { elsewhere() };
            below.add("saved", &name);
        }
        if let Outcome::Ended { event, author } = &attempt.outcome {
            below.end(attempt, event, author.as_bstr());
        }
        if let Some(cancel) = &attempt.cancel {
            below.add("cancel", &cancel.asked());
        }
        below.leases(attempt, self.leases);
        if let Some((newest, _)) = &attempt.commits.ends {
            let (count, by) = (how_many(&attempt.commits), names(&attempt.commits));
            below.add("beside", &format!("{count} by {by}: {}", text(newest.subject.as_bstr())));
        }
        if let (Outcome::Open, Some(kept)) = (&attempt.outcome, &attempt.kept) {
            below.add("ended", &kept.words());
        }
        if wants_log(&attempt.outcome)
            && let Some(logs) = self.host.logs_of(attempt)
        {
            // A commit can belong to two attempts: the result of one, the trigger of another.
            let attempt: String = logs.attempt.chars().take(SHORT_ID).collect();
            let stream = if logs.printed_errors_alone() { " --stderr" } else { "" };
            below.add("printed", &format!("`aynig logs --attempt {attempt}{stream}` shows it"));
        }
        let mut lines = self.draw(&self.attempt_first(attempt));
        lines.append(&mut below.0);
        lines
    }

    fn attempt_first(&self, attempt: &Attempt) -> First {
        let origin = attempt.origin.as_ref().map_or("?", |state| state.as_str());
        let newest = attempt.newest;
        let first = First {
            id: newest.commit.short(),
            date: newest.committed_at,
            style: CARE,
            what: String::new(),
            time: None,
            who: runner(attempt.runner.as_bstr()),
            text: String::new(),
        };
        match &attempt.outcome {
            Outcome::Open => First {
                what: format!("{origin} → working"),
                time: Some(self.now.saturating_sub(attempt.first().committed_at)),
                text: self.left(newest),
                ..first
            },
            Outcome::Ended { event, .. } => First {
                id: event.commit.short(),
                date: event.committed_at,
                what: format!("{origin} → {}", event.state),
                style: match self.host.again(event) {
                    Some(_) => CARE,
                    None if event.state.is_stalled() => BAD,
                    None => GOOD,
                },
                time: Some(attempt.seconds().unwrap_or_default()),
                text: self.host.again(event).unwrap_or_else(|| Self::said(event)),
                ..first
            },
            Outcome::TakenOver { run_id, runner: by } => First {
                what: format!("{origin} → (taken over)"),
                style: BAD,
                text: ui::sanitize(&format!(
                    "by {} in attempt {}",
                    runner(by.as_bstr()),
                    text(run_id.as_bstr())
                )),
                time: Some(attempt.held()),
                ..first
            },
            Outcome::Spoilt { commit } => First {
                what: format!("{origin} → (invalid)"),
                style: BAD,
                text: format!("commit {} is on top of it", commit.short()),
                ..first
            },
        }
    }

    fn left(&self, lease: LeaseMark) -> String {
        let end = lease.committed_at.saturating_add_unsigned(lease.seconds);
        match liveness_at(end, self.now) {
            Liveness::Live { left } => format!("lease until {}, {} left", clock::format_utc(end), span(left)),
            Liveness::Expired { over } => format!("its lease ran out {} ago and is not closed", span(over)),
        }
    }

    /// The event's text, whom it asks or answers, and the time from which it may run. Whether that time has come
    /// is not part of the history.
    fn said(event: &Event) -> String {
        let trailers = &event.message.trailers;
        let answered = trailers.last(ANSWERED_KEY).map(|commit| {
            let commit = text(commit);
            format!("answer to {}", commit.chars().take(10).collect::<String>())
        });
        let question = WaitsFor::of(trailers);
        let time = match (parking(trailers, i64::MIN), &question) {
            (Parking::Over, _) => None,
            (Parking::Until(until), None) => Some(format!("parked until {}", clock::format_utc(until))),
            (Parking::Until(until), Some(_)) => Some(format!("until {}", clock::format_utc(until))),
            (Parking::Unreadable(why), _) => Some(ui::sanitize(&why)),
        };
        let asked = question.map(|question| ui::sanitize(&format!("waits for {}", question.words())));
        let facts: Vec<String> = [answered, asked, time].into_iter().flatten().collect();
        let words = what_it_says(event);
        match (facts.is_empty(), words.is_empty()) {
            (true, _) => words,
            (false, true) => facts.join(", "),
            (false, false) => format!("{}: {words}", facts.join(", ")),
        }
    }

    fn declared(declared: &Declared) -> First {
        let event = &declared.event;
        let who = text(declared.author.as_bstr());
        let said = Self::said(event);
        let text = match delivered(&event.message.trailers) {
            None => said,
            Some(_) => {
                let left = format!("deferred by {who}");
                if said.is_empty() { left } else { format!("{left}: {said}") }
            }
        };
        First {
            id: event.commit.short(),
            date: event.committed_at,
            style: if event.state.is_stalled() { BAD } else { GOOD },
            what: if declared.again { format!("{} again", event.state) } else { event.state.to_string() },
            time: None,
            who,
            text,
        }
    }
}

fn commits_first(commits: &Commits, prefix: &str) -> Option<First> {
    let (newest, _) = commits.ends.as_ref()?;
    Some(First {
        id: newest.commit.short(),
        date: newest.committed_at,
        style: FAINT,
        what: how_many(commits),
        time: None,
        who: names(commits),
        text: format!("{prefix}{}", text(newest.subject.as_bstr())),
    })
}

fn how_many(commits: &Commits) -> String {
    match commits.merges {
        0 => pluralize(commits.count, "commit"),
        merges if merges == commits.count => pluralize(merges, "merge"),
        merges => format!("{}, {}", pluralize(commits.count, "commit"), pluralize(merges, "merge")),
    }
}

fn names(commits: &Commits) -> String {
    let mut names: Vec<String> = commits.authors.iter().map(|author| text(author.as_bstr())).collect();
    if commits.more_authors {
        names.push("others".to_owned());
    }
    names.join(", ")
}

/// The event's text: why it stalled, else its subject unless the runner generated it.
fn what_it_says(event: &Event) -> String {
    let ignored = misspelt_fields(&event.message.trailers).map(|words| ui::sanitize(&format!("; {words}")));
    let said = match Stall::of(event) {
        Some(stall) if !stall.reason.is_empty() => ui::sanitize(&stall.reason),
        Some(_) | None if repeats_state(event.message.subject.as_bstr(), &event.state) => {
            wish(&event.message, &event.state).map(text).unwrap_or_default()
        }
        Some(_) | None => text(event.message.subject.as_bstr()),
    };
    said + &ignored.unwrap_or_default()
}

fn runner(name: &BStr) -> String {
    if name.is_empty() { "(unnamed)".to_owned() } else { text(name) }
}

fn text(bytes: &BStr) -> String {
    ui::sanitize(&bytes.to_str_lossy())
}

/// Seconds between two commits. If the clocks disagree, the negative value is shown.
fn seconds(seconds: i64, short: bool) -> String {
    let words = if short { span_in_short } else { span }(seconds.unsigned_abs());
    if seconds < 0 { format!("-{words}?") } else { words }
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
