//! Which remote, branch and base are meant, and which are refused.

use super::*;

/// CONTRACT 21.2, 21.3
#[test]
fn names_that_are_refused() {
    let field = Field::new();
    field.hub.git(["branch", "release/1", "main"]);
    field.hub.git(["branch", "dev", "main"]);
    let refs = field.hub.git(["for-each-ref"]);
    for (options, code, words) in [
        (&["--branch", "main"][..], 2, "to be merged into"),
        (&["--branch", "dev", "--into", "dev"], 2, "to be merged into"),
        (&["--branch", "release/1"], 2, "protected branch"),
        (&["--branch", "main", "--into", "dev"], 2, "protected branch"),
        (&["--branch", "a..b"], 2, "a..b"),
        (&["--into", "nowhere"], 2, "has no branch nowhere"),
        (&["--remote", "elsewhere"], 2, "elsewhere"),
        (&["--remote", "orign"], 2, "did you mean origin?"),
        (&["--node", "other"], 1, "no workspace"),
    ] {
        assert_refused(&field.publish(options), code, &[words]);
    }
    assert_eq!(field.hub.git(["for-each-ref"]), refs);
    field.repo.git(["config", "aynig.protectedBranches", "dev*"]);
    assert_refused(&field.publish(&["--branch", "dev2"]), 2, &["protected branch"]);
    let done =
        field.published(&["--branch", "mine", "--into", "dev", "--node", "flow", "--remote", "origin"]);
    assert_eq!((&done["branch"], &done["base"]), (&"mine".into(), &"dev".into()));
    assert_eq!(field.hub.head("mine"), field.head());
}

/// CONTRACT 21.2
#[test]
fn of_several_workspaces_the_flows_is_meant() {
    let field = Field::new();
    let other = made_in(&field.repo, field.run, "node-a");
    assert_eq!(field.published(&[])["name"], "flow");
    other.sh(&field.repo, "echo o >o; git add o; git commit -qm o");
    assert_eq!(field.published(&["--node", "node-a"])["name"], "node-a");
    assert_eq!(field.hub.head(&other.branch), field.repo.head(&other.branch));
    field.repo.workspace_ok(["remove", "--apply", &field.made.handle]);
    made_in(&field.repo, field.run, "node-b");
    assert_refused(&field.publish(&[]), 2, &["can mean", "--node"]);
    // It is the ledger that counts, wherever the worktrees are.
    std::fs::remove_dir_all(field.repo.path.join(".git/aynig/data")).expect("it is there");
    assert_refused(&field.publish(&[]), 2, &["can mean", "/node-a or ", "/node-b", "--node"]);
}

/// CONTRACT 21.2
#[test]
fn the_remote_is_found_or_asked_for() {
    let field = Field::new();
    field.repo.git(["remote", "rename", "origin", "there"]);
    assert_eq!(field.published(&[])["remote"], "there");
    field.repo.git(["remote", "add", "second", field.hub.path.to_str().expect("UTF-8")]);
    assert_refused(&field.publish(&[]), 2, &["--remote NAME"]);
    field.repo.git(["config", "aynig.remote", "second"]);
    assert_eq!(field.published(&[])["remote"], "second");
    for remote in ["there", "second"] {
        field.repo.git(["remote", "remove", remote]);
    }
    field.repo.git(["config", "--unset", "aynig.remote"]);
    assert_refused(&field.publish(&[]), 3, &["no remote"]);
}

/// CONTRACT 21.2
#[test]
fn people_publish_and_commands_do_not() {
    let field = Field::new();
    for name in ["AYNIG_BRANCH", "AYNIG_ORCH_RUN", "AYNIG_ORCH_TURN"] {
        let output = field.command(&[]).env(name, "x").output().expect("aynig runs");
        assert_refused(&output, 1, &[name, "a person"]);
    }
    assert_eq!(field.there(), "");
}

/// CONTRACT 21.7
#[test]
fn the_page_that_compares_is_named_if_it_is_known() {
    let field = Field::new();
    let address = "https://someone:s3cret@github.com/acme/tool.git";
    let hub = field.hub.path.to_str().expect("UTF-8").to_owned();
    field.repo.git(["remote", "set-url", "origin", address]);
    field.repo.git(["config", &format!("url.{hub}.insteadOf"), address]);
    let output = field.publish(&[]);
    let page = format!("https://github.com/acme/tool/compare/main...{}", field.made.branch);
    assert!(out(&output).contains(&page), "{}", told(&output));
    let messages = field.repo.git(["log", "--format=%B", &format!("refs/aynig/runs/{}", field.run)]);
    assert!(!messages.contains("s3cret") && messages.contains("github.com/acme/tool"), "{messages}");
    assert!(!field.context().to_string().contains("s3cret"));
    // The same repository, reached in another way, has what was published.
    field.published(&["--squash"]);
    let other = "git@github.com:acme/tool.git";
    field.repo.git(["remote", "set-url", "origin", other]);
    field.repo.git(["config", "--add", &format!("url.{hub}.insteadOf"), other]);
    field.work("two");
    assert_eq!(field.published(&["--squash"])["pushed"], true);
}

/// CONTRACT 21.7
#[test]
fn a_wrong_forge_is_named_before_anything_is_pushed() {
    let field = Field::new();
    for wrong in ["github", "sh -c true", "./forge"] {
        field.repo.git(["config", "aynig.forge", wrong]);
        assert_refused(&field.publish(&[]), 3, &["aynig.forge", "push-options, agit"]);
        assert!(out(&field.repo.aynig(["doctor"])).contains("push-options, agit"));
    }
    field.repo.git(["config", "aynig.forge", "/no/such/program"]);
    assert!(
        out(&field.repo.aynig(["doctor"])).contains("/no/such/program of aynig.forge is no executable file")
    );
    field.repo.git(["config", "aynig.forge", "gh"]);
    assert_refused(&field.publish(&[]), 3, &["no repository on GitHub"]);
    assert_eq!(field.there(), "");
}
