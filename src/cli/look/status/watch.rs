//! `aynig status --watch`: shows the branches repeatedly.
//!
//! Invariant: no terminal mode is changed, so nothing needs repair after any end, SIGKILL included. Each
//! picture is painted over the last one in one write, and leaves the cursor on the empty line below it.
//!
//! The repository is read when a branch may have moved, when a lease ends or a parked branch wakes, and once
//! per interval. A remote is asked at most once per interval, and fetched from only after a change. The
//! displayed times advance without that.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::columns::{cut, width};
use crate::cli::ui::signals;
use crate::cli::ui::{CARE, FAINT, TerminalSize, styled};
use aynig::clock;
use aynig::clock::Stopwatch;
use aynig::contract::ids::{BranchName, CommitId};
use aynig::git::{Repo, Store};
use aynig::ops::error::Error;
use aynig::ops::status::{Query, Seen};
use aynig::runner::authority::Authority;
use aynig::runner::passes::changes::on_ref_changes;
use aynig::runner::passes::watch::back_off;
use aynig::runner::pluralize;

use crate::cli::look::status::{Subject, drawn, json, looked, sum};

/// The shortest interval between two requests to a remote.
const LEAST_REMOTE: Duration = Duration::from_secs(5);

/// The time between two pictures.
const TICK: Duration = Duration::from_secs(1);

/// The pause after a first change, for the rest of it (a push of many refs).
const SETTLE: Duration = Duration::from_millis(100);

/// A signal came, or a branch may have moved.
struct News;

/// Repeats the view until a signal arrives or the reader is gone.
pub(crate) fn watch(
    store: &Store,
    authority: &Authority,
    subject: Subject,
    seconds: u64,
) -> Result<Exit, Error> {
    let repo = store.handle();
    let shutdown = signals::shutdown()?;
    let (tell, news) = mpsc::channel();
    let (stop, interrupt) = (tell.clone(), repo.interrupt().clone());
    let _subscription = shutdown.subscribe(move |_| {
        // A request to a remote may hang.
        interrupt.end_all();
        drop(stop.send(News));
    });
    signals::leave();
    // Branches of a remote move elsewhere.
    let here = authority.source().is_none();
    let _refs = here.then(|| on_ref_changes(&repo, move || drop(tell.send(News))));
    let mut watch = Watch::new(&repo, authority, subject, Duration::from_secs(seconds));
    let mut due = clock::monotonic();
    loop {
        if due <= clock::monotonic() {
            let looked = watch.look();
            if let Some(cause) = shutdown.cause() {
                return Ok(Exit::from(cause));
            }
            if !watch.take_in(looked)? {
                return Ok(Exit::Done);
            }
            due = clock::monotonic().checked_add(watch.pause()).unwrap_or(due);
        }
        if !watch.paint() {
            return Ok(Exit::Done);
        }
        let nap = due.saturating_duration_since(clock::monotonic());
        let nap = if watch.on_screen { nap.min(TICK) } else { nap };
        if news.recv_timeout(nap).is_ok() && shutdown.cause().is_none() {
            clock::pause(SETTLE);
            while news.try_recv().is_ok() {}
            due = clock::monotonic();
        }
        if let Some(cause) = shutdown.cause() {
            return Ok(Exit::from(cause));
        }
    }
}

struct Watch<'a> {
    repo: &'a Repo,
    authority: &'a Authority,
    subject: Subject,
    interval: Duration,
    /// Whether pictures are painted. Otherwise each change is printed below the previous output.
    on_screen: bool,
    /// The remote's branches at the last fetch, and the time of the last request.
    fetched: Option<BTreeMap<BranchName, CommitId>>,
    unasked: Stopwatch,
    seen: Option<Seen>,
    /// The error of the last look.
    trouble: Option<String>,
    failures: u32,
}

impl<'a> Watch<'a> {
    /// A watch whose remote, if any, has just been fetched from.
    fn new(repo: &'a Repo, authority: &'a Authority, subject: Subject, interval: Duration) -> Self {
        let least = authority.source().map_or(Duration::ZERO, |_| LEAST_REMOTE);
        let tips = authority.branches(repo).ok();
        let fetched = tips
            .map(|tips| tips.into_iter().filter_map(|tip| Some((tip.branch, tip.target.ok()?))).collect());
        let on_screen = !subject.json && ui::moves_cursor();
        if let Some(room) = ui::room().filter(|_| on_screen) {
            // Scrolls existing lines off the screen.
            ui::answer_bytes("\n".repeat(room.lines).as_bytes());
        }
        Self {
            repo,
            authority,
            subject,
            interval: interval.max(least),
            on_screen,
            fetched,
            unasked: Stopwatch::start(),
            seen: None,
            trouble: None,
            failures: 0,
        }
    }

    /// Reads the repository, after a request to the remote if one is due.
    fn look(&mut self) -> Result<Seen, Error> {
        let is_due = self.unasked.elapsed() >= self.interval;
        if is_due {
            self.unasked = Stopwatch::start();
            let asked = self.authority.ask(self.repo, &[]).transpose()?;
            if asked.is_some() && self.fetched != asked {
                self.authority.refresh(self.repo)?;
                self.fetched = asked;
            }
        }
        // The picture has no room for what went wrong with ledgers; they are shown as last fetched.
        let quiet = |trouble: &str| tracing::debug!(trouble, "ledgers were not fetched");
        looked(self.repo, self.authority, &self.subject, (is_due || self.seen.is_none()).then_some(&quiet))
    }

    /// Stores a view, and prints it unless it is painted. Returns whether the reader is still there.
    fn take_in(&mut self, looked: Result<Seen, Error>) -> Result<bool, Error> {
        match looked {
            Ok(seen) => {
                if self.failures > 0 && !self.on_screen {
                    ui::narrate("it can be looked at again");
                }
                (self.trouble, self.failures) = (None, 0);
                let before = self.seen.replace(seen.clone());
                let changed = before.as_ref().map(Seen::timeless) != Some(seen.timeless());
                Ok(self.on_screen || !changed || self.print(&seen, before.is_none()))
            }
            // The first look fails as it would without `--watch`.
            Err(error) if self.seen.is_none() => Err(error),
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let text = ui::sanitize(&error.message);
                if self.failures == 1 && !self.on_screen {
                    let warning = styled(CARE, "warning:");
                    ui::narrate(&format!("{warning} {text}; trying again, less and less often"));
                }
                self.trouble = Some(text);
                Ok(true)
            }
        }
    }

    /// Prints the time and a table, or a line of JSON. Returns whether the reader is still there.
    fn print(&self, seen: &Seen, is_first: bool) -> bool {
        if self.subject.json {
            return ui::answer_bytes(format!("{}\n", json(seen)).as_bytes());
        }
        let before = if is_first { "" } else { "\n" };
        let mut text = format!("{before}{}\n", styled(FAINT, clock::format_utc(clock::wall_seconds())));
        text.extend(drawn(seen, &self.subject.query, None).iter().flat_map(|line| [line, "\n"]));
        ui::answer_bytes(ui::colour_if(&text, ui::coloured()).as_bytes())
    }

    /// The time until the next look after this one.
    fn pause(&self) -> Duration {
        let pause = back_off(self.interval, self.failures);
        if self.failures > 0 {
            return pause;
        }
        // A remote's lease expires at its end plus the skew. Changes before the look are shown already.
        let skew = self.authority.source().map_or(0, |_| self.subject.query.options.skew_seconds);
        let now = clock::wall_millis();
        let turns = self.seen.iter().flat_map(|seen| &seen.rows).filter_map(|row| {
            let skew = row.lease.as_ref().map_or(0, |_| i64::try_from(skew).unwrap_or(i64::MAX));
            let at = row.turns_at()?.saturating_add(skew).saturating_mul(1000);
            u64::try_from(at.saturating_sub(now)).ok().filter(|left| *left > 0)
        });
        turns.min().map_or(pause, |left| pause.min(Duration::from_millis(left)))
    }

    /// Paints over the last picture, if there is a screen. Returns whether the reader is still there.
    fn paint(&mut self) -> bool {
        let (Some(seen), true) = (&mut self.seen, self.on_screen) else { return true };
        // A terminal that is gone is none; the write fails then.
        let Some(room) = ui::room() else { return ui::answer_bytes(b"\n") };
        let now = clock::wall_seconds();
        for row in &mut seen.rows {
            row.retime(now);
        }
        let coloured = ui::coloured();
        let mut picture = "\x1b[H".to_owned();
        for line in lines(seen, &self.subject.query, self.trouble.as_deref(), room, now) {
            picture.push_str(&format!("{}\x1b[K\n", ui::colour_if(&line, coloured)));
        }
        ui::answer_bytes(format!("{picture}\x1b[J").as_bytes())
    }
}

/// The lines of a picture: branches, trouble if any, and the summary. The last line of the screen stays
/// empty.
fn lines(seen: &Seen, query: &Query, trouble: Option<&str>, room: TerminalSize, now: i64) -> Vec<String> {
    let sum = if query.one.is_none() { format!("  {}", sum(seen, &query.filter)) } else { String::new() };
    let mut foot = vec![String::new()];
    foot.extend(trouble.map(|trouble| styled(CARE, cut(&format!("trying again: {trouble}"), room.columns))));
    foot.push(styled(FAINT, cut(&format!("{}{sum}", clock::format_utc(now)), room.columns)));
    let mut lines = drawn(seen, query, Some(room.columns));
    let most = room.lines.saturating_sub(foot.len() + 1);
    if lines.len() > most {
        let hidden = pluralize(lines.len() - most.saturating_sub(1), "line");
        lines.truncate(most.saturating_sub(1));
        lines.push(styled(FAINT, format!("… {hidden} more")));
    }
    for line in &mut lines {
        let bare = anstream::adapter::strip_str(line).to_string();
        if width(&bare) > room.columns {
            *line = styled(FAINT, cut(&bare, room.columns));
        }
    }
    lines.extend(foot);
    lines.truncate(room.lines.saturating_sub(1));
    lines
}
