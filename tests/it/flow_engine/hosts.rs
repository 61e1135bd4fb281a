//! One run whose steps are carried out on two hosts in turn, through a hub.

use super::agent::agent;
use super::back::{APPENDS, TWO};
use super::*;

/// A hub, and two hosts with clones of it that have the agent `scripted`.
pub(super) struct Field {
    pub(super) hosts: [Repo; 2],
    /// Has the hub beside it.
    pub(super) hub: Repo,
}

impl Field {
    pub(super) fn new(script: &str) -> Self {
        Self::furnished(script, |_| {})
    }

    /// Two such hosts, in whose base is what `furnish` commits.
    pub(super) fn furnished(script: &str, furnish: impl Fn(&Repo)) -> Self {
        let hub = Repo::new();
        furnish(&hub);
        let bare = hub.beside("hub.git");
        let path = bare.to_str().expect("UTF-8");
        hub.git(["clone", "-q", "--bare", ".", path]);
        let hosts = ["first", "second"].map(|name| host(path, name, script));
        Self { hosts, hub }
    }

    /// One more host.
    pub(super) fn third(&self, script: &str) -> Repo {
        host(&self.hosts[0].git(["remote", "get-url", "origin"]), "third", script)
    }

    pub(super) fn at_hub(&self, name: &str) -> String {
        self.hosts[0].git(["ls-remote", "origin", name]).split('\t').next().unwrap_or_default().to_owned()
    }

    /// Whether both hosts have the same events of record.
    pub(super) fn assert_same(&self, run: &Started) {
        let events = |host: &Repo| {
            host.aynig_ok(["orch", "run", "list"]);
            let lines = out(&host.aynig_ok(["orch", "events", &run.id, "--json"]));
            let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            events.map(|line| line["event"]["id"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(events(&self.hosts[0]), events(&self.hosts[1]));
    }
}

fn host(hub: &str, name: &str, script: &str) -> Repo {
    let host = Repo::new();
    host.git(["remote", "add", "origin", hub]);
    host.git(["fetch", "-q", "origin"]);
    host.git(["reset", "-q", "--hard", "origin/main"]);
    host.git(["config", "aynig.remote", "origin"]);
    host.git(["config", "aynig.runnerId", name]);
    place_worktrees(&host);
    agent(&host, "scripted", script);
    host
}

/// CONTRACT 20.3
#[test]
fn steps_of_one_run_are_carried_out_on_two_hosts_in_turn() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", TWO));
    assert!(first.git(["ls-remote", "--heads", "origin"]).contains(&run.driver));
    second.aynig_ok(["run"]);
    assert_eq!(steps(second, &run), ["one completed two"]);
    first.aynig_ok(["run"]);
    assert_eq!(steps(first, &run), ["one completed two", "two completed ask"]);
    assert_eq!(first.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
    second.aynig_ok(["run", "--drain"]);
    second.aynig_ok(["flow", "approve", &run.slug]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(end(first, &run), ["completed", "succeeded", "completed"]);
    let published = field.at_hub(&format!("refs/aynig/work/{}/flow", run.id));
    assert_eq!(published, first.head(&run.work));
    field.assert_same(&run);
}

/// CONTRACT 15.21
#[test]
fn a_clone_that_ran_no_step_says_that_its_branch_is_behind_until_it_is_brought_up() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", TWO));
    let shown = |host: &Repo| {
        let flow = out(&host.aynig_ok(["flow", "show", &run.slug]));
        let workspace = out(&host.aynig_ok(["workspace", "show", &run.slug]));
        [&flow, &workspace].map(|text| text.contains("this clone's is at "))
    };
    assert_eq!(shown(first), [false, false]);
    second.aynig_ok(["run", "--drain"]);
    assert_eq!((shown(first), shown(second)), ([true, true], [false, false]));
    let handle = format!("{}/flow", run.slug);
    let words = out(&first.aynig_ok(["flow", "show", &run.slug]));
    assert!(words.contains(&format!("`aynig workspace snapshot {handle}` brings it up to ")), "{words}");
    first.aynig_ok(["workspace", "snapshot", &handle]);
    assert_eq!(first.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
    assert_eq!(shown(first), [false, false]);
    // A commit of a person on top is no lack of work.
    std::fs::write(run.worktree.join("mine"), "mine").expect("written");
    first.aynig_ok(["workspace", "snapshot", &handle]);
    assert_eq!(shown(first), [false, false]);
}

/// CONTRACT 20.3, 20.5
#[test]
fn a_kill_at_any_point_of_a_step_loses_and_doubles_nothing() {
    for point in [
        "agent-starts",
        "agent-ended",
        "snapshot-moved",
        "step-decided",
        "ledger-written",
        "ledger-pushed",
        "step-ended",
    ] {
        let field = Field::new(APPENDS);
        let [first, second] = &field.hosts;
        let text = flow("one", &TWO.replace("completed: ask", "completed: STOP"));
        let run = start(first, &text.replace("  - id: ask\n    opcode: GATE\n    gate: result\n    routes: {gate_approved: STOP, gate_rejected: STOP}\n", ""));
        let crash = format!("{point}:kill:1");
        let killed =
            first.aynig_command().arg("run").env("AYNIG_CRASH_AT", &crash).output().expect("it runs");
        // What is left is carried on by the other host, and by this one.
        for host in [second, first, second] {
            let output = host.aynig(["run", "--drain"]);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{point}: {}", told(&output));
        }
        let done: Vec<String> =
            steps(first, &run).into_iter().filter(|step| step.contains("completed")).collect();
        assert_eq!(done, ["one completed two", "two completed STOP"], "{point}: {}", told(&killed));
        let work = format!("{}:work", field.at_hub(&format!("refs/aynig/work/{}/flow", run.id)));
        first.git(["fetch", "-q", "origin", "refs/aynig/work/*:refs/aynig/work/*"]);
        assert_eq!(first.git(["show", &work]), "one\ntwo", "{point}");
        assert_eq!(end(first, &run)[1], "succeeded", "{point}");
        field.assert_same(&run);
    }
}

/// CONTRACT 20.5, 20.24
#[test]
fn what_a_cut_off_attempt_left_is_no_part_of_an_answer() {
    let field = Field::new(&format!("{APPENDS}\necho junk >junk.tmp"));
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", TWO));
    let mut killed = first.aynig_command();
    killed.arg("run").env("AYNIG_CRASH_AT", "agent-ended:kill:1").output().expect("it runs");
    assert!(run.worktree.join("junk.tmp").exists());
    let place = run.worktree.to_str().expect("UTF-8");
    first.git(["-C", place, "commit", "-q", "--allow-empty", "-m", "of the agent"]);
    second.aynig_ok(["run", "--drain"]);
    let asked = field.at_hub(&format!("refs/aynig/work/{}/flow", run.id));
    let approve = format!("aynig flow approve {} --for {}", run.slug, &asked[..10]);
    let shown = out(&first.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains("an attempt that was cut off here, or you, left commits on the work branch, and changes in 2 files"), "{shown}");
    assert!(shown.contains(&format!("next       {approve}\n")), "{shown}");
    let refused = first.aynig(["flow", "approve", &run.slug]);
    assert_refused(&refused, 1, &["nothing was answered", &format!("`{approve}`"), "if they are yours"]);
    assert_eq!(field.at_hub(&format!("refs/aynig/work/{}/flow", run.id)), asked);
    // What a person sets now is no change of the attempt.
    first.git(["config", "aynig.provider.late.command", "late"]);
    start(first, &flow("one", TWO));
    let approved = err(&first.aynig_ok(approve.split(' ').skip(1)));
    assert!(approved.contains("the next step here saves it under a rescue ref"), "{approved}");
    first.aynig_ok(["run", "--branch", &run.driver]);
    assert_eq!(end(first, &run), ["completed", "succeeded", "completed"]);
    assert_eq!(field.at_hub(&format!("refs/aynig/work/{}/flow", run.id)), asked);
    assert!(run.worktree.join("junk.tmp").exists() && first.rescues().is_empty());
    first.aynig_ok(["workspace", "remove", "--apply", &run.slug]);
    let has_junk = |rescue: &String| first.git(["ls-tree", "--name-only", rescue]).contains("junk.tmp");
    assert!(first.rescues().iter().any(has_junk), "{:?}", first.rescues());
    field.assert_same(&run);
}

/// CONTRACT 20.24
#[test]
fn what_a_cut_off_attempt_left_can_be_taken_as_printed() {
    let first_alone =
        "[ ! -e \"$(git rev-parse --git-common-dir)/first\" ] || { echo junk >junk.txt; exit; }";
    let field = Field::new(&format!("{first_alone}\n{APPENDS}"));
    let [first, second] = &field.hosts;
    first.write(".git/first", "");
    let run = start(first, &flow("one", TWO));
    let mut killed = first.aynig_command();
    killed.arg("run").env("AYNIG_CRASH_AT", "agent-ended:kill:1").output().expect("it runs");
    second.aynig_ok(["run", "--drain"]);
    let shown = out(&first.aynig_ok(["flow", "show", &run.slug]));
    let snapshot = format!("aynig workspace snapshot {}", run.slug);
    assert!(shown.contains(&format!("next       {snapshot}\n")), "{shown}");
    first.aynig_ok(snapshot.split(' ').skip(1));
    let shown = out(&first.aynig_ok(["flow", "show", &run.slug]));
    assert!(!shown.contains(&snapshot), "{shown}");
    // The gate asks about it now.
    assert_refused(&first.aynig(["flow", "approve", &run.slug]), 1, &["the gate asks anew"]);
    first.aynig_ok(["flow", "approve", &run.slug]);
    first.aynig_ok(["run", "--branch", &run.driver]);
    assert_eq!(end(first, &run), ["completed", "succeeded", "completed"]);
    let work = field.at_hub(&format!("refs/aynig/work/{}/flow", run.id));
    assert_eq!(first.git(["show", &format!("{work}:junk.txt")]), "junk");
    field.assert_same(&run);
}

const AGAIN: &str = concat!(agent_step!("one", "one", "ask"), gate_step!("undo"), undo_step!("one"),);

/// CONTRACT 15.19, 15.21
#[test]
fn a_host_that_lags_behind_another_one_has_a_workspace_that_is_ready() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", AGAIN));
    first.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["flow", "reject", &run.slug]);
    first.aynig_ok(["run"]);
    first.aynig_ok(["run"]);
    assert_eq!(steps(first, &run).last().expect("a step"), "undo completed one");
    second.aynig_ok(["run", "--drain"]);
    assert!(out(&first.aynig_ok(["flow", "list"])).contains(&run.slug));
    let listed = first.aynig_ok(["workspace", "list"]);
    assert!(out(&listed).contains("ready") && !told(&listed).contains("heard"), "{}", told(&listed));
    let cleaned = told(&first.aynig_ok(["clean", "--workspaces", "--apply"]));
    assert!(!cleaned.contains("failed"), "{cleaned}");
    let published = first.aynig_ok(["publish", &run.slug]);
    assert!(
        !told(&published).contains("snapshot") && !told(&published).contains("heard"),
        "{}",
        told(&published)
    );
    assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), second.head(&run.work));
    let worktree = run.worktree.to_str().expect("UTF-8");
    assert_eq!(first.git(["-C", worktree, "status", "--porcelain"]), "", "the files are those of the branch");
    assert_eq!(first.head(&run.work), second.head(&run.work));
    first.aynig_ok(["flow", "approve", &run.slug]);
    second.aynig_ok(["run", "--drain"]);
    assert_eq!(end(first, &run)[1], "succeeded");
    field.assert_same(&run);
}
