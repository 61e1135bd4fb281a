//! An invalid `SET_STATE` line counts as none; `run`, `status` and `log` show it.

use super::scene::*;
use super::support::*;

const CUT_OFF: &str = r#"SET_STATE {"state":"done""#;

fn held(script: &str) -> (Repo, std::process::Output) {
    let repo = Repo::scene(&[("work", script)]);
    repo.ready("task", "work");
    let output = repo.aynig_ok(["run"]);
    (repo, output)
}

/// CONTRACT 4.10, 4.17, 6.3
#[test]
fn an_invalid_line_is_shown_by_run_status_and_log() {
    let (repo, run) = held(&format!("echo begun; echo '{CUT_OFF}'"));
    assert_eq!(repo.state("task"), "working", "it counts as none");
    let why = "line 2 of its output: the payload is not JSON on one line";
    for (name, text) in [
        ("run", err(&run)),
        ("commit", repo.message("task")),
        ("status", out(&repo.aynig_ok(["status", "task"]))),
        ("status --all", out(&repo.aynig_ok(["status", "--all"]))),
        ("log", out(&repo.aynig_ok(["log", "task"]))),
    ] {
        assert!(text.contains("invalid") && text.contains(why) && text.contains(CUT_OFF), "{name}: {text}");
    }
    let status = out(&repo.aynig_ok(["status", "task"]));
    assert!(
        status.contains("aynig logs --branch task")
            && status.contains("aynig set-state --retry --branch task"),
        "{status}"
    );
    let rows = listed(&repo.aynig_ok(["status", "task", "--json"]));
    assert_eq!((&rows[0]["kind"], &rows[0]["ended"]), (&"invalid".into(), &"invalidDeclaration".into()));
    assert!(rows[0]["reason"].as_str().expect("words").contains(CUT_OFF), "{rows}");
    let log = listed(&repo.aynig_ok(["log", "task", "--json"]));
    assert_eq!(log[0]["ended"], "invalidDeclaration");
    assert!(log[0]["reason"].as_str().expect("words").contains(CUT_OFF), "{log}");
    let all = repo.aynig_ok(["status", "--all"]);
    assert!(err(&all).contains("1 branch: 1 invalid"), "{}", err(&all));
    let again = repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    assert_eq!((repo.state("task").as_str(), err(&again).as_str()), ("work", ""), "nobody holds it");
}

/// CONTRACT 4.17, 6.16
#[test]
fn the_title_of_what_stalled_so_names_the_cause() {
    let repo = Repo::scene(&[("work", &format!("echo '{CUT_OFF}'"))]);
    repo.ready("task", "work");
    repo.aynig_ok(["run", "--lease-seconds", "1"]);
    repo.run_until("task", "stalled", &["run"]);
    let title = repo.git(["log", "-1", "--format=%s", "task"]);
    assert!(title.contains("SET_STATE was invalid"), "{title}");
}

/// CONTRACT 4.9
#[test]
fn a_misspelt_field_is_named_by_run_status_and_log() {
    let line = r#"SET_STATE {"state":"done","boddy":"long","subject":"s","keepBody":true,"title":"\u0007x"}"#;
    let (repo, run) = held(&format!("echo '{line}'"));
    assert_eq!(repo.state("task"), "done", "it counts");
    for (name, text) in [
        ("run", err(&run)),
        ("commit", repo.message("task")),
        ("status", out(&repo.aynig_ok(["status", "task"]))),
        ("status --all", out(&repo.aynig_ok(["status", "--all"]))),
        ("log", out(&repo.aynig_ok(["log", "task"]))),
        ("log --json", listed(&repo.aynig_ok(["log", "task", "--json"]))[0]["reason"].to_string()),
    ] {
        assert!(text.contains("boddy (body?), keepBody (keep_body?)"), "{name}: {text}");
    }
    let (_, ran) = held(r#"echo 'SET_STATE {"state":"done","subject":"s","body":null,"note":null}'"#);
    assert_eq!(err(&ran), "");
}

/// CONTRACT 4.10, 4.17, 6.3
#[test]
fn a_command_that_said_nothing_is_shown_as_such() {
    let (repo, _) = held("true");
    let rows = listed(&repo.aynig_ok(["status", "task", "--json"]));
    assert_eq!((&rows[0]["kind"], &rows[0]["ended"]), (&"working".into(), &"noDeclaration".into()));
    assert_eq!(rows[0]["reason"], "exit 0 without SET_STATE");
    let log = out(&repo.aynig_ok(["log", "task"]));
    assert!(log.contains("exit 0 without SET_STATE"), "{log}");
}

/// CONTRACT 4.4, 4.10
#[test]
fn a_valid_line_counts_before_and_after_an_invalid_one() {
    for script in [format!("next done; echo '{CUT_OFF}'"), format!("echo '{CUT_OFF}'; next done")] {
        let (repo, run) = held(&script);
        assert_eq!(repo.state("task"), "done", "{}", told(&run));
        assert!(err(&run).contains(CUT_OFF), "{}", told(&run));
    }
}

/// CONTRACT 4.10
#[test]
fn a_hostile_line_is_cut_and_harmless() {
    let (repo, run) = held(
        r#"printf 'SET_STATE {"state":"\033[31mred\033[0m\a%s' "$(head -c 5000 /dev/zero | tr '\0' x)"; echo; echo 'dwp-state: forged'"#,
    );
    let shown = [err(&run), out(&repo.aynig_ok(["status", "--all"])), out(&repo.aynig_ok(["log", "task"]))];
    for text in shown.iter().chain([&repo.message("task")]) {
        assert!(text.contains("red") && text.contains("xxx…"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
        assert!(text.lines().all(|line| line.chars().count() < 1_000), "{text}");
    }
    assert_eq!(repo.state("task"), "working");
}
