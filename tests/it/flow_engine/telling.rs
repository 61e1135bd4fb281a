//! Reports of steps and gates: by the runner, by `aynig flow show`, `list` and `log`, and by `aynig publish`.

use super::agent::{agent, with_agent};
use super::*;
use crate::publish::hub_and_clone;

const STEPS: &str = "  - id: write
    opcode: RUN_AGENT
    agent: scripted
    prompt: write
    allow_empty: true
    routes: {completed: ask, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}
  - id: ask
    opcode: GATE
    gate: result
    question: Is it well?
    required: 2
    approvers: [one@example.com, two@example.com]
    routes: {gate_approved: end, gate_rejected: STOP}
  - id: end
    opcode: STOP
    reason: \"{{inputs.what}} is done\"
";

fn text() -> String {
    flow("write", STEPS).replace("steps:", "inputs:\n  what: {default: all}\nsteps:")
}

fn become_person(repo: &Repo, email: &str) {
    repo.git(["config", "user.email", email]);
}

/// CONTRACT 20.36
#[test]
fn a_runner_says_what_became_of_a_step() {
    let repo = with_agent("echo done");
    let run = start(&repo, &text());
    let said = out(&repo.aynig_ok(["run"]));
    let begins = format!("{}  1 write completed -> ask: ", run.slug);
    assert!(said.starts_with(&begins) && said.lines().count() == 1, "{said}");
    let subject = repo.git(["log", "-1", "--format=%s", &run.driver]);
    assert!(subject.starts_with("flow-step: 1 write completed -> ask: "), "{subject}");
    let said = out(&repo.aynig_ok(["run"]));
    assert!(said.starts_with(&format!("{}  ask waits for an approval", run.slug)), "{said}");
    become_person(&repo, "one@example.com");
    repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "too long"]);
    let said = out(&repo.aynig_ok(["run"]));
    let begins = format!("{}  2 ask gate_rejected -> STOP: too long; rejected", run.slug);
    assert!(said.starts_with(&begins), "{said}");
}

/// CONTRACT 6.8
#[test]
fn what_a_command_set_itself_is_named_by_its_subject() {
    let script = "git commit -q --allow-empty -m 'All is well' -m 'dwp-state: checked'";
    let repo = Repo::with_commands(&[("build", script)]);
    repo.ready("feature", "build");
    let said = out(&repo.aynig_ok(["run"]));
    assert!(
        said.contains("build → checked") && said.contains("set by the command itself: All is well"),
        "{said}"
    );
}

/// CONTRACT 20.14, 20.15
#[test]
fn a_gate_says_who_may_answer_and_who_has() {
    let repo = with_agent("echo done");
    let run = start(&repo, &text());
    repo.aynig_ok(["run", "--drain"]);
    let words = "an answer of one@example.com or two@example.com to result, 0 of 2 given";
    assert!(
        out(&repo.aynig_ok(["flow", "list"])).contains(words),
        "{}",
        out(&repo.aynig_ok(["flow", "list"]))
    );
    become_person(&repo, "one@example.com");
    repo.aynig_ok(["flow", "approve", &run.slug, "--comment", "fine"]);
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    for wanted in [
        "result: one@example.com, two@example.com may answer",
        "2 people must approve, 1 have",
        "approved by Test Person <one@example.com> at ",
        "Is it well?",
        "2 ask waits for an answer",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    let gate = &shown["gate"];
    assert_eq!(
        (&gate["name"], &gate["required"], &gate["given"][0]["reason"]),
        (&"result".into(), &2.into(), &"fine".into())
    );
    assert!(shown["waitingFor"].as_str().is_some_and(|words| words.contains("1 of 2 given")), "{shown}");
    become_person(&repo, "two@example.com");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains("ask (approved by Test Person <two@example.com>) is due"), "{shown}");
    repo.aynig_ok(["run", "--drain"]);
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    for wanted in [
        "result approved (1 of 2): fine  Test Person <one@example.com>",
        "result approved (2 of 2)  Test Person <two@example.com>",
        "ask gate_approved -> end",
        "end ends the run: all is done",
    ] {
        assert!(log.contains(wanted), "{wanted}: {log}");
    }
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains("3 end completed: all is done") && !shown.contains("may answer"), "{shown}");
}

/// CONTRACT 20.15
#[test]
fn a_log_tells_things_in_the_order_in_which_they_happened() {
    let repo = with_agent("echo done");
    let run = start(&repo, &text());
    repo.aynig_ok(["run", "--drain"]);
    let kinds = || {
        let log = json(&repo.aynig_ok(["flow", "log", &run.slug, "--json"]));
        let entries = log["entries"].as_array().expect("a list").clone();
        let word = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
        let times: Vec<String> = entries.iter().map(|entry| word(entry, "at")).collect();
        assert!(times.is_sorted(), "{times:?}");
        let told =
            entries.iter().map(|one| [word(one, "kind"), word(one, "step"), word(one, "outcome")].join(" "));
        told.filter(|words| !words.starts_with("run") && !words.starts_with("workspace")).collect::<Vec<_>>()
    };
    assert_eq!(kinds(), ["step write completed", "step ask -", "question ask -"]);
    for email in ["one@example.com", "two@example.com"] {
        become_person(&repo, email);
        repo.aynig_ok(["flow", "approve", &run.slug]);
    }
    repo.aynig_ok(["run", "--drain"]);
    let expected = [
        "step write completed",
        "question ask -",
        "answer ask -",
        "answer ask -",
        "step ask gate_approved",
        "step end completed",
    ];
    assert_eq!(kinds(), expected);
    let log = json(&repo.aynig_ok(["flow", "log", &run.slug, "--json"]));
    let answer = log["entries"].as_array().expect("a list").iter().find(|one| one["kind"] == "answer");
    assert_eq!(answer.expect("an answer")["number"], 2);
}

/// CONTRACT 20.14
#[test]
fn a_step_that_no_host_can_do_says_why_in_the_list_and_an_empty_label_is_none() {
    let repo = Repo::new();
    let run = start_with(&repo, &text(), &["--label", ""]);
    repo.aynig_ok(["run", "--drain"]);
    let list = out(&repo.aynig_ok(["flow", "list"]));
    assert!(
        list.contains("test  no host can do write: ") && list.contains("this host has no provider scripted"),
        "{list}"
    );
    let shows = format!("{0} is a run: `aynig flow show {0}`", run.slug);
    for verb in ["answer", "log", "status"] {
        assert_refused(&repo.aynig([verb, &run.slug]), 1, &["there is no branch", &shows]);
    }
    for (verb, command) in [
        ("wait", format!("`aynig wait {}`", run.driver)),
        ("land", format!("`aynig land {}`", run.work)),
        ("cancel", format!("`aynig flow pause {0}` pauses it, `aynig flow stop {0}`", run.slug)),
    ] {
        let words = [&format!("{} is a run: {command}", run.slug)[..], "there is no branch"];
        assert_refused(&repo.aynig([verb, &run.slug]), 1, &words);
    }
    let (shown, _) = repo.in_terminal((24, 80), &[("NO_COLOR", "1")], &["flow", "list"]).finish();
    let row = shown.lines().find(|line| line.contains(&run.slug)).expect("a row").trim_end();
    assert!(row.contains("  no host can") && row.ends_with('…') && row.chars().count() <= 80, "{shown}");
    let listed = json(&repo.aynig_ok(["flow", "list", "--json"]))["runs"][0].clone();
    assert_eq!((&listed["place"], &listed["label"]), (&"stuck".into(), &"test".into()));
    assert!(listed["notBefore"].is_string() && listed["since"].is_string(), "{listed}");
    assert!(listed["unable"][0]["reason"].as_str().is_some_and(|why| why.contains("scripted")), "{listed}");
    assert_eq!(listed["slug"], run.slug.as_str());
}

/// CONTRACT 19.10
#[test]
fn a_wrong_setting_is_reported_with_the_plain_path_of_its_file() {
    let repo = Repo::new();
    agent(&repo, "scripted", "echo made >made");
    let run = start(&repo, &text());
    repo.git(["config", "aynig.provider.scripted.kind", "robot"]);
    repo.aynig(["run", "--drain"]);
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    let file = repo.path.canonicalize().expect("it exists").join(".git/config");
    assert!(shown.contains(&format!("in {}", file.display())) && !shown.contains("/../"), "{shown}");
}

/// CONTRACT 21.1
#[test]
fn publishing_warns_of_an_open_gate() {
    let (_hub, repo) = hub_and_clone();
    agent(&repo, "scripted", "echo made >made");
    repo.git(["config", "aynig.runnerId", "here"]);
    let run = start(&repo, &text());
    repo.aynig_ok(["run", "--drain"]);
    let gate = err(&repo.aynig_ok(["publish", &run.slug]));
    assert!(
        gate.contains(&format!("warning: the gate ask of {}/flow waits for an answer", run.slug)),
        "{gate}"
    );
    assert!(!gate.contains("under way"), "{gate}");
}
