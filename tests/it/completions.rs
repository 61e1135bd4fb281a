//! Completion in real shells, by the scripts in `contrib/completions/`, with the branches, remotes, roles and
//! states of a real repository.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::programs::{program, shipped};
use super::support::*;

/// A repository with names to complete, and beside it a directory that contains `aynig`.
fn scene() -> Repo {
    let repo = Repo::with_commands(&[("review", "true"), ("retry", "true")]);
    repo.command(".aynig/roles/careful/command/review", "true");
    repo.commit_all("a role");
    repo.ready("monday", "resting");
    repo.ready("feat/one", "review");
    for branch in ["a;touch$IFS'x'", "ünïcode", "party-\u{1f389}", "party-\u{202e}", "party-\u{3000}x"] {
        repo.git(["branch", branch, "main"]);
    }
    for name in ["place/$(touch x)", "place/good"] {
        std::fs::create_dir_all(repo.path.join(name)).expect("a directory");
    }
    super::orch::make(&repo, "0a1b2c3d-0000-4000-8000-000000000001", "");
    repo.git(["remote", "add", "hub", "/nowhere"]);
    repo.git(["update-ref", "refs/aynig/remotes/hub/mole", "main"]);
    std::fs::create_dir(repo.beside("bin")).expect("a directory");
    symlink(binary(), repo.beside("bin/aynig")).expect("a link");
    repo
}

/// A shell in the repository, with `aynig` in its PATH.
fn shell(repo: &Repo, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    let path = format!("{}:{}", repo.beside("bin").display(), std::env::var("PATH").expect("a PATH"));
    hermetic(&mut command).args(arguments).env("PATH", path).env("HOME", repo.beside("")).env("TERM", "dumb");
    command.env_remove("XDG_CONFIG_HOME").env_remove("ZDOTDIR").current_dir(&repo.path);
    command
}

/// Beginnings of a line, whose last word is completed, and the expected candidates. Options are compared only
/// if the line asks for options.
const LINES: [(&[&str], &[&str]); 21] = [
    (&["aynig", "orch", "show", "0"], &["0a1b2c3d"]),
    (&["aynig", "orch", "events", "--type", "x", "0"], &["0a1b2c3d"]),
    (&["aynig", "run", "--worktree", "place/"], &["place/good/"]),
    (&["aynig", "set-"], &["set-state", "set-working"]),
    (&["aynig", "run", "--branch", "mo"], &["monday"]),
    (&["aynig", "logs", "--branch", ""], &["feat/one", "main", "monday", "party-\u{1f389}", "ünïcode"]),
    (&["aynig", "log", "mo"], &["monday"]),
    (&["aynig", "logs", "mo"], &["monday"]),
    (&["aynig", "cancel", "monday", "fe"], &["feat/one"]),
    (&["aynig", "log", "ü"], &["ünïcode"]),
    (&["aynig", "manual", "set-"], &["set-state", "set-working"]),
    (&["aynig", "manual", "com"], &["commands", "completions"]),
    (&["aynig", "run", "--remote", "hub", "--branch", "mo"], &["mole", "monday"]),
    (&["aynig", "status", "--remote", ""], &["hub"]),
    (&["aynig", "run", "--role", ""], &["careful"]),
    (&["aynig", "set-state", "--state", "re"], &["resting", "retry", "review"]),
    (&["aynig", "run", "--commands-from", "hub"], &["hub/mole"]),
    (&["aynig", "run", "--takeover", ""], &["clock", "observed"]),
    (&["aynig", "hook", "pre"], &["pre-receive"]),
    (&["aynig", "run", "--comm"], &["--command-timeout", "--commands-from"]),
    (&["aynig", "-C", "/", "run", "--branch", ""], &[]),
];

fn sorted(text: &str) -> Vec<&str> {
    // If no value matches, only options are left.
    let mut found: Vec<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
    found.retain(|line| !line.is_empty());
    found.sort_unstable();
    found
}

#[test]
fn bash_completes() {
    let Some(bash) = program("bash") else { return };
    let repo = scene();
    let script = shipped("contrib/completions/aynig.bash").display().to_string();
    let decided: (&[&str], &[&str]) = (&["aynig", "log", "mo"], &["mole", "monday"]);
    for (words, wanted) in LINES.into_iter().chain([decided]) {
        if words == decided.0 && wanted == decided.1 {
            repo.git(["config", "aynig.remote", "hub"]);
        }
        // As readline calls it: the registered function, with the command, the word and the previous word.
        let ask = r#"
            . "$1" || exit; shift
            function=$(complete -p aynig | sed 's/.*-F \([^ ]*\) .*/\1/')
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
            "$function" aynig "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
        "#;
        let mut bash = shell(&repo, &bash, &["--norc", "-c", ask, "bash", &script]);
        let output = bash.args(words).output().expect("bash runs");
        assert_eq!((err(&output).as_str(), sorted(&out(&output))), ("", wanted.to_vec()), "{words:?}");
    }
}

#[test]
fn fish_completes() {
    let Some(fish) = program("fish") else { return };
    let repo = scene();
    let script = shipped("contrib/completions/aynig.fish").display().to_string();
    for (words, wanted) in LINES {
        let ask = "source $argv[1]; complete --do-complete $argv[2]";
        let mut fish = shell(&repo, &fish, &["--no-config", "-c", ask, &script, &words.join(" ")]);
        let output = fish.output().expect("fish runs");
        assert_eq!((err(&output).as_str(), sorted(&out(&output))), ("", wanted.to_vec()), "{words:?}");
    }
}

/// The line after one press of the Tab key, in a fresh zsh on a terminal of its own.
#[test]
fn zsh_completes() {
    let Some(zsh) = program("zsh") else { return };
    let repo = scene();
    // Presses the key, then prints the line into a file. The shell's output is read, so that the shell does
    // not block.
    let drive = r#"
        zmodload zsh/zpty
        zpty -b shell "zsh -f -i"
        until_there() {
            local tries=0 shown
            until [[ -s $1 ]] { zpty -r -t shell shown; sleep 0.05; (( ++tries < 400 )) || { print -u2 "no $1"; exit 1 } }
        }
        zpty -w shell "PROMPT= RPROMPT=; bindkey -e; $1; print yes >$ROOM/ready"
        until_there $ROOM/ready
        zpty -w -n shell "$2"$'\t\C-aprint -r -- \C-e '">$ROOM/got"$'\n'
        until_there $ROOM/got
        zpty -d shell
    "#;
    let functions = shipped("contrib/completions").display().to_string();
    let found = format!("fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D");
    let read = "autoload -Uz compinit; compinit -u -D; source <(aynig completions zsh)".to_owned();
    for setup in [&found, &read] {
        for (typed, wanted) in [
            ("aynig run --branch mon", "aynig run --branch monday"),
            ("aynig set-state --state ret", "aynig set-state --state retry"),
            ("aynig status --remote h", "aynig status --remote hub"),
            ("aynig run --role ", "aynig run --role careful"),
            ("aynig log mon", "aynig log monday"),
            ("aynig manual set-w", "aynig manual set-working"),
            ("aynig set-w", "aynig set-working"),
        ] {
            let mut zsh = shell(&repo, &zsh, &["-f", "-c", drive, "zsh", setup, typed]);
            let output = zsh.env("ROOM", repo.beside("")).output().expect("zsh runs");
            assert!(output.status.success(), "{typed}: {}", err(&output));
            for name in ["ready", "got"] {
                let text = std::fs::read_to_string(repo.beside(name)).expect("it was written");
                assert!(name == "ready" || text.trim_end() == wanted, "{setup}: {text}");
                std::fs::remove_file(repo.beside(name)).expect("it is there");
            }
        }
    }
}

/// A trailer named like the variable a shell asks by would make `set-state` inside a command answer instead of acting.
#[test]
fn no_trailer_makes_a_command_answer_a_shell() {
    let repo = Repo::with_commands(&[("work", r#""$AYNIG_BIN" set-state --state done"#)]);
    let message = b"work\n\ndwp-state: work\ncomplete: bash\naynig-complete: bash\n";
    repo.branch_with_message("task", message);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
}

#[test]
fn a_shell_that_is_not_known_and_a_place_that_is_none_are_quiet_or_named() {
    let repo = scene();
    assert_refused(&repo.aynig(["completions", "tcsh"]), 2, &["bash, zsh, fish"]);
    let mut odd = repo.aynig_command();
    let output = odd.env("AYNIG_COMPLETE", "tcsh").args(["--", "aynig", ""]).output().expect("aynig runs");
    assert_refused(&output, 2, &["tcsh"]);
}
