//! `--json`: every subcommand prints objects of one documented shape. The program and the tables of
//! `contrib/docs/json.md` are compared both ways, in scenes in which every field has a value.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::process::Output;

use serde_json::Value;

use super::generated::{listed, verbs};
use super::programs::shipped;
use super::scene::told;
use super::support::*;

/// A documented field: its type, and the meaning.
type Rows = BTreeMap<String, (String, String)>;

/// The values that a field had, by path.
type Seen = BTreeMap<String, Vec<Value>>;

fn document() -> String {
    std::fs::read_to_string(shipped("contrib/docs/json.md")).expect("a document")
}

/// The tables of the document, by subcommand.
fn documented() -> BTreeMap<String, Rows> {
    let text = document();
    let all: Vec<&str> = text.split("\n## aynig ").skip(1).collect();
    let named = |verb: &str| all.iter().find(|section| section.lines().next() == Some(verb));
    let sections = all.iter().map(|section| {
        let verb = section.lines().next().expect("a heading").to_owned();
        let alias = section.split("Same as [aynig ").nth(1).and_then(|rest| rest.split(']').next());
        let section = alias.map_or(section, |verb| named(verb).expect("a section"));
        let rows = section.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.splitn(3, " | ");
            let (field, kind) = (cells.next()?.trim_end_matches('`'), cells.next()?);
            Some((field.to_owned(), (kind.to_owned(), cells.next()?.to_owned())))
        });
        (verb, rows.collect())
    });
    sections.collect()
}

/// The type of objects that the contract describes.
const OF_THE_CONTRACT: &str = "contract object";

/// Collects the values of all fields. Objects at one path must have the same fields, but for those of a log. Objects
/// that the contract describes are not looked into.
fn collect(
    value: &Value,
    path: &str,
    rows: &Rows,
    seen: &mut Seen,
    shapes: &mut BTreeMap<String, BTreeSet<String>>,
) {
    match value {
        Value::Object(_) if rows.get(path).is_some_and(|(kind, _)| kind.starts_with(OF_THE_CONTRACT)) => {}
        Value::Object(fields) => {
            let names: BTreeSet<String> = fields.keys().cloned().collect();
            let kind = fields.get("kind").filter(|_| path == "entries[]").and_then(Value::as_str);
            let shape = format!("{path} {}", kind.unwrap_or_default());
            assert_eq!(*shapes.entry(shape).or_insert(names.clone()), names, "{path}: {value:#}");
            let dot = if path.is_empty() { "" } else { "." };
            for (name, value) in fields {
                let path = format!("{path}{dot}{name}");
                seen.entry(path.clone()).or_default().push(value.clone());
                collect(value, &path, rows, seen, shapes);
            }
        }
        Value::Array(list) => {
            list.iter().for_each(|one| collect(one, &format!("{path}[]"), rows, seen, shapes));
        }
        _ => {}
    }
}

fn is_of_type(value: &Value, kind: &str, meaning: &str, document: &str) -> bool {
    let text = value.as_str();
    let list = |fits: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(fits));
    match kind.strip_suffix(" or null") {
        Some(kind) => value.is_null() || is_of_type(value, kind, meaning, document),
        None => match kind {
            "text" => text.is_some(),
            "number" => value.is_i64(),
            "flag" => value.is_boolean(),
            "object" => value.is_object(),
            "list of objects" => list(Value::is_object),
            "list of texts" => list(Value::is_string),
            "commit" => {
                text.is_some_and(|text| text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit()))
            }
            // As in `2026-01-31T17:42:00Z`.
            "time" => {
                text.is_some_and(|text| text.len() == 20 && text.ends_with('Z') && &text[10..11] == "T")
            }
            "decimal" => value.is_number(),
            OF_THE_CONTRACT => {
                // An event, a run, a tool, an answer or a person.
                ["runId", "run_id", "name", "status"].iter().any(|name| value[name].is_string())
                    || value["contractVersion"] == "1"
                    || value["person"].is_object()
                    || value["state"].is_string()
            }
            "precise time" => text.is_some_and(|text| text.len() == 24 && text.ends_with('Z')),
            "word" => text.is_some_and(|text| {
                let listed = if meaning.contains("](#") { document } else { meaning };
                listed.contains(&format!("`{text}`"))
            }),
            _ => panic!("the type {kind}"),
        },
    }
}

/// What is wrong between the documented fields and the outputs of a subcommand.
fn faults(verb: &str, rows: &Rows, outputs: &[Output]) -> Vec<String> {
    let mut faults = Vec::new();
    let text = document();
    let (mut seen, mut shapes) = (Seen::new(), BTreeMap::new());
    for output in outputs {
        let answers: Vec<&str> = std::str::from_utf8(&output.stdout).expect("UTF-8").lines().collect();
        assert!(!answers.is_empty(), "{verb}: {}", told(output));
        for line in answers {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|_| panic!("{verb}: {}", told(output)));
            assert_eq!(value["version"], 1, "{verb}: {line}");
            collect(&value, "", rows, &mut seen, &mut shapes);
        }
    }
    for (path, values) in &seen {
        let Some((kind, meaning)) = rows.get(path) else {
            faults.push(format!("{verb}: {path} is not documented"));
            continue;
        };
        let unfit = values.iter().find(|value| !is_of_type(value, kind, meaning, &text));
        faults.extend(unfit.map(|value| format!("{verb}: {path} is {value}, and not {kind}")));
    }
    for path in rows.keys() {
        let has_value =
            |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
        let values = seen.get(path).map_or(&[][..], Vec::as_slice);
        if !values.iter().any(has_value) {
            faults.push(format!("{verb}: {path} is documented, and had no value"));
        }
    }
    faults
}

/// Which subcommands have `--json` is read from the program's own help.
#[test]
fn every_field_of_every_subcommand_is_documented_and_every_documented_one_exists() {
    let repo = Repo::new();
    let help = |verb: &str| out(&repo.aynig_ok(verb.split(' ').chain(["--help"])));
    let documented = documented();
    let mut verbs = verbs(&repo);
    // A subcommand with subcommands has one section, or one for each of these.
    while let Some(at) =
        verbs.iter().position(|verb| !documented.contains_key(verb) && help(verb).contains("\nCommands:\n"))
    {
        let verb = verbs.remove(at);
        verbs.extend(listed(&help(&verb)).iter().map(|below| format!("{verb} {below}")));
    }
    // A schema is JSON anyway.
    verbs.retain(|verb| (help(verb).contains("--json") || verb == "flow graph") && verb != "orch schema");
    let scenes = scenes();
    let mut all = Vec::new();
    for verb in &verbs {
        match (documented.get(verb), scenes.get(verb.as_str())) {
            (None, _) => all.push(format!("{verb} has --json; describe it in contrib/docs/json.md")),
            (_, None) => all.push(format!("{verb}: no scene with --json")),
            (Some(rows), Some(outputs)) => all.extend(faults(verb, rows, outputs)),
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert_eq!(
        documented.keys().collect::<Vec<_>>(),
        verbs.iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    );
}

#[test]
fn every_word_for_programs_is_listed() {
    let text = document();
    for (file, function) in [
        ("src/runner/events/warning.rs", "fn code("),
        ("src/runner/survey/verdict.rs", "fn word("),
        ("src/contract/bounds.rs", "fn word("),
        ("src/contract/kept.rs", "fn word("),
        ("src/runner/events/notice.rs", "fn word("),
        ("src/ops/view/branch.rs", "fn word("),
    ] {
        let source = std::fs::read_to_string(shipped(file)).expect("a source");
        for body in source.split(function).skip(1) {
            let body = body.split("\n    }\n").next().expect("its end");
            for word in body.split("=> \"").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(text.contains(&format!("`{word}`")), "{file}: {word} is not in contrib/docs/json.md");
            }
        }
    }
}

/// Answers of one subcommand.
type Scenes = BTreeMap<&'static str, Vec<Output>>;

struct Stage<'a> {
    repo: &'a Repo,
    scenes: &'a mut Scenes,
}

impl Stage<'_> {
    /// Runs a subcommand with `--json`, and keeps its answer.
    fn ask(&mut self, verb: &'static str, arguments: &[&str]) {
        let words = verb.split(' ').chain(["--json"]).chain(arguments.iter().copied());
        let output = self.repo.aynig(words);
        assert!(
            output.stderr.is_empty() || !output.stdout.is_empty(),
            "{verb} {arguments:?}: {}",
            told(&output)
        );
        self.scenes.entry(verb).or_default().push(output);
        if verb == "log" {
            self.ask("events", arguments);
        }
    }
}

fn scenes() -> Scenes {
    let mut scenes = Scenes::new();
    branches(&mut scenes);
    steps(&mut scenes);
    cancelled(&mut scenes);
    stuck(&mut scenes);
    landed(&mut scenes);
    installed(&mut scenes);
    agents(&mut scenes);
    nodes::graphs(&mut scenes);
    workspaces(&mut scenes);
    published(&mut scenes);
    runs(&mut scenes);
    flows(&mut scenes);
    for (verb, outputs) in super::flow_runs::scenes() {
        scenes.entry(verb).or_default().extend(outputs);
    }
    scenes
}

/// Branches of all kinds, and what is set by hand.
fn branches(scenes: &mut Scenes) {
    let repo = Repo::scene(&[("work", "next done"), ("stay", "echo SET_STATE"), ("fail", "exit 7")]);
    repo.git(["config", "aynig.takeover", "observed"]);
    for (branch, state) in [("kept", "stay"), ("late", "fail"), ("held", "work"), ("odd", "work")] {
        repo.ready(branch, state);
    }
    repo.aynig(["run", "--branch", "kept", "--branch", "late"]);
    repo.foreign_lease("held", "11111111-2222-4333-8444-555555555555", "other", 300, 0);
    let with = |branch: &str, trailers: &str| {
        repo.branch_with_message(branch, format!("please\n\nthe body\n\n{trailers}\n").as_bytes());
    };
    with("parked", "dwp-state: work\ndwp-not-before: 2999-01-01T00:00:00Z");
    with("preferred", "dwp-state: work\ndwp-prefer-runner: other");
    with(
        "again",
        "dwp-state: work\naynig-interrupted: 1\naynig-unable: box no codex\naynig-rescued: refs/aynig/rescue/again/x",
    );
    let question =
        "dwp-state: review\ndwp-waits-for: ana\ndwp-answers: yes, no\ndwp-not-before: 2999-01-01T00:00:00Z";
    with("asks", question);
    with("asks-too", question);
    repo.branch_from("odd", "odd", b"s\n\ndwp-state: ../x\n");
    repo.ready("plain", "work");
    repo.ready("rests", "done");
    let mut stage = Stage { repo: &repo, scenes };
    for _ in 0..2 {
        stage.ask("cancel", &["held", "late"]);
        stage.ask("set-state", &["--when-free", "--wake", "held", "--state", "later"]);
    }
    // A first sighting of the lease.
    stage.repo.aynig(["run", "--branch", "held"]);
    stage.ask("status", &["--all"]);
    stage.ask("run", &["--dry-run"]);
    stage.ask("set-state", &["--withdraw", "held"]);
    stage.ask("status", &["late", "none*"]);
    stage.ask("wait", &["*", "--timeout", "0"]);
    stage.ask("wait", &["rests", "late", "--state", "done"]);
    stage.ask("answer", &[]);
    stage.ask("answer", &["asks"]);
    stage.ask("answer", &["asks", "yes"]);
    stage.ask("set-state", &["--state", "work", "plain"]);
    stage.ask("set-state", &["--retry", "late", "nowhere/*", "main"]);
    stage.ask("set-working", &["rests"]);
    for branch in ["asks", "odd", "kept", "main"] {
        stage.ask("log", &[branch]);
    }
    stage.ask("doctor", &[]);
}

/// Steps that end in all ways, what they leave, and what `init` makes beside it.
fn steps(scenes: &mut Scenes) {
    let nested = "git init -q inner; git -C inner -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; exit 3";
    let question = r#"echo 'SET_STATE {"state":"review","trailers":{"dwp-waits-for":"ana","dwp-answers":"yes","dwp-not-before":"2999-01-01T00:00:00Z"}}'"#;
    let repo = Repo::scene(&[("ask", question), ("fail", "echo loose >loose; exit 7"), ("nested", nested)]);
    repo.write(".aynig/command/text", "not executable");
    repo.commit_all("a file");
    for (branch, state) in [
        ("asks", "ask"),
        ("fails", "fail"),
        ("keeps", "nested"),
        ("text", "text"),
        ("locked", "ask"),
        ("done", "done"),
    ] {
        repo.ready(branch, state);
    }
    std::fs::write(repo.path.join(".git/refs/heads/locked.lock"), "").expect("a file");
    let mut stage = Stage { repo: &repo, scenes };
    stage.ask("doctor", &[]);
    stage.ask("run", &[]);
    stage.ask("run", &["--drain"]);
    for branch in ["asks", "fails", "keeps"] {
        stage.ask("log", &[branch]);
    }
    stage.ask("clean", &["--older-than", "0s"]);
    stage.ask("clean", &["--older-than", "0s", "--apply"]);
    stage.ask("init", &[]);
    stage.ask("init", &[]);
}

/// A command that is cancelled while it runs.
fn cancelled(scenes: &mut Scenes) {
    let repo = Repo::scene(&[("work", "echo draft >draft; say ready $$; await release")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    let mut stage = Stage { repo: &repo, scenes };
    stage.ask("set-state", &["--when-free", "task", "--state", "later"]);
    stage.ask("log", &["task"]);
    stage.ask("cancel", &["task", "--reason", "enough", "--wait"]);
    runner.finish();
    stage.ask("log", &["task"]);
    // It delivers the state.
    stage.repo.aynig(["run"]);
    stage.ask("log", &["task"]);
}

/// A deferred state whose branch was made anew.
fn stuck(scenes: &mut Scenes) {
    let repo = Repo::new();
    let anew = |subject: &str| {
        let message = format!(
            "{subject}

dwp-state: a
dwp-not-before: 2999-01-01T00:00:00Z
"
        );
        repo.branch_with_message("task", message.as_bytes());
    };
    let mut stage = Stage { repo: &repo, scenes };
    for subject in ["one", "two"] {
        anew(subject);
        stage.ask("set-state", &["--when-free", "task", "--state", "later"]);
    }
    anew("three");
    stage.ask("status", &["task"]);
    stage.ask("log", &["task"]);
    stage.ask("set-state", &["--withdraw", "task"]);
}

fn landed(scenes: &mut Scenes) {
    let repo = Repo::new();
    let file = |branch: &str, text: &str| {
        repo.git(["checkout", "-q", branch]);
        repo.write("file", text);
        repo.commit_all("a change\n\ndwp-state: done");
    };
    for branch in ["one", "two"] {
        repo.git(["branch", branch, "main"]);
        file(branch, branch);
    }
    repo.git(["checkout", "-q", "main"]);
    let mut stage = Stage { repo: &repo, scenes };
    for branch in ["one", "one", "two"] {
        stage.ask("land", &[branch]);
    }
    stage.ask("clean", &[]);
}

fn workspaces(scenes: &mut Scenes) {
    let repo = Repo::new();
    repo.git(["config", "aynig.workspaceRoot", repo.beside("state").to_str().expect("UTF-8")]);
    let mut stage = Stage { repo: &repo, scenes };
    stage.ask("workspace", &["create", "fix"]);
    let made = super::workspace::Made::of(&repo.answered(&out(&stage.scenes["workspace"][0]))[0]);
    made.sh(&repo, "echo x >x; git checkout -q --detach");
    stage.ask("workspace", &["show", &made.slug]);
    stage.ask("workspace", &["snapshot", &made.slug]);
    let theirs =
        repo.git(["commit-tree", "-p", &made.branch, "-m", "theirs", &format!("{}^{{tree}}", made.branch)]);
    repo.git(["update-ref", &format!("refs/heads/{}", made.branch), &theirs]);
    stage.ask("workspace", &["snapshot", &made.slug]);
    made.sh(
        &repo,
        "echo x >.env; echo evil >$REPO/.git/hooks/post-merge; git branch theirs\n\
         mkdir deep; echo x >deep/x; git add deep/x; git -C deep init -q",
    );
    stage.ask("workspace", &["snapshot", &made.slug]);
    made.sh(
        &repo,
        "git init -q inner; git -C inner -c user.name=A -c user.email=a@b commit -q --allow-empty -m x",
    );
    stage.ask("workspace", &["rollback", &made.slug]);
    let damaged = repo.runs().join("other/workspaces/fix");
    std::fs::create_dir_all(&damaged).expect("a directory");
    std::fs::write(damaged.join("workspace-context.json"), "{}").expect("a file");
    stage.ask("workspace", &["list"]);
    made.sh(&repo, "echo y >y; git init -q inner; echo z >inner/z");
    stage.ask("workspace", &["remove", &made.slug]);
    made.sh(&repo, "rm -r inner");
    stage.ask("workspace", &["remove", &made.slug, "--apply"]);
    let run = "0a1b2c3d-0000-4000-8000-000000000001";
    super::orch::make(&repo, run, "");
    stage.ask("workspace", &["create", "flow", "--run", run, "--base", "main"]);
}

/// A flow of one gate.
const GATE: &str = "workflow_id: w\nversion: 1\nentry_step: ask\nsteps:\n  - id: ask\n    opcode: GATE\n    gate: g\n    routes: {gate_approved: STOP, gate_rejected: STOP}\n";

/// A run that a remote decides; nothing to publish, a branch with the page that compares it, and a proposal.
fn published(scenes: &mut Scenes) {
    let (hub, repo) = super::publish::hub_and_clone();
    repo.git(["config", "aynig.workspaceRoot", repo.beside("state").to_str().expect("UTF-8")]);
    let mut stage = Stage { repo: &repo, scenes };
    stage.ask("workspace", &["create", "fix"]);
    let made = super::workspace::Made::of(&repo.workspaces()[0]);
    stage.ask("publish", &["fix"]);
    repo.write("gate.yaml", GATE);
    repo.git(["config", "aynig.remote", "origin"]);
    stage.ask("flow start", &["gate.yaml"]);
    let started = json(stage.scenes["flow start"].last().expect("an output"));
    repo.aynig_ok(["run", "--drain"]);
    stage.ask("flow fork", &[started["slug"].as_str().expect("a slug"), "--at", "ask"]);
    repo.git(["config", "--unset", "aynig.remote"]);
    made.sh(&repo, "echo x >x; git add x; git commit -qm x");
    let address = "https://github.com/acme/tool";
    repo.git(["remote", "set-url", "origin", address]);
    repo.git(["config", &format!("url.{}.insteadOf", hub.path.display()), address]);
    stage.ask("publish", &["fix"]);
    let forge = repo.beside("forge");
    repo.command("../forge", r#"echo '{"url":"https://forge.example/p/1"}'"#);
    repo.git(["config", "aynig.forge", forge.to_str().expect("UTF-8")]);
    stage.ask("publish", &["fix"]);
    repo.command("../forge", r#"echo '{"url":"https://forge.example/p/x"}'"#);
    stage.ask("publish", &["fix"]);
    stage.ask("workspace", &["show", "fix"]);
}

fn runs(scenes: &mut Scenes) {
    let repo = Repo::new();
    let id = "0a1b2c3d-0000-4000-8000-000000000001";
    let (run, _) = super::orch::make(&repo, id, "a label");
    let mut stage = Stage { repo: &repo, scenes };
    stage.ask("orch show", &[id]);
    stage.ask("orch events", &[id]);
    let state = super::orch::file(&repo, run, "state.json");
    let text = std::fs::read_to_string(&state).expect("a file");
    std::fs::write(&state, text.replace("running", "paused")).expect("a file");
    stage.ask("orch doctor", &[id]);
    stage.ask("orch rebuild", &[id]);
    stage.ask("orch doctor", &[id]);
    repo.git(["update-ref", "refs/aynig/runs/0a1b2c3d-0000-4000-8000-000000000002", "main"]);
    stage.ask("orch run list", &[]);
}

fn agents(scenes: &mut Scenes) {
    let repo = Repo::new();
    let mut stage = Stage { repo: &repo, scenes };
    let path = repo.path.join(".git/agent");
    let script = r#"[ "$1" = --version ] && echo 1.0 && exit
        echo '{"id":1,"result":{}}'
        echo '{"id":2,"result":{"thread":{"id":"s"},"model":"m"}}'
        echo '{"id":3,"result":{"turn":{"id":"t"}}}'
        echo '{"method":"thread/tokenUsage/updated","params":{"turnId":"t","tokenUsage":{"total":{"totalTokens":3},"last":{"totalTokens":3}}}}'
        echo '{"method":"item/completed","params":{"item":{"type":"agentMessage","text":"OK"}}}'
        echo '{"method":"turn/completed","params":{"turn":{"id":"t","status":"completed"}}}'"#;
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let command = path.to_str().expect("UTF-8");
    super::provider::configure(&repo, "codex", &[("command", command), ("model", "m")]);
    super::provider::configure(&repo, "mine", &[("kind", "custom"), ("command", command)]);
    super::provider::configure(&repo, "wrong", &[("kind", "robot")]);
    stage.ask("provider list", &[]);
    stage.ask("provider check", &[]);
}

fn installed(scenes: &mut Scenes) {
    let pack = Repo::with_commands(&[("one", "exit 0")]);
    pack.command(".aynig/roles/dev/command/two", "exit 0");
    symlink("one", pack.path.join(".aynig/command/three")).expect("a link");
    pack.commit_all("more");
    let repo = Repo::with_commands(&[("one", "exit 1")]);
    let mut stage = Stage { repo: &repo, scenes };
    let from = pack.path.to_str().expect("UTF-8");
    stage.ask("install", &[from]);
    stage.ask("install", &[from, "HEAD", "--apply"]);
}

fn flows(scenes: &mut Scenes) {
    let repo = Repo::new();
    let examples = shipped("tests/flows");
    let text = std::fs::read_to_string(examples.join("contract.yaml")).expect("an example");
    repo.write("flow.yaml", &text);
    repo.write("bad.yaml", &text.replace("version: 1", "version: x"));
    let mut stage = Stage { repo: &repo, scenes };
    stage.ask("flow check", &["flow.yaml", "--base", "main"]);
    stage.ask("flow check", &["bad.yaml"]);
    stage.ask("flow check", &["flow.yaml", "--host"]);
    repo.write("flow.yaml", &std::fs::read_to_string(examples.join("fix.yaml")).expect("an example"));
    let graph = repo.aynig(["flow", "graph", "flow.yaml", "--format", "json"]);
    scenes.entry("flow graph").or_default().push(graph);
    repo.git(["config", "aynig.workspaceRoot", repo.beside("worktrees").to_str().expect("UTF-8")]);
    repo.write("gate.yaml", GATE);
    let mut slugs = Vec::new();
    for _ in 0..2 {
        let mut stage = Stage { repo: &repo, scenes };
        stage.ask("flow start", &["gate.yaml"]);
        let started = scenes["flow start"].last().expect("an output");
        slugs.push(json(started)["slug"].as_str().expect("a slug").to_owned());
    }
    let mut stage = Stage { repo: &repo, scenes };
    stage.ask("flow pause", &[&slugs[0]]);
    stage.ask("flow resume", &[&slugs[0]]);
    repo.aynig_ok(["run", "--drain"]);
    stage.ask("flow approve", &[&slugs[0]]);
    let last = |scenes: &Scenes, verb| json(scenes[verb].last().expect("an output"));
    let started = last(stage.scenes, "flow start");
    let worktree = std::path::Path::new(started["worktreePath"].as_str().expect("a path"));
    std::fs::write(worktree.join("work"), "work").expect("a file");
    stage.ask("flow show", &[&slugs[1]]);
    stage.ask("flow reject", &[&slugs[1]]);
    stage.ask("flow fork", &[&slugs[0], "--at", "ask"]);
    let forked = last(stage.scenes, "flow fork");
    stage.ask("flow show", &[forked["slug"].as_str().expect("a slug")]);
    stage.ask("flow rollback", &[&slugs[1]]);
    let inner = worktree.join("inner");
    repo.git(["init", "-q", inner.to_str().expect("UTF-8")]);
    let inside = ["-C", inner.to_str().expect("UTF-8"), "-c", "user.name=A", "-c", "user.email=a@b"];
    repo.git(inside.into_iter().chain(["commit", "-q", "--allow-empty", "-m", "x"]));
    stage.ask("flow rollback", &[&slugs[1]]);
    stage.ask("flow stop", &[&slugs[1]]);
}
