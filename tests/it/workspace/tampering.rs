//! What was changed outside of a workspace is named, with the command that undoes it. A script plays the agent.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use serde_json::Value;

use super::super::support::*;
use super::Made;
use super::rollback::field;

impl Made {
    /// A script of the agent, under its own identity.
    fn agent(&self, repo: &Repo, script: &str) {
        let email = format!("fix+{}@workspace.aynig.invalid", self.slug);
        let mut command = Command::new("/bin/sh");
        hermetic(&mut command).current_dir(&self.path).args(["-euc", script]).env("REPO", &repo.path);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "fix").env(format!("GIT_{who}_EMAIL"), &email);
        }
        let output = command.output().expect("a shell");
        assert!(output.status.success(), "{script}: {}{}", out(&output), err(&output));
    }
}

/// The violations and other changes of a snapshot: thing, name, how and command.
fn found(output: &std::process::Output, field: &str) -> Vec<[String; 4]> {
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = value["done"][field].as_array().expect("a list").clone();
    let text = |one: &Value, field: &str| one[field].as_str().expect(field).to_owned();
    all.iter().map(|one| ["thing", "name", "how", "undo"].map(|field| text(one, field))).collect()
}

/// A repository with a hook and two protected branches, and a workspace.
fn guarded() -> (Repo, Made) {
    let (repo, made, _) = field();
    repo.git(["branch", "release/1"]);
    fs::write(repo.path.join(".git/hooks/pre-push"), "#!/bin/sh\n# mine\n").expect("written");
    repo.workspace_ok(["snapshot", "--accept", &made.slug]);
    (repo, made)
}

/// All that is guarded, as it is.
fn outside(repo: &Repo) -> (String, Vec<(std::path::PathBuf, Vec<u8>)>) {
    let hooks = files_below(&repo.path.join(".git/hooks"));
    let hooks = hooks.into_iter().map(|file| (file.clone(), fs::read(&file).expect("readable"))).collect();
    (repo.git(["for-each-ref", "refs/heads/main", "refs/heads/release"]), hooks)
}

const COMMIT: &str = "c=$(git commit-tree -p main -m x main^{tree})";

/// CONTRACT 15.15
#[test]
fn what_the_agent_changed_outside_is_named_with_what_undoes_it() {
    for (script, wanted, how) in [
        ("printf evil >$REPO/.git/hooks/pre-push", "pre-push", "changed"),
        ("rm $REPO/.git/hooks/pre-push", "pre-push", "removed"),
        ("ln -sf /bin/true $REPO/.git/hooks/pre-push", "pre-push", "changed"),
        ("printf evil >$REPO/.git/hooks/post-checkout", "post-checkout", "added"),
        ("chmod 777 $REPO/.git/hooks/pre-push", "pre-push", "changed"),
        ("COMMIT; git update-ref refs/heads/main $c", "refs/heads/main", "changed"),
        ("COMMIT; git push -q . $c:release/1", "refs/heads/release/1", "changed"),
        ("git update-ref refs/heads/main main^", "refs/heads/main", "rewound"),
        ("git branch -f release/2", "refs/heads/release/2", "added"),
        ("COMMIT; rm -r $REPO/.git/logs; echo $c >$REPO/.git/refs/heads/main", "refs/heads/main", "changed"),
    ] {
        let (repo, made) = guarded();
        let before = outside(&repo);
        made.agent(&repo, &format!("echo work >>b; {}", script.replace("COMMIT", COMMIT)));
        for time in ["first", "second"] {
            // It is named until it is undone.
            let output = repo.workspace(["snapshot", &made.slug, "--json"]);
            assert_eq!(output.status.code(), Some(1), "{script}: {}", err(&output));
            let [[_, name, done, undo]] = &found(&output, "violations")[..] else {
                panic!("{script}: {}", out(&output))
            };
            assert!(name.ends_with(wanted) && done == how, "{script}, {time}: {name} {done}");
            assert!(err(&repo.workspace(["snapshot", &made.slug])).contains(undo), "{script}");
        }
        assert_eq!(repo.git(["show", &format!("{}:b", made.branch)]), "b\nwork", "{script}");
        let output = repo.workspace(["snapshot", &made.slug, "--json"]);
        let undo = found(&output, "violations")[0][3].clone();
        let run = repo.git_command().args(["-c", &format!("alias.undo=!{undo}"), "undo"]).output();
        assert!(run.expect("git runs").status.success(), "{script}: {undo}");
        assert_eq!(outside(&repo), before, "{script}: {undo}");
        repo.workspace_ok(["snapshot", &made.slug]);
    }
}

/// CONTRACT 15.15
#[test]
fn what_is_not_known_to_be_of_the_agent_is_no_violation() {
    for (script, name, how) in [
        ("git branch -qD release/1", "refs/heads/release/1", "removed"),
        ("git branch -qf x main", "refs/heads/x", "added"),
        ("git -c user.name=P -c user.email=p@q commit -q --allow-empty -m p", "refs/heads/main", "changed"),
        ("git -c user.name=P -c user.email=p@q merge -q BRANCH", "refs/heads/main", "changed"),
    ] {
        let (repo, made) = guarded();
        made.agent(&repo, "echo work >>b; git commit -qam work");
        let mut command = Command::new("/bin/sh");
        let script = script.replace("BRANCH", &made.branch);
        let ran = hermetic(&mut command).current_dir(&repo.path).args(["-euc", &script]).output();
        assert!(ran.expect("a shell").status.success(), "{script}");
        let output = repo.workspace_ok(["snapshot", &made.slug, "--json"]);
        assert_eq!(found(&output, "violations"), [[""; 4]; 0], "{script}");
        let [[_, changed, done, _]] = &found(&output, "changes")[..] else {
            panic!("{script}: {}", out(&output))
        };
        assert_eq!((changed.as_str(), done.as_str()), (name, how), "{script}");
        // Once.
        let output = repo.workspace_ok(["snapshot", &made.slug, "--json"]);
        assert_eq!(found(&output, "changes"), [[""; 4]; 0], "{script}");
    }
}

/// CONTRACT 15.15
#[test]
fn no_command_that_drops_somebodys_commit_is_shown() {
    let (repo, made) = guarded();
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "of the operator"]);
    let said = err(&repo.workspace_ok(["snapshot", &made.slug]));
    assert!(said.contains("refs/heads/main was changed since the last snapshot, and not under"), "{said}");
    assert!(!said.contains("update-ref"), "{said}");
}

/// CONTRACT 15.15
#[test]
fn which_branches_are_protected_is_set() {
    let (repo, made) = guarded();
    repo.git(["config", "aynig.protectedBranches", "x/*"]);
    made.agent(&repo, &format!("{COMMIT}; git update-ref refs/heads/main $c; git branch -f x/y"));
    let output = repo.workspace(["snapshot", &made.slug, "--json"]);
    let violations = found(&output, "violations");
    assert_eq!(violations.iter().map(|one| one[1].as_str()).collect::<Vec<_>>(), ["refs/heads/x/y"]);
    assert_eq!(found(&output, "changes")[0][1], "refs/heads/main");
    repo.workspace_ok(["snapshot", "--accept", &made.slug]);
    repo.workspace_ok(["snapshot", &made.slug]);
}

/// CONTRACT 15.15
#[cfg(debug_assertions)]
#[test]
fn a_snapshot_that_is_killed_forgets_no_violation() {
    for point in ["snapshot-written", "snapshot-moved"] {
        let (repo, made) = guarded();
        made.agent(&repo, &format!("echo x >>b; {COMMIT}; git update-ref refs/heads/main $c"));
        let mut command = repo.workspace_command();
        let killed = command.args(["snapshot", &made.slug]).env("AYNIG_CRASH_AT", point).output();
        assert_eq!(killed.expect("aynig runs").status.code(), None, "{point}");
        let output = repo.workspace(["snapshot", &made.slug, "--json"]);
        assert_eq!(found(&output, "violations").len(), 1, "{point}");
    }
}

/// CONTRACT 15.12, 15.15
#[test]
fn a_setting_gets_the_value_that_it_had() {
    let repo = Repo::new();
    repo.git(["config", "filter.x.clean", "tr 'a' b # it's"]);
    repo.git(["config", "filter.x.smudge", "cat"]);
    let made = repo.made("fix");
    made.sh(&repo, "echo '* filter=x' >.gitattributes; echo a >y; git config filter.x.clean 'tr a c'");
    let undo = |output: &std::process::Output| {
        let words = err(output);
        words
            .split('`')
            .find(|part| part.starts_with("git config --file"))
            .map(str::to_owned)
            .unwrap_or_else(|| panic!("{words}"))
    };
    let refused = repo.workspace(["snapshot", &made.slug]);
    assert_refused(&refused, 1, &["filter.x.clean", "nothing was changed", "--accept"]);
    made.sh(&repo, &undo(&refused));
    assert_eq!(repo.git(["config", "--get-all", "filter.x.clean"]), "tr 'a' b # it's");
    repo.workspace_ok(["snapshot", &made.slug]);
    // One that was removed runs nothing, and is named after the snapshot.
    made.sh(&repo, "git config --unset filter.x.smudge");
    let output = repo.workspace(["snapshot", &made.slug, "--json"]);
    let [[thing, name, how, undo]] = &found(&output, "violations")[..] else { panic!("{}", out(&output)) };
    assert_eq!((thing.as_str(), name.as_str(), how.as_str()), ("setting", "filter.x.smudge", "removed"));
    made.sh(&repo, undo);
    repo.workspace_ok(["snapshot", &made.slug]);
    // The operator's own change is accepted.
    repo.git(["config", "filter.x.clean", "tr a d"]);
    repo.workspace_ok(["snapshot", "--accept", &made.slug]);
    repo.workspace_ok(["snapshot", &made.slug]);
}

/// CONTRACT 15.16
#[test]
fn files_that_look_like_keys_are_left_out_and_named() {
    let (repo, made, _) = field();
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n";
    for (path, text) in
        [(".env", "A=b\n"), ("sub/deploy", key), ("cert.pem", "-----BEGIN CERTIFICATE-----\n"), ("c", "c\n")]
    {
        let file = made.path.join(path);
        fs::create_dir_all(file.parent().expect("above")).expect("made");
        fs::write(file, text).expect("written");
    }
    made.sh(&repo, "git add .env");
    for time in ["first", "second"] {
        let output = repo.workspace_ok(["snapshot", &made.slug, "--json"]);
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(value["done"]["withheld"], serde_json::json!([".env", "sub/deploy"]), "{time}");
        assert_eq!(value["done"]["snapshot"].is_string(), time == "first");
    }
    assert_eq!(repo.git(["diff", "--name-only", "main", &made.branch]), "c\ncert.pem");
    let copies = made.record(&repo).join("withheld");
    assert_eq!(fs::read_to_string(copies.join("sub/deploy")).expect("a copy"), key);
    assert!(made.path.join(".env").is_file());
    // A rollback saves them under a ref that stays here, and brings them back.
    repo.workspace_ok(["rollback", &made.slug]);
    assert!(!made.path.join(".env").exists());
    repo.workspace_ok(["rollback", "--undo", &made.slug]);
    assert!(made.path.join(".env").is_file());
    // What was committed on purpose belongs to the branch.
    made.sh(&repo, "git add -f .env; git -c user.name=A -c user.email=a@b commit -qm env; echo B=c >>.env");
    let output = repo.workspace_ok(["snapshot", &made.slug]);
    assert!(!err(&output).contains(".env"), "{}", err(&output));
    assert_eq!(repo.git(["show", &format!("{}:.env", made.branch)]), "A=b\nB=c");
}

/// CONTRACT 15.16
#[test]
fn keys_are_found_below_any_path() {
    let (repo, made, _) = field();
    made.sh(
        &repo,
        "d=$(printf 'caf\\351'); mkdir \"$d\"; echo S=1 >\"$d/.env\"; echo c >\"$d/c\"; \
         printf -- '-----BEGIN RSA PRIVATE KEY-----\\nabc\\n' >\"$(printf 'k\\351')\"",
    );
    let output = repo.workspace_ok(["snapshot", &made.slug, "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let named = serde_json::json!(["caf\u{fffd}/.env", "k\u{fffd}"]);
    assert_eq!(value["done"]["withheld"], named);
    assert_eq!(repo.git(["diff", "--name-only", "main", &made.branch]), r#""caf\351/c""#);
    let copy = made.record(&repo).join("withheld").join(OsStr::from_bytes(b"caf\xe9/.env"));
    assert_eq!(fs::read_to_string(copy).expect("a copy"), "S=1\n");
}

/// CONTRACT 15.7
#[test]
fn a_rollback_keeps_ignored_files_where_that_is_set() {
    let (repo, made, base) = field();
    repo.git(["config", "aynig.rollbackKeepIgnored", "true"]);
    made.sh(&repo, "echo x >>b; echo i >i.tmp");
    let output = repo.workspace_ok(["rollback", &made.slug, "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kept = std::path::Path::new(value["done"]["keptPath"].as_str().expect("a path")).to_owned();
    assert_eq!(fs::read_to_string(kept.join("i.tmp")).expect("kept"), "i\n");
    assert_eq!(repo.head(&made.branch), base);
    assert_eq!(made.git(&repo, &["status", "--porcelain", "--ignored"]), "");
    let listed = out(&repo.aynig_ok(["clean", "--workspaces"]));
    assert!(listed.contains("1 ignored file"), "{listed}");
    // Nothing is kept for nothing.
    made.sh(&repo, "echo x >>b");
    let output = repo.workspace_ok(["rollback", &made.slug, "--json"]);
    assert!(out(&output).contains("\"keptPath\":null"), "{}", out(&output));
}
