//! Graphs on two hosts, through a hub.

use super::*;

/// A clone of a hub, whose provider `scripted` runs this script.
pub(super) fn host(hub: &str, name: &str, script: &str) -> Repo {
    let host = Repo::new();
    host.git(["remote", "add", "origin", hub]);
    host.git(["fetch", "-q", "origin"]);
    host.git(["reset", "-q", "--hard", "origin/main"]);
    host.git(["config", "aynig.remote", "origin"]);
    host.git(["config", "aynig.runnerId", name]);
    place_worktrees(&host);
    agent(&host, script);
    host
}

/// CONTRACT 22.2, 22.3
#[test]
fn a_message_of_one_host_is_read_on_another() {
    let script = r#"
case $prompt in *"the agent a "*) "$AYNIG_BIN" orch handoff --to b --message "look at it" || exit 9 ;; esac
echo x >>file; echo done"#;
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| host(path, name, script));
    let graph = Graph::of(first, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let other = Graph { repo: second, slug: graph.slug.clone() };
    other.drain();
    assert_eq!(other.turns(), ["a completed", "b completed"]);
    other.assert_read_once(0);
    // The first host knows all of it, and sends the next one, which carries the work on where it is.
    graph.assert_read_once(0);
    other.ok(&["chat", "RUN", "a", "Once more."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "b completed", "a completed", "b completed"]);
    graph.assert_read_once(0);
    assert_eq!(graph.repo.git(["show", &format!("work/{}/a:file", graph.slug)]).trim(), "x\nx");
}

/// CONTRACT 16.7, 22.9
#[test]
fn a_turn_on_another_host_is_interrupted() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| host(path, name, people::WAITS));
    let graph = Graph::of(first, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = people::live(&second);
    graph.ok(&["node", "interrupt", "RUN", "a"]);
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.turns(), ["a interrupted"]);
    assert_eq!(graph.node("a")["hold"], "interrupted");
    graph.assert_read_once(1);
    // Its work is where the next turn begins, on any host.
    people::ready(&graph.repo);
    graph.ok(&["chat", "RUN", "a", "Go on."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    graph.assert_read_once(0);
    let prompts = graph.repo.git(["show", &format!("work/{}/a:prompts", graph.slug)]);
    assert_eq!(prompts.matches("> Write it.").count(), 2, "{prompts}");
}
