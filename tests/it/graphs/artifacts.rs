//! Artifacts of graphs: listed, printed and exported, also on a host that did not make them.

use super::*;

/// The id of the artifact with this name.
fn id(listed: &Value, name: &str) -> String {
    let all = listed["artifacts"].as_array().expect("a list");
    let found = all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {all:#?}"));
    found["id"].as_str().expect("an id").to_owned()
}

fn list(graph: &Graph, more: &[&str]) -> Value {
    let words = [&["artifact", "list", "RUN", "--json"], more].concat();
    serde_json::from_str(&graph.ok(&words)).expect("JSON")
}

/// CONTRACT 22.34
#[test]
fn artifacts_of_ended_turns_are_listed_printed_and_exported() {
    let graph = Graph::new("echo x >code; echo done", &["ada", "rex"]);
    for alias in ["ada", "rex"] {
        graph.ok(&["chat", "RUN", alias, "Work."]);
    }
    graph.drain();
    let all = list(&graph, &[]);
    let count = |listed: &Value| listed["artifacts"].as_array().expect("a list").len();
    let adas = list(&graph, &["--node", "ada"]);
    assert!(count(&adas) >= 3 && count(&all) == 2 * count(&adas), "{all:#}");
    let diff = id(&adas, "diff.patch");
    let shown = graph.ok(&["artifact", "show", "RUN", &diff[..13]]);
    assert!(shown.starts_with("diff --git a/code b/code\n") && shown.ends_with("+x\n"), "{shown}");
    let json: Value =
        serde_json::from_str(&graph.ok(&["artifact", "show", "RUN", &diff, "--json"])).expect("JSON");
    assert_eq!((&json["content"], &json["artifact"]["alias"]), (&shown.into(), &"ada".into()));
    let several = graph.orch(&["artifact", "show", "RUN", "diff.patch"]);
    assert_eq!(several.status.code(), Some(1));
    assert!(err(&several).contains("artifact list"), "{}", err(&several));
    let directory = graph.repo.beside("out");
    let into = directory.to_str().expect("UTF-8").to_owned();
    graph.ok(&["artifact", "export", "RUN", &into]);
    assert_eq!(files_below(&directory).len(), count(&all));
    let number = adas["artifacts"][0]["number"].as_u64().expect("a number");
    let patch = directory.join(format!("ada/{number:04}/diff.patch"));
    assert!(std::fs::read_to_string(&patch).expect("a file").contains("+x\n"));
    // Nothing is replaced, and nothing is written beside what is there.
    std::fs::write(&patch, "mine").expect("a file");
    std::fs::remove_dir_all(directory.join("rex")).expect("a directory");
    let refused = graph.orch(&["artifact", "export", "RUN", &into]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("there already; nothing was written"), "{}", err(&refused));
    assert!(!directory.join("rex").exists());
    assert_eq!(std::fs::read_to_string(&patch).expect("a file"), "mine");
    // Nor is a link followed.
    std::fs::remove_dir_all(directory.join("ada")).expect("a directory");
    std::os::unix::fs::symlink(graph.repo.beside("else"), directory.join("ada")).expect("a link");
    let refused = graph.orch(&["artifact", "export", "RUN", &into]);
    assert!(err(&refused).contains("is no directory; nothing was written"), "{}", err(&refused));
}

/// CONTRACT 22.34
#[test]
fn a_content_that_is_damaged_or_elsewhere_is_not_handed_on() {
    let graph = Graph::new("echo x >code; echo done", &["ada"]);
    graph.ok(&["chat", "RUN", "ada", "Work."]);
    graph.drain();
    let listed = list(&graph, &[]);
    let diff = id(&listed, "diff.patch");
    let run = graph.state()["id"].as_str().expect("an id").to_owned();
    let file = |name: &str| graph.repo.path.join(format!(".git/aynig/data/runs/{run}/artifacts/{name}"));
    std::fs::write(file(&diff), "+evil").expect("a file");
    let shown = graph.ok(&["artifact", "show", "RUN", &diff]);
    assert!(shown.contains("+x\n"), "the ledger has it: {shown}");
}

/// CONTRACT 22.34
#[test]
fn another_host_is_named_that_has_a_content() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, other] =
        ["first", "second"].map(|name| super::hosts::host(path, name, "echo x >code; echo done"));
    let graph = Graph::of(first, &["ada"]);
    graph.ok(&["chat", "RUN", "ada", "Work."]);
    graph.drain();
    let listed = out(&other.aynig_ok(["orch", "artifact", "list", &graph.slug, "--json"]));
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let prompt = id(&listed, "prompt.full.txt");
    // The ledger does not have it. Its host does.
    let here = list(&graph, &[]);
    let all = here["artifacts"].as_array().expect("a list");
    assert!(all.iter().all(|one| one["available"] == true), "{here:#}");
    assert!(graph.ok(&["artifact", "show", "RUN", &prompt]).contains("You are the agent ada"));
    let exported = graph.repo.beside("exported");
    graph.ok(&["artifact", "export", "RUN", exported.to_str().expect("UTF-8")]);
    assert_eq!(files_below(&exported).len(), all.len());
    let run = graph.state()["id"].as_str().expect("an id").to_owned();
    let files = files_below(&graph.repo.path.join(format!(".git/aynig/data/runs/{run}/artifacts/ada")));
    for file in files.iter().filter(|file| file.ends_with("prompt.full.txt")) {
        std::fs::write(file, "evil").expect("a file");
    }
    assert_eq!(graph.orch(&["artifact", "show", "RUN", &prompt]).status.code(), Some(1), "another content");
    let refused = other.aynig(["orch", "artifact", "show", &graph.slug, &prompt]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("the host test-host made it"), "{}", err(&refused));
    let shown = out(&other.aynig_ok(["orch", "artifact", "show", &graph.slug, "diff.patch"]));
    assert!(shown.contains("+x\n"), "{shown}");
    let exported = other.aynig(["orch", "artifact", "export", &graph.slug, "out"]);
    assert_eq!(exported.status.code(), Some(1), "not all of it");
    assert!(err(&exported).contains("is on the host test-host alone"), "{}", err(&exported));
    assert_eq!(
        files_below(&other.path.join("out")).iter().filter(|path| path.ends_with("diff.patch")).count(),
        1
    );
}

/// CONTRACT 22.4
#[test]
fn the_settings_of_tries_and_of_unread_hand_offs_count() {
    let script = r#"
for n in 1 2; do "$AYNIG_BIN" orch handoff --to b --message "$n" >/dev/null 2>>said || echo refused >>said; done
echo done"#;
    let graph = Graph::new(script, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["node", "stop", "RUN", "b"]);
    graph.repo.git(["config", "aynig.maxUnread", "1"]);
    graph.ok(&["chat", "RUN", "a", "go"]);
    graph.drain();
    let said = graph.repo.git(["show", &format!("work/{}/a:said", graph.slug)]);
    assert!(
        said.contains("b has 1 unread hand-offs from a") && said.matches("refused").count() == 1,
        "{said}"
    );
    graph.repo.git(["config", "aynig.maxUnread", "0"]);
    let wrong = graph.orch(&["chat", "RUN", "a", "go"]);
    assert_eq!(wrong.status.code(), Some(3), "{}", err(&wrong));
    assert!(err(&wrong).contains("aynig.maxUnread = \"0\""), "{}", err(&wrong));

    let failing = Graph::new("exit 1", &["a"]);
    failing.repo.git(["config", "aynig.retryPause", "0"]);
    failing.ok(&["chat", "RUN", "a", "go"]);
    failing.drain();
    assert_eq!(failing.turns(), ["a failed"; 3], "without a pause");
    failing.repo.git(["config", "aynig.retryPause", "soon"]);
    let wrong = failing.orch(&["chat", "RUN", "a", "go"]);
    assert_eq!(wrong.status.code(), Some(3), "{}", err(&wrong));
    assert!(err(&wrong).contains("retryPause"), "{}", err(&wrong));
}
