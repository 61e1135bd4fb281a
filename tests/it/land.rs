//! `aynig land`: one clean commit on the default branch, never over another's work.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use super::scene::*;
use super::support::*;

const MAKE: &str = "echo made >made.txt; git add made.txt; next done";

/// A repository with the finished branch `task` and the checkout on `away`.
pub(super) fn finished() -> Repo {
    let repo = Repo::scene(&[("work", MAKE)]);
    repo.branch_with_message(
        "task",
        b"Make it\n\nAll of it.\n\ndwp-state: work\ndwp-limit: 3\nReviewed-by: R\n",
    );
    repo.git(["checkout", "-q", "-b", "away"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    repo
}

/// A commit with one file and no state, on a branch.
pub(super) fn plain(repo: &Repo, branch: &str, file: &str, text: &str, message: &str) -> String {
    let here = repo.git(["rev-parse", "--abbrev-ref", "HEAD"]);
    repo.git(["checkout", "-q", branch]);
    repo.write(file, text);
    repo.git(["add", file]);
    repo.git(["commit", "-q", "-m", message]);
    repo.git(["checkout", "-q", &here]);
    repo.head(branch)
}

fn parents(repo: &Repo, revision: &str) -> Vec<String> {
    repo.git(["log", "-1", "--format=%P", revision]).split_whitespace().map(str::to_owned).collect()
}

pub(super) fn land(repo: &Repo, options: &[&str]) -> Output {
    repo.aynig(["land", "task"].iter().chain(options).copied())
}

pub(super) fn landed(repo: &Repo, options: &[&str]) -> Output {
    let output = land(repo, options);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    output
}

/// Asserts that `land` is refused with these words and that `main` did not move.
fn refused(repo: &Repo, options: &[&str], code: i32, words: &[&str]) {
    let before = repo.head("main");
    assert_refused(&land(repo, options), code, words);
    assert_eq!(repo.head("main"), before);
}

/// CONTRACT 14.1, 14.2
#[test]
fn a_finished_branch_becomes_one_commit_without_the_workflows_trailers() {
    let repo = finished();
    let (main, task) = (repo.head("main"), repo.head("task"));
    let output = landed(&repo, &[]);
    assert!(out(&output).starts_with("main  ← task  Make it  ("), "{}", told(&output));
    assert!(err(&output).contains("`git branch -D task`"), "{}", told(&output));
    assert_eq!(repo.message("main"), "Make it\n\nAll of it.\n\nReviewed-by: R");
    assert_eq!(parents(&repo, "main"), [main]);
    assert_eq!(repo.show("main:made.txt"), "made");
    assert_eq!(repo.head("task"), task);
    let checked_out = finished();
    checked_out.git(["checkout", "-q", "task"]);
    let output = landed(&checked_out, &[]);
    assert!(err(&output).contains("`git branch -D task` removes the branch once"), "{}", told(&output));
    assert_eq!(repo.git(["status", "--porcelain"]), "", "the checked-out branch is left alone");
    let again = landed(&repo, &["--json"]);
    let again = json(&again);
    assert_eq!((&again["landed"], &again["into"]), (&false.into(), &"main".into()), "{again:#}");
    assert!(out(&landed(&repo, &["--merge"])).starts_with("nothing to land: main has all"));
}

/// CONTRACT 14.2
#[test]
fn the_message_is_of_who_did_the_work() {
    let repo = finished();
    plain(&repo, "task", "more.txt", "more\n", "Do more\n\nWhy.\n\nCo-authored-by: A <a@b>\nFixes: 7");
    landed(&repo, &[]);
    assert_eq!(repo.message("main"), "Do more\n\nWhy.\n\nReviewed-by: R\nCo-authored-by: A <a@b>\nFixes: 7");

    let repo = finished();
    plain(&repo, "task", "a.txt", "a\n", "Do a");
    plain(&repo, "task", "b.txt", "b\n", "Do b");
    landed(&repo, &[]);
    assert_eq!(repo.message("main"), "Make it\n\nAll of it.\n\n- Do a\n- Do b\n\nReviewed-by: R");

    let repo = finished();
    landed(&repo, &["--subject", "Mine", "--body", "My words."]);
    assert_eq!(repo.message("main"), "Mine\n\nMy words.\n\nReviewed-by: R");
    let repo = finished();
    refused(&repo, &["--subject", "two\n\nparts"], 2, &["could not land task", "--subject TEXT"]);

    // Lines that would be parsed as trailers are left out.
    let repo = Repo::scene(&[]);
    repo.git(["branch", "task"]);
    plain(&repo, "task", "c.txt", "c\n", "Do c\n\ndwp-state: work\n\ndwp-note: y");
    let output = landed(&repo, &[]);
    assert!(err(&output).contains("the body was left out"), "{}", told(&output));
    assert_eq!(repo.message("main"), "Do c");
}

/// CONTRACT 14.1
#[test]
fn merged_it_keeps_its_commits_and_declares_nothing() {
    let repo = finished();
    let (main, task) = (repo.head("main"), repo.head("task"));
    let report = json(&landed(&repo, &["--merge", "--json"]));
    assert_eq!(parents(&repo, "main"), [main.clone(), task]);
    assert_eq!(repo.message("main"), "Merge branch 'task'");
    assert_eq!(report["commit"], repo.head("main"), "{report:#}");
    assert_eq!(report["parent"], main, "{report:#}");
    assert_refused(&land(&repo, &["--merge", "--squash"]), 2, &["cannot be used with"]);
}

/// CONTRACT 14.4
#[test]
fn a_clean_checkout_goes_along_and_no_other() {
    let repo = finished();
    repo.git(["checkout", "-q", "main"]);
    repo.write("README", "mine\n");
    refused(&repo, &[], 3, &["main is checked out in", "differ from what is committed", "stash"]);
    repo.git(["add", "README"]);
    refused(&repo, &[], 3, &["differ from what is committed"]);
    repo.git(["reset", "-q", "--hard"]);
    repo.write("made.txt", "untracked, mine\n");
    refused(&repo, &[], 3, &["cannot go along", "made.txt"]);
    assert_eq!(std::fs::read_to_string(repo.path.join("made.txt")).expect("there"), "untracked, mine\n");
    std::fs::rename(repo.path.join("made.txt"), repo.path.join("other.txt")).expect("renamed");
    let output = landed(&repo, &[]);
    assert!(err(&output).contains("went along"), "{}", told(&output));
    assert_eq!(std::fs::read_to_string(repo.path.join("made.txt")).expect("there"), "made\n");
    assert_eq!(repo.git(["status", "--porcelain"]), "?? other.txt");

    // Another worktree shows it as well.
    let repo = finished();
    repo.git(["worktree", "add", "-q", "../elsewhere", "main"]);
    repo.write("../elsewhere/README", "mine\n");
    refused(&repo, &[], 3, &["elsewhere", "differ from what is committed"]);
    repo.git(["-C", "../elsewhere", "checkout", "-q", "README"]);
    landed(&repo, &[]);
    assert_eq!(repo.git(["-C", "../elsewhere", "status", "--porcelain"]), "");
    assert!(repo.beside("elsewhere/made.txt").exists());

    let repo = finished();
    repo.git(["checkout", "-q", "main"]);
    repo.git(["worktree", "add", "-q", "-f", "../elsewhere", "main"]);
    refused(&repo, &[], 3, &["and in", "switch --detach"]);
}

/// CONTRACT 14.4
#[test]
fn what_is_not_concluded_there_is_not_disturbed() {
    let repo = finished();
    plain(&repo, "main", "x.txt", "x\n", "x");
    repo.git(["checkout", "-q", "main"]);
    repo.git(["merge", "-q", "--no-ff", "--no-commit", "-s", "ours", "task"]);
    refused(&repo, &[], 3, &["a merge is not concluded", "git merge --abort"]);
    repo.git(["merge", "--abort"]);
    let mut rebase = repo.git_command();
    rebase.args(["rebase", "-q", "--force-rebase", "--exec", "false", "main~1"]);
    assert!(!rebase.output().expect("git runs").status.success(), "it stops in the middle");
    refused(&repo, &[], 3, &["a rebase or a bisect of it is under way"]);
}

/// CONTRACT 14.3
#[test]
fn conflicts_are_told_and_nothing_is_written() {
    let repo = finished();
    plain(&repo, "main", "made.txt", "otherwise\n", "made otherwise");
    plain(&repo, "main", "x.txt", "x\n", "beside");
    refused(&repo, &[], 1, &["task and main both change made.txt", "git switch task && git merge main"]);
    let output = land(&repo, &["--json"]);
    assert_eq!(json(&output)["conflicts"], serde_json::json!(["made.txt"]), "{}", told(&output));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // Its advice works.
    repo.git(["switch", "-q", "task"]);
    repo.git(["merge", "-q", "-X", "ours", "-m", "merged", "main"]);
    landed(&repo, &[]);
    assert_eq!((repo.show("main:made.txt"), repo.show("main:x.txt")), ("made".to_owned(), "x".to_owned()));
    assert_eq!(parents(&repo, "main").len(), 1);
}

/// CONTRACT 14.3
#[test]
fn a_lease_keeps_others_away_until_it_is_over() {
    let repo = finished();
    let done = repo.head("task");
    repo.taken_by_other(&done, "task", 300);
    refused(&repo, &[], 1, &["task is under a lease of other-host", "aynig status --watch --branch task"]);
    // Commits of the command on top do not hide the lease.
    repo.branch_from("task", "task", b"own\n");
    refused(&repo, &[], 1, &["task is under a lease of other-host"]);
    repo.git(["update-ref", "refs/heads/task", &done]);
    let main = repo.head("main");
    repo.taken_by_other(&main, "main", 300);
    refused(&repo, &[], 1, &["main is under a lease of other-host"]);
    repo.git(["update-ref", "refs/heads/main", &main]);
    repo.dated_lease("task", "gone-host", 30, -100);
    let output = landed(&repo, &[]);
    assert!(err(&output).contains("came to no end"), "{}", told(&output));
}

#[test]
fn what_a_person_may_have_overlooked_is_told() {
    let repo = finished();
    repo.branch_from(
        "task",
        "task",
        b"s\n\ndwp-state: stalled\ndwp-stalled-run: x\ndwp-origin-state: work\n",
    );
    let output = landed(&repo, &[]);
    assert!(err(&output).contains("task is stalled"), "{}", told(&output));

    let repo = finished();
    repo.branch_from("task", "task", b"s\n\ndwp-state: work\n");
    repo.branch_from("main", "main", b"s\n\ndwp-state: odd\n");
    let output = landed(&repo, &[]);
    assert!(err(&output).contains("task still asks for work"), "{}", told(&output));
    assert!(
        err(&output).contains("main declared the state odd, which this commit ends"),
        "{}",
        told(&output)
    );
    assert_eq!(repo.state("main"), "");
}

/// CONTRACT 14.1
#[test]
fn what_the_branch_waits_for_is_told_before_it_is_deleted() {
    for (state, words) in [
        ("dwp-waits-for: ana\n", "task waits for an answer of ana; `aynig answer task`"),
        ("dwp-not-before: 2999-01-01T00:00:00Z\n", "task is parked until 2999-01-01T00:00:00Z"),
        ("", "a deferred state waits for task; `aynig set-state --withdraw task` removes it"),
    ] {
        let repo = finished();
        let state = if state.is_empty() {
            "dwp-state: work\n".to_owned()
        } else {
            format!("dwp-state: ask\n{state}")
        };
        repo.branch_from("task", "task", format!("s\n\n{state}").as_bytes());
        if state.contains("work") {
            repo.aynig_ok(["set-state", "task", "--state", "later", "--when-free"]);
        }
        let output = landed(&repo, &[]);
        assert!(err(&output).contains(words), "{}", told(&output));
        assert!(!err(&output).contains("git branch -D"), "{}", told(&output));
    }
}

/// CONTRACT 14.1
#[test]
fn a_target_that_moves_meanwhile_is_left_as_it_is_then() {
    let repo = finished();
    let git_dir = repo.path.join(".git");
    // A signing program that commits to the branch while it signs.
    let script = format!(
        "#!/bin/sh\ncat >/dev/null\nexport GIT_DIR='{0}'\n\
         git update-ref refs/heads/main $(git -c commit.gpgSign=false commit-tree -m other -p main main^{{tree}})\n\
         echo '[GNUPG:] SIG_CREATED ' >&2\n\
         printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'\n",
        git_dir.display()
    );
    let signer = repo.beside("signer");
    std::fs::write(&signer, script).expect("a program");
    std::fs::set_permissions(&signer, PermissionsExt::from_mode(0o755)).expect("chmod");
    repo.git(["config", "gpg.program", signer.to_str().expect("UTF-8")]);
    repo.git(["config", "commit.gpgSign", "true"]);
    assert_refused(&land(&repo, &[]), 1, &["main moved meanwhile", "the same again"]);
    assert_eq!(repo.message("main"), "other");
    assert!(!repo.paths_in("main").contains(&"made.txt".to_owned()));
}

/// CONTRACT 14.1, 14.4
#[test]
fn where_a_remote_decides_it_is_landed_there_and_only_there() {
    let hub = finished().into_bare();
    hub.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    let clone = hub.clone_beside("clone");
    let (here, there) = (clone.head("HEAD"), hub.head("main"));
    clone.write("README", "mine\n");
    let output = landed(&clone, &["--remote", "origin"]);
    assert!(err(&output).contains("git pull"), "{}", told(&output));
    assert_eq!(
        (hub.message("main"), parents(&hub, "main")),
        ("Make it\n\nAll of it.\n\nReviewed-by: R".to_owned(), vec![there])
    );
    assert_eq!(clone.head("HEAD"), here);
    assert_eq!(clone.git(["status", "--porcelain"]), " M README");
    // Commits that only this clone has go on top.
    clone.git(["commit", "-q", "-a", "-m", "mine"]);
    clone.git(["fetch", "-q"]);
    clone.git(["branch", "-q", "late", "origin/main"]);
    plain(&clone, "late", "late.txt", "late", "late");
    clone.git(["push", "-q", "origin", "late"]);
    let output = clone.aynig_ok(["land", "late", "--remote", "origin"]);
    assert!(err(&output).contains("`git pull --rebase` brings it here"), "{}", told(&output));
    clone.git(["pull", "-q", "--rebase"]);
    assert_eq!(clone.git(["log", "-2", "--format=%s"]), "mine\nlate");
    hub.branch_from("task", "other", b"declared\n\ndwp-state: working\ndwp-run-id: 11111111-2222-4333-8444-555555555555\ndwp-lease-seconds: 300\n");
    assert_refused(
        &clone.aynig(["land", "other", "--remote", "origin"]),
        1,
        &["other is under a lease", "--remote origin"],
    );
}

/// CONTRACT 14.3
#[test]
fn where_a_remote_decides_the_commands_for_a_conflict_are_for_what_it_has() {
    let hub = finished().into_bare();
    hub.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    let (clone, other) = (hub.clone_beside("clone"), hub.clone_beside("other"));
    // The branch of the clone is an old one.
    clone.git(["branch", "-q", "task", "origin/task~1"]);
    for (branch, text) in [("main", "main's\n"), ("task", "task's\n")] {
        other.git(["switch", "-q", branch]);
        other.write("README", text);
        other.git(["commit", "-q", "-a", "-m", branch]);
        other.git(["push", "-q", "origin", branch]);
    }
    let output = clone.aynig(["land", "task", "--remote", "origin"]);
    assert_refused(&output, 1, &["task and main both change README"]);
    let words = err(&output);
    let commands: Vec<&str> = words.split('`').filter(|part| part.starts_with("git ")).collect();
    let [merge, push] = commands[..] else { panic!("{words}") };
    let sh = |command: &str| {
        let mut shell = std::process::Command::new("/bin/sh");
        hermetic(&mut shell).current_dir(&clone.path).args(["-c", command]).output().expect("a shell")
    };
    assert!(!sh(merge).status.success(), "there is a conflict");
    clone.write("README", "both\n");
    clone.git(["commit", "-q", "-a", "-m", "resolved"]);
    let pushed = sh(push);
    assert!(pushed.status.success(), "{}", told(&pushed));
    let output = landed(&clone, &["--remote", "origin"]);
    assert_eq!((hub.show("main:README"), hub.show("main:made.txt")), ("both".to_owned(), "made".to_owned()));
    // HEAD is on no branch, where `git pull` fails.
    assert!(err(&output).contains("`git fetch origin` brings it here"), "{}", told(&output));
}

/// CONTRACT 14.4
#[test]
fn a_target_whose_worktree_is_gone_is_named_with_the_command() {
    for lock in [false, true] {
        let repo = finished();
        repo.git(["worktree", "add", "-q", "../elsewhere", "main"]);
        if lock {
            repo.git(["worktree", "lock", "../elsewhere"]);
        }
        std::fs::remove_dir_all(repo.beside("elsewhere")).expect("removed");
        refused(
            &repo,
            &[],
            3,
            &["elsewhere, which is gone; nothing was changed", "git worktree prune` ends"],
        );
        let words = err(&land(&repo, &[]));
        let command = words.split('`').find(|part| part.ends_with("prune")).expect("a command").to_owned();
        let mut shell = std::process::Command::new("/bin/sh");
        hermetic(&mut shell).current_dir(&repo.path).args(["-c", &command]);
        assert!(shell.status().expect("a shell").success(), "{words}");
        landed(&repo, &[]);
    }
}

/// CONTRACT 11.13, 14.1
#[test]
fn a_clone_that_never_fetched_finds_the_default_branch_of_its_remote() {
    let hub = finished().into_bare();
    let clone = Repo::new();
    clone.git(["branch", "--move", "main", "mine"]);
    clone.git(["remote", "add", "origin", hub.path.to_str().expect("UTF-8")]);
    landed(&clone, &["--remote", "origin"]);
    assert_eq!(hub.message("main"), "Make it\n\nAll of it.\n\nReviewed-by: R");
}

#[test]
fn in_a_bare_repository_no_checkout_is_missed() {
    let bare = finished().into_bare();
    landed(&bare, &[]);
    assert_eq!(bare.show("main:made.txt"), "made");
}

#[test]
fn attributes_are_those_of_the_target() {
    let repo = Repo::scene(&[]);
    repo.write("list", "1\n");
    repo.write(".gitattributes", "list merge=union\n");
    repo.commit_all("a list");
    repo.git(["branch", "task"]);
    plain(&repo, "task", "list", "1\n2\n", "two");
    plain(&repo, "main", "list", "1\n3\n", "three");
    repo.git(["checkout", "-q", "--orphan", "empty"]);
    repo.git(["rm", "-rqf", "."]);
    landed(&repo, &[]);
    assert_eq!(repo.show("main:list").lines().count(), 3);
}

#[test]
fn what_cannot_be_meant_is_said() {
    let repo = finished();
    refused(&repo, &["--into", "task"], 2, &["task cannot be landed on itself", "--into BRANCH"]);
    refused(&repo, &["--into", "trunk"], 1, &["trunk"]);
    assert_refused(&repo.aynig(["land", "tusk"]), 1, &["tusk", "did you mean task?"]);
    repo.git(["branch", "trunk", "main"]);
    let main = repo.head("main");
    landed(&repo, &["--into", "trunk"]);
    assert_eq!((repo.show("trunk:made.txt"), repo.head("main")), ("made".to_owned(), main));
    let root = repo.git(["commit-tree", "-m", "a root", "task^{tree}"]);
    repo.git(["update-ref", "refs/heads/task", &root]);
    refused(&repo, &[], 1, &["no commit in common", "--allow-unrelated-histories"]);
    repo.git(["branch", "-m", "main", "other"]);
    assert_refused(&land(&repo, &[]), 2, &["no default branch", "--into BRANCH"]);
}

#[test]
fn a_git_that_cannot_merge_without_a_checkout_is_told_of() {
    let repo = finished();
    let bin = repo.beside("bin");
    std::fs::create_dir(&bin).expect("a directory");
    let path = std::env::var_os("PATH").expect("PATH");
    let mut real = std::env::split_paths(&path).map(|place| place.join("git"));
    let real = real.find(|git| git.exists()).expect("git");
    let script = format!(
        "#!/bin/sh\nfor word in \"$@\"; do case $word in merge-tree) exit 129;; esac; done\nexec '{}' \"$@\"\n",
        real.display()
    );
    let git = bin.join("git");
    std::fs::write(&git, script).expect("a program");
    std::fs::set_permissions(&git, PermissionsExt::from_mode(0o755)).expect("chmod");
    let path = std::env::join_paths([bin, real.parent().expect("a directory").to_owned(), "/bin".into()])
        .expect("a path");
    let old = |branch: &str| {
        repo.aynig_command().env("PATH", &path).args(["land", branch]).output().expect("aynig runs")
    };
    repo.git(["branch", "second", "task"]);
    // If there is nothing to merge, the newer git is not needed.
    let output = old("task");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    plain(&repo, "second", "second.txt", "2\n", "second");
    assert_refused(&old("second"), 3, &["2.38", "git merge --squash second"]);
}

/// A signing program that changes a file in the checkout while it signs.
const CHANGES: &str = "#!/bin/sh\ncat >/dev/null\nt=$(tr a-y b-z <'REPO/README')\nprintf '%s\\n' \"$t\" >'REPO/README'\necho '[GNUPG:] SIG_CREATED ' >&2\n\
    printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'\n";

/// CONTRACT 14.4
#[test]
fn a_file_that_is_changed_before_the_checkout_goes_along_keeps_the_branch_where_it_is() {
    let repo = finished();
    plain(&repo, "task", "README", "theirs\n", "readme\n\ndwp-state: done");
    repo.git(["switch", "-q", "main"]);
    let signer = repo.beside("signer");
    let script = CHANGES.replace("REPO", repo.path.to_str().expect("UTF-8"));
    std::fs::write(&signer, script).expect("a program");
    std::fs::set_permissions(&signer, PermissionsExt::from_mode(0o755)).expect("chmod");
    repo.git(["config", "gpg.program", signer.to_str().expect("UTF-8")]);
    repo.git(["config", "commit.gpgSign", "true"]);
    refused(
        &repo,
        &[],
        1,
        &["did not go along", "main was not moved; nothing was changed", "the same again"],
    );
    assert_eq!(repo.git(["status", "--porcelain"]), " M README");
    assert!(!repo.path.join("made.txt").exists());
    repo.git(["config", "commit.gpgSign", "false"]);
    repo.git(["checkout", "--", "README"]);
    landed(&repo, &[]);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

/// CONTRACT 14.1
#[test]
fn the_work_of_a_workspace_lands_without_its_trailers() {
    let repo = Repo::new();
    let made = repo.made("fix");
    made.sh(&repo, "echo one >one");
    repo.workspace_ok(["snapshot", &made.slug]);
    let landed = |branch: &str| {
        let output = repo.aynig(["land", branch]);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        repo.message("main")
    };
    // Snapshots say nothing of the work.
    assert_eq!(landed(&made.branch), format!("Land {}", made.branch));
    made.sh(&repo, "echo two >two");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert!(!landed(&made.branch).contains("aynig-run"), "{}", repo.message("main"));
    // A remote decides, and has not the branch.
    let clone = repo.clone_beside("clone");
    clone.git(["config", "aynig.remote", "origin"]);
    clone.git(["branch", "work/x/fix"]);
    let output = clone.aynig(["land", "work/x/fix"]);
    assert_refused(
        &output,
        1,
        &["there is no branch work/x/fix on origin", "it is in this clone", "git push origin work/x/fix"],
    );
}
