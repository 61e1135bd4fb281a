//! Branches below `aynig.workPrefix` are never run, and a tree of commands alone is not set up.

use super::scene::*;
use super::support::*;

/// CONTRACT 11.15
#[test]
fn branches_below_the_prefix_are_never_run() {
    let repo = Repo::scene(&[("work", "next done")]);
    for branch in ["work/a", "work/b/c", "works", "my/work/x"] {
        repo.ready(branch, "work");
    }
    let heads = ["work/a", "work/b/c"].map(|branch| repo.head(branch));
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(["work/a", "work/b/c"].map(|branch| repo.head(branch)), heads, "{}", told(&output));
    assert_eq!(["works", "my/work/x"].map(|branch| repo.state(branch)), ["done", "done"]);
    assert_eq!(err(&output), "", "nobody asked for them");
    // Naming one does not override the setting, and says what to do.
    for named in [["--branch", "work/a"], ["--branch", "work/*"]] {
        let output = repo.aynig_ok(["run"].into_iter().chain(named));
        assert_eq!(repo.head("work/a"), heads[0]);
        for words in ["work/a is below work/", "git config aynig.workPrefix"] {
            assert!(err(&output).replace("work/a: is", "work/a is").contains(words), "{}", told(&output));
        }
    }
    let rows = listed(&repo.aynig_ok(["status", "--json", "work/a"]));
    assert_eq!(
        (rows[0]["kind"].as_str(), rows[0]["cause"].as_str()),
        (Some("excluded"), Some("belowWorkPrefix"))
    );
    let text = out(&repo.aynig_ok(["status", "--all"]));
    assert!(text.contains("aynig.workPrefix"), "{text}");
    // That of a run needs no other name.
    repo.git(["branch", "work/0a1b2c3d/ada"]);
    let text = out(&repo.aynig_ok(["status", "work/0a1b2c3d/ada"]));
    assert!(text.contains("is the work branch of a run") && !text.contains("git config"), "{text}");
    // With another prefix they are ordinary branches.
    repo.git(["config", "aynig.workPrefix", "my/"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("work/a"), "done");
}

/// CONTRACT 11.15
#[test]
fn no_state_is_set_there_by_hand() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.git(["branch", "work/a"]);
    let head = repo.head("work/a");
    for verb in [&["set-state", "--state", "work"][..], &["set-state", "--retry"], &["set-working"]] {
        let output = repo.aynig(verb.iter().copied().chain(["--branch", "work/a"]));
        assert_refused(&output, 3, &["aynig.workPrefix", "nothing was changed"]);
    }
    assert_eq!(repo.head("work/a"), head);
}

#[test]
fn a_prefix_that_is_none_is_refused() {
    let repo = Repo::scene(&[("work", "next done")]);
    for odd in ["work", "/", "a..b/", "a b/"] {
        repo.git(["config", "aynig.workPrefix", odd]);
        assert_refused(&repo.aynig(["run"]), 3, &["aynig.workPrefix", "with a / at its end"]);
    }
    repo.git(["config", "aynig.workPrefix", ""]);
    repo.ready("work/a", "work");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("work/a"), "work", "an empty one counts as none, so the default holds");
}

/// CONTRACT 9.16, 9.17
#[test]
fn a_tree_of_commands_alone_is_not_set_up() {
    let look =
        r#"say "seen-$AYNIG_BRANCH" "$([ -e env ] && echo copied) $([ -e made ] && echo made)"; next done"#;
    let repo = Repo::scene(&[("work", look)]);
    repo.write(".worktreeinclude", "env\n");
    repo.write(".gitignore", "env\nmade\n");
    repo.write("env", "x\n");
    repo.git(["config", "aynig.setup", "touch made"]);
    let commands = repo.git(["ls-tree", "main", ".aynig"]);
    let tree = repo.git_with_input(&["mktree"], format!("{commands}\n").as_bytes());
    let driver = repo.git(["commit-tree", tree.trim(), "-m", "go", "-m", "dwp-state: work"]);
    repo.git(["branch", "driver", &driver]);
    repo.commit_all("files");
    repo.git(["config", "core.excludesFile", repo.path.join(".gitignore").to_str().expect("UTF-8")]);
    repo.ready("code", "work");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(repo.said("seen-code"), "copied made", "{}", told(&output));
    assert_eq!(repo.said("seen-driver").trim(), "", "{}", told(&output));
}
