//! Notifications: `aynig.notify` runs once for each event that has happened, beside the work and never in its
//! way.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Output;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::scene::*;
use super::support::{json as parsed, *};

mod by_hand;
mod examples;
mod limits;
mod remote;

/// A program that appends each notice as a line.
const KEEP: &str = r#"cat >>"$ROOM/told""#;

impl Repo {
    /// Sets this script as `aynig.notify`.
    fn teller(&self, script: &str) {
        let path = self.beside("teller");
        fs::write(&path, format!("#!/bin/sh\n{}", self.scripted(script) + "\n")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        self.git(["config", "aynig.notify", path.to_str().expect("UTF-8")]);
    }

    /// The delivered notices, in order.
    fn told(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.beside("told")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Event, branch and state of the delivered notices.
    fn told_briefly(&self) -> Vec<[String; 3]> {
        let word = |notice: &Value, key: &str| notice[key].as_str().unwrap_or("").to_owned();
        let mut all: Vec<_> = self
            .told()
            .iter()
            .map(|notice| ["event", "branch", "state"].map(|key| word(notice, key)))
            .collect();
        all.sort();
        all
    }
}

/// A repository with these commands, one of which fails, and a notify program that keeps the notices.
fn repo(commands: &[(&str, &str)]) -> Repo {
    let mut all = vec![("fail", "exit 7")];
    all.extend(commands);
    let repo = Repo::scene(&all);
    repo.teller(KEEP);
    repo
}

fn exits(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
}

/// CONTRACT 11.11
#[test]
fn a_stalled_branch_is_told_with_all_there_is_to_know() {
    let repo = repo(&[("build", "echo half >half.txt; exit 3")]);
    let trigger = repo.ready("task", "build");
    let output = repo.aynig(["run", "--role", "tester"]);
    exits(&output, 1);
    assert_eq!(err(&output), "", "no warnings");
    let [notice] = <[Value; 1]>::try_from(repo.told()).expect("one notice");
    let logs = repo.path.join(".aynig/logs");
    let expected = json!({
        "version": 1,
        "event": "stalled",
        "branch": "task",
        "remote": null,
        "state": "stalled",
        "previousState": "build",
        "subject": repo.git(["log", "-1", "--format=%s", "task"]),
        "reason": "`build` exited with 3",
        "commit": repo.head("task"),
        "trigger": trigger,
        "runId": repo.trailer("task~1", "dwp-run-id"),
        "runnerId": "test-host",
        "role": "tester",
        "exitCode": 3,
        "elapsedMs": notice["elapsedMs"].as_u64().expect("a number"),
        "stdoutLog": logs.join(format!("{trigger}.stdout.log")),
        "stderrLog": logs.join(format!("{trigger}.stderr.log")),
        "rescueRef": repo.rescue(),
        "time": notice["time"].as_str().expect("a time"),
        "repository": repo.path,
        "gitDir": repo.path.join(".git"),
        "next": [
            "aynig logs --branch task",
            format!("git show --first-parent {}", repo.rescue()),
            "aynig set-state --retry --branch task",
        ],
        "waitsFor": null,
        "answers": null,
    });
    assert_eq!(notice, expected);
    repo.assert_tidy();
}

#[test]
fn an_expired_lease_is_told_by_who_closes_it() {
    let repo = repo(&[]);
    let trigger = repo.ready("task", "fail");
    repo.taken_by_other(&trigger, "task", 1);
    exits(&repo.run_until("task", "stalled", &["run"]), 0);
    exits(&repo.aynig(["run"]), 0);
    let [notice] = <[Value; 1]>::try_from(repo.told()).expect("one notice");
    assert_eq!(
        [&notice["event"], &notice["state"], &notice["previousState"]],
        ["stalled", "stalled", "work"]
    );
    assert_eq!(notice["commit"], repo.head("task").as_str());
    assert_eq!(notice["runId"], "11111111-2222-4333-8444-555555555555");
    assert!(notice["reason"].as_str().is_some_and(|why| why.contains("other-host")), "{notice:#}");
}

/// CONTRACT 11.11
#[test]
fn states_are_told_that_the_globs_name_and_no_others() {
    let repo = repo(&[("one", "next review"), ("two", "next pr/open"), ("three", "next other")]);
    for state in ["re*", "pr/*", "done"] {
        repo.git(["config", "--add", "aynig.notifyStates", state]);
    }
    for (branch, state) in [("a", "one"), ("b", "two"), ("c", "three"), ("d", "fail")] {
        repo.ready(branch, state);
    }
    exits(&repo.aynig(["run", "--drain"]), 1);
    let expected = [["stalled", "d", "stalled"], ["state", "a", "review"], ["state", "b", "pr/open"]];
    assert_eq!(repo.told_briefly(), expected);
    let notice = repo.told().into_iter().find(|notice| notice["branch"] == "a").expect("it was told");
    assert_eq!([&notice["previousState"], &notice["reason"]], [&json!("one"), &Value::Null]);
    assert_eq!(notice["next"], json!(["aynig log --branch a"]));

    repo.git(["config", "--unset-all", "aynig.notifyStates"]);
    repo.ready("e", "one");
    repo.ready("f", "fail");
    exits(&repo.aynig(["run"]), 1);
    assert_eq!(repo.told().len(), 4, "without globs only stalled branches");
}

#[test]
fn a_state_named_stalled_by_a_command_is_told_as_stalled_and_working_never() {
    let repo = repo(&[("give-up", "next stalled"), ("quiet", "true")]);
    repo.git(["config", "aynig.notifyStates", "*"]);
    repo.ready("a", "give-up");
    repo.ready("b", "quiet");
    exits(&repo.aynig(["run"]), 0);
    assert_eq!(repo.told_briefly(), [["stalled", "a", "stalled"]]);
}

/// CONTRACT 11.11
#[test]
fn a_lost_lease_is_told_with_where_the_work_is() {
    let repo = repo(&[("work", "echo mine >mine.txt; say ready $$; await never")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    repo.taken_by_other("task", "task", 300);
    exits(&runner.finish(), 1);
    let [notice] = <[Value; 1]>::try_from(repo.told()).expect("one notice");
    assert_eq!(notice["event"], "lease-lost");
    assert_eq!([&notice["state"], &notice["commit"]], [&Value::Null; 2]);
    assert_eq!(notice["previousState"], "work");
    assert!(notice["reason"].as_str().is_some_and(|why| why.contains("other-host holds it")), "{notice:#}");
    assert_eq!(notice["rescueRef"], repo.rescue().as_str());
}

/// The environment is the runner's, not a command's: `aynig` called from it acts as from outside.
/// CONTRACT 11.11
#[test]
fn it_runs_in_the_main_directory_with_nothing_of_a_command_around_it() {
    let repo = repo(&[]);
    repo.teller(
        r#"env -0 >"$ROOM/env"; pwd -P >"$ROOM/where"; find /proc/$$/fd/ -mindepth 1 -printf '%f %l\n' >"$ROOM/fds"
ps -o pgid= -p $$ | tr -d ' ' >"$ROOM/group"
"$AYNIG_BIN" set-state --branch other --state asked >"$ROOM/set" 2>&1; say done $?"#,
    );
    repo.git(["branch", "other"]);
    repo.ready("task", "fail");
    let open = fs::read_dir("/proc/self/fd").expect("it is there").flatten();
    let inherited: std::collections::BTreeSet<String> =
        open.filter_map(|fd| Some(fs::read_link(fd.path()).ok()?.display().to_string())).collect();
    let mut command = repo.aynig_command();
    for (name, value) in [
        ("AYNIG_BRANCH", "elsewhere"),
        ("AYNIG_RUN_ID", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("AYNIG_NOTICE_COMMIT", "forged"),
        ("AYNIG_NOTICE_ODD", "forged"),
        ("BODY", "a body"),
        ("KEPT", "yes"),
    ] {
        command.env(name, value);
    }
    exits(&command.args(["-C", ".aynig", "run"]).output().expect("aynig runs"), 1);
    assert_eq!(repo.said("done"), "0", "{}", fs::read_to_string(repo.beside("set")).unwrap_or_default());
    assert_eq!(repo.state("other"), "asked");
    assert_eq!(repo.said("where"), repo.path.display().to_string());
    let group: i32 = repo.said("group").parse().expect("a number");
    assert_ne!(group, nix::unistd::getpgrp().as_raw(), "it has a group of its own");
    let fds = repo.said("fds");
    let printed = fds.lines().find_map(|line| line.strip_prefix("2 "));
    for line in fds.lines() {
        let (fd, target) = line.split_once(' ').expect("two words");
        match fd {
            "0" => assert!(target.ends_with("(deleted)"), "{line}: a file without a name"),
            "1" => assert!(target.starts_with("pipe:") || target.ends_with("/fds"), "{line}"),
            "2" => assert!(target.starts_with("pipe:"), "{line}"),
            _ => assert!(
                inherited.contains(target)
                    || target == repo.beside("teller").display().to_string()
                    || Some(target) == printed,
                "{line}: neither inherited by the runner, nor the shell's script and what it puts aside"
            ),
        }
    }
    let environment = repo.said("env");
    let of = |name: &str| {
        environment.split('\0').find_map(|entry| entry.strip_prefix(&format!("{name}="))).map(str::to_owned)
    };
    assert_eq!(of("KEPT").as_deref(), Some("yes"));
    assert_eq!(of("AYNIG_BIN"), Some(binary().display().to_string()));
    for name in ["AYNIG_BRANCH", "AYNIG_RUN_ID", "AYNIG_GIT_DIR", "BODY", "GIT_DIR", "AYNIG_NOTICE_ODD"] {
        assert_eq!(of(name), None, "{name}");
    }
    assert_eq!(of("AYNIG_NOTICE_EVENT").as_deref(), Some("stalled"));
    assert_eq!(of("AYNIG_NOTICE_BRANCH").as_deref(), Some("task"));
    assert_eq!(of("AYNIG_NOTICE_COMMIT"), Some(repo.head("task")));
    assert_eq!(of("AYNIG_NOTICE_EXIT_CODE").as_deref(), Some("7"));
    assert_eq!(of("AYNIG_NOTICE_RESCUE_REF"), None, "unknown values are left out");
    assert!(of("AYNIG_NOTICE_NEXT").is_some_and(|next| next.ends_with("--retry --branch task")));
}

/// CONTRACT 11.11
#[test]
fn hostile_text_stays_text() {
    let repo = repo(&[("odd", "next review")]);
    let marker = repo.beside("pwned");
    let branch = "a;touch${IFS}pwned;$(touch${IFS}pwned)`id`'\"&|<x>";
    repo.teller(
        r#"cat >>"$ROOM/told"; printf '%s\n' "$AYNIG_NOTICE_BRANCH" "$AYNIG_NOTICE_SUBJECT" >"$ROOM/variables""#,
    );
    repo.git(["config", "aynig.notifyStates", "*"]);
    let subject = format!("$(touch {0})`touch {0}`'; touch {0} #", marker.display());
    repo.command(
        ".aynig/command/odd",
        &format!("cat <<'END'\nSET_STATE {{\"state\":\"review\",\"subject\":\"{subject}\"}}\nEND"),
    );
    repo.commit_all("odd");
    repo.ready(branch, "odd");
    let output = repo.aynig(["run", "--branch", "a*"]);
    exits(&output, 0);
    assert_eq!(repo.state(branch), "review", "{}", crate::scene::told(&output));
    assert!(!marker.exists() && !repo.path.join("pwned").exists(), "something was executed");
    let [notice] = <[Value; 1]>::try_from(repo.told()).expect("one notice");
    assert_eq!(notice["branch"], branch);
    let shown = notice["subject"].as_str().expect("text");
    assert!(shown.starts_with("$(touch"), "plain text stays: {shown}");
    assert_eq!(repo.said("variables"), format!("{branch}\n{shown}"));
    // The trailers of a foreign lease can contain anything.
    let lease = "x\n\ndwp-state: working\ndwp-origin-state: odd\ndwp-run-id: \u{1b}[31m$(touch pwned)\u{202e}\n\
                 dwp-runner-id: \u{1b}]0;title\u{7}`touch pwned`\ndwp-lease-seconds: 1\n";
    repo.branch_from(branch, branch, lease.as_bytes());
    repo.run_until(branch, "stalled", &["run"]);
    let notice = repo.told().remove(1);
    assert_eq!(notice["runId"], "$(touch pwned)");
    assert!(notice["reason"].as_str().is_some_and(|why| why.contains("of `touch pwned` for")), "{notice:#}");
    assert!(!marker.exists() && !repo.path.join("pwned").exists(), "something was executed");
}

#[test]
fn the_line_is_one_for_a_shell_and_comes_from_any_layer_of_the_configuration() {
    let repo = repo(&[]);
    let (global, included) = (repo.beside("global"), repo.beside("included"));
    fs::write(&global, format!("[include]\n\tpath = {}\n", included.display())).expect("a file");
    let line = format!("cat | tee -a \\\"{}\\\" >/dev/null", repo.beside("told").display());
    fs::write(&included, format!("[aynig]\n\tnotify = \"{line}\"\n")).expect("a file");
    let run = |code| {
        let mut command = repo.aynig_command();
        exits(&command.env("GIT_CONFIG_GLOBAL", &global).arg("run").output().expect("aynig runs"), code);
    };
    repo.git(["config", "--unset", "aynig.notify"]);
    repo.ready("a", "fail");
    run(1);
    assert_eq!(repo.told_briefly(), [["stalled", "a", "stalled"]]);
    // The nearer setting wins, and an empty one turns notifications off.
    repo.git(["config", "aynig.notify", ""]);
    repo.ready("b", "fail");
    run(1);
    assert_eq!(repo.told().len(), 1);
}

#[test]
fn nothing_in_a_branch_decides_who_is_told() {
    let repo = repo(&[]);
    repo.git(["config", "--unset", "aynig.notify"]);
    repo.write(".gitconfig", "[aynig]\n\tnotify = touch pwned\n");
    repo.commit_all("a configuration");
    repo.branch_with_message(
        "task",
        b"x\n\ndwp-state: fail\naynig-notify: touch pwned\ndwp-notify: touch pwned\n",
    );
    exits(&repo.aynig(["run"]), 1);
    assert!(!repo.path.join("pwned").exists());
}

#[test]
fn what_it_prints_is_kept_and_no_link_is_followed() {
    let repo = repo(&[]);
    repo.teller("echo heard; echo trouble >&2");
    repo.ready("a", "fail");
    exits(&repo.aynig(["run"]), 1);
    let log = repo.path.join(".aynig/logs/notify.log");
    let text = fs::read_to_string(&log).expect("a log");
    assert!(text.contains("Z stalled a\n") && text.ends_with("heard\ntrouble\n"), "{text}");
    // Such a symlink may have come with the checkout.
    let victim = repo.beside("victim");
    fs::write(&victim, "precious\n").expect("a file");
    fs::remove_file(&log).expect("it is there");
    symlink(&victim, &log).expect("a link");
    repo.teller(KEEP);
    repo.ready("b", "fail");
    exits(&repo.aynig(["run"]), 1);
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious\n");
    assert_eq!(repo.told_briefly(), [["stalled", "b", "stalled"]], "the notice was delivered nevertheless");
}

#[test]
fn doctor_looks_whether_it_can_be_found() {
    let repo = repo(&[]);
    let finding = || {
        let report = parsed(&repo.aynig(["doctor", "--json"]));
        let all = report["findings"].as_array().expect("a list").clone();
        all.into_iter().find(|finding| finding["check"] == "notify").unwrap_or(Value::Null)
    };
    let level = || {
        let finding = finding();
        assert_eq!(finding["next"].is_null(), finding["level"] == "ok", "{finding:#}");
        (finding["level"].clone(), finding["text"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(level().0, "ok");
    for (line, level_wanted, words) in [
        ("missing/teller --loud", "error", "missing/teller of aynig.notify is not there"),
        ("no-such-program-here x", "error", "no-such-program-here of aynig.notify is not in PATH"),
        ("./README", "error", "is not executable"),
        ("sh -c 'exit 0'", "ok", "sh -c"),
        ("X=1 no-such-program", "ok", "X=1"),
    ] {
        repo.git(["config", "aynig.notify", line]);
        let (level, text) = level();
        assert_eq!(level, level_wanted, "{line}: {text}");
        assert!(text.contains(words), "{line}: {text}");
    }
    repo.git(["config", "--unset", "aynig.notify"]);
    assert_eq!(finding(), Value::Null, "without a program there is nothing to check");
    for state in ["done", "working"] {
        repo.git(["config", "aynig.notifyStates", state]);
        let (level, text) = level();
        assert_eq!(level, "warning");
        assert!(text.contains("there is no aynig.notify"), "{text}");
    }
    repo.git(["config", "aynig.notify", "true"]);
    assert!(level().1.ends_with("states that match 1 glob"), "{}", level().1);
}

#[test]
fn a_warning_repeats_what_the_program_said_last() {
    let repo = repo(&[]);
    repo.ready("a", "work");
    let stall = |line: &str| {
        repo.git(["config", "aynig.notify", line]);
        err(&repo.aynig_ok(["set-state", "--branch", "a", "--state", "stalled"]))
    };
    let said = stall(r"echo first; printf 'no \033[31mroute to host\n' >&2; exit 6");
    assert!(said.contains("exited with 6 (it ended with: no route to host)"), "{said}");
    assert!(said.contains("notify.log") && !said.contains("aynig doctor"), "{said}");
    let said = stall("exit 7");
    assert!(
        said.contains("exited with 7, so") && !said.contains("no route"),
        "that was another time: {said}"
    );
    let said = stall("head -c 3000 /dev/zero | tr '\\0' x; exit 8");
    assert!(said.contains(&format!("{}…)", "x".repeat(200))), "{said}");
    repo.write("no-program", "");
    let said = stall("./no-program");
    assert!(said.contains("is not executable") && said.contains("aynig doctor"), "{said}");
    let said = stall("no-such-program-here");
    assert!(said.contains("was not found") && said.contains("aynig doctor"), "{said}");
}

#[test]
fn after_one_signal_what_became_of_it_is_told() {
    let repo = repo(&[("work", "say ready $$; await never")]);
    repo.ready("task", "work");
    repo.git(["config", "aynig.onInterrupt", "stall"]);
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    runner.signal(Signal::SIGINT);
    exits(&runner.finish(), 130);
    let [notice] = <[Value; 1]>::try_from(repo.told()).expect("one notice");
    assert_eq!(notice["event"], "stalled");
    assert!(notice["reason"].as_str().is_some_and(|why| why.contains("SIGINT")), "{notice:#}");
}
