//! The worktree after validators: as it was before.

use super::*;

/// Files and modes of the worktree, but for `.git`.
fn picture(room: &Room) -> Vec<(String, u32, Vec<u8>)> {
    use std::os::unix::fs::PermissionsExt;

    let mut all = Vec::new();
    for path in files_below(&room.made.path) {
        let found = path.symlink_metadata().expect("there");
        let content = match std::fs::read_link(&path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) => std::fs::read(&path).expect("read"),
        };
        let name = path.strip_prefix(&room.made.path).expect("below").display().to_string();
        if name != ".git" {
            all.push((name, found.permissions().mode() & 0o100, content));
        }
    }
    all.sort();
    all
}

/// A worktree with changes of an agent that no snapshot has: staged, unstaged, untracked and withheld ones.
fn room() -> Room {
    let repo = Repo::new();
    repo.write(".gitignore", "*.tmp\n");
    repo.write("a", "a\n");
    repo.write("b/c", "c\n");
    repo.command("run", "true");
    let room = Room::of(repo);
    room.sh("echo more >>a; echo s >staged; git add staged; echo u >untracked; echo KEY=1 >.env; mkdir .tnh; echo t >.tnh/t");
    room
}

/// CONTRACT 15.23, 20.20
#[test]
fn what_validators_change_is_taken_back() {
    let room = room();
    let (files, status, head) = (picture(&room), room.status(), room.repo.head(&room.made.branch));
    for script in [
        "echo x >>a; rm b/c; rmdir b; echo new >new; mkdir -p deep/er; echo d >deep/er/d",
        "chmod -x run; chmod +x a; ln -sf run b/c; rm .env untracked staged",
        "git add -A; echo x >a; git rm -qf --cached b/c",
        "rm -rf a; mkdir a; echo x >a/x; mv b z",
        "echo '*' >.gitignore; echo hidden >hidden; mkdir h; echo h >h/h",
        "printf '\\000\\001' >binary; git update-index --assume-unchanged a; echo y >a",
        "git stash -q -u",
        "rm untracked; touch a",
        "git config core.bare false; git reset -q --hard; git clean -qfdx",
    ] {
        let (validated, evidence) = room.validate("[lint]", |setting| setting.line("lint", script));
        assert_ended(&validated, Outcome::Completed);
        assert_eq!(picture(&room), files, "{script}");
        assert_eq!(room.status(), status, "{script}");
        assert_eq!(room.repo.head(&room.made.branch), head, "{script}");
        let patch = evidence.join("harness_fixture-taken-back.patch");
        let report = report(&evidence);
        assert_eq!(report["taken_back_count"] != 0, patch.exists(), "{script}");
        if script.contains("touch a") {
            assert_eq!(report["taken_back"][0], "untracked");
        }
    }
    let (_, evidence) = room.validate("[lint]", |setting| setting.line("lint", "echo i >i.tmp; true"));
    assert!(!evidence.join("harness_fixture-taken-back.patch").exists());
    assert_eq!(room.status(), format!("{status}\n!! i.tmp"));
}

/// CONTRACT 15.23
#[test]
fn the_patch_makes_what_was_taken_back() {
    let room = room();
    let script = "echo x >>a; rm b/c; printf '\\000\\001' >binary; chmod +x a";
    let (_, evidence) = room.validate("[lint]", |setting| setting.line("lint", script));
    let patch = evidence.join("harness_fixture-taken-back.patch");
    room.made.git(&room.repo, &["apply", patch.to_str().expect("UTF-8")]);
    assert_eq!(std::fs::read(room.made.path.join("binary")).expect("there"), [0, 1]);
    assert!(!room.made.path.join("b/c").exists());
}

/// CONTRACT 15.23
#[test]
fn a_worktree_that_was_moved_in_history_is_made_anew() {
    let commit = "git -c user.name=V -c user.email=v@w commit -qm v";
    for script in [
        format!("echo v >v; git add v; {commit}"),
        format!("git switch -qc other; echo v >v; git add v; {commit}"),
        "git checkout -q --detach; rm a".to_owned(),
        format!("git init -q sub; cd sub; echo v >v; git add v; {commit}"),
        "rm .git".to_owned(),
        format!(
            "git stash -q -u; git switch -qc side; echo s >a; {commit} -a; git switch -q -; echo m >a; {commit} -a; git merge -q side || true"
        ),
    ] {
        let room = room();
        let (files, head) = (picture(&room), room.repo.head(&room.made.branch));
        let (validated, evidence) = room.validate("[lint]", |setting| setting.line("lint", &script));
        assert_ended(&validated, Outcome::Completed);
        let now = picture(&room);
        assert_eq!(now, files, "{script}");
        assert_eq!(room.repo.head(&room.made.branch), head, "{script}");
        assert_eq!(
            room.made.git(&room.repo, &["symbolic-ref", "--short", "HEAD"]),
            room.made.branch,
            "{script}"
        );
        assert!(report(&evidence)["taken_back_more"].is_string(), "{script}");
        room.repo.workspace_ok(["snapshot", &room.made.slug]);
    }
}

/// CONTRACT 15.23
#[test]
fn commits_of_others_are_no_change_of_a_validator() {
    let room = room();
    let script = format!(
        "cd '{}'; git -c user.name=P -c user.email=p@q commit -q --allow-empty -m theirs; \
         git update-ref refs/heads/'{}' HEAD",
        room.repo.path.display(),
        room.made.branch
    );
    let files = picture(&room);
    let (validated, evidence) = room.validate("[lint]", |setting| setting.line("lint", &script));
    assert_ended(&validated, Outcome::Completed);
    assert_eq!(picture(&room), files);
    assert_eq!(report(&evidence)["taken_back_more"], serde_json::Value::Null);
    assert_eq!(room.repo.head(&room.made.branch), room.repo.head("main"));
}

/// CONTRACT 15.24
#[test]
fn files_of_a_run_are_in_no_snapshot() {
    let repo = Repo::new();
    repo.write(".tnh/config", "of the base\n");
    let room = Room::of(repo);
    room.sh("mkdir -p .tnh/run deep/.tnh; echo h >.tnh/run/h.py; echo d >deep/.tnh/d; echo c >.tnh/config; echo {} >harness_report.json; echo w >work");
    room.repo.workspace_ok(["snapshot", &room.made.slug]);
    let tracked = room.made.git(&room.repo, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(tracked, ".tnh/config\nREADME\ndeep/.tnh/d\nwork");
    assert_eq!(room.made.git(&room.repo, &["show", "HEAD:.tnh/config"]), "c");
    assert_eq!(room.status(), "?? .tnh/run/\n?? harness_report.json");
    assert!(out(&room.repo.workspace_ok(["snapshot", &room.made.slug])).contains("nothing to commit"));
}
