//! Steps that change settings and hooks of the repository, or remove what is recorded of them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::agent::{agent, with_agent};
use super::hosts::Field;
use super::*;

const TWO: &str = "  - id: work
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    routes: {completed: next, error: STOP, killed_policy: next}
  - id: next
    opcode: RUN_AGENT
    agent: other
    prompt: go on
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

/// A repository whose first agent runs this, and whose second agent says that it ran.
fn scene(script: &str) -> Repo {
    let repo = with_agent(&format!("cat >/dev/null; echo bad >bad; {script}"));
    agent(&repo, "other", "cat >/dev/null; ls >seen; touch \"$(git rev-parse --git-common-dir)/next-ran\"");
    repo
}

fn said(repo: &Repo, run: &Started) -> String {
    let words = ["show", "log"].map(|verb| out(&repo.aynig_ok(["flow", verb, &run.slug])));
    words.concat()
}

/// CONTRACT 20.33
#[test]
fn a_setting_that_a_step_changes_breaks_the_policy_and_is_put_back() {
    for key in [
        "aynig.validator.ok",
        "user.email",
        "remote.origin.pushurl",
        "url.x.insteadof",
        "core.excludesfile",
        "core.attributesfile",
        "core.sshcommand",
        "filter.x.clean",
    ] {
        let repo = scene(&format!("echo '* filter=x' >.gitattributes; git config {key} hidden-value"));
        let run = start(&repo, &flow("work", TWO));
        let settings = || repo.git(["config", "--local", "--list"]);
        let before = settings();
        repo.aynig_ok(["run", "--drain"]);
        let same = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(same(&settings()), same(&before), "{key}");
        assert_eq!(steps(&repo, &run), ["work killed_policy next", "next completed STOP"], "{key}");
        let words = said(&repo, &run);
        assert!(words.contains(&format!("the setting {key} was")) && words.contains("put back"), "{words}");
        assert!(!words.contains("hidden-value"), "values are not shown: {words}");
        let seen = repo.git(["show", &format!("{}:seen", run.work)]);
        assert!(seen.lines().any(|file| file == "bad"), "the work stays: {key}: {seen}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_list_of_ignored_files_that_a_step_writes_breaks_the_policy_and_is_put_back() {
    for (name, write) in [
        ("info/exclude", "echo '* hidden-value' >$F; echo bad >>$F"),
        ("info/attributes", "echo '* hidden-value' >$F"),
        ("info/exclude", "rm -f $F; mkfifo $F"),
        ("info/exclude", "rm -rf $D/info; echo bad >$D/info"),
        ("info/grafts", "mkfifo $F"),
        ("info/grafts", "git rev-parse HEAD >$F"),
    ] {
        let repo =
            scene(&format!("D=$(git rev-parse --git-common-dir); mkdir -p $D/info; F=$D/{name}; {write}"));
        let info = repo.path.join(".git/info");
        std::fs::create_dir_all(&info).expect("a directory");
        std::fs::write(info.join("exclude"), "# nothing\n").expect("a file");
        let run = start(&repo, &flow("work", TWO));
        let file = repo.path.join(".git").join(name);
        let before = std::fs::read(&file).ok();
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy next", "next completed STOP"], "{write}");
        let words = said(&repo, &run);
        assert!(words.contains(&format!("{name} was")) && words.contains("put back"), "{words}");
        assert!(!words.contains("hidden-value"), "contents are not shown: {words}");
        assert_eq!(std::fs::read(&file).ok(), before, "{write}");
        let seen = repo.git(["show", &format!("{}:seen", run.work)]);
        assert!(seen.lines().any(|file| file == "bad"), "{write}: {seen}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_setting_with_several_values_and_a_hook_are_put_back_as_they_were() {
    let hooks = "\"$(git rev-parse --git-common-dir)/hooks\"";
    let repo = scene(&format!(
        "git config --replace-all aynig.x 3; git config --unset-all user.name; cd {hooks}; echo evil >post-merge; \
         ln -sf /evil linked; rm old; chmod 700 kept"
    ));
    repo.git(["config", "--add", "aynig.x", "1"]);
    repo.git(["config", "--add", "aynig.x", "- two\nlines"]);
    let place = repo.path.join(".git/hooks");
    std::fs::create_dir_all(&place).expect("a directory");
    for name in ["old", "kept"] {
        std::fs::write(place.join(name), name).expect("a file");
        std::fs::set_permissions(place.join(name), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    std::os::unix::fs::symlink("/somewhere", place.join("linked")).expect("a link");
    let before = repo.git(["config", "--local", "--get-regexp", "aynig.x|user.name"]);
    let run = start(&repo, &flow("work", TWO));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy next", "next completed STOP"]);
    assert_eq!(repo.git(["config", "--local", "--get-regexp", "aynig.x|user.name"]), before);
    assert!(!place.join("post-merge").exists());
    assert_eq!(std::fs::read_link(place.join("linked")).expect("a link"), Path::new("/somewhere"));
    for name in ["old", "kept"] {
        assert_eq!(std::fs::read_to_string(place.join(name)).expect("a file"), name);
        let mode = place.join(name).metadata().expect("it").permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }
}

/// CONTRACT 20.33
#[test]
fn the_end_of_a_step_goes_where_the_step_began() {
    let field = Field::new("true");
    let [first, second] = &field.hosts;
    let (copy, trap) = (first.beside("copy.git"), first.path.join("trapped"));
    let ran = format!("#!/bin/sh\ntouch '{}'\nexec git-receive-pack \"$@\"\n", trap.display());
    let program = first.beside("pack");
    std::fs::write(&program, ran).expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let hub = first.git(["remote", "get-url", "origin"]);
    for (key, value) in [
        ("remote.origin.pushurl", copy.display().to_string()),
        (&*format!("url.{}.insteadOf", copy.display()), hub.clone()),
        ("remote.origin.receivepack", program.display().to_string()),
    ] {
        let make = format!("cp -r '{hub}' '{}' 2>/dev/null", copy.display());
        agent(first, "scripted", &format!("cat >/dev/null; {make}; git config '{key}' '{value}'"));
        agent(first, "other", "cat >/dev/null; echo other >other");
        let run = start(first, &flow("work", TWO));
        first.aynig_ok(["run", "--drain"]);
        second.aynig_ok(["flow", "list"]);
        assert_eq!(steps(second, &run), ["work killed_policy next", "next completed STOP"], "{key}");
        field.assert_same(&run);
        assert!(!trap.exists(), "{key}");
        std::fs::remove_dir_all(&copy).ok();
    }
}

/// CONTRACT 20.33
#[test]
fn a_person_may_change_settings_of_aynig_between_steps() {
    let repo = scene("true");
    let gate = "  - id: ask\n    opcode: GATE\n    gate: g\n    routes: {gate_approved: next, gate_rejected: STOP}\n";
    let text = flow("work", &(TWO.replacen("completed: next", "completed: ask", 1) + gate));
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    repo.git(["config", "aynig.validator.ok", "true"]);
    repo.git(["config", "user.email", "other@example.com"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    let wanted = ["work completed ask", "ask gate_approved next", "next completed STOP"];
    assert_eq!(steps(&repo, &run), wanted);
}

/// CONTRACT 20.33
#[test]
fn a_person_may_change_settings_after_a_step_was_stopped() {
    let begin = "up=$(git rev-parse --git-common-dir)/up; \
                 [ -e \"$up\" ] || { echo $$ >\"$up.new\"; mv \"$up.new\" \"$up\"; exec sleep 600; }";
    let repo = scene(begin);
    let run = start(&repo, &flow("work", TWO));
    let runner = repo.aynig_start(["run"]);
    wait_for_file(&repo.path.join(".git/up"));
    runner.signal(nix::sys::signal::Signal::SIGINT);
    runner.finish();
    repo.git(["config", "aynig.validator.ok", "true"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run).pop().expect("a step"), "next completed STOP", "{}", said(&repo, &run));
    assert_eq!(repo.git(["config", "aynig.validator.ok"]), "true");
}

/// CONTRACT 20.33
#[test]
fn a_person_may_change_settings_after_a_rollback() {
    let repo = scene("true");
    let undo = "  - {id: undo, opcode: ROLLBACK, target: pre_run, routes: {completed: STOP, error: STOP}}\n";
    let text = flow("work", &(TWO.replacen("completed: next", "completed: undo", 1) + undo));
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed undo", "undo completed STOP"]);
    repo.git(["config", "user.email", "other@example.com"]);
    let next = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &next), ["work completed undo", "undo completed STOP"]);
}

/// CONTRACT 20.33
#[test]
fn an_agent_does_not_choose_who_approves() {
    let repo = scene("git config aynig.approver.boss person@example.com");
    repo.git(["config", "aynig.approver.boss", "boss@example.com"]);
    let gate = "  - id: next\n    opcode: GATE\n    gate: g\n    approvers: [boss]\n    routes: {gate_approved: STOP, gate_rejected: STOP}\n";
    let (work, _) = TWO.split_once("  - id: next").expect("two steps");
    let run = start(&repo, &flow("work", &format!("{work}{gate}")));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy next", "next"]);
    assert_eq!(repo.git(["config", "aynig.approver.boss"]), "boss@example.com");
    assert_eq!(repo.state(&run.driver), "flow-gate");
    assert_eq!(repo.aynig(["flow", "approve", &run.slug]).status.code(), Some(1), "not of boss");
}

/// CONTRACT 20.33
#[test]
fn validators_and_planners_change_no_setting() {
    let repo = scene("true");
    let trap = "touch \"$(git rev-parse --git-common-dir)/trapped\"";
    let set =
        format!("git config filter.x.clean '{trap}; cat'; echo '* filter=x' >.gitattributes; echo x >x");
    let check = "  - id: work\n    opcode: RUN_VALIDATION\n    run: [evil]\n    routes: {completed: STOP, error: STOP, killed_policy: next}\n";
    let judge = "  - id: work\n    opcode: EVALUATE\n    command: evil\n    prompt: x\n    allowed_next_steps: [next]\n    routes: {success: next, partial: next, blocked: STOP, unsafe: STOP, needs_human: STOP}\n";
    let (_, next) = TWO.split_once("  - id: next").expect("two steps");
    let next = format!("  - id: next{next}");
    for (name, step, wanted) in [
        ("aynig.validator.evil", check, &["work killed_policy next", "next completed STOP"][..]),
        ("aynig.evaluator.evil", judge, &["work unsafe STOP"][..]),
    ] {
        for line in [set.clone(), "git config aynig.evaluator.evil hidden-value".to_owned()] {
            repo.git(["config", name, &format!("{line}; echo '{{\"status\":\"success\"}}'")]);
            let run = start(&repo, &flow("work", &format!("{step}{next}")));
            repo.aynig_ok(["run", "--drain"]);
            assert_eq!(steps(&repo, &run), wanted, "{name}: {line}");
            assert!(!repo.path.join(".git/trapped").exists(), "{name}: git ran a program of the step");
            assert!(said(&repo, &run).contains("put back"), "{}", said(&repo, &run));
        }
    }
}

/// CONTRACT 20.33
#[test]
fn a_step_that_removes_its_record_is_found_out() {
    let data = "\"$(git rev-parse --git-common-dir)/aynig/data\"";
    let repo = scene(&format!("rm -rf {data}"));
    let run = start(&repo, &flow("work", TWO));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy next"]);
    let words = said(&repo, &run);
    assert!(words.contains("record of the workspace was removed"), "{words}");
    assert!(words.contains("cannot do it"), "{words}");
    assert!(!repo.path.join(".git/next-ran").exists());
    // What was recorded is in memory.
    let script = format!("find {data} -name workspace-record.json -delete; git config aynig.validator.ok x");
    let repo = scene(&script);
    let run = start(&repo, &flow("work", TWO));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work killed_policy next", "next completed STOP"]);
    assert!(said(&repo, &run).contains("the setting aynig.validator.ok was"), "{}", said(&repo, &run));
}

/// CONTRACT 20.33
#[test]
fn a_setting_that_a_cut_off_step_changed_is_not_taken_over() {
    let removed = "find \"$(git rev-parse --git-common-dir)/aynig/data\" -name workspace-record.json -delete";
    for (key, more, named) in [
        ("aynig.validator.ok", "", "aynig.validator.ok"),
        ("core.sshcommand", "", "core.sshcommand"),
        ("aynig.validator.ok", removed, "the record of hooks and settings"),
    ] {
        let repo = scene(&format!("git config {key} hidden-value; {more}"));
        let run = start(&repo, &flow("work", TWO));
        let killed = repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", "agent-ended:kill:1").output();
        let killed = killed.expect("it runs");
        assert_eq!(repo.state(&run.driver), "stalled", "{}", told(&killed));
        repo.aynig_ok(["run", "--drain"]);
        assert!(!repo.path.join(".git/next-ran").exists(), "{key} {more}");
        let words = out(&repo.aynig_ok(["flow", "show", &run.slug]));
        assert!(words.contains(named) && words.contains("--accept"), "{key} {more}: {words}");
        let done = steps(&repo, &run);
        assert!(done.iter().all(|step| !step.contains("completed")), "{key} {more}: {done:?}");
    }
}

/// CONTRACT 20.33
#[test]
fn a_step_changes_no_settings_of_another_worktree() {
    let config = "$(git rev-parse --git-common-dir)/worktrees/mine/config.worktree";
    for (begin, change) in [
        ("", format!("git config --file \"{config}\" core.pager hidden-value")),
        ("core.pager", format!("git config --file \"{config}\" core.pager hidden-value")),
        ("core.pager", format!("rm \"{config}\"")),
    ] {
        let repo = scene(&change);
        let mine = repo.beside("mine");
        repo.git(["worktree", "add", "-q", "--detach", mine.to_str().expect("UTF-8")]);
        repo.git(["config", "extensions.worktreeConfig", "true"]);
        let file = repo.path.join(".git/worktrees/mine/config.worktree");
        let file = file.to_str().expect("UTF-8");
        if !begin.is_empty() {
            repo.git(["config", "--file", file, begin, "less"]);
        }
        let run = start(&repo, &flow("work", TWO));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["work killed_policy next", "next completed STOP"], "{change}");
        let words = said(&repo, &run);
        assert!(words.contains("the setting core.pager (worktrees/mine) was"), "{change}: {words}");
        assert!(words.contains("put back") && !words.contains("hidden-value"), "{change}: {words}");
        let now = git_output(&repo, &["config", "--file", file, "core.pager"]).stdout;
        let wanted = if begin.is_empty() { "" } else { "less" };
        assert_eq!(String::from_utf8_lossy(&now).trim(), wanted, "{change}");
    }
}

/// CONTRACT 20.33
#[test]
fn worktrees_come_go_and_are_set_up_beside_a_step() {
    let worktree = "git worktree add -q --detach \"$(git rev-parse --git-common-dir)/../../new\"
        git config --file \"$(git rev-parse --git-common-dir)/worktrees/new/config.worktree\" user.email x@example.com
        git worktree remove --force \"$(git rev-parse --git-common-dir)/../../old\"";
    let repo = scene(worktree);
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    let old = repo.beside("old");
    repo.git(["worktree", "add", "-q", "--detach", old.to_str().expect("UTF-8")]);
    let settings = |name: &str| repo.path.join(format!(".git/worktrees/{name}/config.worktree"));
    repo.git(["config", "--file", settings("old").to_str().expect("UTF-8"), "user.email", "a@example.com"]);
    let gate = "  - id: next\n    opcode: GATE\n    gate: g\n    routes: {gate_approved: more, gate_rejected: STOP}\n";
    let more = TWO.split_once("  - id: next").expect("two steps").1;
    let work = TWO.split_once("  - id: next").expect("two steps").0;
    let run = start(&repo, &flow("work", &format!("{work}{gate}  - id: more{more}")));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed next", "next"]);
    assert!(!old.exists() && settings("new").exists());
    // A person may do this between two steps.
    repo.git(["config", "--file", settings("new").to_str().expect("UTF-8"), "core.pager", "less"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run)[2], "more completed STOP");
}
