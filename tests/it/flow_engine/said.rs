//! Answers of commands about a run that has nothing to do for them.

use std::os::unix::fs::PermissionsExt;

use super::agent::with_agent;
use super::gate::{clone, push_answer};
use super::lease::kill_in_step;
use super::*;

const GATE: &str = gate_step!("STOP");
const WORK: &str = agent_step!("work", "work", "STOP");

fn refused(repo: &Repo, arguments: &[&str], words: &[&str]) {
    assert_refused(&repo.aynig(arguments.iter().copied()), 1, words);
}

/// CONTRACT 20.6, 20.14
#[test]
fn an_answer_and_an_end_have_the_words_of_the_list() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", GATE));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "reject", &run.slug]);
    let again = told(&repo.aynig_ok(["flow", "reject", &run.slug]));
    assert!(again.contains("was rejected already"), "{again}");
    assert!(!again.contains("comment"), "{again}");
    let again = told(&repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "too late"]));
    assert!(again.contains("nothing was changed, and the comment is in no record"), "{again}");
    refused(&repo, &["flow", "approve", &run.slug], &["was rejected already, by Test Person"]);
    repo.aynig_ok(["run", "--drain"]);
    for verb in ["pause", "stop"] {
        refused(&repo, &["flow", verb, &run.slug], &["has ended: rejected"]);
    }
}

/// CONTRACT 20.14
#[test]
fn a_gate_with_an_answer_does_not_wait_for_one() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", GATE));
    repo.aynig_ok(["run", "--drain"]);
    let shown = || out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown().contains("1 ask waits for an answer"), "{}", shown());
    repo.aynig_ok(["flow", "approve", &run.slug]);
    let after = shown();
    assert!(after.contains("1 ask was answered") && !after.contains("waits for an answer"), "{after}");
}

/// CONTRACT 20.14
#[test]
fn a_failed_agent_has_no_answer_of_an_earlier_step() {
    const TEST: &str = "  - id: test
    opcode: RUN_VALIDATION
    run: [fine]
    routes: {completed: NEXT, error: STOP}
";
    let repo = with_agent("cat >/dev/null; exit 1");
    repo.git(["config", "aynig.validator.fine", "true"]);
    for (next, work, name) in [("work", WORK, None), ("STOP", "", Some("report"))] {
        let run = start(&repo, &flow("test", &format!("{}{work}", TEST.replace("NEXT", next))));
        repo.aynig_ok(["run", "--drain"]);
        let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
        let found = shown.lines().find(|line| line.contains("validation_report"));
        let found = found.and_then(|line| line.split(' ').next());
        assert_eq!((found, shown.contains("\nanswer ")), (name, false), "{shown}");
    }
}

/// CONTRACT 20.1
#[test]
fn a_label_is_one_line_and_an_empty_one_is_none() {
    let repo = Repo::new();
    let run = start_with(&repo, &flow("ask", GATE), &["--label", " a\r\nb\t\u{1b}c "]);
    repo.aynig_ok(["run", "--drain"]);
    for label in ["", " \n"] {
        repo.aynig_ok(["flow", "fork", &run.slug, "--at", "ask", "--label", label]);
    }
    let listed = json(&repo.aynig_ok(["flow", "list", "--json"]));
    let labels: Vec<&Value> =
        listed["runs"].as_array().expect("a list").iter().map(|run| &run["label"]).collect();
    assert_eq!(labels, ["a b c"; 3]);
}

/// CONTRACT 20.34
#[test]
fn a_driver_without_its_ledger_advises_no_answer() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", GATE));
    repo.aynig_ok(["run", "--drain"]);
    let (hub, clone) = (repo.beside("hub.git"), repo.beside("clone"));
    let (hub, clone) = (hub.to_str().expect("UTF-8"), clone.to_str().expect("UTF-8"));
    repo.git(["clone", "-q", "--bare", &format!("file://{}", repo.path.display()), hub]);
    let there = |at: &str, arguments: &[&str]| repo.aynig([&["-C", at][..], arguments].concat());
    let told_there = told(&there(hub, &["status", "--all"]));
    assert!(told_there.contains("the ledger of run") && !told_there.contains("flow approve"), "{told_there}");
    repo.git(["clone", "-q", hub, clone]);
    repo.git(["-C", clone, "config", "aynig.remote", "origin"]);
    there(clone, &["status", "--all"]);
    for at in [hub, clone] {
        let hint = format!("run/{}/flow is the driver of a run whose ledger is not here", run.slug);
        assert_refused(&there(at, &["flow", "approve", &run.slug]), 1, &["no run", &hint]);
    }
}

/// CONTRACT 20.29
#[test]
fn undoing_no_rollback_pauses_nothing() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", GATE));
    refused(&repo, &["flow", "rollback", "--undo", &run.slug], &["was not rolled back; nothing was changed"]);
    assert_eq!(shown(&repo, &run)["status"], "running");
}

/// CONTRACT 20.9
#[test]
fn a_host_that_carries_a_step_out_or_is_gone_is_named() {
    let stays = "cat >/dev/null; common=$(git rev-parse --git-common-dir)
echo \"$$ $PPID\" >\"$common/up.new\"; mv \"$common/up.new\" \"$common/up\"; exec sleep 600";
    let repo = with_agent(stays);
    let run = start(&repo, &flow("work", WORK));
    kill_in_step(&repo);
    let call = |verb: &str, seconds: &str| {
        let mut command = repo.aynig_command();
        command.args(["flow", verb, &run.slug]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds);
        told(&command.output().expect("it runs"))
    };
    let resumed = call("resume", "0");
    assert!(
        resumed.contains("its runner on this host is gone") && resumed.contains("nothing was changed"),
        "{resumed}"
    );
    for verb in ["resume", "stop"] {
        let gone = call(verb, "3600");
        assert!(gone.contains("test-host is gone") && gone.contains("`aynig run`"), "{verb}: {gone}");
        assert!(!gone.contains("hears of this"), "{verb}: {gone}");
    }
}

/// CONTRACT 20.14
#[test]
fn what_is_no_run_is_an_unknown_run() {
    let repo = Repo::new();
    refused(&repo, &["flow", "graph", "nope"], &["nope", "aynig flow list"]);
    refused(&repo, &["publish", "nope"], &["no run", "nope", "aynig flow list"]);
}

/// CONTRACT 20.14, 20.15
#[test]
fn show_and_log_name_what_was_published() {
    let repo = with_agent("cat >/dev/null; echo made >made");
    let run = start(&repo, &flow("work", WORK));
    repo.aynig_ok(["run", "--drain"]);
    let hub = repo.beside("hub.git");
    let hub = hub.to_str().expect("UTF-8");
    repo.git(["clone", "-q", "--bare", ".", hub]);
    repo.git(["remote", "add", "origin", hub]);
    let published = json(&repo.aynig_ok(["publish", "--json", &run.slug]));
    let branch = published["branch"].as_str().expect("a branch");
    for verb in ["show", "log"] {
        let said = out(&repo.aynig_ok(["flow", verb, &run.slug]));
        let line = said.lines().find(|line| line.contains("published"));
        assert!(line.is_some_and(|line| line.contains(branch)), "{verb}: {branch}: {said}");
    }
}

/// CONTRACT 19.10
#[test]
fn a_setting_of_a_provider_that_does_not_count_is_named() {
    let repo = Repo::new();
    repo.git(["config", "aynig.provider.BAD_x.kind", "custom"]);
    repo.git(["config", "aynig.provider.bad.kind", "custom"]);
    let listed = told(&repo.aynig_ok(["provider", "list"]));
    assert!(listed.contains("unknown setting aynig.provider.BAD_x.kind"), "{listed}");
    assert!(listed.contains("the name of a provider is 1 to 32 characters out of"), "{listed}");
    assert!(listed.contains("git config aynig.provider.bad.command"), "{listed}");
}

const TWICE: &str = concat!(
    "  - {id: a, opcode: RUN_AGENT, agent: scripted, prompt: go, routes: {completed: ask, error: STOP}}\n",
    "  - {id: ask, opcode: GATE, gate: result, routes: {gate_approved: STOP, gate_rejected: a}}\n"
);

/// CONTRACT 20.14
#[test]
fn waiting_prints_the_steps_that_end_meanwhile() {
    let repo = with_agent("cat >/dev/null; echo more >>made");
    let run = start(&repo, &flow("a", TWICE));
    repo.aynig_ok(["run", "--drain"]);
    // The name of a run may begin with a digit.
    let is_number = |word: &str| word.parse::<u8>().is_ok();
    let lines = |arguments: &[&str], code: i32| {
        let output = repo.aynig(arguments.iter().copied());
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        let said = out(&output);
        let steps = said.lines().filter(|line| line.split(' ').next().is_some_and(is_number));
        steps.map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let slug = run.slug.as_str();
    assert_eq!(
        lines(&["flow", "reject", slug, "--comment", "more", "--wait"], 5),
        ["2 ask gate_rejected -> a", "3 a visit 2 completed -> ask"]
    );
    repo.aynig_ok(["flow", "pause", slug]);
    assert_eq!(lines(&["flow", "resume", slug, "--wait"], 5), [""; 0]);
    assert_eq!(lines(&["flow", "approve", slug, "--wait"], 0), ["4 ask visit 2 gate_approved -> STOP"]);
    assert_eq!(
        lines(&["flow", "resume", slug, "--from", "a", "--wait"], 5),
        ["5 a visit 3 completed -> ask"]
    );
    assert_eq!(lines(&["flow", "fork", slug, "--at", "ask", "--wait"], 5), [""; 0]);
}

/// CONTRACT 20.14, 20.15
#[test]
fn a_log_names_visits_and_the_refusal_of_a_resume_the_steps() {
    let repo = with_agent("cat >/dev/null; echo more >>made");
    let run = start(&repo, &flow("a", TWICE));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "more"]);
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "pause", &run.slug]);
    repo.aynig_ok(["flow", "resume", &run.slug]);
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    for words in [
        "  a completed -> ask",
        "  a visit 2 completed -> ask",
        "  ask visit 2 waits",
        "run        resumed  ",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    refused(&repo, &["flow", "resume", &run.slug], &["--from STEP`; STEP is one of a, ask"]);
}

/// CONTRACT 20.14
#[test]
fn the_next_commands_follow_from_where_the_work_is() {
    let repo = with_agent("cat >/dev/null; echo made >made");
    let rejected = start(&repo, &flow("a", &TWICE.replace("gate_rejected: a", "gate_rejected: STOP")));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "reject", &rejected.slug]);
    repo.aynig_ok(["run", "--drain"]);
    let slug = &rejected.slug;
    let offered = |slug: &str| {
        let shown = json(&repo.aynig_ok(["flow", "show", slug, "--json"]));
        let all = shown["next"].as_array().expect("a list").iter();
        all.map(|one| one.as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    let (back, undo) = (format!("aynig flow rollback {slug}"), format!("aynig flow rollback --undo {slug}"));
    let has = |wanted: &String| offered(slug).contains(wanted);
    assert_eq!((has(&back), has(&undo)), (true, false), "{:?}", offered(slug));
    repo.aynig_ok(["flow", "rollback", slug]);
    assert_eq!((has(&back), has(&undo)), (false, true), "{:?}", offered(slug));
    repo.aynig_ok(["flow", "rollback", "--undo", slug]);
    assert_eq!((has(&back), has(&undo)), (true, false), "{:?}", offered(slug));

    let unchanged = start(&repo, &flow("end", "  - {id: end, opcode: STOP}\n"));
    repo.aynig_ok(["run", "--drain"]);
    let next = offered(&unchanged.slug);
    assert!(!next.iter().any(|line| line.contains("land") || line.contains("publish")), "{next:?}");
}

/// CONTRACT 20.14
#[test]
fn the_columns_of_the_list_stand_below_each_other() {
    let repo = Repo::new();
    let long = "a_step_with_a_name_of_many_letters";
    for (step, seconds) in [("ask", "-113"), (long, "0")] {
        let file = repo.path.join(".git/flow.yaml");
        std::fs::write(&file, flow(step, &GATE.replace("id: ask", &format!("id: {step}")))).expect("a file");
        place_worktrees(&repo);
        let mut command = repo.aynig_command();
        command.args(["flow", "start", file.to_str().expect("UTF-8"), "--label", "LABEL"]);
        let started = command.env("AYNIG_CLOCK_OFFSET_SECONDS", seconds).output().expect("it runs");
        assert!(started.status.success(), "{}", told(&started));
    }
    let listed = out(&repo.aynig_ok(["flow", "list"]));
    let places: Vec<_> = listed.lines().map(|line| line.find("LABEL")).collect();
    assert!(places.len() == 2 && places[0].is_some() && places[0] == places[1], "{listed}");
    let headed = listed.lines().map(|line| line.find(" s ")).collect::<Vec<_>>();
    assert_eq!(headed[0], headed[1], "{listed}");
}

/// An approval of one host, while another one answers with `verb` just before it. Returns what they printed.
fn raced(verb: &str) -> ([Repo; 2], Started, String, std::process::Output) {
    let hub = Repo::new();
    let [one, other] = ["one@example.com", "other@example.com"].map(|email| clone(&hub, email));
    other.git(["config", "user.name", "Cleo"]);
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    // The other answer is carried out while the hub takes the first one.
    let hook = hub.path.join(".git/hooks/pre-receive");
    let (beside, program) = (hub.beside("answers").display().to_string(), binary());
    let script = format!(
        "#!/bin/sh\ncat >/dev/null; mkdir {beside} 2>/dev/null || exit 0\n\
         unset GIT_DIR GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_PREFIX\n\
         {} -C {} flow {verb} {} --comment mine >{beside}/said 2>&1\nexit 0\n",
        program.display(),
        other.path.display(),
        run.slug
    );
    std::fs::create_dir_all(hook.parent().expect("a directory")).expect("a directory");
    std::fs::write(&hook, script).expect("a hook");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let late = one.aynig(["flow", "approve", &run.slug, "--comment", "yes"]);
    let first = std::fs::read_to_string(hub.beside("answers/said")).expect("the other answer");
    ([one, hub], run, first, late)
}

/// CONTRACT 20.6
#[test]
fn an_approval_that_lost_a_race_names_the_one_that_counts() {
    let ([one, _hub], run, first, late) = raced("approve");
    assert_eq!(late.status.code(), Some(0), "{}", told(&late));
    let late = told(&late);
    assert!(first.contains("ask: approved by Cleo"), "{first}");
    assert!(late.contains("ask was approved already, by Cleo") && !late.contains("is next"), "{late}");
    one.aynig_ok(["run", "--drain"]);
    let events = out(&one.aynig_ok(["orch", "events", &run.id, "--json"]));
    assert_eq!(events.matches("approval.resolved").count(), 1, "{events}");
}

/// CONTRACT 20.6
#[test]
fn an_approval_that_lost_a_race_against_a_rejection_names_it_as_one() {
    let ([one, _hub], run, first, late) = raced("reject");
    assert!(first.contains("ask: rejected by Cleo"), "{first}");
    assert_refused(&late, 1, &["answered before: rejected, by Cleo"]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_rejected STOP"]);
}

/// CONTRACT 20.14, 20.26
#[test]
fn an_answer_that_was_pushed_and_waits_is_shown() {
    let hub = Repo::new();
    let [one, other] = ["one@example.com", "other@example.com"].map(|email| clone(&hub, email));
    other.git(["config", "user.name", "Cleo"]);
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    let trailers = format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}");
    push_answer(&other, &hub, &run, &trailers);
    for shows in [&["flow", "show", &run.slug][..], &["flow", "list"]] {
        let words = told(&one.aynig(shows.iter().copied()));
        assert!(
            words.contains("an answer of Cleo") && words.contains("was pushed, and waits"),
            "{shows:?}: {words}"
        );
        assert!(!words.contains("flow approve"), "{shows:?}: {words}");
        assert!(shows[1] != "show" || words.contains("aynig run"), "{words}");
    }
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.31
#[test]
fn a_driver_whose_history_is_damaged_is_not_moved() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", GATE));
    let named = repo.head(&run.driver);
    let tree = format!("{named}^{{tree}}");
    let handed_back = "chore: handed back\n\ndwp-state: flow-step";
    let newest = repo.git(["commit-tree", "-p", &named, "-m", handed_back, &tree]);
    repo.git(["update-ref", &format!("refs/heads/{}", run.driver), &newest]);
    std::fs::remove_file(repo.path.join(format!(".git/objects/{}/{}", &named[..2], &named[2..])))
        .expect("it is there");
    let output = repo.aynig(["set-state", "--branch", &run.driver, "--state", "moved"]);
    assert_ne!(output.status.code(), Some(0), "{}", told(&output));
    assert!(err(&output).contains("read the history of"), "{}", told(&output));
    assert_eq!(repo.head(&run.driver), newest);
}
