//! Agents that make it hard: they fill the disk, print without end, keep silent, leave processes behind, are killed, or
//! reach a usage limit. Hanging ones are in `agent`, time limits and outputs of each protocol in `provider::tests`, and
//! processes that will not end in `supervise::tests::leash`.

use super::agent::with_agent;
use super::*;
use crate::broken::{Small, may_mount};

fn one(fields: &str) -> String {
    let routes =
        "{completed: STOP, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}";
    flow(
        "work",
        &format!(
            "  - {{id: work, opcode: RUN_AGENT, agent: scripted, prompt: work, {fields}routes: {routes}}}\n"
        ),
    )
}

/// A file of the work branch.
fn kept(repo: &Repo, run: &Started, name: &str) -> String {
    repo.git(["show", &format!("{}:{name}", run.work)])
}

/// CONTRACT 20.4
#[test]
fn an_agent_that_fills_the_disk_of_its_worktree_fails_and_its_work_is_kept() {
    if !may_mount() {
        return;
    }
    let repo = with_agent("read -r what; echo mine >mine; cat /dev/zero >big || exit 7");
    let _small = Small::mount(repo.beside("worktrees"), "size=3m");
    let run = start(&repo, &one(""));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work error STOP"]);
    assert_eq!(kept(&repo, &run, "mine"), "mine");
    assert!(!kept(&repo, &run, "big").is_empty(), "as far as there was room");
    assert_eq!(end(&repo, &run)[1], "failed");
}

/// CONTRACT 20.5
#[test]
fn a_disk_that_an_agent_has_filled_loses_nothing_and_the_run_goes_on_when_there_is_room() {
    if !may_mount() {
        return;
    }
    let mut repo = with_agent("");
    let small = Small::mount(repo.beside("small"), "size=12m");
    let copied = std::process::Command::new("cp").arg("-a").arg(&repo.path).arg(&small.0).status();
    assert!(copied.expect("cp runs").success());
    repo.path = small.0.join("repo");
    let marker = repo.beside("again");
    let fills = format!(
        "read -r what; echo mine >mine; if [ ! -e '{0}' ]; then : >'{0}'; cat /dev/zero >big; fi; echo done",
        marker.display()
    );
    agent::agent(&repo, "scripted", &fills);
    let file = small.0.join("repo/.git/flow.yaml");
    std::fs::write(&file, one("")).expect("a file");
    repo.git(["config", "aynig.workspaceRoot", small.0.join("worktrees").to_str().expect("UTF-8")]);
    let run = started(&json(&repo.aynig_ok([
        "flow",
        "start",
        file.to_str().expect("UTF-8"),
        "--base",
        "main",
        "--json",
    ])));
    let full = repo.aynig(["run"]);
    assert!(told(&full).contains("No space left"), "{}", told(&full));
    assert_ne!(repo.state(&run.driver), "flow-done", "{}", told(&full));
    let larger = std::process::Command::new("mount").args(["-o", "remount,size=64m"]).arg(&small.0).status();
    assert!(larger.expect("mount runs").success());
    for _ in 0..2 {
        let mut later = repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "100");
        let output = later.output().expect("aynig runs");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", told(&output));
    }
    let done = steps(&repo, &run);
    assert_eq!(done.last().expect("a step"), "work completed STOP", "{done:?}");
    assert_eq!(end(&repo, &run)[1], "succeeded");
    let saved = repo.rescues();
    let has = |name: &str| {
        let kept = repo.git_command().args(["cat-file", "-e", &format!("{name}:big")]).output();
        kept.expect("git runs").status.success()
    };
    assert!(saved.iter().any(|name| has(name)), "what filled it is saved: {saved:?}");
}

/// CONTRACT 20.4
#[test]
fn an_agent_that_prints_without_end_costs_neither_memory_nor_room() {
    let megabytes: u64 = sized(48, 400);
    let script = format!(
        "read -r what; yes 'a line of many words that nobody will ever read' | head -c {megabytes}000000; echo; \
         readlink /proc/$PPID/exe >memory; grep VmHWM /proc/$PPID/status >>memory; echo the end"
    );
    let repo = with_agent(&script);
    let run = start(&repo, &one(""));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed STOP"]);
    let memory = kept(&repo, &run, "memory");
    let mut lines = memory.lines();
    assert_eq!(lines.next(), binary().to_str(), "{memory}");
    let peak = lines.next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let peak = peak.unwrap_or_else(|| panic!("{memory}"));
    assert!(peak < 100 * 1024, "{peak} KiB for {megabytes} MB");
    let attempt = run.directory.join("artifacts/work/1");
    let room: u64 = files_below(&attempt).iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    assert!(room < 40_000_000, "{room} bytes of record for {megabytes} MB");
    let last = std::fs::read_to_string(attempt.join("final")).unwrap_or_default();
    assert!(last.contains("the end"), "{last:?}");
}

/// CONTRACT 20.4
#[test]
fn an_agent_that_is_silent_but_busy_is_not_idle() {
    let repo = with_agent("read -r what; for n in 1 2 3 4 5 6 7 8 9 10; do echo $n >>busy; sleep 0.5; done");
    let run = start(&repo, &one("idle_seconds: 3, "));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed STOP"]);
    assert!(kept(&repo, &run, "busy").ends_with("10"));
}

/// CONTRACT 20.4
#[test]
fn what_forks_away_from_an_agent_ends_with_its_step() {
    let repo = with_agent(
        "read -r what; setsid sh -c 'echo $$ >away; while :; do echo more >>late; sleep 0.05; done' </dev/null >/dev/null 2>&1 & \
         while [ ! -s away ]; do sleep 0.05; done; echo done",
    );
    let run = start(&repo, &one(""));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work completed STOP"]);
    let pid = kept(&repo, &run, "away").trim().parse().expect("a process id");
    assert!(!is_alive(pid), "it is gone when its step is recorded");
    assert_eq!(
        std::fs::read_to_string(run.worktree.join("late")).unwrap_or_default().trim(),
        kept(&repo, &run, "late").trim(),
        "nothing was written after the snapshot"
    );
}

/// CONTRACT 20.4
#[test]
fn an_agent_that_is_killed_has_failed_and_its_work_is_kept() {
    let repo = with_agent("read -r what; echo half >half; kill -9 $$");
    let run = start(&repo, &one(""));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work error STOP"]);
    assert_eq!(kept(&repo, &run, "half"), "half");
    let manifest = std::fs::read(run.directory.join("artifacts/work/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    assert!(manifest["evidence_summary"].to_string().contains('9'), "{manifest}");
}

/// CONTRACT 20.4
#[test]
fn a_usage_limit_is_waited_for_and_counts_neither_as_a_visit_nor_as_a_retry() {
    let repo = with_agent(
        "read -r line; if [ -e \"$(git rev-parse --git-common-dir)/free\" ]; then echo '{\"type\":\"message.assistant.final\",\"content\":\"done\"}'; \
         else echo loose >loose; echo \"{\\\"type\\\":\\\"limit\\\",\\\"until\\\":$(($(date +%s) + 600)),\\\"message\\\":\\\"enough for now\\\"}\"; fi",
    );
    repo.git(["config", "aynig.provider.scripted.protocol", "jsonl"]);
    let run = start(&repo, &one("allow_empty: true, "));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["work error"], "it is tried again");
    let message = repo.git(["log", "-1", "--format=%B", &run.driver]);
    assert!(message.contains("dwp-not-before: ") && message.contains("enough for now"), "{message}");
    let parked = repo.head(&run.driver);
    let at = |seconds: &str| {
        let mut later = repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds);
        let output = later.output().expect("aynig runs");
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    };
    at("300");
    assert_eq!(repo.head(&run.driver), parked, "nobody asks before the time");
    std::fs::write(repo.path.join(".git/free"), "").expect("a file");
    at("700");
    assert_eq!(steps(&repo, &run), ["work error", "work completed STOP"]);
    let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert_eq!(
        (&shown["steps"][1]["visit"], &shown["steps"][1]["attempt"]),
        (&1.into(), &2.into()),
        "{shown}"
    );
    assert_eq!(shown["verdict"], "succeeded");
}
