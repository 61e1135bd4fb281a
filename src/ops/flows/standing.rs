//! Where a flow run stands: a pure function of its ledger and of its driver.
//!
//! Invariant: each standing of a run that goes no further by itself names a command to type.

use serde::Serialize;

use crate::clock;
use crate::contract::unable::{Unable, mends};
use crate::ledger::held::Held;
use crate::model::run::{RunStatus, Verdict};
use crate::words::shell_quote;

/// What a run is doing, or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A host works on a step.
    Working,
    /// A step is due, and any runner may begin it.
    Due,
    /// A step is due at a time.
    Parked,
    /// A person answers the question of a gate.
    Gate,
    /// A person paused it, or a limit did.
    Paused,
    /// A person has to look: nothing would carry it on.
    Stuck,
    /// It has ended.
    Ended,
}

impl Place {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Due => "due",
            Self::Parked => "parked",
            Self::Gate => "gate",
            Self::Paused => "paused",
            Self::Stuck => "stuck",
            Self::Ended => "ended",
        }
    }
}

/// How a run ended for `aynig flow start --wait`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its verdict is `succeeded`.
    Succeeded,
    /// A person is needed.
    NeedsPerson,
    /// Any other end.
    Other,
}

impl End {
    /// How a run ended that stands here. `None` while it goes on by itself.
    #[must_use]
    pub fn of(place: Place, verdict: Option<Verdict>) -> Option<Self> {
        match (place, verdict) {
            (Place::Working | Place::Due | Place::Parked, _) => None,
            (Place::Gate | Place::Paused | Place::Stuck, _) => Some(Self::NeedsPerson),
            (Place::Ended, Some(Verdict::Succeeded)) => Some(Self::Succeeded),
            (Place::Ended, _) => Some(Self::Other),
        }
    }
}

/// What is known of a run.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    pub(super) slug: &'a str,
    pub(super) status: Option<RunStatus>,
    pub(super) verdict: Option<Verdict>,
    pub(super) termination: Option<&'a str>,
    pub(super) waiting_for: Option<&'a str>,
    /// The step that is due or under way.
    pub(super) step: Option<&'a str>,
    /// What the gate that is open waits for, in words.
    pub(super) asks: Option<String>,
    /// Whether it was rolled back last, so that there is nothing to take back.
    pub(super) rolled_back: bool,
    /// Whether a rollback of it can be taken back.
    pub(super) undoes: bool,
    /// The address of its proposal.
    pub(super) proposal: Option<&'a str>,
    /// Whether the time limit of its gate is over.
    pub(super) is_late: bool,
    /// The reason for which the last attempt of the step is tried again later.
    pub(super) waits_because: Option<&'a str>,
    /// The remains of the run after its end.
    pub(super) left: Left<'a>,
    /// Why an answer that was pushed does not count.
    pub(super) uncounted: Option<String>,
    /// Who pushed an answer that waits for a runner.
    pub(super) pushed: Option<&'a str>,
    /// Why it is held here.
    pub(super) held: Option<Held>,
    /// Its driver. `None` if there is no such branch here.
    pub(super) driver: Option<Driver<'a>>,
    /// Whether it belongs to this clone alone, although a remote is set.
    pub(super) is_alone: bool,
    /// The remote that decides it, if none is set here.
    pub(super) unset: Option<String>,
}

/// The remains of an ended run.
#[derive(Debug, Default)]
pub(super) struct Left<'a> {
    /// Its work branch, if it is a branch of this clone.
    pub(super) branch: Option<&'a str>,
    /// Whether its workspace was removed.
    pub(super) is_removed: bool,
    /// Whether the worktree of its workspace is on this host.
    pub(super) is_here: bool,
    /// Whether there is a remote to publish to, and the newest work is not published.
    pub(super) has_remote: bool,
}

/// What the survey says about a driver.
#[derive(Debug, Default)]
pub(super) struct Driver<'a> {
    pub(super) kind: &'a str,
    /// The holder of its lease, and the end of that, in seconds since the epoch.
    pub(super) lease: Option<(&'a str, i64)>,
    /// The words about that runner, if it is known to be gone before the end of the lease.
    pub(super) gone: Option<&'a str>,
    /// Hosts that handed the step back.
    pub(super) unable: &'a [Unable],
    /// Whether no host has taken the step.
    pub(super) untaken: bool,
    /// The date that it is parked until, in seconds since the epoch.
    pub(super) not_before: Option<i64>,
    /// Whether the next pass moves it, or another runner may: a state waits for it, or it is left to somebody.
    pub(super) moves: bool,
    /// Whether only clones with the remote that decides run it.
    pub(super) elsewhere: bool,
    /// Why it is not run, in words.
    pub(super) reason: Option<&'a str>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// In a word.
    pub place: Place,
    /// In a sentence.
    pub words: String,
    /// The commands that carry it on, or show more.
    pub next: Vec<String>,
}

impl Facts<'_> {
    pub(super) fn standing(&self) -> Standing {
        let mut standing = self.stands();
        if self.is_alone && standing.place != Place::Ended {
            standing.words.push_str("; the run belongs to this clone alone");
            let carries_on = super::carries_on(self.slug);
            standing
                .next
                .iter_mut()
                .filter(|next| *next == "aynig run")
                .for_each(|next| next.clone_from(&carries_on));
        }
        standing
    }

    fn stands(&self) -> Standing {
        let step = self.step.unwrap_or("its next step");
        if let Some(held) = &self.held {
            let next = held.next.iter().cloned().chain([self.command("flow log")]).collect();
            let words = format!("is held at {step}: {}", held.words);
            return Standing { place: Place::Stuck, words, next };
        }
        match self.status {
            Some(status) if status.is_ended() => self.ended(status),
            Some(RunStatus::Paused) => {
                let why = self.waiting_for.unwrap_or("a person carries it on");
                let mut standing =
                    self.at(Place::Paused, format!("paused at {step}: {why}"), &["flow resume"]);
                standing.next.extend(self.undo());
                standing
            }
            _ if self.is_late => self.driven(&format!("{step} (the time limit of its gate is over)")),
            _ => match self.waiting_for.or(self.asks.as_deref()).filter(|_| self.asks.is_some()) {
                Some(asked) if let Some(sender) = self.pushed => Standing {
                    place: Place::Gate,
                    words: format!(
                        "waits at {step} for {asked}; an answer of {sender} was pushed, and waits for a runner"
                    ),
                    next: vec!["aynig run".to_owned()],
                },
                Some(asked) => {
                    let uncounted = self.uncounted.iter().map(|why| format!("; {why}")).collect::<String>();
                    let words = format!("waits at {step} for {asked}{uncounted}");
                    self.at(Place::Gate, words, &["flow approve", "flow reject --comment TEXT"])
                }
                None => self.driven(step),
            },
        }
    }

    fn at(&self, place: Place, words: String, next: &[&str]) -> Standing {
        Standing { place, words, next: next.iter().map(|verb| self.command(verb)).collect() }
    }

    /// A subcommand with the run as its first argument.
    fn command(&self, verb: &str) -> String {
        match verb.split_once(" --") {
            Some((verb, options)) => format!("aynig {verb} {} --{options}", self.slug),
            None => format!("aynig {verb} {}", self.slug),
        }
    }

    fn undo(&self) -> Option<String> {
        self.undoes.then(|| format!("aynig flow rollback --undo {}", self.slug))
    }

    fn ended(&self, status: RunStatus) -> Standing {
        let word = self.verdict.map_or_else(|| status.word(), Verdict::word);
        let how = self.termination.filter(|how| *how != "completed" && *how != word);
        let how = how.map(|how| format!(": {how}"));
        let words = format!("ended: {word}{}", how.unwrap_or_default());
        let is_through = self.termination == Some("completed");
        let resume = if is_through { "flow resume --from STEP" } else { "flow resume" };
        let left = &self.left;
        let succeeded = self.verdict == Some(Verdict::Succeeded);
        let mut next = Vec::new();
        if succeeded {
            let lands = left.branch.filter(|_| self.proposal.is_none());
            next.extend(lands.map(|branch| format!("aynig land {}", shell_quote(branch))));
            next.extend((left.has_remote && !left.is_removed).then(|| self.command("publish")));
        }
        if !succeeded || next.is_empty() {
            next.push(self.command("flow log"));
        }
        if !succeeded && !left.is_removed {
            next.push(self.command(resume));
            next.extend((!self.rolled_back).then(|| self.command("flow rollback")));
            next.extend(self.undo());
        }
        next.extend(left.is_here.then(|| format!("aynig workspace remove --apply {}/flow", self.slug)));
        Standing { place: Place::Ended, words, next }
    }

    /// A run that is neither ended nor paused, and asks nobody: its driver decides.
    fn driven(&self, step: &str) -> Standing {
        let Some(driver) = &self.driver else {
            if let Some(remote) = &self.unset {
                let words = format!(
                    "{step} is due, as last fetched: {remote} decides the run, and aynig.remote is not set here"
                );
                let next = vec![format!("git config aynig.remote {}", shell_quote(remote))];
                return Standing { place: Place::Stuck, words, next };
            }
            let words = format!("{step} is due, and its driver is gone: a resumed run gets a new one");
            return self.at(Place::Stuck, words, &["flow resume"]);
        };
        let unable = driver.unable.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match (driver.kind, driver.lease) {
            ("working", Some((runner, _))) if let Some(gone) = driver.gone => {
                let words = format!("{runner} worked on {step}: {gone}");
                Standing { place: Place::Due, words, next: vec!["aynig run".to_owned()] }
            }
            ("working", Some((runner, until))) => {
                let until = clock::format_utc(until);
                let words =
                    format!("{runner} works on {step} (its lease ends at {until}, if it is not renewed)");
                Standing { place: Place::Working, words, next: Vec::new() }
            }
            ("expired", lease) => {
                let runner = lease.map_or("its runner", |(runner, _)| runner);
                let words = format!("{runner} worked on {step} and is gone; the next runner takes it over");
                Standing { place: Place::Due, words, next: vec!["aynig run".to_owned()] }
            }
            ("ready" | "parked", _) if driver.untaken => {
                let resume = self.command("flow resume");
                let (again, line) = match driver.not_before.map(clock::format_utc) {
                    Some(at) => (format!("tried again at {at}; `{resume}` makes it due at once"), resume),
                    None => ("tried again by the next `aynig run`".to_owned(), "aynig run".to_owned()),
                };
                let words = format!("no host can do {step}: {unable}; {again}");
                let mut next = mends(driver.unable.iter().map(|one| one.why.as_str()));
                next.push(line);
                Standing { place: Place::Stuck, words, next }
            }
            ("ready", _) if unable.is_empty() => {
                let words = format!("{step} is due; a runner begins it");
                Standing { place: Place::Due, words, next: vec!["aynig run".to_owned()] }
            }
            ("ready", _) => {
                let words = format!("{step} is due, and {unable}; another host may run it");
                Standing { place: Place::Due, words, next: vec!["aynig run".to_owned()] }
            }
            ("parked", _) => {
                let until = driver.not_before.map(|until| format!(" at {}", clock::format_utc(until)));
                let because = self.waits_because.filter(|_| unable.is_empty()).unwrap_or(&unable);
                let why = if because.is_empty() { String::new() } else { format!("; {because}") };
                let words = format!("{step} is due{}{why}", until.unwrap_or_default());
                let elsewhere = if unable.is_empty() {
                    ""
                } else {
                    "; another host may run it at once, this one if it is resumed"
                };
                let next: &[&str] = if because.is_empty() { &[] } else { &["flow resume"] };
                let mut standing = self.at(Place::Parked, format!("{words}{elsewhere}"), next);
                standing.next.splice(0..0, mends(driver.unable.iter().map(|one| one.why.as_str())));
                standing
            }
            (_, _) if driver.elsewhere => {
                let why = driver.reason.unwrap_or_default();
                Standing { place: Place::Due, words: format!("{step} is due; {why}"), next: Vec::new() }
            }
            (_, _) if driver.moves => {
                let why = driver.reason.map(|why| format!("; {why}")).unwrap_or_default();
                let words = format!("{step} is due{why}");
                Standing { place: Place::Due, words, next: vec!["aynig run".to_owned()] }
            }
            (kind, _) => {
                // What a driver asks that the ledger does not is another question.
                let reason = driver.reason.filter(|_| kind != ASKS);
                let why = self.waiting_for.or(reason).map(|why| format!(": {why}"));
                let words = format!(
                    "{step} is due, and its driver {}{}",
                    driver_words(kind),
                    why.unwrap_or_default()
                );
                self.at(Place::Stuck, words, &["flow resume", "flow log"])
            }
        }
    }
}

/// The kind of a driver that asks a person.
const ASKS: &str = "waits-for-you";

fn driver_words(kind: &str) -> &str {
    match kind {
        "stalled" => "is stalled",
        "invalid" => "cannot be read",
        "rests" | ASKS => "rests at another state",
        _ => "is not run here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(status: RunStatus, kind: &'a str) -> Facts<'a> {
        let driver = Some(Driver { kind, lease: Some(("host-a", 60)), ..Driver::default() });
        Facts { slug: "0a1b2c3d", status: Some(status), step: Some("fix"), driver, ..Facts::default() }
    }

    /// CONTRACT 20.14
    #[test]
    fn each_standing_has_a_place_and_a_next_step() {
        use RunStatus::{Completed, Failed, Paused, Running, Stopped};
        let gate = || Facts { asks: Some("approval of plan".to_owned()), ..facts(Running, "rests") };
        let ended = |status, verdict| Facts { verdict: Some(verdict), ..facts(status, "rests") };
        let done = || ended(Completed, Verdict::Succeeded);
        let why = "no claude; or: `git config a PROGRAM`".to_owned();
        let unable = [Unable { runner: "host-b".to_owned(), why }];
        let handed_back = |kind| {
            let driver = Driver { kind, unable: &unable, not_before: Some(0), ..Driver::default() };
            Facts { driver: Some(driver), ..facts(Running, kind) }
        };
        let lacks = [Unable { runner: "host-b".to_owned(), why: "no claude; `git config a B`".to_owned() }];
        let untaken = Driver { untaken: true, kind: "parked", unable: &lacks, ..Driver::default() };
        let left = |left| Facts { left, ..done() };
        let all =
            Left { branch: Some("work/0a1b2c3d/flow"), is_here: true, has_remote: true, is_removed: false };
        let rows: [(Facts<'_>, Place, &str, &[&str]); 22] = [
            (facts(Running, "working"), Place::Working, "host-a works on fix", &[]),
            (facts(Running, "expired"), Place::Due, "host-a worked on fix and is gone", &["aynig run"]),
            (facts(Running, "ready"), Place::Due, "fix is due", &["aynig run"]),
            (facts(Running, "parked"), Place::Parked, "fix is due", &[]),
            (
                handed_back("parked"),
                Place::Parked,
                "host-b cannot do it: no claude",
                &["git config a PROGRAM", "aynig flow resume 0a1b2c3d"],
            ),
            (handed_back("ready"), Place::Due, "`git config a PROGRAM`; another host", &["aynig run"]),
            (
                Facts { driver: Some(untaken), ..facts(Running, "") },
                Place::Stuck,
                "no host can do fix: host-b cannot do it: no claude; `git config a B`; tried again by the next `aynig run`",
                &["git config a B", "aynig run"],
            ),
            (
                facts(Running, "stalled"),
                Place::Stuck,
                "is stalled",
                &["aynig flow resume 0a1b2c3d", "aynig flow log 0a1b2c3d"],
            ),
            (
                Facts { driver: None, ..facts(Running, "") },
                Place::Stuck,
                "is gone",
                &["aynig flow resume 0a1b2c3d"],
            ),
            (
                Facts { driver: None, unset: Some("hub".to_owned()), ..facts(Running, "") },
                Place::Stuck,
                "hub decides the run, and aynig.remote is not set here",
                &["git config aynig.remote hub"],
            ),
            (
                gate(),
                Place::Gate,
                "waits at fix for approval of plan",
                &["aynig flow approve 0a1b2c3d", "aynig flow reject 0a1b2c3d --comment TEXT"],
            ),
            (
                Facts { pushed: Some("Ann"), ..gate() },
                Place::Gate,
                "an answer of Ann was pushed, and waits",
                &["aynig run"],
            ),
            (
                Facts { waiting_for: Some("tokens: 9 of 8"), ..facts(Paused, "rests") },
                Place::Paused,
                "tokens: 9 of 8",
                &["aynig flow resume 0a1b2c3d"],
            ),
            (
                Facts { is_late: true, ..Facts { driver: facts(Running, "ready").driver, ..gate() } },
                Place::Due,
                "fix (the time limit of its gate is over) is due",
                &["aynig run"],
            ),
            (
                Facts { waits_because: Some("claude asks to be run later"), ..facts(Running, "parked") },
                Place::Parked,
                "fix is due; claude asks to be run later",
                &["aynig flow resume 0a1b2c3d"],
            ),
            (done(), Place::Ended, "ended: succeeded", &["aynig flow log 0a1b2c3d"]),
            (
                left(all),
                Place::Ended,
                "ended: succeeded",
                &[
                    "aynig land work/0a1b2c3d/flow",
                    "aynig publish 0a1b2c3d",
                    "aynig workspace remove --apply 0a1b2c3d/flow",
                ],
            ),
            (
                left(Left { is_removed: true, has_remote: true, ..Left::default() }),
                Place::Ended,
                "ended: succeeded",
                &["aynig flow log 0a1b2c3d"],
            ),
            (
                Facts {
                    left: Left { is_removed: true, ..Left::default() },
                    ..ended(Failed, Verdict::Failed)
                },
                Place::Ended,
                "ended: failed",
                &["aynig flow log 0a1b2c3d"],
            ),
            (
                Facts { proposal: Some("https://x"), ..done() },
                Place::Ended,
                "succeeded",
                &["aynig flow log 0a1b2c3d"],
            ),
            (
                Facts { termination: Some("error: no route"), ..ended(Failed, Verdict::Failed) },
                Place::Ended,
                "ended: failed: error: no route",
                &["aynig flow log 0a1b2c3d", "aynig flow resume 0a1b2c3d", "aynig flow rollback 0a1b2c3d"],
            ),
            (
                Facts { rolled_back: true, ..ended(Stopped, Verdict::Stopped) },
                Place::Ended,
                "ended: stopped",
                &["aynig flow log 0a1b2c3d", "aynig flow resume 0a1b2c3d"],
            ),
        ];
        for (facts, place, words, next) in rows {
            let standing = facts.standing();
            assert_eq!(
                (standing.place, &standing.next[..]),
                (place, &next.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()[..]),
                "{facts:?}"
            );
            assert!(standing.words.contains(words), "{}", standing.words);
        }
    }

    /// CONTRACT 20.14
    #[test]
    fn ends_for_those_who_wait() {
        for place in [Place::Working, Place::Due, Place::Parked] {
            assert_eq!(End::of(place, None), None);
        }
        for place in [Place::Gate, Place::Paused, Place::Stuck] {
            assert_eq!(End::of(place, None), Some(End::NeedsPerson));
        }
        assert_eq!(End::of(Place::Ended, Some(Verdict::Succeeded)), Some(End::Succeeded));
        for verdict in
            [Verdict::Rejected, Verdict::TimedOut, Verdict::Failed, Verdict::Stopped, Verdict::Stalled]
        {
            assert_eq!(End::of(Place::Ended, Some(verdict)), Some(End::Other));
        }
        assert_eq!(End::of(Place::Ended, None), Some(End::Other));
    }
}
