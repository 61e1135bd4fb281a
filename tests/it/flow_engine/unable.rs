//! A step that no host can do: a person hears of it once, and it is named until somebody has mended it.

use super::heard::{heard, listen, next, the_notice};
use super::hosts::Field;
use super::*;

const WORK: &str = "  - {id: work, opcode: RUN_AGENT, agent: nowhere, prompt: go, allow_empty: true, routes: {completed: STOP, error: STOP}}\n";
const MENDS: &str = "git config aynig.provider.nowhere.kind KIND";

/// Calls aynig so many seconds from now, with the runner's id of the repository.
fn later(repo: &Repo, seconds: &str, arguments: &[&str]) -> std::process::Output {
    let runner = repo.git(["config", "--default", "test-host", "--get", "aynig.runnerId"]);
    let mut command = repo.aynig_command();
    command
        .args(arguments)
        .env("AYNIG_RUNNER_ID", runner)
        .env("AYNIG_CLOCK_OFFSET_SECONDS", seconds)
        .output()
        .expect("it runs")
}

fn status(repo: &Repo, seconds: &str, run: &Started) -> Option<i32> {
    later(repo, seconds, &["status", &run.driver, "--exit-code"]).status.code()
}

/// The warning of the doctor about steps that no host can do.
fn warned(repo: &Repo, seconds: &str) -> Option<String> {
    let found = json(&later(repo, seconds, &["doctor", "--json"]));
    let found = found["findings"].as_array().expect("a list").clone();
    let of_it = found.into_iter().find(|one| one["check"] == "unable")?;
    assert_eq!(of_it["level"], "warning");
    Some(format!("{} | {}", of_it["text"].as_str()?, of_it["next"].as_str()?))
}

/// CONTRACT 6.18, 11.28, 20.41
#[test]
fn without_a_remote_there_is_no_other_host() {
    let repo = Repo::new();
    listen(&repo);
    let run = start(&repo, &flow("work", WORK));
    assert_eq!((warned(&repo, "0"), status(&repo, "0", &run)), (None, Some(10)));
    repo.aynig_ok(["run", "--drain"]);
    let notice = the_notice(&repo);
    assert_eq!(
        ["event", "branch", "state", "commit"].map(|field| notice[field].as_str().unwrap_or_default()),
        ["handed-back", &run.driver, "flow-step", &repo.head(&run.driver)],
        "{notice}"
    );
    let reason = notice["reason"].as_str().expect("text");
    assert!(reason.contains("test-host cannot do it: this host has no provider nowhere"), "{reason}");
    let resume = format!("aynig flow resume {}", run.slug);
    let show = format!("aynig flow show {}", run.slug);
    assert_eq!(next(&notice), [MENDS, &resume, &show]);
    later(&repo, "60", &["run", "--drain"]);
    assert_eq!(repo.trailer(&run.driver, "aynig-handed-back"), "2");
    assert_eq!(heard(&repo), Vec::<Value>::new(), "once");
    let said = warned(&repo, "60").expect("a warning");
    for words in [&format!("run {}", run.slug), "work", "no provider nowhere", MENDS, &resume] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(status(&repo, "60", &run), Some(12));
    let listed = out(&later(&repo, "60", &["flow", "list"]));
    assert!(listed.contains("stuck") && listed.contains("no provider nowhere"), "{listed}");
    let shown = out(&later(&repo, "60", &["flow", "show", &run.slug]));
    for words in [&format!("next       {MENDS}"), &format!("next       {resume}")] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    super::agent::agent(&repo, "nowhere", "cat >/dev/null; echo done");
    repo.aynig_ok(["flow", "resume", &run.slug]);
    assert_eq!(warned(&repo, "0"), None);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "succeeded");
    assert_eq!(heard(&repo), Vec::<Value>::new());
}

/// CONTRACT 6.18, 11.28, 20.41
#[test]
fn with_a_remote_another_host_has_ten_minutes() {
    let field = Field::new("cat >/dev/null; echo done");
    let [first, second] = &field.hosts;
    field.hosts.iter().for_each(listen);
    let all = || field.hosts.iter().flat_map(heard).collect::<Vec<_>>();
    let taken = start(first, &flow("work", WORK));
    later(first, "0", &["run", "--drain"]);
    super::agent::agent(second, "nowhere", "cat >/dev/null; echo done");
    later(second, "700", &["run", "--drain"]);
    assert_eq!(end(second, &taken)[1], "succeeded");
    second.git(["config", "--remove-section", "aynig.provider.nowhere"]);
    assert_eq!(all(), Vec::<Value>::new(), "somebody took it");

    let run = start(first, &flow("work", WORK));
    for (seconds, place, code) in [("0", "parked", Some(10)), ("300", "parked", Some(10))] {
        for host in &field.hosts {
            later(host, seconds, &["run", "--drain"]);
        }
        assert_eq!(all(), Vec::<Value>::new(), "{seconds}");
        assert_eq!((warned(first, seconds), status(first, seconds, &run)), (None, code), "{seconds}");
        let listed = out(&later(first, seconds, &["flow", "list"]));
        assert!(listed.lines().any(|line| line.contains(&run.slug) && line.contains(place)), "{listed}");
        let shown = json(&later(first, seconds, &["flow", "show", &run.slug, "--json"]));
        assert_eq!(shown["next"][0], MENDS, "{shown}");
    }
    // Whether a runner looks or not.
    assert_eq!(status(first, "700", &run), Some(12));
    let said = warned(first, "700").unwrap_or_default();
    assert!(said.contains("second cannot do it"), "{said}");
    for seconds in ["1200", "2400"] {
        for host in &field.hosts {
            later(host, seconds, &["run", "--drain"]);
        }
        assert_eq!(all().len(), 1, "{seconds}: {:?}", all());
    }
    let notice = all().pop().expect("a notice");
    assert_eq!(notice["event"], "handed-back");
    let reason = notice["reason"].as_str().expect("text");
    assert!(reason.contains("first cannot do it") && reason.contains("second cannot do it"), "{reason}");
    assert_eq!(warned(second, "2400").map(|said| said.contains(MENDS)), Some(true));
}

/// CONTRACT 20.14
#[test]
fn a_program_that_is_missing_is_named_with_the_line_that_mends_it() {
    let repo = Repo::new();
    repo.git(["config", "aynig.provider.nowhere.kind", "custom"]);
    repo.git(["config", "aynig.provider.nowhere.command", "no-such-program"]);
    let run = start(&repo, &flow("work", WORK));
    repo.aynig_ok(["run", "--drain"]);
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    let mends = "next       git config aynig.provider.nowhere.command PROGRAM";
    assert!(shown.contains(mends), "{shown}");
}
