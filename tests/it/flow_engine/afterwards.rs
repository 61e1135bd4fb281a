//! The remains of a run: its line in `aynig status`, and its driver, which `aynig clean` removes.

use super::agent::with_agent;
use super::hosts::Field;
use super::*;

const ASK: &str = gate_step!("STOP");

/// Carries a run to its end.
fn ended(repo: &Repo) -> Started {
    let run = start(repo, &flow("ask", ASK));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(repo, &run)[1], "succeeded");
    run
}

/// CONTRACT 20.34
#[test]
fn status_shows_runs_in_the_place_of_their_drivers() {
    let repo = Repo::with_commands(&[("build", "exit 0")]);
    repo.ready("feature", "build");
    let over = ended(&repo);
    let due = start_with(&repo, &flow("ask", ASK), &["--label", "fix 412"]);
    let asks = start(&repo, &flow("ask", ASK));
    repo.aynig_ok(["run", "--branch", &asks.driver]);
    let status = repo.aynig_ok(["status", "--all"]);
    let lines = out(&status);
    assert!(
        !lines.contains(&due.driver) && !lines.contains(&due.work) && !lines.contains(&over.slug),
        "{lines}"
    );
    for wanted in [
        format!("run {}  due        fix 412: ask is due; a runner begins it  aynig run", due.slug),
        format!("run {}  gate       test: waits at ask for", asks.slug),
        format!("aynig flow approve {}", asks.slug),
    ] {
        assert!(lines.lines().any(|line| line.contains(&wanted)), "{wanted}: {lines}");
    }
    let sum = err(&status);
    assert!(sum.starts_with("1 branch: "), "only people's branches are counted: {sum}");
    assert!(sum.contains("2 runs: ") && sum.contains("1 run has ended: `aynig flow list`"), "{sum}");
    assert!(!sum.contains("orch run list"), "{sum}");
    let waiting = out(&repo.aynig_ok(["status", "--waiting"]));
    assert!(
        waiting.contains(&format!("run {}  gate", asks.slug)) && waiting.lines().count() == 1,
        "{waiting}"
    );
    // By name a driver is a branch, and for programs too.
    assert!(out(&repo.aynig_ok(["status", &due.driver])).contains(&due.driver));
    let all = json(&repo.aynig_ok(["status", "--all", "--json"]));
    let names: Vec<&str> =
        all["branches"].as_array().expect("a list").iter().filter_map(|row| row["branch"].as_str()).collect();
    assert!(names.contains(&due.driver.as_str()) && names.contains(&over.driver.as_str()), "{names:?}");
}

/// CONTRACT 20.35
#[test]
fn clean_removes_drivers_of_ended_runs_after_a_day() {
    let repo = Repo::new();
    let (run, live) = (ended(&repo), start(&repo, &flow("ask", ASK)));
    let young = out(&repo.aynig_ok(["clean", "--apply"]));
    assert!(young.contains(&format!("stays     driver     {}", run.driver)), "{young}");
    assert!(young.contains("has ended, and not long ago") && !young.contains(&live.driver), "{young}");
    let shown = out(&repo.aynig_ok(["clean", "--runs", "--older-than", "0s"]));
    assert!(shown.contains(&format!("would go  driver     {}", run.driver)), "{shown}");
    assert!(!repo.head(&run.driver).is_empty(), "without --apply nothing goes");
    let gone = out(&repo.aynig_ok(["clean", "--runs", "--older-than", "0s", "--apply"]));
    let words =
        format!("run {} has ended, and its ledger keeps it: `aynig flow show {}`", run.slug, run.slug);
    assert!(gone.contains("removed   driver") && gone.contains(&words), "{gone}");
    let left = repo.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/run"]);
    assert_eq!(left.trim(), live.driver);
    assert!(out(&repo.aynig_ok(["flow", "show", &run.slug])).contains("ended: succeeded"));
    assert!(out(&repo.aynig_ok(["flow", "list"])).contains(&run.slug));
    let log = repo.aynig_ok(["flow", "log", &run.slug]);
    assert!(!err(&log).contains("the attempts of its driver"), "{}", err(&log));
    repo.aynig_ok(["orch", "doctor", &run.slug]);
    repo.aynig_ok(["flow", "graph", &run.slug]);
    repo.aynig_ok(["publish", "--help"]);
    let again = out(&repo.aynig_ok(["clean", "--runs", "--older-than", "0s", "--apply"]));
    assert!(!again.contains("driver"), "{again}");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(&live.driver), "flow-gate", "others go on");
}

/// CONTRACT 14.2
#[test]
fn the_work_of_a_run_lands_under_its_label() {
    let repo = Repo::new();
    let run = start_with(&repo, &flow("ask", ASK), &["--label", "fix 412:\nthe parser"]);
    std::fs::write(run.worktree.join("parser"), "fixed\n").expect("a file");
    repo.aynig_ok(["workspace", "snapshot", &format!("{}/flow", run.slug)]);
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    let landed = err(&repo.aynig_ok(["land", &run.work]));
    assert_eq!(repo.message("main"), "fix 412: the parser");
    // Git removes no branch that is checked out.
    let remove = format!("aynig workspace remove --apply {}/flow", run.slug);
    assert!(landed.contains(&format!("`{remove}` removes the workspace")), "{landed}");
    repo.aynig_ok(["workspace", "remove", "--apply", &format!("{}/flow", run.slug)]);
    assert_eq!(repo.git(["branch", "--list", &run.work]), "");
}

/// CONTRACT 20.35
#[test]
fn a_driver_goes_at_the_remote_that_decides_and_in_no_other_place() {
    let field = Field::new("true");
    let [first, second] = &field.hosts;
    let run = ended(first);
    second.aynig_ok(["flow", "list"]);
    let gone = out(&second.aynig_ok(["clean", "--runs", "--older-than", "0s", "--apply"]));
    assert!(gone.contains(&format!("removed   driver     {} at origin", run.driver)), "{gone}");
    assert_eq!(field.at_hub(&format!("refs/heads/{}", run.driver)), "");
    for host in [second, first] {
        assert!(out(&host.aynig_ok(["flow", "show", &run.slug])).contains("ended: succeeded"));
        let known = host.git(["for-each-ref", "--format=%(refname)", "refs/aynig/remotes"]);
        assert!(!known.contains(&run.driver), "{known}");
    }
    // Another clone without this remote's address does not touch what it copied.
    let copy = Repo::new();
    copy.git(["fetch", "-q", first.path.to_str().expect("UTF-8"), "refs/aynig/runs/*:refs/aynig/runs/*"]);
    copy.git(["branch", &run.driver]);
    let other = out(&copy.aynig_ok(["clean", "--runs", "--older-than", "0s", "--apply"]));
    assert!(!other.contains("driver"), "{other}");
}

const WRITE: &str = "  - id: write
    opcode: RUN_AGENT
    agent: scripted
    prompt: write
    routes: {completed: STOP, error: STOP}
";

fn next(repo: &Repo, run: &Started) -> Vec<String> {
    let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    let next = shown["next"].as_array().expect("a list").iter();
    next.map(|one| one.as_str().expect("a command").to_owned()).collect()
}

/// CONTRACT 20.14
#[test]
fn each_command_that_an_end_names_works() {
    let repo = with_agent("cat >/dev/null; echo made >made; echo written");
    let run = start(&repo, &flow("write", WRITE));
    repo.aynig_ok(["run", "--drain"]);
    let land = format!("aynig land {}", run.work);
    let remove = format!("aynig workspace remove --apply {}/flow", run.slug);
    assert_eq!(next(&repo, &run), [land.clone(), remove.clone()]);
    repo.git(["remote", "add", "origin", "."]);
    assert_eq!(next(&repo, &run), [land.clone(), format!("aynig publish {}", run.slug), remove.clone()]);
    repo.git(["remote", "remove", "origin"]);
    let show = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    let line = |name: &str| show.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let look: Vec<&str> = line("look").expect("a line").split(' ').skip(1).collect();
    assert!(repo.git(look).contains("+made"), "{show}");
    let answer = std::fs::read_to_string(line("answer").expect("a line")).expect("a file");
    assert_eq!(answer.trim(), "written");
    for command in [land, remove] {
        repo.aynig_ok(command.split(' ').skip(1));
    }
    assert!(repo.path.join("made").exists() && !run.worktree.exists());
    assert_eq!(next(&repo, &run), [format!("aynig flow log {}", run.slug)]);
}

/// CONTRACT 20.35
#[test]
fn the_workspace_of_an_ended_run_goes_when_its_work_has_landed() {
    let repo = with_agent("cat >/dev/null; echo made >made");
    let run = start(&repo, &flow("write", WRITE));
    repo.aynig_ok(["run", "--drain"]);
    let clean = |arguments: &[&str]| {
        let all = [&["clean", "--workspaces", "--json", "--apply"], arguments].concat();
        let items = json(&repo.aynig_ok(all))["items"].as_array().expect("a list").clone();
        let own = items.into_iter().find(|item| item["name"] == format!("{}/flow", run.slug));
        own.expect("the workspace")
    };
    assert_eq!(clean(&[])["fate"], "stays", "it has ended a moment ago");
    let stays = clean(&["--older-than", "0s"]);
    assert_eq!(
        (&stays["fate"], &stays["next"]),
        (&"stays".into(), &format!("aynig land {}", run.work).into())
    );
    assert!(run.worktree.is_dir());
    repo.aynig_ok(["land", &run.work]);
    assert_eq!(clean(&["--older-than", "0s"])["fate"], "removed");
    assert!(!run.worktree.exists());
    let put_back = start(&repo, &flow("write", WRITE));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "rollback", &put_back.slug]);
    repo.aynig_ok(["clean", "--workspaces", "--older-than", "0s", "--apply"]);
    assert!(!put_back.worktree.exists());
}

/// CONTRACT 20.35
#[test]
fn doctor_names_old_workspaces_of_ended_runs() {
    let repo = with_agent("cat >/dev/null; basename $(dirname $PWD) >made");
    let [landed, kept] = [(); 2].map(|()| {
        let run = start(&repo, &flow("write", WRITE));
        repo.aynig_ok(["run", "--drain"]);
        run
    });
    repo.aynig_ok(["land", &landed.work]);
    let doctor = |seconds: &str| {
        let mut command = repo.aynig_command();
        command.args(["doctor", "--json"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds);
        let findings =
            json(&command.output().expect("it runs"))["findings"].as_array().expect("a list").clone();
        let of_ended = |one: &Value| one["text"].as_str().is_some_and(|text| text.contains("ended"));
        findings.into_iter().filter(of_ended).collect::<Vec<_>>()
    };
    assert_eq!(doctor("60"), Vec::<Value>::new(), "they have just ended");
    let found = doctor("90000");
    let has = |run: &Started, next: &str| {
        let is = |one: &&Value| one["text"].as_str().is_some_and(|text| text.contains(&run.slug));
        let one = found.iter().find(is).unwrap_or_else(|| panic!("{}: {found:?}", run.slug));
        assert_eq!(one["level"], "warning");
        assert!(one["next"].as_str().is_some_and(|text| text.contains(next)), "{one}");
    };
    has(&landed, "aynig clean --apply");
    has(&kept, &format!("aynig workspace remove --apply {}/flow", kept.slug));
}
