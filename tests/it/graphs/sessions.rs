//! Sessions of nodes: continued where their work is, else begun anew with a replay.

use super::*;

/// Notes each prompt's line in `.git/asked`, and begins the sessions `s-1`, `s-2` and so on. It fails if `.git/fail` is
/// there, and has forgotten its session if `.git/forgot` is there.
const REMEMBERS: &str = r#"git=$(git rev-parse --git-common-dir)
printf '%s\n' "$prompt" >>"$git/asked"
case $prompt in
*'"sessionId":"'*) [ ! -e "$git/forgot" ] || { rm "$git/forgot"; echo '{"type":"session.unknown"}'; exit; } ;;
*) echo more >>"$git/sessions"; printf '{"type":"session","sessionId":"s-%s"}\n' $(wc -l <"$git/sessions") ;;
esac
[ ! -e "$git/fail" ] || { echo '{"type":"turn.status","status":"failed","message":"no"}'; exit; }
number=$(wc -l <"$git/asked"); echo $number >>work
printf '{"type":"message.assistant.final","content":"answer %s"}\n' $number"#;

fn remembering(nodes: &[&str]) -> Graph {
    let repo = Repo::new();
    place_worktrees(&repo);
    asking_agent(&repo, REMEMBERS);
    Graph::of(repo, nodes)
}

/// What the program was given, by turn.
fn asked(repo: &Repo) -> Vec<Value> {
    let text = std::fs::read_to_string(repo.path.join(".git/asked")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn prompt(asked: &Value) -> &str {
    asked["prompt"].as_str().expect("a text")
}

impl Graph {
    /// Sends a message to the node `a`, and carries out its turn.
    fn says(&self, text: &str) -> Value {
        self.says_later(text, "0")
    }

    /// The same so many seconds from now.
    fn says_later(&self, text: &str, seconds: &str) -> Value {
        self.ok(&["chat", "RUN", "a", text]);
        let mut runner = self.repo.aynig_command();
        runner.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds);
        assert!(runner.output().expect("it runs").status.success());
        asked(&self.repo).pop().expect("a turn")
    }

    /// A file of the newest turn of the node `a` on this host.
    fn kept(&self, file: &str) -> Option<String> {
        let id = self.state()["id"].as_str().expect("an id").to_owned();
        let above = self.repo.path.join(".git/aynig/data/runs").join(id).join("artifacts/a");
        let newest: Value =
            serde_json::from_slice(&std::fs::read(above.join("manifest.json")).expect("a manifest"))
                .expect("JSON");
        std::fs::read_to_string(above.join(newest["attempt"].to_string()).join(file)).ok()
    }

    /// Asserts that the last turn began a new session for this reason, and was given all of the prompt.
    fn assert_renewed(&self, asked: &Value, why: &str) {
        assert_eq!(asked["promptKind"], "full", "{why}");
        assert_eq!(asked["sessionId"], Value::Null, "{why}");
        assert!(prompt(asked).contains("You are the agent a "), "{why}: {asked}");
        let metadata = self.kept("runner_metadata.json").expect("a file");
        assert!(metadata.contains(why), "{why}: {metadata}");
    }
}

/// CONTRACT 22.26, 22.27
#[test]
fn a_session_is_continued_with_what_is_new() {
    let graph = remembering(&["a", "b"]);
    assert_eq!(graph.node("a")["session"]["sessionId"], "pending");
    let first = graph.says("one");
    assert_eq!((&first["promptKind"], &first["sessionId"]), (&"full".into(), &Value::Null));
    let session = graph.node("a")["session"].clone();
    assert!(session["sessionId"].as_str().expect("an id").len() == 36 && session["runner"].is_string());
    let second = graph.says("two");
    assert_eq!((&second["promptKind"], &second["sessionId"]), (&"delta".into(), &"s-1".into()));
    assert!(prompt(&second).contains("> two"), "{second}");
    assert!(!prompt(&second).contains("You are the agent") && !prompt(&second).contains("> one"), "{second}");
    assert_eq!(graph.node("a")["session"], session);
    // The files have all of it, and tell what was sent.
    let full = graph.kept("prompt.full.txt").expect("a file");
    assert!(full.contains("You are the agent a ") && full.contains("> two"), "{full}");
    let blocks: Value =
        serde_json::from_str(&graph.kept("prompt.blocks.json").expect("a file")).expect("JSON");
    let sent = |blocks: &Value| -> Vec<String> {
        let sent = blocks.as_array().expect("a list").iter().filter(|block| block["sent"] == true);
        sent.map(|block| block["name"].as_str().expect("a word").to_owned()).collect()
    };
    assert_eq!(sent(&blocks), ["task"], "{blocks}");
    assert!(graph.kept("contextpack.md").is_none());
    // A block that changed is sent again.
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    let third = graph.says("three");
    assert_eq!(third["promptKind"], "delta");
    assert!(prompt(&third).contains("orch handoff --to"), "{third}");
    assert_eq!(graph.turns(), ["a completed"; 3]);
    // The provider's id stays on this host.
    let ledger = format!("refs/aynig/runs/{}", graph.state()["id"].as_str().expect("an id"));
    let log = graph.repo.git(["log", "--format=%B", &ledger]);
    assert!(log.contains("answer 3") && !log.contains("s-1"), "{log}");
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.26
#[test]
fn a_new_session_begins_with_a_replay_if_the_last_one_does_not_fit() {
    for (what, why) in [
        ("failed", "the last turn"),
        ("moved", "the work branch has moved"),
        ("program", "another program"),
        ("host", "another host"),
        ("role", "the role was changed"),
        ("model", "the model was changed"),
        ("mode", "the mode of the run was changed"),
    ] {
        let graph = remembering(&["a"]);
        graph.says("one");
        let git = graph.repo.path.join(".git");
        match what {
            "failed" => {
                std::fs::write(git.join("fail"), "").expect("a file");
                graph.says("more");
                std::fs::remove_file(git.join("fail")).expect("it is there");
            }
            "moved" => {
                let worktree = graph.repo.beside("worktrees").join(&graph.slug).join("a");
                std::fs::write(worktree.join("mine"), "a person's").expect("a file");
            }
            "program" => {
                std::fs::copy(git.join("scripted.sh"), git.join("other.sh")).expect("a copy");
                let other = git.join("other.sh");
                graph.repo.git(["config", "aynig.provider.scripted.command", other.to_str().expect("UTF-8")]);
            }
            "host" => {
                let id = graph.state()["id"].as_str().expect("an id").to_owned();
                let file = git.join(format!("aynig/data/runs/{id}/sessions/a.json"));
                let mut session: Value =
                    serde_json::from_slice(&std::fs::read(&file).expect("a session")).expect("JSON");
                session["host"] = "elsewhere".into();
                std::fs::write(&file, session.to_string()).expect("a file");
            }
            "role" => drop(graph.ok(&["node", "set", "RUN", "a", "--role", "reviewer"])),
            "model" => drop(graph.ok(&["node", "set", "RUN", "a", "--model", "large"])),
            _ => drop(graph.ok(&["run", "set", "RUN", "--global-mode", "PLANNING"])),
        }
        // A failed turn has a pause behind it.
        let turn = graph.says_later("two", "60");
        graph.assert_renewed(&turn, why);
        let pack = graph.kept("contextpack.md").expect(what);
        assert!(pack.contains("> one") && pack.contains("> answer 1"), "{what}: {pack}");
        assert!(!pack.contains("> two"), "{what}: {pack}");
        let text = prompt(&turn);
        assert!(text.contains(&pack) && text.find("> answer 1") < text.find("> two"), "{what}: {text}");
    }
}

/// CONTRACT 22.9, 22.26
#[test]
fn a_reset_forgets_what_was_before() {
    for reset in ["reset", "new", "clear", "stop"] {
        let graph = remembering(&["a"]);
        graph.says("one");
        match reset {
            "reset" => drop(graph.ok(&["node", "reset", "RUN", "a"])),
            "new" => drop(graph.ok(&["chat", "RUN", "a", "/new"])),
            "clear" => drop(graph.ok(&["chat", "RUN", "a", "/clear"])),
            _ => {
                graph.ok(&["node", "stop", "RUN", "a"]);
                graph.ok(&["node", "start", "RUN", "a"]);
            }
        }
        assert_eq!(graph.node("a")["session"]["sessionId"], "pending", "{reset}");
        let turn = graph.says("two");
        assert_eq!((&turn["promptKind"], &turn["sessionId"]), (&"full".into(), &Value::Null), "{reset}");
        assert!(
            !prompt(&turn).contains("> one") && graph.kept("contextpack.md").is_none(),
            "{reset}: {turn}"
        );
        // A later replay does not reach behind it.
        let worktree = graph.repo.beside("worktrees").join(&graph.slug).join("a");
        std::fs::write(worktree.join("mine"), "a person's").expect("a file");
        let turn = graph.says("three");
        graph.assert_renewed(&turn, "the work branch has moved");
        let pack = graph.kept("contextpack.md").expect("a replay");
        assert!(pack.contains("> two") && !pack.contains("> one"), "{reset}: {pack}");
        let made = graph.events(&["artifact.created"]).into_iter();
        let packs: Vec<Value> = made
            .filter(|one| one["artifact"]["kind"] == "contextpack")
            .map(|mut one| one["artifact"].take())
            .collect();
        assert_eq!(packs.len(), 1, "{reset}: {packs:?}");
        assert_eq!((&packs[0]["name"], &packs[0]["size"]), (&"contextpack.md".into(), &pack.len().into()));
    }
}

/// CONTRACT 22.26
#[test]
fn a_program_that_forgot_its_session_begins_a_new_one_in_the_turn() {
    let graph = remembering(&["a"]);
    graph.says("one");
    std::fs::write(graph.repo.path.join(".git/forgot"), "").expect("a file");
    let turn = graph.says("two");
    let all = asked(&graph.repo);
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all[1]["sessionId"], "s-1");
    graph.assert_renewed(&turn, "does not have the last session");
    assert!(prompt(&turn).contains("> answer 1"), "{turn}");
    assert_eq!(graph.turns(), ["a completed", "a completed"]);
    graph.assert_read_once(0);
    assert_eq!(graph.says("three")["sessionId"], "s-2");
}

/// CONTRACT 22.26
#[test]
fn an_interrupted_turn_leaves_its_session() {
    let script = REMEMBERS.replace(
        "number=",
        "[ -e ../../ready ] || { echo half >half; : >../../begun; exec sleep 600; }\nnumber=",
    );
    let repo = Repo::new();
    place_worktrees(&repo);
    asking_agent(&repo, &script);
    let graph = Graph::of(repo, &["a"]);
    graph.ok(&["chat", "RUN", "a", "one"]);
    let mut runner = people::live(&graph.repo);
    graph.ok(&["node", "interrupt", "RUN", "a"]);
    assert!(runner.wait().expect("it ends").success());
    people::ready(&graph.repo);
    let turn = graph.says("two");
    assert_eq!((&turn["promptKind"], &turn["sessionId"]), (&"delta".into(), &"s-1".into()));
    for words in ["was interrupted", "> one", "> two"] {
        assert!(prompt(&turn).contains(words), "{words}: {turn}");
    }
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    graph.assert_read_once(0);
    // Nothing of that is said twice.
    assert!(!prompt(&graph.says("three")).contains("was interrupted"));
}

/// CONTRACT 22.26
#[test]
fn a_turn_that_was_killed_leaves_no_session() {
    let graph = remembering(&["a"]);
    graph.says("one");
    graph.ok(&["chat", "RUN", "a", "two"]);
    let mut killed = graph.repo.aynig_command();
    killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", "agent-ended:kill:1");
    killed.output().expect("it runs");
    for offset in ["600", "700"] {
        let mut later = graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        later.output().expect("it runs");
    }
    let all = asked(&graph.repo);
    assert_eq!(
        all.iter().map(|one| one["sessionId"].clone()).collect::<Vec<_>>(),
        [Value::Null, "s-1".into(), Value::Null]
    );
    graph.assert_renewed(&all[2], "the last turn failed");
    graph.assert_read_once(0);
}

/// CONTRACT 22.5, 22.26
#[test]
fn a_turn_whose_runner_was_stopped_leaves_no_session() {
    let waits = "[ -e ../../ready ] || { : >../../begun; exec sleep 600; }\nnumber=";
    let repo = Repo::new();
    place_worktrees(&repo);
    asking_agent(&repo, &REMEMBERS.replace("number=", waits));
    people::ready(&repo);
    let graph = Graph::of(repo, &["a"]);
    graph.says("one");
    graph.ok(&["chat", "RUN", "a", "two"]);
    std::fs::remove_file(graph.repo.beside("worktrees").join("ready")).expect("it is there");
    let mut runner = people::live(&graph.repo);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(runner.id()).expect("small"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it lives");
    runner.wait().expect("it ends");
    people::ready(&graph.repo);
    let mut later = graph.repo.aynig_command();
    later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "600");
    later.output().expect("it runs");
    assert_eq!(graph.turns(), ["a completed", "a interrupted", "a completed"]);
    let turn = asked(&graph.repo).pop().expect("a turn");
    graph.assert_renewed(&turn, "the last turn was not in this session");
    assert!(prompt(&turn).contains("> answer 1"), "{turn}");
}

/// CONTRACT 22.26, 22.28
#[test]
fn a_session_stays_on_its_host_and_that_one_comes_first() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| {
        let host = hosts::host(path, name, "");
        asking_agent(&host, REMEMBERS);
        host
    });
    let graph = Graph::of(first, &["a"]);
    let other = Graph { repo: second, slug: graph.slug.clone() };
    let pass = |graph: &Graph, name: &str, seconds: &str| {
        let mut runner = graph.repo.aynig_command();
        runner.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds);
        assert!(runner.env("AYNIG_RUNNER_ID", name).output().expect("it runs").status.success());
        asked(&graph.repo)
    };
    graph.ok(&["chat", "RUN", "a", "one"]);
    pass(&graph, "first", "0");
    graph.ok(&["chat", "RUN", "a", "two"]);
    let driver = format!("run/{}/a", graph.slug);
    let state = graph.repo.git(["--git-dir", path, "log", "-1", "--format=%B", &driver]);
    assert!(
        state.contains("dwp-prefer-runner: first") && state.contains("dwp-prefer-seconds: 10"),
        "{state}"
    );
    assert_eq!(pass(&graph, "first", "0")[1]["sessionId"], "s-1");
    // The first host is away.
    graph.ok(&["chat", "RUN", "a", "three"]);
    let turn = pass(&other, "second", "11").pop().expect("a turn");
    other.assert_renewed(&turn, "left no session on this host");
    assert!(prompt(&turn).contains("> answer 2"), "{turn}");
    assert_eq!(other.node("a")["session"]["runner"], "second");
    // It has the session now.
    graph.ok(&["chat", "RUN", "a", "four"]);
    assert_eq!(pass(&other, "second", "0")[1]["sessionId"], "s-1");
    graph.assert_read_once(0);
    // The session of the first host is too old by now.
    graph.ok(&["chat", "RUN", "a", "five"]);
    let turn = pass(&graph, "first", "11").pop().expect("a turn");
    graph.assert_renewed(&turn, "the work branch has moved");
}

/// Speaks as Claude Code does: it defers the call of an unanswered request, and asks about it again when it is continued.
const DEFERS: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo "2.1.330 (Claude Code)"; exit; }
git=$(git rev-parse --git-common-dir)
printf '%s\n' "$*" >>"$git/argv"
IFS= read -r line
echo '{"type":"control_response","response":{"subtype":"success","request_id":"aynig-initialize","response":{}}}'
case $* in
*--resume*) ;;
*)  IFS= read -r line; printf '%s\n' "$line" >>"$git/prompts"
    echo '{"type":"system","subtype":"init","session_id":"c-1","model":"m","claude_code_version":"2.1.330"}'
    echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"touch one"}}]}}' ;;
esac
echo '{"type":"control_request","request_id":"r1","request":{"subtype":"hook_callback","callback_id":"gate","input":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"touch one"}}}}'
IFS= read -r answer; printf '%s\n' "$answer" >>"$git/answers"
case $answer in
*'"defer"'*) echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"tool_deferred","session_id":"c-1","result":""}'; exit ;;
*'"allow"'*) touch one ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"c-1","result":"Done."}'
"#;

/// CONTRACT 22.12, 22.26
#[test]
fn a_call_that_a_program_keeps_is_asked_about_again() {
    let repo = Repo::new();
    place_worktrees(&repo);
    agent(&repo, "");
    std::fs::write(repo.path.join(".git/scripted.sh"), DEFERS).expect("a script");
    repo.git(["config", "aynig.provider.scripted.kind", "claude"]);
    repo.git(["config", "--unset", "aynig.provider.scripted.protocol"]);
    repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    let graph = Graph::of(repo, &[]);
    graph.ok(&["node", "add", "RUN", "a", "--role", "implementer", "--provider", "scripted"]);
    graph.ok(&["chat", "RUN", "a", "one"]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted"]);
    // It is not part of the turn that is continued.
    graph.ok(&["chat", "RUN", "a", "two"]);
    let open: Value = serde_json::from_str(&graph.ok(&["approvals", "--json"])).expect("JSON");
    let id = open["approvals"][0]["id"].as_str();
    graph.ok(&["approve", id.unwrap_or_else(|| panic!("{open}"))]);
    graph.repo.git(["config", "aynig.approvalWaitSeconds", "60"]);
    let mut pass = graph.repo.aynig_command();
    pass.arg("run");
    pass.output().expect("it runs");
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    let noted =
        |name: &str| std::fs::read_to_string(graph.repo.path.join(".git").join(name)).expect("a file");
    assert!(
        noted("argv").lines().last().is_some_and(|last| last.contains("--resume c-1")),
        "{}",
        noted("argv")
    );
    assert_eq!(noted("prompts").lines().count(), 1, "nothing was sent to the continued session");
    assert!(noted("answers").contains("defer") && noted("answers").contains("allow"), "{}", noted("answers"));
    let files = graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/a", graph.slug)]);
    assert!(files.contains("one"), "{files}");
    let blocks: Value =
        serde_json::from_str(&graph.kept("prompt.blocks.json").expect("a file")).expect("JSON");
    assert!(blocks.as_array().expect("a list").iter().all(|block| block["sent"] == false), "{blocks}");
    // The message that came meanwhile is the next turn.
    graph.assert_read_once(1);
    assert_eq!(graph.node("a")["inboxCount"], 1);
}
