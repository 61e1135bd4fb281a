//! The server hooks. `contrib/hooks/pre-receive` refuses a plain `git push` to a leased branch, but nothing a
//! runner does. `contrib/hooks/post-receive` starts a pass without delaying the push.

use super::*;

const RUN_ID: &str = "11111111-2222-4333-8444-555555555555";

/// Copies a hook into the hub, as the README says.
pub(crate) fn install(hub: &Repo, name: &str) {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("contrib/hooks").join(name);
    fs::copy(from, hub.path.join("hooks").join(name)).expect("the hook is copied");
}

fn guarded(commands: &[(&str, &str)]) -> Repo {
    let hub = hub(commands);
    install(&hub, "pre-receive");
    hub
}

/// A plain `git push` from a clone that has fetched everything.
fn push(clone: &Repo, options: &[&str]) -> Output {
    let mut git = clone.git_command();
    git.env("AYNIG_BIN", binary()).args(["push", "--quiet"]).args(options);
    git.output().expect("git runs")
}

/// A commit in the clone on top of `base`, `age` seconds old. No ref points at it.
fn commit(clone: &Repo, base: &str, age: i64, trailers: &str) -> String {
    let date = i64::try_from(now()).expect("a date") - age;
    let tree = clone.git(["rev-parse", &format!("{base}^{{tree}}")]);
    let message = format!("by hand\n\n{trailers}\n");
    let mut git = clone.git_command();
    git.env("GIT_COMMITTER_DATE", format!("{date} +0000")).args([
        "commit-tree",
        "-p",
        base,
        "-m",
        &message,
        &tree,
    ]);
    let output = git.output().expect("git runs");
    assert!(output.status.success(), "{}", err(&output));
    out(&output).trim().to_owned()
}

fn lease(run_id: &str) -> String {
    format!(
        "dwp-state: working\ndwp-origin-state: work\ndwp-run-id: {run_id}\ndwp-runner-id: me\ndwp-lease-seconds: 300"
    )
}

/// Asserts that a push is refused with these words and changes nothing.
#[track_caller]
fn refused(hub: &Repo, clone: &Repo, options: &[&str], words: &[&str]) {
    let before = heads(hub);
    let output = push(clone, options);
    assert_ne!(output.status.code(), Some(0), "{options:?} was taken");
    for word in words {
        assert!(err(&output).contains(word), "{options:?} should say {word:?}: {}", told(&output));
    }
    assert_eq!(heads(hub), before);
}

#[track_caller]
fn taken(clone: &Repo, options: &[&str]) {
    let output = push(clone, options);
    assert_eq!(output.status.code(), Some(0), "{options:?}: {}", told(&output));
}

/// CONTRACT 12.2, 12.3, 12.7
#[test]
fn a_live_lease_is_not_pushed_over_by_anybody_else() {
    let hub = guarded(&[("work", "next done")]);
    let trigger = hub.ready("task", "work");
    let held = hub.taken_by_other(&trigger, "task", 300);
    let clone = clone(&hub);
    let holder = ["task is leased to other-host for `work`", RUN_ID, "for another ", "aynig status"];
    let of = |id: String| format!("{id}:refs/heads/task");
    for trailers in ["no: state", "dwp-state: done", &lease("22222222-2222-4333-8444-555555555555")] {
        let words = [&holder[..], &["does not carry its run id"]].concat();
        refused(&hub, &clone, &["origin", &of(commit(&clone, &held, 0, trailers))], &words);
    }
    let early = format!("dwp-state: stalled\ndwp-stalled-run: {RUN_ID}");
    refused(&hub, &clone, &["origin", &of(commit(&clone, &held, 0, &early))], &holder);
    for rewind in [trigger.clone(), commit(&clone, &trigger, 0, "dwp-state: done")] {
        let words = [&holder[..], &["takes commits away"]].concat();
        refused(&hub, &clone, &["--force", "origin", &of(rewind)], &words);
    }
    refused(&hub, &clone, &["origin", ":task"], &[&holder[..], &["deletes it"]].concat());
    // The way out for a runner that is dead is as printed.
    let early = commit(&clone, &held, 0, "dwp-state: done");
    let said = err(&push(&clone, &["origin", &of(early)]));
    let command = said.split('`').find(|part| part.starts_with("AYNIG_REMOTE=origin ")).expect("a command");
    let command = command.replace(" aynig ", " \"$AYNIG\" ");
    let mut shell = std::process::Command::new("/bin/sh");
    let shell =
        hermetic(&mut shell).current_dir(&clone.path).envs([("AYNIG", binary()), ("AYNIG_BIN", binary())]);
    let output = shell.args(["-c", &command]).output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", told(&output));
    assert_eq!(hub.state("task"), "work");
    let held = hub.taken_by_other(&hub.head("task"), "task", 300);
    clone.git(["fetch", "--quiet", "origin"]);
    // Such a push moves none of its branches, as with any hook of git.
    let result = commit(&clone, &held, 0, "dwp-state: done");
    refused(&hub, &clone, &["origin", &of(result), "main:refs/heads/other"], &holder);
}

/// CONTRACT 12.1
#[test]
fn what_a_client_says_of_the_old_value_is_not_believed() {
    let hub = guarded(&[("work", "next done")]);
    let trigger = hub.ready("task", "work");
    hub.taken_by_other(&trigger, "task", 300);
    let before = heads(&hub);
    let none = "0".repeat(40);
    for old in [none.clone(), "1".repeat(40)] {
        // The first lines that a client sends: delete the branch, whatever its value.
        let line = format!("{old} {none} refs/heads/task\0 report-status delete-refs");
        let mut git = hub.git_command();
        git.env("AYNIG_BIN", binary())
            .args(["receive-pack", "."])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = git.stderr(Stdio::piped()).spawn().expect("git starts");
        let words = format!("{:04x}{line}0000", line.len() + 4);
        std::io::Write::write_all(&mut server.stdin.take().expect("piped"), words.as_bytes())
            .expect("written");
        let output = server.wait_with_output().expect("it ends");
        assert!(out(&output).contains("hook declined"), "{old}: {}", told(&output));
        assert_eq!(heads(&hub), before, "{old}");
    }
}

/// CONTRACT 12.2, 12.3
#[test]
fn a_symbolic_ref_is_no_way_around_a_lease() {
    let hub = guarded(&[("work", "next done")]);
    let trigger = hub.ready("task", "work");
    let held = hub.taken_by_other(&trigger, "task", 300);
    let none = "0".repeat(40);
    for link in ["refs/aliases/latest", "refs/heads/latest"] {
        hub.git(["symbolic-ref", link, "refs/heads/task"]);
        let clone = clone(&hub);
        let before = heads(&hub);
        refused(&hub, &clone, &["origin", &format!("+{trigger}:{link}")], &["task is leased to other-host"]);
        refused(&hub, &clone, &["origin", &format!(":{link}")], &["task is leased to other-host"]);
        // Also if a client claims that there was nothing before.
        let line = format!("{none} {trigger} {link}\n");
        let output = told_by_git(&hub, &line);
        assert!(err(&output).contains("task is leased to other-host"), "{link}: {}", told(&output));
        assert_eq!((heads(&hub), hub.head("task")), (before, held.clone()), "{link}");
        hub.git(["symbolic-ref", "--delete", link]);
    }
}

/// CONTRACT 12.3, 12.5
#[test]
fn a_result_that_names_its_attempt_is_taken() {
    let hub = guarded(&[("work", "next done")]);
    hub.git(["config", "receive.advertisePushOptions", "true"]);
    let trigger = hub.ready("task", "work");
    let held = hub.taken_by_other(&trigger, "task", 300);
    let clone = clone(&hub);
    let renewal = commit(&clone, &commit(&clone, &held, 0, "own: commit"), 0, &lease(RUN_ID));
    taken(&clone, &["origin", &format!("{renewal}:refs/heads/task")]);
    let result = commit(&clone, &renewal, 0, "dwp-state: done");
    let target = format!("{result}:refs/heads/task");
    refused(&hub, &clone, &["-o", "aynig-run-id=other", "origin", &target], &["does not carry its run id"]);
    taken(&clone, &["-o", &format!("aynig-run-id={RUN_ID}"), "origin", &target]);
    let held = hub.taken_by_other(&result, "task", 300);
    clone.git(["fetch", "--quiet", "origin"]);
    let result = commit(&clone, &held, 0, &format!("dwp-state: done\ndwp-run-id: {RUN_ID}"));
    taken(&clone, &["origin", &format!("{result}:refs/heads/task")]);
}

/// CONTRACT 12.5, 12.6
#[test]
fn a_lease_lies_on_head_and_is_dated_by_the_servers_clock() {
    let hub = guarded(&[("work", "next done")]);
    let trigger = hub.ready("task", "work");
    let clone = clone(&hub);
    let other = commit(&clone, &trigger, 0, "dwp-state: work");
    for (lease, to, words) in [
        (commit(&clone, &other, 0, &lease(RUN_ID)), "task", ["the branch is at", "fetch"]),
        (
            commit(&clone, &trigger, 0, &lease(RUN_ID)),
            "fresh",
            ["does not exist here", "push the commit below"],
        ),
        (
            commit(&clone, &trigger, 90, &lease(RUN_ID)),
            "task",
            ["s apart, and 60 s are allowed", "timedatectl"],
        ),
        (
            commit(&clone, &trigger, -90, &lease(RUN_ID)),
            "task",
            ["s apart, and 60 s are allowed", "timedatectl"],
        ),
    ] {
        refused(&hub, &clone, &["origin", &format!("{lease}:refs/heads/{to}")], &words);
    }
    let claim = commit(&clone, &trigger, 30, &lease(RUN_ID));
    taken(&clone, &["origin", &format!("{claim}:refs/heads/task")]);
}

/// CONTRACT 12.10
#[test]
fn a_lease_is_bounded_in_its_length() {
    let hub = guarded(&[("work", "next done")]);
    let trigger = hub.ready("task", "work");
    let clone = clone(&hub);
    let lasting = |seconds: &str| lease(RUN_ID).replace(": 300", &format!(": {seconds}"));
    let to_task = |commit: &str| format!("{commit}:refs/heads/task");
    for seconds in ["31536001", "99999999999999999999999"] {
        let claim = commit(&clone, &trigger, 0, &lasting(seconds));
        let words = ["task: the lease that was pushed lasts", "31536000", "set-working --lease-seconds"];
        refused(&hub, &clone, &["origin", &to_task(&claim)], &words);
    }
    let longest = commit(&clone, &trigger, 0, &lasting("31536000"));
    taken(&clone, &["origin", &to_task(&longest)]);
    let longer = commit(&clone, &longest, 0, &lasting("31536001"));
    refused(&hub, &clone, &["origin", &to_task(&longer)], &["lasts"]);
    // If the branch already had a longer lease before the guard was installed, its holder's renewal has an
    // allowed length.
    hub.git(["fetch", "--quiet", clone.path.to_str().expect("text"), &format!("+{longer}:refs/heads/task")]);
    let mut renewal = clone.aynig_command();
    renewal.envs([("AYNIG_BIN", binary().as_os_str()), ("AYNIG_BRANCH", "task".as_ref())]);
    renewal.envs([("AYNIG_RUN_ID", RUN_ID), ("AYNIG_REMOTE", "origin")]);
    let output = renewal.arg("set-working").output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_eq!(hub.trailer("task", "dwp-lease-seconds"), "31536000");
}

/// CONTRACT 12.1
#[test]
fn what_is_under_no_live_lease_is_left_alone() {
    let hub = guarded(&[("work", "next done")]);
    let clone = clone(&hub);
    let base = clone.head("main");
    let ready = commit(&clone, &base, 0, "dwp-state: work");
    let odd = commit(&clone, &base, 0, "dwp-state: ../x");
    let over = commit(&clone, &ready, 900, &lease(RUN_ID));
    hub.git(["fetch", "--quiet", clone.path.to_str().expect("text"), &format!("{over}:refs/heads/over")]);
    for steps in [
        // Forced, rewound and deleted, with and without a state.
        [format!("{base}:refs/heads/plain"), format!("+{ready}:refs/heads/plain"), ":plain".to_owned()],
        [format!("{ready}:refs/heads/task"), format!("+{odd}:refs/heads/task"), ":task".to_owned()],
        [format!("{ready}:refs/tags/task"), format!("+{over}:refs/tags/task"), ":refs/tags/task".to_owned()],
        [format!("+{odd}:refs/heads/over"), format!("+{base}:refs/heads/over"), ":over".to_owned()],
    ] {
        for step in steps {
            taken(&clone, &["origin", &step]);
        }
    }
}

/// The whole life of a runner behind a guarded server: results, failures, kept and renewed leases,
/// recoveries.
fn whole_life(prepare: impl Fn(&Repo, &Repo)) {
    let hub = guarded(&[
        ("work", "echo x >x; git add x; git commit -q -m own; await renewed; next check"),
        ("check", "\"$AYNIG_BIN\" set-state --state pass --subject 'by itself'"),
        ("pass", "next done"),
        ("fail", "exit 1"),
        (
            "keep",
            "(await later; \"$AYNIG_BIN\" set-working; \"$AYNIG_BIN\" set-state --state done) >/dev/null 2>&1 &",
        ),
        ("long", "say long $$; await release; next done"),
    ]);
    for name in ["work", "fail", "keep"] {
        hub.ready(name, name);
    }
    let gone = hub.ready("gone", "long");
    let clone = clone(&hub);
    prepare(&hub, &clone);
    let command = |arguments: &[&str]| {
        let mut command = clone.aynig_command();
        command.env("AYNIG_BIN", binary()).args(arguments);
        command
    };
    let dead = commit(&clone, &gone, 900, &lease(RUN_ID));
    hub.git(["fetch", "--quiet", clone.path.to_str().expect("text"), &format!("+{dead}:refs/heads/gone")]);
    let arguments = ["run", "--remote", "origin", "--drain", "--jobs", "4", "--lease-seconds", "12"];
    let start =
        |arguments: &[&str]| Running::start(command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let runner = start(&arguments);
    wait_until("renewals", || states(&hub, "work").iter().filter(|state| *state == "working").count() > 2);
    hub.release("renewed");
    let output = runner.finish();
    assert_exit(&output, 1);
    assert!(!err(&output).contains("refuses"), "{}", told(&output));
    for (branch, state) in [("work", "done"), ("fail", "stalled"), ("keep", "working"), ("gone", "stalled")] {
        assert_eq!(hub.state(branch), state, "{branch}: {}", told(&output));
    }
    let (header, trailer) = (header_of_attempt(&hub, "work"), hub.trailer("work", "dwp-run-id"));
    let (run, signed) = (hub.trailer("work~1", "dwp-run-id"), hub.git(["cat-file", "commit", "work"]));
    let expected = if signed.contains("\ngpgsig ") { (None, run.as_str()) } else { (Some(run.clone()), "") };
    assert_eq!((header, trailer.as_str()), expected);
    hub.release("later");
    wait_until("the process that was left behind", || hub.state("keep") == "done");
    // The branch is set again, and a runner that is stopped reports that.
    let ask = ["set-state", "--state", "long", "--branch", "gone", "--remote", "origin"];
    assert_exit(&command(&ask).output().expect("aynig runs"), 0);
    let runner = start(&["run", "--remote", "origin"]);
    hub.said("long");
    assert_exit(&command(&ask).output().expect("aynig runs"), 1);
    let forced = [&ask[..], &["--force"]].concat();
    let output = command(&forced).output().expect("aynig runs");
    assert_exit(&output, 4);
    for words in
        ["gone is leased to", "hint: nothing was changed; `aynig status --remote origin --branch gone`"]
    {
        assert!(err(&output).contains(words), "{words}: {}", told(&output));
    }
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    assert_exit(&runner.finish(), 143);
    assert_eq!((hub.state("gone"), hub.trailer("gone", "aynig-interrupted")), ("long".into(), "1".into()));
    hub.assert_tidy();
}

/// CONTRACT 12.4
#[test]
fn nothing_a_runner_does_is_refused() {
    whole_life(|_, _| {});
}

/// CONTRACT 12.4
#[test]
fn nothing_a_runner_that_signs_does_is_refused() {
    whole_life(|hub, clone| {
        let key = clone.beside("key");
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).output();
        assert!(made.expect("ssh-keygen runs").status.success());
        let public = fs::read_to_string(key.with_extension("pub")).expect("a public key");
        let (allowed, key) = (clone.beside("allowed"), key.to_str().expect("text"));
        fs::write(&allowed, format!("person@example.com {public}")).expect("a file");
        let allowed = allowed.to_str().expect("text");
        for (name, value) in
            [("gpg.format", "ssh"), ("gpg.ssh.allowedSignersFile", allowed), ("aynig.requireSigned", "true")]
        {
            hub.git(["config", name, value]);
        }
        for (name, value) in [("gpg.format", "ssh"), ("user.signingKey", key), ("commit.gpgSign", "true")] {
            clone.git(["config", name, value]);
        }
    });
}

#[test]
fn a_server_without_the_program_takes_nothing_and_says_why() {
    let hub = guarded(&[("work", "next done")]);
    let clone = clone(&hub);
    let mut git = clone.git_command();
    let output =
        git.env("AYNIG_BIN", "/nowhere/aynig").args(["push", "origin", "main:refs/heads/new"]).output();
    let output = output.expect("git runs");
    assert_ne!(output.status.code(), Some(0));
    let said = err(&output);
    assert!(said.contains("/nowhere/aynig is not on this server") && said.contains("install it"), "{said}");
}

/// Runs the hook with these lines on its input, as git does.
fn told_by_git(hub: &Repo, words: &str) -> Output {
    let mut hook = hub.aynig_command();
    let mut child = hook
        .args(["hook", "pre-receive"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("aynig starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), words.as_bytes()).expect("written");
    child.wait_with_output().expect("it ends")
}

#[test]
fn what_git_would_not_say_to_a_hook_is_named() {
    let output = told_by_git(&hub(&[("work", "next done")]), "nonsense\n");
    assert_refused(&output, 2, &["nonsense", "contrib/hooks/pre-receive"]);
}

#[test]
fn a_push_starts_a_pass_and_does_not_wait_for_it() {
    let hub = hub(&[("work", "await release; next done")]);
    install(&hub, "post-receive");
    install(&hub, "pre-receive");
    let clone = clone(&hub);
    let ready = commit(&clone, &clone.head("main"), 0, "dwp-state: work");
    // Its command waits until the push has returned.
    taken(&clone, &["origin", &format!("{ready}:refs/heads/task")]);
    wait_until("the claim", || hub.state("task") == "working");
    hub.release("release");
    wait_until("the result", || hub.state("task") == "done");
    wait_until("the pass to say so", || {
        let said = fs::read_to_string(hub.path.join("aynig-passes.log")).unwrap_or_default();
        said.contains("task  work → done")
    });
    wait_until("the worktree to go", || hub.worktrees().is_empty());
}

#[test]
fn what_passes_said_on_the_server_is_bounded() {
    let hub = hub(&[("work", "next done")]);
    install(&hub, "post-receive");
    let clone = clone(&hub);
    let (log, old) = (hub.path.join("aynig-passes.log"), hub.path.join("aynig-passes.log.old"));
    // At the size limit the log stays; above it the log is rotated.
    for (length, makes_way) in [(1_000_000, false), (1_000_001, true)] {
        let words = "x".repeat(length - 1) + "\n";
        fs::write(&log, &words).expect("a log");
        let branch = format!("task{length}");
        let ready = commit(&clone, &clone.head("main"), 0, "dwp-state: work");
        taken(&clone, &["origin", &format!("{ready}:refs/heads/{branch}")]);
        let said = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
        wait_until("the pass to say so", || said(&log).contains(&format!("{branch}  work → done")));
        assert_eq!(said(&log).starts_with(&words), !makes_way, "{length}");
        assert_eq!(said(&old) == words, makes_way, "{length}");
        wait_until("the worktree to go", || hub.worktrees().is_empty());
    }
}

/// CONTRACT 12.8
#[test]
fn a_server_whose_branches_cannot_be_read_takes_nothing_and_says_what_to_look_at() {
    let hub = hub(&[("work", "next done")]);
    let held = hub.ready("task", "work");
    let next = hub.branch_from("task", "next", b"by hand\n");
    let line = format!("{held} {next} refs/heads/task\n");
    let (object, reference) =
        (hub.path.join("objects").join(&held[..2]).join(&held[2..]), hub.path.join("refs/heads/task"));
    fs::remove_file(&object).expect("a loose object");
    fs::write(&object, "no object").expect("damaged");
    let next =
        format!("hint: nothing was taken; whoever keeps the server: `git -C {} fsck`", hub.path.display());
    assert_refused(&told_by_git(&hub, &line), 3, &["could not read the commits of this push", &next]);
    fs::write(&reference, "no id\n").expect("damaged");
    assert_refused(&told_by_git(&hub, &line), 3, &["could not read the branch task", &next]);
}
