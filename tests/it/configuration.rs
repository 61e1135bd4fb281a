//! Settings in git's configuration: each works like its option, in git's own layers, and the nearest one
//! wins.

use std::collections::{BTreeMap, BTreeSet};

use aynig::ops::settings::keys::{Fallback, KEYS, Key};

use super::scene::*;
use super::support::*;

/// A command that notes its worktree, role and lease length.
const LOOK: &str = r#"say seen "$WORKTREE_PATH|$ROLE|$AYNIG_LEASE_SECONDS"; next done"#;

fn repo(settings: &[(&str, &str)]) -> Repo {
    let repo = Repo::scene(&[("work", LOOK)]);
    repo.ready("task", "work");
    for (name, value) in settings {
        repo.git(["config", "--add", name, value]);
    }
    repo
}

#[test]
fn settings_stand_for_options() {
    let repo = repo(&[
        ("aynig.leaseSeconds", "77"),
        ("aynig.WORKTREE", "../elsewhere"),
        ("aynig.role", "tester"),
        ("aynig.runnerId", "kitchen table"),
    ]);
    let output = repo.aynig_command().env_remove("AYNIG_RUNNER_ID").arg("run").output().expect("aynig runs");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let place = repo.beside("elsewhere/task").display().to_string();
    assert_eq!(repo.said("seen"), format!("{place}|tester|77"));
    assert_eq!(repo.trailer("task~1", "dwp-runner-id"), "kitchen table");
    assert_eq!(repo.trailer("task~1", "dwp-lease-seconds"), "77");
}

#[test]
fn branches_the_current_one_and_jobs_can_be_settled() {
    let repo = Repo::scene(&[
        ("meet", "say here-$AYNIG_BRANCH yes; await here-a; await here-b; next done"),
        ("work", LOOK),
    ]);
    for (branch, state) in [("a", "meet"), ("b", "meet"), ("c", "work")] {
        repo.ready(branch, state);
    }
    for (name, value) in [("aynig.jobs", "2"), ("aynig.branch", "a"), ("aynig.branch", "b")] {
        repo.git(["config", "--add", name, value]);
    }
    repo.aynig_ok(["run"]);
    assert_eq!([repo.state("a"), repo.state("b"), repo.state("c")], ["done", "done", "work"]);
    let status = out(&repo.aynig_ok(["status", "--branch", "c"]));
    assert!(status.contains("waiting") && status.contains("aynig.branch"), "{status}");
    repo.aynig_ok(["run", "--branch", "c"]);
    assert_eq!(repo.state("c"), "done", "the flag takes the place of the setting");
    repo.git(["config", "--unset-all", "aynig.branch"]);
    repo.git(["config", "aynig.currentBranch", "only"]);
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "here", "-m", "dwp-state: work"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("main"), "done");
}

#[test]
fn times_can_be_settled() {
    let repo = Repo::scene(&[("work", "trap '' TERM; say here $$; await never")]);
    repo.ready("task", "work");
    for (name, value) in [("aynig.commandTimeout", "1"), ("aynig.graceSeconds", "0")] {
        repo.git(["config", name, value]);
    }
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    assert_eq!(repo.state("task"), "stalled");
    assert!(
        repo.message("task").contains("--command-timeout") || repo.message("task").contains("longer than"),
        "{}",
        repo.message("task")
    );
}

#[test]
fn a_heartbeat_can_be_turned_off() {
    let repo = Repo::scene(&[("work", "await go; next done")]);
    repo.ready("task", "work");
    repo.git(["config", "aynig.heartbeat", "false"]);
    let runner = repo.aynig_start(["run", "--lease-seconds", "1"]);
    let status = || listed(&repo.aynig_ok(["status", "--branch", "task", "--json"]))[0]["kind"].clone();
    wait_until("the lease to end", || status() == "expired");
    repo.release("go");
    runner.finish();
}

/// CONTRACT 5.14
#[test]
fn a_remote_can_be_settled_and_what_is_nearer_wins() {
    let hub = repo(&[]).into_bare();
    let place = hub.beside("clone");
    hub.git(["clone", "--quiet", ".", place.to_str().expect("text")]);
    let clone = Repo { room: tempfile::tempdir().expect("a directory"), path: place };
    for (name, value) in [("user.name", "T"), ("user.email", "t@example.com"), ("aynig.remote", "origin")] {
        clone.git(["config", name, value]);
    }
    clone.aynig_ok(["run"]);
    assert_eq!(
        (hub.state("task"), hub.trailer("task~1", "dwp-source")),
        ("done".into(), "git:origin".into())
    );
    // A trailer at HEAD overrides the setting.
    clone.git(["remote", "rename", "origin", "hub"]);
    hub.ready("task", "work");
    let output = clone.aynig(["run"]);
    assert_refused(&output, 3, &["aynig.remote", "\"origin\"", "no such remote", "git remote -v"]);
    clone.git(["remote", "rename", "hub", "origins"]);
    assert_refused(&clone.aynig(["run"]), 3, &["did you mean origins?"]);
    clone.git(["remote", "rename", "origins", "hub"]);
    clone.git([
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "x",
        "-m",
        "dwp-state: idle\ndwp-source: git:hub",
    ]);
    clone.aynig_ok(["run"]);
    assert_eq!(hub.state("task"), "done");
}

#[test]
fn a_flag_beats_the_environment_beats_a_setting() {
    let repo =
        repo(&[("aynig.role", "setting"), ("aynig.runnerId", "setting"), ("aynig.leaseSeconds", "10")]);
    let mut command = repo.aynig_command();
    let output = command
        .env("ROLE", "variable")
        .env("AYNIG_RUNNER_ID", "variable")
        .args(["run", "--lease-seconds", "20"])
        .output();
    assert_eq!(output.expect("aynig runs").status.code(), Some(0));
    assert!(repo.said("seen").ends_with("|variable|20"), "{}", repo.said("seen"));
    assert_eq!(repo.trailer("task~1", "dwp-runner-id"), "variable");
    repo.ready("more", "work");
    let mut command = repo.aynig_command();
    command.env("ROLE", "variable").args(["run", "--role", "flag"]).output().expect("aynig runs");
    assert!(repo.said("seen").ends_with("|flag|10"), "{}", repo.said("seen"));
}

#[test]
fn layers_and_includes_are_gits() {
    let repo = repo(&[]);
    let (global, included) = (repo.beside("global"), repo.beside("included"));
    std::fs::write(
        &global,
        format!("[aynig]\n\trole = far\n\tleaseSeconds = 11\n[include]\n\tpath = {}\n", included.display()),
    )
    .expect("a file");
    std::fs::write(&included, "[aynig]\n\tleaseSeconds = 22\n\tgraceSeconds = 3\n").expect("a file");
    repo.git(["config", "aynig.role", "near"]);
    let output =
        repo.aynig_command().env("GIT_CONFIG_GLOBAL", &global).arg("run").output().expect("aynig runs");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(repo.said("seen").ends_with("|near|22"), "{}", repo.said("seen"));
}

/// The variables a command gets for these trailers, sorted, and the runner's warnings.
fn seen_of(repo: &Repo, trailers: &str) -> (Vec<String>, String) {
    repo.branch_with_message("look", format!("x\n\n{trailers}\ndwp-state: look\n").as_bytes());
    let warned = err(&repo.aynig_ok(["run", "--branch", "look"]));
    let mut seen: Vec<String> =
        repo.said("env").lines().filter(|line| line.ends_with("=given")).map(str::to_owned).collect();
    seen.sort();
    (seen, warned)
}

const DUMP: &str = r#"say env "$(env)"; next done"#;

/// CONTRACT 3.9
#[test]
fn a_trailer_chooses_no_program_and_no_server_of_any_tool() {
    let repo = Repo::scene(&[("look", DUMP)]);
    let refused = "cypress-run-binary esbuild-binary-path otel-exporter-otlp-endpoint sentry-dsn langsmith-endpoint \
                   volta-home se-manager-path nixpkgs-config turbo-api firefox-bin node docker go sphinxbuild sh";
    let lines = |keys: &str| keys.split_whitespace().map(|key| format!("{key}: given\n")).collect::<String>();
    let free = "issue pr-url Reviewed-by acked-by dwp-path goal file";
    let (seen, warned) = seen_of(&repo, lines(&format!("{refused} {free}")).trim_end());
    let expected = ["ACKED_BY", "DWP_PATH", "FILE", "GOAL", "ISSUE", "PR_URL", "REVIEWED_BY"];
    assert_eq!(seen, expected.map(|name| format!("{name}=given")));
    for key in refused.split_whitespace() {
        assert!(
            warned.contains(&format!("trailer {key} is not passed to the command: the variable is reserved")),
            "{key}: {warned}"
        );
    }
}

/// CONTRACT 3.13
#[test]
fn the_trailers_that_become_variables_can_be_listed() {
    let repo = Repo::scene(&[("look", DUMP)]);
    for glob in ["issue", "REVIEW_*", "*-path", "home"] {
        repo.git(["config", "--add", "aynig.trailerVariables", glob]);
    }
    let trailers = "Issue: given\nreview-round: given\nreviewer: given\nSigned-off-by: given\ndwp-pr: given\n\
                    esbuild-binary-path: given\nLD-PRELOAD: given\nhome: given";
    let (seen, warned) = seen_of(&repo, trailers);
    assert_eq!(seen, ["DWP_PR=given", "ISSUE=given", "REVIEW_ROUND=given"]);
    assert_eq!(warned.matches("is not passed").count(), 2, "of those that are listed alone: {warned}");
    assert!(warned.contains("esbuild-binary-path") && warned.contains("home"), "{warned}");
    repo.git(["config", "--replace-all", "aynig.trailerVariables", ""]);
    let (seen, warned) = seen_of(&repo, trailers);
    assert_eq!((seen, warned.as_str()), (vec!["DWP_PR=given".to_owned()], ""));
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_file_and_nothing_runs() {
    for (name, value, why) in [
        ("jobs", "many", "write a number from 1 on"),
        ("leaseSeconds", "0", "must be from 1 to 31536000 s"),
        ("skewSeconds", "5min", "not a duration: write 90s, 5m, 2h, 14d, 1h30m, or a number of seconds"),
        ("currentBranch", "maybe", "write skip or include or only"),
        ("heartbeat", "perhaps", "neither true nor false"),
        ("pool", "some", "write a number from 0 on"),
        ("poolKeepIgnored", "x", "neither true nor false"),
        ("role", "../x", "role name"),
        ("branch", "a[", "glob"),
        ("states", "a[", "glob"),
        ("notifyStates", "a[", "glob"),
        ("trailerVariables", "a[", "glob"),
        ("notifySeconds", "2h", "must be from 1 to 3600 s"),
        ("requireSigned", "perhaps", "neither true nor false"),
        ("commandsFrom", "", "value is required"),
    ] {
        let key = format!("aynig.{name}");
        let repo = repo(&[(&key, value)]);
        let output = repo.aynig(["run"]);
        assert_ne!(output.status.code(), Some(0), "{key}");
        let said = err(&output);
        assert!(said.contains(why), "{key}: {said}");
        // A name of a temporary directory may have anything in it.
        let place = repo.path.to_str().expect("UTF-8");
        let first = said.lines().next().expect("a line").replace(place, "");
        assert!(name == "role" || first.matches(name).count() == 1, "once is enough: {said}");
        assert!(name == "role" || value.len() < 2 || first.matches(value).count() == 1, "{said}");
        assert_refused(&output, 3, &[&key, value, ".git/config", &format!("git config {key} VALUE")]);
        assert_eq!(repo.state("task"), "work");
    }
}

#[test]
fn a_misspelt_setting_is_named_with_the_one_that_may_be_meant() {
    let repo = repo(&[("aynig.leaseSecond", "5"), ("aynig.xyzzy", "1")]);
    let output = repo.aynig_ok(["run"]);
    let said = err(&output);
    let line = |name: &str| {
        said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {said}"))
    };
    assert!(line("aynig.leaseSecond ").contains("did you mean aynig.leaseSeconds?"), "{said}");
    assert!(!line("aynig.xyzzy").contains("mean"), "{said}");
}

/// The end of the entry of a setting in `aynig-config(5)`: its sources and its default.
fn sources(key: &Key) -> String {
    let mut text = String::new();
    if let Some(option) = &key.option {
        text.push_str(&format!(" Option: --{}.", option.long));
    }
    for (source, name) in [("Environment", key.environment), ("Trailer", key.trailer)] {
        if !name.is_empty() {
            text.push_str(&format!(" {source}: {name}."));
        }
    }
    let (Fallback::Value(default) | Fallback::Words(default)) = key.default;
    format!("{text} Default: {default}.").replace('`', "")
}

/// The page without its fonts and escapes.
fn plain(page: &str) -> String {
    let escapes = [("\\fB", ""), ("\\fR", ""), ("\\fI", ""), ("\\-", "-"), ("\\(aq", "'")];
    escapes.iter().fold(page.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[test]
fn the_manual_has_all_settings() {
    let page = plain(&out(&Repo::new().aynig_ok(["manual", "config"])));
    let section = page.split("\n.SH SETTINGS\n").nth(1).and_then(|rest| rest.split("\n.SH ").next());
    let entries = section.expect("the section").split(".TP\n").filter(|entry| !entry.is_empty());
    let entries: BTreeMap<&str, &str> = entries.filter_map(|entry| entry.split_once('\n')).collect();
    let names: BTreeSet<String> = KEYS.iter().map(|key| format!("aynig.{}", key.name)).collect();
    assert_eq!(entries.keys().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), names);
    for key in &KEYS {
        let entry = entries[format!("aynig.{}", key.name).as_str()].trim_end();
        assert!(entry.starts_with(key.help.replace('`', "").trim_end_matches('.')), "{entry}");
        assert!(entry.ends_with(&sources(key)), "{}: {entry}", sources(key));
        let repeatable = entry.to_lowercase().contains("repeatable");
        assert!(!key.is_repeatable() || repeatable, "{entry}");
    }
}

/// Git reads it where a repository is served, not where one is worked in.
#[test]
fn a_namespace_hides_no_branch() {
    let repo = Repo::with_commands(&[("build", "echo 'SET_STATE {\"state\":\"done\"}'")]);
    repo.ready("task", "build");
    let output = repo.aynig_command().env("GIT_NAMESPACE", "other").arg("run").output().expect("it runs");
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(repo.state("task"), "done", "{}{}", out(&output), err(&output));
    repo.assert_tidy();
}

/// CONTRACT 20.16
#[test]
fn lines_of_validators_and_planners_are_settings() {
    let repo = Repo::new();
    repo.git(["config", "aynig.validator.unit-tests", "make check"]);
    repo.git(["config", "aynig.evaluator", "judge"]);
    repo.git(["config", "aynig.evaluator.strict", "judge --strict"]);
    repo.git(["config", "aynig.approver.Release", "ana@example.com"]);
    repo.git(["config", "aynig.validators.lint", "x"]);
    let output = repo.aynig(["status"]);
    let text = err(&output);
    assert!(text.contains("unknown setting aynig.validators.lint"), "{text}");
    assert_eq!(text.matches("unknown setting").count(), 1, "{text}");
    let store = aynig::git::Store::open(&repo.path, &aynig::git::repo::open::GitVariables::default(), None);
    let opened = store.expect("a repository").handle();
    let lines = aynig::ops::settings::lines::validators(&opened).expect("settings");
    assert_eq!(lines, [("unit-tests".to_owned(), "make check".to_owned())].into());
    let lines = aynig::ops::settings::lines::evaluators(&opened).expect("settings");
    assert_eq!(lines.keys().collect::<Vec<_>>(), ["", "strict"]);
}
