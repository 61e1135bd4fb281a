//! The work of runs over the server: flows, gates, changes, putting back, publishing, and the story of a branch.

use super::*;
use crate::flow_engine::{flow, git_output};
use crate::publish::hub_and_clone;

/// An agent that writes a file, and a gate.
const STEPS: &str = concat!(
    "  - id: write\n    opcode: RUN_AGENT\n    agent: scripted\n    prompt: \"Do {{inputs.what}}.\"\n    routes: {completed: ask, error: STOP}\n",
    "  - id: ask\n    opcode: GATE\n    gate: result\n    question: Is it good?\n    routes: {gate_approved: STOP, gate_rejected: write}\n",
);

fn text() -> String {
    let inputs = "inputs:\n  what: {description: The task, required: true}\nsteps:";
    flow("write", STEPS).replacen("steps:", inputs, 1)
}

/// Commits a flow whose agent runs this script, and serves the repository.
fn served(repo: &Repo, script: &str) -> Server {
    place_worktrees(repo);
    std::fs::create_dir(repo.path.join("flows")).expect("a directory");
    for (path, text) in [
        ("flows/good.yaml", text()),
        ("flows/bad.yaml", flow("nope", STEPS)),
        ("other.yaml", "a: b\n".to_owned()),
    ] {
        std::fs::write(repo.path.join(path), text).expect("a file");
    }
    repo.commit_all("Flows");
    crate::graphs::agent(repo, script);
    Server::of(repo)
}

/// What a command prints, but for the version of its shape.
fn told(repo: &Repo, arguments: &[&str]) -> Value {
    let mut told = json(&repo.aynig_ok(arguments.iter().copied()));
    told.as_object_mut().expect("an object").remove("version");
    told
}

fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field}: {value}"))
}

/// CONTRACT 23.10
#[test]
fn a_flow_is_started_answered_put_back_and_published_over_the_server() {
    let (hub, repo) = hub_and_clone();
    let server = served(&repo, "echo one >a.txt; echo done");
    let offered = server.get("/api/flows").ok();
    let flows = offered["flows"].as_array().expect("flows");
    assert_eq!(
        flows.iter().map(|one| text_of(one, "path")).collect::<Vec<_>>(),
        ["flows/bad.yaml", "flows/good.yaml"]
    );
    assert!(text_of(&flows[0], "fault").contains("nope"), "{offered}");
    assert_eq!((&flows[1]["fault"], &flows[1]["inputs"][0]["name"]), (&Value::Null, &"what".into()));
    let commit = text_of(&offered, "commit");
    for (body, wanted, field) in [
        (r#"{"path":"flows/none.yaml"}"#.to_owned(), (404, "not_found"), "path"),
        (r#"{"path":"flows/bad.yaml"}"#.to_owned(), (422, "invalid"), "path"),
        (r#"{"path":"flows"}"#.to_owned(), (404, "not_found"), "path"),
        (r#"{"path":"../good.yaml"}"#.to_owned(), (404, "not_found"), "path"),
        (r#"{"path":"/etc/passwd"}"#.to_owned(), (404, "not_found"), "path"),
        (r#"{"path":"flows/good.yaml","commit":"nope"}"#.to_owned(), (422, "invalid"), "commit"),
        (r#"{"path":"flows/good.yaml","base":"nope"}"#.to_owned(), (422, "invalid"), "base"),
        (r#"{"path":"flows/good.yaml"}"#.to_owned(), (422, "invalid"), ""),
        (r#"{"path":"flows/good.yaml","inputs":{"what":"x","odd":"y"}}"#.to_owned(), (422, "invalid"), ""),
        (r#"{"path":"flows/good.yaml","script":"rm"}"#.to_owned(), (422, "invalid"), "script"),
    ] {
        let answer = server.post("/api/flows", &body);
        assert_eq!(answer.refused(), (wanted.0, wanted.1.to_owned()), "{body}: {}", answer.json());
        if !field.is_empty() {
            assert_eq!(answer.json()["field"], field, "{body}: {}", answer.json());
        }
    }
    assert_eq!(server.get("/api/runs").ok()["runs"], serde_json::json!([]), "nothing was begun");
    let body =
        format!(r#"{{"path":"flows/good.yaml","commit":"{commit}","inputs":{{"what":"it"}},"label":"Try"}}"#);
    let made = server.post("/api/flows", &body).ok();
    let (run, slug) = (text_of(&made["run"], "id").to_owned(), text_of(&made["run"], "slug").to_owned());
    assert_eq!((&made["run"]["kind"], &made["run"]["label"]), (&"flow".into(), &"Try".into()));
    repo.aynig_ok(["run", "--drain"]);
    let drawn = server.get(&format!("/api/runs/{run}/flow")).ok();
    assert_eq!(drawn["show"], told(&repo, &["flow", "show", &slug, "--json"]));
    assert_eq!(drawn["graph"], told(&repo, &["flow", "graph", &slug, "--format", "json"]));
    let state = server.get(&format!("/api/runs/{slug}")).ok();
    assert_eq!(state["run"]["steps"]["1"]["outcome"], "completed", "{state}");

    let waiting = server.get("/api/approvals").ok();
    let row = &waiting["approvals"][0];
    assert_eq!(
        (&row["label"], &row["alias"], &row["approval"]["tool"]["name"]),
        (&"Try".into(), &"flow".into(), &"gate".into())
    );
    assert_eq!(row["branch"], format!("work/{slug}/flow"));
    assert!(row["cwd"].is_string() && text_of(&row["approval"], "context").contains("Is it good?"), "{row}");
    let diff = server.get(&format!("/api/runs/{run}/diff")).ok();
    assert_eq!(diff["files"][0]["path"], "a.txt");
    assert_eq!(diff["files"][0]["hunks"][0]["lines"], serde_json::json!(["+one"]));
    assert_eq!(diff["to"], row["approval"]["tool"]["args"]["head"], "the gate asks about this commit");
    let base = text_of(&diff, "from").to_owned();
    let none = server.get(&format!("/api/runs/{run}/diff?from={base}&to={base}")).ok();
    assert_eq!(none["files"], serde_json::json!([]));
    for (query, wanted) in [("node=nope", 404), ("from=nope", 422), ("from=--output=x", 422), ("odd=1", 400)]
    {
        assert_eq!(server.get(&format!("/api/runs/{run}/diff?{query}")).refused().0, wanted, "{query}");
    }

    let first = text_of(&row["approval"], "approvalId").to_owned();
    let bearer = format!("Authorization: Bearer {}", server.token);
    let keyed = |id: &str, resolution: &str, key: &str| {
        let headers = [&*bearer, "Content-Type: application/json", key];
        let body = format!(r#"{{"resolution":{resolution}}}"#);
        server.with("POST", &format!("/api/approvals/{id}/resolve"), &headers, &body)
    };
    let resolve = |id: &str, resolution: &str| keyed(id, resolution, "X-None: 1");
    assert_eq!(
        resolve(&first, r#"{"status":"modified","modifiedArgs":{}}"#).refused(),
        (422, "invalid".to_owned())
    );
    let (no, yes) = (r#"{"status":"denied","reason":"More."}"#, r#"{"status":"approved"}"#);
    let denied = keyed(&first, no, "Idempotency-Key: 1").ok();
    assert_eq!(
        (&denied["resolution"]["status"], &denied["resolution"]["reason"]),
        (&"denied".into(), &"More.".into())
    );
    assert_eq!(resolve(&first, yes).refused(), (409, "conflict".to_owned()), "it was denied");
    assert_eq!(keyed(&first, yes, "Idempotency-Key: 1").refused(), (409, "key_reused".to_owned()));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(resolve(&first, yes).refused().0, 409, "that question is over");
    assert_eq!(keyed(&first, no, "Idempotency-Key: 1").ok(), denied, "it was carried out before");
    let waiting = server.get("/api/approvals").ok();
    let second = text_of(&waiting["approvals"][0]["approval"], "approvalId").to_owned();
    assert_ne!(first, second);
    assert_eq!(resolve(&second, yes).ok()["resolution"]["status"], "approved");
    repo.aynig_ok(["run", "--drain"]);
    let state = server.get(&format!("/api/runs/{run}")).ok();
    assert_eq!(state["run"]["verdict"], "succeeded");

    let story = server.get(&format!("/api/log?branch=run/{slug}/flow")).ok();
    assert_eq!(story, told(&repo, &["log", &format!("run/{slug}/flow"), "--json"]));
    assert_eq!(server.get("/api/log?branch=nope").refused().0, 404);
    assert_eq!(server.get("/api/log").refused().0, 400);

    let published = server.post(&format!("/api/runs/{run}/publish"), r#"{"into":"main","squash":true}"#).ok();
    assert_eq!((&published["pushed"], &published["base"]), (&true.into(), &"main".into()));
    let there = git_output(&hub, &["rev-parse", &format!("refs/heads/{}", text_of(&published, "branch"))]);
    assert_eq!(out(&there).trim(), published["commit"], "{published}");
    assert_eq!(server.post(&format!("/api/runs/{run}/publish"), r#"{"into":"-x"}"#).refused().0, 422);
}

/// CONTRACT 23.10
#[test]
fn work_is_put_back_over_the_server_and_what_was_there_is_saved() {
    let repo = Repo::new();
    let server = served(&repo, "echo one >a.txt; echo done");
    let started = server.post("/api/flows", r#"{"path":"flows/good.yaml","inputs":{"what":"it"}}"#).ok();
    let run = text_of(&started["run"], "id").to_owned();
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(server.post(&format!("/api/runs/{run}/publish"), "").refused(), (422, "no_remote".to_owned()));
    let back = |path: &str, body: &str| server.post(&format!("/api/runs/{path}/rollback"), body);
    assert_eq!(back(&run, r#"{"node":"x"}"#).refused().0, 422);
    let done = back(&run, "").ok();
    assert_eq!((&done["changed"], &done["run"]["status"]), (&true.into(), &"paused".into()));
    let saved = done["rescueRefs"][0].as_str().expect("a ref");
    assert_eq!(repo.git(["show", &format!("{saved}:a.txt")]), "one");
    assert!(text_of(&done, "undo").contains("aynig flow rollback --undo"), "{done}");
    assert_eq!(server.get(&format!("/api/runs/{run}/diff")).ok()["files"], serde_json::json!([]));

    let graph = Graph::of(repo, &["ann", "bob"]);
    graph.ok(&["chat", "RUN", "ann", "Write it."]);
    graph.drain();
    let diff = server.get(&format!("/api/runs/{}/diff?node=ann", graph.slug)).ok();
    assert_eq!(diff["files"][0]["path"], "a.txt");
    assert_eq!(back(&graph.slug, "").refused().0, 422, "a graph has several");
    assert_eq!(back(&graph.slug, r#"{"node":"nope"}"#).refused().0, 404);
    let done = back(&graph.slug, r#"{"node":"ann"}"#).ok();
    assert_eq!((&done["changed"], done["rescueRefs"].as_array().map(Vec::len)), (&true.into(), Some(1)));
    let saved = done["rescueRefs"][0].as_str().expect("a ref");
    assert_eq!(graph.repo.git(["show", &format!("{saved}:a.txt")]), "one");
    assert_eq!(back(&graph.slug, r#"{"node":"ann"}"#).ok()["changed"], false, "it is at its base");
}

/// CONTRACT 23.10
#[test]
fn a_flow_goes_on_from_a_step_over_the_server() {
    let repo = Repo::new();
    let server = served(&repo, "echo one >>a.txt; echo done");
    let started = server.post("/api/flows", r#"{"path":"flows/good.yaml","inputs":{"what":"it"}}"#).ok();
    let run = text_of(&started["run"], "id").to_owned();
    let resume = |path: &str, body: &str| server.post(&format!("/api/runs/{path}/resume"), body);
    repo.aynig_ok(["run", "--drain"]);
    for (body, code) in
        [(r#"{"from":"nope"}"#, "invalid"), (r#"{"form":"write"}"#, "invalid"), (r#"{"from":1}"#, "invalid")]
    {
        assert_eq!(resume(&run, body).refused(), (422, code.to_owned()), "{body}");
    }
    assert_eq!(server.get("/api/approvals").ok()["approvals"].as_array().map(Vec::len), Some(1), "it waits");
    let resumed = resume(&run, r#"{"from":"write"}"#).ok();
    assert_eq!(resumed["run"]["status"], "running", "{resumed}");
    repo.aynig_ok(["run", "--drain"]);
    let state = server.get(&format!("/api/runs/{run}")).ok();
    let ids: Vec<&str> =
        state["run"]["steps"].as_object().expect("steps").values().map(|step| text_of(step, "id")).collect();
    assert_eq!(ids, ["write", "ask", "write", "ask"], "{state}");
    // A request with a key is carried out once, whatever came after it.
    let bearer = format!("Authorization: Bearer {}", server.token);
    let keyed = |verb: &str, key: &str| {
        let headers = [&*bearer, "Content-Type: application/json", &format!("Idempotency-Key: {key}")];
        let answer = server.with("POST", &format!("/api/runs/{run}/{verb}"), &headers, "{}");
        (answer.status, answer.json().pointer("/run/status").cloned())
    };
    assert_eq!(keyed("pause", "1"), (200, Some("paused".into())));
    assert_eq!(keyed("resume", "2"), (200, Some("running".into())));
    assert_eq!(keyed("pause", "1"), (200, Some("running".into())), "it was carried out before");
    assert_eq!(keyed("stop", "1"), (409, None), "the key is of another request");

    let graph = Graph::of(repo, &["ann"]);
    assert_eq!(resume(&graph.slug, r#"{"from":"write"}"#).json()["field"], "from", "a graph has no steps");
    graph.ok(&["run", "pause", "RUN"]);
    assert_eq!(resume(&graph.slug, "{}").ok()["run"]["status"], "running");
}

/// CONTRACT 23.1
#[test]
fn a_server_with_a_runner_carries_out_what_it_is_asked_for() {
    let repo = Repo::new();
    drop(served(&repo, "echo done"));
    let server = Server::with_options(&repo, &["--listen", "127.0.0.1:0", "--run", "--jobs", "2"]);
    let started = server.post("/api/flows", r#"{"path":"flows/good.yaml","inputs":{"what":"it"}}"#).ok();
    let run = text_of(&started["run"], "id").to_owned();
    let waiting = wait_for("a gate", || {
        let waiting = server.get("/api/approvals").ok();
        waiting["approvals"].get(0).cloned()
    });
    let id = text_of(&waiting["approval"], "approvalId");
    server.post(&format!("/api/approvals/{id}/resolve"), r#"{"resolution":{"status":"approved"}}"#).ok();
    wait_for("the end", || {
        let state = server.get(&format!("/api/runs/{run}")).ok();
        (state["run"]["verdict"] == "succeeded").then_some(())
    });
    assert_eq!(server.stop(), Some(0), "a signal ends both");
}

/// Settings that are made while a server runs count at once. CONTRACT 23.1
#[test]
fn a_setting_that_is_made_later_counts() {
    let repo = Repo::new();
    let server = served(&repo, "echo done");
    let names = || {
        let providers = server.get("/api/providers").ok();
        providers["providers"].as_array().expect("a list").iter().any(|one| one["name"] == "later")
    };
    assert!(!names());
    for (key, value) in [("kind", "custom"), ("protocol", "text"), ("command", "true")] {
        repo.git(["config", &format!("aynig.provider.later.{key}"), value]);
    }
    assert!(names());
}

/// CONTRACT 23.1
#[test]
fn a_runner_that_cannot_begin_ends_the_server_with_its_error() {
    let repo = Repo::new();
    repo.git(["config", "aynig.commandsFrom", "refs/heads/nope"]);
    let failed = repo.aynig(["serve", "--listen", "127.0.0.1:0", "--run"]);
    assert_eq!(failed.status.code(), Some(3), "{}", err(&failed));
    assert!(err(&failed).contains("aynig.commandsFrom"), "{}", err(&failed));
    let usage = repo.aynig(["serve", "--jobs", "2"]);
    assert_eq!(usage.status.code(), Some(2), "{}", err(&usage));
}

/// All users see the arguments of a process, so the browser gets a file. CONTRACT 23.2
#[test]
fn a_browser_gets_the_link_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let repo = Repo::new();
    let (bin, told) = (repo.beside("bin"), repo.beside("opened"));
    std::fs::create_dir(&bin).expect("a directory");
    let browser = bin.join("xdg-open");
    std::fs::write(
        &browser,
        format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >'{0}.new'; mv '{0}.new' '{0}'\n", told.display()),
    )
    .expect("a script");
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).expect("a mode");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let server = Server::with_env(&repo, &["--listen", "127.0.0.1:0", "--open"], &[("PATH", &path)]);
    let opened = wait_for("the browser", || std::fs::read_to_string(&told).ok());
    let file = PathBuf::from(opened.trim_end());
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(&file).expect("a page");
    let token = page.split("/#t=").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    assert!(page.contains(&server.host) && token != server.link, "{page}");
    let body = format!(r#"{{"token":"{token}"}}"#);
    let json = "Content-Type: application/json";
    assert_eq!(server.with("POST", "/api/session", &[json], &body).status, 200);
    assert_eq!(server.with("POST", "/api/session", &[json], &body).status, 401, "once");
    assert_eq!(server.stop(), Some(0));
    assert!(!file.exists(), "it goes with the server");
}
