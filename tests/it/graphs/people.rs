//! What people do with nodes and edges, also while a turn is live.

use std::process::{Child, Stdio};

use super::*;

/// Says that it has begun, and waits to be ended, unless the file `ready` is there.
pub(crate) const WAITS: &str = r#"
printf '%s\n' "$prompt" >>prompts
[ -e ../../ready ] && { echo done; exit; }
: >../../begun
exec sleep 600
"#;

/// A runner whose agent has begun a turn.
pub(crate) fn live(repo: &Repo) -> Child {
    let begun = repo.beside("worktrees").join("begun");
    std::fs::remove_file(&begun).ok();
    let mut runner = repo.aynig_command();
    runner.args(["run", "--drain"]).stdout(Stdio::null()).stderr(Stdio::null());
    let runner = runner.spawn().expect("it runs");
    wait_until("the agent has begun", || begun.exists());
    runner
}

/// Lets the next turn come to its end.
pub(crate) fn ready(repo: &Repo) {
    let directory = repo.beside("worktrees");
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("ready"), "").expect("a file");
}

fn work(graph: &Graph, file: &str) -> String {
    graph.repo.git(["show", &format!("work/{}/a:{file}", graph.slug)])
}

/// CONTRACT 22.9
#[test]
fn a_stopped_node_begins_no_turn_until_it_is_started() {
    let graph = Graph::new(WAITS, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = live(&graph.repo);
    graph.ok(&["node", "stop", "RUN", "a"]);
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.turns(), ["a interrupted"]);
    assert_eq!(work(&graph, "prompts").matches("> Write it.").count(), 1, "its work is kept");
    assert!(graph.ok(&["show", "RUN"]).contains("a  stopped  1 unread"));
    // No message lets it go on.
    graph.ok(&["chat", "--interrupt", "RUN", "a", "Once more."]);
    graph.drain();
    assert_eq!(graph.turns().len(), 1);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
    ready(&graph.repo);
    graph.ok(&["node", "start", "RUN", "a"]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    graph.assert_read_once(0);
    let again = err(&graph.orch(&["node", "start", "RUN", "a"]));
    assert!(again.contains("a may take turns already; `aynig run`"), "{again}");
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.9
#[test]
fn an_interrupted_node_waits_for_a_persons_word() {
    let graph = Graph::new(WAITS, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let refused = graph.orch(&["node", "interrupt", "RUN", "a"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("a has no turn under way"), "{}", err(&refused));
    assert!(err(&refused).contains("orch node stop"), "{}", err(&refused));
    let mut runner = live(&graph.repo);
    let refused = graph.orch(&["node", "reset", "RUN", "a"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("orch node interrupt"), "{}", err(&refused));
    graph.ok(&["node", "interrupt", "RUN", "a"]);
    assert!(runner.wait().expect("it ends").success());
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted"]);
    assert_eq!(graph.node("a")["hold"], "interrupted");
    ready(&graph.repo);
    graph.ok(&["chat", "RUN", "a", "Shorter."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    graph.assert_read_once(0);
    let prompts = work(&graph, "prompts");
    let place = |words: &str| prompts.rfind(words).unwrap_or_else(|| panic!("{words}: {prompts}"));
    assert!(place("> Shorter.") < place("> Write it."), "{prompts}");
    graph.ok(&["node", "reset", "RUN", "a"]);
}

/// CONTRACT 22.9
#[test]
fn an_interrupting_message_is_read_at_once() {
    let graph = Graph::new(WAITS, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = live(&graph.repo);
    graph.ok(&["chat", "RUN", "a", "And test it."]);
    ready(&graph.repo);
    graph.ok(&["chat", "RUN", "a", "Shorter.", "--interrupt"]);
    assert!(runner.wait().expect("it ends").success());
    // The runner has gone on by itself.
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    graph.assert_read_once(0);
    let prompts = work(&graph, "prompts");
    let place = |words: &str| prompts.rfind(words).unwrap_or_else(|| panic!("{words}: {prompts}"));
    assert!(place("> Shorter.") < place("> Write it."), "{prompts}");
}

/// CONTRACT 22.10
#[test]
fn a_node_is_removed_with_its_edges_and_its_work_is_archived() {
    let graph = Graph::new(WAITS, &["a", "b", "c"]);
    for (from, to) in [("a", "b"), ("b", "c")] {
        graph.ok(&["edge", "add", "RUN", from, to]);
    }
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = live(&graph.repo);
    let id = graph.node("a")["id"].as_str().expect("an id").to_owned();
    let said = err(&graph.orch(&["node", "remove", "RUN", "a"]));
    assert!(runner.wait().expect("it ends").success());
    assert!(said.contains("its work is kept"), "{said}");
    assert_eq!(graph.turns(), ["? interrupted"]);
    assert!(graph.events(&["turn.status"])[0]["nodeId"] == id.as_str());
    let state = graph.state();
    assert_eq!(state["nodes"].as_object().expect("nodes").len(), 2);
    assert_eq!(state["edges"].as_object().expect("edges").len(), 1);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
    let archived = graph.repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/archive"]);
    let names: Vec<&str> = archived.lines().collect();
    assert!(names.len() == 2 && names[0].ends_with("/a"), "{archived}");
    assert!(names[1].ends_with(&format!("/nodes/a-{}", &id[..8])), "{archived}");
    for name in names {
        assert!(graph.repo.git(["show", &format!("{name}:prompts")]).contains("> Write it."), "{name}");
    }
    let again = graph.orch(&[
        "node",
        "add",
        "RUN",
        "a",
        "--role",
        "x",
        "--provider",
        "scripted",
        "--permissions",
        "skip",
    ]);
    assert!(err(&again).contains("choose another"), "{}", err(&again));
    // One without a workspace.
    graph.ok(&["node", "remove", "RUN", "c"]);
    graph.drain();
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.10
#[test]
fn an_edge_is_removed_by_the_beginning_of_its_id() {
    let graph = Graph::new("echo done", &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    let shown = graph.ok(&["show", "RUN"]);
    let line = shown.lines().find(|line| line.starts_with("edge")).expect("an edge");
    assert!(line.contains("a ↔ b  task"), "{line}");
    let id = line.split_whitespace().last().expect("an id");
    let refused = graph.orch(&["edge", "remove", "RUN", "x"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("orch show"), "{}", err(&refused));
    graph.ok(&["edge", "remove", "RUN", &id[..8]]);
    assert!(graph.state()["edges"].as_object().expect("edges").is_empty());
}

/// CONTRACT 22.11
#[test]
fn the_next_turn_has_the_new_settings() {
    let graph = Graph::new("echo x >>code; echo done", &["a"]);
    let settings = [
        "--role",
        "reviewer",
        "--label",
        "Ann",
        "--model",
        "m",
        "--permissions",
        "skip",
        "--edge-management",
        "self",
        "--capability",
        "writeCode=false",
    ];
    let words = [&["node", "set", "RUN", "a"], &settings[..]].concat();
    graph.ok(&words);
    let node = graph.node("a");
    assert_eq!((&node["roleTemplate"], &node["label"]), (&"reviewer".into(), &"Ann".into()));
    assert_eq!(node["permissions"]["cliPermissionsMode"], "skip");
    assert_eq!(node["capabilities"]["edgeManagement"], "self");
    let id = node["id"].as_str().expect("an id");
    assert_eq!(graph.state()["nodeConfigs"][id]["model"], "m");
    assert!(err(&graph.orch(&words)).contains("is so already"));
    graph.ok(&["node", "set", "RUN", &id[..12], "--model", ""]);
    assert!(graph.state()["nodeConfigs"][id]["model"].is_null());
    graph.ok(&["chat", "RUN", "a", "Look at it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed"]);
    let files = graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/a", graph.slug)]);
    assert!(!files.contains("code"), "it may write no code any more: {files}");
    let nothing = graph.orch(&["node", "set", "RUN", "a"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", err(&nothing));
    for wrong in ["writeCode", "writeCode=no", "fly=true"] {
        let refused = graph.orch(&["node", "set", "RUN", "a", "--capability", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
        assert!(err(&refused).contains("runCommands"), "{}", err(&refused));
    }
}

/// CONTRACT 22.9
#[test]
fn a_node_goes_on_at_once_with_a_provider_that_is_here() {
    let graph = Graph::new("echo done", &["a"]);
    graph.ok(&["node", "set", "RUN", "a", "--provider", "nobody"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.drain();
    assert!(graph.turns().is_empty(), "this host has no such provider");
    let said = err(&graph.orch(&["node", "set", "RUN", "a", "--provider", "scripted"]));
    assert!(said.contains("a has it from its next turn on; `aynig run`"), "{said}");
    graph.drain();
    assert_eq!(graph.turns(), ["a completed"]);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 20.32, 22.9
#[test]
fn an_agent_steers_no_node() {
    let script = r#"
for verb in "set --label x" stop interrupt reset remove; do
    "$AYNIG_BIN" orch node $verb "$AYNIG_ORCH_RUN" b 2>&1; echo "${verb%% *} $?"
done >said
for verb in "set --label x" complete delete; do
    "$AYNIG_BIN" orch run $verb "$AYNIG_ORCH_RUN" 2>&1; echo "run-${verb%% *} $?"
done >>said
"$AYNIG_BIN" orch edge remove "$AYNIG_ORCH_RUN" 0 >>said 2>&1; echo "edge $?" >>said
echo done"#;
    let graph = Graph::new(script, &["a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Try it."]);
    graph.drain();
    let said = work(&graph, "said");
    for verb in
        ["set", "stop", "interrupt", "reset", "remove", "edge", "run-set", "run-complete", "run-delete"]
    {
        assert!(said.lines().any(|line| line == format!("{verb} 2")), "{verb}: {said}");
    }
    assert!(!said.contains("Usage:"), "the words are well-formed, and refused below a turn: {said}");
    assert_eq!(graph.state()["nodes"].as_object().expect("nodes").len(), 2);
    assert!(graph.node("b")["hold"].is_null());
}

/// CONTRACT 22.13
#[test]
fn a_run_is_changed_completed_and_deleted() {
    let graph = Graph::new(WAITS, &["a"]);
    let set = ["run", "set", "RUN", "--label", "New", "--global-mode", "PLANNING"];
    graph.ok(&set);
    let state = graph.state();
    assert_eq!((&state["label"], &state["globalMode"]), (&"New".into(), &"PLANNING".into()));
    assert!(err(&graph.orch(&set)).contains("is so already"));
    assert_eq!(graph.events(&["run.mode"]).len(), 1);
    assert_eq!(graph.orch(&["run", "set", "RUN"]).status.code(), Some(2), "there is nothing to set");
    graph.ok(&["run", "set", "RUN", "--global-mode", "IMPLEMENTATION"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = live(&graph.repo);
    let refused = graph.orch(&["run", "delete", "RUN"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("a has a turn under way"), "{}", err(&refused));
    assert!(err(&refused).contains("orch run stop"), "{}", err(&refused));
    assert_eq!(graph.state()["status"], "running");
    graph.ok(&["run", "complete", "RUN"]);
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.turns(), ["a interrupted"]);
    assert_eq!(graph.state()["status"], "completed");
    let deleted = err(&graph.orch(&["run", "delete", "RUN"]));
    let place = deleted.split("git for-each-ref ").nth(1).and_then(|rest| rest.split('`').next());
    let place = place.unwrap_or_else(|| panic!("{deleted}"));
    assert!(graph.repo.git(["for-each-ref", place]).contains("/a"), "{deleted}");
    let archived = graph.repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/archive"]);
    let of = |name: &str| archived.lines().find(|line| line.ends_with(name)).expect("a ref").to_owned();
    assert!(of("/@ledger").starts_with("refs/aynig/archive/"));
    assert!(graph.repo.git(["show", &format!("{}:prompts", of("/a"))]).contains("> Write it."));
    let left = ["refs/aynig/runs", "refs/heads/run", "refs/heads/work"];
    assert_eq!(graph.repo.git(["for-each-ref", left[0], left[1], left[2]]).trim(), "");
    assert_eq!(graph.orch(&["show", "RUN"]).status.code(), Some(1));
}

/// CONTRACT 22.13
#[test]
fn a_deletion_that_was_killed_is_carried_on() {
    for point in ["removal-noted", "removal-unregistered", "removal-unbranched", "removal-recorded"] {
        let graph = Graph::new("echo work >made\necho done", &["a", "b"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        graph.drain();
        let mut killed = graph.repo.aynig_command();
        killed.args(["orch", "run", "delete", &graph.slug]);
        killed.env("AYNIG_CRASH_AT", format!("{point}:kill:1"));
        assert_eq!(killed.status().expect("aynig starts").code(), None, "{point}");
        let again = graph.orch(&["run", "delete", "RUN"]);
        assert!(again.status.success(), "{point}: {}", err(&again));
        let left = ["refs/aynig/runs", "refs/heads/run", "refs/heads/work"];
        assert_eq!(graph.repo.git(["for-each-ref", left[0], left[1], left[2]]).trim(), "", "{point}");
        let archived = graph.repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/archive"]);
        for name in ["/@ledger", "/a"] {
            assert!(archived.lines().any(|line| line.ends_with(name)), "{point}: {archived}");
        }
    }
}

/// CONTRACT 22.1
#[test]
fn people_see_who_has_a_turn_and_why_one_does_not_begin() {
    let graph = Graph::new(WAITS, &["a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = live(&graph.repo);
    assert_eq!((&graph.node("a")["status"], &graph.node("b")["status"]), (&"running".into(), &"idle".into()));
    let roster = graph.ok(&["roster", "RUN"]);
    assert!(roster.contains("  running  ") && !roster.contains(char::REPLACEMENT_CHARACTER), "{roster}");
    for verb in [&["rollback"][..], &["remove", "--apply"]] {
        let refused = graph.repo.aynig([&["workspace"], verb, &[&format!("{}/a", graph.slug)]].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(err(&refused).contains("a turn works in"), "{}", err(&refused));
        assert!(
            err(&refused).contains(&format!("aynig orch node stop {} a`", graph.slug)),
            "{}",
            err(&refused)
        );
    }
    graph.ok(&["node", "stop", "RUN", "a"]);
    runner.wait().expect("it ends");
    assert_eq!(graph.node("a")["status"], "idle");

    graph.ok(&["node", "start", "RUN", "a"]);
    graph.repo.git(["config", "aynig.provider.scripted.kind", "nonsense"]);
    let ran = graph.repo.aynig(["run", "--drain"]);
    let said = out(&ran) + &err(&ran);
    let shown = graph.ok(&["show", "RUN"]);
    assert!(shown.contains("a  waits: test-host cannot do it now: "), "{shown}{said}");
    let next: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("next       ")).collect();
    assert_eq!(next, ["git config aynig.provider.scripted.kind VALUE", "aynig run"], "{shown}");
    for text in [&shown, &said] {
        assert!(text.contains("git config aynig.provider.scripted.kind VALUE"), "{text}");
        assert!(!text.contains("install it"), "{text}");
    }
}

/// CONTRACT 22.1
#[test]
fn a_graph_that_does_not_go_on_shows_the_line_to_type() {
    let graph = Graph::new("exit 1", &["a"]);
    graph.repo.git(["config", "aynig.retryPause", "0"]);
    let next = |graph: &Graph| {
        let shown = graph.ok(&["show", "RUN"]);
        let lines = shown.lines().filter_map(|line| line.strip_prefix("next"));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(next(&graph), [""; 0]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    assert_eq!(next(&graph), ["aynig run"]);
    graph.drain();
    let start = format!("aynig orch node start {} a", graph.slug);
    assert_eq!(next(&graph), [start.as_str()]);
    let waiting = out(&graph.repo.aynig_ok(["status", "--waiting"]));
    assert!(waiting.contains(&start) && !waiting.contains("orch approvals"), "{waiting}");
    graph.ok(&["node", "stop", "RUN", "a"]);
    let sent = err(&graph.orch(&["chat", "RUN", "a", "Again."]));
    assert!(sent.contains(&format!("a is stopped: `{start}` lets it go on")), "{sent}");
    assert_eq!(next(&graph), [start.as_str()]);
    graph.ok(&["run", "pause", "RUN"]);
    assert_eq!(next(&graph), [format!("aynig orch run resume {}", graph.slug)]);
}

/// CONTRACT 22.2
#[test]
fn a_message_that_misses_its_text_goes_to_nobody() {
    let graph = Graph::new("echo done", &["a"]);
    let boss = ["node", "add", "RUN", "boss", "--role", "orchestrator", "--provider", "scripted"];
    graph.ok(&[&boss[..], &["--permissions", "skip"]].concat());
    let refused = graph.orch(&["chat", "RUN", "a"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains(&format!("`aynig orch chat {} a TEXT`", graph.slug)), "{}", err(&refused));
    assert!(graph.events(&["message.user"]).is_empty());
    graph.ok(&["run", "stop", "RUN"]);
    let refused = graph.orch(&["chat", "RUN", "a", "Go on."]);
    let resume = format!("`aynig orch run resume {}`", graph.slug);
    assert!(err(&refused).contains(&resume), "{}", err(&refused));
}

/// CONTRACT 22.14, 22.24
#[test]
fn an_agent_hears_at_once_what_cannot_be_staged() {
    let script = r#""$AYNIG_BIN" orch handoff --to b --message x --reply-to nope 2>&1; echo "reply $?"
"$AYNIG_BIN" orch handoff --to b --message x >/dev/null
"$AYNIG_BIN" orch done 2>&1 >/dev/null
echo x >file
"$AYNIG_BIN" orch artifact add file 2>&1; echo "file $?""#;
    let graph = Graph::new(script, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "End it."]);
    graph.drain();
    let said = graph.events(&["message.assistant.final"]);
    let said = said[0]["content"].as_str().expect("a text");
    for words in [
        "nope: that is no id of a hand-off",
        "reply 2",
        "unread items of b;",
        "nothing comes after it",
        "file 1",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(graph.state()["status"], "completed");
}

/// CONTRACT 20.31
#[test]
fn the_driver_of_a_node_is_not_taken_out_of_its_run_by_hand() {
    let graph = Graph::new("echo done", &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let driver = format!("run/{}/a", graph.slug);
    let before = graph.repo.head(&driver);
    let hint = format!("aynig orch show {}", graph.slug);
    for arguments in [
        &["answer", &driver, "approved"][..],
        &["answer", &driver],
        &["set-state", "--state", "approved", &driver],
        &["set-state", "--retry", &driver],
        &["set-working", &driver],
        &["cancel", &driver],
    ] {
        let refused = graph.repo.aynig(arguments.iter().copied());
        assert_refused(
            &refused,
            1,
            &["drives run", &hint, "aynig orch approvals", "aynig orch node stop|start"],
        );
    }
    let passed = err(&graph.repo.aynig_ok(["cancel", "*"]));
    assert!(passed.contains(&format!("aynig orch run stop {}", graph.slug)), "{passed}");
    assert_eq!(graph.repo.head(&driver), before);
    graph.drain();
    graph.assert_read_once(0);
}

/// CONTRACT 20.33
#[test]
fn a_setting_of_a_person_is_not_that_of_a_turn_whose_program_was_missing() {
    let graph = Graph::new("echo done", &["a", "b"]);
    graph.repo.git(["config", "aynig.provider.gone.kind", "custom"]);
    graph.repo.git(["config", "aynig.provider.gone.command", "/nowhere/gone"]);
    let set = |more: &[&str]| graph.orch(&[&["node", "set", "RUN", "a"], more].concat());
    // What `node add` reports.
    let said = err(&set(&["--provider", "nope"]));
    assert!(
        said.contains("this host has no provider nope") && said.contains("left to other hosts"),
        "{said}"
    );
    assert_eq!(err(&set(&["--label", "A"])).matches("warning").count(), 0);
    assert!(set(&["--provider", "scripted"]).status.success());
    assert_refused(&set(&["--permissions", "gated"]), 2, &["cannot ask", "nothing was changed"]);
    graph.ok(&["node", "set", "RUN", "a", "--provider", "gone"]);
    graph.ok(&["chat", "RUN", "a", "Do it."]);
    graph.drain();
    assert!(graph.turns().is_empty());
    graph.repo.git(["config", "aynig.notifySeconds", "7"]);
    graph.ok(&["chat", "RUN", "b", "Do it."]);
    let said = graph.drain();
    assert_eq!(graph.turns(), ["b completed"], "{said}");
}

/// CONTRACT 20.8
#[test]
fn a_turn_whose_runner_was_killed_is_shown_as_such() {
    let graph = Graph::new(WAITS, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = live(&graph.repo);
    assert!(graph.ok(&["show", "RUN"]).contains("a  running"));
    runner.kill().expect("it runs");
    runner.wait().expect("it ends");
    graph.repo.deserted();
    let shown = graph.ok(&["show", "RUN"]);
    assert!(shown.contains("a  waits: its runner on this host is gone; the lease ends at "), "{shown}");
    assert!(!shown.contains("running  1"), "{shown}");
}
