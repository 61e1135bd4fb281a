//! Graphs that are made with options and from files, and the texts of roles.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::*;

const PAIR: &str = "\
label: A pair
limits: { turns: 9 }
nodes:
  - alias: ada
    role: implementer
    provider: scripted
    permissions: skip
    prompt: Write it.
  - alias: rex
    role: reviewer
    provider: scripted
    permissions: skip
edges:
  - { from: ada, to: rex, type: handoff, label: look }
";

/// Writes what its turn was given into a file.
const HEARS: &str = r#"printf '%s\n' "$prompt" >../../heard-$AYNIG_ORCH_NODE; echo done"#;

fn create(repo: &Repo, arguments: &[&str]) -> std::process::Output {
    repo.aynig(["orch", "run", "create", "--json"].iter().chain(arguments).copied())
}

pub(super) fn made(repo: Repo, arguments: &[&str]) -> Graph {
    let output = create(&repo, arguments);
    assert!(output.status.success(), "{}", err(&output));
    let made: Value = serde_json::from_str(&out(&output)).expect("JSON");
    Graph { slug: made["slug"].as_str().expect("a slug").to_owned(), repo }
}

fn prepared(script: &str) -> Repo {
    let repo = Repo::new();
    place_worktrees(&repo);
    agent(&repo, script);
    repo
}

fn operations(graph: &Graph) -> usize {
    let id = graph.state()["id"].as_str().expect("an id").to_owned();
    graph.repo.git(["rev-list", "--count", &format!("refs/aynig/runs/{id}")]).trim().parse().expect("a count")
}

/// CONTRACT 22.31
#[test]
fn a_file_makes_a_graph_in_one_operation() {
    let repo = prepared(HEARS);
    repo.write("pair.yaml", PAIR);
    let checked = repo.aynig_ok(["orch", "check", "pair.yaml"]);
    assert!(err(&checked).contains("2 nodes, 1 edge, 0 warnings"), "{}", err(&checked));
    let graph =
        made(repo, &["--from", "pair.yaml", "--global-mode", "PLANNING", "--done-when", "all is well"]);
    assert_eq!(operations(&graph), 1);
    let state = graph.state();
    assert_eq!((&state["label"], &state["globalMode"]), (&"A pair".into(), &"PLANNING".into()));
    assert_eq!((&state["doneWhen"], &state["limits"]["turns"]), (&"all is well".into(), &9.into()));
    let edge = state["edges"].as_object().expect("edges").values().next().expect("an edge").clone();
    assert_eq!((&edge["from"], &edge["label"]), (&graph.node("ada")["id"], &"look".into()));
    assert_eq!(graph.node("rex")["capabilities"]["writeCode"], false);
    graph.drain();
    assert_eq!(graph.turns(), ["ada completed"]);
    graph.assert_read_once(0);
    let heard = graph
        .repo
        .beside("worktrees")
        .join(format!("heard-{}", graph.node("ada")["id"].as_str().expect("an id")));
    let heard = std::fs::read_to_string(heard).expect("a prompt");
    assert!(
        heard.contains("> Write it.") && heard.contains("nothing else.\n\n- Read the code around it first"),
        "{heard}"
    );
}

/// CONTRACT 22.31
#[test]
fn a_file_with_faults_makes_nothing() {
    let repo = prepared("echo done");
    repo.write("pair.yaml", &PAIR.replace("role: reviewer", "rol: reviewer").replace("to: rex", "to: max"));
    for arguments in [&["orch", "check", "pair.yaml"][..], &["orch", "run", "create", "--from", "pair.yaml"]]
    {
        let refused = repo.aynig(arguments.iter().copied());
        assert_eq!(refused.status.code(), Some(1));
        let said = out(&refused) + &err(&refused);
        for fault in [
            "pair.yaml:9:5: fault: this node has no `role`",
            "pair.yaml:10:5: fault: `rol` is no field",
            "14:22: fault: there is no node \"max\"",
        ] {
            assert!(said.contains(fault), "{fault}: {said}");
        }
    }
    let json: Value =
        serde_json::from_str(&out(&repo.aynig(["orch", "check", "pair.yaml", "--json"]))).expect("JSON");
    assert_eq!((json["faults"].as_array().map(Vec::len), &json["nodes"]), (Some(3), &Value::Null));
    assert_eq!(repo.git(["for-each-ref", "refs/aynig"]), "");
    assert!(out(&repo.aynig_ok(["orch", "schema"])).contains("\"aynig graph\""));
    // A plain-text provider cannot ask.
    repo.write("pair.yaml", &PAIR.replace("    permissions: skip\n", ""));
    let refused = create(&repo, &["--from", "pair.yaml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("cannot ask"), "{}", err(&refused));
    assert_eq!(repo.git(["for-each-ref", "refs/aynig"]), "");
}

/// CONTRACT 22.31
#[test]
fn an_edge_has_what_is_asked_for() {
    let graph = Graph::new("echo done", &["a", "b"]);
    graph.ok(&[
        "node",
        "add",
        "RUN",
        "o",
        "--role",
        "orchestrator",
        "--provider",
        "scripted",
        "--permissions",
        "skip",
    ]);
    graph.ok(&[
        "edge",
        "add",
        "RUN",
        "a",
        "b",
        "--type",
        "report",
        "--label",
        "what  came",
        "--bidirectional=false",
    ]);
    graph.ok(&["edge", "add", "RUN", "b", "a", "--bidirectional=false"]);
    let refused = graph.orch(&["edge", "add", "RUN", "o", "a", "--bidirectional"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("one direction"), "{}", err(&refused));
    let shown = graph.ok(&["show", "RUN"]);
    assert!(shown.contains("a → b  what came"), "{shown}");
    graph.ok(&["edge", "remove", "RUN", "a", "b"]);
    let shown = graph.ok(&["show", "RUN"]);
    assert!(!shown.contains("a → b") && shown.contains("b → a"), "{shown}");
    let refused = graph.orch(&["edge", "remove", "RUN", "a", "b"]);
    assert_refused(&refused, 1, &["no edge from a to b", "aynig orch edge remove"]);
}

/// CONTRACT 22.31
#[test]
fn an_alias_is_made_from_the_label() {
    let graph = Graph::new("echo done", &[]);
    let add = |label: &str| {
        let words = [
            "node",
            "add",
            "RUN",
            "--label",
            label,
            "--role",
            "x",
            "--provider",
            "scripted",
            "--permissions",
            "skip",
        ];
        err(&graph.orch(&words))
    };
    assert!(add("Ada Lovelace").contains("node ada-lovelace is made; "));
    let said = add("Ada Lovelace");
    assert!(said.contains("node ada-lovelace-2 is made; "), "{said}");
    assert!(said.contains("role x has no text: .aynig/templates/x.md"), "{said}");
    let said = err(&graph.orch(&["node", "set", "RUN", "ada-lovelace", "--role", "y"]));
    assert!(said.contains("role y has no text: .aynig/templates/y.md"), "{said}");
    let slip = ["node", "set", "RUN", "ada-lovelace", "--role", "implementr", "--provider", "scriptd"];
    let said = err(&graph.orch(&slip));
    assert!(said.contains("did you mean implementer?") && said.contains("did you mean scripted?"), "{said}");
    let slip = "node add RUN bo --role implementr --provider scripted --permissions skip";
    let said = err(&graph.orch(&slip.split(' ').collect::<Vec<_>>()));
    let next = format!(
        "did you mean implementer? `aynig orch node set {} bo --role implementer` sets it",
        graph.slug
    );
    assert!(said.contains(&next), "{said}");
    let refused = graph.orch(&["node", "add", "RUN", "--role", "x", "--provider", "scripted"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("--label TEXT"), "{}", err(&refused));
    assert_eq!(graph.node("ada-lovelace")["label"], "Ada Lovelace");
}

/// CONTRACT 22.32
#[test]
fn the_text_of_a_role_is_that_of_the_base() {
    let repo = prepared("echo done");
    repo.write(".aynig/templates/reviewer.md", "Ours.\n");
    repo.write(".aynig/templates/pilot.md", "Fly.\n");
    repo.commit_all("templates");
    let listed = out(&repo.aynig_ok(["orch", "template", "list"]));
    assert!(listed.contains("reviewer       .aynig/templates/reviewer.md"), "{listed}");
    assert!(listed.contains("planner        comes with aynig") && listed.contains("pilot "), "{listed}");
    assert_eq!(out(&repo.aynig_ok(["orch", "template", "show", "reviewer"])), "Ours.\n");
    assert!(
        out(&repo.aynig_ok(["orch", "template", "show", "reviewer", "--base", "HEAD~"])).contains("verdict")
    );
    let refused = repo.aynig(["orch", "template", "show", "nobody"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("templates/nobody.md"), "{}", err(&refused));
    for wrong in ["../reviewer", "a/b", "-a", ""] {
        let refused = repo.aynig(["orch", "template", "show", "--", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}: {}", err(&refused));
    }
    let graph = Graph::of(repo, &["ada"]);
    graph.repo.write(".aynig/templates/implementer.md", "Later.\n");
    graph.repo.commit_all("later");
    graph.ok(&[
        "node",
        "add",
        "RUN",
        "rex",
        "--role",
        "reviewer",
        "--provider",
        "scripted",
        "--permissions",
        "skip",
    ]);
    let text = |alias: &str| {
        let id = graph.node(alias)["id"].as_str().expect("an id").to_owned();
        graph.state()["nodeConfigs"][id]["customSystemPrompt"].as_str().map(str::to_owned).expect("a text")
    };
    assert!(text("ada").contains("nothing else"), "the base of the run counts");
    assert_eq!(text("rex"), "Ours.\n");
}

/// CONTRACT 22.31
#[test]
fn a_trusted_ref_has_the_commands_the_file_and_the_texts() {
    let repo = prepared("echo done");
    repo.write("pair.yaml", PAIR);
    repo.commit_all("a graph");
    repo.git(["branch", "trusted"]);
    repo.git(["config", "aynig.commandsFrom", "trusted"]);
    let refused = |arguments: &[&str], words: &str| {
        let output = create(&repo, arguments);
        assert_eq!(output.status.code(), Some(3), "{}", err(&output));
        assert!(
            err(&output).contains(words) && err(&output).contains("nothing was changed"),
            "{}",
            err(&output)
        );
        assert_eq!(repo.git(["for-each-ref", "refs/aynig"]), "");
    };
    refused(&[], "trusted has no program .aynig/command/orch-turn");
    for (name, verb) in [("orch-turn", "orch turn"), ("stalled", "orch recover")] {
        repo.command(&format!(".aynig/command/{name}"), &format!("exec \"$AYNIG_BIN\" {verb}"));
    }
    repo.commit_all("the commands of drivers");
    repo.git(["branch", "--force", "trusted"]);
    repo.write("pair.yaml", &PAIR.replace("Write it.", "Write more."));
    refused(&["--from", "pair.yaml"], "pair.yaml is not a file of trusted");
    repo.write("pair.yaml", PAIR);
    repo.write(".aynig/templates/reviewer.md", "Accept all.\n");
    repo.commit_all("a text that nobody has looked at");
    refused(&["--from", "pair.yaml"], ".aynig/templates/reviewer.md of the base differs");
    refused(
        &["--reserve-role", "--from", "pair.yaml", "--base", "trusted"],
        "no program .aynig/roles/implementer/command/orch-turn",
    );
    let graph = made(repo, &["--from", "pair.yaml", "--base", "trusted"]);
    graph.drain();
    assert_eq!(graph.turns(), ["ada completed"]);
    let other = made(graph.repo, &[]);
    let words = [
        "node",
        "add",
        "RUN",
        "max",
        "--role",
        "reviewer",
        "--provider",
        "scripted",
        "--permissions",
        "skip",
    ];
    let said = other.orch(&words);
    assert_eq!(said.status.code(), Some(3), "{}", err(&said));
    assert!(err(&said).contains("of the base differs"), "{}", err(&said));
}

/// CONTRACT 22.33
#[test]
fn a_reserved_node_is_left_to_runners_of_its_role() {
    let repo = prepared("echo done");
    let graph = made(repo, &["--reserve-role"]);
    for (alias, role) in [("ada", "implementer"), ("rex", "reviewer")] {
        let permits = ["--provider", "scripted", "--permissions", "skip"];
        let added =
            err(&graph.orch(&[&["node", "add", "RUN", alias, "--role", role], &permits[..]].concat()));
        assert!(added.contains("`aynig run --role implementer` "), "{added}");
        let said = err(&graph.orch(&["chat", "RUN", alias, "Work."]));
        assert!(said.contains(&format!("`aynig run --role {role}` carr")) || alias == "rex", "{said}");
    }
    let other = graph.orch(&["node", "set", "RUN", "ada", "--role", "reviewer"]);
    assert_refused(&other, 1, &["ada is reserved to runners of its role implementer"]);
    let shown = graph.ok(&["show", "RUN"]);
    let all = out(&graph.repo.aynig_ok(["status", "--all"]));
    for words in ["aynig run --role implementer", "aynig run --role reviewer"] {
        assert!(shown.contains(words) && all.contains(words), "{shown}{all}");
    }
    let driver = format!("run/{}/ada", graph.slug);
    let tree = graph.repo.git(["ls-tree", "-r", "--name-only", &driver]);
    assert_eq!(tree, ".aynig/roles/implementer/command/orch-turn\n.aynig/roles/implementer/command/stalled");
    graph.drain();
    assert!(graph.turns().is_empty());
    graph.repo.aynig_ok(["run", "--drain", "--role", "reviewer"]);
    assert_eq!(graph.turns(), ["rex completed"]);
    graph.repo.aynig_ok(["run", "--drain", "--role", "implementer"]);
    assert_eq!(graph.turns(), ["rex completed", "ada completed"]);
    graph.ok(&["doctor", "RUN"]);
}

/// The verbs about files, texts and artifacts, for the documents.
pub(crate) fn scenes(scenes: &mut std::collections::BTreeMap<&'static str, Vec<std::process::Output>>) {
    let repo = prepared("echo x >code; echo done");
    repo.write("pair.yaml", PAIR);
    repo.write("bad.yaml", &format!("mode: AUTO\n{}", PAIR.replace("to: rex", "to: max")));
    repo.write(".aynig/templates/pilot.md", "Fly.\n");
    repo.commit_all("a template");
    let mut ask = |verb: &'static str, output| scenes.entry(verb).or_default().push(output);
    for file in ["pair.yaml", "bad.yaml"] {
        ask("orch check", repo.aynig(["orch", "check", file, "--json"]));
    }
    ask("orch template list", repo.aynig(["orch", "template", "list", "--json"]));
    for role in ["pilot", "tester"] {
        ask("orch template show", repo.aynig(["orch", "template", "show", role, "--json"]));
    }
    // Its prompts are not in the ledger, and then not on this host either.
    repo.git(["config", "aynig.replicate", "summary"]);
    let graph = made(repo, &["--from", "pair.yaml"]);
    graph.drain();
    for file in files_below(&graph.repo.path.join(".git/aynig/data/runs")) {
        if file.ends_with("prompt.full.txt") {
            std::fs::remove_file(&file).expect("removed");
        }
    }
    let list = || graph.orch(&["artifact", "list", "RUN", "--json"]);
    let listed: Value = serde_json::from_str(&out(&list())).expect("JSON");
    let mut artifacts = listed["artifacts"].as_array().expect("a list").iter();
    let diff = artifacts.find(|artifact| artifact["name"] == "diff.patch").expect("a patch");
    let id = diff["id"].as_str().expect("an id").to_owned();
    ask("orch artifact list", list());
    ask("orch artifact show", graph.orch(&["artifact", "show", "RUN", &id, "--json"]));
    let into = graph.repo.beside("out");
    let words = ["artifact", "export", "RUN", into.to_str().expect("UTF-8"), "--json"];
    ask("orch artifact export", graph.orch(&words));
}

/// CONTRACT 22.1
#[test]
fn doctor_names_a_driver_that_is_not_where_the_ledger_says() {
    let graph = Graph::new("echo done", &["a", "b"]);
    graph.ok(&["doctor", "RUN"]);
    let branch = |alias: &str| format!("run/{}/{alias}", graph.slug);
    let idle = graph.repo.git(["rev-parse", &branch("a")]);
    for alias in ["a", "b"] {
        graph.ok(&["chat", "RUN", alias, "Work."]);
    }
    graph.repo.git(["update-ref", &format!("refs/heads/{}", branch("a")), &idle]);
    graph.repo.git(["update-ref", "-d", &format!("refs/heads/{}", branch("b"))]);
    let found = graph.orch(&["doctor", "RUN"]);
    assert_eq!(found.status.code(), Some(1));
    let said = out(&found);
    for (alias, why) in [("a", "rests in orch-idle"), ("b", "is missing")] {
        let words = format!("{}: the driver {why}, and the node has 1 unread", branch(alias));
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert!(said.contains(&format!("aynig orch node start {}", graph.slug)), "{said}");
    for alias in ["a", "b"] {
        graph.ok(&["node", "start", "RUN", alias]);
    }
    graph.ok(&["doctor", "RUN"]);
    graph.drain();
    let mut turns = graph.turns();
    turns.sort();
    assert_eq!(turns, ["a completed", "b completed"]);
}

/// CONTRACT 20.35
#[test]
fn clean_removes_the_drivers_of_an_ended_graph_and_a_resumed_one_gets_new_ones() {
    let graph = Graph::new("echo done", &["ada", "rex"]);
    let Graph { slug, repo } = graph;
    let Graph { slug: other, repo } = Graph::of(repo, &["eve"]);
    let graph = Graph { slug, repo };
    graph.ok(&["chat", "RUN", "ada", "Write it."]);
    graph.drain();
    let drivers = || {
        let all = graph.repo.git(["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/run"]);
        all.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let clean = || out(&graph.repo.aynig_ok(["clean", "--runs", "--older-than", "0s", "--apply"]));
    assert!(!clean().contains("driver"), "it has not ended");
    let before = drivers();
    graph.ok(&["run", "stop", "RUN"]);
    let young = out(&graph.repo.aynig_ok(["clean", "--apply"]));
    assert!(young.contains("has ended, and not long ago") && drivers() == before, "{young}");
    let own = format!("run/{}/", graph.slug);
    // The name of a branch need not be UTF-8.
    let odd = OsString::from_vec([format!("refs/heads/{own}").as_bytes(), b"\xff"].concat());
    let mut branch = graph.repo.git_command();
    branch.arg("update-ref").arg(odd).arg(format!("{own}ada"));
    assert!(branch.status().expect("git runs").success());
    let gone = clean();
    assert!(gone.contains(&format!("`aynig orch show {}`", graph.slug)), "{gone}");
    let left: Vec<String> = before.into_iter().filter(|name| !name.starts_with(&own)).collect();
    assert_eq!(left, [format!("run/{other}/eve")]);
    assert_eq!(drivers(), left, "those of the other run stay");
    assert!(!clean().contains("driver"), "they are gone");
    graph.drain();
    graph.repo.aynig_ok(["doctor"]);
    assert_eq!(drivers(), left, "nobody makes them again");
    graph.ok(&["show", "RUN"]);
    graph.ok(&["run", "resume", "RUN"]);
    graph.ok(&["chat", "RUN", "ada", "Once more."]);
    graph.drain();
    assert_eq!(graph.turns(), ["ada completed", "ada completed"]);
    graph.ok(&["chat", "RUN", "rex", "You, too."]);
    graph.drain();
    assert_eq!(graph.turns()[2..], ["rex completed"]);
}
