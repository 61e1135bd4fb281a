//! The inputs of an agent: prompts of the base commit, and files of earlier steps.

use super::agent::agent;
use super::gate::clone;
use super::hosts::Field;
use super::workshop::*;
use super::*;

const TEXT: &str = concat!(
    "workflow_id: fix
version: 1
entry_step: plan
defaults: {agent: scripted}
inputs:
  task: {required: true}
steps:
  - id: plan
    opcode: RUN_AGENT
    prompt: task.plan.v1
    allow_empty: true
    routes: {completed: implement, error: STOP}
  - id: implement
    opcode: RUN_AGENT
    prompt: prompts/implement.md
    inputs: [diff, validation_report, fix_instructions, plan.response]
    routes: {completed: test, error: STOP}
  - id: test
    opcode: RUN_VALIDATION
    run: [{kind: script, id: unit, entrypoint: check.sh}]
    routes: {completed: judge, error: judge}
  - id: judge
    opcode: EVALUATE
    prompt: Is it done?
    allowed_next_steps: [implement, ask]
    routes: {success: STOP, partial: implement, blocked: ask, unsafe: STOP, needs_human: ask}
",
    gate_step!("STOP"),
);

/// Keeps the prompt as `.git/got/STEP-N`, and each file that it names beside it. The first step rewrites the prompts.
const AGENT: &str = r#"got=$(git rev-parse --git-common-dir)/got; mkdir -p "$got"
cat >"$got/prompt"
case $(cat "$got/prompt") in
Plan*) echo tampered >.aynig/prompts/task.plan.v1.md; echo tampered >prompts/implement.md; name=plan; answer='the plan: write it' ;;
*) if [ -e result ]; then echo right >result; else echo wrong >result; fi; name=implement; answer=done ;;
esac
n=1; while [ -e "$got/$name-$n" ]; do n=$((n + 1)); done
mv "$got/prompt" "$got/$name-$n"
sed -n 's/^- \([a-z_.]*\): \(\/.*\)$/\1 \2/p' "$got/$name-$n" | while read -r what path; do cp "$path" "$got/$name-$n-$what"; done
echo "$answer""#;

const PLANNER: &str = r#"tr -d ' \n' | grep -q '"unit":0' && echo '{"status":"success"}' || echo '{"status":"partial","fix_instructions":"write right"}'"#;

/// Adds the base's files.
fn furnish(repo: &Repo) {
    repo.write(".aynig/prompts/task.plan.v1.md", "Plan {{inputs.task}}.\n");
    repo.write("prompts/implement.md", "Implement {{inputs.task}}.\n");
    repo.command("check.sh", "echo checked; grep -q right result");
    repo.commit_all("prompts and a check");
}

fn got(repo: &Repo, name: &str) -> String {
    std::fs::read_to_string(repo.path.join(".git/got").join(name))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares what the agent got at its second visit, on this host.
fn assert_handed_over(host: &Repo, name: &str) {
    let prompt = got(host, name);
    let (text, files) = prompt.split_once("\n\nFiles from earlier steps:\n").expect("a list");
    assert_eq!(text.trim(), "Implement the poem.");
    // Logs of validators do not leave their host, unless all is replicated.
    let files: Vec<&str> = files.lines().filter(|line| !line.starts_with("- validation_output: ")).collect();
    let names = ["diff", "validation_report", "fix_instructions", "plan.response"];
    assert_eq!(files.len(), names.len(), "{prompt}");
    for (line, name) in files.iter().zip(names) {
        assert!(line.starts_with(&format!("- {name}: /")), "{line}");
    }
    for content in ["write right", "the plan", "b/result", "exit_code"] {
        assert!(!prompt.contains(content), "a path, and not its content: {prompt}");
    }
    assert!(got(host, &format!("{name}-diff")).contains("b/result"));
    let report: Value = serde_json::from_str(&got(host, &format!("{name}-validation_report"))).expect("JSON");
    assert_eq!(report["validators"][0]["exit_code"], 1, "{report}");
    assert_eq!(got(host, &format!("{name}-fix_instructions")), "write right");
    assert_eq!(got(host, &format!("{name}-plan.response")).trim(), "the plan: write it");
}

const ENDED: [&str; 7] = [
    "plan completed implement",
    "implement completed test",
    "test error judge",
    "judge partial implement",
    "implement completed test",
    "test completed judge",
    "judge success STOP",
];

/// CONTRACT 18.7, 18.9, 20.4
#[test]
fn what_earlier_steps_left_reaches_an_agent_as_files() {
    let repo = Repo::new();
    furnish(&repo);
    agent(&repo, "scripted", AGENT);
    repo.git(["config", "aynig.evaluator", PLANNER]);
    let run = start_with(&repo, TEXT, &["--input", "task=the poem"]);
    let ran = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ENDED, "{}", told(&ran));
    assert_eq!(got(&repo, "plan-1").trim(), "Plan the poem.");
    let first = got(&repo, "implement-1");
    assert!(first.starts_with("Implement the poem."), "the base's prompt, not the worktree's: {first}");
    for name in ["validation_report", "fix_instructions"] {
        assert!(first.contains(&format!("- {name}: there is none yet")), "{first}");
    }
    assert!(got(&repo, "implement-1-diff").contains("tampered"));
    assert_handed_over(&repo, "implement-2");
    assert!(got(&repo, "implement-2-validation_output").contains("checked"));
    assert_eq!(
        kept(&run, "implement", "prompt.md"),
        got(&repo, "implement-2"),
        "it is written down as it was sent"
    );
}

/// CONTRACT 20.4, 20.12
#[test]
fn another_host_hands_over_what_earlier_steps_left() {
    let field = Field::furnished(AGENT, furnish);
    let [first, second] = &field.hosts;
    for host in [first, second] {
        host.git(["config", "aynig.evaluator", PLANNER]);
    }
    let run = start_with(first, TEXT, &["--input", "task=the poem"]);
    // All but the second visit of `implement` is carried out on the first host.
    for _ in 0..4 {
        first.aynig_ok(["run"]);
    }
    let ran = second.aynig_ok(["run"]);
    assert_eq!(steps(second, &run), ENDED[..5], "{}", told(&ran));
    assert_handed_over(second, "implement-1");
}

/// CONTRACT 20.4, 20.12
#[test]
fn the_host_of_the_validators_hands_over_what_they_printed_although_the_remote_does_not_get_it() {
    let field = Field::furnished(AGENT, furnish);
    let [first, _] = &field.hosts;
    first.git(["config", "aynig.evaluator", PLANNER]);
    let run = start_with(first, TEXT, &["--input", "task=the poem"]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(first, &run), ENDED);
    assert!(got(first, "implement-2-validation_output").contains("checked"));
}

const GATE: &str = "workflow_id: ask
version: 1
entry_step: ask
inputs:
  what: {required: true, description: what to do}
  how: {default: slowly}
  why: {}
steps:
  - id: ask
    opcode: GATE
    gate: result
    question: \"{{inputs.what}} {{inputs.how}} [{{inputs.why}}]\"
    routes: {gate_approved: STOP, gate_rejected: STOP}
";

/// CONTRACT 18.7, 20.1
#[test]
fn inputs_are_given_at_the_start() {
    let repo = Repo::new();
    place_worktrees(&repo);
    std::fs::write(repo.path.join(".git/ask.yaml"), GATE).expect("a file");
    std::fs::write(repo.path.join(".git/brief"), "walk").expect("a file");
    std::fs::write(repo.path.join(".git/empty"), "\n").expect("a file");
    let begin = ["flow", "start", ".git/ask.yaml"];
    let drivers = || repo.git(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/run"]);
    for (arguments, words) in [
        (vec![], vec!["needs the input what (what to do)", "--input what=VALUE"]),
        (vec!["--input", "what"], vec!["write NAME=VALUE, or NAME=@FILE"]),
        (vec!["--input", "who=me"], vec!["there is no input who", "what, how, why"]),
        (vec!["--input", "whta=me"], vec!["there is no input whta", "did you mean what?"]),
        (vec!["--input", "what=a", "--input", "what=b"], vec!["what is given twice"]),
        (vec!["--input", "what=@.git/absent"], vec!["could not read .git/absent"]),
        (
            vec!["--input", "what="],
            vec!["--input what is empty, and the flow needs it", "--input what=VALUE"],
        ),
        (vec!["--input", "what=@.git/empty"], vec!["--input what is empty, and the flow needs it"]),
        (vec!["--input", "what=a", "--base", "absent"], vec!["--base", "absent"]),
    ] {
        let output = repo.aynig([&begin[..], &arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", told(&output));
        for word in words {
            assert!(err(&output).contains(word), "{word}: {}", err(&output));
        }
        assert!(repo.git(["for-each-ref", "refs/aynig", "refs/heads/run"]).is_empty(), "nothing is left");
    }
    repo.git(["branch", "other"]);
    repo.git(["commit", "-q", "--allow-empty", "-m", "main moved"]);
    for (arguments, question, base) in [
        (vec!["--input", "what=run"], "run slowly []", "main"),
        (
            vec!["--input", "what=@.git/brief", "--input", "how=fast=", "--base", "other"],
            "walk fast= []",
            "other",
        ),
        (vec!["--input", "what={{inputs.how}}", "--input", "why="], "{{inputs.how}} slowly []", "main"),
    ] {
        let all = [&begin[..], &arguments, &["--label", "the brief"]].concat();
        let before = drivers();
        let words = told(&repo.aynig_ok(all.clone()));
        let after = drivers();
        let driver = after.lines().find(|name| !before.contains(name)).expect("a driver");
        assert!(words.contains(driver.trim_end_matches("/flow")), "the words name the run {driver}: {words}");
        let started = json(&repo.aynig_ok([&all[..], &["--json"]].concat()));
        assert_eq!(started["baseSha"], repo.head(base), "{arguments:?}");
        let slug = started["slug"].as_str().expect("a name");
        repo.aynig_ok(["run", "--drain"]);
        let shown = json(&repo.aynig_ok(["flow", "show", slug, "--json"]));
        assert_eq!(shown["label"], "the brief", "{shown}");
        let directory = std::path::PathBuf::from(started["runDirectory"].as_str().expect("a path"));
        let request = std::fs::read(directory.join("artifacts/ask/1/gate_request.json")).expect("a request");
        let request: Value = serde_json::from_slice(&request).expect("JSON");
        assert_eq!(request["question"], question, "{arguments:?}");
    }
}

/// CONTRACT 18.9
#[test]
fn a_file_that_only_the_checkout_has_is_pointed_out() {
    let repo = Repo::new();
    place_worktrees(&repo);
    agent(&repo, "scripted", "cat >/dev/null");
    let step = "  - id: implement\n    opcode: RUN_AGENT\n    agent: scripted\n    prompt: PROMPT\n    routes: {completed: STOP, error: STOP}\n";
    repo.write("brief.md", "Do it.\n");
    repo.write(".aynig/prompts/task.fix.v1.md", "Fix it.\n");
    for (prompt, code, words) in [
        ("brief.md", 1, vec!["main has no brief.md; your checkout has it", "commit it"]),
        ("absent.md", 1, vec!["main has no absent.md;"]),
        ("task.fix.v1", 0, vec!["main has no .aynig/prompts/task.fix.v1.md; your checkout has it"]),
    ] {
        std::fs::write(repo.path.join(".git/flow.yaml"), flow("implement", &step.replace("PROMPT", prompt)))
            .expect("a file");
        let check = repo.aynig(["flow", "check", ".git/flow.yaml", "--base", "main"]);
        assert_eq!(check.status.code(), Some(code), "{}", told(&check));
        let start = repo.aynig(["flow", "start", ".git/flow.yaml", "--base", "main"]);
        assert_eq!(start.status.success(), code == 0, "{}", told(&start));
        let hint = "`aynig flow check --base main .git/flow.yaml` reports all faults";
        assert_eq!(err(&start).contains(hint), code == 1, "{}", err(&start));
        for output in [check, start] {
            for word in &words {
                assert!(told(&output).contains(word), "{word}: {}", told(&output));
            }
            assert_eq!(told(&output).contains("your checkout"), prompt != "absent.md", "{}", told(&output));
        }
    }
}

/// An agent step that gets the comment at the gate `ask`.
fn writer(id: &str, next: &str) -> String {
    format!(
        "  - {{id: {id}, opcode: RUN_AGENT, agent: scripted, prompt: Write., inputs: [ask.response], \
         routes: {{completed: {next}, error: STOP}}}}\n"
    )
}

/// CONTRACT 20.4
#[test]
fn what_a_person_writes_with_a_rejection_reaches_the_agent() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    agent(&one, "scripted", AGENT);
    let ask =
        "  - {id: ask, opcode: GATE, gate: result, routes: {gate_approved: STOP, gate_rejected: write}}\n";
    let steps = &(writer("write", "ask") + ask);
    let run = start(&one, &flow("write", steps));
    one.aynig_ok(["run", "--drain"]);
    let first = got(&one, "implement-1");
    assert!(first.trim_end().ends_with("- ask.response: there is none yet"), "{first}");
    other.aynig_ok(["flow", "reject", &run.slug, "--comment", "Say it in one line.\n\nPlease."]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(got(&one, "implement-2-ask.response"), "Say it in one line.\n\nPlease.\n");
    other.aynig_ok(["flow", "reject", &run.slug]);
    one.aynig_ok(["run", "--drain"]);
    let last = got(&one, "implement-3");
    assert!(last.trim_end().ends_with("- ask.response: there is none yet"), "an old comment is gone: {last}");
    one.aynig_ok(["flow", "pause", &run.slug]);
    one.aynig_ok(["flow", "resume", &run.slug, "--from", "write"]);
    one.aynig_ok(["run", "--drain"]);
    let last = got(&one, "implement-4");
    assert!(last.trim_end().ends_with("- ask.response: there is none yet"), "nobody answered: {last}");
}

/// CONTRACT 20.4
#[test]
fn a_rejection_is_handed_over_without_earlier_approvals() {
    let repo = Repo::new();
    agent(&repo, "scripted", AGENT);
    let ask = "  - {id: ask, opcode: GATE, gate: result, required: 2, routes: {gate_approved: again, gate_rejected: write}}\n";
    let steps = &(writer("write", "ask") + ask + &writer("again", "STOP"));
    let run = start(&repo, &flow("write", steps));
    let answer = |verb: &str, person: &str, comment: &str| {
        repo.git(["config", "user.email", person]);
        told(&repo.aynig_ok(["flow", verb, &run.slug, "--comment", comment]))
    };
    repo.aynig_ok(["run", "--drain"]);
    answer("approve", "one@example.com", "Perfect.");
    assert!(answer("approve", "one@example.com", "Or not.").contains("the comment is in no record"));
    answer("reject", "two@example.com", "Shorter.");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(got(&repo, "implement-2-ask.response"), "Shorter.\n");
    answer("approve", "one@example.com", "Good.");
    answer("approve", "two@example.com", "Very good.");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(got(&repo, "implement-3-ask.response"), "Good.\n\nVery good.\n");
}
