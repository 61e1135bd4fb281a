//! A request that a runner hands back because its host cannot do it (CONTRACT 4.19, 6.17, 11.29).
//!
//! Invariant: the time of a request that was handed back binds only the runners that handed it back. The commits alone
//! decide when a request that no host can do is reported, so it happens once.

use std::fmt;

use bstr::{BStr, ByteSlice};

use super::ids::RemoteName;
use super::parking::{Parking, not_before, parking, time, time_of};
use super::report::plain_line;
use super::trailers::{Trailer, Trailers};

/// The trailer that names a runner and says why it cannot do what is requested: `RUNNER WHY`.
const UNABLE_KEY: &str = "aynig-unable";

/// The trailer that counts how often in a row the request was handed back.
pub(crate) const HANDED_BACK_KEY: &str = "aynig-handed-back";

/// The trailer with the time from which on a notice reports that no host has taken the request.
const UNTAKEN_KEY: &str = "aynig-untaken";

/// How long other hosts have to take a request, in seconds.
const OTHERS: i64 = 600;

/// The first pause and the longest, in seconds.
const PAUSES: [i64; 2] = [30, 600];

/// The most characters of a reason that are kept.
const MAX_WHY_CHARS: usize = 300;

/// The most characters of a runner's id that are shown.
const MAX_ID_CHARS: usize = 100;

/// The most runners that a request names. The oldest goes first.
const MOST_NAMED: usize = 20;

/// A runner that handed the request back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unable {
    /// The runner's id, as one plain line.
    pub runner: String,
    /// Its reason, as one plain line.
    pub why: String,
}

/// A request that is handed back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandedBack {
    /// How often in a row, with this one.
    pub(crate) times: u32,
    /// Why this host cannot do it.
    pub(crate) why: String,
}

impl fmt::Display for Unable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot do it: {}", self.runner, self.why)
    }
}

impl fmt::Display for HandedBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, .. } = self;
        write!(f, "this host cannot do it: {why}; handed back, tried here again in {} s", self.pause())
    }
}

impl HandedBack {
    /// Counts another return of `trigger`.
    pub(crate) fn new(trigger: &Trailers, why: &str) -> Self {
        Self { times: handed_back(trigger).saturating_add(1), why: why.to_owned() }
    }

    /// How long this runner leaves the request alone, in seconds.
    pub(crate) fn pause(&self) -> i64 {
        let [first, longest] = PAUSES;
        // Five doublings exceed the longest pause.
        (first << self.times.saturating_sub(1).min(5)).min(longest)
    }

    /// The trailers of the request that `runner` hands back at `now`, in seconds since the epoch. Without a remote
    /// that decides (`source`) there is no other host.
    pub(crate) fn trailers(
        &self,
        trigger: &Trailers,
        source: Option<&RemoteName>,
        runner: &str,
        now: i64,
    ) -> Vec<Trailer> {
        let runner = token(runner);
        let own = Trailer::new(UNABLE_KEY, format!("{runner} {}", self.why));
        let others: Vec<&BStr> = all(trigger)
            .filter(|value| split(value).is_some_and(|(id, _)| id != runner.as_bytes()))
            .collect();
        let newest = others[others.len().saturating_sub(MOST_NAMED - 1)..].iter();
        let mut trailers = vec![not_before(now.saturating_add(self.pause()))];
        trailers.extend(newest.map(|value| Trailer::new(UNABLE_KEY, *value)));
        trailers.extend([own, Trailer::new(HANDED_BACK_KEY, self.times.to_string())]);
        let first = source.filter(|_| self.times == 1).map(|_| now.saturating_add(OTHERS));
        let until = first.or_else(|| untaken_from(trigger)).filter(|until| *until > now);
        trailers.extend(until.map(|until| Trailer::new(UNTAKEN_KEY, time(until))));
        trailers
    }
}

/// Whether a trailer is a fact about a return, so that a repeated request keeps it.
pub(crate) fn is_of_return(key: &BStr) -> bool {
    [UNABLE_KEY, HANDED_BACK_KEY, UNTAKEN_KEY].iter().any(|of_return| key == of_return)
}

/// The reason that a command declares, as one plain line. `None` if there is none.
pub(crate) fn reason(text: &str) -> Option<String> {
    let why = plain_line(text.trim().as_bytes(), MAX_WHY_CHARS);
    (!why.is_empty()).then_some(why)
}

/// How often in a row the request was handed back.
pub fn handed_back(trailers: &Trailers) -> u32 {
    let count = trailers.last(HANDED_BACK_KEY).and_then(|count| count.to_str().ok()?.parse().ok());
    count.unwrap_or(0)
}

/// The time from which on a notice is due, in seconds since the epoch. `None` after the notice.
fn untaken_from(trailers: &Trailers) -> Option<i64> {
    time_of(trailers.last(UNTAKEN_KEY)?)
}

/// Whether a request that was handed back needs a person at `now`: no host has taken it.
pub fn is_untaken(trailers: &Trailers, now: i64) -> bool {
    handed_back(trailers) > 0 && untaken_from(trailers).is_none_or(|from| from <= now)
}

/// Whether the commit that hands `trigger` back is the one of the notice.
pub(crate) fn first_untaken(trigger: &Trailers, written: &Trailers) -> bool {
    let is_new = handed_back(trigger) == 0 || untaken_from(trigger).is_some();
    is_new && handed_back(written) > 0 && untaken_from(written).is_none()
}

/// The command lines that reasons name between backticks, each once: settings and remotes of git, and the call that shows the
/// changes outside of a workspace.
pub fn mends<'a>(reasons: impl Iterator<Item = &'a str>) -> Vec<String> {
    const STARTS: [&str; 3] = ["git config ", "git remote add ", "aynig workspace show "];
    let mut found: Vec<String> = Vec::new();
    for reason in reasons {
        // A reason that was cut may have a backtick without its end.
        let pieces: Vec<&str> = reason.split('`').collect();
        let quoted = pieces.iter().enumerate().filter(|(at, _)| at % 2 == 1 && at + 1 < pieces.len());
        for (_, line) in quoted.filter(|(_, line)| STARTS.iter().any(|start| line.starts_with(start))) {
            if !found.iter().any(|known| known == line) {
                found.push((*line).to_owned());
            }
        }
    }
    found
}

/// The runners that handed the request back, the newest last.
pub fn unable(trailers: &Trailers) -> Vec<Unable> {
    let line = |value: &[u8], most| plain_line(value, most);
    let named = all(trailers).filter_map(split);
    named.map(|(id, why)| Unable { runner: line(id, MAX_ID_CHARS), why: line(why, MAX_WHY_CHARS) }).collect()
}

/// Whether `runner` handed the request back.
pub(crate) fn is_unable(trailers: &Trailers, runner: &str) -> bool {
    let runner = token(runner);
    all(trailers).filter_map(split).any(|(id, _)| id == runner.as_bytes())
}

/// Whether `runner` may run a state at `now`, in seconds since the epoch.
pub(crate) fn parking_for(runner: &str, trailers: &Trailers, now: i64) -> Parking {
    match parking(trailers, now) {
        Parking::Until(_) if handed_back(trailers) > 0 && !is_unable(trailers, runner) => Parking::Over,
        parking => parking,
    }
}

/// A runner's id as one word.
fn token(runner: &str) -> String {
    runner.trim().replace(char::is_whitespace, "_")
}

fn all(trailers: &Trailers) -> impl Iterator<Item = &BStr> {
    let ours = trailers.iter().filter(|trailer| trailer.key == UNABLE_KEY);
    ours.map(|trailer| trailer.value.as_bstr())
}

fn split(value: &BStr) -> Option<(&[u8], &[u8])> {
    value.split_once_str(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::message::Message;

    fn trailers(text: &str) -> Trailers {
        Message::parse(format!("s\n\ndwp-state: a\n{text}").as_bytes()).trailers
    }

    /// CONTRACT 6.17
    #[test]
    fn the_pause_grows_and_every_runner_is_named_once() {
        let pauses: Vec<i64> =
            (1..=7).map(|times| HandedBack { times, why: String::new() }.pause()).collect();
        assert_eq!(pauses, [30, 60, 120, 240, 480, 600, 600]);
        let before = trailers("aynig-unable: one no codex\naynig-unable: two no tty\naynig-handed-back: 2\n");
        let back = HandedBack::new(&before, "no disk");
        let after: Vec<String> = back
            .trailers(&before, None, "one", 1_000)
            .iter()
            .map(|trailer| format!("{}: {}", trailer.key, trailer.value))
            .collect();
        assert_eq!(
            after,
            [
                "dwp-not-before: 1970-01-01T00:18:40Z",
                "aynig-unable: two no tty",
                "aynig-unable: one no disk",
                "aynig-handed-back: 3"
            ]
        );
        let many: String = (0..30).map(|at| format!("aynig-unable: r{at} no\n")).collect();
        let after: Trailers = back.trailers(&trailers(&many), None, "one", 0).into_iter().collect();
        let named = unable(&after);
        assert_eq!((named.len(), named[0].runner.as_str()), (MOST_NAMED, "r11"));
        assert_eq!(named[MOST_NAMED - 1].to_string(), "one cannot do it: no disk");
    }

    /// CONTRACT 6.18
    #[test]
    fn people_are_told_once_after_other_hosts_had_time() {
        let hub = RemoteName::parse("hub").expect("a name");
        for (source, times, expected) in [
            // Three hosts, and each once more.
            (Some(&hub), vec![0, 1, 2, 300, 599, 600, 601, 5_000], vec![600]),
            (Some(&hub), vec![0, 9_000, 9_001], vec![9_000]),
            (None, vec![0, 30, 9_000], vec![0]),
        ] {
            let mut head = trailers("");
            let mut told = Vec::new();
            for now in times {
                assert_eq!(
                    is_untaken(&head, now),
                    handed_back(&head) > 0 && (now >= 600 || source.is_none())
                );
                let back = HandedBack::new(&head, "no codex");
                let written: Trailers = back.trailers(&head, source, "here", now).into_iter().collect();
                told.extend(first_untaken(&head, &written).then_some(now));
                head = written;
            }
            assert_eq!(told, expected);
        }
        assert!(!is_untaken(&trailers(""), 9_000));
        let reasons = ["no `b`; `git config a K` or `git config b K`", "`git config a K`; `git config cut"];
        assert_eq!(mends(reasons.into_iter()), ["git config a K", "git config b K"]);
        let reasons = [
            "hooks were changed; `aynig workspace show 1/flow` shows how to undo it, `aynig workspace snapshot --accept 1/flow` takes it",
            "no remote has it: `git remote add NAME 'file:///x y'` adds it; `rm -rf x`, `git remote set-url a b`",
        ];
        let expected = ["aynig workspace show 1/flow", "git remote add NAME 'file:///x y'"];
        assert_eq!(mends(reasons.into_iter()), expected);
    }

    /// CONTRACT 11.29
    #[test]
    fn its_time_binds_those_who_handed_it_back() {
        let back =
            "aynig-unable: here no codex\naynig-handed-back: 1\ndwp-not-before: 1970-01-01T00:01:40Z\n";
        let rows = [
            (back, "here", 50, Parking::Until(100)),
            (back, "here", 100, Parking::Over),
            (back, "there", 50, Parking::Over),
            ("dwp-not-before: 1970-01-01T00:01:40Z\n", "there", 50, Parking::Until(100)),
            // Nobody is named, so it binds all.
            (
                "aynig-unable: here no codex\ndwp-not-before: 1970-01-01T00:01:40Z\n",
                "there",
                50,
                Parking::Until(100),
            ),
            ("", "here", 50, Parking::Over),
        ];
        for (text, runner, now, expected) in rows {
            assert_eq!(parking_for(runner, &trailers(text), now), expected, "{text} {runner} {now}");
        }
        assert_eq!(reason(" a\u{1b}[31m\nb "), reason("a\u{1b}[31m\nb"));
        assert_eq!(reason(" \n"), None);
    }
}
