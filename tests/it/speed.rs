//! The benchmark keeps working: a run of tiny sizes prints its whole table. Durations are not checked.

use super::support::*;

#[path = "../benches/suite/mod.rs"]
pub(super) mod suite;

/// Not a test: the body of a writer on a ledger.
#[test]
#[ignore = "the body of the bench's writers"]
fn ledger_writer() {
    suite::is_worker();
}

#[test]
fn the_bench_makes_its_table() {
    let sizes = suite::Sizes {
        branches: 5,
        steps: 3,
        remote_steps: 3,
        delay_ms: 1,
        files: 20,
        later_steps: 2,
        turns: 3,
        worker: ["--exact", "--ignored", "speed::ledger_writer"].map(str::to_owned).to_vec(),
        events: 300,
        flow_steps: 3,
        hub_refs: 5,
        nodes: 3,
        runs: 3,
        clients: 3,
        jobs: 2,
        workspace_files: 20,
        rounds: 1,
        beside: None,
    };
    let mut rows = Vec::new();
    let goals = suite::run(&sizes, &[], &mut |row| rows.push(row));
    assert_eq!(rows.len(), 43, "{rows:#?}");
    assert_eq!(goals.len(), 31, "each goal has a row: {goals:#?}");
    for goal in &goals {
        assert_eq!(
            goal.matches('|').count(),
            suite::goals::HEAD.lines().next().expect("a line").matches('|').count()
        );
        assert!(!goal.contains("NaN") && !goal.contains("inf"), "{goal}");
    }
    let columns = suite::head(&sizes).lines().last().expect("a table").matches('|').count();
    for row in &rows {
        assert_eq!(row.matches('|').count(), columns, "{row}");
        assert!(!row.contains("NaN") && !row.contains("inf"), "{row}");
    }
    let connections = |row: &str| {
        let text = row.trim_end_matches(['|', ' ']).rsplit("| ").next().expect("a column").to_owned();
        let (git, ours) = text.split_once(" / ").expect("two numbers");
        (git.parse::<usize>().expect("git's"), ours.parse::<usize>().expect("ours"))
    };
    // A fetch, and two pushes for each of three steps; aynig combines some.
    let (git, ours) = connections(&rows[3]);
    assert_eq!(git, 7, "{}", rows[3]);
    assert!((3..=10).contains(&ours), "{}", rows[3]);
    // For each of three steps of a flow: the pass, the claim, the ledger before and after, and the end. One more pass.
    let hub = rows.iter().find(|row| row.starts_with("| 3 steps of a flow through a hub")).expect("a row");
    let (git, ours) = connections(hub);
    assert!(git == 7 && ours <= 16, "{hub}");

    let beside = suite::Sizes { beside: Some(binary()), ..sizes.clone() };
    let mut other = Vec::new();
    suite::run(&beside, &["local".to_owned()], &mut |row| other.push(row));
    assert!(other.len() == 1 && other[0].contains(" MiB"), "{other:?}");

    let mut only = Vec::new();
    suite::run(&sizes, &["idle-unm".to_owned()], &mut |row| only.push(row));
    assert_eq!(only.len(), 1, "{only:?}");
    assert!(binary().is_file() && suite::Sizes::from_environment().rounds > 0);
}
