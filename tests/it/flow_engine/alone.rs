//! Runs that this repository decides, in a clone where a remote was set later.

use super::*;

/// CONTRACT 20.14
#[test]
fn a_run_from_before_the_remote_names_the_command_that_works() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", gate_step!("STOP")));
    repo.aynig_ok(["run", "--drain"]);
    let hub = repo.beside("hub.git");
    let hub = hub.to_str().expect("UTF-8");
    repo.git(["clone", "-q", "--bare", ".", hub]);
    repo.git(["remote", "add", "origin", hub]);
    repo.git(["config", "aynig.remote", "origin"]);
    let way = format!("aynig flow resume {} --wait", run.slug);
    let shows = |arguments: &[&str]| {
        let said = told(&repo.aynig_ok(arguments.iter().copied()));
        assert!(said.contains(&way) && !said.contains("is gone"), "{arguments:?}: {said}");
        assert!(!said.contains("`aynig run`"), "{arguments:?}: {said}");
    };
    let list = told(&repo.aynig_ok(["flow", "list"]));
    assert!(list.contains("gate") && list.contains("this clone alone"), "{list}");
    let show = told(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(show.contains("flow approve") && show.contains("this clone alone"), "{show}");
    shows(&["status", "--all"]);
    shows(&["run", "--drain"]);
    shows(&["flow", "approve", &run.slug]);
    shows(&["flow", "resume", &run.slug]);
    shows(&["flow", "show", &run.slug]);
    shows(&["run"]);
    let output = repo.aynig_ok(way.split(' ').skip(1));
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"], "{}", told(&output));
    for arguments in [&["run"][..], &["status", "--all"], &["flow", "list"], &["flow", "show", &run.slug]] {
        let said = told(&repo.aynig_ok(arguments.iter().copied()));
        assert!(!said.contains("alone"), "{arguments:?}: {said}");
    }
}
