//! A workspace is made from a base commit, outside of every checkout, and the operator's is not touched.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::super::support::*;
use super::Made;

/// Every file of a checkout with its bytes, the index included.
fn bytes_of(repo: &Repo) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = files_below(&repo.path);
    files.retain(|file| !file.starts_with(repo.path.join(".git")) || file.ends_with(".git/index"));
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(&file).expect("readable"))).collect()
}

/// CONTRACT 15.1, 15.2, 15.3, 15.4
#[test]
fn a_workspace_is_a_branch_a_worktree_and_a_context() {
    let repo = Repo::new();
    let base = repo.head("main");
    repo.write("README", "dirty\n");
    repo.write("staged", "staged\n");
    repo.git(["add", "staged"]);
    repo.write("loose", "loose\n");
    let before = bytes_of(&repo);
    let output = repo.workspace_ok(["create", "fix", "--json"]);
    assert_eq!(bytes_of(&repo), before, "the operator's checkout is not touched");
    let made = Made::of(&repo.answered(&out(&output))[0]);
    // The file is in a directory that only its owner reads.
    let file = made.record(&repo).join("workspace-context.json");
    let context: Value = serde_json::from_slice(&fs::read(&file).expect("a context")).expect("JSON");
    assert_eq!(context["version"], 1);
    assert_eq!(context["worktree_path"].as_str(), made.path.to_str());
    assert_eq!(context["run_id"].as_str(), Some(&*made.run));
    for (field, wanted) in [
        ("repo_root", repo.path.to_str().expect("UTF-8")),
        ("base_ref", "refs/heads/main"),
        ("base_sha", &base),
        ("head_sha", &base),
        ("state", "ready"),
        ("host", "test-host"),
        ("name", "fix"),
    ] {
        assert_eq!(context[field].as_str(), Some(wanted), "{field}: {context}");
    }
    assert_eq!(context["generation"], 1);
    assert!(context["remote_branch"].is_null() && context["pr_url"].is_null());
    let id = made.run.replace('-', "");
    assert!(id.starts_with(&made.slug) && made.slug.len() == 8);
    assert_eq!(made.branch, format!("work/{}/fix", made.slug));
    assert_eq!(repo.head(&made.branch), base);
    let state = repo.beside("state").join("aynig");
    assert!(made.path.starts_with(&state) && made.path.ends_with(format!("{}/fix", made.slug)));
    assert_eq!(fs::read_to_string(made.path.join("README")).expect("filled"), "a repository for a test\n");
    let inside = |arguments: &[&str]| {
        let output = repo.git_command().arg("-C").arg(&made.path).args(arguments).output().expect("git runs");
        assert!(output.status.success(), "{}", err(&output));
        out(&output).trim_end().to_owned()
    };
    assert_eq!(inside(&["status", "--porcelain", "--ignored"]), "");
    assert_eq!(inside(&["symbolic-ref", "HEAD"]), format!("refs/heads/{}", made.branch));
    let list = repo.git(["worktree", "list", "--porcelain"]);
    assert!(
        list.contains(&format!("locked aynig workspace of run {} branch {}", made.run, made.branch)),
        "{list}"
    );
    for directory in [repo.runs(), made.record(&repo), made.path.parent().expect("above").to_owned()] {
        let mode = fs::metadata(&directory).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", directory.display());
    }
    // The runner takes no notice.
    assert!(repo.aynig_ok(["run"]).stdout.is_empty());
    assert_eq!(repo.head(&made.branch), base);
}

/// CONTRACT 15.5
#[test]
fn it_is_found_by_slug_id_name_branch_and_path() {
    let repo = Repo::new();
    let (one, two) = (repo.made("fix"), repo.made("fix"));
    let deep = one.path.join("README");
    for named in [
        one.slug.as_str(),
        &one.slug[..6],
        &one.run,
        &one.handle,
        &one.branch,
        &format!("refs/heads/{}", one.branch),
        one.path.to_str().expect("UTF-8"),
        deep.to_str().expect("UTF-8"),
    ] {
        let path = out(&repo.workspace_ok(["path", named]));
        assert_eq!(path.trim_end(), one.path.to_str().expect("UTF-8"), "{named}");
    }
    let shown = out(&repo.workspace_ok(["show", &two.handle]));
    assert!(shown.contains(&two.branch) && shown.contains("ready"), "{shown}");
    for wrong in ["nothing", ".", "../..", "abc", "/", "work/", "main"] {
        assert_refused(&repo.workspace(["show", wrong]), 1, &["no workspace", "aynig workspace list"]);
    }
    assert_refused(&repo.workspace(["show", "fix"]), 2, &[&one.handle, &two.handle]);
    let other = repo.made("other");
    assert!(out(&repo.workspace_ok(["show", "other"])).contains(&other.branch));
    for named in [".", "./README", "../fix/README"] {
        let mut inside = repo.aynig_command();
        let output =
            inside.current_dir(&one.path).args(["workspace", "path", named]).output().expect("it runs");
        assert_eq!(out(&output).trim_end(), one.path.to_str().expect("UTF-8"), "{named}");
    }
    assert_eq!(repo.workspaces().len(), 3);
}

/// CONTRACT 15.4
#[test]
fn a_base_that_is_unclear_is_refused_before_anything_changes() {
    let repo = Repo::new();
    repo.git(["tag", "both"]);
    repo.git(["branch", "both"]);
    let blob = repo.git(["rev-parse", "main:README"]);
    let refs = repo.git(["for-each-ref"]);
    for (base, words) in [
        ("nowhere", "no commit"),
        ("both", "refs/tags/both or refs/heads/both"),
        ("--all", "no name"),
        ("-x", "no name"),
        ("", "no name"),
        ("main^7", "no commit"),
        ("main:README", "no commit"),
        (blob.as_str(), "no commit"),
        ("a\nb", "no name"),
    ] {
        assert_refused(
            &repo.workspace(["create", "fix", "--base", base]),
            2,
            &["--base", words, "nothing was changed"],
        );
    }
    for name in ["", "..", "a/b", "-x", "x.lock", "x.kept-1"] {
        assert_refused(&repo.workspace(["create", name]), 2, &["not a legal name"]);
    }
    assert_eq!(repo.git(["for-each-ref"]), refs);
    assert!(!repo.runs().exists() && !repo.beside("state").exists());
    // Full names, tags and expressions are clear.
    let first = repo.head("main");
    repo.git(["tag", "--annotate", "--message=m", "v1"]);
    repo.commit_all("second");
    for (base, full) in [
        ("refs/heads/both", "refs/heads/both"),
        ("v1", "refs/tags/v1"),
        ("main~1", first.as_str()),
        (&first[..12], &first),
    ] {
        let answer = repo.workspace_ok(["create", "x", "--base", base, "--json"]);
        let context = &repo.answered(&out(&answer))[0];
        assert_eq!(
            (context["baseRef"].as_str(), context["baseSha"].as_str()),
            (Some(full), Some(&*first)),
            "{base}"
        );
    }
}

/// CONTRACT 15.2
#[test]
fn a_place_inside_a_checkout_or_beside_runs_is_refused() {
    let repo = Repo::new();
    let other = Repo::new();
    repo.git(["worktree", "add", "--quiet", "../linked", "-b", "side"]);
    let link = repo.beside("link");
    std::os::unix::fs::symlink(&repo.path, &link).expect("a link");
    let data = repo.beside("data");
    repo.git(["config", "aynig.dataDir", data.to_str().expect("UTF-8")]);
    let refs = repo.git(["for-each-ref"]);
    let file = repo.beside("file");
    fs::write(&file, "").expect("a file");
    for place in [
        repo.path.join("w"),
        repo.path.join(".git/w"),
        repo.beside("linked").join("a/b"),
        link.join("w"),
        other.path.join("w"),
        data.join("runs"),
        data.join("runs/w"),
        data.clone(),
        file.clone(),
        file.join("w"),
    ] {
        repo.git(["config", "aynig.workspaceRoot", place.to_str().expect("UTF-8")]);
        let output = repo.workspace(["create", "fix"]);
        assert_refused(&output, 3, &["cannot be at", "aynig.workspaceRoot", "nothing was changed"]);
    }
    repo.git(["config", "aynig.workspaceRoot", "relative"]);
    assert_refused(&repo.workspace(["create", "fix"]), 3, &["no absolute path", "aynig.workspaceRoot"]);
    assert_eq!(repo.git(["for-each-ref"]), refs);
    let place = repo.beside("other");
    repo.git(["config", "aynig.workspaceRoot", place.to_str().expect("UTF-8")]);
    assert!(repo.made("fix").path.starts_with(&place));
}

/// CONTRACT 15.1
#[test]
fn a_branch_of_a_person_in_the_way_is_named() {
    let repo = Repo::new();
    repo.git(["branch", "work"]);
    let output = repo.workspace(["create", "fix"]);
    assert_refused(&output, 3, &["a branch work", "git branch --move work NAME", "aynig.workPrefix"]);
    repo.git(["config", "aynig.workPrefix", "jobs/"]);
    assert!(repo.made("fix").branch.starts_with("jobs/"));
}

/// CONTRACT 15.2
#[test]
fn ignored_files_and_setup_make_it_ready() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.env\nlog\n");
    repo.write(".worktreeinclude", "*.env\n");
    repo.commit_all("ignores");
    repo.write("local.env", "secret\n");
    repo.write("log", "not listed\n");
    repo.git(["config", "aynig.setup", "echo told; cat local.env >made.env"]);
    let made = repo.made("fix");
    assert_eq!(fs::read_to_string(made.path.join("made.env")).expect("set up"), "secret\n");
    assert!(!made.path.join("log").exists());
    // A setup that fails leaves nothing behind.
    repo.git(["config", "aynig.setup", "echo why >&2; exit 3"]);
    let refs = repo.git(["for-each-ref"]);
    let output = repo.workspace(["create", "again"]);
    assert_refused(&output, 1, &["aynig.setup", "3", "nothing of it is left"]);
    assert_eq!(repo.git(["for-each-ref"]), refs);
    assert_eq!((repo.workspaces().len(), repo.worktrees().len()), (1, 1));
}

/// CONTRACT 15.4
#[test]
fn two_at_once_get_a_workspace_each() {
    let repo = Repo::new();
    let start = || {
        let mut command = repo.workspace_command();
        command.args(["create", "fix", "--json"]).stdout(std::process::Stdio::piped());
        Running::start(command.stderr(std::process::Stdio::piped()))
    };
    let both: Vec<Running> = (0..4).map(|_| start()).collect();
    for running in both {
        let output = running.finish();
        assert!(output.status.success(), "{}", err(&output));
    }
    let found = repo.workspaces();
    assert_eq!((found.len(), repo.worktrees().len()), (4, 4));
    for context in &found {
        let made = Made::of(context);
        assert_eq!(context["state"], "ready");
        assert!(made.path.join("README").is_file() && !repo.head(&made.branch).is_empty());
    }
}

/// CONTRACT 15.3
#[test]
fn a_hostile_context_is_reported_and_its_path_not_used() {
    let repo = Repo::new();
    let made = repo.made("fix");
    let file = made.record(&repo).join("workspace-context.json");
    let good: Value = serde_json::from_slice(&fs::read(&file).expect("a context")).expect("JSON");
    let victim = repo.beside("victim").join(&made.handle);
    fs::create_dir_all(&victim).expect("a directory");
    for (field, value) in [
        ("version", Value::from(2)),
        ("name", "../../..".into()),
        ("worktree_path", repo.path.to_str().expect("UTF-8").into()),
        ("branch_name", "main".into()),
        ("host", "\u{1b}[2J".into()),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        fs::write(&file, bad.to_string()).expect("written");
        let list = repo.workspace_ok(["list", "--json"]);
        let list: Value = serde_json::from_str(&out(&list)).expect("JSON");
        assert_eq!(list["workspaces"].as_array().map(Vec::len), Some(0), "{field}");
        assert_eq!(list["damaged"][0]["file"].as_str(), file.to_str(), "{field}");
        assert!(!err(&repo.workspace_ok(["list"])).contains('\u{1b}'));
        assert_refused(&repo.workspace(["path", &made.slug]), 1, &["no workspace", "cannot be used"]);
    }
    for text in [&b"{"[..], b"", &[b' '; 70_000]] {
        fs::write(&file, text).expect("written");
        assert!(err(&repo.workspace_ok(["list"])).contains("cannot be used"));
    }
    // One that is half-made is not undone at a place that is not its own.
    let mut bad = good;
    bad["worktree_path"] = victim.to_str().expect("UTF-8").into();
    bad["state"] = "preparing".into();
    fs::write(&file, bad.to_string()).expect("written");
    let output = repo.workspace_ok(["create", "other"]);
    assert!(err(&output).contains("which is not the worktree of"), "{}", err(&output));
    assert!(victim.is_dir() && made.path.join("README").is_file());
}
