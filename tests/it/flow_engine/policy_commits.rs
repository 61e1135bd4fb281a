//! Changes that are in no snapshot of a step, and yet in its work: commits that were taken back, and files that look like keys.

use super::agent::agent;
use super::*;

fn flow_of(policy: &str) -> String {
    let steps = concat!(
        "  - id: one\n    opcode: RUN_AGENT\n    agent: first\n    prompt: go\n    policy: tried\n    allow_empty: true\n",
        "    routes: {completed: two, error: STOP, killed_policy: STOP}\n",
        "  - id: two\n    opcode: RUN_AGENT\n    agent: second\n    prompt: go\n    policy: tried\n    allow_empty: true\n",
        "    routes: {completed: STOP, error: STOP, killed_policy: STOP}\n",
    );
    flow("one", steps).replacen("steps:", &format!("policies:\n  tried: {policy}\nsteps:"), 1)
}

/// CONTRACT 18.15
#[test]
fn a_commit_that_is_taken_back_in_its_step_is_judged() {
    for policy in ["{execution_posture: read_only}", "{forbidden_paths: [\"lib/**\"]}"] {
        for script in [
            "echo secret >lib/a; git commit -qam evil; git revert --no-edit HEAD >/dev/null",
            // A history of its own, of which a merge takes nothing.
            "T=$(git rev-parse HEAD^{tree}); E=$(git commit-tree -m evil $T)
             git merge -q -s ours --allow-unrelated-histories --no-edit $E",
        ] {
            let repo = Repo::new();
            repo.write("lib/a", "a\n");
            repo.commit_all("a file");
            agent(&repo, "first", &format!("cat >/dev/null; {script}; echo ok"));
            agent(&repo, "second", "cat >/dev/null; echo ok");
            let run = start(&repo, &flow_of(policy));
            repo.aynig_ok(["run", "--drain"]);
            assert_eq!(steps(&repo, &run), ["one killed_policy STOP"], "{policy} {script}");
            let log = told(&repo.aynig_ok(["flow", "log", &run.slug]));
            assert!(log.contains("lib/a ("), "{log}");
        }
    }
}

/// CONTRACT 15.16, 18.15
#[test]
fn a_file_that_looks_like_a_key_counts_for_the_policy_of_the_step_that_made_it() {
    let repo = Repo::new();
    agent(&repo, "first", "cat >/dev/null; echo ALLOW=yes >.env; echo ok");
    agent(&repo, "second", "cat >/dev/null; echo ok");
    let run = start(&repo, &flow_of("{execution_posture: read_only}"));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one killed_policy STOP"]);
    // It was there before the second step, which leaves it as it is.
    let run = start(&repo, &flow_of("{forbidden_paths: [other]}"));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one completed two", "two completed STOP"]);
    let own = flow_of("{execution_posture: read_only}").replacen("    policy: tried\n", "", 1);
    let run = start(&repo, &own);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one completed two", "two completed STOP"]);
    agent(&repo, "second", "cat >/dev/null; echo ALLOW=no >.env; echo ok");
    let run = start(&repo, &own);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one completed two", "two killed_policy STOP"]);
}
