//! Writers of one ledger that are killed at random: half of them in one clone, the others in clones of their own, with
//! packing and `git gc` beside them. In the end each message is there once, everywhere.
//!
//! One seed decides everything and is printed. `CHAOS_SEED` sets it, `CHAOS_MINUTES` the length of the long run.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::ledger::operate::Ledger;

use super::writers::clone;
use super::{Repo, assert_whole, open, run_with_node, sized, writer};
use crate::chaos::{Dice, long, seed, tell};
use crate::support::hermetic;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Writers from this one on have a clone of their own; those before it share the first clone.
const OWN: usize = 3;
const MESSAGES: usize = 12;
/// Of a hundred writers that are started, so many are killed.
const KILLED: usize = 70;

/// A writer, which is started again after each kill. Its operations have the same ids each time.
struct Writer<'a> {
    repo: &'a Repo,
    name: &'static str,
    process: Option<Child>,
    done: bool,
}

impl Writer<'_> {
    fn start(&mut self, run: aynig::model::ids::RunId) {
        let mut process = writer(&self.repo.path, run, self.name, MESSAGES);
        process.stdout(Stdio::null()).stderr(Stdio::piped());
        self.process = Some(process.spawn().expect("a process"));
    }

    /// Looks whether it has ended. Only a kill may make it fail.
    fn look(&mut self, killed: bool) {
        let Some(process) = &mut self.process else { return };
        if killed {
            process.kill().ok();
        } else if process.try_wait().expect("a child").is_none() {
            return;
        }
        let output = self.process.take().expect("it is there").wait_with_output().expect("it has ended");
        self.done = output.status.success();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(self.done || killed, "{}: {said}", self.name);
    }
}

/// Packs refs and objects, as a user or a maintenance timer may at any time.
fn tidy(repo: &Repo, dice: &mut Dice) {
    let call: &[&str] =
        dice.pick(&[&["pack-refs", "--all"][..], &["gc", "--quiet", "--no-detach"], &["repack", "-q", "-d"]]);
    let mut git = std::process::Command::new("git");
    // A lock of a writer that was killed a moment ago may refuse it.
    hermetic(&mut git).args(call).current_dir(&repo.path).stderr(Stdio::null()).status().expect("git runs");
}

fn series(dice: &mut Dice, killed: &mut usize) {
    let hub = Repo::new();
    let shared = clone(&hub);
    let own: Vec<Repo> = NAMES[OWN..].iter().map(|_| clone(&hub)).collect();
    let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let (run, _) = run_with_node(&open(&shared.path).handle(), &place);
    for clone in &own {
        clone.git(["fetch", "--quiet", "origin", "+refs/aynig/runs/*:refs/aynig/runs/*"]);
    }
    let repo_of = |at: usize| at.checked_sub(OWN).map_or(&shared, |at| &own[at]);
    let mut writers: Vec<Writer> = (0..NAMES.len())
        .map(|at| Writer { repo: repo_of(at), name: NAMES[at], process: None, done: false })
        .collect();
    while writers.iter().any(|writer| !writer.done) {
        for writer in writers.iter_mut().filter(|writer| !writer.done) {
            if writer.process.is_none() {
                writer.start(run);
            }
            // Seldom, since a writer needs some time for a message.
            let kill = dice.roll(40) == 0 && dice.roll(100) < KILLED;
            *killed += usize::from(kill);
            writer.look(kill);
        }
        if dice.roll(60) == 0 {
            tidy(dice.pick(&[&hub, &shared, &own[0]]), dice);
        }
        std::thread::park_timeout(Duration::from_millis(u64::try_from(dice.roll(40)).expect("small")));
    }
    assert_whole(&hub, run, &NAMES, MESSAGES);
    for clone in std::iter::once(&shared).chain(&own) {
        let store = open(&clone.path);
        let repo = store.handle();
        let mut ledger = Ledger::open(&repo, run).expect("a ledger");
        ledger.refresh().expect("the hub");
        assert_eq!(ledger.tip().id.to_string(), hub.head(&format!("refs/aynig/runs/{run}")));
        assert_whole(clone, run, &NAMES, MESSAGES);
    }
}

fn run(least: usize, lasts: Duration) {
    let seed = seed();
    tell(&format!("CHAOS_SEED={seed}"));
    let (mut dice, mut killed, mut made) = (Dice(seed), 0, 0);
    let begun = Instant::now();
    while made < least || begun.elapsed() < lasts {
        series(&mut dice, &mut killed);
        made += 1;
    }
    tell(&format!("{made} ledgers of {} messages, {killed} writers killed", NAMES.len() * MESSAGES));
}

/// CONTRACT 16.1, 16.2
#[test]
fn writers_killed_at_random_lose_and_double_nothing() {
    run(sized(1, 2), Duration::ZERO);
}

#[test]
#[ignore = "takes minutes: CHAOS_MINUTES=10 cargo test --test it -- --ignored long_ledger_chaos --nocapture"]
fn long_ledger_chaos() {
    run(5, long());
}
