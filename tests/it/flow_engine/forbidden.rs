//! Commands for people, which a step cannot call, however it disguises itself.

use super::agent::{agent, with_agent};
use super::*;

/// A flow of one agent, in which every outcome ends the run.
pub(super) const ONE: &str = "  - id: work
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

/// The commands of people, of the run `$S`.
const VERBS: &str = "flow start .git/flow.yaml
flow pause $S
flow stop $S
flow resume $S
flow approve $S
flow reject $S
publish $S
workspace snapshot --accept $S
workspace rollback $S
workspace remove --apply $S
workspace create other
cancel run/$S/flow
set-state run/$S/flow --state flow-gate
answer run/$S/flow flow-done
land work/$S/flow --into main
clean --apply";

/// CONTRACT 20.32
#[test]
fn a_step_cannot_do_what_is_for_people_whatever_it_hides() {
    let repo = with_agent("");
    let top = repo.path.display();
    let calls: String = VERBS
        .lines()
        .map(|verb| format!("\"$AYNIG_BIN\" {verb} >>.git/said 2>&1; echo \"= $? {verb}\" >>.git/said\n"))
        .collect();
    let bare = "env -i HOME=\"$HOME\" PATH=\"$PATH\" AYNIG_BIN=\"$AYNIG_BIN\" S=$S";
    std::fs::write(repo.path.join(".git/calls"), format!("cd {top}\n{calls}touch .git/over\n"))
        .expect("a script");
    for how in [
        format!(". {top}/.git/calls"),
        format!("{bare} sh {top}/.git/calls"),
        format!("exec {bare} sh -c '. {top}/.git/calls; echo done'"),
        format!(
            "(setsid {bare} sh -c 'sleep 0.2; . {top}/.git/calls' &) ; while ! test -e {top}/.git/over; do sleep 0.05; done"
        ),
    ] {
        agent(&repo, "scripted", &format!("cat >/dev/null; S=$(basename $(dirname $PWD)); {how}"));
        for file in ["said", "over"] {
            std::fs::remove_file(repo.path.join(".git").join(file)).ok();
        }
        let main = repo.head("main");
        let run = start(&repo, &flow("work", ONE));
        repo.aynig_ok(["run", "--drain"]);
        let said = std::fs::read_to_string(repo.path.join(".git/said")).expect("calls");
        let codes: Vec<&str> = said.lines().filter(|line| line.starts_with("= ")).collect();
        assert_eq!(codes.len(), VERBS.lines().count(), "{how}: {said}");
        let refused = said.matches("is for people").count() + said.matches("publishes nothing").count();
        assert_eq!(refused, codes.len(), "{how}: {said}");
        assert!(codes.iter().all(|line| !line.starts_with("= 0 ")), "{how}: {said}");
        assert_eq!(steps(&repo, &run), ["work completed STOP"], "{how}");
        assert_eq!(repo.head("main"), main);
    }
}

/// CONTRACT 20.32
#[test]
fn a_step_does_not_answer_the_gate_of_another_run() {
    let repo = with_agent("");
    let gate = "  - id: ask\n    opcode: GATE\n    gate: g\n    routes: {gate_approved: STOP, gate_rejected: STOP}\n";
    let asks = start(&repo, &flow("ask", gate));
    repo.aynig_ok(["run", "--drain"]);
    let forged = format!(
        "cat >/dev/null; env -u AYNIG_ORCH_RUN -u AYNIG_ORCH_NODE -u AYNIG_ORCH_TURN \"$AYNIG_BIN\" flow approve {}; true",
        asks.slug
    );
    agent(&repo, "scripted", &forged);
    start(&repo, &flow("work", ONE));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &asks), ["ask"], "it waits for a person");
    repo.aynig_ok(["flow", "approve", &asks.slug]);
}

/// CONTRACT 20.8
#[test]
fn a_negative_cost_does_not_lift_a_limit() {
    let repo = with_agent(concat!(
        "read -r line; echo '{\"type\":\"telemetry.usage\",\"usage\":{\"costUsd\":2}}'\n",
        "echo '{\"type\":\"telemetry.usage\",\"usage\":{\"costUsd\":-1e308}}'\n",
        "echo '{\"type\":\"telemetry.usage\",\"usage\":{\"total_tokens\":7}}'\n",
        "echo '{\"type\":\"message.assistant.final\",\"content\":\"done\"}'",
    ));
    repo.git(["config", "aynig.provider.scripted.protocol", "jsonl"]);
    let steps_of = ONE
        .replace("    prompt", "    allow_empty: true\n    prompt")
        .replace("completed: STOP", "completed: work")
        + "  - {id: end, opcode: STOP, allow_unreachable: true}\n";
    let text = flow("work", &steps_of).replace("steps:", "limits: {cost_usd: 1}\nsteps:");
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed work"], "one turn is enough");
    let shown = shown(&repo, &run);
    assert!(shown["waitingFor"].as_str().expect("words").contains("cost_usd"), "{shown}");
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("makes no sense"), "{log}");
}
