//! Judges finished repositories by the contract with nothing but the git program: the history of each branch,
//! commit by commit, and the journal that commands wrote about their runs.
//!
//! A journal line is `WORD RUN-ID BRANCH TRIGGER MILLISECONDS …`, where the word is `began`, `made` or
//! `ended`.

use std::collections::{BTreeMap, BTreeSet};

use super::support::*;

mod wrong;

/// The properties that differ between fields.
pub(crate) struct Law {
    /// Whether a remote decides.
    pub remote: bool,
    /// `--skew-seconds` of all runners.
    pub skew: i64,
    /// The states that have a command.
    pub due: &'static [&'static str],
}

/// Beginnings of the subjects of a person's commits in these tests.
const BY_HAND: [&str; 2] = ["please ", "again "];

/// The beginning of the subjects of states that were left until their branch was free (`--when-free`). Each is sent once.
pub(crate) const LATER: &str = "later ";

/// Names the slot that a commit delivers.
const DELIVERS: &str = "aynig-deferred";

#[derive(Clone, Debug)]
struct Commit {
    id: String,
    parents: Vec<String>,
    tree: String,
    dated: i64,
    subject: String,
    body: String,
    trailers: Vec<(String, String)>,
}

impl Commit {
    fn trailer(&self, key: &str) -> Option<&str> {
        self.trailers.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn state(&self) -> Option<&str> {
        self.trailer("dwp-state")
    }

    fn short(&self) -> &str {
        &self.id[..10]
    }
}

/// An attempt, as the history shows it.
#[derive(Debug)]
struct Attempt {
    branch: String,
    trigger: String,
    /// Closed by another runner after its lease expired.
    recovered: bool,
}

#[derive(Debug)]
struct Line {
    word: String,
    run: String,
    branch: String,
    trigger: String,
    at: u64,
}

/// All violations; empty if the contract was kept.
pub(crate) fn judge(repo: &Repo, law: &Law, journal: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    let commits = commits(repo);
    let mut attempts: BTreeMap<String, Attempt> = BTreeMap::new();
    let heads = repo.git(["for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"]);
    for (branch, head) in heads.lines().filter_map(|line| line.split_once(' ')) {
        if branch != "main" {
            let chain = chain(&commits, head);
            judge_branch(branch, &chain, law, &mut attempts, &mut wrong);
        }
    }
    judge_runs(&attempts, journal, &mut wrong);
    wrong
}

/// The files `own-RUN`, `staged-RUN` and `loose-RUN` of each attempt that noted `made`, if no commit in any
/// of `repos` contains them.
pub(crate) fn lost_work(repos: &[&Repo], journal: &[String]) -> Vec<String> {
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for repo in repos {
        let paths = repo.git(["log", "--all", "-m", "--name-only", "--diff-filter=A", "--format="]);
        kept.extend(paths.lines().map(str::to_owned));
    }
    let made = journal.iter().filter_map(|line| line.strip_prefix("made ")?.split(' ').next());
    let names = made.flat_map(|run| ["own", "staged", "loose"].map(|kind| format!("{kind}-{run}")));
    names.filter(|name| !kept.contains(name)).collect()
}

/// Every commit beyond `main` that is reachable from a ref.
fn commits(repo: &Repo) -> BTreeMap<String, Commit> {
    let format = "--format=%H%x1f%P%x1f%T%x1f%ct%x1f%s%x1f%b%x1f%(trailers:only=true,unfold=true)%x1e";
    let log = repo.git(["log", format, "--branches", "--not", "main"]);
    log.split('\u{1e}')
        .filter(|record| !record.trim().is_empty())
        .map(|record| {
            let fields: Vec<&str> = record.trim_start().split('\u{1f}').collect();
            let trailers = fields[6].lines().filter_map(|line| line.split_once(": "));
            let commit = Commit {
                id: fields[0].to_owned(),
                parents: fields[1].split_whitespace().map(str::to_owned).collect(),
                tree: fields[2].to_owned(),
                dated: fields[3].parse().expect("seconds"),
                subject: fields[4].to_owned(),
                body: fields[5].to_owned(),
                trailers: trailers.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            };
            (commit.id.clone(), commit)
        })
        .collect()
}

/// The first-parent chain from beyond `main` up to `head`.
fn chain<'a>(commits: &'a BTreeMap<String, Commit>, head: &str) -> Vec<&'a Commit> {
    let mut chain = Vec::new();
    let mut next = commits.get(head);
    while let Some(commit) = next {
        chain.push(commit);
        next = commit.parents.first().and_then(|parent| commits.get(parent));
    }
    chain.reverse();
    chain
}

/// The state of a branch after a commit.
enum At<'a> {
    Start,
    State(&'a Commit),
    Leased {
        trigger: &'a Commit,
        lease: &'a Commit,
        /// The newest commit on it: the lease, a renewal, or the command's.
        newest: &'a Commit,
        /// The end of the lease, by the commits of the branch.
        until: i64,
        /// The request on it (CONTRACT 5.30).
        asked: Option<&'a str>,
    },
}

fn judge_branch(
    branch: &str,
    chain: &[&Commit],
    law: &Law,
    attempts: &mut BTreeMap<String, Attempt>,
    wrong: &mut Vec<String>,
) {
    let mut at = At::Start;
    for commit in chain {
        let mut say = |what: &str| wrong.push(format!("{branch} {}: {what}", commit.short()));
        if commit.parents.len() != 1 {
            say("not one parent");
        }
        for key in MANAGED_KEYS {
            if commit.trailers.iter().filter(|(name, _)| name == key).count() > 1 {
                say(&format!("{key} twice"));
            }
        }
        at = match (at, commit.state()) {
            (At::Start, Some(state)) if state != "working" => At::State(commit),
            (At::Start, _) => {
                say("a branch begins with a state");
                At::State(commit)
            }
            (At::State(trigger), Some("working")) => {
                for what in faults_of_claim(trigger, commit, law) {
                    say(&what);
                }
                let run = commit.trailer("dwp-run-id").unwrap_or_default().to_owned();
                let attempt =
                    Attempt { branch: branch.to_owned(), trigger: trigger.id.clone(), recovered: false };
                if attempts.insert(run, attempt).is_some() {
                    say("the run id of another attempt");
                }
                At::Leased { trigger, lease: commit, newest: commit, until: end_of(commit), asked: None }
            }
            (At::State(below), Some(_)) if commit.subject.starts_with(LATER) => {
                // What somebody cancelled is not due (CONTRACT 5.36).
                let is_due = below.state().is_some_and(|state| law.due.contains(&state));
                if is_due && below.trailer(CANCEL).is_none() {
                    say("a deferred state in place of one that was due");
                }
                if commit.tree != below.tree {
                    say("a deferred state that changes files");
                }
                let mut earlier = chain.iter().take_while(|earlier| earlier.id != commit.id);
                if earlier.any(|earlier| is_same_state(earlier, commit)) {
                    say("a deferred state that was delivered before");
                }
                At::State(commit)
            }
            (At::Leased { .. }, Some(_)) if commit.trailer(DELIVERS).is_some() => {
                say("a deferred state over a lease");
                At::State(commit)
            }
            (At::State(_), Some(_)) if BY_HAND.iter().any(|begin| commit.subject.starts_with(begin)) => {
                At::State(commit)
            }
            (At::State(asked), Some(_)) if commit.trailer("aynig-answers") == Some(&asked.id) => {
                if commit.tree != asked.tree {
                    say("an answer that changes files");
                }
                At::State(commit)
            }
            (At::State(trigger), Some("stalled")) if commit.body.starts_with("Cancelled by ") => {
                let failed =
                    trigger.trailer("dwp-origin-state").filter(|_| trigger.state() == Some("stalled"));
                let asked = failed.or(trigger.state());
                if commit.trailer("dwp-origin-state") != asked || commit.tree != trigger.tree {
                    say("cancels something else than the request below it");
                }
                for key in managed_but(commit, &["dwp-state", "dwp-origin-state"]) {
                    say(&format!("a cancelled request with {key}"));
                }
                At::State(commit)
            }
            (At::State(_), state) => {
                say(&format!("{state:?} where nobody had a lease"));
                At::State(commit)
            }
            (At::Leased { trigger, lease, until, asked, .. }, None) => {
                let until = until.max(commit.dated + seconds_of(lease));
                At::Leased { trigger, lease, newest: commit, until, asked }
            }
            (At::Leased { trigger, lease, newest, until, asked }, Some("working")) => {
                if commit.trailer(CANCEL).is_some() {
                    let of_request = |key: &str| key == CANCEL || key == "dwp-lease-seconds";
                    let others = |commit: &Commit| -> Vec<(String, String)> {
                        commit.trailers.iter().filter(|(key, _)| !of_request(key)).cloned().collect()
                    };
                    if others(commit) != others(lease) {
                        say("a request that is not on this lease");
                    }
                    if end_of(commit) > until.max(commit.dated + 1) {
                        say("a request that lengthens the lease");
                    }
                } else if commit.trailers != lease.trailers {
                    say("a lease on a lease, and not its renewal");
                }
                if commit.tree != newest.tree {
                    say("a renewal that changes files");
                }
                // By its own date alone. A command's commit below it may have a later date, since their
                // clocks differ.
                let asked = commit.trailer(CANCEL).or(asked);
                At::Leased { trigger, lease, newest: commit, until: end_of(commit), asked }
            }
            (At::Leased { trigger, newest, .. }, Some(_)) if commit.trailer(INTERRUPTED).is_some() => {
                for what in faults_of_requeue(trigger, newest, commit, law) {
                    say(&what);
                }
                At::State(commit)
            }
            // A stalled state whose attempt was cancelled, asked for again.
            (At::Leased { trigger, newest, .. }, Some("stalled"))
                if trigger.state() == Some("stalled")
                    && commit.trailer("dwp-stalled-run") == trigger.trailer("dwp-stalled-run")
                    && commit.trailer("dwp-origin-state") == trigger.trailer("dwp-origin-state") =>
            {
                if commit.tree != newest.tree {
                    say("asks again with other files");
                }
                At::State(commit)
            }
            (At::Leased { lease, newest, until, asked, .. }, Some("stalled")) => {
                if commit.trailer("dwp-stalled-run") != lease.trailer("dwp-run-id")
                    || commit.trailer("dwp-origin-state") != lease.trailer("dwp-origin-state")
                {
                    say("closes another attempt than the one below it");
                }
                if commit.tree != newest.tree {
                    say("a stalled commit that changes files");
                }
                let own = ["dwp-state", "dwp-stalled-run", "dwp-origin-state"];
                for key in managed_but(commit, &own) {
                    say(&format!("a stalled commit with {key}"));
                }
                let (recovered, marked) = (commit.body.starts_with("The lease of "), commit.trailer(CANCEL));
                if marked.is_some() && asked != Some("stall") {
                    say("cancelled, and nobody asked");
                }
                if recovered && marked != asked.filter(|then| *then == "stall") {
                    say("recovered without the request on the lease");
                }
                if recovered {
                    if commit.dated <= until + law.skew {
                        say("recovered before its end");
                    }
                    let run = lease.trailer("dwp-run-id").unwrap_or_default();
                    if let Some(attempt) = attempts.get_mut(run) {
                        attempt.recovered = true;
                    }
                }
                At::State(commit)
            }
            (At::Leased { .. }, Some(_)) => {
                let source = commit.trailer("dwp-source");
                if source != law.remote.then_some("git:origin") {
                    say(&format!("dwp-source {source:?}"));
                }
                for key in managed_but(commit, &["dwp-state", "dwp-source"]) {
                    say(&format!("a result with {key}"));
                }
                At::State(commit)
            }
        };
    }
}

/// Whether two commits deliver one slot. What a slot asked may be asked again under its title (CONTRACT 6.14).
fn is_same_state(one: &Commit, other: &Commit) -> bool {
    one.trailer(DELIVERS).is_some() && one.trailer(DELIVERS) == other.trailer(DELIVERS)
}

/// The runner's trailers of a commit, except the expected ones.
fn managed_but(commit: &Commit, own: &[&str]) -> Vec<&'static str> {
    let foreign = MANAGED_KEYS.into_iter().filter(|key| !own.contains(key));
    foreign.filter(|key| commit.trailer(key).is_some()).collect()
}

/// Whether this is a random UUID (version 4) as RFC 9562 writes it.
fn is_random_uuid(text: &str) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == b'4',
            19 => b"89ab".contains(&byte),
            _ => hex(byte),
        })
}

fn faults_of_claim(trigger: &Commit, lease: &Commit, law: &Law) -> Vec<String> {
    let mut faults = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_owned());
        }
    };
    demand(lease.parents == [trigger.id.clone()], "a lease that is not on its trigger");
    demand(lease.tree == trigger.tree, "a lease with other files than its trigger");
    demand(lease.trailer("dwp-origin-state") == trigger.state(), "a lease for another state");
    let run = lease.trailer("dwp-run-id").unwrap_or_default();
    demand(is_random_uuid(run), "a run id that is no random UUID");
    demand(lease.trailer("dwp-runner-id").is_some_and(|id| !id.is_empty()), "a lease without its runner");
    demand(seconds_of(lease) > 0, "a lease without its length");
    demand(lease.trailer("dwp-source") == law.remote.then_some("git:origin"), "a lease with another source");
    let carried = |commit: &Commit| -> Vec<(String, String)> {
        let own = |key: &str| {
            key.starts_with("dwp-") && !MANAGED_KEYS.contains(&key) && !OF_ONE_REQUEST.contains(&key)
        };
        commit.trailers.iter().filter(|(key, _)| own(key)).cloned().collect()
    };
    demand(carried(trigger) == carried(lease), "a lease with other trailers than its trigger");
    faults
}

/// The trailers that belong to one request alone (CONTRACT 4.18).
const OF_ONE_REQUEST: [&str; 3] = ["dwp-waits-for", "dwp-answers", "dwp-not-before"];

/// Asks the holder of a lease to stop.
const CANCEL: &str = "aynig-cancel";

/// Counts how often in a row what was asked for was interrupted.
const INTERRUPTED: &str = "aynig-interrupted";

fn faults_of_requeue(trigger: &Commit, newest: &Commit, again: &Commit, law: &Law) -> Vec<String> {
    let mut faults = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_owned());
        }
    };
    let prompt = |commit: &Commit| {
        let is_trailer =
            |line: &str| commit.trailers.iter().any(|(key, value)| line == format!("{key}: {value}"));
        commit
            .body
            .lines()
            .filter(|line| !line.is_empty() && !is_trailer(line))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let asked = |commit: &Commit| -> Vec<(String, String)> {
        let own = |key: &str| key != "dwp-source" && !key.starts_with("aynig-");
        commit.trailers.iter().filter(|(key, _)| own(key)).cloned().collect()
    };
    demand(again.subject == trigger.subject, "asks again by another title");
    demand(asked(again).iter().all(|pair| asked(trigger).contains(pair)), "asks again with other trailers");
    demand(asked(again).len() == asked(trigger).len(), "asks again with more or fewer trailers");
    demand(prompt(again) == prompt(trigger), "asks again with another body");
    demand(again.tree == newest.tree, "asks again with other files");
    demand(again.trailer("dwp-source") == law.remote.then_some("git:origin"), "asks again from elsewhere");
    let count = |commit: &Commit| commit.trailer(INTERRUPTED).map_or(0, |text| text.parse().unwrap_or(0_u32));
    demand(count(again) == count(trigger) + 1, "miscounts the interruptions");
    demand(count(again) <= 3, "asks again too often");
    faults
}

fn seconds_of(lease: &Commit) -> i64 {
    lease.trailer("dwp-lease-seconds").and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn end_of(lease: &Commit) -> i64 {
    lease.dated + seconds_of(lease)
}

/// Compares the journal of the commands with the attempts in the histories.
fn judge_runs(attempts: &BTreeMap<String, Attempt>, journal: &[String], wrong: &mut Vec<String>) {
    let lines: Vec<Line> = journal
        .iter()
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            Line {
                word: fields[0].to_owned(),
                run: fields[1].to_owned(),
                branch: fields[2].to_owned(),
                trigger: fields[3].to_owned(),
                at: fields[4].parse().expect("milliseconds"),
            }
        })
        .collect();
    let mut begun: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut runs: BTreeSet<&str> = BTreeSet::new();
    for line in lines.iter().filter(|line| line.word == "began") {
        if !runs.insert(&line.run) {
            wrong.push(format!("{}: attempt {} began twice", line.branch, line.run));
        } else if let Some(other) = begun.insert((&line.branch, &line.trigger), &line.run) {
            wrong.push(format!("{}: {} was run by {other} and by {}", line.branch, line.trigger, line.run));
        }
        match attempts.get(&line.run) {
            None => wrong.push(format!("{}: attempt {} ran without a lease", line.branch, line.run)),
            Some(attempt) if attempt.branch != line.branch || attempt.trigger != line.trigger => {
                wrong.push(format!("{}: attempt {} ran for another commit", line.branch, line.run));
            }
            Some(_) => {}
        }
    }
    for line in lines.iter().filter(|line| !runs.contains(line.run.as_str())) {
        wrong.push(format!("{}: attempt {} {} and never began", line.branch, line.run, line.word));
    }
    // An attempt that still ran after the next one began must have had its lease closed by another runner.
    for next in lines.iter().filter(|line| line.word == "began") {
        let earlier = lines.iter().filter(|line| {
            line.branch == next.branch
                && line.run != next.run
                && line.at > next.at
                && lines
                    .iter()
                    .any(|began| began.word == "began" && began.run == line.run && began.at <= next.at)
        });
        for line in earlier {
            if attempts.get(&line.run).is_none_or(|attempt| !attempt.recovered) {
                wrong.push(format!("{}: {} and {} ran at the same time", line.branch, line.run, next.run));
            }
        }
    }
}
