//! The landing machine by tables: facts in, orders out.

use super::*;
use crate::contract::carried::KeepTrailers;
use crate::contract::declaration::Declaration;
use crate::contract::head::{CommitFacts, Head};
use crate::contract::ids::StateName;
use crate::contract::requeue::{Interrupted, Requeue};
use crate::contract::settlement::StopReason;

const LEASE: u8 = 1;
const OWN: u8 = 2;
const RESULT: u8 = 10;
const AGAIN: u8 = 11;

fn id(number: u8) -> CommitId {
    CommitId::from_bytes(&[number; 20]).expect("20 bytes")
}

fn declared() -> Declaration {
    Declaration {
        state: StateName::parse("review").expect("legal"),
        subject: None,
        body: None,
        lease_seconds: None,
        keep_body: false,
        keep_trailers: KeepTrailers::None,
        trailers: Vec::new(),
    }
}

fn begin(exit: i32, store: Store) -> (Landing, Order) {
    begin_with(&Ending::Exited(exit), store)
}

fn begin_with(ending: &Ending, store: Store) -> (Landing, Order) {
    let message = b"t\n\ndwp-state: build\n";
    let Head::Ready(trigger) = Head::read(&CommitFacts { id: id(0), committed_at: 1, message }) else {
        panic!("it declares a state")
    };
    let policy = OnInterrupt { requeue: true, most: 3 };
    Landing::begin(&trigger, ending, Some(Declared::Next(declared())), policy, store)
}

fn ours(head: u8, worktree: Position) -> Fact {
    Fact::Seen(Sight::Ours { head: id(head), worktree, cancel: None })
}

fn failed(open: Option<bool>, is_final: bool) -> Fact {
    Fact::Moved(Moved::Failed { why: "no answer".to_owned(), open, is_final })
}

const LOOK: Order = Order::Look { ask: true };
const PRESUME: Order = Order::Look { ask: false };

fn written(commit: u8) -> Fact {
    Fact::Written(Ok(id(commit)))
}

fn moves(head: u8, new: u8) -> Order {
    Order::Move { head: id(head), new: id(new) }
}

fn writes(parent: u8) -> Order {
    Order::Write { parent: id(parent) }
}

/// Feeds each fact and compares the next order with the expected one.
fn play(landing: &mut Landing, steps: &[(Fact, Order)]) {
    for (at, (fact, expected)) in steps.iter().enumerate() {
        assert_eq!(landing.on(fact.clone()), *expected, "step {at}: {fact:?}");
    }
}

fn landed(landing: &mut Landing, fact: Fact) -> (Tried, Option<CommitId>) {
    match landing.on(fact) {
        Order::Finish(Finish::Landed { result, parent }) => (result, parent),
        order => panic!("{order:?}"),
    }
}

fn unwritten(landing: &mut Landing, fact: Fact) -> (String, bool) {
    match landing.on(fact) {
        Order::Finish(Finish::Unwritten { why, open }) => (why, open),
        order => panic!("{order:?}"),
    }
}

#[test]
fn a_result_lands_on_what_the_command_committed() {
    for (store, first) in [(Store::Local, LOOK), (Store::Remote, PRESUME)] {
        let (mut landing, order) = begin(0, store);
        assert_eq!(order, first);
        play(
            &mut landing,
            &[(ours(LEASE, Position::At(id(OWN))), writes(OWN)), (written(RESULT), moves(LEASE, RESULT))],
        );
        let (result, parent) = landed(&mut landing, Fact::Moved(Moved::Won));
        assert_eq!((result.commit, parent), (id(RESULT), Some(id(OWN))));
        assert_eq!(result.settlement, Settlement::Advance(declared()));
    }
}

#[test]
fn work_is_saved_before_a_failure_is_written() {
    for (worktree, parent, base) in [
        (Position::At(id(OWN)), OWN, OWN),
        (Position::Nowhere, LEASE, LEASE),
        (Position::Astray(id(9)), LEASE, 9),
    ] {
        let (mut landing, _) = begin(1, Store::Local);
        let save = Order::Save { base: id(base), kept: id(parent) };
        play(&mut landing, &[(ours(LEASE, worktree), save), (Fact::Saved(Ok(())), writes(parent))]);
        assert_eq!(landing.why(), "`build` exited with 1");
        // Once, however often the branch moves on.
        play(
            &mut landing,
            &[
                (written(RESULT), moves(LEASE, RESULT)),
                (Fact::Moved(Moved::Lost), LOOK),
                (ours(OWN, Position::At(id(OWN))), writes(OWN)),
                (written(AGAIN), moves(OWN, AGAIN)),
            ],
        );
        assert_eq!(landed(&mut landing, Fact::Moved(Moved::Won)).0.settlement, Settlement::Stall);
    }
}

#[test]
fn a_worktree_that_was_left_astray_is_a_failure() {
    let (mut landing, _) = begin(0, Store::Local);
    let save = Order::Save { base: id(9), kept: id(LEASE) };
    play(&mut landing, &[(ours(LEASE, Position::Astray(id(9))), save), (Fact::Saved(Ok(())), writes(LEASE))]);
    assert_eq!(*landing.settlement(), Settlement::Stall);
    assert!(landing.why().contains("but left its worktree at 0909090909"), "{}", landing.why());
}

#[test]
fn over_somebody_elses_commit_the_work_is_saved_and_the_failure_names_it() {
    let by = "0808080808 (A Person)".to_owned();
    for (exit, why) in [
        (
            0,
            "somebody pushed 0808080808 (A Person) onto the branch meanwhile; `build` exited with 0, and its result was not landed",
        ),
        (1, "`build` exited with 1; somebody pushed 0808080808 (A Person) onto the branch meanwhile"),
    ] {
        let (mut landing, _) = begin(exit, Store::Local);
        let save = Order::Save { base: id(OWN), kept: id(8) };
        let seen = ours(8, Position::Overtaken { base: id(OWN), by: by.clone() });
        play(&mut landing, &[(seen, save), (Fact::Saved(Ok(())), writes(8))]);
        assert_eq!((landing.why(), landing.settlement()), (why, &Settlement::Stall));
    }
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure_and_a_failure_that_cannot_ends_it() {
    let (mut landing, _) = begin(0, Store::Local);
    let unwritable = || Fact::Written(Err("disk full".to_owned()));
    let save = Order::Save { base: id(LEASE), kept: id(LEASE) };
    play(
        &mut landing,
        &[
            (ours(LEASE, Position::Nowhere), writes(LEASE)),
            (unwritable(), LOOK),
            (ours(LEASE, Position::Nowhere), save),
            (Fact::Saved(Ok(())), writes(LEASE)),
            (unwritable(), Order::Pause),
            (Fact::Paused(true), LOOK),
            (ours(LEASE, Position::Nowhere), writes(LEASE)),
            (unwritable(), Order::Pause),
        ],
    );
    let why = "`build` exited with 0, but its result could not be written: disk full";
    assert_eq!(landing.why(), why);
    assert_eq!(unwritten(&mut landing, Fact::Paused(false)), (why.to_owned(), false), "said once");
}

#[test]
fn of_a_failure_that_cannot_be_written_both_reasons_are_told() {
    let (mut landing, _) = begin(1, Store::Local);
    let save = Order::Save { base: id(LEASE), kept: id(LEASE) };
    let unwritable = Fact::Written(Err("disk full".to_owned()));
    play(
        &mut landing,
        &[
            (ours(LEASE, Position::Nowhere), save),
            (Fact::Saved(Ok(())), writes(LEASE)),
            (unwritable, Order::Pause),
        ],
    );
    let why = "`build` exited with 1, and `stalled` could not be written: disk full";
    assert_eq!(unwritten(&mut landing, Fact::Paused(false)), (why.to_owned(), false));
}

#[test]
fn a_push_without_an_answer_is_recognised_when_it_has_landed() {
    let (mut landing, _) = begin(0, Store::Remote);
    play(
        &mut landing,
        &[
            (ours(LEASE, Position::At(id(OWN))), writes(OWN)),
            (written(RESULT), moves(LEASE, RESULT)),
            (failed(Some(true), false), Order::Pause),
            (Fact::Paused(true), PRESUME),
            (ours(LEASE, Position::At(id(OWN))), writes(OWN)),
            (written(AGAIN), moves(LEASE, AGAIN)),
            (Fact::Moved(Moved::Lost), LOOK),
        ],
    );
    assert_eq!(landing.tried().len(), 2);
    let (result, parent) = landed(&mut landing, Fact::Seen(Sight::Landed(0)));
    assert_eq!((result.commit, parent), (id(RESULT), None));
}

#[test]
fn what_is_known_of_an_unanswered_push_is_reported() {
    // Whether earlier failures left it open, the last failure's `open`, and the value reported.
    for (before, last, open) in [
        (Some(true), Some(true), true),
        (Some(true), None, true),
        (Some(true), Some(false), false),
        (Some(false), None, false),
        (None, None, false),
    ] {
        let (mut landing, _) = begin(0, Store::Remote);
        play(
            &mut landing,
            &[
                (ours(LEASE, Position::Nowhere), writes(LEASE)),
                (written(RESULT), moves(LEASE, RESULT)),
                (failed(before, false), Order::Pause),
                (Fact::Paused(true), PRESUME),
                (ours(LEASE, Position::Nowhere), writes(LEASE)),
                (written(AGAIN), moves(LEASE, AGAIN)),
            ],
        );
        let refused = failed(last, true);
        assert_eq!(unwritten(&mut landing, refused), ("no answer".to_owned(), open), "{before:?}, {last:?}");
    }
}

#[test]
fn a_branch_of_somebody_else_is_left_alone() {
    for exit in [0, 1] {
        for (ownership, head) in [(Ownership::Rewound, Some(id(9))), (Ownership::Gone, None)] {
            let (mut landing, _) = begin(exit, Store::Local);
            let seen = Fact::Seen(Sight::Foreign(ownership.clone(), head));
            assert_eq!(landing.on(seen), Order::Finish(Finish::Foreign(ownership, head)));
        }
    }
}

#[test]
fn a_branch_that_keeps_moving_or_cannot_be_seen_is_given_up() {
    let (mut landing, _) = begin(0, Store::Local);
    for lost in 1..=MOST_LOST {
        play(
            &mut landing,
            &[(ours(LEASE, Position::Nowhere), writes(LEASE)), (written(RESULT), moves(LEASE, RESULT))],
        );
        if lost < MOST_LOST {
            play(&mut landing, &[(Fact::Moved(Moved::Lost), LOOK)]);
        }
    }
    let why = "the branch kept moving".to_owned();
    assert_eq!(unwritten(&mut landing, Fact::Moved(Moved::Lost)), (why, false));

    let (mut landing, _) = begin(0, Store::Local);
    let unreadable = Fact::Seen(Sight::Unreadable("no such ref store".to_owned()));
    play(&mut landing, &[(unreadable, Order::Pause)]);
    let why = "no such ref store".to_owned();
    assert_eq!(unwritten(&mut landing, Fact::Paused(false)), (why, false));
}

/// CONTRACT 6.14
#[test]
fn an_interrupted_command_is_asked_for_again_once_its_work_is_saved() {
    let ending = Ending::Stopped { why: StopReason::Interrupted { signal: 15, clean: false } };
    let again = Settlement::Requeue(Requeue::Interrupted(Interrupted { times: 1, most: 3 }));
    for (worktree, parent, base) in [
        (Position::At(id(OWN)), OWN, OWN),
        (Position::Nowhere, LEASE, LEASE),
        (Position::Astray(id(9)), LEASE, 9),
    ] {
        let (mut landing, _) = begin_with(&ending, Store::Local);
        let save = Order::Save { base: id(base), kept: id(parent) };
        let steps = [
            (ours(LEASE, worktree), save),
            (Fact::Saved(Ok(())), writes(parent)),
            (written(RESULT), moves(LEASE, RESULT)),
        ];
        play(&mut landing, &steps);
        assert_eq!(landed(&mut landing, Fact::Moved(Moved::Won)).0.settlement, again);
    }
    // Only a stalled commit can name unsaved work, a foreign commit in the way, or the reason why nothing
    // else could be written.
    let whys = [
        ("`build` was stopped: interrupted by SIGTERM, but its work could not be saved: disk full", true),
        (
            "`build` was stopped: interrupted by SIGTERM, but it could not be asked for again: disk full",
            false,
        ),
    ];
    for (why, unsaved) in whys {
        let (mut landing, _) = begin_with(&ending, Store::Local);
        let save = Order::Save { base: id(LEASE), kept: id(LEASE) };
        play(&mut landing, &[(ours(LEASE, Position::Nowhere), save)]);
        let full = || "disk full".to_owned();
        if unsaved {
            play(&mut landing, &[(Fact::Saved(Err(full())), writes(LEASE))]);
        } else {
            let again = (ours(LEASE, Position::Nowhere), writes(LEASE));
            let steps = [(Fact::Saved(Ok(())), writes(LEASE)), (Fact::Written(Err(full())), LOOK), again];
            play(&mut landing, &steps);
        }
        assert_eq!((landing.why(), landing.settlement()), (why, &Settlement::Stall));
    }
    let (mut landing, _) = begin_with(&ending, Store::Local);
    let overtaken = Position::Overtaken { base: id(OWN), by: "1234 (Jane)".to_owned() };
    let save = Order::Save { base: id(OWN), kept: id(8) };
    play(&mut landing, &[(ours(8, overtaken), save), (Fact::Saved(Ok(())), writes(8))]);
    assert_eq!(*landing.settlement(), Settlement::Stall);
}

/// CONTRACT 5.30, 5.36
#[test]
fn requests() {
    let stopped = |why| Ending::Stopped { why };
    let interrupted = || stopped(StopReason::Interrupted { signal: 15, clean: false });
    let again = Settlement::Requeue(Requeue::Cancelled);
    let asked = |then| Some(Cancel { then, by: "Jane".to_owned(), why: String::new() });
    let next = || Some(Declared::Next(declared()));
    let unable = || Some(Declared::Unable("no tty".to_owned()));
    let off = OnInterrupt { requeue: false, most: 3 };
    let on = OnInterrupt { requeue: true, most: 3 };
    // The end, what was declared, the request, the result, and whether it is marked.
    let rows = [
        (interrupted(), None, on, Then::Stall, Settlement::Stall, true),
        (interrupted(), None, on, Then::Requeue, again.clone(), false),
        (interrupted(), None, off, Then::Stall, Settlement::Stall, true),
        (interrupted(), None, off, Then::Requeue, again.clone(), false),
        (Ending::Exited(0), unable(), on, Then::Stall, Settlement::Stall, true),
        (Ending::Exited(0), unable(), on, Then::Requeue, again.clone(), false),
        (Ending::Exited(0), None, on, Then::Stall, Settlement::Stall, true),
        (Ending::Exited(0), None, on, Then::Requeue, again, false),
        (Ending::Exited(0), next(), on, Then::Stall, Settlement::Advance(declared()), false),
        (Ending::Exited(3), next(), on, Then::Stall, Settlement::Stall, true),
        (Ending::Exited(3), next(), on, Then::Requeue, Settlement::Stall, false),
        (stopped(StopReason::TimedOut { seconds: 3 }), None, on, Then::Stall, Settlement::Stall, true),
    ];
    let message = b"t\n\ndwp-state: build\n";
    let facts = CommitFacts { id: id(0), committed_at: 1, message };
    let Head::Ready(trigger) = Head::read(&facts) else { panic!("it declares a state") };
    for (ending, declared, policy, then, settlement, is_marked) in rows {
        let (mut landing, _) = Landing::begin(&trigger, &ending, declared, policy, Store::Local);
        let cancel = asked(then);
        drop(landing.on(Fact::Seen(Sight::Ours {
            head: id(LEASE),
            worktree: Position::At(id(OWN)),
            cancel,
        })));
        let found = (landing.settlement(), landing.is_cancelled());
        assert_eq!(found, (&settlement, is_marked), "{ending} {then:?}");
    }
    // Nobody asked, and a request whose end was its own.
    let (mut landing, _) = begin_with(&interrupted(), Store::Local);
    drop(landing.on(ours(LEASE, Position::At(id(OWN)))));
    assert!(!landing.is_cancelled());
    let cancelled = stopped(StopReason::Cancelled(asked(Then::Stall).expect("a request")));
    let (mut landing, _) = begin_with(&cancelled, Store::Local);
    drop(landing.on(ours(LEASE, Position::At(id(OWN)))));
    assert!(landing.is_cancelled());
}
