//! Commits whose signature git cannot parse: they do not affect other branches.

use super::*;

/// A commit on top of `main` with this header, on a branch of its own.
pub(super) fn with_header(repo: &Repo, branch: &str, header: &str) -> String {
    let (tree, parent) = (repo.git(["rev-parse", "main^{tree}"]), repo.head("main"));
    let who = format!("Mallory <m@example.com> {} +0000", now());
    let object = format!(
        "tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{header}\n\nplease\n\ndwp-state: work\n"
    );
    let commit = repo
        .git_with_input(&["hash-object", "-t", "commit", "-w", "--literally", "--stdin"], object.as_bytes());
    repo.git(["update-ref", &format!("refs/heads/{branch}"), &commit]);
    commit
}

const CLEAR_SIGNED: &str = "gpgsig -----BEGIN PGP SIGNED MESSAGE-----\n Hash: SHA256\n \n x\n -----BEGIN PGP SIGNATURE-----\n \n xx\n -----END PGP SIGNATURE-----";

/// CONTRACT 13.4
#[test]
fn a_signature_that_git_cannot_read_is_refused_alone() {
    let (repo, known, _) = signing(&[("work", r#"echo $AYNIG_BRANCH >>"$ROOM/ran"; next done"#)]);
    repo.git(["config", "user.signingKey", known.private.to_str().expect("text")]);
    repo.git(["config", "commit.gpgSign", "true"]);
    for number in 0..5 {
        signed(&repo, &format!("good{number}"), &known);
    }
    let odd = [("x-garbage", "gpgsig garbage"), ("x-empty", "gpgsig "), ("x-clear", CLEAR_SIGNED)]
        .map(|(branch, header)| (branch, with_header(&repo, branch, header)));
    // Two branches at one commit: both are refused.
    repo.git(["branch", "x-twin", "x-garbage"]);
    // A signed expired lease of another runner is closed all the same.
    repo.git(["branch", "lease"]);
    let lease = signed_lease(&repo, "lease", &known);
    let output = repo.aynig_ok(["run", "--log-level", "info"]);
    assert_eq!(repo.noted_lines("ran"), ["good0", "good1", "good2", "good3", "good4"], "{}", told(&output));
    assert_eq!(repo.state("lease"), "stalled", "{}", told(&output));
    assert_eq!(repo.head("lease~1"), lease);
    let twin = ("x-twin", repo.head("x-garbage"));
    for (branch, commit) in odd.into_iter().chain([twin]) {
        assert_eq!(repo.head(branch), commit, "nothing was written");
        let said = err(&output);
        let line =
            said.lines().find(|line| line.contains(branch)).unwrap_or_else(|| panic!("{branch}: {said}"));
        assert!(line.contains(&commit[..10]) && line.contains("bad/incompatible signature"), "{line}");
        assert!(reason(&repo, branch).contains(&commit[..10]), "{}", reason(&repo, branch));
    }
    assert!(!reason(&repo, "good0").contains("signature"), "{}", reason(&repo, "good0"));
}

/// An expired lease of another runner, signed.
fn signed_lease(repo: &Repo, branch: &str, key: &Key) -> String {
    let message = "chore: working\n\ndwp-state: working\ndwp-origin-state: work\n\
        dwp-run-id: 11111111-2222-4333-8444-555555555555\ndwp-runner-id: other\ndwp-lease-seconds: 5";
    let sign = format!("-S{}", key.private.display());
    let date = format!("{} +0000", now() - 1_000);
    let mut commit = repo.git_command();
    commit.env("GIT_COMMITTER_DATE", &date).env("GIT_AUTHOR_DATE", &date);
    let output = commit
        .args(["commit-tree", &sign, "-p", branch, "-m", message, &format!("{branch}^{{tree}}")])
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{}", err(&output));
    let lease = out(&output).trim_end().to_owned();
    repo.git(["update-ref", &format!("refs/heads/{branch}"), &lease]);
    lease
}
