//! Each endpoint, as clients of the contract and ours call it.

use super::*;

/// A repository with the provider `custom`, which runs this script, and its server.
fn served(script: &str) -> (Repo, Server) {
    let repo = Repo::new();
    place_worktrees(&repo);
    agent(&repo, script);
    for key in ["kind", "protocol", "command"] {
        let value = repo.git(["config", &format!("aynig.provider.scripted.{key}")]);
        repo.git(["config", &format!("aynig.provider.custom.{key}"), value.trim()]);
    }
    let server = Server::of(&repo);
    (repo, server)
}

fn id(answer: &Value, of: &str) -> String {
    answer[of]["id"].as_str().unwrap_or_else(|| panic!("an id: {answer}")).to_owned()
}

/// The requests that clients of the contract's first implementation send, with their fields and in their order.
/// CONTRACT 23.1, 23.5
#[test]
fn clients_of_the_contract_work_unmodified() {
    let (repo, server) = served("echo done");
    assert_eq!(server.get("/api/runs").ok(), serde_json::json!({ "runs": [] }));
    let run = id(&server.post("/api/runs", "").ok(), "run");
    let laid = server.post("/api/runs", r#"{"layout":{"viewport":{"x":1,"y":2,"zoom":1}}}"#).ok();
    assert_eq!(laid["run"]["layout"]["viewport"]["y"], 2.0);
    let top = repo.path.canonicalize().expect("it exists").display().to_string();
    let body = format!(r#"{{"mode":"INTERACTIVE","globalMode":"IMPLEMENTATION","cwd":"{top}"}}"#);
    let second = server.post("/api/runs", &body).ok();
    for field in
        ["id", "contractVersion", "status", "mode", "globalMode", "cwd", "createdAt", "updatedAt", "usage"]
    {
        assert!(!second["run"][field].is_null(), "{field}: {second}");
    }
    for field in ["nodes", "nodeConfigs", "edges", "artifacts"] {
        assert!(second["run"][field].is_object(), "{field}: {second}");
    }
    let path = format!("/api/runs/{run}");
    let node = |label: &str, role: &str| {
        let body = format!(
            r#"{{"node":{{"label":"{label}","roleTemplate":"{role}","provider":"custom",
            "capabilities":{{"edgeManagement":"none","writeCode":true,"writeDocs":true,"runCommands":true,"delegateOnly":false}},
            "permissions":{{"cliPermissionsMode":"skip","agentManagementRequiresApproval":true}},
            "session":{{"resume":true,"resetCommands":["/new","/clear"]}},"customSystemPrompt":null}}}}"#
        );
        id(&server.post(&format!("{path}/nodes"), &body).ok(), "node")
    };
    let (ann, bob) = (node("Ann", "implementer"), node("Bob", "reviewer"));
    let layout = format!(
        r#"{{"patch":{{"layout":{{"positions":{{"{ann}":{{"x":1.5,"y":2}}}},"viewport":{{"x":0,"y":0,"zoom":1}},"updatedAt":"2026-01-01T00:00:00.000Z"}}}}}}"#
    );
    let laid = server.ask("PATCH", &path, &layout).ok();
    assert_eq!(laid["run"]["layout"]["positions"][&ann]["x"], 1.5);
    let edge = format!(
        r#"{{"edge":{{"from":"{ann}","to":"{bob}","bidirectional":true,"type":"handoff","label":""}}}}"#
    );
    let edge = server.post(&format!("{path}/edges"), &edge).ok();
    assert_eq!((&edge["edge"]["type"], &edge["edge"]["label"]), (&"handoff".into(), &"task".into()));
    let patched = server.ask(
        "PATCH",
        &format!("{path}/nodes/{bob}"),
        r#"{"patch":{"label":"Bobby"},"config":{"label":"Bobby","customSystemPrompt":"Be kind."}}"#,
    );
    assert_eq!(patched.ok()["node"]["label"], "Bobby");
    let chat = format!(r#"{{"nodeId":"{ann}","content":"Write it.","interrupt":false}}"#);
    let message = server.post(&format!("{path}/chat"), &chat).ok();
    assert!(message["messageId"].is_string(), "{message}");
    repo.aynig_ok(["run", "--drain"]);
    let state = server.get(&path).ok();
    assert_eq!(state["run"]["nodes"][&ann]["summary"], "done");
    assert_eq!(state["run"]["nodeConfigs"][&bob]["customSystemPrompt"], "Be kind.");
    assert_eq!(state["run"]["layout"]["positions"][&ann]["x"], 1.5, "it is kept");
    let events = server.get(&format!("{path}/events?limit=200")).ok();
    let kinds: Vec<&str> =
        events["events"].as_array().expect("events").iter().filter_map(|one| one["type"].as_str()).collect();
    for kind in [
        "run.patch",
        "node.patch",
        "edge.created",
        "message.user",
        "message.assistant.final",
        "artifact.created",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let (artifact, listed) =
        state["run"]["artifacts"].as_object().expect("artifacts").iter().next().expect("one");
    let shown = server.get(&format!("{path}/artifacts/{artifact}")).ok();
    assert_eq!((&shown["artifact"]["name"], shown["content"].is_string()), (&listed["name"], true));
    for verb in ["stop", "start", "reset"] {
        assert_eq!(server.post(&format!("{path}/nodes/{ann}/{verb}"), "").ok()["ok"], true, "{verb}");
    }
    for (status, mode) in [("paused", "AUTO"), ("running", "INTERACTIVE")] {
        let body = format!(r#"{{"patch":{{"status":"{status}","mode":"{mode}","globalMode":"PLANNING"}}}}"#);
        let run = server.ask("PATCH", &path, &body).ok();
        assert_eq!((&run["run"]["status"], &run["run"]["mode"]), (&status.into(), &mode.into()));
        assert!(run["run"]["nodes"].is_object(), "the whole state");
    }
    assert!(server.get("/api/templates").ok()["templates"].as_array().is_some_and(|all| !all.is_empty()));
    assert_eq!(server.get("/api/templates/implementer").ok()["found"], true);
    assert_eq!(server.get("/api/templates/nobody").ok()["found"], false);
    let providers = server.get("/api/providers").ok();
    let custom =
        providers["providers"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "custom"));
    assert_eq!(
        custom.map(|one| (&one["reason"], &one["kind"])),
        Some((&Value::Null, &"custom".into())),
        "{providers}"
    );
    let status = server.get("/api/status").ok();
    let drivers = status["branches"].as_array().expect("branches").iter();
    assert!(
        drivers.filter_map(|row| row["branch"].as_str()).any(|name| name.starts_with("run/")),
        "{status}"
    );
    let list = server.get("/api/fs/list").ok();
    assert_eq!((&list["current"], &list["parent"]), (&top.into(), &Value::Null));
    let edge = id(&edge, "edge");
    assert_eq!(server.ask("DELETE", &format!("{path}/edges/{edge}"), "").ok()["edgeId"], *edge);
    assert_eq!(server.ask("DELETE", &format!("{path}/nodes/{bob}"), "").ok()["nodeId"], *bob);
    assert_eq!(server.ask("DELETE", &path, "").ok()["runId"], *run);
    assert_eq!(server.get(&path).refused(), (404, "not_found".to_owned()));
}

/// CONTRACT 23.5, 23.8
#[test]
fn requests_that_cannot_be_are_refused_with_the_field_and_the_next_step() {
    let (_repo, server) = served("echo done");
    let run = id(&server.post("/api/runs", "").ok(), "run");
    let (nodes, edges, chat) =
        (format!("/api/runs/{run}/nodes"), format!("/api/runs/{run}/edges"), format!("/api/runs/{run}/chat"));
    let path = format!("/api/runs/{run}");
    for (method, path, body, wanted, field) in [
        ("GET", "/api/nope", "", (404, "not_found"), ""),
        ("GET", "/api/runs/nope", "", (404, "not_found"), ""),
        ("PUT", "/api/runs", "{}", (405, "method"), ""),
        ("POST", "/api/runs", "{", (400, "malformed"), ""),
        ("POST", "/api/runs", "[]", (422, "invalid"), ""),
        ("POST", "/api/runs", r#"{"mode":"FAST"}"#, (422, "invalid"), ""),
        ("POST", "/api/runs", r#"{"command":"rm"}"#, (422, "invalid"), "command"),
        ("POST", "/api/runs", r#"{"cwd":"/"}"#, (422, "invalid"), "cwd"),
        ("POST", "/api/runs", r#"{"base":"nope"}"#, (422, "invalid"), "base"),
        ("PATCH", &path, r#"{"patch":{"status":"queued","mode":"AUTO"}}"#, (409, "transition"), ""),
        ("PATCH", &path, r#"{"status":"paused"}"#, (422, "invalid"), "status"),
        ("POST", &nodes, r#"{"node":{"label":"A"}}"#, (422, "invalid"), "roleTemplate"),
        ("POST", &nodes, r#"{"node":{"label":"A","roleTemplate":"x"}}"#, (422, "invalid"), "provider"),
        ("POST", &nodes, r#"{"node":{"command":"sh"}}"#, (422, "invalid"), "command"),
        ("PATCH", &format!("{nodes}/nope"), "{}", (404, "not_found"), ""),
        ("DELETE", &format!("{nodes}/nope"), "", (404, "not_found"), ""),
        ("POST", &edges, r#"{"edge":{"from":"a","to":"b"}}"#, (404, "not_found"), ""),
        ("DELETE", &format!("{edges}/nope"), "", (404, "not_found"), ""),
        ("POST", &chat, r#"{"content":"x"}"#, (422, "no_orchestrator"), ""),
        ("POST", &chat, r#"{"nodeId":"nope","content":"x"}"#, (404, "not_found"), ""),
        (
            "POST",
            "/api/approvals/nope/resolve",
            r#"{"resolution":{"status":"approved"}}"#,
            (404, "not_found"),
            "",
        ),
        ("POST", "/api/approvals/nope/resolve", "{}", (422, "invalid"), "resolution"),
        ("GET", "/api/runs?view=all", "", (400, "malformed"), "view"),
        ("GET", "/api/approvals?status=zz", "", (400, "malformed"), ""),
        ("POST", &format!("{nodes}?foo=1"), "{}", (400, "malformed"), ""),
        ("POST", &chat, r#"["nope","hello"]"#, (422, "invalid"), ""),
        ("GET", "/api/runs?status=working", "", (400, "malformed"), "view"),
        ("GET", "/api/runs?view=summary&limit=0", "", (400, "malformed"), "limit"),
        ("GET", "/api/runs?view=summary&status=odd", "", (400, "malformed"), "status"),
        ("GET", &format!("{path}/events?limit=2001"), "", (400, "malformed"), "limit"),
        ("GET", &format!("{path}/events?before=x"), "", (400, "malformed"), "before"),
        ("GET", &format!("{path}/events?after=-1"), "", (400, "malformed"), "after"),
        ("GET", "/api/runs?view=summary&limit=-1", "", (400, "malformed"), "limit"),
        ("GET", "/api/runs?view=summary&before=x", "", (400, "malformed"), "before"),
        ("GET", "/api/runs?wiev=summary", "", (400, "malformed"), "wiev"),
        ("GET", &format!("{path}/artifacts/nope"), "", (404, "not_found"), ""),
        ("GET", "/api/fs/list?path=/etc", "", (403, "outside"), "path"),
        ("GET", "/api/fs/list?path=/nope/../etc", "", (403, "outside"), "path"),
        ("GET", "/api/templates/..%2F..%2Fetc", "", (422, "invalid"), "name"),
        ("GET", "/api/runs/%ff%fe", "", (400, "malformed"), ""),
        ("PUT", "/api/templates/x", r#"{"content":"y"}"#, (403, "read_only"), ""),
    ] {
        let answer = server.ask(method, path, body);
        assert_eq!(
            answer.refused(),
            (wanted.0, wanted.1.to_owned()),
            "{method} {path} {body}: {}",
            answer.json()
        );
        if !field.is_empty() {
            assert_eq!(answer.json()["field"], field, "{method} {path} {body}: {}", answer.json());
        }
    }
    let state = server.get(&path).ok();
    assert_eq!(
        (&state["run"]["status"], state["run"]["nodes"].as_object().map(serde_json::Map::len)),
        (&"running".into(), Some(0))
    );
    assert_eq!(state["run"]["mode"], "INTERACTIVE", "nothing of a refused request is done");
}

/// CONTRACT 23.6
#[test]
fn a_request_with_a_key_is_carried_out_once() {
    let (_repo, server) = served("echo done");
    let run = id(&server.post("/api/runs", "").ok(), "run");
    let bearer = format!("Authorization: Bearer {}", server.token);
    let post = |path: &str, key: &str, body: &str| {
        let key = format!("Idempotency-Key: {key}");
        let headers = [bearer.as_str(), "Content-Type: application/json", &key];
        server.with("POST", &format!("/api/runs/{run}/{path}"), &headers, body)
    };
    let node = r#"{"node":{"label":"Ann","roleTemplate":"x","provider":"custom","permissions":{"cliPermissionsMode":"skip"}}}"#;
    let first = id(&post("nodes", "1", node).ok(), "node");
    assert_eq!(id(&post("nodes", "1", node).ok(), "node"), first);
    assert_ne!(id(&post("nodes", "2", node).ok(), "node"), first);
    let chat = format!(r#"{{"nodeId":"{first}","content":"Once."}}"#);
    let sent = post("chat", "3", &chat).ok();
    assert_eq!(post("chat", "3", &chat).ok(), sent, "the first one's answer");
    let state = server.get(&format!("/api/runs/{run}")).ok();
    assert_eq!(state["run"]["nodes"][&first]["inboxCount"], 1);
    for key in ["5", "6", "7"] {
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let one = |_| scope.spawn(|| post("chat", key, &chat).ok());
            let all: Vec<_> = (0..6).map(one).collect();
            all.into_iter().map(|one| one.join().expect("an answer")).collect()
        });
        assert!(answers.iter().all(|answer| *answer == answers[0]), "at once: {answers:?}");
    }
    let state = server.get(&format!("/api/runs/{run}")).ok();
    assert_eq!(state["run"]["nodes"][&first]["inboxCount"], 4, "each key counts once");
    let other = format!(r#"{{"nodeId":"{first}","content":"Another."}}"#);
    for (path, key, body) in [("chat", "3", &*other), ("nodes", "3", node), ("chat", "2", &*chat)] {
        assert_eq!(post(path, key, body).refused(), (409, "key_reused".to_owned()), "{path} {key}");
    }
    assert_eq!(post("pause", "8", "").ok()["run"]["status"], "paused");
    assert_eq!(post("resume", "8", "").refused().1, "key_reused");
    assert_eq!(post("chat", "3", &chat).ok(), sent, "it is known as before");
    assert_eq!(post("chat", &"x".repeat(201), &chat).refused().0, 400);
    let headers = [bearer.as_str(), "Content-Type: application/json", "Idempotency-Key: 4"];
    let both = r#"{"patch":{"mode":"AUTO","status":"paused"}}"#;
    let patched = server.with("PATCH", &format!("/api/runs/{run}"), &headers, both).ok();
    assert_eq!((&patched["run"]["mode"], &patched["run"]["status"]), (&"AUTO".into(), &"paused".into()));
}

/// CONTRACT 23.5
#[test]
fn runs_are_listed_at_a_glance_and_in_pages() {
    let (repo, server) = served("echo done");
    let made: Vec<String> = (0..5)
        .map(|number| id(&server.post("/api/runs", &format!(r#"{{"label":"Run {number}"}}"#)).ok(), "run"))
        .collect();
    repo.aynig_ok(["orch", "run", "stop", &made[0]]);
    let list = |query: &str| server.get(&format!("/api/runs?view=summary&{query}")).ok();
    let labels = |list: &Value| -> Vec<String> {
        let runs = list["runs"].as_array().expect("runs");
        runs.iter().map(|run| run["label"].as_str().expect("a label").to_owned()).collect()
    };
    let all = list("");
    assert_eq!(labels(&all), ["Run 0", "Run 4", "Run 3", "Run 2", "Run 1"], "what changed last comes first");
    assert_eq!((&all["counts"]["finished"], &all["counts"]["waiting"]), (&1.into(), &4.into()));
    let page = list("limit=2");
    assert_eq!(
        (labels(&page), &page["page"]["hasMore"]),
        (vec!["Run 0".to_owned(), "Run 4".to_owned()], &true.into())
    );
    let next = page["page"]["nextCursor"].as_str().expect("a cursor");
    assert_eq!(labels(&list(&format!("limit=2&before={next}"))), ["Run 3", "Run 2"]);
    assert_eq!(labels(&list("status=finished")), ["Run 0"]);
    assert_eq!(labels(&list("q=RUN%203")), ["Run 3"]);
    // What was read before is read anew only where something has changed.
    repo.aynig_ok(["orch", "run", "stop", &made[1]]);
    repo.aynig_ok(["orch", "run", "delete", &made[2]]);
    let new = id(&server.post("/api/runs", r#"{"label":"Run 5"}"#).ok(), "run");
    assert_eq!(labels(&list("")), ["Run 5", "Run 1", "Run 0", "Run 4", "Run 3"]);
    assert_eq!(labels(&list("status=finished")), ["Run 1", "Run 0"]);
    assert_eq!(list("")["runs"][0]["id"], *new);
}

/// CONTRACT 23.5
#[test]
fn events_are_read_backwards_in_pages_without_a_gap() {
    let (repo, server) = served("echo done");
    let run = id(&server.post("/api/runs", "").ok(), "run");
    let path = format!("/api/runs/{run}");
    let node = r#"{"node":{"label":"Ann","roleTemplate":"implementer","provider":"custom","permissions":{"cliPermissionsMode":"skip"}}}"#;
    let ann = id(&server.post(&format!("{path}/nodes"), node).ok(), "node");
    server.post(&format!("{path}/chat"), &format!(r#"{{"nodeId":"{ann}","content":"Write it."}}"#)).ok();
    repo.aynig_ok(["run", "--drain"]);
    let list = |query: &str| server.get(&format!("{path}/events?{query}")).ok();
    let numbers = |page: &Value| -> Vec<u64> {
        let events = page["events"].as_array().expect("events");
        events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect()
    };
    let end = serde_json::json!({ "nextCursor": null, "hasMore": false });
    for less in [None, Some(7), Some(1), Some(0)] {
        let whole = list("limit=2000");
        let last = whole["lastSeq"].as_u64().expect("a number");
        assert_eq!(numbers(&whole), (1..=last).collect::<Vec<_>>());
        assert_eq!(whole["page"], end);
        let limit = less.map_or(1, |less| last - less);
        let mut page = list(&format!("limit={limit}"));
        let mut read: Vec<Value> = Vec::new();
        loop {
            let events = page["events"].as_array().expect("events").clone();
            let (is_first, is_last) = (read.is_empty(), page["page"]["hasMore"] == false);
            assert!(u64::try_from(events.len()) == Ok(limit) || is_last, "{limit}: {page}");
            if let Some(above) = read.first() {
                let below = numbers(&page).last().copied().unwrap_or_default();
                assert_eq!(above["seq"], below + 1, "{limit}: no gap and no double");
            }
            read.splice(0..0, events);
            if is_last {
                assert_eq!(page["page"], end);
                break;
            }
            let next = page["page"]["nextCursor"].as_str().expect("a cursor").to_owned();
            assert_eq!(next, numbers(&page)[0].to_string(), "the oldest of the page");
            // What comes meanwhile moves no older page.
            if is_first {
                let body = format!(r#"{{"nodeId":"{ann}","content":"More."}}"#);
                server.post(&format!("{path}/chat"), &body).ok();
            }
            page = list(&format!("limit={limit}&before={next}"));
        }
        assert!(read == *whole["events"].as_array().expect("events"), "{limit}: {read:?}");
    }
    for query in ["before=1", "before=0"] {
        let page = list(query);
        assert_eq!((numbers(&page), &page["page"]), (Vec::new(), &end), "{query}");
    }
}

/// CONTRACT 23.1
#[test]
fn the_document_describes_every_path() {
    let (_repo, server) = served("echo done");
    let document = server.get("/api/openapi.json").ok();
    let committed = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/api/openapi.json"))
        .expect("a file");
    let committed: Value = serde_json::from_slice(&committed).expect("JSON");
    assert_eq!(document, committed, "AYNIG_UPDATE=1 cargo test --test it generated");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 15, "{paths:?}");
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("operations") {
            assert!(operation["responses"]["default"].is_object(), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}

/// CONTRACT 23.9
#[test]
fn the_page_comes_from_the_program_under_a_strict_policy() {
    let (_repo, server) = served("echo done");
    let open = |path: &str| server.with("GET", path, &[], "");
    let index = open("/");
    assert_eq!(index.status, 200, "it needs no session");
    let policy = index.header("content-security-policy").expect("a policy");
    for part in
        ["default-src 'none'", "'sha256-", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = String::from_utf8_lossy(&index.body).into_owned();
    assert!(
        text.contains("<script type=\"importmap\">")
            && !text.contains("http://")
            && !text.contains("https://"),
        "{text}"
    );
    for path in ["/inbox", "/runs/x", "/runs/x/nodes/y?tab=log", "/branches/a/b"] {
        assert_eq!(open(path).body, index.body, "{path}");
    }
    for map in text.split('"').filter(|path| {
        path.starts_with("/vendor/") || path.starts_with("/app/") || path.starts_with("/style/")
    }) {
        let file = open(map);
        let kind =
            if map.ends_with(".css") { "text/css; charset=utf-8" } else { "text/javascript; charset=utf-8" };
        assert_eq!((file.status, file.header("content-type")), (200, Some(kind)), "{map}");
        let lasts = file.header("cache-control").expect("a time").contains("immutable");
        assert_eq!(lasts, map.starts_with("/vendor/"), "{map}");
        let tag = format!("If-None-Match: {}", file.header("etag").expect("a tag"));
        assert_eq!(server.with("GET", map, &[&tag], "").status, 304, "{map}");
    }
    for path in ["/app/nope.js", "/vendor/nope.js", "/vendor.sh", "/app/../index.html/x.js", "/api"] {
        assert!(matches!(open(path).status, 401 | 404), "{path}");
    }
}
