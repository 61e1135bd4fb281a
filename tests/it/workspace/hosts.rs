//! Workspaces of a run that a remote decides, on two hosts: published with the ledger, taken over, and what gives way.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::model::ids::RunId;

use super::super::support::*;
use super::Made;
use super::runs::{self, assert_whole, known, made_in, run_at, words};
use crate::programs::skipped;
use crate::remote::servers::{Server, sshd};

/// A hub, two hosts with clones of it, and a run that it decides.
struct Field {
    hub: Repo,
    hosts: [Repo; 2],
    run: RunId,
    /// It ends with this.
    _server: Option<Server>,
}

impl Field {
    fn new(server: impl Fn(&Repo) -> Option<Server>) -> Self {
        let hub = Repo::new();
        hub.write(".gitignore", "*.tmp\n");
        hub.write(".worktreeinclude", "local.tmp\n");
        hub.commit_all("begin");
        let bare = hub.beside("hub.git");
        hub.git(["clone", "-q", "--bare", ".", bare.to_str().expect("UTF-8")]);
        let server = server(&hub);
        let host = || {
            let host = Repo::new();
            host.git(["remote", "add", "origin", bare.to_str().expect("UTF-8")]);
            host.git(["fetch", "-q", "origin"]);
            host.git(["reset", "-q", "--hard", "origin/main"]);
            host.git(["config", "aynig.remote", "origin"]);
            host.git(["config", "aynig.setup", "echo done >setup.tmp"]);
            host.write("local.tmp", "local\n");
            if let Some(server) = &server {
                host.git(["remote", "set-url", "origin", &server.url]);
                for (name, value) in &server.environment {
                    assert_eq!(*name, "GIT_SSH_COMMAND");
                    host.git(["config", "core.sshCommand", value]);
                }
            }
            host
        };
        let hosts = [host(), host()];
        let run = run_at(&hosts[0], &Place::Remote(RemoteName::parse("origin").expect("a name")));
        Self { hub, hosts, run, _server: server }
    }

    fn here() -> Self {
        Self::new(|_| None)
    }

    fn bare(&self) -> PathBuf {
        self.hub.beside("hub.git")
    }

    /// What the hub has of the work branch.
    fn published(&self) -> String {
        let listed =
            self.hosts[0].git(["ls-remote", "origin", &format!("refs/aynig/work/{}/flow", self.run)]);
        listed.split('\t').next().expect("a line").to_owned()
    }

    /// No branch of a person's is made at the hub.
    fn assert_branches(&self) {
        let heads = self.hosts[0].git(["ls-remote", "--heads", "origin"]);
        assert!(heads.ends_with("\trefs/heads/main") && heads.lines().count() == 1, "{heads}");
    }

    /// Both hosts and the hub have the same ledger, and it has the published commit.
    fn assert_agreed(&self, what: &str) {
        for host in &self.hosts {
            assert_eq!(known(host, self.run)["flow"]["headSha"], self.published().as_str(), "{what}");
            assert_whole(host, self.run);
        }
        self.assert_branches();
    }
}

/// Changes a file and takes a snapshot.
fn work(host: &Repo, made: &Made, file: &str) -> Output {
    made.sh(host, &format!("echo {file} >{file}"));
    host.workspace_ok(["snapshot", &made.handle])
}

fn flow(field: &Field) -> [Made; 2] {
    [made_in(&field.hosts[0], field.run, "flow"), made_in(&field.hosts[1], field.run, "flow")]
}

fn on_two_hosts(field: &Field) {
    let [a, b] = &field.hosts;
    let first = made_in(a, field.run, "flow");
    assert_eq!(field.published(), a.head("main"));
    work(a, &first, "one");
    assert_eq!(field.published(), a.head(&first.branch));
    // The other host knows it from the ledger alone.
    b.aynig_ok(["orch", "run", "list"]);
    let refused = b.workspace(["snapshot", &first.handle]);
    assert_refused(&refused, 1, &["there is no workspace", "create flow --run"]);
    let second = made_in(b, field.run, "flow");
    assert_eq!((&second.branch, &second.run), (&first.branch, &first.run));
    assert_ne!(second.path, first.path);
    assert_eq!(b.head(&second.branch), field.published());
    for (file, text) in [("one", "one\n"), ("local.tmp", "local\n"), ("setup.tmp", "done\n")] {
        assert_eq!(fs::read_to_string(second.path.join(file)).expect(file), text);
    }
    let [there, here] = [a, b].map(|host| host.workspaces()[0].clone());
    for field in ["baseRef", "baseSha", "generation", "createdAt", "commit"] {
        assert_eq!(there[field], here[field], "{field}");
    }
    work(b, &second, "two");
    assert_eq!(field.published(), b.head(&second.branch));
    // The first goes on from there.
    work(a, &first, "three");
    assert_eq!(field.published(), a.head(&first.branch));
    assert_eq!(a.git(["diff", "--name-only", "main", &first.branch]), "one\nthree\ntwo");
    assert!(a.rescues().is_empty() && b.rescues().is_empty());
    assert_eq!(words(a, field.run), ["prepared", "snapshot", "snapshot", "snapshot"]);
    field.assert_agreed("");
}

/// CONTRACT 15.20, 15.21
#[test]
fn another_host_carries_on_from_what_was_published() {
    on_two_hosts(&Field::here());
}

/// CONTRACT 15.20, 15.21
#[test]
fn another_host_carries_on_over_ssh() {
    let why = std::cell::RefCell::new(None);
    let field = Field::new(|hub| sshd(hub).map_err(|error| why.replace(Some(error))).ok());
    match why.take() {
        Some(why) => skipped(&why),
        None => on_two_hosts(&field),
    }
}

/// CONTRACT 15.20
#[test]
fn ledger_and_work_branch_are_published_together() {
    let field = Field::here();
    let a = &field.hosts[0];
    let made = made_in(a, field.run, "flow");
    let before = field.published();
    let hook = field.bare().join("hooks/update");
    fs::write(&hook, "#!/bin/sh\ncase $1 in refs/aynig/work/*) exit 1;; esac\n").expect("a hook");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    made.sh(a, "echo one >one");
    let taken = a.workspace_ok(["snapshot", &made.handle]);
    assert!(err(&taken).contains("has not heard"), "{}", err(&taken));
    let ledger = || a.git(["ls-remote", "origin", &format!("refs/aynig/runs/{}", field.run)]);
    let old = ledger();
    assert_eq!(field.published(), before);
    fs::remove_file(&hook).expect("removed");
    a.workspace_ok(["snapshot", &made.handle]);
    assert_eq!(field.published(), a.head(&made.branch));
    assert_ne!(ledger(), old);
    assert_eq!(words(a, field.run), ["prepared", "snapshot"]);
}

/// CONTRACT 15.21
#[test]
fn commits_that_the_hub_does_not_have_give_way_and_are_saved() {
    let field = Field::here();
    let [a, b] = &field.hosts;
    let [first, second] = flow(&field);
    let away = field.bare().with_extension("away");
    fs::rename(field.bare(), &away).expect("renamed");
    let alone = work(a, &first, "alone");
    assert!(err(&alone).contains("as this host last knew it"), "{}", err(&alone));
    let own = a.head(&first.branch);
    fs::rename(&away, field.bare()).expect("renamed");
    work(b, &second, "theirs");
    made_uncommitted(a, &first);
    let next = a.workspace_ok(["snapshot", &first.handle]);
    let [rescue] = &a.rescues()[..] else { panic!("one rescue: {:?}", a.rescues()) };
    assert!(err(&next).contains(rescue), "{}", err(&next));
    assert_eq!(a.head(rescue), own);
    assert_eq!(a.git(["diff", "--name-only", "main", &first.branch]), "loose\ntheirs");
    assert_eq!(field.published(), a.head(&first.branch));
    field.assert_agreed("");
}

fn made_uncommitted(host: &Repo, made: &Made) {
    made.sh(host, "echo loose >loose");
}

/// CONTRACT 15.7, 15.21
#[test]
fn a_rollback_from_another_host_reaches_the_first() {
    let field = Field::here();
    let [a, b] = &field.hosts;
    let first = made_in(a, field.run, "flow");
    work(a, &first, "one");
    let old = a.head(&first.branch);
    made_uncommitted(a, &first);
    // It is known here from the ledger alone.
    b.workspace_ok(["rollback", &first.handle]);
    assert_eq!(field.published(), b.head("main"));
    let [rescue] = &b.rescues()[..] else { panic!("one rescue") };
    assert_eq!(b.head(rescue), old);
    assert_eq!(words(b, field.run), ["prepared", "snapshot", "rolled_back"]);
    let next = a.workspace_ok(["snapshot", &first.handle]);
    assert!(err(&next).contains("made the worktree"), "{}", err(&next));
    assert_eq!(a.head(&first.branch), field.published());
    assert!(!first.path.join("loose").exists() && !first.path.join("one").exists());
    let [rescue] = &a.rescues()[..] else { panic!("one rescue") };
    assert_eq!(a.git(["show", &format!("{rescue}:loose")]), "loose");
    assert!(first.path.join("setup.tmp").is_file());
    let generations = [a, b].map(|host| host.workspaces()[0]["generation"].clone());
    assert_eq!(generations, [2, 2]);
    work(a, &first, "again");
    let second = Made::of(&b.workspaces()[0]);
    work(b, &second, "more");
    assert_eq!(b.git(["diff", "--name-only", "main", &first.branch]), "again\nmore");
    field.assert_agreed("");
}

/// CONTRACT 15.21
#[test]
fn a_repair_that_the_hub_has_not_heard_of_gives_way_to_the_work_of_others() {
    let field = Field::here();
    let [a, b] = &field.hosts;
    let [first, second] = flow(&field);
    work(a, &first, "one");
    fs::remove_dir_all(&first.path).expect("it is there");
    let mut killed = a.aynig_command();
    killed.args(["workspace", "snapshot", &first.handle]).env("AYNIG_CRASH_AT", "workspace-unheard:kill:1");
    assert_eq!(killed.output().expect("aynig starts").status.code(), None);
    work(b, &second, "two");
    let theirs = field.published();
    work(a, &first, "three");
    assert_eq!(field.published(), a.head(&first.branch));
    assert_eq!(a.git(["diff", "--name-only", "main", &first.branch]), "one\nthree\ntwo");
    assert!(a.rescues().is_empty(), "{:?}", a.rescues());
    b.workspace_ok(["snapshot", &second.handle]);
    b.git(["merge-base", "--is-ancestor", &theirs, &second.branch]);
    assert_eq!(b.head(&second.branch), field.published());
    field.assert_agreed("");
}

/// A worktree that is older than its branch, since another host worked on that, has no changes of its own.
///
/// CONTRACT 15.6, 15.8
#[test]
fn what_a_worktree_lacks_of_the_work_is_no_deletion() {
    let field = Field::here();
    let [a, b] = &field.hosts;
    let [first, second] = flow(&field);
    work(b, &second, "two");
    made_uncommitted(a, &first);
    a.workspace_ok(["rollback", &first.handle]);
    assert!(!first.path.join("loose").exists());
    a.workspace_ok(["rollback", "--undo", &first.handle]);
    assert_eq!(a.git(["-C", first.path.to_str().expect("UTF-8"), "status", "--short"]), "?? loose");
    assert_eq!(a.head(&first.branch), b.head(&second.branch));
    // An undo saves the contents of the worktree, too.
    a.workspace_ok(["rollback", &first.handle]);
    a.workspace_ok(["rollback", "--undo", &first.handle]);
    work(b, &second, "three");
    a.workspace_ok(["rollback", "--undo", &first.handle]);
    a.workspace_ok(["rollback", "--undo", &first.handle]);
    assert_eq!(a.git(["-C", first.path.to_str().expect("UTF-8"), "status", "--short"]), "?? loose");
    assert_eq!(a.git(["show", "--format=", "--name-only", &first.branch]), "three");
    field.assert_agreed("");
    // So does a removal.
    work(b, &second, "four");
    fs::remove_file(first.path.join("loose")).expect("it is there");
    let rescues = a.rescues().len();
    a.workspace_ok(["remove", "--apply", &first.handle]);
    assert_eq!(a.rescues().len(), rescues, "there was nothing to save");
}

/// CONTRACT 15.21
#[test]
fn commits_that_a_person_pushes_to_the_work_branch_are_adopted() {
    let field = Field::here();
    let [a, b] = &field.hosts;
    let made = made_in(a, field.run, "flow");
    work(a, &made, "one");
    let name = format!("refs/aynig/work/{}/flow", field.run);
    b.git(["fetch", "-q", "origin", &name]);
    b.git(["checkout", "-q", "--detach", "FETCH_HEAD"]);
    b.write("theirs", "t\n");
    let theirs = b.commit_all("theirs");
    b.git(["push", "-q", "origin", &format!("HEAD:{name}")]);
    made.sh(a, "echo two >two");
    let output = a.workspace_ok(["snapshot", &made.handle]);
    assert!(out(&output).contains(&format!("adopted  {theirs}")), "{}", out(&output));
    assert!(made.path.join("theirs").is_file());
    assert_eq!(words(a, field.run), ["prepared", "snapshot", "adopted", "snapshot"]);
    assert_eq!(field.published(), a.head(&made.branch));
    assert_eq!(a.git(["diff", "--name-only", "main", &made.branch]), "one\ntheirs\ntwo");
    field.assert_agreed("");
}

/// CONTRACT 15.7, 15.21
#[test]
fn a_workspace_whose_record_is_lost_is_rolled_back_from_the_ledger() {
    let (repo, run) = runs::field();
    let made = made_in(&repo, run, "flow");
    work(&repo, &made, "one");
    let tip = repo.head(&made.branch);
    let place = made.path.to_str().expect("UTF-8");
    repo.git(["worktree", "unlock", place]);
    repo.git(["worktree", "remove", "--force", place]);
    fs::remove_dir_all(repo.runs().join(&made.run)).expect("removed");
    repo.workspace_ok(["rollback", &made.handle]);
    assert_eq!(repo.head(&made.branch), repo.head("main"));
    assert_eq!(made.git(&repo, &["status", "--porcelain"]), "");
    let [rescue] = &repo.rescues()[..] else { panic!("one rescue") };
    assert_eq!(repo.head(rescue), tip);
    assert_eq!(words(&repo, run), ["prepared", "snapshot", "rolled_back"]);
    assert_eq!(repo.workspaces()[0]["generation"], 2);
}

/// CONTRACT 15.20
#[test]
fn a_removed_workspace_is_archived_at_the_hub() {
    let field = Field::here();
    let a = &field.hosts[0];
    for number in ["", "-2"] {
        let made = made_in(a, field.run, "flow");
        work(a, &made, &format!("one{number}"));
        let tip = a.head(&made.branch);
        a.workspace_ok(["remove", "--apply", &made.handle]);
        let listed = a.git(["ls-remote", "origin", "refs/aynig/work/*", "refs/aynig/archive/*"]);
        let archived = format!("{tip}\trefs/aynig/archive/{}/flow{number}", field.run);
        assert!(listed.lines().any(|line| line == archived) && !listed.contains("/work/"), "{listed}");
    }
    // The other host hears of it.
    let b = &field.hosts[1];
    let first = made_in(a, field.run, "flow");
    let second = made_in(b, field.run, "flow");
    a.workspace_ok(["remove", "--apply", &first.handle]);
    let told = work(b, &second, "two");
    assert!(err(&told).contains("another host removed"), "{}", err(&told));
    b.workspace_ok(["remove", "--apply", &second.handle]);
    assert_eq!(words(b, field.run).iter().filter(|word| *word == "removed").count(), 3);
}

/// CONTRACT 15.20, 15.21
#[cfg(debug_assertions)]
#[test]
fn a_host_that_is_killed_at_any_point_loses_nothing() {
    for (who, verb, point) in [
        (0, "snapshot", "snapshot-written"),
        (0, "snapshot", "snapshot-moved"),
        (0, "snapshot", "workspace-unheard"),
        (0, "snapshot", "ledger-written"),
        (0, "snapshot", "ledger-pushed"),
        (0, "snapshot", "workspace-heard"),
        (1, "create", "workspace-noted"),
        (1, "create", "rollback-aside"),
        (1, "create", "rollback-moved"),
        (1, "create", "worktree-drafted"),
        (1, "create", "worktree-registered"),
        (1, "create", "rollback-added"),
        (1, "create", "rollback-done"),
        (1, "rollback", "rollback-noted"),
        (1, "rollback", "rollback-moved:kill:2"),
        (1, "rollback", "workspace-unheard"),
        (1, "rollback", "ledger-pushed"),
        (1, "rollback", "workspace-heard"),
    ] {
        let what = format!("{verb} {point}");
        let field = Field::here();
        let made = made_in(&field.hosts[0], field.run, "flow");
        work(&field.hosts[0], &made, "one");
        made.sh(&field.hosts[0], "echo two >two");
        let run = field.run.to_string();
        let arguments = match verb {
            "create" => vec!["create", "flow", "--run", &run],
            verb => vec![verb, &made.handle],
        };
        let mut command = field.hosts[who].workspace_command();
        let killed = command.args(arguments).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
        assert_eq!(killed.status.code(), None, "{what}: {}", err(&killed));
        // Whoever goes on first finds all there is.
        let [a, b] = &field.hosts;
        if b.workspaces().is_empty() {
            made_in(b, field.run, "flow");
        }
        let second = Made::of(&b.workspaces()[0]);
        for (host, made) in [(b, &second), (a, &made), (b, &second), (a, &made)] {
            host.workspace_ok(["snapshot", &made.handle]);
        }
        let files = a.git(["diff", "--name-only", "main", &made.branch]);
        let saved = |host: &Repo, file: &str| {
            host.rescues().iter().any(|name| host.git(["ls-tree", "-r", "--name-only", name]).contains(file))
        };
        if verb == "rollback" {
            assert_eq!(files, "", "{what}");
            assert!(saved(b, "one") && saved(a, "two"), "{what}");
        } else {
            assert_eq!(files, "one\ntwo", "{what}");
            assert!(a.rescues().is_empty() && b.rescues().is_empty(), "{what}");
        }
        assert_eq!(a.head(&made.branch), b.head(&second.branch), "{what}");
        assert_eq!(made.git(a, &["status", "--porcelain"]), "", "{what}");
        let count = |word: &str| words(a, field.run).iter().filter(|one| *one == word).count();
        assert_eq!(count("prepared"), 1, "{what}");
        assert_eq!(count("rolled_back"), usize::from(verb == "rollback"), "{what}");
        field.assert_agreed(&what);
    }
}
