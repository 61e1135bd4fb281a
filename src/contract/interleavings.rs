//! The lease as a protocol: runners with their own clocks read, wait, claim, renew, settle and
//! recover one branch in any order, using only the decisions of this room.
//!
//! The tests show that at most one of them holds a lease that is alive by its own clock (CONTRACT
//! 8.1). That holds as long as the clocks agree within the tolerance of CONTRACT 5.18. They also
//! show that the tolerance is needed.

mod slots;

use std::time::Duration;

use bstr::BString;
use proptest::prelude::*;

use super::cancel::{Then, cancel_draft};
use super::carried::KeepTrailers;
use super::commits::{LeaseTerms, lease_draft, renewal_draft, stalled_draft};
use super::declaration::Declaration;
use super::head::{CommitFacts, Event, Head};
use super::ids::{AttemptId, CommitId, StateName};
use super::lease::{Lease, Liveness, renewal_lead};
use super::message::{Draft, Message};
use super::ownership::{Ownership, ownership};
use super::requeue::{Interrupted, Requeue, Writer, interrupted_before, requeued_draft};

const RUNNERS: usize = 3;

/// `--skew-seconds` in these runs.
const TOLERANCE: i64 = 4;

/// The length of every lease, in seconds.
const SECONDS: u64 = 6;

/// One event of a run.
#[derive(Clone, Debug)]
enum Happening {
    /// Time passes for every runner, this many seconds.
    Time(i64),
    /// A runner reads HEAD, and its clock.
    Look(usize),
    /// A runner acts on what it read, however long ago: claims a ready branch, recovers an expired
    /// lease.
    Act(usize),
    /// A runner checks the lease it believes to hold: notes that a renewal is due, or finds the
    /// lease lost.
    Tend(usize),
    /// A runner writes its renewal. Anything may have happened since the check.
    Renew(usize),
    /// A runner's command ends: the result is landed if the branch is still its own.
    Settle(usize, Ends),
    /// A runner dies, and restarts without memory.
    Die(usize),
    /// A user requests the work again.
    Ask,
    /// A person with this runner's clock requests a stop from the holder.
    Cancel(usize),
}

/// How a command ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Well,
    Badly,
    /// Its runner is stopped, so that its state is asked for again.
    Interrupted,
}

struct Commit {
    parent: Option<usize>,
    dated: i64,
    message: BString,
}

/// The lease a runner believes to hold.
struct Held {
    attempt: AttemptId,
    lease: usize,
    /// The last HEAD that was its own.
    newest: usize,
    /// Whether it found a renewal to be due.
    renewing: bool,
}

#[derive(Default)]
struct Runner {
    offset: i64,
    seen: Option<(usize, i64)>,
    held: Option<Held>,
}

struct World {
    now: i64,
    tolerance: i64,
    commits: Vec<Commit>,
    head: usize,
    runners: Vec<Runner>,
    claims: usize,
    recoveries: usize,
    renewals: usize,
    requeues: usize,
    requests: usize,
}

fn id_of(commit: usize) -> CommitId {
    let mut bytes = [0; 20];
    bytes[12..].copy_from_slice(&u64::try_from(commit).expect("small").to_be_bytes());
    CommitId::from_bytes(&bytes).expect("20 bytes")
}

impl World {
    fn new(offsets: [i64; RUNNERS], tolerance: i64) -> Self {
        let first = Commit { parent: None, dated: 1_000, message: "please\n\ndwp-state: work\n".into() };
        let runners = offsets.into_iter().map(|offset| Runner { offset, ..Runner::default() }).collect();
        Self {
            now: 1_000,
            tolerance,
            commits: vec![first],
            head: 0,
            runners,
            claims: 0,
            recoveries: 0,
            renewals: 0,
            requeues: 0,
            requests: 0,
        }
    }

    fn clock(&self, runner: usize) -> i64 {
        self.now + self.runners[runner].offset
    }

    fn read(&self, commit: usize) -> Head {
        let Commit { dated, message, .. } = &self.commits[commit];
        Head::read(&CommitFacts { id: id_of(commit), committed_at: *dated, message })
    }

    fn descends(&self, commit: usize, ancestor: usize) -> bool {
        std::iter::successors(Some(commit), |at| self.commits[*at].parent).any(|at| at == ancestor)
    }

    /// Writes a commit on top of `parent`, dated by the runner's clock, and moves the branch if its
    /// HEAD is still `parent`.
    fn swap(&mut self, runner: usize, parent: usize, draft: &Draft) -> Option<usize> {
        self.swap_dated(self.clock(runner), parent, draft)
    }

    /// Writes a commit as [`swap`](Self::swap) does, with this date.
    fn swap_dated(&mut self, dated: i64, parent: usize, draft: &Draft) -> Option<usize> {
        let message = draft.encode().expect("drafts of this room encode");
        self.commits.push(Commit { parent: Some(parent), dated, message });
        if self.head != parent {
            return None;
        }
        self.head = self.commits.len() - 1;
        Some(self.head)
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Time(seconds) => self.now += seconds,
            Happening::Look(runner) => {
                let seen = (self.head, self.clock(*runner));
                self.runners[*runner].seen = Some(seen);
            }
            Happening::Act(runner) => self.act(*runner),
            Happening::Tend(runner) => self.tend(*runner),
            Happening::Renew(runner) => self.renew(*runner),
            Happening::Settle(runner, well) => self.settle(*runner, *well),
            Happening::Die(runner) => {
                let offset = self.runners[*runner].offset;
                self.runners[*runner] = Runner { offset, ..Runner::default() };
            }
            Happening::Cancel(runner) => {
                let now = self.clock(*runner);
                if let Head::Working(lease) = self.read(self.head)
                    && let Liveness::Live { .. } = lease.liveness(now)
                {
                    let (draft, dated) = cancel_draft(&lease, now, Then::Stall, b"enough");
                    self.requests += usize::from(self.swap_dated(dated, self.head, &draft).is_some());
                }
            }
            Happening::Ask => {
                if let Head::Ready(_) = self.read(self.head) {
                    let message = "again\n\ndwp-state: work\n".into();
                    self.commits.push(Commit { parent: Some(self.head), dated: self.now, message });
                    self.head = self.commits.len() - 1;
                }
            }
        }
    }

    fn act(&mut self, runner: usize) {
        let Some((seen, then)) = self.runners[runner].seen.take() else { return };
        match self.read(seen) {
            Head::Ready(trigger) if trigger.state.as_str() == "work" => self.claim(runner, seen, &trigger),
            Head::Working(lease) => self.recover(runner, seen, then, &lease),
            Head::Ready(_) | Head::Unmanaged | Head::Invalid(_) => {}
        }
    }

    fn claim(&mut self, runner: usize, seen: usize, trigger: &Event) {
        if self.runners[runner].held.is_some() {
            return;
        }
        let attempt = AttemptId::random();
        let terms = LeaseTerms {
            attempt,
            runner: format!("r{runner}"),
            seconds: SECONDS,
            source: None,
            branch: super::ids::BranchName::new("task").expect("a name"),
        };
        if let Some(lease) = self.swap(runner, seen, &lease_draft(trigger, &terms)) {
            self.claims += 1;
            self.runners[runner].held = Some(Held { attempt, lease, newest: lease, renewing: false });
        }
    }

    fn recover(&mut self, runner: usize, seen: usize, then: i64, lease: &Lease) {
        if let Liveness::Expired { .. } = lease.liveness(then - self.tolerance) {
            let run = lease.run_id.as_slice().into();
            let draft = stalled_draft(run, lease.origin.as_ref(), "over");
            self.recoveries += usize::from(self.swap(runner, seen, &draft).is_some());
        }
    }

    fn ownership(&self, held: &Held) -> Ownership {
        let head = self.read(self.head);
        ownership(held.attempt, Some((&head, self.descends(self.head, held.lease))))
    }

    fn tend(&mut self, runner: usize) {
        let now = self.clock(runner);
        let Some(mut held) = self.runners[runner].held.take() else { return };
        if self.ownership(&held) != Ownership::Ours {
            return;
        }
        // A request is a lease of the same attempt.
        held.newest = self.head;
        let Head::Working(lease) = self.read(held.newest) else { panic!("a runner holds a lease") };
        held.renewing = match lease.liveness(now) {
            Liveness::Live { left } => Duration::from_secs(left) <= renewal_lead(lease.seconds),
            Liveness::Expired { .. } => true,
        };
        self.runners[runner].held = Some(held);
    }

    fn renew(&mut self, runner: usize) {
        let Some(mut held) = self.runners[runner].held.take() else { return };
        if !std::mem::take(&mut held.renewing) {
            self.runners[runner].held = Some(held);
            return;
        }
        let draft = renewal_draft(&Message::parse(&self.commits[held.newest].message));
        // After a lost swap HEAD is read: it may be a request. Else the attempt is over.
        if let Some(renewal) = self.swap(runner, held.newest, &draft) {
            self.renewals += 1;
            held.newest = renewal;
            self.runners[runner].held = Some(held);
        } else if self.ownership(&held) == Ownership::Ours {
            held.newest = self.head;
            self.runners[runner].held = Some(held);
        }
    }

    /// The request below the lease.
    fn trigger(&self, lease: usize) -> Event {
        let trigger = self.commits[lease].parent.expect("a lease is on its trigger");
        let Head::Ready(trigger) = self.read(trigger) else { panic!("a lease is on its trigger") };
        trigger
    }

    fn settle(&mut self, runner: usize, ends: Ends) {
        let Some(held) = self.runners[runner].held.take() else { return };
        if self.ownership(&held) != Ownership::Ours {
            return;
        }
        let draft = match ends {
            Ends::Interrupted => {
                let trigger = self.trigger(held.lease);
                let before = interrupted_before(&trigger.message.trailers).unwrap_or(0);
                let interrupted = Interrupted { times: before + 1, most: u32::MAX };
                self.requeues += 1;
                let writer = Writer { runner: "r", source: None, now: 0 };
                requeued_draft(&trigger, &Requeue::Interrupted(interrupted), None, writer)
            }
            Ends::Badly => stalled_draft(held.attempt.to_string().as_bytes().into(), None, "it failed"),
            Ends::Well => {
                let declaration = Declaration {
                    state: StateName::parse("done").expect("a state"),
                    subject: None,
                    body: None,
                    lease_seconds: None,
                    keep_body: false,
                    keep_trailers: KeepTrailers::None,
                    trailers: Vec::new(),
                };
                super::commits::advance_draft(
                    &declaration,
                    &super::trailers::Trailers::new(),
                    &super::carried::Ask::default(),
                    None,
                )
            }
        };
        // A request may lie on the last HEAD that was its own.
        let landed = self.swap(runner, self.head, &draft);
        assert!(landed.is_some(), "a HEAD that is ours can be moved");
    }

    /// Runners whose lease is alive by their own clock.
    fn live(&self) -> Vec<usize> {
        let alive = |runner: &usize| {
            let Some(held) = &self.runners[*runner].held else { return false };
            let Head::Working(lease) = self.read(held.newest) else { panic!("a runner holds a lease") };
            matches!(lease.liveness(self.clock(*runner)), Liveness::Live { .. })
        };
        (0..RUNNERS).filter(alive).collect()
    }

    /// Asserts that no lease on the branch has a lease of another attempt as its parent.
    fn assert_history(&self) {
        let line: Vec<usize> =
            std::iter::successors(Some(self.head), |at| self.commits[*at].parent).collect();
        for pair in line.windows(2) {
            if let (Head::Working(above), Head::Working(below)) = (self.read(pair[0]), self.read(pair[1])) {
                assert_eq!(above.attempt(), below.attempt(), "a lease on a lease");
            }
        }
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    let runner = 0..RUNNERS;
    let ends = prop_oneof![Just(Ends::Well), Just(Ends::Badly), Just(Ends::Interrupted)];
    prop_oneof![
        3 => (0..4_i64).prop_map(Happening::Time),
        4 => runner.clone().prop_map(Happening::Look),
        4 => runner.clone().prop_map(Happening::Act),
        3 => runner.clone().prop_map(Happening::Tend),
        4 => runner.clone().prop_map(Happening::Renew),
        1 => (runner.clone(), ends).prop_map(|(runner, ends)| Happening::Settle(runner, ends)),
        1 => runner.prop_map(Happening::Die),
        1 => Just(Happening::Ask),
        1 => (0..RUNNERS).prop_map(Happening::Cancel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// CONTRACT 5.18, 8.1
    #[test]
    fn at_most_one_live_lease(
        offsets in proptest::array::uniform3(0..=TOLERANCE),
        happenings in prop::collection::vec(happening(), 1..200),
    ) {
        let mut world = World::new(offsets, TOLERANCE);
        for happening in &happenings {
            world.happen(happening);
            let live = world.live();
            prop_assert!(live.len() <= 1, "{:?} after {:?}", live, happening);
        }
        world.assert_history();
    }
}

/// These steps, with clocks further apart than the tolerance, break the invariant: it does not hold
/// by accident.
#[test]
fn clocks_further_apart_than_the_tolerance_break_it() {
    let mut world = World::new([0, TOLERANCE + 2, 0], TOLERANCE);
    let steps =
        [Happening::Look(0), Happening::Act(0), Happening::Time(5), Happening::Look(1), Happening::Act(1)];
    steps.iter().for_each(|step| world.happen(step));
    assert_eq!((world.claims, world.recoveries, world.live().len()), (1, 1, 1));
    [Happening::Ask, Happening::Look(1), Happening::Act(1)].iter().for_each(|step| world.happen(step));
    assert_eq!(world.live(), [0, 1]);
}

/// Checks that random runs claim, renew and recover often enough to test anything.
#[test]
fn the_runs_claim_renew_and_recover() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut claims, mut recoveries, mut renewals, mut requeues, mut requests) = (0, 0, 0, 0, 0);
    for _ in 0..50 {
        let happenings =
            prop::collection::vec(happening(), 200).new_tree(&mut runner).expect("a run").current();
        let mut world = World::new([0, 2, TOLERANCE], TOLERANCE);
        happenings.iter().for_each(|happening| world.happen(happening));
        (claims, recoveries, renewals) =
            (claims + world.claims, recoveries + world.recoveries, renewals + world.renewals);
        (requeues, requests) = (requeues + world.requeues, requests + world.requests);
    }
    let told = format!("{claims} {recoveries} {renewals} {requeues} {requests}");
    assert!(claims > 100 && recoveries > 20 && renewals > 10 && requeues > 10 && requests > 10, "{told}");
}
