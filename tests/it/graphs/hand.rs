//! What an agent does in its turn, and what it is refused.

use serde_json::Value;

use super::*;

/// A graph with an orchestrator `top` that asks nobody, unless `asks`.
pub(super) fn managed(script: &str, asks: bool) -> Graph {
    let graph = Graph::new(script, &[]);
    let approval = if asks { "true" } else { "false" };
    let words = ["node", "add", "RUN", "top", "--role", "orchestrator", "--provider", "scripted"];
    graph.ok(&[&words[..], &["--permissions", "skip", "--management-approval", approval]].concat());
    graph
}

/// A file on the work branch of a node.
pub(super) fn file_of(graph: &Graph, alias: &str, file: &str) -> String {
    graph.repo.git(["show", &format!("work/{}/{alias}:{file}", graph.slug)])
}

pub(super) fn aliases(graph: &Graph) -> Vec<String> {
    let state = graph.state();
    let nodes = state["nodes"].as_object().expect("nodes").values();
    let mut aliases: Vec<String> =
        nodes.map(|node| node["alias"].as_str().expect("an alias").to_owned()).collect();
    aliases.sort();
    aliases
}

/// The ways of a run, as `a>b`.
pub(super) fn ways(graph: &Graph) -> Vec<String> {
    let roster: Value = serde_json::from_str(&graph.ok(&["roster", "RUN", "--json"])).expect("JSON");
    let edges = roster["edges"].as_array().expect("edges");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut ways: Vec<String> =
        edges.iter().map(|way| format!("{}>{}", text(&way["from"]), text(&way["to"]))).collect();
    ways.sort();
    ways
}

/// The lines that a script left, each with the exit code of a command.
pub(super) fn assert_said(said: &str, wanted: &[&str]) {
    for words in wanted {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// CONTRACT 22.14, 22.16, 22.43
#[test]
fn a_hand_off_carries_data_files_commits_and_a_status() {
    let script = r##"
case $prompt in
*"the agent a "*)
    printf '# Report\n' >report.md
    id=$("$AYNIG_BIN" orch artifact add report.md --name final.md | sed 's/.*"id":"\([^"]*\)".*/\1/')
    diff=$("$AYNIG_BIN" orch artifact add report.md --kind diff | sed 's/.*"id":"\([^"]*\)".*/\1/')
    printf gone >report.md
    "$AYNIG_BIN" orch handoff --to b --message x --structured '{"tests":12}' --artifact "$id" \
        --artifact "artifact://diff/$diff" --artifact "git:$(git rev-parse HEAD)" --status "failed: two tests" || exit 9 ;;
*) printf '%s\n' "$prompt" >seen ;;
esac
echo done"##;
    let graph = Graph::new(script, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "go"]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "b completed"], "{:?}", graph.events(&["turn.status"]));
    let made = graph.events(&["artifact.created"]);
    let reports: Vec<&Value> = made.iter().filter(|one| one["artifact"]["name"] == "final.md").collect();
    let [report] = reports.as_slice() else { panic!("{made:?}") };
    let report = &report["artifact"];
    assert_eq!(
        (&report["kind"], &report["size"]),
        (&"report".into(), &9.into()),
        "as it was when it was kept"
    );
    assert_eq!(report["mediaType"], "text/markdown");
    assert_eq!(report["nodeId"], graph.node("a")["id"]);
    let sent = graph.events(&["handoff.sent"]);
    let payload = &sent[0]["envelope"]["payload"];
    assert_eq!(payload["structured"]["tests"], 12);
    assert_eq!(
        (&payload["status"]["ok"], &payload["status"]["reason"]),
        (&false.into(), &"two tests".into())
    );
    let id = report["id"].as_str().expect("an id");
    let attached = payload["artifacts"].as_array().expect("artifacts");
    assert_eq!(attached[0]["ref"], format!("artifact://{id}"));
    assert_eq!((&attached[0]["type"], &attached[1]["type"]), (&"report".into(), &"diff".into()));
    assert_eq!(attached[2]["type"], "commit");
    let seen = file_of(&graph, "b", "seen");
    assert_said(
        &seen,
        &[
            &format!("Attached (report): artifact://{id}"),
            "Status: failed: two tests",
            r#"Data: {"tests":12}"#,
        ],
    );
    graph.ok(&["doctor", "RUN"]);
    // CONTRACT 22.43
    let edges = graph.events(&["edge.created"]);
    let made = made.iter().map(|one| &one["artifact"]["id"]);
    let ids: Vec<&Value> = made.chain([&edges[0]["edge"]["id"], &sent[0]["envelope"]["id"]]).collect();
    for id in &ids {
        let id = id.as_str().expect("an id");
        assert_eq!(uuid::Uuid::parse_str(id).map(|uuid| uuid.to_string()).ok().as_deref(), Some(id));
    }
    let different: std::collections::BTreeSet<&str> = ids.iter().filter_map(|id| id.as_str()).collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
}

/// CONTRACT 22.14, 22.16
#[test]
fn wrong_files_and_references_are_refused_at_once() {
    let script = r##"
hand() { "$AYNIG_BIN" orch "$@" >>said 2>&1; echo "code-$name $?" >>said; }
case $prompt in
*"the agent b "*)
    echo b >said.b
    "$AYNIG_BIN" orch artifact add said.b | sed 's/.*"id":"\([^"]*\)".*/\1/' >../../id
    echo done; exit ;;
esac
mkdir d; echo x >d/plain; : >empty; ln -s ../../../id link; ln -s d up; head -c 4194305 /dev/zero >huge
name=link hand artifact add link
name=up hand artifact add up/plain
name=outside hand artifact add ../../id
name=absolute hand artifact add /etc/passwd
name=directory hand artifact add d
name=missing hand artifact add nothing
name=empty hand artifact add empty
name=huge hand artifact add huge
name=slash hand artifact add d/plain --name ../x
name=dots hand artifact add d/plain --name ..
name=kind hand artifact add d/plain --kind prompt
rm huge
to="--to b --message x"
name=unknown hand handoff $to --artifact 11111111-1111-4111-8111-111111111111
name=noid hand handoff $to --artifact ../../etc
name=other hand handoff $to --artifact "$(cat ../../other)"
name=commit hand handoff $to --artifact git:1111111111111111111111111111111111111111
name=head hand handoff $to --artifact git:HEAD
mine=$("$AYNIG_BIN" orch artifact add d/plain | sed 's/.*"id":"\([^"]*\)".*/\1/')
name=nodiff hand handoff $to --artifact "artifact://diff/$mine"
name=array hand handoff $to --structured '[1]'
name=json hand handoff $to --structured '{'
name=big hand handoff $to --structured "{\"x\":\"$(head -c 100000 /dev/zero | tr '\0' x)\"}"
name=status hand handoff $to --status bad
name=landed hand handoff $to --artifact "$(cat ../../id)"
echo done"##;
    let graph = Graph::new(script, &["a", "b"]);
    // An artifact of another run.
    let other = "printf other >said.b; \"$AYNIG_BIN\" orch artifact add said.b; echo done";
    super::agent(&graph.repo, other);
    let other = Graph::of(graph.repo, &["b"]);
    other.ok(&["chat", "RUN", "b", "go"]);
    other.drain();
    let made = other.events(&["artifact.created"]);
    let found = made.iter().find(|one| one["artifact"]["name"] == "said.b").expect("an artifact");
    let id = found["artifact"]["id"].as_str().expect("an id");
    std::fs::write(other.repo.beside("worktrees").join("other"), id).expect("a file");
    let graph = Graph { slug: graph.slug, repo: other.repo };
    super::agent(&graph.repo, script);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "b", "go"]);
    graph.drain();
    graph.ok(&["chat", "RUN", "a", "go"]);
    graph.drain();
    let said = file_of(&graph, "a", "said");
    for (name, code) in [
        ("link", 1),
        ("up", 1),
        ("outside", 1),
        ("absolute", 1),
        ("directory", 1),
        ("missing", 1),
        ("empty", 1),
        ("huge", 1),
        ("slash", 2),
        ("dots", 2),
        ("kind", 2),
        ("unknown", 1),
        ("noid", 1),
        ("other", 1),
        ("commit", 1),
        ("head", 1),
        ("nodiff", 1),
        ("array", 2),
        ("json", 2),
        ("big", 1),
        ("status", 2),
        ("landed", 0),
    ] {
        assert!(said.lines().any(|line| line == format!("code-{name} {code}")), "{name} {code}: {said}");
    }
    assert_said(
        &said,
        &[
            "it is no plain file of the worktree",
            "it is empty",
            "it is longer than 4194304 bytes",
            "this run has no such artifact",
            "there is no such commit here",
            "it is of the kind report",
            "the structured data has",
        ],
    );
    assert_eq!(graph.events(&["handoff.sent"]).len(), 1, "{said}");
}

/// CONTRACT 22.16
#[test]
fn what_an_agent_kept_is_masked_and_goes_with_a_turn_that_completed() {
    let script = r#"
printf 'the key is s3cr3t-value here' >report.md
"$AYNIG_BIN" orch artifact add report.md || exit 9
rm report.md
[ -e ../../ready ] || exit 3
echo done"#;
    let graph = Graph::new(script, &["a"]);
    graph.repo.git(["config", "aynig.secrets", "TEST_KEY"]);
    graph.ok(&["chat", "RUN", "a", "go"]);
    let run = |offset: &str| {
        let mut runner = graph.repo.aynig_command();
        runner.args(["run", "--drain"]).env("TEST_KEY", "s3cr3t-value");
        runner.env("AYNIG_CLOCK_OFFSET_SECONDS", offset).output().expect("it runs")
    };
    let named = || {
        let made = graph.events(&["artifact.created"]);
        made.iter().filter(|one| one["artifact"]["name"] == "report.md").count()
    };
    run("0");
    let failed = graph.turns();
    assert!(!failed.is_empty() && failed.iter().all(|turn| turn == "a failed"), "{failed:?}");
    assert_eq!(named(), 0);
    super::people::ready(&graph.repo);
    run("60");
    assert_eq!((graph.turns().len(), named()), (failed.len() + 1, 1), "{:?}", graph.turns());
    let run = graph.state()["id"].as_str().expect("an id").to_owned();
    let ledger = format!("refs/aynig/runs/{run}");
    let found = graph.repo.git_command().args(["grep", "-q", "s3cr3t", &ledger]).status().expect("git runs");
    assert_eq!(found.code(), Some(1), "nothing of it is in the ledger");
    assert!(graph.repo.git(["grep", "the key is", &ledger]).contains("the key is *** here"));
    let data = graph.repo.path.join(".git/aynig/data");
    for path in files_below(&data) {
        let text = std::fs::read(&path).expect("a file");
        assert!(!text.windows(6).any(|part| part == b"s3cr3t"), "{}", path.display());
    }
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.14
#[test]
fn a_roster_shows_a_node_its_run() {
    let script = r#"
case $prompt in *"the agent top "*) ;; *) echo done; exit ;; esac
printf '%s' "$prompt" >prompt
"$AYNIG_BIN" orch spawn kid --role implementer --provider scripted >said || exit 9
"$AYNIG_BIN" orch handoff --to kid --message x >>said || exit 9
"$AYNIG_BIN" orch roster --json >roster.json || exit 9
"$AYNIG_BIN" orch roster >roster.txt || exit 9
echo done"#;
    let graph = managed(script, false);
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    assert_eq!(graph.turns(), ["top completed", "kid completed"], "{:?}", graph.events(&["turn.status"]));
    let roster: Value = serde_json::from_str(&file_of(&graph, "top", "roster.json")).expect("JSON");
    assert_eq!(roster["slug"], graph.slug);
    assert_eq!(
        (&roster["own"]["alias"], &roster["own"]["providers"][0]),
        (&"top".into(), &"scripted".into())
    );
    let kid = &roster["nodes"][1];
    assert_eq!(
        (&kid["alias"], &kid["staged"], &kid["takes"]),
        (&"kid".into(), &true.into(), &"handoff".into())
    );
    assert_eq!((&kid["unreadOfOwn"], &kid["gives"]), (&1.into(), &"report".into()));
    assert_eq!(roster["edges"][0]["id"], Value::Null, "it is staged");
    let text = file_of(&graph, "top", "roster.txt");
    assert_said(
        &text,
        &["you", "edges: all", "kid", "staged", "you may send a handoff", "may send you a report"],
    );
    let prompt = file_of(&graph, "top", "prompt");
    for verb in ["handoff", "spawn", "edge add", "artifact add", "roster"] {
        assert!(prompt.contains(&format!("\"$AYNIG_BIN\" orch {verb}")), "{verb}: {prompt}");
    }
    // A person names the run.
    let shown: Value = serde_json::from_str(&graph.ok(&["roster", "RUN", "--json"])).expect("JSON");
    assert_eq!((&shown["own"], &shown["nodes"][1]["staged"]), (&Value::Null, &false.into()));
    let refused = graph.orch(&["roster"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("aynig orch roster RUN"), "{}", err(&refused));
}

/// CONTRACT 22.15
#[test]
fn a_node_makes_nodes_and_edges_that_can_do_no_more() {
    let script = r#"
hand() { "$AYNIG_BIN" orch "$@" >>said 2>&1; echo "code-$name $?" >>said; }
case $prompt in
*"the agent top "*)
    own="--role implementer --provider scripted"
    name=kid hand spawn kid $own --label "The kid" --model m --message "Build it."
    name=second hand spawn second --role reviewer --provider scripted
    name=taken hand spawn kid $own
    name=edge hand edge add kid second
    name=again hand edge add second kid
    name=self hand edge add kid kid
    name=nobody hand edge add kid nobody
    name=handoff hand handoff --to second --message "Wait for it."
    name=provider hand spawn x --role implementer --provider claude
    name=alias hand spawn ../x $own
    name=role hand spawn x --role ../x --provider scripted
    name=model hand spawn x $own --model=--dangerous
    name=gated hand spawn x $own --permissions gated
    name=person hand edge add "$AYNIG_ORCH_RUN" kid top
    name=add hand node add "$AYNIG_ORCH_RUN" y $own ;;
*"the agent kid "*)
    printf '%s' "$prompt" >prompt
    name=kid hand spawn deeper --role implementer --provider scripted
    name=edge hand edge add kid top ;;
esac
echo done"#;
    let graph = managed(script, false);
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    let said = file_of(&graph, "top", "said");
    for (name, code) in [
        ("kid", 0),
        ("second", 0),
        ("taken", 1),
        ("edge", 0),
        ("again", 1),
        ("self", 1),
        ("nobody", 1),
        ("handoff", 0),
        ("provider", 1),
        ("alias", 2),
        ("role", 2),
        ("model", 1),
        ("gated", 2),
        ("person", 2),
        ("add", 2),
    ] {
        assert!(said.lines().any(|line| line == format!("code-{name} {code}")), "{name} {code}: {said}");
    }
    assert_said(
        &said,
        &["no node of this run has the provider claude: choose scripted", "is not a legal model"],
    );
    assert_eq!(aliases(&graph), ["kid", "second", "top"]);
    assert_eq!(ways(&graph), ["kid>second", "kid>top", "second>top", "top>kid", "top>second"]);
    let kid = graph.node("kid");
    assert_eq!((&kid["depth"], &kid["label"]), (&1.into(), &"The kid".into()));
    assert_eq!(kid["permissions"]["cliPermissionsMode"], "skip");
    let id = kid["id"].as_str().expect("an id");
    assert_eq!(graph.state()["nodeConfigs"][id]["model"], "m");
    let said = file_of(&graph, "kid", "said");
    assert_said(
        &said,
        &["kid may not make nodes", "code-kid 1", "kid may not make this edge", "code-edge 1"],
    );
    let prompt = file_of(&graph, "kid", "prompt");
    assert!(prompt.contains("> Build it.") && !prompt.contains("orch spawn"), "{prompt}");
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.15
#[test]
fn a_gated_node_makes_no_node_that_asks_nobody() {
    let repo = Repo::new();
    place_worktrees(&repo);
    let script = r#"
"$AYNIG_BIN" orch spawn kid --role implementer --provider scripted --permissions skip >said 2>&1; code=$?
printf '{"type":"message.assistant.final","content":"code-%s"}\n' "$code"
exec cat >/dev/null"#;
    asking_agent(&repo, script);
    let graph = Graph::of(repo, &[]);
    let words = ["node", "add", "RUN", "top", "--role", "orchestrator", "--provider", "scripted"];
    graph.ok(&[&words[..], &["--management-approval", "false"]].concat());
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    assert_eq!(graph.events(&["message.assistant.final"])[0]["content"], "code-1");
    assert!(file_of(&graph, "top", "said").contains("more permissions than it has"));
}

/// CONTRACT 22.15
#[test]
fn the_text_of_a_role_is_that_of_the_base_commit() {
    let script = r#"
case $prompt in
*"the agent top "*) "$AYNIG_BIN" orch spawn kid --role painter --provider scripted --message x || exit 9 ;;
*) printf '%s' "$prompt" >prompt ;;
esac
echo done"#;
    let graph = managed(script, false);
    let templates = graph.repo.path.join(".aynig/templates");
    std::fs::create_dir_all(&templates).expect("a directory");
    std::fs::write(templates.join("painter.md"), "You paint in blue.").expect("a file");
    graph.repo.git(["add", "-A"]);
    graph.repo.git(["commit", "-q", "-m", "roles"]);
    // This run has another base.
    let repo = graph.repo;
    let graph = Graph::of(repo, &[]);
    let words = ["node", "add", "RUN", "top", "--role", "orchestrator", "--provider", "scripted"];
    graph.ok(&[&words[..], &["--permissions", "skip", "--management-approval", "false"]].concat());
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    assert!(file_of(&graph, "kid", "prompt").contains("You paint in blue."));
}

/// CONTRACT 20.32, 22.6
#[test]
fn the_hand_is_for_agents() {
    let graph = Graph::new("echo done", &["a", "b"]);
    for (words, hint) in [
        (&["spawn", "x", "--role", "r", "--provider", "scripted"][..], "aynig orch node add"),
        (&["edge", "add", "a", "b"], "aynig orch edge add RUN FROM TO"),
        (&["artifact", "add", "file"], "in the repository"),
        (&["handoff", "--to", "a", "--message", "x"], "aynig orch chat"),
    ] {
        let refused = graph.orch(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains("by an agent in its turn"), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(hint), "{words:?}: {}", err(&refused));
    }
    assert!(ways(&graph).is_empty());
}

/// CONTRACT 22.6, 22.14
#[test]
fn staged_hand_offs_count_for_the_bound_of_an_edge() {
    let script = r#"
case $prompt in *"the agent a "*) ;; *) echo done; exit ;; esac
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
    "$AYNIG_BIN" orch handoff --to b --message "$number" >>said 2>&1; echo "code-$number $?" >>said
done
echo done"#;
    let graph = Graph::new(script, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "go"]);
    graph.drain();
    let said = file_of(&graph, "a", "said");
    assert_said(&said, &["code-16 0", "code-17 1", "b has 16 unread hand-offs from a"]);
    assert_eq!(graph.events(&["handoff.sent"]).len(), 16);
    graph.assert_read_once(0);
}

/// CONTRACT 22.17
#[test]
fn the_hand_is_a_server_of_tools() {
    let calls = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"spawn","arguments":{"alias":"kid","role":"implementer","provider":"scripted"}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"artifact_add","arguments":{"file":"file"}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"handoff","arguments":{"to":"kid","message":"-","structured":{"a":1}}}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"edge_add","arguments":{"from":"kid","to":"nobody"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"roster"}}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"handoff","arguments":{"to":"kid","message":"x","by":"b"}}}"#,
        "no json",
    ];
    let script = format!(
        r#"
case $prompt in *"the agent top "*) ;; *) echo done; exit ;; esac
echo x >file
cat >../../calls <<'END'
{}
END
env -i PATH="$PATH" HOME="$HOME" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 AYNIG_ORCH_RUN="$AYNIG_ORCH_RUN" \
    AYNIG_ORCH_NODE="$AYNIG_ORCH_NODE" AYNIG_ORCH_TURN="$AYNIG_ORCH_TURN" "$AYNIG_BIN" orch mcp <../../calls >answers
echo done"#,
        calls.join("\n")
    );
    let graph = managed(&script, false);
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    assert_eq!(graph.turns(), ["top completed", "kid completed"], "{:?}", graph.events(&["turn.status"]));
    let answers = file_of(&graph, "top", "answers");
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), 9, "{answers:?}");
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "aynig");
    let tools = answers[1]["result"]["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["handoff", "spawn", "edge_add", "artifact_add", "roster", "done"]);
    let text = |at: usize| answers[at]["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
    let is_error = |at: usize| answers[at]["result"]["isError"] == true;
    for (at, wrong, words) in [
        (2, false, r#""staged":true"#),
        (3, false, r#""staged":true"#),
        (4, false, r#""staged":true"#),
        (5, true, "has no node nobody"),
        (6, false, r#""alias":"kid""#),
        (7, true, "unknown field `by`"),
    ] {
        assert_eq!(is_error(at), wrong, "{}", answers[at]);
        assert!(text(at).contains(words), "{}", answers[at]);
    }
    assert_eq!(answers[8]["error"]["code"], -32_700);
    let sent = graph.events(&["handoff.sent"]);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["envelope"]["payload"]["message"], "-");
    let outside = graph.orch(&["mcp"]);
    assert_eq!(outside.status.code(), Some(2));
}

/// The verbs of the hand, for the documents.
pub(crate) fn scenes(scenes: &mut std::collections::BTreeMap<&'static str, Vec<std::process::Output>>) {
    let script = r#"
case $prompt in *"the agent top "*) ;; *) echo done; exit ;; esac
echo x >file
"$AYNIG_BIN" orch spawn kid --role implementer --provider scripted >../../spawn || exit 9
"$AYNIG_BIN" orch artifact add file >../../artifact || exit 9
"$AYNIG_BIN" orch roster --json >../../roster || exit 9
echo done"#;
    let graph = managed(script, false);
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    let shown = graph.orch(&["roster", "RUN", "--json"]);
    let said = |file: &str| std::process::Output {
        stdout: std::fs::read(graph.repo.beside("worktrees").join(file)).expect("a file"),
        ..shown.clone()
    };
    for (verb, file) in
        [("orch spawn", "spawn"), ("orch artifact add", "artifact"), ("orch roster", "roster")]
    {
        scenes.entry(verb).or_default().push(said(file));
    }
    graph.ok(&["node", "stop", "RUN", "kid"]);
    let held = graph.orch(&["roster", "RUN", "--json"]);
    scenes.entry("orch roster").or_default().extend([shown, held]);
}
