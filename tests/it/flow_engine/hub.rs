//! Clones that reach the hub in different ways.

use std::os::unix::fs::PermissionsExt;

use super::hosts::Field;
use super::*;

const GATE: &str = gate_step!("STOP");

/// A hub at `PATH/hub.git`, and clones of it.
struct Hub {
    whole: Repo,
    path: String,
    ssh: String,
}

impl Hub {
    fn new() -> Self {
        let whole = Repo::new();
        let bare = whole.beside("hub.git");
        let path = bare.to_str().expect("UTF-8").to_owned();
        whole.git(["clone", "-q", "--bare", ".", &path]);
        // The program that git calls for ssh: it works on this host.
        let ssh = whole.beside("ssh");
        std::fs::write(&ssh, "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n").expect("a file");
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).expect("a program");
        Self { ssh: ssh.to_str().expect("UTF-8").to_owned(), whole, path }
    }

    fn clone_by(&self, address: &str) -> Repo {
        let clone = Repo::new();
        clone.git(["config", "core.sshCommand", &self.ssh]);
        clone.git(["remote", "add", "origin", address]);
        clone.git(["fetch", "-q", "origin"]);
        clone.git(["reset", "-q", "--hard", "origin/main"]);
        clone.git(["config", "aynig.remote", "origin"]);
        place_worktrees(&clone);
        clone
    }
}

fn shares(hub: &Hub, addresses: &[String]) {
    let one = hub.clone_by(&addresses[0]);
    let run = start(&one, &flow("ask", GATE));
    let others: Vec<Repo> = addresses[1..].iter().map(|address| hub.clone_by(address)).collect();
    for (other, address) in others.iter().zip(&addresses[1..]) {
        let listed = other.aynig_ok(["flow", "list"]);
        assert!(out(&listed).contains(&run.slug), "{address}: {}", told(&listed));
        assert!(!err(&listed).contains("left aside"), "{address}: {}", told(&listed));
    }
    let other = others.last().expect("a clone");
    other.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(other, &run), ["ask"]);
    other.aynig_ok(["flow", "approve", &run.slug]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&one, &run), ["completed", "succeeded", "completed"]);
}

/// CONTRACT 16.4
#[test]
fn clones_share_a_run_however_they_reach_the_hub_by_ssh() {
    let hub = Hub::new();
    let path = &hub.path;
    let above = path.strip_suffix("/hub.git").expect("its directory");
    std::fs::create_dir(format!("{above}/x")).expect("a directory");
    shares(
        &hub,
        &[
            format!("git@hub.example:{path}"),
            format!("ssh://git@hub.example:22{path}"),
            format!("ssh://Hub.example{above}/x/../hub.git/"),
            format!("ssh://git@hub.example{path}"),
        ],
    );
}

/// CONTRACT 16.4
#[test]
fn clones_share_a_run_however_they_name_the_path_of_the_hub() {
    let hub = Hub::new();
    let path = &hub.path;
    let above = path.strip_suffix("/hub.git").expect("its directory");
    let linked = hub.whole.beside("linked");
    std::os::unix::fs::symlink(above, &linked).expect("a link");
    shares(
        &hub,
        &[
            path.clone(),
            format!("file://{path}"),
            format!("{path}/"),
            format!("{above}/./hub"),
            format!("{}/hub.git", linked.display()),
            format!("{above}/hub.git/../hub.git"),
        ],
    );
}

/// CONTRACT 16.4, 20.5
#[test]
fn a_host_whose_remote_is_another_place_hands_the_driver_back() {
    let hub = Hub::new();
    let one = hub.clone_by(&hub.path);
    let run = start(&one, &flow("ask", GATE));
    let mirror = hub.whole.beside("mirror.git");
    let mirror = mirror.to_str().expect("UTF-8");
    hub.whole.git(["clone", "-q", "--mirror", &hub.path, mirror]);
    let other = hub.clone_by(mirror);
    let expected = [hub.path.as_str(), mirror, &format!("git remote set-url origin {}", hub.path)];
    let listed = err(&other.aynig_ok(["flow", "list"]));
    for words in expected {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let output = other.aynig(["run", "--drain"]);
    let driver =
        |format| other.git(["-C", mirror, "log", "-1", format, &format!("refs/heads/{}", run.driver)]);
    assert!(driver("--format=%B").contains("dwp-state: flow-step"), "{}", told(&output));
    let whole = other.git(["-C", mirror, "log", "-3", "--format=%B", &format!("refs/heads/{}", run.driver)]);
    assert!(whole.contains("git remote set-url origin"), "{whole}\n{}", told(&output));
    assert!(!whole.contains("stalled"), "{whole}");
}

/// CONTRACT 16.4
#[test]
fn a_hub_that_moved_is_the_same_place_after_the_line_that_is_printed() {
    let hub = Hub::new();
    let one = hub.clone_by(&hub.path);
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    let moved = hub.whole.beside("moved.git");
    std::fs::rename(&hub.path, &moved).expect("a new place");
    let moved = moved.to_str().expect("UTF-8");
    one.git(["remote", "set-url", "origin", moved]);
    let line = format!("git config --add remote.origin.aynigFormerUrl {}", hub.path);
    let warned = told(&one.aynig_ok(["run", "--drain"]));
    assert_eq!(warned.matches(&line).count(), 1, "{warned}");
    let other = hub.clone_by(moved);
    for clone in [&one, &other] {
        let checked = out(&clone.aynig(["doctor"]));
        assert!(clone.path == other.path || checked.contains(&line), "{checked}");
        clone.aynig(["flow", "list"]);
        let verb = if clone.path == one.path { "approve" } else { "show" };
        let words = told(&clone.aynig(["flow", verb, &run.slug]));
        assert!(clone.path == other.path || words.contains(&line), "{words}");
        assert!(told(&clone.aynig(["flow", "list"])).contains(&line) || clone.path == one.path);
        clone.git(line.split(' ').skip(1));
        assert!(!told(&clone.aynig(["run", "--drain"])).contains(&line));
        assert!(!out(&clone.aynig(["doctor"])).contains(&line));
    }
    other.aynig_ok(["flow", "approve", &run.slug]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&other, &run), ["completed", "succeeded", "completed"]);
    // A new run has the new address, which is that of both.
    let new = start(&one, &flow("ask", GATE));
    other.aynig_ok(["run", "--drain"]);
    other.aynig_ok(["flow", "approve", &new.slug]);
}

/// CONTRACT 16.4
#[test]
fn the_hub_itself_is_not_a_remote_of_its_own() {
    let hub = Hub::new();
    let one = hub.clone_by(&hub.path);
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    let inside = one.aynig(["-C", &hub.path, "flow", "approve", &run.slug]);
    let words = told(&inside);
    assert!(inside.status.code() == Some(1) && words.contains("in a clone"), "{words}");
    assert!(!words.contains("git remote add"), "{words}");
}

/// CONTRACT 16.4
#[test]
fn a_ref_of_a_run_that_is_no_ledger_is_named_with_what_removes_it() {
    let field = Field::new("true");
    let host = &field.hosts[0];
    let name = "refs/aynig/runs/11111111-1111-4111-8111-111111111111";
    host.git(["push", "-q", "origin", &format!("main:{name}")]);
    let said = err(&host.aynig_ok(["flow", "list"]));
    assert!(!said.contains("orch doctor"), "{said}");
    for line in [format!("git log {}", &host.head("main")[..10]), format!("git push origin :{name}")] {
        assert!(said.contains(&format!("`{line}`")), "{line}: {said}");
        sh(host, &line);
    }
    assert!(!err(&host.aynig_ok(["flow", "list"])).contains("damaged"));
}
