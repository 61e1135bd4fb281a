//! `aynig provider`: the agents of a host are configured, found and checked.

use std::path::PathBuf;

use serde_json::Value;

use super::support::*;

/// Makes a program that git does not know.
fn program(repo: &Repo, name: &str, script: &str) -> PathBuf {
    let path = repo.path.join(".git").join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    executable(&path);
    path
}

fn executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Configures a provider.
pub(super) fn configure(repo: &Repo, name: &str, settings: &[(&str, &str)]) {
    for (key, value) in settings {
        repo.git(["config", "--add", &format!("aynig.provider.{name}.{key}"), value]);
    }
}

fn custom(repo: &Repo, name: &str, script: &str) {
    let path = program(repo, name, script);
    configure(repo, name, &[("kind", "custom"), ("command", path.to_str().expect("UTF-8"))]);
}

fn rows(repo: &Repo, args: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = repo.aynig(args.iter().copied().chain(["--json"]));
    let value: Value = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", err(&output)));
    (output.status.code(), value["providers"].as_array().expect("a list").clone())
}

/// CONTRACT 19.10, 19.11
#[test]
fn providers_are_listed_with_their_programs() {
    let repo = Repo::new();
    let (code, all) = rows(&repo, &["provider", "list"]);
    let names: Vec<&str> = all.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert_eq!((code, names.as_slice()), (Some(0), &["claude", "codex", "gemini"][..]));
    let claude = program(&repo, "claude", "echo 9.8.7 '(Claude Code)'");
    configure(&repo, "claude", &[("command", claude.to_str().expect("UTF-8")), ("model", "m-1")]);
    custom(&repo, "mine", "touch asked");
    configure(&repo, "broken", &[("kind", "robot")]);
    let (code, all) = rows(&repo, &["provider", "list"]);
    assert_eq!(code, Some(0));
    let of = |name: &str| all.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(of("claude")["programVersion"], "9.8.7 (Claude Code)");
    assert_eq!((&of("claude")["kind"], &of("claude")["model"]), (&"claude".into(), &"m-1".into()));
    assert_eq!((&of("mine")["protocol"], &of("mine")["programVersion"]), (&"text".into(), &Value::Null));
    assert!(
        of("broken")["reason"].as_str().expect("a reason").contains("write custom, claude, codex or acp")
    );
    let text = out(&repo.aynig_ok(["provider", "list"]));
    assert!(text.contains("claude  claude  ") && text.contains("mine  text  "), "{text}");
    // What is a run of a custom program stays one.
    assert!(!repo.path.join("asked").exists());
}

/// CONTRACT 19.11
#[test]
fn versions_have_bounds() {
    let repo = Repo::new();
    let claude = program(&repo, "claude", "cat \"$0.version\"");
    configure(&repo, "claude", &[("command", claude.to_str().expect("UTF-8"))]);
    let acp = program(&repo, "some-agent", "echo 1.2.3");
    configure(&repo, "some", &[("kind", "acp"), ("command", acp.to_str().expect("UTF-8"))]);
    custom(&repo, "mine", "echo OK");
    for (version, is, words) in [
        ("2.1.330 (Claude Code)", "known", "known to work"),
        ("2.1.197 (Claude Code)", "older", "older than 2.1.330, the oldest version known to work"),
        ("2.1.1000 (Claude Code)", "newer", "newer than 2.1.330, the newest version known to work"),
    ] {
        std::fs::write(claude.with_extension("version"), format!("{version}\n")).expect("a file");
        for verb in ["list", "check"] {
            let (_, all) = rows(&repo, &["provider", verb]);
            let of = |name: &str| all.iter().find(|row| row["name"] == name).expect("a row");
            let claude = of("claude");
            assert_eq!((&claude["programVersion"], &claude["versionIs"]), (&version.into(), &is.into()));
            assert_eq!(
                (&claude["oldestKnown"], &claude["newestKnown"]),
                (&"2.1.330".into(), &"2.1.330".into())
            );
            for name in ["some", "mine"] {
                let (is, oldest) = (&of(name)["versionIs"], &of(name)["oldestKnown"]);
                assert_eq!((is, oldest), (&Value::Null, &Value::Null), "{name}");
            }
            assert_eq!(of("some")["programVersion"], "1.2.3");
            let text = out(&repo.aynig(["provider", verb, "claude"].into_iter().take(if verb == "list" {
                2
            } else {
                3
            })));
            assert!(text.contains(version) && text.contains(words), "{verb}: {text}");
        }
    }
}

/// CONTRACT 19.11
#[test]
fn what_is_no_version_is_shown_with_the_setting_of_another_kind() {
    let repo = Repo::new();
    for (prints, words) in
        [("echo hello there", "`hello there` is no version"), ("true", "it prints no version")]
    {
        let own = program(&repo, "own", prints);
        repo.git(["config", "aynig.provider.claude.command", own.to_str().expect("UTF-8")]);
        let text = out(&repo.aynig_ok(["provider", "list"]));
        let line = text.lines().find(|line| line.starts_with("claude ")).expect("a line");
        let hint = "a program of your own needs `git config aynig.provider.claude.kind custom`";
        assert!(line.contains(words) && line.ends_with(hint), "{line}");
    }
}

/// CONTRACT 19.11
#[test]
fn a_check_without_a_provider_is_no_success() {
    let repo = Repo::new();
    repo.git(["config", "aynig.provider.Big.command", "true"]);
    let mut command = repo.aynig_command();
    let git = repo.path.join(".git/only");
    std::fs::create_dir(&git).expect("a directory");
    let found = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
        .map(|directory| directory.join("git"))
        .find(|path| path.is_file())
        .expect("git");
    std::os::unix::fs::symlink(found, git.join("git")).expect("a link");
    let output = command.args(["provider", "check"]).env("PATH", &git).output().expect("it runs");
    let told = format!("{}{}", out(&output), err(&output));
    assert!(output.status.code() == Some(1) && told.contains("no provider has settings"), "{told}");
    assert!(told.contains("aynig.provider.Big.command") && told.contains("out of a-z, 0-9 and -"), "{told}");
}

/// CONTRACT 19.12
#[test]
fn a_program_that_waits_for_the_end_of_its_input_is_named_so() {
    let repo = Repo::new();
    custom(&repo, "j", r#"p=$(cat); echo '{"type":"message.assistant.final","content":"OK"}'"#);
    custom(&repo, "mute", "sleep 3600");
    for name in ["j", "mute"] {
        configure(&repo, name, &[("protocol", "jsonl"), ("idleSeconds", "2")]);
        let (code, all) = rows(&repo, &["provider", "check", name]);
        let words = all[0]["check"]["evidence"].as_str().expect("words");
        assert!(code == Some(1) && words.contains("printed nothing and changed no file for 2 s"), "{words}");
        let cause = "it waits for the end of its input, which jsonl keeps open: read one line, or \
                     `git config aynig.provider.j.protocol text`";
        assert_eq!(words.contains(cause), name == "j", "{words}");
    }
}

/// CONTRACT 19.10
#[test]
fn settings_that_are_wrong_are_reported_with_their_place() {
    for (key, value, why) in [
        ("kind", "robot", "write custom, claude, codex or acp"),
        ("protocol", "xml", "write text or jsonl"),
        ("command", "bin/agent", "write an absolute path"),
        ("args", "'a", "a quotation mark is not closed"),
        ("env", "AYNIG_BRANCH=x", "aynig and git need this variable themselves"),
        ("idleSeconds", "soon", "not a duration"),
        ("turnSeconds", "0", "must be from 1 to"),
    ] {
        let repo = Repo::new();
        custom(&repo, "mine", "cat");
        configure(&repo, "mine", &[(key, value)]);
        let (code, all) = rows(&repo, &["provider", "check", "mine"]);
        let reason = all[0]["reason"].as_str().expect("a reason");
        assert!(code == Some(1) && reason.contains(why) && reason.contains(".git/config"), "{key}: {reason}");
    }
    let repo = Repo::new();
    configure(&repo, "mine", &[("kindd", "custom")]);
    let doctor = repo.aynig(["doctor"]);
    let text = format!("{}{}", out(&doctor), err(&doctor));
    assert!(text.contains("did you mean aynig.provider.mine.kind?"), "{text}");
}

/// CONTRACT 19.2, 19.11
#[test]
fn a_check_is_a_turn_of_one_word() {
    let repo = Repo::new();
    custom(&repo, "good", "read -r line; echo \"OK: $line\"; ls -a | wc -l; basename \"$AYNIG_BIN\"");
    custom(&repo, "bad", "echo no account >&2; exit 1");
    configure(&repo, "gone", &[("kind", "acp"), ("command", "no-such-program-anywhere")]);
    let (code, all) = rows(&repo, &["provider", "check", "good"]);
    assert_eq!((code, all.len(), &all[0]["check"]["how"]), (Some(0), 1, &"completed".into()));
    assert_eq!(all[0]["check"]["answer"], "OK: Reply with the single word OK. Use no tools.\n2\naynig\n");
    let (code, all) = rows(&repo, &["provider", "check"]);
    assert_eq!(code, Some(1));
    let of = |name: &str| all.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(of("good")["check"]["works"], true);
    let evidence = of("bad")["check"]["evidence"].as_str().expect("a sentence");
    assert_eq!(evidence, "bad failed: it ended with exit code 1; its last line on stderr: no account");
    assert_eq!((&of("gone")["check"], &of("gone")["program"]), (&Value::Null, &Value::Null));
    let shown = repo.aynig(["provider", "check", "bad"]);
    assert!(out(&shown).contains("no  bad failed"), "{}", out(&shown));
    assert_eq!(repo.aynig(["provider", "check", "nobody"]).status.code(), Some(2));
}

/// CONTRACT 19.1, 19.4
#[test]
fn a_program_that_speaks_a_protocol_is_checked() {
    let repo = Repo::new();
    let script = r#"read -r line
        case $line in *initialize*) ;; *) exit 9 ;; esac
        echo '{"type":"control_response","response":{"subtype":"success","request_id":"aynig-initialize","response":{}}}'
        read -r line
        case $line in *"single word OK"*) ;; *) exit 8 ;; esac
        echo '{"type":"system","subtype":"init","session_id":"s-1","model":"m-1","claude_code_version":"9.8.7"}'
        echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"key $ANTHROPIC_API_KEY, other $OPENAI_API_KEY, for $*\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}"
        cat >/dev/null"#;
    let path = program(&repo, "fake", script);
    let path = path.to_str().expect("UTF-8");
    configure(&repo, "claude", &[("command", path), ("env", "ANTHROPIC_API_KEY=k-1"), ("args", "--first")]);
    let (code, all) = rows(&repo, &["provider", "check", "claude"]);
    let check = &all[0]["check"];
    assert_eq!((code, &check["how"]), (Some(0), &"completed".into()), "{check}");
    let answer = check["answer"].as_str().expect("an answer");
    assert!(answer.starts_with("key k-1, other , for --first -p --input-format stream-json"), "{answer}");
    assert!(answer.contains("--permission-mode default") && !answer.contains("skip-permissions"), "{answer}");
    assert_eq!((&check["session"], &check["model"]), (&"s-1".into(), &"m-1".into()));
    assert_eq!(check["totalTokens"], 7);
}
