//! Graphs on two hosts, through a hub.

use std::path::Path;

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

/// CONTRACT 16.8
#[test]
fn what_a_run_has_here_that_another_host_deleted_goes_by_its_age() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| host(path, name, "echo x >file; echo done"));
    let graph = Graph::of(first, &["a"]);
    let other = Graph { repo: second, slug: graph.slug.clone() };
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    other.drain();
    let branch = format!("work/{}/a", graph.slug);
    let head = other.repo.git(["rev-parse", &branch]);
    let listed = other.repo.git(["worktree", "list", "--porcelain"]);
    let place = listed.lines().filter_map(|line| line.strip_prefix("worktree ")).next_back().expect("one");
    std::fs::write(format!("{place}/more"), "unsaved").expect("a file");
    let deleted = err(&graph.orch(&["run", "delete", "RUN"]));
    let line = deleted.split('`').find(|part| part.starts_with("git fetch ")).expect("a command");
    let mut shell = std::process::Command::new("sh");
    let shown =
        hermetic(&mut shell).args(["-ec", line]).current_dir(&graph.repo.path).output().expect("a shell");
    assert!(out(&shown).contains("/a\n"), "{line}: {}{}", out(&shown), err(&shown));
    let clean = |arguments: &[&str]| {
        out(&other.repo.aynig_ok([&["clean", "--workspaces", "--runs"], arguments].concat()))
    };
    let handle = format!("{}/a", graph.slug);
    let shown = clean(&[]);
    assert!(shown.contains(&format!("aynig workspace remove --apply {handle}")), "{shown}");
    let shown = clean(&["--older-than", "0s"]);
    let item = format!("would go  workspace  {handle} (branch {branch}");
    assert!(shown.contains(&item) && !shown.contains("orch show"), "{shown}");
    assert!(shown.contains("next: aynig workspace list"), "{shown}");
    let done = clean(&["--older-than", "0s", "--apply"]);
    assert!(done.contains(&format!("removed   workspace  {handle}")), "{done}");
    assert!(!Path::new(place).exists());
    let refs = other.repo.git(["for-each-ref", "--format=%(objectname) %(refname)"]);
    let is_kept = |line: &str| line.starts_with(head.trim()) && line.contains("refs/aynig/archive/");
    assert!(refs.lines().any(is_kept) && !refs.contains(&format!("refs/heads/{branch}")), "{refs}");
    let rescue =
        refs.lines().find_map(|line| line.split_once(" refs/aynig/rescue/")).expect("unsaved work").1;
    assert_eq!(other.repo.git(["show", &format!("refs/aynig/rescue/{rescue}:more")]).trim(), "unsaved");
    let left = clean(&[]);
    assert!(left.contains("the files of a run that was deleted") && !left.contains("not moved"), "{left}");
}

/// What another host published is the work, also where an attempt of this host was put back and its end was never recorded.
/// CONTRACT 15.21, 20.5
#[test]
fn a_host_with_the_mark_of_an_old_attempt_goes_on_with_the_work_of_others() {
    let script = "echo x >>file; echo done";
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| host(path, name, script));
    let graph = Graph::of(first, &["a"]);
    let other = Graph { repo: second, slug: graph.slug.clone() };
    for host in [&graph, &other] {
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        host.drain();
    }
    let words = "a  this clone's is at ";
    assert!(graph.ok(&["show", "RUN"]).contains(words), "the other host was the last one");
    assert!(!other.ok(&["show", "RUN"]).contains(words), "it has the newest");
    let state = graph.state();
    let marks = graph
        .repo
        .path
        .join(".git/aynig/data/runs")
        .join(state["id"].as_str().expect("an id"))
        .join("attempts");
    // An attempt that began in a worktree which was made anew since.
    let began = graph.repo.head(&format!("work/{}/a", graph.slug));
    std::fs::create_dir_all(&marks).expect("a directory");
    std::fs::write(marks.join("a"), format!("an-old-attempt {began} 9 1")).expect("a mark");
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed"; 3]);
    assert_eq!(graph.repo.git(["show", &format!("work/{}/a:file", graph.slug)]).trim(), "x\nx\nx");
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
    assert_eq!(graph.node("a")["status"], "running");
    graph.ok(&["node", "interrupt", "RUN", "a"]);
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.node("a")["status"], "idle");
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

/// CONTRACT 16.7, 22.7, 22.25
#[test]
fn a_pause_or_a_stop_ends_a_turn_on_another_host() {
    for (verb, status) in [("pause", "paused"), ("stop", "stopped")] {
        let hub = Repo::new();
        let bare = hub.beside("hub.git");
        let path = bare.to_str().expect("UTF-8");
        hub.git(["clone", "-q", "--bare", ".", path]);
        let [first, second] = ["first", "second"].map(|name| host(path, name, people::WAITS));
        let graph = Graph::of(first, &["a"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let mut runner = people::live(&second);
        graph.ok(&["run", verb, "RUN"]);
        assert!(runner.wait().expect("it ends").success());
        assert_eq!(graph.turns(), ["a interrupted"], "{verb}");
        let events = graph.events(&["run.patch", "turn.status"]);
        let [.., asked, ended] = events.as_slice() else { panic!("two events: {events:?}") };
        let at = |event: &Value| {
            let text = event["ts"].as_str().expect("a time");
            aynig::model::time::Timestamp::parse(text).expect("a time").millis()
        };
        // It is five seconds at most; a busy machine has more. Without a word to that host it would be the length of a lease.
        assert!(at(ended) - at(asked) < 15_000, "{verb}: {events:?}");
        assert_eq!(graph.state()["status"], status);
        let (driver, format) =
            (format!("run/{}/a", graph.slug), "--format=%(trailers:key=dwp-state,valueonly)");
        assert_eq!(graph.repo.git(["--git-dir", path, "log", "-1", format, &driver]).trim(), "orch-idle");
        graph.assert_read_once(1);
        people::ready(&graph.repo);
        graph.ok(&["run", "resume", "RUN"]);
        graph.drain();
        assert_eq!(graph.turns(), ["a interrupted", "a completed"], "{verb}");
        graph.assert_read_once(0);
    }
}

/// CONTRACT 22.10
#[test]
fn a_node_is_removed_on_a_host_that_never_ran_it() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let script = "echo x >>file; echo done";
    let [first, second] = ["first", "second"].map(|name| host(path, name, script));
    let graph = Graph::of(first, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let other = Graph { repo: second, slug: graph.slug.clone() };
    other.drain();
    let id = graph.node("a")["id"].as_str().expect("an id").to_owned();
    let said = err(&graph.orch(&["node", "remove", "RUN", "a"]));
    let archive = format!("/nodes/a-{}", &id[..8]);
    assert!(said.contains(&archive), "{said}");
    let there = hub.git(["--git-dir", path, "for-each-ref", "--format=%(refname)", "refs/aynig/archive"]);
    assert!(there.trim().ends_with(&archive), "{there}");
    assert_eq!(hub.git(["--git-dir", path, "show", &format!("{}:file", there.trim())]).trim(), "x");
    // The host with the worktree keeps it until it is removed there.
    other.ok(&["doctor", "RUN"]);
    other.repo.aynig_ok(["workspace", "remove", "--apply", &format!("{}/a", graph.slug)]);
}
