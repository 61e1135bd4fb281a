//! Runs one turn: owns the program, its pipes, the clock and the files.
//!
//! The calling thread conducts. It takes whatever comes first: output, the program's exit, a request to stop, or a
//! deadline. The dialect, the order of ending and the verdict are pure; this file carries them out.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::child::{Input, Output, Stdin, Stream, Tap};
use super::dialects::{self, Dialect, Out, Task};
use super::environment::environment;
use super::event::{self, Event};
use super::find::{find, leash};
use super::gate::{Reply, Request, Resolution};
use super::judge::{Account, Cut, Verdict, judge};
use super::ladder::{Ladder, Order};
use super::lines::{LONGEST, Line, Lines};
use super::name::Kind;
use super::opening::Opening;
use super::record::{Events, Kept};
use super::turn::{Ended, How, Provider, Turn, files};
use crate::clock::Stopwatch;
use crate::fsutil::{free_space_text, last_line, replace};
use crate::stop::{Notice, Stop};
use crate::supervise::{self, Finished, Spec};

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// For each step that ends a turn which took too long, or asked.
const PACE: Duration = Duration::from_secs(2);

/// For each step if a stop was requested.
const SHORT_PACE: Duration = Duration::from_millis(300);

/// The same after a request was parked: some programs end by themselves then.
const PARK_PACE: Duration = Duration::from_secs(10);

/// After the exit: how long a process that it left may keep its streams open, and how long it may print.
const LINGER: Duration = Duration::from_secs(1);
const MOST_LINGER: Duration = Duration::from_secs(10);

/// The signal by which a supervised program is stopped.
const TERMINATE: i32 = 15;

impl Provider {
    /// Whether its program can ask for permission.
    #[must_use]
    pub fn can_ask(&self) -> bool {
        dialects::can_ask(self.kind)
    }
}

/// Runs a turn to its end; blocks until then. There are no errors: whatever happens is a value of [`How`].
///
/// A long turn reports its output in [`files`] as it comes.
#[must_use]
pub fn run(turn: &Turn<'_>) -> Ended {
    let watch = Stopwatch::start();
    let task = Task::of(turn);
    let kind = turn.provider.kind;
    let mut argv = vec![turn.provider.command.clone().into_os_string()];
    argv.extend(turn.provider.args.iter().map(OsString::from));
    argv.extend(dialects::args(kind, &task).into_iter().map(OsString::from));
    let unstarted = |verdict: Verdict, argv: Vec<OsString>| {
        let end = End { verdict, account: Account::default(), exit: None, stuck: Vec::new() };
        conclude(turn, end, argv, watch.elapsed())
    };
    let program = match find(turn.provider) {
        Ok(program) => program,
        Err(why) => return unstarted(Verdict::new(How::Unavailable(why.clone()), why), argv),
    };
    argv[0] = program.clone().into_os_string();
    if !turn.directory.is_dir() {
        let words = format!("could not be started: there is no directory {}", turn.directory.display());
        return unstarted(Verdict::new(How::Failed, words), argv);
    }
    if let Some(cause) = turn.stop.cause() {
        return unstarted(
            Verdict::new(How::Stopped(cause), "was not started, since a stop was requested"),
            argv,
        );
    }
    if turn.gate.is_some() && !dialects::can_ask(kind) {
        let words = "cannot be gated: a program of its protocol does not ask for permission; \
                     it needs another protocol, or a run without permission requests";
        return unstarted(Verdict::new(How::Failed, words), argv);
    }
    let setting = Setting { program: &program, args: &argv[1..], watch };
    match conduct(turn, task, &setting) {
        Ok(end) => conclude(turn, end, argv, watch.elapsed()),
        Err(error) => {
            let words = format!("could not be started: {}", trouble(&error, turn.evidence));
            unstarted(Verdict::new(How::Failed, words), argv)
        }
    }
}

struct Setting<'a> {
    program: &'a Path,
    args: &'a [OsString],
    watch: Stopwatch,
}

fn trouble(error: &io::Error, place: &Path) -> String {
    match free_space_text(error, place) {
        Some(space) => format!("{error}; {space}"),
        None => error.to_string(),
    }
}

/// Ends the program if the conductor panics: its thread would wait for the program without end.
struct Ender(Stop);

impl Drop for Ender {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.call_off();
        }
    }
}

/// The end of a turn.
struct End {
    verdict: Verdict,
    account: Account,
    exit: Option<i32>,
    stuck: Vec<(i32, String)>,
}

fn conduct(turn: &Turn<'_>, task: Task, setting: &Setting<'_>) -> io::Result<End> {
    let (sender, inbox) = mpsc::channel();
    let (out, stdout) = Output::new(Stream::Out, Kept::create(&turn.evidence.join(files::TRANSCRIPT))?)?;
    let (err, stderr) = Output::new(Stream::Err, Kept::create(&turn.evidence.join(files::STDERR))?)?;
    let (stdin, input) = Stdin::new()?;
    let taps = (out.read(&sender)?, err.read(&sender)?);
    let kind = turn.provider.kind;
    let mut conductor = Conductor {
        turn,
        dialect: dialects::of(kind, task),
        lines: Lines::default(),
        stdin,
        events: Some(Events::create(&turn.evidence.join(files::EVENTS))?),
        account: Account::default(),
        opening: Opening::default(),
        ladder: Ladder::new(!matches!(kind, Kind::Text | Kind::Jsonl)),
        cut: None,
        asked: Vec::new(),
        replies: sender.clone(),
        own: Ender(Stop::manual()),
        watch: setting.watch,
        last: setting.watch.elapsed(),
        wall: least(turn.wall, turn.provider.wall),
        idle: least(turn.idle, turn.provider.idle),
        open: [true, true],
        has_exited: false,
        heard_all: false,
    };
    let spec = Spec {
        program: setting.program.to_owned(),
        args: setting.args.to_vec(),
        directory: turn.directory.to_owned(),
        environment: environment(turn),
        stdin: Some(input),
        stdout,
        stderr,
        terminal: false,
        grace: GRACE,
        timeout: None,
        leash: Some(leash(turn.ids.turn)),
        watchdog: turn.watchdog.cloned(),
    };
    let heard = sender.clone();
    let listener = move |notice: Notice| post(&heard, Input::Stop(notice));
    let subscription = turn.stop.subscribe(listener);
    let own = conductor.own.0.clone();
    let finished = thread::scope(|scope| {
        // The program dies with the thread that started it, on Linux, so that thread stays until it ended.
        let supervisor = thread::Builder::new().name("agent".to_owned());
        supervisor.spawn_scoped(scope, move || {
            let finished = supervise::run(spec, &own, || {});
            post(&sender, Input::Exited(finished));
        })?;
        Ok::<Finished, io::Error>(conductor.serve(&inbox, &taps))
    })?;
    drop(subscription);
    Ok(conductor.settle(taps, &finished))
}

fn post(to: &Sender<Input>, what: Input) {
    if to.send(what).is_err() {
        tracing::trace!("the turn is over");
    }
}

fn least(one: Option<Duration>, two: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(two).min()
}

struct Conductor<'a> {
    turn: &'a Turn<'a>,
    dialect: Box<dyn Dialect>,
    lines: Lines,
    stdin: Stdin,
    /// `None` once they could not be written.
    events: Option<Events>,
    account: Account,
    opening: Opening,
    ladder: Ladder,
    cut: Option<Cut>,
    /// The requests that wait for an answer.
    asked: Vec<Request>,
    /// The inbox, for their answers.
    replies: Sender<Input>,
    own: Ender,
    watch: Stopwatch,
    /// The time of the last output or change.
    last: Duration,
    wall: Option<Duration>,
    idle: Option<Duration>,
    /// Whether stdout and stderr are open.
    open: [bool; 2],
    has_exited: bool,
    heard_all: bool,
}

impl Conductor<'_> {
    /// Serves the program until it ended and its streams are closed.
    fn serve(&mut self, inbox: &Receiver<Input>, taps: &(Tap, Tap)) -> Finished {
        let first = self.dialect.start();
        self.carry_out(first);
        let mut finished = None;
        let mut exited_at = Duration::ZERO;
        loop {
            let now = self.watch.elapsed();
            let deadline = match &finished {
                None => self.deadline(),
                Some(_) if self.open == [false, false] => break,
                Some(_) => Some((self.last + LINGER).min(exited_at + MOST_LINGER)),
            };
            if finished.is_some() && deadline.is_some_and(|at| now >= at) {
                break;
            }
            let patience = deadline.map_or(Duration::MAX, |at| at.saturating_sub(now));
            match inbox.recv_timeout(patience) {
                Ok(Input::Exited(end)) => {
                    exited_at = self.watch.elapsed();
                    self.last = exited_at;
                    self.has_exited = true;
                    self.withdraw_all();
                    finished = Some(end);
                }
                Ok(input) => self.take(input, taps),
                Err(RecvTimeoutError::Timeout) if finished.is_none() => self.tick(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the subscription holds a sender"),
            }
        }
        self.hear_all();
        finished.expect("the loop ends only after the exit")
    }

    fn take(&mut self, input: Input, taps: &(Tap, Tap)) {
        match input {
            Input::Chunk(stream, chunk) => {
                self.last = self.watch.elapsed();
                if stream == Stream::Out {
                    self.hear(&chunk);
                    taps.0.next();
                } else {
                    taps.1.next();
                }
            }
            Input::Unkept(error) => self.cut(Cut::Unkept(error), PACE),
            Input::Closed(Stream::Err) => self.open[1] = false,
            Input::Closed(Stream::Out) => {
                self.open[0] = false;
                self.hear_all();
                // Without stdout the last word cannot come. A text needs none.
                if self.turn.provider.kind != Kind::Text {
                    self.withdraw_all();
                    let order = self.ladder.finish(self.watch.elapsed());
                    self.obey(order);
                }
            }
            Input::Answer(id, resolution) => self.answered(&id, resolution),
            Input::Stop(notice) if notice.signals >= 2 => {
                self.cut(Cut::Stopped(notice.first), Duration::ZERO);
                let order = self.ladder.terminate();
                self.obey(order);
                self.own.0.request(TERMINATE);
            }
            Input::Stop(notice) => self.cut(Cut::Stopped(notice.first), SHORT_PACE),
            Input::Exited(_) => unreachable!("the loop takes it"),
        }
    }

    /// Takes a part of stdout.
    fn hear(&mut self, chunk: &[u8]) {
        if self.turn.provider.kind == Kind::Text {
            let out = self.dialect.line(chunk);
            self.carry_out(out);
            return;
        }
        for line in self.lines.push(chunk) {
            self.hear_line(line);
        }
        if let Some(Err(error)) = self.events.as_mut().map(Events::flush) {
            self.lose_events(error);
        }
    }

    fn hear_line(&mut self, line: Line) {
        let out = match line {
            Line::Whole(line) => self.dialect.line(&line),
            Line::TooLong => {
                let message = format!("a line of more than {} MiB is left out", LONGEST >> 20);
                Out { events: vec![Event::Log(message)], ..Out::default() }
            }
        };
        self.carry_out(out);
    }

    /// Takes what is left when stdout has ended.
    fn hear_all(&mut self) {
        if std::mem::replace(&mut self.heard_all, true) {
            return;
        }
        if let Some(line) = self.lines.end() {
            self.hear_line(line);
        }
        let out = self.dialect.eof();
        self.carry_out(out);
    }

    fn carry_out(&mut self, out: Out) {
        for line in out.writes {
            if !self.stdin.write(line) {
                self.cut(Cut::Flood, Duration::ZERO);
            }
        }
        if out.close {
            self.stdin.close();
        }
        if out.is_message {
            self.opening.message();
        }
        for event in out.events {
            if let Event::Foreign(line) = &event {
                self.opening.foreign(line, self.watch.elapsed());
            }
            self.record(&event);
            match &event {
                Event::Approval { question, fatal: true, .. } => {
                    self.cut(Cut::Asked(question.clone()), PACE);
                }
                Event::Asked(request) => self.ask(request.clone()),
                Event::Withdrawn { id } => self.withdraw(&id.clone()),
                _ => {}
            }
            self.account.take(event);
        }
        if self.account.is_over() {
            self.withdraw_all();
            let order = self.ladder.finish(self.watch.elapsed());
            self.obey(order);
        }
    }

    fn record(&mut self, event: &Event) {
        // What a text program prints is its transcript: a second copy would have no bound of its own.
        let is_copy = self.turn.provider.kind == Kind::Text && matches!(event, Event::Delta(_));
        for line in event.lines().iter().map(ToString::to_string) {
            if let Some(listener) = self.turn.listener {
                listener.heard(&line);
            }
            let events = self.events.as_mut().filter(|_| !is_copy);
            if let Some(Err(error)) = events.map(|events| events.push(&line)) {
                self.lose_events(error);
            }
        }
    }

    /// Hands a request over. None is asked once the turn is being ended: nobody's answer could count.
    fn ask(&mut self, request: Request) {
        let gate = self.turn.gate.filter(|_| self.ladder.is_running() && !self.has_exited);
        let Some(gate) = gate else {
            self.record(&Event::Withdrawn { id: request.id });
            let is_parked = matches!(self.cut, Some(Cut::Parked(_)));
            let out = self.dialect.abandon(is_parked);
            self.carry_out(out);
            return;
        };
        let (id, inbox) = (request.id.clone(), self.replies.clone());
        let reply = Reply::new(move |resolution| post(&inbox, Input::Answer(id, resolution)));
        self.asked.push(request.clone());
        if let Some(Err(error)) = self.events.as_mut().map(Events::flush) {
            self.lose_events(error);
        }
        gate.asked(request, reply);
    }

    /// Takes an answer. One to a request that is not open is dropped.
    fn answered(&mut self, id: &str, resolution: Resolution) {
        let Some(at) = self.asked.iter().position(|request| request.id == id) else { return };
        // The time in which nobody answered is not the program's.
        self.last = self.watch.elapsed();
        let recorded = resolution.recorded();
        if resolution == Resolution::Parked {
            let parked = std::mem::take(&mut self.asked);
            for request in &parked {
                self.record(&Event::Resolved { id: request.id.clone(), resolution: recorded.clone() });
            }
            let out = self.dialect.abandon(true);
            self.carry_out(out);
            self.cut(Cut::Parked(parked), PARK_PACE);
        } else {
            self.asked.remove(at);
            self.record(&Event::Resolved { id: id.to_owned(), resolution: recorded });
            let out = self.dialect.answer(id, &resolution);
            self.carry_out(out);
        }
        if let Some(Err(error)) = self.events.as_mut().map(Events::flush) {
            self.lose_events(error);
        }
    }

    /// The program took a request back.
    fn withdraw(&mut self, id: &str) {
        self.asked.retain(|request| request.id != id);
        if let Some(gate) = self.turn.gate {
            gate.withdrawn(id);
        }
    }

    /// The turn ends: no request is asked any longer.
    fn withdraw_all(&mut self) {
        for request in std::mem::take(&mut self.asked) {
            self.record(&Event::Withdrawn { id: request.id.clone() });
            self.withdraw(&request.id);
        }
    }

    fn lose_events(&mut self, error: io::Error) {
        self.events = None;
        self.cut(Cut::Unkept(error), PACE);
    }

    /// Ends the turn. The first reason counts, and none counts after the last word.
    fn cut(&mut self, cut: Cut, pace: Duration) {
        if self.cut.is_none() && !self.account.is_over() {
            tracing::debug!(?cut, "the turn is ended");
            self.cut = Some(cut);
        }
        if !self.asked.is_empty() {
            self.withdraw_all();
            let out = self.dialect.abandon(false);
            self.carry_out(out);
        }
        let is_late = matches!(self.cut, Some(Cut::TimedOut(_) | Cut::Idle(_)));
        let order = if is_late && self.opening.is_silent(self.turn.provider.kind) && self.ladder.is_running()
        {
            self.opening.close();
            self.ladder.close(self.watch.elapsed(), pace)
        } else {
            self.ladder.cut(self.watch.elapsed(), pace)
        };
        self.obey(order);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Nothing => {}
            Order::Interrupt => {
                let out = self.dialect.interrupt();
                self.carry_out(out);
            }
            Order::Close => self.stdin.close(),
            Order::Terminate => {
                self.stdin.close();
                self.own.0.request(TERMINATE);
            }
        }
    }

    /// The next time at which something is due without any event.
    fn deadline(&self) -> Option<Duration> {
        if !self.ladder.is_running() {
            return self.ladder.deadline();
        }
        let idle = self.idle().map(|idle| self.last.saturating_add(idle));
        least(least(self.wall, idle), self.opening().map(|(end, _)| end))
    }

    fn opening(&self) -> Option<(Duration, Duration)> {
        self.opening.deadline(self.turn.provider.kind).filter(|_| self.asked.is_empty())
    }

    /// The longest time without output. It does not run while somebody is asked.
    fn idle(&self) -> Option<Duration> {
        self.idle.filter(|_| self.asked.is_empty())
    }

    fn tick(&mut self) {
        let now = self.watch.elapsed();
        if !self.ladder.is_running() {
            let order = self.ladder.tick(now);
            self.obey(order);
            return;
        }
        if let Some(wall) = self.wall.filter(|wall| now >= *wall) {
            self.cut(Cut::TimedOut(wall), PACE);
        } else if let Some((_, limit)) = self.opening().filter(|(end, _)| now >= *end) {
            self.cut(Cut::Mute(limit), PACE);
        } else if let Some(idle) = self.idle().filter(|idle| now >= self.last.saturating_add(*idle)) {
            if (self.turn.changed)() {
                self.last = now;
            } else {
                self.cut(Cut::Idle(idle), PACE);
            }
        }
    }

    /// Ends the files, and judges.
    fn settle(mut self, taps: (Tap, Tap), finished: &Finished) -> End {
        let kept = [taps.0.finish(), taps.1.finish(), self.events.take().map_or(Ok(()), Events::finish)];
        let answer = match &self.account.final_text {
            Some(text) => replace(&self.turn.evidence.join(files::FINAL), text.as_bytes()),
            None => Ok(()),
        };
        for written in kept.into_iter().chain([answer]) {
            if let (Err(error), None) = (written, &self.cut) {
                self.cut = Some(Cut::Unkept(error));
            }
        }
        if let Some(Cut::Unkept(error)) = &mut self.cut {
            *error = io::Error::other(trouble(error, self.turn.evidence));
        }
        let last = last_line(&self.turn.evidence.join(files::STDERR));
        let facts = (&self.account, &self.opening);
        let mut verdict = judge(self.turn.provider, self.cut, facts, &finished.how, last.as_deref());
        if !finished.ended.is_empty() {
            let names: Vec<&str> = finished.ended.iter().map(|left| left.name.as_str()).collect();
            verdict.words += &format!("; it left processes running, which were ended: {}", names.join(", "));
        }
        let exit = match finished.how {
            supervise::How::Exited(code) => Some(code),
            _ => None,
        };
        let stuck = finished.stuck.iter().map(|left| (left.pid, left.name.clone())).collect();
        End { verdict, account: self.account, exit, stuck }
    }
}

fn conclude(turn: &Turn<'_>, end: End, argv: Vec<OsString>, elapsed: Duration) -> Ended {
    let End { verdict, account, exit, stuck } = end;
    let Account {
        final_text, unsaid, answered, tally, usage, bad_usage, session, model, version, end, ..
    } = account;
    let Verdict { how, outage, words } = verdict;
    let has_no_session = how == How::Failed && matches!(end, Some(event::End::NoSession(_)));
    let mut evidence = format!("{} {words}", turn.provider.name);
    if bad_usage {
        evidence += "; a report of what it used makes no sense and is not counted";
    }
    for (pid, name) in &stuck {
        evidence += &format!("; its process {pid} ({name}) could not be ended and may still change files");
    }
    Ended {
        how,
        evidence,
        outage,
        final_text,
        unsaid,
        failed_call: tally.failed_call(),
        verification: tally.verification(),
        answered,
        usage,
        session,
        has_no_session,
        model,
        version,
        argv,
        exit,
        stuck,
        elapsed,
    }
}
