//! The work of a run: who sees it, what may land, and what must stay until it has landed.

use super::agent::with_agent;
use super::back::APPENDS;
use super::hosts::Field;
use super::*;

/// An agent, and a gate after it.
const ASKED: &str = concat!(agent_step!("one", "one", "ask"), gate_step!("STOP"));

/// CONTRACT 14.2, 21.13
#[test]
fn work_that_nobody_approved_lands_only_on_request() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", ASKED));
    repo.aynig_ok(["run", "--drain"]);
    let before = repo.head("main");
    repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    repo.aynig_ok(["run", "--drain"]);
    let refused = repo.aynig(["land", &run.work]);
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
    let said = err(&refused);
    assert!(said.contains("has not succeeded (rejected); nothing was landed"), "{said}");
    assert!(said.contains("`--unsuccessful`") && said.contains("aynig flow log"), "{said}");
    assert_eq!(repo.head("main"), before);
    // Nor is it advised.
    let listed = out(&repo.aynig_ok(["clean", "--workspaces", "--older-than", "0s"]));
    let remove = format!("aynig workspace remove --apply {}/flow", run.slug);
    assert!(listed.contains(&remove) && !listed.contains("aynig land"), "{listed}");
    let landed = err(&repo.aynig_ok(["land", &run.work, "--unsuccessful"]));
    assert!(landed.contains("has not succeeded (rejected)"), "{landed}");
    assert_ne!(repo.head("main"), before);
}

/// CONTRACT 14.2, 21.13
#[test]
fn a_landing_before_the_answer_is_named() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", ASKED));
    repo.aynig_ok(["run", "--drain"]);
    let landed = err(&repo.aynig_ok(["land", &run.work]));
    assert!(landed.contains("waits for an answer; what is landed was not approved"), "{landed}");
}

/// CONTRACT 15.9
#[test]
fn a_workspace_stays_until_its_run_has_ended() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", ASKED));
    repo.aynig_ok(["run", "--drain"]);
    let (work, remove) = (repo.head(&run.work), ["workspace", "remove", "--apply", &run.slug]);
    let refused = repo.aynig(remove);
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
    let said = err(&refused);
    let stop = format!("aynig flow stop {}", run.slug);
    assert!(said.contains("has not ended") && said.contains(&stop), "{said}");
    assert_eq!(repo.head(&run.work), work);
    repo.aynig_ok(["flow", "stop", &run.slug]);
    repo.aynig_ok(remove);
    assert!(!run.worktree.exists());
    let archive = format!("`git push REMOTE refs/aynig/archive/{}/flow:", run.id);
    assert_refused(&repo.aynig(["publish", &run.slug]), 1, &["was removed", &archive]);
}

/// CONTRACT 20.11, 20.35
#[test]
fn the_clone_that_started_a_run_sees_and_keeps_the_work_of_another_host() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", ASKED));
    second.aynig_ok(["run", "--drain"]);
    let work = second.head(&run.work);
    for clone in [first, &field.third("true")] {
        let shown = out(&clone.aynig_ok(["flow", "show", &run.slug]));
        assert!(shown.contains(&format!("at {}", &work[..10])), "{shown}");
        let look = shown.lines().find_map(|line| line.trim().strip_prefix("look")).expect("a look line");
        let words: Vec<&str> = look.split_whitespace().skip(1).collect();
        assert!(clone.git(words).contains("+one"), "{look}");
    }
    first.aynig_ok(["flow", "approve", &run.slug]);
    second.aynig_ok(["run", "--drain"]);
    assert_eq!(end(first, &run)[1], "succeeded");
    // A landing at the hub takes the branch that it has.
    let next = |clone: &Repo| json(&clone.aynig_ok(["flow", "show", &run.slug, "--json"]))["next"][0].clone();
    assert_eq!(next(first), format!("aynig publish {}", run.slug));
    // Its own branch is at the base still.
    let clean = ["clean", "--workspaces", "--older-than", "0s", "--apply"];
    let kept = out(&first.aynig_ok(clean));
    assert!(kept.contains("another host has newer work of it") && run.worktree.exists(), "{kept}");
    let refused = first.aynig(["land", &run.work]);
    let publish = format!("aynig publish {}/flow", run.slug);
    assert!(err(&refused).contains(&publish) && !err(&refused).contains("git push"), "{}", err(&refused));
    let published = first.aynig_ok(["publish", &format!("{}/flow", run.slug)]);
    assert!(!err(&published).contains("has no change"), "{}", err(&published));
    assert_eq!(next(first), format!("aynig land {}", run.work));
    first.aynig_ok(["land", &run.work]);
    first.git(["fetch", "-q", "origin"]);
    assert_eq!(first.git(["show", "origin/main:work"]).trim(), "one");
}

/// CONTRACT 20.24, 21.13
#[test]
fn a_commit_by_hand_is_shown_at_the_gate_and_named_after_the_end() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", ASKED));
    repo.aynig_ok(["run", "--drain"]);
    let by_hand = |words: &str| {
        std::fs::write(run.worktree.join("work"), words).expect("a file");
        let worktree = run.worktree.to_str().expect("UTF-8");
        repo.git(["-C", worktree, "commit", "-qam", "by hand"]);
        repo.head(&run.work)
    };
    let second = by_hand("one\ntwo\n");
    assert_eq!(repo.aynig(["flow", "approve", &run.slug]).status.code(), Some(1));
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains(&format!(" {}", &second[..10])), "the commit that is asked about: {shown}");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    let third = by_hand("one\ntwo\nthree\n");
    let landed = err(&repo.aynig_ok(["land", &run.work]));
    let log = format!("`git log {}..{}`", &second[..10], &third[..10]);
    assert!(landed.contains("has commits since then") && landed.contains(&log), "{landed}");
}

/// CONTRACT 20.14
#[test]
fn a_clone_without_a_remote_that_decides_names_the_setting() {
    let field = Field::new(APPENDS);
    let run = start(&field.hosts[0], &flow("one", ASKED));
    let clone = field.third("true");
    clone.git(["config", "--unset", "aynig.remote"]);
    let set = "git config aynig.remote origin";
    let listed = err(&clone.aynig_ok(["flow", "list"]));
    assert!(listed.contains("no flow run is known") && listed.contains(set), "{listed}");
    let shown = err(&clone.aynig(["flow", "show", &run.slug]));
    assert!(shown.contains(set), "{shown}");
}
