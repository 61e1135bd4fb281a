//! How a turn ended: by its last word, by what ended it, or, without a protocol, by its exit code.

use std::io;
use std::time::Duration;

use super::event::{End, Event};
use super::gate::Request;
use super::lines::Ending;
use super::name::Kind;
use super::opening::Opening;
use super::tally::Tally;
use super::turn::{AtOnce, How, Provider, Question};
use crate::model::approval::{Answer, Tool};
use crate::model::run::Usage;
use crate::stop::Cause;
use crate::supervise;

/// The exit code by which a program without a protocol asks to be run later (`EX_TEMPFAIL`).
const TRY_LATER: i32 = 75;

/// The most requests that are named of those that the posture answered.
const MOST_ANSWERED: usize = 100;

/// Why a turn was ended from outside.
#[derive(Debug)]
pub(super) enum Cut {
    TimedOut(Duration),
    Idle(Duration),
    Asked(Question),
    /// These requests got no answer in time.
    Parked(Vec<Request>),
    /// It printed no message of its protocol in this time.
    Mute(Duration),
    Stopped(Cause),
    /// Its output could not be kept.
    Unkept(io::Error),
    /// It asked on and on without reading the answers.
    Flood,
}

/// The sum of the events of a turn.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) final_text: Option<String>,
    pub(super) usage: Option<Usage>,
    /// Whether a report of what it used makes no sense.
    pub(super) bad_usage: bool,
    pub(super) session: Option<String>,
    pub(super) model: Option<String>,
    pub(super) version: Option<String>,
    /// Sentences that the agent has yet to hear.
    pub(super) unsaid: Vec<String>,
    /// What failed in it.
    pub(super) tally: Tally,
    /// Whether the program keeps a call for later.
    is_kept: bool,
    /// The first requests that the posture answered.
    pub(super) answered: Vec<AtOnce>,
    limit: Option<(Option<i64>, String)>,
    pub(super) end: Option<End>,
    last_retry: Option<String>,
}

impl Account {
    /// Takes an event. The first last word counts.
    pub(super) fn take(&mut self, event: Event) {
        self.tally.take(&event);
        match event {
            Event::Final(text) => self.final_text = Some(Ending::of(text)),
            Event::Usage(usage) if usage.is_sensible() => self.usage = Some(usage),
            Event::Usage(_) | Event::BadUsage(_) => self.bad_usage = true,
            Event::Session(id) => self.session = Some(id),
            Event::Model(model) => self.model = Some(model),
            Event::Version(version) => self.version = Some(version),
            Event::Limit { until, message } if !self.is_over() => self.limit = Some((until, message)),
            Event::End(end) if !self.is_over() => self.end = Some(end),
            Event::Retry(message) => self.last_retry = Some(message),
            Event::Unsaid(words) => self.unsaid.push(words),
            Event::Kept => self.is_kept = true,
            Event::Approval { tool: id, question, answer, .. } if self.answered.len() < MOST_ANSWERED => {
                let Question { tool: name, args, context } = question;
                let is_approved = answer == Answer::Approved;
                self.answered.push(AtOnce { tool: Tool::new(id, name, args), context, is_approved });
            }
            Event::Limit { .. }
            | Event::End(_)
            | Event::Delta(_)
            | Event::ThinkingDelta(_)
            | Event::Thinking(_)
            | Event::Proposed(_)
            | Event::Started { .. }
            | Event::Done { .. }
            | Event::Approval { .. }
            | Event::Asked(_)
            | Event::Resolved { .. }
            | Event::Withdrawn { .. }
            | Event::Foreign(_)
            | Event::Log(_) => {}
        }
    }

    /// Whether the last word was said.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some() || self.limit.is_some()
    }
}

/// The verdict on a turn.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) how: How,
    pub(super) outage: bool,
    /// A sentence without its subject, the provider.
    pub(super) words: String,
}

impl Verdict {
    pub(super) fn new(how: How, words: impl Into<String>) -> Self {
        Self { how, outage: false, words: words.into() }
    }
}

/// Judges a turn. `stderr` is the last line of what it printed there.
pub(super) fn judge(
    provider: &Provider,
    cut: Option<Cut>,
    (account, opening): (&Account, &Opening),
    exit: &supervise::How,
    stderr: Option<&str>,
) -> Verdict {
    if let supervise::How::NotStarted(error) = exit {
        return Verdict::new(How::Unavailable(error.to_string()), error.to_string());
    }
    if let Some(cut) = cut {
        let is_mute = matches!(cut, Cut::Mute(_));
        let more = if is_mute { opening.words(provider, true) } else { opening.waited_words(provider) };
        let Verdict { how, outage, words } = cut_off(cut, account);
        return Verdict { how, outage, words: words + &more };
    }
    if let Some((until, message)) = &account.limit {
        let (until, message) = (*until, message.clone());
        let words = format!("reached a usage limit: {message}");
        return Verdict::new(How::Limited { until, message }, words);
    }
    if provider.kind == Kind::Text {
        return by_exit(exit, stderr);
    }
    match &account.end {
        Some(End::Completed) => Verdict::new(How::Completed, "completed the turn"),
        Some(End::Interrupted) => Verdict::new(How::Failed, "ended the turn as interrupted"),
        Some(End::NoSession(message)) => {
            Verdict::new(How::Failed, format!("cannot continue the session: {message}"))
        }
        Some(End::Failed { message, outage }) => {
            Verdict { how: How::Failed, outage: *outage, words: format!("failed: {message}") }
        }
        None => {
            let ended = exit_words(exit);
            let words = format!("{ended} without the message that ends a turn, so the turn failed");
            Verdict::new(How::Failed, with_stderr(words + &opening.words(provider, false), stderr))
        }
    }
}

fn cut_off(cut: Cut, account: &Account) -> Verdict {
    let retried = |mut words: String| {
        if let Some(retry) = &account.last_retry {
            words = format!("{words}; its last message about its service: {retry}");
        }
        words
    };
    match cut {
        Cut::TimedOut(limit) => {
            let words = format!("was ended after {}, the longest time of this turn", shown(limit));
            Verdict::new(How::TimedOut(limit), retried(words))
        }
        Cut::Idle(limit) => {
            let words = format!("was ended: it printed nothing and changed no file for {}", shown(limit));
            Verdict::new(How::Idle(limit), retried(words))
        }
        Cut::Mute(limit) => {
            let words = format!("was ended: it printed no message of its protocol within {}", shown(limit));
            Verdict::new(How::Failed, words)
        }
        Cut::Asked(question) => {
            let mut words = format!("asked for permission to use {}", question.tool);
            if let Some(context) = &question.context {
                words += &format!(" ({})", context.lines().next().unwrap_or_default());
            }
            words += ", which the approval posture fail_on_prompt does not allow";
            Verdict::new(How::Asked(question), words)
        }
        Cut::Parked(requests) => {
            let names: Vec<&str> = requests.iter().map(|request| request.tool.name.as_str()).collect();
            let words = format!(
                "asked for permission to use {}, and nobody has answered yet, so nothing of it was run",
                names.join(", ")
            );
            Verdict::new(How::Parked { requests, is_kept: account.is_kept }, words)
        }
        Cut::Stopped(cause) => Verdict::new(How::Stopped(cause), "was stopped"),
        Cut::Unkept(error) => {
            Verdict::new(How::Failed, format!("was ended, because its output could not be kept: {error}"))
        }
        Cut::Flood => Verdict::new(How::Failed, "was ended: it asks on and on and reads no answer"),
    }
}

fn by_exit(exit: &supervise::How, stderr: Option<&str>) -> Verdict {
    match exit {
        supervise::How::Exited(0) => Verdict::new(How::Completed, "completed the turn"),
        supervise::How::Exited(TRY_LATER) => Verdict::new(How::Later, "asks to be run later (exit code 75)"),
        other => Verdict::new(How::Failed, with_stderr(format!("failed: it {}", exit_words(other)), stderr)),
    }
}

fn exit_words(exit: &supervise::How) -> String {
    match exit {
        supervise::How::Exited(code) => format!("ended with exit code {code}"),
        supervise::How::Signalled(signal) => format!("was killed by signal {signal}"),
        supervise::How::Stopped(_) => "closed its output and was ended".to_owned(),
        supervise::How::Lost(why) => why.clone(),
        supervise::How::NotStarted(error) => error.to_string(),
    }
}

fn with_stderr(words: String, stderr: Option<&str>) -> String {
    match stderr {
        Some(line) => format!("{words}; its last line on stderr: {line}"),
        None => words,
    }
}

fn shown(time: Duration) -> String {
    if time.subsec_millis() == 0 { format!("{} s", time.as_secs()) } else { format!("{time:?}") }
}
