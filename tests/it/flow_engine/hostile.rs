//! Agents that break or leave the worktree: the run continues, and their work is not lost.

use super::agent::{agent, with_agent};
use super::*;

const TWO: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    routes: {completed: next, error: next, killed_timeout: next, killed_idle: next, killed_policy: next}
  - id: next
    opcode: RUN_AGENT
    agent: second
    prompt: go
    routes: {completed: STOP, error: STOP}
";

/// A repository with an agent that makes `half` and continues with this script, and a next one.
fn with_hostile(script: &str) -> Repo {
    let repo = with_agent(&format!("cat >/dev/null; echo half >half; {script}"));
    agent(
        &repo,
        "second",
        "cat >/dev/null; seen=$(git status --porcelain); echo \"$seen\" >seen; echo after >after",
    );
    repo
}

/// Whether a file is on the work branch or under a rescue ref.
fn is_kept(repo: &Repo, run: &Started, path: &str) -> bool {
    let mut places = repo.rescues();
    places.push(run.work.clone());
    places
        .iter()
        .any(|place| repo.git(["ls-tree", "-r", "--name-only", place]).lines().any(|one| one == path))
}

/// CONTRACT 20.4, 20.5
#[test]
fn whatever_an_agent_does_to_its_worktree_the_next_step_runs_and_the_work_is_kept() {
    let conflict = "git switch -qc a; echo a >f; git add f; git commit -qm a; git switch -q -
        echo b >f; git add f; git commit -qm b";
    for (what, script, outcome) in [
        ("no .git", "rm .git", "completed"),
        ("a repository of its own", "rm .git; git init -q; git add -A; git commit -qm own", "error"),
        ("another branch", "git switch -qc elsewhere; echo x >x; git add x; git commit -qm x", "completed"),
        ("an unfinished merge", &format!("{conflict}; git merge a; true"), "error"),
        ("an unfinished rebase", &format!("{conflict}; git rebase a; true"), "error"),
        ("an unfinished cherry-pick", &format!("{conflict}; git cherry-pick a; true"), "error"),
        ("a lock", ": >\"$(git rev-parse --git-dir)/index.lock\"", "error"),
        ("a fifo", "mkfifo pipe", "completed"),
        ("a detached head", "git switch -q --detach; git add half; git commit -qm x", "completed"),
        (
            "a nested repository",
            "git init -q inner; cd inner; echo x >x; git add x; git commit -qm x",
            "error",
        ),
        ("a large file", "truncate -s 200M big", "completed"),
    ] {
        let repo = with_hostile(script);
        let run = start(&repo, &flow("implement", TWO));
        let done = repo.aynig_ok(["run", "--drain"]);
        let expected = [format!("implement {outcome} next"), "next completed STOP".to_owned()];
        assert_eq!(steps(&repo, &run), expected, "{what}: {}", told(&done));
        assert_eq!(repo.show(&format!("{}:after", run.work)), "after", "{what}");
        assert_eq!(repo.show(&format!("{}:seen", run.work)), "", "{what}: it began in order");
        // What git cannot commit stays beside the new worktree.
        let above = run.worktree.parent().expect("a directory");
        let is_beside = || files_below(above).iter().any(|path| path.ends_with("half"));
        assert!(is_kept(&repo, &run, "half") || is_beside(), "{what}: {:?} {}", repo.rescues(), told(&done));
        assert_eq!(repo.git(["branch", "--show-current"]), "main", "{what}");
    }
}

/// CONTRACT 20.4
#[test]
fn work_that_an_unfinished_merge_keeps_off_the_branch_is_no_success() {
    let repo = with_hostile(
        "git switch -qc a; echo a >f; git add f; git commit -qm a; git switch -q -
        echo b >f; git add f; git commit -qm b; git merge a; echo all is well",
    );
    let run = start(&repo, &flow("implement", TWO));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run)[0], "implement error next");
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("a merge or a rebase in it was not concluded"), "{log}");
    let [rescue] = <[String; 1]>::try_from(repo.rescues()).expect("one");
    assert!(log.contains(&rescue), "{log}");
    assert!(repo.show(&format!("{rescue}:f")).contains("<<<<<<<"), "what lay there is saved");
    assert_eq!(repo.show(&format!("{}:f", run.work)), "b", "what was committed stays on the branch");
    let manifest =
        std::fs::read(run.directory.join("artifacts/implement/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(manifest["termination"], "error");
    assert!(manifest["evidence_summary"].as_str().is_some_and(|words| words.contains(&rescue)), "{manifest}");
}

/// CONTRACT 20.13
#[test]
fn metadata_that_an_agent_destroys_comes_back_whole() {
    let repo = with_hostile("");
    let run = start(&repo, &flow("implement", TWO));
    let file = run.directory.join("metadata.json");
    let shown = file.display();
    for (one, two) in [
        (format!("echo junk >'{shown}'"), format!("rm -f '{shown}'")),
        (format!("rm -f '{shown}'"), format!("echo {{}} >'{shown}'")),
    ] {
        agent(&repo, "scripted", &format!("cat >/dev/null; {one}"));
        agent(&repo, "second", &format!("cat >/dev/null; {two}"));
        let run = start(&repo, &flow("implement", TWO));
        let script = |name: &str| repo.path.join(format!(".git/{name}.sh"));
        for name in ["scripted", "second"] {
            let text = std::fs::read_to_string(script(name)).expect("a script");
            let text =
                text.replace(&shown.to_string(), &run.directory.join("metadata.json").display().to_string());
            std::fs::write(script(name), text).expect("a script");
        }
        repo.aynig_ok(["flow", "show", &run.slug]);
        for last in ["implement", "next"] {
            repo.aynig_ok(["run", "--branch", &run.driver]);
            assert_metadata(&run, last);
        }
        std::fs::remove_file(run.directory.join("metadata.json")).expect("a file");
        repo.aynig_ok(["orch", "events", &run.id, "--json"]);
        assert_metadata(&run, "next");
    }
}

/// The fields of a flow's run are in its metadata.
fn assert_metadata(run: &Started, last: &str) {
    let text = std::fs::read_to_string(run.directory.join("metadata.json")).expect("metadata.json");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["run_id"], run.id.as_str(), "{text}");
    assert_eq!(
        (&value["workflow_id"], &value["entry_step"]),
        (&"test".into(), &"implement".into()),
        "{text}"
    );
    assert_eq!(value["last_step_id"], last, "{text}");
    assert!(value["journal"].is_string(), "{text}");
}

/// CONTRACT 20.4, 20.5
#[test]
fn an_agent_that_removes_its_whole_worktree_costs_no_more_than_its_own_work() {
    let repo = with_hostile("d=$PWD; cd /; rm -rf \"$d\"");
    let run = start(&repo, &flow("implement", TWO));
    let done = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement error next", "next completed STOP"], "{}", told(&done));
    assert_eq!(repo.show(&format!("{}:after", run.work)), "after");
}

/// CONTRACT 20.5, 20.38
#[test]
fn a_worktree_that_was_moved_away_is_left_to_a_person() {
    let repo = with_hostile("d=$PWD; cd /; mv \"$d\" \"$d.away\"; echo x >\"$d\"");
    let run = start(&repo, &flow("implement", TWO));
    for hour in 0..4 {
        let mut command = repo.aynig_command();
        command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", (hour * 3_600).to_string());
        command.output().expect("it runs");
    }
    let shown = shown(&repo, &run);
    assert_eq!(shown["status"], "paused", "{shown}");
    assert!(shown["waitingFor"].as_str().expect("words").contains("was moved to"), "{shown}");
    assert_eq!(repo.state(&run.driver), "flow-gate");
    assert!(
        std::path::Path::new(&format!("{}.away/half", run.worktree.display())).exists(),
        "the work is there"
    );
}

/// CONTRACT 20.4, 20.13
#[test]
fn what_an_agent_writes_elsewhere_is_no_work_of_the_run() {
    let repo = with_hostile("");
    let run = start(&repo, &flow("implement", TWO));
    let (top, directory) = (repo.path.display(), run.directory.display());
    let script = format!(
        "cat >/dev/null; echo half >half; echo evil >'{top}/evil'; echo changed >'{top}/README'
         echo junk >'{directory}'/status.json"
    );
    agent(&repo, "scripted", &script);
    let done = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement completed next", "next completed STOP"], "{}", told(&done));
    assert!(!is_kept(&repo, &run, "evil"), "the operator's files are no work");
    assert_eq!(repo.show(&format!("{}:README", run.work)), repo.show("main:README"));
    let text = std::fs::read(run.directory.join("status.json")).expect("status.json");
    let value: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(value["run_id"], run.id.as_str(), "made again from the ledger");
}

/// CONTRACT 19.6, 20.4
#[test]
fn an_agent_that_is_silent_and_busy_is_left_alone() {
    let repo =
        with_hostile("for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 0.5; echo $n >>work; done");
    let run =
        start(&repo, &flow("implement", &TWO.replacen("prompt: go", "prompt: go\n    idle_seconds: 2", 1)));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run)[0], "implement completed next");
    assert_eq!(repo.show(&format!("{}:work", run.work)).lines().count(), 16);
}

/// CONTRACT 20.4
#[test]
fn what_an_agent_leaves_running_is_gone_before_its_work_is_taken() {
    let script = "common=$(git rev-parse --git-common-dir)
        setsid sh -c 'while :; do echo more >>late; sleep 0.05; done' >/dev/null 2>&1 </dev/null &
        echo $! >\"$common/pid\"; until [ -s late ]; do sleep 0.05; done";
    let repo = with_hostile(script);
    let run = start(&repo, &flow("implement", TWO));
    repo.aynig_ok(["run", "--drain"]);
    let pid = std::fs::read_to_string(repo.path.join(".git/pid")).expect("a file");
    assert!(!is_alive(pid.trim().parse().expect("a process id")));
    assert_eq!(steps(&repo, &run), ["implement completed next", "next completed STOP"]);
    assert_eq!(repo.show(&format!("{}:seen", run.work)), "", "nothing was written after the snapshot");
}
