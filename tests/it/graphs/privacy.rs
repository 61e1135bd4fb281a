//! What leaves the host of a graph: refs, contents, masked texts, and files that are no work.

use super::super::flow_engine::replicated::texts;
use super::super::support::*;
use super::hosts::host;
use super::{Graph, asking_agent};

/// A text in each thing that a turn has, and the word for it.
const MESSAGE: &str = "the-message";
const PROMPT: &str = "in the order to read them";
const TRANSCRIPT: &str = "the-transcript";
const ANSWER: &str = "the-answer";
const LOG: &str = "the-log";
const WORK: &str = "the-work";
const KEY: &str = "the-key-in-a-file";
const SESSION: &str = "the-session";
const SECRET: &str = "the-secret-of-a-variable";
const PATTERN: &str = "AKIA123456";

/// Leaves a text in each of them. A turn of the node `b` fails.
const SCRIPT: &str = r#"echo 'the-work' >work; echo 'SECRET=the-key-in-a-file' >.env; echo 'the-log' >&2; echo 'the last line' >&2
echo '{"type":"session","sessionId":"the-session"}'
echo '{"type":"message.assistant.delta","content":"the-transcript"}'
case $prompt in *"the agent b "*) exit 3 ;; esac
printf '{"type":"message.assistant.final","content":"the-answer %s %s"}\n' the-secret-of-a-variable AKIA123456
exec cat >/dev/null"#;

/// A hub and a host whose run has a completed turn and a failed one.
fn carried(replicate: Option<&str>) -> (Repo, Graph) {
    let hub = Repo::new();
    hub.write(".aynig/redact", "AKIA[0-9]{6}\n");
    hub.commit_all("masks");
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let repo = host(path, "first", "");
    asking_agent(&repo, SCRIPT);
    repo.git(["config", "aynig.secrets", "THE_SECRET"]);
    if let Some(value) = replicate {
        repo.git(["config", "aynig.replicate", value]);
    }
    let graph = Graph::of(repo, &["a", "b"]);
    for alias in ["a", "b"] {
        secretly(&graph, &["orch", "chat", &graph.slug, alias, &format!("{MESSAGE} {SECRET} {PATTERN}")]);
    }
    secretly(&graph, &["run", "--drain"]);
    let mut turns = graph.turns();
    turns.sort();
    assert_eq!(turns, ["a completed", "b failed"], "{:?}", graph.events(&["turn.status"]));
    (hub, graph)
}

/// Calls `aynig` with the secret in its environment.
fn secretly(graph: &Graph, arguments: &[&str]) {
    let mut command = graph.repo.aynig_command();
    let output = command.args(arguments).env("THE_SECRET", SECRET).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
}

/// CONTRACT 15.16, 16.5, 16.6, 22.39
#[test]
fn a_graph_that_a_remote_decides_leaves_its_host_without_what_is_private() {
    for (replicate, stays) in [(None, &[PROMPT, TRANSCRIPT, LOG][..]), (Some("all"), &[][..])] {
        let (hub, graph) = carried(replicate);
        let bare = hub.beside("hub.git");
        let id = graph.state()["id"].as_str().expect("an id").to_owned();
        let mut listing = std::process::Command::new("git");
        let listed =
            hermetic(&mut listing).arg("-C").arg(&bare).args(["for-each-ref", "--format=%(refname)"]);
        let listed = out(&listed.output().expect("git runs"));
        let mut refs: Vec<String> = listed
            .lines()
            .filter(|name| *name != "refs/heads/main")
            .map(|name| name.replace(&id, "ID").replace(&graph.slug, "SLUG"))
            .collect();
        refs.sort();
        // The work branch of a turn that failed has the base.
        refs.retain(|name| name != "refs/aynig/work/ID/b");
        let expected =
            ["refs/aynig/runs/ID", "refs/aynig/work/ID/a", "refs/heads/run/SLUG/a", "refs/heads/run/SLUG/b"];
        assert_eq!(refs, expected, "{replicate:?}");

        let all = [MESSAGE, PROMPT, TRANSCRIPT, ANSWER, LOG, WORK];
        let leaves: Vec<&str> = all.into_iter().filter(|text| !stays.contains(text)).collect();
        assert_eq!(texts(&bare, &all), leaves, "{replicate:?}");
        // Never, whatever is replicated: keys in files, masked texts, and what belongs to this host alone.
        let worktrees = graph.repo.beside("worktrees").display().to_string();
        let program = graph.repo.path.join(".git/scripted.sh").display().to_string();
        let binary = binary().display().to_string();
        let never = [KEY, SECRET, PATTERN, &worktrees, &program, &binary];
        assert_eq!(texts(&bare, &never), Vec::<&str>::new(), "{replicate:?}");
        // A transcript has what the program printed, its session as well.
        let is_there = !texts(&bare, &[SESSION]).is_empty();
        assert_eq!(is_there, replicate == Some("all"), "{replicate:?}");
        let files = graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/a", graph.slug)]);
        assert!(files.contains("work") && !files.contains(".env"), "{files}");
        // The masked texts have their places.
        assert!(texts(&bare, &["the-answer *** ***"]).len() == 1, "{replicate:?}");
        assert!(texts(&bare, &["the-message *** ***"]).len() == 1, "{replicate:?}");

        // What stays is on the host, for its user alone.
        let data = graph.repo.path.join(".git/aynig/data/runs").join(&id);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&data).expect("it is there").permissions(),
        );
        assert_eq!(mode & 0o077, 0, "{}", data.display());
        for file in files_below(&data) {
            let content = std::fs::read(&file).expect("a file");
            let content = String::from_utf8_lossy(&content);
            let is_agents = file.file_name().is_some_and(|name| name == "transcript");
            assert!(is_agents || !content.contains(PATTERN), "{}", file.display());
        }
    }
}

/// CONTRACT 16.6
#[test]
fn a_graph_of_this_repository_leaves_nothing_and_can_keep_no_contents() {
    for (replicate, has) in
        [(None, true), (Some("all"), true), (Some("summary"), false), (Some("none"), false)]
    {
        let repo = Repo::new();
        super::place_worktrees(&repo);
        asking_agent(&repo, SCRIPT);
        if let Some(value) = replicate {
            repo.git(["config", "aynig.replicate", value]);
        }
        let graph = Graph::of(repo, &["a"]);
        graph.ok(&["chat", "RUN", "a", MESSAGE]);
        graph.drain();
        assert_eq!(graph.turns(), ["a completed"]);
        let found = texts(&graph.repo.path, &[PROMPT, ANSWER]);
        let expected = if has { vec![PROMPT, ANSWER] } else { vec![ANSWER] };
        assert_eq!(found, expected, "{replicate:?}");
        let data = graph.repo.path.join(".git/aynig/data/runs");
        let prompts = files_below(&data).into_iter().filter(|file| {
            std::fs::read(file).is_ok_and(|content| String::from_utf8_lossy(&content).contains(PROMPT))
        });
        assert!(prompts.count() > 0, "{replicate:?}: the host has it");
        graph.ok(&["doctor", "RUN"]);
    }
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let repo = host(path, "first", "");
    repo.git(["config", "aynig.replicate", "none"]);
    let refused = repo.aynig(["orch", "run", "create", "--label", "x"]);
    assert!(!refused.status.success());
    assert!(err(&refused).contains("aynig.replicate"), "{}", err(&refused));
}
