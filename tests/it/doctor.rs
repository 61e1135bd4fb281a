//! `aynig doctor`: each check is seen passing and failing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::support::*;

const ATTEMPT: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

/// A repository without problems.
pub(crate) fn healthy() -> Repo {
    let repo = Repo::with_commands(&[("build", "echo 'SET_STATE {\"state\":\"done\"}'")]);
    repo.aynig_ok(["init"]);
    repo.commit_all("init");
    repo
}

fn doctor(command: &mut Command, exit: i32) -> Value {
    let output = command.args(["doctor", "--json"]).output().expect("aynig runs");
    let report = json(&output);
    assert_eq!(output.status.code(), Some(exit), "{report:#}");
    report
}

pub(crate) fn findings<'a>(report: &'a Value, check: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().expect("a list").iter();
    let found: Vec<&Value> = all.filter(|finding| finding["check"] == check).collect();
    assert!(!found.is_empty(), "{check}: {report:#}");
    found
}

/// Asserts that all findings of a check are `ok`.
fn fine(report: &Value, check: &str) {
    for finding in findings(report, check) {
        assert_eq!(finding["level"], "ok", "{finding:#}");
        assert_eq!(finding["next"], Value::Null, "{finding:#}");
    }
}

/// Asserts that one finding of a check has this level, these words, and this next command.
pub(crate) fn told(report: &Value, check: &str, level: &str, words: &str, next: &str) {
    let found = findings(report, check);
    let matching = found.iter().any(|finding| {
        finding["level"] == level
            && finding["text"].as_str().is_some_and(|text| text.contains(words))
            && finding["next"].as_str().is_some_and(|text| text.contains(next))
    });
    assert!(matching, "{level} {words:?} {next:?}: {found:#?}");
}

/// A directory with programs of these names and scripts.
fn programs(repo: &Repo, scripts: &[(&str, &str)]) -> PathBuf {
    let bin = repo.beside("bin");
    fs::create_dir_all(&bin).expect("a directory");
    for (name, script) in scripts {
        let file = bin.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    bin
}

fn path_with(first: &Path) -> String {
    format!("{}:{}", first.display(), std::env::var("PATH").expect("a PATH"))
}

impl Repo {
    pub(crate) fn doctor(&self, exit: i32) -> Value {
        doctor(&mut self.aynig_command(), exit)
    }

    /// Adds a bare repository beside it as the remote `origin`, which decides.
    fn with_origin(&self) -> PathBuf {
        self.git(["clone", "--quiet", "--bare", ".", "../origin.git"]);
        let origin = self.beside("origin.git");
        self.git(["remote", "add", "origin", &origin.display().to_string()]);
        self.git(["config", "aynig.remote", "origin"]);
        origin
    }
}

#[test]
fn a_healthy_repository_has_nothing_to_complain_of() {
    let repo = healthy();
    let before = repo.git(["for-each-ref"]);
    let report = repo.doctor(0);
    for check in [
        "git",
        "repository",
        "identity",
        "signing",
        "ignored",
        "settings",
        "disk",
        "commands",
        "states",
        "PATH",
        "remote",
        "clock",
        "worktrees",
        "locks",
    ] {
        fine(&report, check);
    }
    let text = out(&repo.aynig_ok(["doctor"]));
    assert!(
        text.contains("ok       git         git version 2")
            && text.ends_with("14 checks: 0 errors, 0 warnings\n"),
        "{text}"
    );
    assert_eq!(repo.git(["for-each-ref"]), before);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn git_is_there_and_new_enough() {
    let repo = healthy();
    let bin = programs(
        &repo,
        &[(
            "git",
            "case \"$*\" in *version) echo git version 2.33.8;; *) PATH=${PATH#*:} exec git \"$@\";; esac",
        )],
    );
    let report = doctor(repo.aynig_command().env("PATH", path_with(&bin)), 3);
    told(&report, "git", "error", "2.33.8 is older than 2.34", "install git");
    let report = doctor(repo.aynig_command().env("PATH", "/nowhere"), 3);
    told(&report, "git", "error", "could not start `git version`", "PATH");
    told(&report, "repository", "error", "could not start", "git status");
}

#[test]
fn a_repository_that_cannot_be_opened_is_told_with_what_to_do() {
    let room = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(binary());
    hermetic(&mut command).current_dir(room.path()).env("GIT_CEILING_DIRECTORIES", "/");
    let report = doctor(&mut command, 3);
    told(&report, "repository", "error", "no git repository", "git init");
    let repo = healthy();
    repo.git(["config", "extensions.refStorage", "reftable"]);
    repo.git_command().args(["config", "core.repositoryFormatVersion", "1"]).output().expect("git runs");
    told(&repo.doctor(3), "repository", "error", "reftable", "git refs migrate");
}

#[test]
fn who_commits_and_whether_signing_works() {
    let repo = healthy();
    repo.git(["config", "--unset", "user.name"]);
    repo.git(["config", "--unset", "user.email"]);
    let report = doctor(repo.aynig_command().env("EMAIL", ""), 0);
    told(&report, "identity", "warning", "by aynig@test-host", "git config user.name");
    let repo = healthy();
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "gpg.format", "ssh"]);
    repo.git(["config", "user.signingKey", "/nowhere/key"]);
    told(&repo.doctor(3), "signing", "error", "could not sign", "commit-tree -S");
    let key = repo.beside("key").display().to_string();
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f", &key])
        .status()
        .expect("ssh-keygen");
    assert!(made.success());
    repo.git(["config", "user.signingKey", &key]);
    let report = repo.doctor(0);
    fine(&report, "signing");
    assert!(findings(&report, "signing")[0]["text"].as_str().expect("text").contains("that works"));
}

#[test]
fn what_is_to_be_ignored() {
    let repo = healthy();
    repo.write(".gitignore", ".aynig/logs/\n");
    fine(&repo.doctor(0), "ignored");
    repo.write(".worktrees/mine.txt", "not made by a runner\n");
    told(&repo.doctor(0), "ignored", "warning", "does not ignore .worktrees/", "aynig init");
    fs::remove_dir_all(repo.path.join(".aynig/logs")).ok();
    std::os::unix::fs::symlink("/tmp", repo.path.join(".aynig/logs")).expect("a link");
    told(&repo.doctor(3), "ignored", "error", "symbolic link", "ls -ld");
}

#[test]
fn settings_are_known_and_of_the_right_kind() {
    let repo = healthy();
    repo.git(["config", "aynig.job", "4"]);
    told(&repo.doctor(0), "settings", "warning", "did you mean aynig.jobs?", "git config --show-origin");
    repo.git(["config", "aynig.jobs", "many"]);
    told(&repo.doctor(3), "settings", "error", "aynig.jobs = \"many\"", "git config aynig.jobs VALUE");
    repo.git(["config", "aynig.role", "../x"]);
    told(&repo.doctor(3), "settings", "error", "aynig.role", "git config aynig.role VALUE");
}

#[test]
fn objects_that_are_just_written_are_not_to_be_pruned() {
    let repo = healthy();
    for (value, is_long) in
        [("now", false), ("5.minutes.ago", false), ("2.hours.ago", true), ("never", true), ("all", false)]
    {
        repo.git(["config", "gc.pruneExpire", value]);
        let report = repo.doctor(0);
        if is_long {
            assert!(!report.to_string().contains("pruneExpire"), "{report:#}");
        } else {
            let words = format!("gc.pruneExpire is {value}: `git gc` deletes");
            told(&report, "pruning", "warning", &words, "git config gc.pruneExpire 2.weeks.ago");
        }
    }
}

#[test]
fn the_directory_of_commands_may_be_a_file() {
    let repo = Repo::new();
    repo.write(".aynig/command", "#!/bin/sh\n");
    repo.commit_all("a file");
    let report = repo.doctor(3);
    told(
        &report,
        "commands",
        "error",
        ".aynig/command is a file",
        "git rm .aynig/command && mkdir .aynig/command",
    );
}

#[test]
fn commands_can_be_started() {
    let repo = healthy();
    let script = |name: &str, text: &str, mode: u32| {
        repo.write(&format!(".aynig/command/{name}"), text);
        let file = repo.path.join(".aynig/command").join(name);
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    script("plain", "#!/bin/sh\n", 0o644);
    script("a;b $c", "#!/bin/sh\n", 0o644);
    repo.commit_all("no bit");
    script("fresh", "#!/bin/sh\n", 0o755);
    let report = repo.doctor(0);
    told(
        &report,
        "commands",
        "warning",
        "command/plain is committed without the executable bit",
        "git add --chmod=+x .aynig/command/plain",
    );
    told(
        &report,
        "commands",
        "warning",
        "command/fresh is on disk and not committed",
        "git add .aynig/command/fresh",
    );
    told(
        &report,
        "commands",
        "warning",
        "command/a;b $c is committed",
        "git add --chmod=+x '.aynig/command/a;b $c'",
    );
    script("fresh", "#!/no/such/interpreter\n", 0o755);
    script("dos", "#!/bin/sh\r\necho\r\n", 0o755);
    script("bare", "echo\n", 0o755);
    script("by-env", "#!/usr/bin/env no-such-program\n", 0o755);
    script("binary", "\x7fELF", 0o755);
    repo.commit_all("all kinds");
    fs::set_permissions(repo.path.join(".aynig/command/build"), fs::Permissions::from_mode(0o644))
        .expect("chmod");
    let report = repo.doctor(3);
    told(
        &report,
        "commands",
        "error",
        "fresh cannot be started: /no/such/interpreter is not there",
        "install it",
    );
    told(
        &report,
        "commands",
        "error",
        "dos cannot be started: its `#!` line ends with a carriage return",
        "eol=lf",
    );
    told(&report, "commands", "warning", "bare has no `#!` line; it is run by `sh`", "#!/bin/sh");
    told(
        &report,
        "commands",
        "error",
        "by-env cannot be started: no-such-program is not in PATH",
        "install no-such-program",
    );
    told(
        &report,
        "commands",
        "warning",
        "command/build is not executable on disk",
        "chmod +x .aynig/command/build",
    );
    assert!(!report.to_string().contains("command/binary"), "{report:#}");
    let repo = Repo::new();
    told(&repo.doctor(0), "commands", "warning", "no commands", "aynig init");
}

#[test]
fn states_have_commands_or_are_ends() {
    let repo = healthy();
    repo.ready("finished", "done");
    let report = repo.doctor(0);
    fine(&report, "states");
    assert!(
        findings(&report, "states")[0]["text"].as_str().expect("text").contains("done (1)"),
        "{report:#}"
    );
    repo.ready("typo", "biuld");
    told(&repo.doctor(0), "states", "warning", "did you mean build?", "aynig log typo");
    repo.git(["branch", "-D", "typo"]);
    repo.git(["rm", "-rq", "--cached", ".aynig/command"]);
    let tree = repo.git(["write-tree"]);
    repo.git(["reset", "--quiet"]);
    let commit = repo.git(["commit-tree", "-p", "main", "-m", "s\n\ndwp-state: build", &tree]);
    repo.git(["update-ref", "refs/heads/elder", &commit]);
    told(&repo.doctor(0), "states", "warning", "elder asks for build", "--branch elder");
    repo.git(["branch", "-D", "elder"]);
    // A driver is no branch to merge, whatever its newest commit is.
    repo.git(["checkout", "-q", "-b", "run/1234abcd/flow"]);
    repo.command(".aynig/command/odd", "true");
    repo.commit_all("a command");
    repo.git(["checkout", "-q", "main"]);
    repo.ready("resting", "odd");
    fine(&repo.doctor(0), "states");
}

#[test]
fn commands_are_looked_for_where_a_run_would_look() {
    let repo = healthy();
    repo.git(["rm", "-rq", "--cached", ".aynig/command"]);
    let tree = repo.git(["write-tree"]);
    repo.git(["reset", "--quiet"]);
    let commit = repo.git(["commit-tree", "-p", "main", "-m", "s\n\ndwp-state: build", &tree]);
    repo.git(["update-ref", "refs/heads/elder", &commit]);
    told(&repo.doctor(0), "states", "warning", "elder asks for build", "--branch elder");
    repo.git(["config", "aynig.commandsFrom", "main"]);
    fine(&repo.doctor(0), "states");
    repo.git(["config", "aynig.commandsFrom", "nothing"]);
    let report = repo.doctor(3);
    told(&report, "states", "error", "commands are to come from nothing", "aynig.commandsFrom");
    repo.git(["config", "--unset", "aynig.commandsFrom"]);
    repo.git(["branch", "-D", "elder"]);
    repo.command(".aynig/roles/tester/command/check", "true");
    repo.commit_all("a role");
    repo.ready("tested", "check");
    repo.git(["config", "aynig.role", "tester"]);
    let report = repo.doctor(0);
    assert!(report.to_string().contains("every state that is asked for has a command"), "{report:#}");
}

#[test]
fn a_parked_state_without_a_command_is_named_before_it_wakes() {
    let repo = healthy();
    let text = "later\n\ndwp-state: biuld\ndwp-not-before: 2999-01-01T00:00:00Z\n";
    repo.git(["branch", "parked"]);
    repo.branch_from("parked", "parked", text.as_bytes());
    told(&repo.doctor(0), "states", "warning", "did you mean build?", "aynig log parked");
}

#[test]
fn where_a_remote_decides_its_branches_are_looked_at() {
    let repo = healthy();
    let origin = repo.with_origin();
    repo.git(["config", "remote.origin.url", "/nowhere.git"]);
    told(
        &repo.doctor(3),
        "states",
        "warning",
        "no branch of origin was ever fetched",
        "git ls-remote origin",
    );
    repo.git(["config", "remote.origin.url", &origin.display().to_string()]);
    let report = repo.doctor(0);
    fine(&report, "states");
    assert!(
        report.to_string().contains("every state that is asked for on origin has a command\""),
        "{report:#}"
    );
    // A branch that exists only here does not concern the runners; one that exists only on the remote does.
    repo.ready("typo", "biuld");
    fine(&repo.doctor(0), "states");
    repo.git(["push", "--quiet", "origin", "typo"]);
    repo.git(["branch", "-D", "typo"]);
    let next = "aynig log typo --remote origin";
    told(&repo.doctor(0), "states", "warning", "did you mean build?", next);
    repo.git(["config", "remote.origin.url", "/nowhere.git"]);
    told(&repo.doctor(3), "states", "warning", "as last fetched", next);
}

#[test]
fn programs_are_found_by_crons_path_as_well() {
    let repo = healthy();
    let bin = programs(&repo, &[("my-interpreter", "exit")]);
    repo.write(".aynig/command/odd", "#!/usr/bin/env my-interpreter\n");
    fs::set_permissions(repo.path.join(".aynig/command/odd"), fs::Permissions::from_mode(0o755))
        .expect("chmod");
    repo.commit_all("odd");
    let report = doctor(repo.aynig_command().env("PATH", path_with(&bin)), 0);
    fine(&report, "commands");
    told(&report, "PATH", "warning", "lacks", &format!("PATH={}:/usr/bin:/bin", bin.display()));
    let report = doctor(repo.aynig_command().env("PATH", ""), 3);
    told(&report, "PATH", "error", "PATH is not set", "export PATH");
}

#[test]
fn the_remote_answers_takes_pushes_and_guards() {
    let repo = healthy();
    let origin = repo.with_origin();
    let report = repo.doctor(0);
    for check in ["remote", "push", "clock"] {
        fine(&report, check);
    }
    let hook = origin.join("hooks/pre-receive");
    told(
        &report,
        "guard",
        "warning",
        "whoever may push can break a lease",
        &format!("cp contrib/hooks/pre-receive {}", hook.display()),
    );
    fine(&report, "refs");
    let refs = repo.git(["--git-dir", &origin.display().to_string(), "for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main", "nothing of it stays");

    fs::create_dir_all(origin.join("hooks")).expect("a directory");
    fs::write(&hook, "#!/bin/sh\ncat\n").expect("a file");
    told(&repo.doctor(0), "guard", "warning", "is not executable", "chmod +x");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("chmod");
    told(&repo.doctor(0), "guard", "warning", "does not call", "aynig hook pre-receive");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/hooks/pre-receive");
    fs::copy(&ours, &hook).expect("copied");
    let path = path_with(binary().parent().expect("its directory"));
    fine(&doctor(repo.aynig_command().env("PATH", &path), 0), "guard");
    fine(&doctor(repo.aynig_command().env("AYNIG_BIN", binary()), 0), "guard");
    // Pushes fail if the server cannot find the program.
    let report = doctor(repo.aynig_command().env("AYNIG_BIN", "/nowhere/aynig"), 0);
    told(&report, "guard", "warning", "calls /nowhere/aynig, which", "AYNIG=");
    // The server's own configuration decides where it looks for hooks.
    repo.git(["--git-dir", &origin.display().to_string(), "config", "core.hooksPath", "elsewhere"]);
    told(&repo.doctor(0), "guard", "warning", "can break a lease", "origin.git/elsewhere/pre-receive");

    repo.git(["config", "remote.origin.pushurl", "/nowhere.git"]);
    told(&repo.doctor(3), "push", "error", "nowhere.git", "git push --dry-run origin");
    repo.git(["config", "--unset", "remote.origin.pushurl"]);
    repo.git(["config", "remote.origin.url", "/nowhere.git"]);
    told(&repo.doctor(3), "remote", "error", "could not ask origin", "git ls-remote origin");
    repo.git(["config", "aynig.remote", "other"]);
    let report = repo.doctor(3);
    told(&report, "settings", "error", "no such remote", "git remote -v");
    let others = report["findings"].as_array().expect("a list").iter();
    assert_eq!(
        others.filter(|one| one["level"] == "error").count(),
        1,
        "one mistake is named once: {report:#}"
    );
}

#[test]
fn a_relative_address_of_a_remote_counts_from_the_top() {
    let repo = healthy();
    repo.with_origin();
    repo.git(["config", "remote.origin.url", "../origin.git"]);
    fs::create_dir(repo.path.join("below")).expect("a directory");
    for start in [&repo.path, &repo.path.join("below")] {
        let report = doctor(repo.aynig_command().current_dir(start), 0);
        for check in ["remote", "push", "clock"] {
            fine(&report, check);
        }
    }
}

#[test]
fn commits_from_the_future_mean_two_clocks() {
    let repo = healthy();
    repo.ready("work", "done");
    repo.dated_lease("work", "far-host", 300, 600);
    told(&repo.doctor(0), "clock", "warning", "ahead of this host's clock", "--takeover observed");
    repo.with_origin();
    repo.git(["branch", "-D", "work"]);
    told(&repo.doctor(0), "clock", "warning", "ahead of this host's clock", "--takeover observed");
}

#[test]
fn worktrees_and_locks_that_were_left() {
    let repo = healthy();
    let add = |name: &str, reason: &str| {
        repo.git([
            "worktree",
            "add",
            "--quiet",
            "--detach",
            "--lock",
            "--reason",
            reason,
            &format!(".worktrees/{name}"),
        ]);
    };
    add("left", &format!("aynig attempt {ATTEMPT} branch work"));
    add("kept", &format!("aynig kept from attempt {ATTEMPT}: it holds other repositories"));
    let report = repo.doctor(0);
    // Processes that a command started may continue while the lease lives.
    let live = format!(
        "chore: set working\n\ndwp-state: working\ndwp-origin-state: work\ndwp-run-id: {ATTEMPT}\ndwp-runner-id: here\ndwp-lease-seconds: 300\n"
    );
    repo.branch_from(&repo.head("main"), "work", live.as_bytes());
    assert!(!repo.doctor(0).to_string().contains(".worktrees/left"));
    repo.branch_from(&repo.head("work"), "work", b"what it has committed by now\n");
    assert!(!repo.doctor(0).to_string().contains(".worktrees/left"));
    repo.git(["update-ref", "-d", "refs/heads/work"]);
    told(&report, "worktrees", "warning", ".worktrees/left", "aynig clean");
    told(&report, "worktrees", "warning", "it holds other repositories", "aynig clean");

    let lock = repo.path.join(".git/refs/heads/main.lock");
    let file = fs::File::create(&lock).expect("a file");
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(now() - 7_200)).expect("dated");
    let report = repo.doctor(0);
    fine(&report, "locks");
    // A process that another test is just forking has the file open too, for a moment.
    let held = |report: &serde_json::Value| report.to_string().contains("main.lock open");
    assert!(held(&report), "{report:#}");
    drop(file);
    wait_until("the lock to be closed", || !held(&repo.doctor(0)));
    told(&repo.doctor(0), "locks", "warning", "main.lock is 2 h old", &format!("rm {}", lock.display()));
    let just_now = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::create(&lock).and_then(|file| file.set_modified(just_now)).expect("dated");
    let report = repo.doctor(0);
    fine(&report, "locks");
    assert!(report.to_string().contains("main.lock is of this moment"), "{report:#}");
}

/// Every file of a repository, with its content.
fn contents(repo: &Repo) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = files_below(&repo.path)
        .into_iter()
        .map(|path| (path.clone(), fs::read(&path).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

#[test]
fn nothing_is_written_where_no_remote_decides() {
    for signs in [false, true] {
        let repo = healthy();
        if signs {
            let bin = programs(
                &repo,
                &[(
                    "signer",
                    "cat >/dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; echo '-----BEGIN PGP SIGNATURE-----'",
                )],
            );
            repo.git(["config", "commit.gpgSign", "true"]);
            repo.git(["config", "gpg.program", bin.join("signer").to_str().expect("text")]);
        }
        // `git status` refreshes the index.
        repo.git(["status"]);
        let before = contents(&repo);
        let report = repo.doctor(0);
        fine(&report, "signing");
        assert_eq!(contents(&repo), before, "signs: {signs}");
    }
}

#[test]
fn a_place_for_worktrees_that_cannot_be_used_is_named() {
    let repo = healthy();
    repo.write(".git/info/exclude", "/.worktrees\n");
    repo.write(".worktrees", "");
    told(&repo.doctor(3), "worktrees", "error", ".worktrees is not a directory", "aynig.worktree");
}
