//! `aynig status --watch`: looking again and again.
//!
//! Invariant: the terminal is as it was once this ends, however it ends. Time passes on the screen without a look at the
//! repository: that is read when a branch may have moved, when a lease ends or a parked branch wakes, and once an interval; a remote is
//! asked at most that often, and fetched from only if it has changed. Looks are taken on a thread of their own, so that a
//! connection that hangs holds up neither the clock nor a Ctrl-C.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::cli::columns::cut;
use crate::cli::error::{CommandError, Exit};
use crate::cli::signals;
use crate::cli::ui::{self, CARE, FAINT, styled};
use crate::clock::{self, Stopwatch};
use crate::contract::ids::{BranchName, CommitId};
use crate::git::{Repo, Store};
use crate::runner::arbiter::Arbiter;
use crate::runner::counted;
use crate::runner::watch::{back_off, on_ref_changes};
use crate::stop::Stop;
use crate::supervise::{CONTROL_BACKSLASH, Keyboard, on_key, on_resize, on_suspend, suspend};

use super::{Seen, Subject, look};

/// However often one wishes to look: a remote is somebody else's machine.
const LEAST_REMOTE: Duration = Duration::from_secs(5);

/// Between two strokes of the clock on the screen.
const TICK: Duration = Duration::from_secs(1);

/// How long a call to a remote may take to end with us.
const FAREWELL: Duration = Duration::from_secs(2);

/// After a first change, how long to wait for the rest of it (a push of many refs): so a repository that never rests is not
/// looked at without rest.
const SETTLE: Duration = Duration::from_millis(100);

enum News {
    Looked(Result<Seen, CommandError>),
    Refs,
    Resized,
    Quit,
    Suspend,
    Stop,
    Gone,
}

/// Looks until a signal comes, or a `q` where there is a picture.
pub fn watch(store: &Store, arbiter: Arbiter, subject: Subject, seconds: u64) -> Result<Exit, CommandError> {
    let listening = |error: std::io::Error| CommandError::because("listen for signals", &error);
    let shutdown = signals::shutdown()?;
    let (tell, news) = mpsc::channel();
    let stop = tell.clone();
    let _subscription = shutdown.subscribe(move |_| drop(stop.send(News::Stop)));
    signals::leave();
    let resized = tell.clone();
    on_resize(move || drop(resized.send(News::Resized))).map_err(listening)?;
    let repo = store.handle();
    let moved = tell.clone();
    // A remote's branches move elsewhere.
    let _refs = match arbiter.source() {
        None => on_ref_changes(&repo, move || drop(moved.send(News::Refs))),
        Some(_) => None,
    };
    let mut interval = Duration::from_secs(seconds);
    let mut skew = 0;
    if arbiter.source().is_some() {
        interval = interval.max(LEAST_REMOTE);
        skew = i64::try_from(subject.options.skew_seconds).unwrap_or(i64::MAX);
    }
    let looker = looker(store.handle(), arbiter, subject.clone(), interval, tell.clone());
    let face = Face::new(&subject);
    if !face.is_plain() {
        let suspended = tell.clone();
        on_suspend(move || drop(suspended.send(News::Suspend))).map_err(listening)?;
        let typed = tell.clone();
        let reading = |error: std::io::Error| CommandError::because("read the keyboard", &error);
        on_key(move |key| ![b'q', CONTROL_BACKSLASH].contains(&key) || typed.send(News::Quit).is_ok())
            .map_err(reading)?;
    }
    let mut watch =
        Watch { subject, skew, interval, looker, face, seen: None, trouble: None, failures: 0, next: None };
    watch.ask();
    let ended = watch.go_on(&news, &shutdown);
    // Not a moment before the picture is gone, and nothing is left behind.
    drop(watch);
    repo.interrupt().end_all();
    repo.interrupt().wait_idle(FAREWELL);
    ended
}

/// Takes looks when asked to, on its own thread; the first one at what was fetched already.
fn looker(
    repo: Repo,
    arbiter: Arbiter,
    subject: Subject,
    interval: Duration,
    tell: Sender<News>,
) -> Sender<()> {
    let (ask, asked) = mpsc::channel::<()>();
    let gone = tell.clone();
    let work = std::thread::spawn(move || {
        let mut doorbell = Doorbell::new(&repo, &arbiter, interval);
        while asked.recv().is_ok() {
            let fresh = doorbell.refresh(&repo, &arbiter);
            let seen = fresh.and_then(|()| look(&repo, &arbiter, &subject, clock::wall_seconds()));
            if tell.send(News::Looked(seen)).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        // It ends only with the watch, or in a panic.
        drop(work.join());
        drop(gone.send(News::Gone));
    });
    ask
}

/// Whether a remote is worth a connection.
struct Doorbell {
    /// What it had when it was fetched from.
    fetched: Option<BTreeMap<BranchName, CommitId>>,
    /// Since it was asked.
    since: Stopwatch,
    interval: Duration,
}

impl Doorbell {
    /// One for a remote that has just been fetched from.
    fn new(repo: &Repo, arbiter: &Arbiter, interval: Duration) -> Self {
        let tips = arbiter.branches(repo).ok();
        let fetched = tips
            .map(|tips| tips.into_iter().filter_map(|tip| Some((tip.branch, tip.target.ok()?))).collect());
        Self { fetched, since: Stopwatch::start(), interval }
    }

    /// Asks, if that was an interval ago: a lease that ends is no reason. Fetches, if the remote has other branches than the last
    /// time.
    fn refresh(&mut self, repo: &Repo, arbiter: &Arbiter) -> Result<(), CommandError> {
        if self.since.elapsed() < self.interval {
            return Ok(());
        }
        self.since = Stopwatch::start();
        let Some(asked) = arbiter.ask(repo) else { return Ok(()) };
        let asked = asked?;
        if self.fetched.as_ref() != Some(&asked) {
            arbiter.refresh(repo)?;
            self.fetched = Some(asked);
        }
        Ok(())
    }
}

struct Watch {
    subject: Subject,
    skew: i64,
    interval: Duration,
    looker: Sender<()>,
    face: Face,
    seen: Option<Seen>,
    /// Why the last look failed.
    trouble: Option<String>,
    failures: u32,
    /// When the next look is due; none while one is being taken.
    next: Option<Instant>,
}

impl Watch {
    fn ask(&mut self) {
        self.next = None;
        if self.looker.send(()).is_err() {
            tracing::debug!("nobody looks any more; that is in the news as well");
        }
    }

    fn go_on(&mut self, news: &Receiver<News>, shutdown: &Stop) -> Result<Exit, CommandError> {
        let mut moved = false;
        loop {
            let heard = match news.recv_timeout(self.nap()) {
                Ok(heard) => Some(heard),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Bug),
            };
            match heard {
                Some(News::Stop) => {
                    self.face.leave(self.seen.as_ref(), &self.subject);
                    return Ok(shutdown.cause().map_or(Exit::Done, Exit::from));
                }
                Some(News::Quit) => {
                    self.face.leave(self.seen.as_ref(), &self.subject);
                    return Ok(Exit::Done);
                }
                Some(News::Suspend) => {
                    self.face.suspend();
                    self.paint();
                }
                Some(News::Gone) => return Ok(Exit::Bug),
                Some(News::Looked(seen)) => {
                    let listened_to = self.take_in(seen)?;
                    if !listened_to {
                        return Ok(Exit::Done);
                    }
                    let pause = if std::mem::take(&mut moved) { SETTLE } else { self.pause() };
                    self.next = clock::monotonic().checked_add(pause);
                }
                Some(News::Refs) => match &mut self.next {
                    Some(next) => {
                        *next = clock::monotonic().checked_add(SETTLE).map_or(*next, |soon| soon.min(*next))
                    }
                    // The look that is being taken may have been too early.
                    None => moved = true,
                },
                Some(News::Resized) | None => self.paint(),
            }
            if self.next.is_some_and(|next| next <= clock::monotonic()) {
                self.ask();
            }
        }
    }

    /// Says whether anybody is still reading.
    fn take_in(&mut self, seen: Result<Seen, CommandError>) -> Result<bool, CommandError> {
        match seen {
            Ok(seen) => {
                if self.failures > 0 && self.face.is_plain() {
                    ui::narrate("it can be looked at again");
                }
                (self.trouble, self.failures) = (None, 0);
                let changed = self.seen.as_ref().map(Seen::timeless) != Some(seen.timeless());
                self.seen = Some(seen);
                if changed && self.face.is_plain() {
                    return Ok(self.print());
                }
            }
            // Nothing was seen yet: that is an answer as it is without --watch.
            Err(error) if self.seen.is_none() => return Err(error),
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let text = ui::harmless(&error.message);
                if self.failures == 1 && self.face.is_plain() {
                    ui::narrate(&format!(
                        "{} {text}; trying again, less and less often",
                        styled(CARE, "warning:")
                    ));
                }
                self.trouble = Some(text);
            }
        }
        self.paint();
        Ok(true)
    }

    /// Until the next look after this one.
    fn pause(&self) -> Duration {
        let pause = back_off(self.interval, self.failures);
        match self.turn().filter(|_| self.failures == 0) {
            Some(turn) => pause.min(turn),
            None => pause,
        }
    }

    /// Until the clock alone changes something.
    fn turn(&self) -> Option<Duration> {
        let now = clock::wall_millis();
        let turns = self.seen.iter().flat_map(|seen| &seen.rows).filter_map(|row| {
            let skew = if row.lease.is_some() { self.skew } else { 0 };
            let at = row.turns_at()?.saturating_add(skew).saturating_mul(1000);
            // What has turned already has been seen as such.
            u64::try_from(at.saturating_sub(now)).ok().filter(|left| *left > 0)
        });
        turns.min().map(Duration::from_millis)
    }

    fn nap(&self) -> Duration {
        let next = self.next.map(|next| next.saturating_duration_since(clock::monotonic()));
        let next = next.unwrap_or(Duration::MAX);
        if self.face.is_plain() { next } else { next.min(TICK) }
    }

    fn paint(&mut self) {
        let Some(seen) = &mut self.seen else { return };
        let now = clock::wall_seconds();
        for row in &mut seen.rows {
            row.retime(now);
        }
        self.face.paint(seen, &self.subject, self.trouble.as_deref(), now);
    }

    /// A new table below the one before, for a reader that is no terminal; says whether it still reads.
    fn print(&mut self) -> bool {
        let Some(seen) = &self.seen else { return true };
        if self.subject.json {
            return ui::answer_bytes(format!("{}\n", seen.json(&self.subject)).as_bytes());
        }
        let mut text = if self.face.take_first() { String::new() } else { "\n".to_owned() };
        text.push_str(&styled(FAINT, clock::format_utc(clock::wall_seconds())));
        text.push('\n');
        for line in seen.drawn(&self.subject, None) {
            text.push_str(&line);
            text.push('\n');
        }
        ui::answer_bytes(ui::dyed(&text, ui::coloured()).as_bytes())
    }
}

impl Seen {
    /// Without what time does, so that two looks can be compared.
    fn timeless(&self) -> Self {
        Self { rows: self.rows.iter().map(super::Row::timeless).collect(), ..*self }
    }
}

/// Where it is shown.
enum Face {
    /// The other screen of a terminal, given back when this is dropped.
    Screen { coloured: bool, keyboard: Option<Keyboard> },
    /// A file, a pipe, or a terminal that cannot move its cursor.
    Plain { first: bool },
}

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

impl Face {
    fn new(subject: &Subject) -> Self {
        if subject.json || !ui::moves_cursor() {
            return Self::Plain { first: true };
        }
        let keyboard = Keyboard::take();
        ui::answer_bytes(ENTER.as_bytes());
        Self::Screen { coloured: ui::coloured(), keyboard }
    }

    fn is_plain(&self) -> bool {
        matches!(self, Self::Plain { .. })
    }

    /// Whether nothing was printed before.
    fn take_first(&mut self) -> bool {
        match self {
            Self::Plain { first } => std::mem::take(first),
            Self::Screen { .. } => false,
        }
    }

    /// Paints over what is there, in one write, so that nothing flickers.
    fn paint(&self, seen: &Seen, subject: &Subject, trouble: Option<&str>, now: i64) {
        let (Self::Screen { coloured, .. }, Some(room)) = (self, ui::room()) else { return };
        let mut foot = Vec::new();
        if let Some(trouble) = trouble {
            foot.push(styled(CARE, cut(&format!("trying again: {trouble}"), room.columns)));
        }
        let mut sum = clock::format_utc(now);
        if subject.one.is_none() {
            sum = format!("{sum}  {}", seen.sum());
        }
        foot.push(styled(FAINT, cut(&sum, room.columns)));
        let mut lines: Vec<String> =
            seen.drawn(subject, Some(room.columns)).iter().map(|line| clipped(line, room.columns)).collect();
        // An empty line, and the foot.
        let most = room.lines.saturating_sub(foot.len() + 1);
        if lines.len() > most {
            let hidden = lines.len() - most.saturating_sub(1);
            lines.truncate(most.saturating_sub(1));
            lines.push(styled(FAINT, cut(&format!("… {} more", counted(hidden, "line")), room.columns)));
        }
        lines.push(String::new());
        lines.extend(foot);
        lines.truncate(room.lines);
        let body: Vec<String> =
            lines.iter().map(|line| format!("{}\x1b[K", ui::dyed(line, *coloured))).collect();
        ui::answer_bytes(format!("\x1b[H{}\x1b[J", body.join("\r\n")).as_bytes());
    }

    /// Gives the terminal back until this process is told to go on.
    fn suspend(&mut self) {
        let Self::Screen { keyboard, .. } = self else { return };
        drop(keyboard.take());
        ui::answer_bytes(LEAVE.as_bytes());
        suspend();
        *keyboard = Keyboard::take();
        ui::answer_bytes(ENTER.as_bytes());
    }

    /// Gives the screen back, with what was on it last.
    fn leave(&mut self, seen: Option<&Seen>, subject: &Subject) {
        let Self::Screen { .. } = self else { return };
        *self = Self::Plain { first: false };
        let columns = ui::room().map(|room| room.columns);
        for line in seen.iter().flat_map(|seen| seen.drawn(subject, columns)) {
            ui::answer(&line);
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        if let Self::Screen { .. } = self {
            ui::answer_bytes(LEAVE.as_bytes());
        }
    }
}

/// A styled line that may be too wide, cut if it is, without its styles then.
fn clipped(line: &str, columns: usize) -> String {
    let bare = anstream::adapter::strip_str(line).to_string();
    if crate::cli::columns::width(&bare) <= columns {
        return line.to_owned();
    }
    styled(FAINT, cut(&bare, columns))
}
