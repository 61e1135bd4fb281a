//! Ctrl-C and other signals while a remote does not answer: the runner reacts at once and leaves no git
//! running. After the first signal a step that has begun may still land; after the second its work is saved.

use nix::sys::signal::Signal;

use super::*;

/// The first call of this subcommand writes its process id, and hangs.
fn hanging(hub: &Repo, verb: &str) -> Wrapper {
    Wrapper::new(
        hub,
        &format!(
            r#"if [ "$verb" = {verb} ] && [ ! -e "$ROOM/hangs" ]; then say hangs $$; exec tail -f /dev/null; fi"#
        ),
    )
}

/// CONTRACT 10.5
#[test]
fn a_run_that_looks_for_work_ends_at_the_first_signal() {
    for (arguments, verb) in [
        (["run", "--remote", "origin"].as_slice(), "fetch"),
        (&["run", "--remote", "origin", "--drain"], "fetch"),
        (&["run", "--remote", "origin", "--watch"], "ls-remote"),
        (&["run", "--remote", "origin", "--watch"], "fetch"),
    ] {
        let hub = hub(&[("work", "next done")]);
        let clone = clone(&hub);
        hub.ready("task", "work");
        let before = heads(&hub);
        let wrapper = hanging(&hub, verb);
        let runner = wrapper.start(&clone, arguments);
        let call = hub.said_pid("hangs");
        runner.signal(Signal::SIGINT);
        let output = runner.finish();
        call.gone();
        assert_exit(&output, 130);
        assert!(!err(&output).contains("trying again"), "{}", told(&output));
        assert!(!err(&output).contains("hint"), "{}", told(&output));
        assert_eq!(heads(&hub), before);
        clone.assert_tidy();
    }
}

/// CONTRACT 10.5
///
/// The kernel and the shell both send SIGHUP when a terminal is closed.
#[test]
fn a_terminal_that_is_closed_does_not_cut_off_the_result() {
    let hub = hub(&[("work", "say ready $$; exec tail -f /dev/null")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let slow = r#"if [ "$verb" = push ] && [ -e "$ROOM/ready" ]; then say pushing $$; await released; fi"#;
    let wrapper = Wrapper::new(&hub, slow);
    let mut runner = wrapper.start(&clone, &["run", "--remote", "origin", "-vv"]);
    hub.said("ready");
    for said in ["pushing", "pushing"] {
        runner.signal(Signal::SIGHUP);
        runner.await_error("asked to stop");
        hub.said(said);
    }
    hub.release("released");
    assert_exit(&runner.finish(), 129);
    assert_eq!((hub.state("task"), hub.trailer("task", "aynig-interrupted")), ("work".into(), "1".into()));
    clone.assert_tidy();
}

/// A stopped claim may have arrived; the runner does not know.
#[test]
fn a_claim_whose_push_hangs_ends_at_the_second_signal() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    let trigger = hub.ready("task", "work");
    let wrapper = hanging(&hub, "push");
    let mut terminal = clone.in_terminal((30, 100), &[("PATH", &wrapper.path())], RUN);
    let call = hub.said_pid("hangs");
    terminal.press(b"\x03");
    wait_until("the word", || terminal.shown().contains("press Ctrl-C again to stop it now"));
    assert!(call.lives());
    terminal.press(b"\x03");
    let (shown, code) = terminal.finish();
    assert_eq!(code, 130, "{shown}");
    assert!(!call.lives() && shown.contains("was not answered"), "{shown}");
    assert_eq!(hub.noted_lines("ran"), Vec::<String>::new());
    assert_eq!(hub.head("task"), trigger);
    clone.assert_tidy();
}

#[test]
fn what_a_drain_has_done_is_told_though_the_next_look_is_ended() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next more"), ("more", "next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let script = r#"if [ "$verb$count" = fetch2 ]; then say hangs $$; exec tail -f /dev/null; fi"#;
    let wrapper = Wrapper::new(&hub, script);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--drain", "--json"]);
    let call = hub.said_pid("hangs");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    call.gone();
    assert_exit(&output, 143);
    let summary = out(&output).lines().last().map(str::to_owned).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["steps"].as_array().map(Vec::len), Some(1), "{}", told(&output));
    assert_eq!(hub.state("task"), "more");
    clone.assert_tidy();
}

#[test]
fn what_a_drain_has_done_is_told_though_the_remote_goes_away() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next more"), ("more", "next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper =
        Wrapper::new(&hub, r#"if [ "$verb$count" = fetch2 ]; then echo 'fatal: gone' >&2; exit 128; fi"#);
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--drain", "--json"]);
    assert_exit(&output, 4);
    let summary = out(&output).lines().last().map(str::to_owned).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["steps"].as_array().map(Vec::len), Some(1), "{}", told(&output));
    assert_eq!(summary["errors"].as_array().map(Vec::len), Some(1), "{}", told(&output));
    assert_eq!(err(&output).matches("nothing more was run").count(), 1, "{}", told(&output));
    assert_eq!(err(&output).matches("fatal: gone").count(), 1, "{}", told(&output));
}

/// CONTRACT 10.5
#[test]
fn a_result_that_is_on_its_way_lands_after_the_first_signal() {
    let script = r#"if [ "$AYNIG_BRANCH" = a ]; then await on; next done; exit; fi
trap 'say stopped yes; exit 1' TERM; say on yes; await never"#;
    let hub = hub(&[("work", script)]);
    let clone = clone(&hub);
    hub.ready("a", "work");
    hub.ready("b", "work");
    // The first push carries the claims.
    let wrapper = Wrapper::new(&hub, r#"if [ "$verb$count" = push2 ]; then say hangs $$; await release; fi"#);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--jobs", "2"]);
    let call = hub.said_pid("hangs");
    runner.signal(Signal::SIGINT);
    hub.said("stopped");
    assert!(call.lives());
    hub.release("release");
    let output = runner.finish();
    assert_exit(&output, 130);
    assert_eq!([hub.state("a"), hub.state("b")], ["done", "work"]);
    assert_eq!(states(&hub, "a"), ["work", "working", "done"]);
    clone.assert_tidy();
}

/// CONTRACT 10.5
#[test]
fn a_result_whose_push_hangs_is_saved_at_the_second_signal() {
    let hub = hub(&[("work", &format!("{WORK} next done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(
        &hub,
        r#"if [ "$verb" = push ] && [ -e "$ROOM/release" ]; then say hangs $$; exec tail -f /dev/null; fi"#,
    );
    let runner = wrapper.start(&clone, RUN);
    hub.said("at");
    hub.release("release");
    let call = hub.said_pid("hangs");
    runner.signal(Signal::SIGINT);
    // Two signals at the same moment may count as one.
    wait_until("the runner to end", || {
        runner.signal(Signal::SIGINT);
        !is_alive(call.0)
    });
    let output = runner.finish();
    assert_exit(&output, 130);
    assert_work_saved(&clone, &output);
    assert!(out(&output).contains("not known to have landed"), "{}", told(&output));
    assert_eq!(hub.state("task"), "working", "nobody knows whether the push arrived");
}

#[test]
fn who_waits_at_a_terminal_is_told_for_whom() {
    for arguments in [["run", "--watch"], ["status", "--all"]] {
        let hub = hub(&[("work", "next done")]);
        let clone = clone(&hub);
        let wrapper = Wrapper::new(&hub, "say hangs $$; exec tail -f /dev/null");
        let arguments = [&arguments[..], &["--remote", "origin"]].concat();
        let mut terminal = clone.in_terminal((30, 100), &[("PATH", &wrapper.path())], &arguments);
        wait_until("the word", || terminal.shown().contains("waiting for origin"));
        terminal.press(b"\x03");
        let (shown, code) = terminal.finish();
        assert_eq!(code, 130, "{shown}");
        assert_eq!(shown.contains("watching origin of "), arguments[0] == "run", "{shown}");
        assert!(!shown.contains("error") && !shown.contains("hint"), "{shown}");
    }
}

/// A killed git that moves refs would leave its lock files, which make every later fetch fail.
#[test]
fn a_fetch_that_has_what_it_needs_comes_to_its_end() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    // Its transport gets SIGTERM; how it handles that is its own affair, and takes a while. It starts no program
    // meanwhile, which would be taken for its transport.
    let script = r#"if [ "$verb" = fetch ]; then tail -f /dev/null & say hangs $$; wait $!
read -r up idle </proc/uptime; end=$((${up%.*} + 4)); while [ "${up%.*}" -lt $end ]; do read -r up idle </proc/uptime; done
echo yes >"$ROOM/finished"; exit 0; fi"#;
    let wrapper = Wrapper::new(&hub, script);
    let runner = wrapper.start(&clone, RUN);
    hub.said("hangs");
    runner.signal(Signal::SIGINT);
    let output = runner.finish();
    assert_exit(&output, 130);
    assert!(hub.beside("finished").exists(), "{}", told(&output));
    assert_eq!(hub.state("task"), "work");
}

/// Like a master connection of ssh.
#[test]
fn who_keeps_the_output_of_a_call_does_not_keep_us() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    let script = r#"if [ "$verb" = fetch ]; then setsid tail -f /dev/null & say daemon $!; say hangs $$; exec tail -f /dev/null; fi"#;
    let wrapper = Wrapper::new(&hub, script);
    let runner = wrapper.start(&clone, RUN);
    let (call, daemon) = (hub.said_pid("hangs"), hub.said_pid("daemon"));
    runner.signal(Signal::SIGINT);
    let pid = runner.pid();
    wait_until("the runner's end", || !is_alive(pid));
    // It was killed, and may be gone a moment later.
    call.gone();
    assert!(daemon.lives());
    drop(daemon);
    assert_exit(&runner.finish(), 130);
}

/// Our own child processes serve a remote in a directory.
#[test]
fn a_push_that_is_ended_leaves_no_lock_in_the_remote() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    hook(
        &hub,
        "reference-transaction",
        &hub.scripted(r#"[ "$1" != prepared ] || { say prepared yes; await never; }"#),
    );
    let setting = ["set-state", "--state", "done", "--remote", "origin", "--branch", "task"];
    let runner =
        Running::start(clone.aynig_command().args(setting).stdout(Stdio::piped()).stderr(Stdio::piped()));
    hub.said("prepared");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_exit(&output, 143);
    fs::remove_file(hub.path.join("hooks/reference-transaction")).expect("it was there");
    wait_until("the lock to go", || !hub.path.join("refs/heads/task.lock").exists());
    clone.aynig_ok(setting);
    assert_eq!(hub.state("task"), "done");
}

#[test]
fn other_subcommands_say_what_became_of_it() {
    let (set, hold) = (["set-state", "--state", "done"], ["set-working", "--lease-seconds", "60"]);
    for (arguments, verb, words) in [
        (&[&set[..], &["--branch", "task"]].concat()[..], "push", "was not answered"),
        (&[&set[..], &["--branch", "task"]].concat(), "ls-remote", "as a stop was asked for"),
        (&[&hold[..], &["--branch", "task"]].concat(), "push", "was not answered"),
        (&["status", "--all"], "fetch", "as a stop was asked for"),
        (&["status", "--all", "--watch"], "fetch", "as a stop was asked for"),
        (&["doctor"], "ls-remote", "as a stop was asked for"),
        (&["events", "--branch", "task"], "ls-remote", "as a stop was asked for"),
        (&["log", "task"], "ls-remote", "as a stop was asked for"),
    ] {
        for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
            let hub = hub(&[("work", "next done")]);
            let clone = clone(&hub);
            hub.ready("task", "work");
            let before = heads(&hub);
            let wrapper = hanging(&hub, verb);
            let runner = wrapper.start(&clone, &[arguments, &["--remote", "origin"]].concat());
            let call = hub.said_pid("hangs");
            runner.signal(signal);
            let output = runner.finish();
            call.gone();
            assert_exit(&output, code);
            assert!(told(&output).contains(words), "{arguments:?}: {}", told(&output));
            assert_eq!(heads(&hub), before);
        }
    }
}

/// A program beside the wrapper.
fn program(hub: &Repo, wrapper: &Wrapper, name: &str, script: &str) -> String {
    let path = wrapper.directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{}\n", hub.scripted(script))).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    path.display().to_string()
}

/// Signing may wait for a passphrase, or for a hardware key.
#[test]
fn a_signature_that_does_not_come_is_not_waited_for() {
    let set = ["set-state", "--state", "done", "--branch", "task"];
    let far = [&set[..], &["--remote", "origin"]].concat();
    for (arguments, signals) in [(&set[..], 1), (&far, 1), (RUN, 2), (&["run"], 2)] {
        let hub = hub(&[("work", "next done")]);
        let clone = clone(&hub);
        hub.ready("task", "work");
        clone.git(["fetch", "-q", "origin", "task:task"]);
        let wrapper = Wrapper::new(&hub, "");
        let signer = program(&hub, &wrapper, "sign", "say signs $$; exec tail -f /dev/null");
        clone.git(["config", "commit.gpgSign", "true"]);
        clone.git(["config", "gpg.program", &signer]);
        let runner = wrapper.start(&clone, arguments);
        let signer = hub.said_pid("signs");
        runner.signal(Signal::SIGTERM);
        wait_until("the signer to end", || {
            if signals > 1 {
                runner.signal(Signal::SIGTERM);
            }
            !signer.lives()
        });
        let output = runner.finish();
        assert_exit(&output, 143);
        assert_eq!([hub.state("task"), clone.state("task")], ["work", "work"], "{}", told(&output));
        clone.assert_tidy();
    }
}

/// Without a running call, a signal has its normal effect.
#[test]
fn who_reads_a_page_dies_of_the_signal_itself() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    let wrapper = Wrapper::new(&hub, "");
    let pager = program(&hub, &wrapper, "page", "cat >/dev/null; say pages $$; exec tail -f /dev/null");
    let arguments = ["log", "task", "--remote", "origin"];
    let mut terminal = clone.in_terminal((20, 100), &[("GIT_PAGER", &pager)], &arguments);
    let _pager = hub.said_pid("pages");
    terminal.signal(Signal::SIGTERM);
    let (shown, code) = terminal.finish();
    // 256 minus the signal's number, as the driver reports it.
    assert_eq!(code, 241, "{shown}");
}

/// A prompt for a passphrase or host key would stop forever in a terminal's background (SIGTTIN).
#[test]
fn a_call_over_a_network_has_no_terminal_to_ask_on() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    let wrapper = Wrapper::new(
        &hub,
        r#"if (: </dev/tty) 2>/dev/null; then say terminal yes; else say terminal no; fi"#,
    );
    let (_, code) = clone.in_terminal((30, 100), &[("PATH", &wrapper.path())], RUN).finish();
    assert_eq!(code, 0);
    assert_eq!(hub.said("terminal"), "no");
}

#[test]
fn what_ssh_would_ask_is_told_instead() {
    let hub = hub(&[("work", "next done")]);
    let server = match servers::sshd(&hub) {
        Ok(server) => server,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let clone = clone(&hub);
    clone.git(["remote", "set-url", "origin", &server.url]);
    let known = format!("{}/sshd/known", hub.beside("x").parent().expect("the room").display());
    let (_, ssh) = &server.environment[0];
    assert!(ssh.contains(&known) && ssh.contains("BatchMode=yes"), "{ssh}");
    let asking = ssh
        .replace(&known, "/dev/null")
        .replace("BatchMode=yes", "BatchMode=no")
        .replace("StrictHostKeyChecking=yes", "StrictHostKeyChecking=ask");
    let (shown, code) = clone.in_terminal((30, 100), &[("GIT_SSH_COMMAND", &asking)], RUN).finish();
    assert_eq!(code, 4, "{shown}");
    assert!(shown.contains("Host key verification failed;") && shown.contains("ssh-add"), "{shown}");
}
