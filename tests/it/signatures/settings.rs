//! Settings that decide what runs are read as git reads them, in all forms and from all sources. If they
//! cannot be read, nothing runs.

use super::*;

/// A repository with one unsigned branch that is ready.
fn unsigned() -> Repo {
    let repo = Repo::scene(&[("work", r#"echo $AYNIG_BRANCH >>"$ROOM/ran"; next done"#)]);
    repo.ready("task", "work");
    repo
}

/// The value that `aynig run` uses for `aynig.requireSigned`; `None` if it refuses to run.
fn taken(repo: &Repo, change: impl Fn(&mut Command)) -> Option<bool> {
    let aynig = |arguments: &[&str]| {
        let mut command = repo.aynig_command();
        change(&mut command);
        command.args(arguments).output().expect("aynig runs")
    };
    let head = repo.head("task");
    let (status, run) = (aynig(&["status", "--json", "--branch", "task"]), aynig(&["run", "--json"]));
    if run.status.code() == Some(3) {
        assert_eq!(repo.head("task"), head, "{}", told(&run));
        return None;
    }
    assert_eq!(run.status.code(), Some(0), "{}", told(&run));
    let kind = listed(&status)[0]["kind"].clone();
    let required = repo.head("task") == head;
    assert_eq!(kind, if required { "waiting" } else { "ready" }, "{}", told(&run));
    assert!(!required || out(&run).contains("is not signed"), "{}", told(&run));
    repo.git(["update-ref", "refs/heads/task", &head]);
    Some(required)
}

#[test]
fn a_boolean_is_read_as_git_reads_it() {
    let repo = unsigned();
    let file = repo.path.join(".git/config");
    let plain = fs::read_to_string(&file).expect("a file");
    let mut seen = [0; 3];
    for lines in [
        "requireSigned",
        "requireSigned = false\nrequireSigned",
        "requireSigned\nrequireSigned = false",
        "requireSigned\nrequireSigned =",
        "requireSigned = true\n[aynig]\nREQUIRESIGNED = off",
        "requireSigned=yes",
        "requireSigned = oN ; as it is",
        "requireSigned = \"True\"",
        "requireSigned = 1",
        "requireSigned = 2",
        "requireSigned = -1",
        "requireSigned = 00",
        "requireSigned = 0x1",
        "requireSigned = 0x0",
        "requireSigned = 010",
        "requireSigned = 1k",
        "requireSigned = 0M",
        "requireSigned = \" 1\"",
        "requireSigned = \" true\"",
        "requireSigned = \"true \"",
        "requireSigned = 1kk",
        "requireSigned = 99999999999",
        "requireSigned = 2147483648",
        "requireSigned = 2147483647",
        "requireSigned = maybe",
        "requireSigned = t",
        "requireSigned = nO",
        "requireSigned = \"\"",
    ] {
        fs::write(&file, format!("{plain}[aynig]\n{lines}\n")).expect("a file");
        let git = repo.git_command().args(["config", "--type=bool", "aynig.requireSigned"]).output();
        let gits = out(&git.expect("git runs")).trim().parse().ok();
        assert_eq!(taken(&repo, |_| ()), gits, "{lines:?}");
        seen[gits.map_or(2, usize::from)] += 1;
    }
    assert!(seen.iter().all(|times| *times > 3), "{seen:?}");
}

#[test]
fn other_booleans_are_read_in_the_same_way() {
    let repo = unsigned();
    let file = repo.path.join(".git/config");
    let plain = fs::read_to_string(&file).expect("a file");
    // Without a heartbeat the lease is never renewed, which makes the setting visible.
    fs::write(&file, format!("{plain}[aynig]\nheartbeat = no\nheartbeat\npoolKeepIgnored\n"))
        .expect("a file");
    repo.aynig_ok(["run"]);
    repo.ready("task", "work");
    for (lines, words) in [
        ("[commit]\ngpgSign = maybe", "commit.gpgsign"),
        ("[commit]\ngpgSign = 0x1\n[gpg]\nprogram = /no/such/program", "could not sign"),
        ("[commit]\ngpgSign = no\ngpgSign\n[gpg]\nprogram = /no/such/program", "could not sign"),
    ] {
        fs::write(&file, format!("{plain}{lines}\n")).expect("a file");
        let head = repo.head("task");
        let output = repo.aynig(["set-state", "--branch", "task", "--state", "other"]);
        assert_refused(&output, 3, &[words]);
        assert_eq!(repo.head("task"), head, "{lines}");
        let run = repo.aynig(["run"]);
        assert_eq!(run.status.code(), Some(3), "{lines}: {}", told(&run));
        assert_eq!(repo.head("task"), head, "{lines}: {}", told(&run));
    }
}

#[test]
fn wherever_git_finds_a_setting_it_counts() {
    let repo = unsigned();
    let included = repo.beside("included");
    fs::write(&included, "[aynig]\n\trequireSigned\n").expect("a file");
    let place = included.to_str().expect("text");
    let aynig = format!("!'{}'", binary().display());
    for key in ["include.path", "includeIf.gitdir:**/repo/.git.path", "includeIf.onbranch:main.path"] {
        repo.git(["config", key, place]);
        assert_eq!(taken(&repo, |_| ()), Some(true), "{key}");
        repo.git(["config", "--unset", key]);
        assert_eq!(taken(&repo, |_| ()), Some(false), "{key}");
    }
    let count = |command: &mut Command, key: &str, value: &str| {
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", key).env("GIT_CONFIG_VALUE_0", value);
    };
    assert_eq!(taken(&repo, |command| count(command, "aynig.requireSigned", "true")), Some(true));
    assert_eq!(taken(&repo, |command| count(command, "AYNIG.requiresigned", "0")), Some(false));
    assert_eq!(taken(&repo, |command| count(command, "include.path", place)), Some(true));
    assert_eq!(taken(&repo, |command| count(command, "aynig.requireSigned", "maybe")), None);
    for (parameters, expected) in [
        ("'aynig.requiresigned'='true'", Some(true)),
        ("'aynig.requiresigned'=", Some(true)),
        ("'aynig.requiresigned=yes'", Some(true)),
        ("'aynig.requiresigned'='true' 'aynig.requiresigned'='off'", Some(false)),
        ("aynig.requiresigned=true", None),
    ] {
        let change = |command: &mut Command| {
            command.env("GIT_CONFIG_PARAMETERS", parameters);
        };
        assert_eq!(taken(&repo, change), expected, "{parameters}");
    }
    let many = |command: &mut Command| {
        command.env("GIT_CONFIG_COUNT", "many");
    };
    assert_eq!(taken(&repo, many), None);
    fs::remove_file(repo.beside("ran")).expect("it was run");
    for (setting, runs) in [("aynig.requireSigned", false), ("aynig.requireSigned=false", true)] {
        let alias = format!("alias.as={aynig}");
        let output = repo.git_command().args(["-c", setting, "-c", &alias, "as", "run"]).output();
        let output = output.expect("git runs");
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert_eq!(repo.beside("ran").exists(), runs, "{setting}: {}", told(&output));
    }
}

#[test]
fn the_settings_of_a_linked_worktree_count_there() {
    let repo = unsigned();
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["worktree", "add", "--quiet", "-b", "side", "../side", "main"]);
    let side = repo.beside("side");
    repo.git(["-C", "../side", "config", "--worktree", "aynig.requireSigned", "true"]);
    let there = |command: &mut Command| {
        command.current_dir(&side);
    };
    assert_eq!(taken(&repo, there), Some(true));
    assert_eq!(taken(&repo, |_| ()), Some(false));
}

#[test]
fn other_settings_of_the_environment_count_too() {
    let repo = unsigned();
    let run = |key: &str, value: &str| {
        let mut command = repo.aynig_command();
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", key).env("GIT_CONFIG_VALUE_0", value);
        command.arg("run").output().expect("aynig runs")
    };
    for (key, value) in [("aynig.states", "other"), ("aynig.branch", "other"), ("aynig.commandsFrom", "none")]
    {
        run(key, value);
        assert_eq!(repo.state("task"), "work", "{key}");
    }
    let output = run("aynig.jobs", "many");
    assert_refused(&output, 3, &["aynig.jobs", "many", "environment"]);
    let output = run("commit.gpgSign", "true");
    assert_eq!(repo.state("task"), "work", "nothing is written unsigned: {}", told(&output));
    // The command does not get the variable: its own calls of git use the configuration files.
    repo.command(".aynig/command/work", &repo.scripted(r#"say seen "${GIT_CONFIG_COUNT-none}"; next done"#));
    repo.commit_all("look");
    repo.ready("task", "work");
    assert_eq!(run("aynig.jobs", "2").status.code(), Some(0));
    assert_eq!(repo.said("seen"), "none");
}

/// CONTRACT 13.13
#[test]
fn what_a_command_calls_is_held_to_the_trust_of_its_runner() {
    let repo = unsigned();
    // A runner of another repository takes no notice of it.
    let work = r#"git init -q "$ROOM/other"
other=$(cd "$ROOM/other" && "$AYNIG_BIN" run 2>&1 | grep -c 'commands are to come from')
say seen "${AYNIG_COMMANDS_FROM-},${AYNIG_REQUIRE_SIGNED-},$other"
next done"#;
    repo.command(".aynig/command/work", &repo.scripted(work));
    repo.commit_all("look");
    let run = |key: &str, value: &str, options: &[&str]| {
        repo.ready("task", "work");
        let mut command = repo.aynig_command();
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", key).env("GIT_CONFIG_VALUE_0", value);
        let output = command.arg("run").args(options).output().expect("aynig runs");
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        repo.said("seen")
    };
    assert_eq!(run("aynig.branch", "task", &[]), ",,0");
    assert_eq!(run("aynig.branch", "task", &["--commands-from", "main"]), "main,,0");
    assert_eq!(run("AYNIG.commandsfrom", "main", &[]), "main,,0");
    let included = repo.beside("included");
    fs::write(&included, "[aynig]\n\tcommandsFrom = main\n").expect("a file");
    repo.git(["config", "includeIf.onbranch:main.path", included.to_str().expect("text")]);
    assert_eq!(run("aynig.branch", "task", &[]), "main,,0");
}

/// CONTRACT 13.4
#[test]
fn what_git_reads_otherwise_is_refused_before_anything_is_run() {
    let repo = unsigned();
    let (bin, system) = (repo.beside("bin"), repo.beside("system"));
    fs::create_dir(&bin).expect("a directory");
    // A git built with another path for the system configuration.
    let real = out(&Command::new("sh").args(["-c", "command -v git"]).output().expect("sh runs"));
    let script = format!(
        "#!/bin/sh\nunset GIT_CONFIG_NOSYSTEM\nGIT_CONFIG_SYSTEM='{}' exec '{}' \"$@\"\n",
        system.display(),
        real.trim()
    );
    fs::write(bin.join("git"), script).expect("a file");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let run = || repo.aynig_command().env("PATH", &path).arg("run").output().expect("aynig runs");
    fs::write(&system, "[aynig]\n\trequireSigned = true\n").expect("a file");
    let head = repo.head("task");
    let system = system.to_str().expect("text");
    assert_refused(&run(), 3, &["nothing was run", "aynig.requiresigned", "true", system]);
    assert_eq!(repo.head("task"), head);
    fs::write(system, "[core]\n\tpager = cat\n").expect("a file");
    assert_eq!(run().status.code(), Some(0));
    assert_eq!(repo.noted_lines("ran"), ["task"]);
}
