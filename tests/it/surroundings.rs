//! The environments in which `aynig run` may start: hooks, cron, bare repositories, linked worktrees, odd
//! configurations.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::probe::*;
use super::support::*;

/// Variables that point git at a repository; no command may see one.
const POINTERS: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_CONFIG_PARAMETERS",
];

/// Notes the repository that git inside the command sees, and lands a file.
const LOOK: &str = r#"env -0 > "$ROOM/env"
git rev-parse --show-toplevel > "$ROOM/toplevel"
git symbolic-ref HEAD > "$ROOM/symbolic"
echo made > made; git add made
echo 'SET_STATE {"state":"done"}'"#;

/// A repository whose state `step` looks around, and the branch `work` ready for it.
fn looking() -> Repo {
    let repo = Repo::with_commands(&[("step", LOOK)]);
    repo.ready("work", "step");
    repo
}

/// Asserts that the command ran in its own worktree below `top`, saw no such variable, and that its work
/// landed.
fn assert_looked(repo: &Repo, top: &Path) {
    assert_eq!(repo.noted("toplevel"), top.join(".worktrees/work").display().to_string());
    assert_eq!(repo.noted("symbolic"), "refs/heads/work");
    let seen = repo.seen();
    for name in POINTERS {
        assert_eq!(seen.get(name), None, "{name} leaked into the command");
    }
}

fn assert_landed(repo: &Repo) {
    assert_eq!(repo.state("work"), "done");
    assert_eq!(repo.git(["show", "work:made"]), "made");
    repo.assert_tidy();
}

/// Writes a hook that runs `aynig run` and notes its exit and output in `ROOM`.
fn write_hook(hook: &Path) {
    fs::create_dir_all(hook.parent().expect("a directory")).expect("directories");
    let script = format!(
        "#!/bin/sh\n\"{}\" run > \"$ROOM/out\" 2> \"$ROOM/err\"\necho $? > \"$ROOM/exit\"\n",
        binary().display()
    );
    fs::write(hook, script).expect("a hook");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).expect("chmod");
}

/// Runs git with `ROOM` set for the hooks; it must succeed.
fn git_with_room(repo: &Repo, directory: &Path, arguments: &[&str]) {
    let mut command = repo.git_command();
    command.current_dir(directory).env("ROOM", repo.beside("")).args(arguments);
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", err(&output));
}

fn assert_hook_was_fine(repo: &Repo) {
    assert_eq!(repo.noted("exit"), "0", "{}{}", repo.noted("out"), repo.noted("err"));
    assert_eq!(repo.noted("err"), "");
}

// Hooks.

/// CONTRACT 3.10
#[test]
fn inside_a_post_commit_hook() {
    let repo = looking();
    write_hook(&repo.path.join(".git/hooks/post-commit"));
    repo.write("mine", "x");
    git_with_room(&repo, &repo.path, &["add", "mine"]);
    git_with_room(&repo, &repo.path, &["commit", "--quiet", "-m", "an ordinary commit"]);
    assert_hook_was_fine(&repo);
    assert_looked(&repo, &repo.path);
    assert_landed(&repo);
    assert_eq!(repo.git(["status", "--porcelain"]), "", "the person's index is as it was");
}

#[test]
fn inside_a_post_commit_hook_of_a_linked_worktree() {
    let repo = looking();
    write_hook(&repo.path.join(".git/hooks/post-commit"));
    let linked = repo.beside("linked");
    repo.git(["worktree", "add", "--quiet", "-b", "other", linked.to_str().expect("text")]);
    fs::write(linked.join("mine"), "x").expect("a file");
    git_with_room(&repo, &linked, &["add", "mine"]);
    git_with_room(&repo, &linked, &["commit", "--quiet", "-m", "an ordinary commit"]);
    assert_hook_was_fine(&repo);
    assert_looked(&repo, &repo.path);
    assert_eq!(repo.state("work"), "done");
    assert_eq!(repo.worktrees(), [linked.display().to_string()]);
}

#[test]
fn inside_a_post_receive_hook_of_a_repository_with_a_checkout() {
    let repo = looking();
    write_hook(&repo.path.join(".git/hooks/post-receive"));
    let clone = repo.beside("clone");
    git_with_room(&repo, &repo.beside(""), &["clone", "--quiet", "repo", "clone"]);
    git_with_room(&repo, &clone, &["push", "--quiet", "origin", "HEAD:refs/heads/pushed"]);
    assert_hook_was_fine(&repo);
    assert_looked(&repo, &repo.path);
    assert_landed(&repo);
}

/// A bare clone of `repo` beside it.
fn bare(repo: &Repo) -> PathBuf {
    git_with_room(repo, &repo.beside(""), &["clone", "--quiet", "--bare", "repo", "bare.git"]);
    let path = repo.beside("bare.git");
    for pair in [["user.name", "Bare Person"], ["user.email", "bare@example.com"]] {
        git_with_room(repo, &path, &["config", pair[0], pair[1]]);
    }
    path
}

/// A line of git's answer about a repository.
fn ask(repo: &Repo, directory: &Path, arguments: &[&str]) -> String {
    let output = repo.git_command().current_dir(directory).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", err(&output));
    out(&output).trim_end().to_owned()
}

const STATE: &str = "--format=%(trailers:key=dwp-state,valueonly,separator=)";

#[test]
fn inside_a_post_receive_hook_of_a_bare_repository() {
    let repo = Repo::with_commands(&[("step", LOOK)]);
    let bare = bare(&repo);
    write_hook(&bare.join("hooks/post-receive"));
    repo.ready("work", "step");
    git_with_room(&repo, &repo.path, &["push", "--quiet", bare.to_str().expect("text"), "work"]);
    assert_hook_was_fine(&repo);
    assert_looked(&repo, &bare);
    assert_eq!(ask(&repo, &bare, &["log", "-1", STATE, "work"]), "done");
    assert_eq!(ask(&repo, &bare, &["show", "work:made"]), "made");
}

// Kinds of repository.

/// CONTRACT 3.11, 9.10
#[test]
fn a_bare_repository_works_whole() {
    let repo = looking();
    repo.ready("failing", "step");
    let bare = bare(&repo);
    let trigger = ask(&repo, &bare, &["rev-parse", "work"]);
    let output = repo.run_command(&[]).current_dir(&bare).output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_eq!(repo.seen().path("STDOUT_LOG_PATH").parent(), Some(bare.join(".aynig/logs").as_path()));
    for branch in ["work", "failing"] {
        assert_eq!(ask(&repo, &bare, &["log", "-1", STATE, branch]), "done");
    }
    assert!(bare.join(format!(".aynig/logs/{trigger}.stdout.log")).is_file());
    assert_eq!(ask(&repo, &bare, &["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    // The current branch of a bare repository is not a checkout.
    let output =
        repo.run_command(&["--current-branch", "only"]).current_dir(&bare).output().expect("aynig runs");
    assert_exit(&output, 3);
    assert!(err(&output).contains("bare") && err(&output).contains("hint:"), "{}", err(&output));
}

#[test]
fn a_bare_repository_runs_the_branch_its_head_names() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "s\n\ndwp-state: step"]);
    let bare = bare(&repo);
    let output = repo.run_command(&["--branch", "main"]).current_dir(&bare).output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_eq!(ask(&repo, &bare, &["log", "-1", STATE, "main"]), "done");
}

/// CONTRACT 3.11
#[test]
fn a_linked_worktree_as_start() {
    let repo = looking();
    let linked = repo.beside("linked");
    repo.git(["worktree", "add", "--quiet", "-b", "other", linked.to_str().expect("text")]);
    let output = repo.run_command(&[]).current_dir(&linked).output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_looked(&repo, &repo.path);
    assert_eq!(repo.seen().path("STDOUT_LOG_PATH").parent(), Some(repo.path.join(".aynig/logs").as_path()));
    assert_eq!(repo.state("work"), "done");
}

#[test]
fn a_branch_checked_out_elsewhere_is_left_to_its_person() {
    let repo = looking();
    let linked = repo.beside("linked");
    repo.git(["worktree", "add", "--quiet", linked.to_str().expect("text"), "work"]);
    let head = repo.head("work");
    let output = repo.run_expecting(0, &["--log-level", "debug"]);
    repo.assert_untouched("work", &head);
    let line = one_message(&output, linked.to_str().expect("text"));
    assert!(line.contains("work") && line.contains("is checked out in"), "{line}");
}

#[test]
fn a_subdirectory_as_start() {
    let repo = looking();
    fs::create_dir_all(repo.path.join("deep/er")).expect("fresh");
    let output = repo.run_command(&[]).current_dir(repo.path.join("deep/er")).output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_looked(&repo, &repo.path);
    assert_landed(&repo);
}

#[test]
fn another_directory_by_option() {
    let repo = looking();
    fs::create_dir_all(repo.beside("else/where")).expect("fresh");
    for (directory, branch) in [("../../repo", "work"), (repo.path.to_str().expect("text"), "again")] {
        if branch != "work" {
            repo.ready("work", "step");
        }
        let mut command = repo.aynig_command();
        command.env("ROOM", repo.beside("")).current_dir(repo.beside("else/where"));
        assert_exit(&command.args(["-C", directory, "run"]).output().expect("aynig runs"), 0);
        assert_looked(&repo, &repo.path);
        assert_landed(&repo);
    }
    let output = repo.aynig(["-C", "nowhere", "run"]);
    assert_exit(&output, 2);
    assert!(err(&output).contains("nowhere"), "{}", err(&output));
}

/// CONTRACT 9.10
#[test]
fn submodules_are_initialised() {
    let library = Repo::new();
    library.write("file", "of the library\n");
    library.commit_all("library");
    let repo = Repo::with_commands(&[("step", &format!("cat library/file > \"$ROOM/library\"\n{DONE}"))]);
    let url = library.path.to_str().expect("text").to_owned();
    repo.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "library"]);
    repo.commit_all("with a library");
    repo.ready("work", "step");
    let config = repo.beside("gitconfig");
    fs::write(&config, "[protocol \"file\"]\n\tallow = always\n").expect("a file");
    let output = repo.run_command(&[]).env("GIT_CONFIG_GLOBAL", &config).output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_eq!(repo.noted("library"), "of the library");
    assert_eq!(repo.state("work"), "done");
}

/// CONTRACT 9.10
#[test]
fn a_submodule_that_cannot_be_had_is_a_warning() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    let tree = repo.git(["rev-parse", "main"]);
    repo.write(".gitmodules", "[submodule \"gone\"]\n\tpath = gone\n\turl = /no/such/repository\n");
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{tree},gone")]);
    repo.git(["add", ".gitmodules"]);
    repo.git(["commit", "--quiet", "-m", "with a submodule"]);
    repo.ready("work", "step");
    let output = repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
    let line = one_message(&output, "submodules were not initialised");
    assert!(line.starts_with("warning: work: "), "{line}");
    repo.assert_tidy();
}

/// CONTRACT 1.12, 3.10
#[test]
fn a_worktree_that_lost_its_git_file_does_not_find_the_repository_around_it() {
    let repo = Repo::with_commands(&[
        ("fine", DONE),
        (
            "step",
            "rm .git; git rev-parse --show-toplevel > \"$ROOM/found\" 2> \"$ROOM/said\"\n\
         echo x > escaped; git add escaped; git commit -qm escaped\necho 'SET_STATE {\"state\":\"done\"}'",
        ),
    ]);
    repo.ready("work", "step");
    repo.write("of-the-person", "staged\n");
    repo.git(["add", "of-the-person"]);
    let before = repo.head("main");
    let output = repo.run(&[]);
    assert_eq!(repo.noted("found"), "");
    assert!(repo.noted("said").contains("not a git repository"), "{}", repo.noted("said"));
    repo.assert_untouched("main", &before);
    assert_eq!(repo.git(["status", "--porcelain"]), "A  of-the-person");
    assert_exit(&output, 0);
    assert_eq!(repo.state("work"), "done", "{}{}", out(&output), err(&output));
    assert_eq!(
        repo.git(["diff", "--name-only", "work~1", "work"]),
        "",
        "nothing of the person's is in the result"
    );
    let rescues = repo.rescues();
    assert_eq!(repo.git(["show", &format!("{}:escaped", rescues[0])]), "x", "what the command made is saved");
    repo.assert_tidy();
}

// Environments.

/// CONTRACT 3.10
#[test]
fn gits_own_variables_do_not_leak_into_a_command() {
    let repo = looking();
    let other = Repo::new();
    let mut command = repo.run_command(&[]);
    command
        .env("GIT_DIR", repo.path.join(".git"))
        .env("GIT_WORK_TREE", &repo.path)
        .env("GIT_INDEX_FILE", other.path.join(".git/index"))
        .env("GIT_OBJECT_DIRECTORY", other.path.join(".git/objects"))
        .env("GIT_PREFIX", "x/")
        .env("GIT_CONFIG_PARAMETERS", "'user.name=Somebody'");
    assert_exit(&command.output().expect("aynig runs"), 0);
    assert_looked(&repo, &repo.path);
    assert_landed(&repo);
    assert_eq!(other.git(["status", "--porcelain"]), "");
}

#[test]
fn git_dir_chooses_the_repository() {
    let repo = looking();
    let other = looking();
    let mut command = repo.run_command(&[]);
    command.current_dir(&other.path).env("GIT_DIR", repo.path.join(".git")).env("GIT_WORK_TREE", &repo.path);
    assert_exit(&command.output().expect("aynig runs"), 0);
    assert_looked(&repo, &repo.path);
    assert_landed(&repo);
    assert_eq!(other.state("work"), "step");
}

/// CONTRACT 5.7
#[test]
fn crons_bare_environment() {
    let repo = looking();
    let mut command = Command::new("env");
    let output = command
        .args(["-i", "PATH=/usr/bin:/bin"])
        .arg(format!("HOME={}", repo.beside("").display()))
        .arg(format!("ROOM={}", repo.beside("").display()))
        .arg(binary())
        .arg("-C")
        .arg(&repo.path)
        .arg("run")
        .current_dir("/")
        .output()
        .expect("env runs");
    assert_exit(&output, 0);
    assert_eq!(err(&output), "");
    assert_looked(&repo, &repo.path);
    assert_landed(&repo);
    assert_ne!(repo.trailer("work~1", "dwp-runner-id"), "", "the host's name");
}

// Configurations.

/// Creates an ssh key and configures `repo` to sign every commit with it, with the list of allowed signers
/// beside it.
fn sign_with_ssh(repo: &Repo) {
    let key = repo.beside("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(&key)
        .output()
        .expect("ssh-keygen runs");
    assert!(made.status.success(), "{}", err(&made));
    let public = fs::read_to_string(key.with_extension("pub")).expect("a public key");
    let allowed = repo.beside("allowed");
    fs::write(&allowed, format!("person@example.com {public}")).expect("a file");
    for (name, value) in [
        ("gpg.format", "ssh"),
        ("user.signingKey", key.to_str().expect("text")),
        ("gpg.ssh.allowedSignersFile", allowed.to_str().expect("text")),
        ("commit.gpgSign", "true"),
    ] {
        repo.git(["config", name, value]);
    }
}

/// CONTRACT 1.13
#[test]
fn commits_are_signed_where_that_is_asked_for() {
    let repo = Repo::with_commands(&[("step", DONE), ("fail", "echo x > x; exit 1"), ("silent", "true")]);
    for (branch, state) in [("a", "step"), ("b", "fail"), ("c", "silent")] {
        repo.ready(branch, state);
    }
    repo.lease("d", 400, &lease_trailers("300"));
    sign_with_ssh(&repo);
    repo.run_expecting(1, &[]);
    assert_eq!(
        ["a", "b", "c", "d"].map(|branch| repo.state(branch)),
        ["done", "stalled", "working", "stalled"]
    );
    for commit in ["a", "a~1", "b", "b~1", "c", "c~1", "d"] {
        assert_eq!(repo.git(["log", "-1", "--format=%G?", commit]), "G", "{commit}");
    }
    assert_eq!(
        repo.git(["log", "-1", "--format=%an <%ae>|%cn <%ce>", "a"]),
        "Test Person <person@example.com>|Test Person <person@example.com>"
    );
}

/// CONTRACT 1.13
#[test]
fn a_broken_signing_key_is_an_error_and_nothing_is_written() {
    let repo = Repo::one_step("echo ran > \"$ROOM/ran\"");
    let head = repo.head("work");
    sign_with_ssh(&repo);
    repo.git(["config", "user.signingKey", repo.beside("no-such-key").to_str().expect("text")]);
    let output = repo.run_expecting(3, &[]);
    repo.assert_untouched("work", &head);
    assert!(!repo.was_noted("ran"));
    let line = one_message(&output, "sign");
    assert!(
        line.contains("work") && line.contains("commit.gpgSign") && line.contains("no-such-key"),
        "{line}"
    );
}

/// A prompt on a terminal whose foreground belongs to another process would stop its process (SIGTTIN).
/// CONTRACT 10.1
#[test]
fn nothing_can_ask_on_the_terminal() {
    let look = r#"if (: </dev/tty) 2>/dev/null; then next terminal; else next alone; fi"#;
    let repo = Repo::scene(&[("work", look)]);
    repo.ready("task", "work");
    repo.git(["config", "aynig.setup", "! (: </dev/tty) 2>/dev/null"]);
    // Writing to the terminal, as for a bell, is not a prompt.
    repo.git(["config", "aynig.notify", "(: >/dev/tty) && echo rang"]);
    repo.git(["config", "aynig.notifyStates", "*"]);
    let (shown, code) = repo.in_terminal((30, 100), &[], &["run"]).finish();
    assert_eq!((repo.state("task").as_str(), code), ("alone", 0), "{shown}");
    let log = std::fs::read_to_string(repo.path.join(".aynig/logs/notify.log")).expect("a log");
    assert!(log.contains("rang"), "{log}");

    sign_with_ssh(&repo);
    let key = repo.git(["config", "user.signingKey"]);
    let key = key.trim_end_matches(".pub");
    let changed = Command::new("ssh-keygen").args(["-q", "-p", "-P", "", "-N", "secret", "-f", key]).status();
    assert!(changed.expect("ssh-keygen runs").success());
    let before = repo.head("task");
    let (shown, code) =
        repo.in_terminal((30, 100), &[], &["set-state", "--state", "x", "--branch", "task"]).finish();
    assert_eq!((repo.head("task"), code), (before, 3), "{shown}");
    assert!(shown.contains("an agent must hold the key"), "{shown}");
}

/// CONTRACT 1.12
#[test]
fn without_an_identity_the_runner_signs_for_itself() {
    let repo = Repo::one_step(DONE);
    repo.git(["config", "--unset", "user.name"]);
    repo.git(["config", "--unset", "user.email"]);
    repo.git(["config", "user.useConfigOnly", "true"]);
    repo.run_expecting(0, &[]);
    for commit in ["work", "work~1"] {
        let who = repo.git(["log", "-1", "--format=%an <%ae>|%cn <%ce>", commit]);
        assert_eq!(who, "aynig <aynig@test-host>|aynig <aynig@test-host>");
    }
}

/// CONTRACT 1.12
#[test]
fn an_identity_from_the_environment_is_used() {
    let repo = Repo::one_step(DONE);
    let mut command = repo.run_command(&[]);
    command.env("GIT_AUTHOR_NAME", "Author").env("GIT_COMMITTER_EMAIL", "c@example.com");
    command.env("GIT_AUTHOR_DATE", "@1 +0000").env("GIT_COMMITTER_DATE", "@1 +0000");
    let begun = now();
    assert_exit(&command.output().expect("aynig runs"), 0);
    for date in repo.git(["log", "-2", "--format=%at%n%ct", "work"]).lines() {
        assert!((begun..=now()).contains(&date.parse().expect("seconds")), "the moment of writing: {date}");
    }
    let who = repo.git(["log", "-1", "--format=%an <%ae>|%cn <%ce>", "work"]);
    assert_eq!(who, "Author <person@example.com>|Test Person <c@example.com>");
}

/// CONTRACT 1.7, 1.12
#[test]
fn the_users_trailer_settings_change_nothing() {
    let repo = Repo::probed();
    for (name, value) in [
        ("trailer.separators", "="),
        ("trailer.ifexists", "replace"),
        ("trailer.state.key", "dwp-state"),
        ("trailer.x.cmd", "echo forged"),
        ("core.commentChar", ";"),
        ("commit.cleanup", "strip"),
        ("commit.template", "/no/such/file"),
        ("core.hooksPath", "/no/such/hooks"),
    ] {
        repo.git(["config", name, value]);
    }
    repo.branch_with_message("work", b"s\n\nb\n\nnote: 1\ndwp-pr: 7\ndwp-state: probe\n");
    let other = repo.branch_with_message("other", b"s\n\nb\n\ndwp-state = probe\n");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.seen().text("NOTE"), "1");
    repo.assert_untouched("other", &other);
    let message = repo.message("work~1");
    assert!(message.ends_with("dwp-lease-seconds: 300\naynig-branch: work\ndwp-pr: 7"), "{message}");
    assert_eq!(repo.message("work"), "chore: set done\n\ndwp-state: done");
}

/// CONTRACT 1.12
#[test]
fn no_hook_of_the_repository_runs_for_the_runners_commits() {
    let repo = Repo::one_step(DONE);
    for hook in ["pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction"] {
        let path = repo.path.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().expect("hooks")).expect("directories");
        fs::write(&path, "#!/bin/sh\ntouch \"$ROOM/hooked\"\nexit 1\n").expect("a hook");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    repo.run_expecting(0, &[]);
    assert!(!repo.was_noted("hooked"));
    fs::remove_dir_all(repo.path.join(".git/hooks")).expect("hooks");
    assert_eq!(repo.state("work"), "done");
}

// Directories that are no repository, or not a readable one.

#[test]
fn outside_of_a_repository() {
    let repo = Repo::new();
    let output = repo.run_command(&[]).current_dir(repo.beside("")).output().expect("aynig runs");
    assert_exit(&output, 3);
    let text = err(&output);
    assert!(text.starts_with("error: no git repository at or above "), "{text}");
    assert!(text.contains("hint:") && text.contains("git init"), "{text}");
}

/// All files of a directory with their contents.
fn snapshot(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = files_below(directory)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).expect("readable")))
        .collect();
    files.sort();
    files
}

/// A new repository with another format beside `repo`, with a command and a ready branch.
fn formatted(repo: &Repo, option: &str) -> PathBuf {
    let path = repo.beside("formatted");
    git_with_room(repo, &repo.beside(""), &["init", "--quiet", "--initial-branch=main", option, "formatted"]);
    for pair in [["user.name", "Test Person"], ["user.email", "person@example.com"]] {
        git_with_room(repo, &path, &["config", pair[0], pair[1]]);
    }
    repo.command("../formatted/.aynig/command/step", LOOK);
    git_with_room(repo, &path, &["add", "--all"]);
    git_with_room(repo, &path, &["commit", "--quiet", "-m", "commands"]);
    git_with_room(repo, &path, &["switch", "--quiet", "--create", "work"]);
    git_with_room(repo, &path, &["commit", "--quiet", "--allow-empty", "-m", "s\n\ndwp-state: step"]);
    git_with_room(repo, &path, &["switch", "--quiet", "main"]);
    path
}

fn run_in(repo: &Repo, directory: &Path) -> Output {
    repo.run_command(&[]).current_dir(directory).output().expect("aynig runs")
}

#[test]
fn reftable_is_named_and_nothing_is_touched() {
    let repo = Repo::new();
    let path = formatted(&repo, "--ref-format=reftable");
    let before = snapshot(&path);
    let output = run_in(&repo, &path);
    assert_exit(&output, 3);
    assert!(err(&output).contains("reftable") && err(&output).contains("hint:"), "{}", err(&output));
    assert!(snapshot(&path) == before, "something was touched");
    assert!(!repo.was_noted("env"));
}

#[test]
fn sha_256_works_whole() {
    let repo = Repo::new();
    let path = formatted(&repo, "--object-format=sha256");
    let trigger = ask(&repo, &path, &["rev-parse", "work"]);
    assert_eq!(trigger.len(), 64);
    assert_exit(&run_in(&repo, &path), 0);
    assert_looked(&repo, &path);
    assert_eq!(ask(&repo, &path, &["log", "-1", STATE, "work"]), "done");
    assert_eq!(ask(&repo, &path, &["show", "work:made"]), "made");
    assert_eq!(repo.seen().text("COMMIT_HASH"), trigger);
    ask(&repo, &path, &["fsck", "--strict"]);
}
