//! Commands from one ref where signatures are required: that ref needs a good signature too (CONTRACT 13.9).

use super::*;

/// CONTRACT 13.9
#[test]
fn where_commands_come_from_is_signed_too() {
    let (repo, known, unknown) = signing(&[("work", r#"echo ran >>"$ROOM/ran"; next done"#)]);
    let sign = |key: &Key, branch: &str| {
        let sign = format!("-S{}", key.private.display());
        let commit = repo.git(["commit-tree", &sign, "-p", "main", "-m", "commands", "main^{tree}"]);
        repo.git(["update-ref", &format!("refs/heads/{branch}"), &commit]);
    };
    repo.git(["branch", "plain"]);
    sign(&unknown, "foreign");
    sign(&known, "tools");
    repo.git(["tag", "-a", "-m", "a release", "v1", "plain"]);
    repo.git(["config", "aynig.commandsFrom", "plain"]);
    let head = signed(&repo, "task", &known);
    for (name, words) in [
        ("plain", "is not signed"),
        ("refs/tags/v1", "is not signed"),
        ("foreign", "not among those trusted"),
    ] {
        let output = repo.aynig(["run", "--commands-from", name]);
        let id = repo.head(&format!("{name}^{{commit}}"));
        assert_refused(&output, 3, &["nothing was run", name, words, "aynig.requireSigned", &id]);
        repo.git(["config", "aynig.commandsFrom", name]);
        let told = reason(&repo, "task");
        assert!(told.contains(words) && told.contains(name), "{name}: {told}");
        let check = out(&repo.aynig(["doctor"]));
        assert!(check.lines().any(|line| line.starts_with("error") && line.contains(words)), "{check}");
        assert_eq!(repo.head("task"), head, "{name}");
    }
    assert!(!was_said(&repo, "ran"));
    // An object id is a hash of the contents, so it cannot be redirected.
    for name in ["tools", "refs/heads/tools", &repo.head("plain"), &repo.git(["rev-parse", "v1"])] {
        signed(&repo, "task", &known);
        repo.aynig_ok(["run", "--commands-from", name]);
        assert_eq!(repo.state("task"), "done", "{name}");
    }
    signed(&repo, "task", &known);
    repo.git(["config", "aynig.requireSigned", "false"]);
    repo.aynig_ok(["run", "--commands-from", "plain"]);
    assert_eq!(repo.state("task"), "done", "nobody requires it");
    signed(&repo, "task", &known);
    let output = repo.aynig(["run", "--commands-from", "plain", "--require-signed"]);
    assert_refused(&output, 3, &["nothing was run"]);
}
