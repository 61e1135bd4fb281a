//! `aynig clean` removes only what is proven ours, finished and saved. Everything else stays, with a reason.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::*;

const ATTEMPT: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

impl Repo {
    /// A worktree at `commit`, registered as for an attempt whose runner is gone.
    fn left_worktree(&self, name: &str, reason: &str, commit: &str) -> PathBuf {
        let path = self.path.join(".worktrees").join(name);
        let text = path.display().to_string();
        self.git(["worktree", "add", "--quiet", "--detach", "--lock", "--reason", reason, &text, commit]);
        path
    }

    fn made_by(&self, branch: &str) -> PathBuf {
        self.left_worktree(branch, &format!("aynig attempt {ATTEMPT} branch {branch}"), branch)
    }

    /// A rescue ref to a commit of an hour ago on `base` that writes `files`.
    fn rescued(&self, branch: &str, attempt: &str, base: &str, files: &[(&str, &str)]) -> String {
        let commit = self.commit_files(base, files, "rescue: unfinished work");
        let name = format!("refs/aynig/rescue/{branch}/{attempt}");
        self.git(["update-ref", &name, &commit]);
        name
    }

    /// The output of the first command in an advice, run exactly as printed.
    fn typed_first(&self, advice: &str) -> String {
        let line = advice.split('`').nth(1).expect("a command");
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", line]).current_dir(&self.path).output().expect("it is there");
        assert!(output.status.success(), "{line}: {}", err(&output));
        out(&output)
    }

    /// A commit on `base`, one hour old, with these files. Moves no ref.
    fn commit_files(&self, base: &str, files: &[(&str, &str)], message: &str) -> String {
        let index = self.beside("index");
        fs::remove_file(&index).ok();
        let git = |arguments: &[&str]| {
            let mut command = self.git_command();
            let date = format!("{} +0000", now() - 3_600);
            command.env("GIT_INDEX_FILE", &index).env("GIT_COMMITTER_DATE", date);
            let output = command.args(arguments).output().expect("it is there");
            assert!(output.status.success(), "{arguments:?}: {}", err(&output));
            out(&output).trim().to_owned()
        };
        git(&["read-tree", base]);
        for (path, text) in files {
            let blob = self.git_with_input(&["hash-object", "-w", "--stdin"], text.as_bytes());
            git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")]);
        }
        let tree = git(&["write-tree"]);
        git(&["commit-tree", "-p", base, "-m", message, &tree])
    }

    /// Runs `clean --json`, which must exit with 0.
    fn clean<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Value {
        json(&self.aynig_ok(["clean", "--json"].into_iter().chain(arguments)))
    }

    fn records(&self) -> Vec<PathBuf> {
        let mut found = files_below(&self.path.join(".git/aynig/attempts"));
        found.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        found
    }

    /// Makes all records of `branch` this many seconds older.
    fn age_records(&self, branch: &str, seconds: i64) {
        for path in self.records() {
            let mut record: Value =
                serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("it is there");
            if record["branch"] == branch {
                record["started"] = (record["started"].as_i64().expect("it is there") - seconds).into();
                fs::write(&path, record.to_string()).expect("it is there");
            }
        }
    }

    fn logs(&self) -> Vec<String> {
        let mut names: Vec<String> = files_below(&self.path.join(".aynig/logs"))
            .iter()
            .map(|path| path.file_name().expect("it is there").to_string_lossy().into_owned())
            .filter(|name| name != ".gitignore")
            .collect();
        names.sort();
        names
    }
}

/// The one item whose name contains `part`.
fn item<'a>(report: &'a Value, part: &str) -> &'a Value {
    let found: Vec<&Value> = report["items"]
        .as_array()
        .expect("it is there")
        .iter()
        .filter(|item| item["name"].as_str().expect("it is there").contains(part))
        .collect();
    assert_eq!(found.len(), 1, "{part}: {report:#}");
    found[0]
}

fn assert_stays(item: &Value, words: &str) {
    assert_eq!(item["fate"], "stays", "{item:#}");
    assert!(item["reason"].as_str().expect("it is there").contains(words), "{item:#}");
    assert!(!item["next"].as_str().expect("it is there").is_empty(), "{item:#}");
}

#[test]
fn nothing_to_do_is_said_and_fine() {
    let repo = Repo::new();
    let output = repo.aynig_ok(["clean"]);
    assert!(out(&output).contains("0 would be removed, 0 stay"), "{}", out(&output));
    let report = repo.clean(["--apply"]);
    assert_eq!(report["items"], serde_json::json!([]));
    assert_eq!(report["applied"], true);
    assert!(!repo.path.join(".git/aynig/sightings").exists());
}

#[test]
fn a_worktree_whose_attempt_is_over_is_saved_and_removed_only_when_asked() {
    let repo = Repo::new();
    repo.ready("work", "rest");
    let path = repo.made_by("work");
    fs::write(path.join("draft"), "an hour of work\n").unwrap();
    let report = repo.clean([]);
    let found = item(&report, "/work");
    assert_eq!(
        (&found["fate"], &found["kind"], &found["branch"]),
        (&"would go".into(), &"worktree".into(), &"work".into())
    );
    assert!(found["bytes"].as_u64().unwrap() > 0 && found["ageSeconds"].is_u64(), "{found:#}");
    assert!(report["bytesAfter"].as_u64() < report["bytesBefore"].as_u64(), "{report:#}");
    let told = out(&repo.aynig_ok(["clean"]));
    for words in [
        "would go",
        "worktree",
        "branch work",
        "old",
        "KiB",
        "is over",
        "1 would be removed",
        "--apply does it",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(path.join("draft").exists() && repo.rescues().is_empty(), "a preview changes nothing");

    let report = repo.clean(["--apply"]);
    assert_eq!(item(&report, "/work")["fate"], "removed");
    let rescue = repo.rescues().remove(0);
    assert_eq!(rescue, format!("refs/aynig/rescue/work/{ATTEMPT}"));
    assert!(item(&report, "/.worktrees/work")["reason"].as_str().unwrap().contains(&rescue), "{report:#}");
    assert_eq!(repo.git(["show", &format!("{rescue}:draft")]), "an hour of work");
    repo.assert_tidy();
    assert_stays(item(&repo.clean(["--apply"]), &rescue), "in no branch");
}

#[test]
fn old_commits_that_are_just_now_rescued_are_not_old_rescued_work() {
    let repo = Repo::new();
    repo.ready("work", "rest");
    let commit = repo.commit_files("work", &[("own", "o\n")], "an hour ago");
    repo.left_worktree("work", &format!("aynig attempt {ATTEMPT} branch work"), &commit);
    repo.clean(["--apply", "--older-than", "30m"]);
    assert_eq!(repo.head(&repo.rescues()[0]), commit);
    repo.assert_tidy();
}

#[test]
fn a_worktree_under_a_lease_stays_also_when_the_command_committed_on_top() {
    for committed in [false, true] {
        let repo = Repo::new();
        repo.ready("work", "build");
        let lease = repo.foreign_lease("work", ATTEMPT, "test-host", 300, 0);
        if committed {
            repo.branch_from("work", "work", b"the command's own commit\n");
        }
        let path = repo.left_worktree("work", &format!("aynig attempt {ATTEMPT} branch work"), &lease);
        assert_stays(item(&repo.clean(["--apply"]), "/work"), "under the lease");
        assert!(path.join("README").exists());
    }
}

#[test]
fn of_a_lease_that_ran_out_it_is_told_what_closes_it() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let lease = repo.foreign_lease("work", ATTEMPT, "test-host", 5, 60);
    let rescue = repo.rescued("work", ATTEMPT, "main", &[("mine", "m\n")]);
    let stays = |repo: &Repo, name: &str, next: &str| {
        let report = repo.clean([]);
        assert_stays(item(&report, name), "ran out");
        assert_eq!(item(&report, name)["next"], next, "{report:#}");
    };
    stays(&repo, &rescue, "aynig run --branch work");
    repo.git(["checkout", "--quiet", "work"]);
    stays(&repo, &rescue, "aynig run --branch work --current-branch include");
    repo.git(["checkout", "--quiet", "main"]);
    // When commits are on top of the lease, only the host that has the worktree closes it.
    let own = repo.commit_files("work", &[("own", "o\n")], "the command's own commit");
    repo.git(["update-ref", "refs/heads/work", &own]);
    stays(&repo, &rescue, "aynig set-state --retry --branch work");
    let path = repo.left_worktree("work", &format!("aynig attempt {ATTEMPT} branch work"), &lease);
    stays(&repo, &rescue, "aynig run --branch work");
    stays(&repo, "/.worktrees/work", "aynig run --branch work");
    repo.aynig_ok(["run", "--branch", "work"]);
    assert_eq!(repo.state("work"), "stalled");
    assert!(!path.exists());
    assert!(!repo.clean([]).to_string().contains("ran out"));

    // The lease of a branch of a remote.
    repo.git(["update-ref", "refs/heads/far", "main"]);
    repo.foreign_lease("far", ATTEMPT, "test-host", 5, 60);
    repo.git(["update-ref", "refs/aynig/remotes/origin/far", "far"]);
    repo.left_worktree("far", &format!("aynig attempt {ATTEMPT} branch far remote origin"), "far");
    stays(&repo, "/.worktrees/far", "aynig run --branch far --remote origin");
}

#[test]
fn a_runner_at_work_is_not_disturbed() {
    let repo =
        Repo::scene(&[("build", "echo hello; say started $$; await go; echo x >x; git add x; next done")]);
    repo.ready("work", "build");
    let runner = repo.aynig_start(["run"]);
    repo.said("started");
    let report = repo.clean(["--apply", "--older-than", "0s", "--keep", "0"]);
    assert_stays(item(&report, "/work"), "at work");
    assert_eq!(report["items"].as_array().unwrap().len(), 1, "the logs are kept: {report:#}");
    repo.release("go");
    assert!(runner.finish().status.success());
    assert_eq!(repo.state("work"), "done");
    assert!(out(&repo.aynig_ok(["logs", "--branch", "work"])).starts_with("hello\n"));
}

/// CONTRACT 9.2
#[test]
fn a_worktree_somebody_works_in_or_that_is_not_proven_ours_stays() {
    let repo = Repo::new();
    repo.ready("work", "rest");
    let path = repo.made_by("work");
    let mut sleeper = std::process::Command::new("sleep").arg("100").current_dir(&path).spawn().unwrap();
    let report = repo.clean(["--apply"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_stays(item(&report, "/work"), &format!("process {}", sleeper.id()));

    // A directory whose `.git` names another registration than the one that points at it.
    let link = fs::read_to_string(path.join(".git")).unwrap();
    repo.git(["worktree", "add", "--quiet", "--detach", "../other", "work"]);
    fs::copy(repo.beside("other").join(".git"), path.join(".git")).unwrap();
    let report = repo.clean(["--apply"]);
    assert_stays(item(&report, "/work"), "does not name the registration");
    assert_eq!(
        report["items"].as_array().unwrap().len(),
        1,
        "a person's worktree is not mentioned: {report:#}"
    );
    assert!(repo.beside("other/README").exists() && path.join("README").exists());

    fs::write(path.join(".git"), link).unwrap();
    assert_eq!(item(&repo.clean(["--apply"]), "/work")["fate"], "removed");
}

#[test]
fn a_worktree_of_a_remotes_branch_stays_until_the_remote_says_that_it_is_over() {
    let repo = Repo::new();
    repo.git(["clone", "--quiet", "--bare", ".", "../origin.git"]);
    repo.git(["remote", "add", "origin", "../origin.git"]);
    repo.ready("work", "rest");
    repo.git(["update-ref", "refs/aynig/remotes/origin/work", "work"]);
    let path =
        repo.left_worktree("work", &format!("aynig attempt {ATTEMPT} branch work remote origin"), "work");
    assert_stays(item(&repo.clean(["--apply"]), "/work"), "does not say");
    repo.git(["update-ref", "-d", "refs/aynig/remotes/origin/work"]);
    assert_eq!(item(&repo.clean(["--apply"]), "/work")["fate"], "removed", "fetched, and gone there");
    assert!(!path.exists());
}

#[test]
fn a_kept_worktree_goes_once_all_it_holds_is_elsewhere() {
    let script = "mkdir inner && cd inner && git init -q && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m own; \
                  cd ..; echo 'SET_STATE {\"state\":\"done\"}'";
    let repo = Repo::with_commands(&[("build", script)]);
    repo.ready("work", "build");
    repo.aynig(["run"]);
    let path = PathBuf::from(repo.worktrees().remove(0));
    repo.age_records("work", 10);
    let report = repo.clean(["--apply", "--older-than", "1s", "--keep", "0"]);
    assert_stays(item(&report, "/work"), "holds other repositories");
    assert!(item(&report, "/work")["next"].as_str().unwrap().contains("git worktree remove --force --force"));

    fs::remove_dir_all(path.join("inner")).unwrap();
    fs::write(path.join("found"), "by a person\n").unwrap();
    assert_stays(item(&repo.clean(["--apply"]), "/work"), "in no branch and under no rescue ref");
    assert!(path.join("found").exists());

    let commit = repo.commit_files("work", &[("found", "by a person\n")], "take it");
    repo.git(["update-ref", "refs/heads/work", &commit]);
    assert_eq!(item(&repo.clean([]), "/work")["fate"], "would go");
    assert_eq!(item(&repo.clean(["--apply"]), "/work")["fate"], "removed");
    repo.assert_tidy();
}

#[test]
fn rescued_work_that_is_in_a_branch_goes() {
    let repo = Repo::new();
    // A person's diff settings do not affect the comparison.
    for setting in ["diff.noprefix", "diff.mnemonicPrefix", "log.showSignature"] {
        repo.git(["config", setting, "true"]);
    }
    let start = repo.head("main");
    repo.write("list", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    repo.commit_all("a list");
    repo.ready("work", "rest");
    let reached = repo.rescued("other", "reached", "main", &[("r", "r\n")]);
    repo.git(["update-ref", "refs/heads/elsewhere", &reached]);
    // On main as different commits, with changes beside it, so that only the patch id matches.
    let same = repo.rescued("gone", "same", "main", &[("dir/same", "same\n")]);
    let squashed = repo.rescued("gone", "squashed", "main", &[("list", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")]);
    let own = repo.rescued("work", "own", "work", &[("mine", "m\n")]);
    let lost = repo.rescued("gone", "lost", "main", &[("lost", "l\n")]);
    let blank = repo.rescued("gone", "blank", "main", &[("list", "1\n2\n3\n4\n5\n6\n7\n8\n nine\n")]);
    let empty = repo.rescued("gone", "empty", &start, &[]);
    repo.git(["update-ref", "refs/heads/work", &repo.commit_files("work", &[("mine", "m\n")], "mine")]);
    repo.write("dir/same", "same\n");
    repo.write("list", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    repo.commit_all("squash");
    repo.write("list", "ONE\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
    repo.commit_all("further");
    repo.git(["pack-refs", "--all"]);

    let expect = |report: &Value, fate: &str| {
        assert_eq!(report["items"].as_array().unwrap().len(), 7, "{report:#}");
        for (name, words) in [
            (&reached, "its commit is in elsewhere"),
            (&same, "has all files"),
            (&squashed, "squash merge"),
            (&own, "its work is in work"),
        ] {
            let found = item(report, name);
            assert_eq!(found["fate"], fate, "{found:#}");
            assert!(found["reason"].as_str().unwrap().contains(words), "{found:#}");
            assert!(found["ageSeconds"].as_u64().unwrap() >= 3_600, "{found:#}");
        }
        for name in [&lost, &blank, &empty] {
            assert_stays(item(report, name), "in no branch");
        }
    };
    expect(&repo.clean([]), "would go");
    assert_eq!(repo.rescues().len(), 7);
    expect(&repo.clean(["--apply"]), "removed");
    let mut left = vec![lost.clone(), blank, empty];
    left.sort();
    assert_eq!(repo.rescues(), left);

    assert_stays(item(&repo.clean(["--apply", "--older-than", "2h"]), &lost), "in no branch");
    let report = repo.clean(["--apply", "--older-than", "30m"]);
    assert!(item(&report, &lost)["reason"].as_str().unwrap().contains("brings it back"), "{report:#}");
    assert_eq!(repo.rescues(), Vec::<String>::new());
    repo.assert_tidy();
}

#[test]
fn how_rescued_work_is_taken_depends_on_whether_there_is_a_checkout() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let name = repo.rescued("work", "lost", "main", &[("file", "lost\n")]);
    let next = |repo: &Repo| item(&repo.clean([]), &name)["next"].as_str().expect("what to type").to_owned();
    let told = next(&repo);
    assert!(told.contains(&format!("`git merge --squash {name}`")), "{told}");
    repo.git(["clone", "--quiet", "--mirror", ".", "../bare.git"]);
    let bare = Repo { path: repo.beside("bare.git"), room: repo.room };
    let told = next(&bare);
    assert!(told.contains(&format!("`git branch NAME {name}`")) && !told.contains("squash"), "{told}");
    bare.git(["branch", "mine", &name]);
    assert_eq!(bare.git(["show", "mine:file"]), "lost");
}

#[test]
fn what_was_staged_beside_rescued_work_counts_as_well() {
    let repo = Repo::new();
    let staged = repo.commit_files("main", &[("file", "staged\n")], "rescue: what was staged on work");
    let work = repo.commit_files("main", &[("file", "final\n")], "rescue: unfinished work");
    let tree = format!("{work}^{{tree}}");
    let both = repo.git(["commit-tree", "-p", "main", "-p", &staged, "-m", "rescue: unfinished work", &tree]);
    repo.git(["update-ref", "refs/aynig/rescue/work/both", &both]);
    repo.write("file", "final\n");
    repo.commit_all("final");
    let report = repo.clean(["--apply"]);
    assert_stays(item(&report, "both"), "in no branch");
    // The suggested command shows the final work, not only the staged half.
    let shown = repo.typed_first(item(&report, "both")["next"].as_str().unwrap());
    assert!(shown.contains("+final"), "{shown}");
    repo.git(["reset", "--quiet", "--hard", "main~1"]);
    repo.git(["merge", "--quiet", "--ff-only", &staged]);
    repo.write("file", "final\n");
    repo.commit_all("final");
    assert_eq!(item(&repo.clean(["--apply"]), "both")["fate"], "removed");
}

#[test]
fn rescued_work_is_shown_with_the_commits_below_it_that_no_branch_has() {
    let repo = Repo::new();
    let own = repo.commit_files("main", &[("own", "committed\n")], "the command's own");
    repo.rescued("work", "several", &own, &[("loose", "unfinished\n")]);
    let shown = repo.typed_first(item(&repo.clean([]), "several")["next"].as_str().unwrap());
    assert!(shown.contains("+committed") && shown.contains("+unfinished"), "{shown}");
    repo.git(["branch", "mine", &own]);
    let shown = repo.typed_first(item(&repo.clean([]), "several")["next"].as_str().unwrap());
    assert!(!shown.contains("+committed") && shown.contains("+unfinished"), "{shown}");
}

#[test]
fn logs_go_by_age_and_number_and_never_under_a_lease() {
    let repo =
        Repo::with_commands(&[("build", "echo on $AYNIG_BRANCH; echo 'SET_STATE {\"state\":\"done\"}'")]);
    for _ in 0..3 {
        repo.git(["update-ref", "-d", "refs/heads/work"]);
        repo.ready("work", "build");
        repo.aynig_ok(["run"]);
        // By its record, the next one is newer.
        repo.age_records("work", 86_400);
    }
    repo.ready("gone", "build");
    repo.aynig_ok(["run"]);
    repo.git(["update-ref", "-d", "refs/heads/gone"]);
    let all = repo.logs();
    assert_eq!((all.len(), repo.records().len()), (8, 4), "{all:?}");
    assert_eq!(repo.clean(["--apply"])["retainedAttempts"], 4, "thirty days");
    assert_eq!(repo.clean(["--apply", "--older-than", "1h", "--keep", "3"])["retainedAttempts"], 4);
    let report = repo.clean(["--apply", "--older-than", "1h"]);
    assert_eq!(
        (report["items"].as_array().unwrap().len(), &report["retainedAttempts"]),
        (2, &2.into()),
        "{report:#}"
    );
    assert!(report["bytesAfter"].as_u64() < report["bytesBefore"].as_u64(), "{report:#}");
    assert_eq!((repo.logs().len(), repo.records().len()), (4, 2));
    assert_eq!(
        out(&repo.aynig_ok(["logs", "--branch", "work"])),
        "on work\nSET_STATE {\"state\":\"done\"}\n"
    );

    // A branch that is gone has no newest attempt to keep. An attempt under a lease is kept at any age.
    repo.age_records("gone", 86_400);
    repo.age_records("work", 86_400);
    let run = repo.trailer("work~1", "dwp-run-id");
    repo.git(["update-ref", "refs/heads/work", "work~1"]);
    let report = repo.clean(["--apply", "--older-than", "1h", "--keep", "0"]);
    assert_eq!(report["items"].as_array().unwrap().len(), 1, "{report:#}");
    assert_eq!(item(&report, "attempt")["branch"], "gone");
    assert!(repo.records()[0].display().to_string().contains(&run));
    assert_eq!(repo.logs().len(), 2);
}

#[test]
fn files_without_a_record_go_by_name_and_age_only() {
    let repo = Repo::with_commands(&[("build", "true")]);
    let trigger = repo.ready("work", "build");
    let held = repo.ready("held", "other");
    repo.foreign_lease("held", ATTEMPT, "far-host", 300, 0);
    let directory = repo.path.join(".aynig/logs");
    fs::create_dir_all(&directory).unwrap();
    let attempts = repo.path.join(".git/aynig/attempts");
    fs::create_dir_all(&attempts).unwrap();
    let old = |path: &Path| {
        fs::write(path, "text\n").unwrap();
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000)).unwrap();
    };
    let names = [
        format!("{trigger}.stdout.log"),
        format!("{trigger}.11111111-2222-4333-8444-555555555555.stderr.log"),
        format!("{held}.stdout.log"),
        format!("{trigger}.other.stdout.log"),
        "notes.log".to_owned(),
        "deadbeef.stdout.log".to_owned(),
    ];
    names.iter().for_each(|name| old(&directory.join(name)));
    fs::write(directory.join(format!("{trigger}.stderr.log")), "young\n").unwrap();
    old(&attempts.join("11111111-2222-4333-8444-555555555555.body"));
    old(&attempts.join(format!("{ATTEMPT}.body")));
    let report = repo.clean(["--apply", "--logs"]);
    assert_eq!(report["items"].as_array().unwrap().len(), 3, "{report:#}");
    let mut left: Vec<String> = names[2..].to_vec();
    left.push(format!("{trigger}.stderr.log"));
    left.sort();
    assert_eq!(repo.logs(), left);
    assert!(attempts.join(format!("{ATTEMPT}.body")).exists(), "its attempt is under way");
}

#[test]
fn a_record_that_names_other_files_removes_none_of_them() {
    let repo = Repo::with_commands(&[("build", "echo 'SET_STATE {\"state\":\"done\"}'")]);
    repo.ready("work", "build");
    repo.aynig_ok(["run"]);
    let path = repo.records().remove(0);
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["stdout"] = repo.path.join("README").display().to_string().into();
    record["stderr"] = repo.path.join(".aynig/logs/../../README").display().to_string().into();
    record["started"] = 1.into();
    fs::write(&path, record.to_string()).unwrap();
    assert_eq!(item(&repo.clean(["--apply", "--keep", "0"]), "attempt")["fate"], "removed");
    assert!(repo.path.join("README").exists() && !path.exists());
}

#[test]
fn merged_branches_are_listed_and_never_removed() {
    let repo = Repo::new();
    let branch = |name: &str, file: &str, message: &str| {
        let commit = repo.commit_files("main", &[(file, "x\n")], message);
        repo.git(["update-ref", &format!("refs/heads/{name}"), &commit]);
    };
    branch("squashed", "a", "s\n\ndwp-state: done");
    branch("open", "b", "s\n\ndwp-state: done");
    branch("a-person's", "a", "no state");
    branch("asked", "a", "s\n\ndwp-state: approval\ndwp-waits-for: ana");
    branch("it's;done", "a", "s\n\ndwp-state: done");
    branch("held", "a", "s\n\ndwp-state: build");
    repo.foreign_lease("held", ATTEMPT, "far-host", 300, 0);
    repo.ready("untouched", "rest");
    repo.write("a", "x\n");
    repo.commit_all("squash");
    let merged = |report: &Value| -> Vec<String> {
        let rows = report["mergedBranches"].as_array().unwrap().iter();
        rows.map(|row| row["command"].as_str().unwrap().to_owned()).collect()
    };
    let expected = ["git branch -D 'it'\\''s;done'", "git branch -D squashed"];
    assert_eq!(merged(&repo.clean(["--apply"])), expected);
    assert!(out(&repo.aynig_ok(["clean"])).contains("to remove it: git branch -D squashed\n"));
    assert_eq!(repo.git(["for-each-ref", "--format=x", "refs/heads/"]).lines().count(), 8, "all are there");
    // The main branch is the one given, or the one that origin's HEAD names.
    assert!(merged(&repo.clean(["--into", "open"])).is_empty());
    repo.git(["update-ref", "refs/remotes/origin/trunk", "open"]);
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
    let report = repo.clean([]);
    assert_eq!(merged(&report), ["git branch -D open"], "{report:#}");
    assert_eq!(report["mergedBranches"][0]["into"], "origin/trunk");
    assert_refused(&repo.aynig(["clean", "--into", "nothing"]), 2, &["--into nothing", "hint: "]);
}

#[test]
fn each_kind_can_be_asked_for_alone() {
    let repo = Repo::with_commands(&[("build", "echo 'SET_STATE {\"state\":\"done\"}'")]);
    repo.ready("work", "build");
    repo.aynig_ok(["run"]);
    repo.age_records("work", 86_400);
    repo.made_by("work");
    repo.rescued("work", "x", "main", &[]);
    for (flag, kind) in [("--logs", "logs"), ("--worktrees", "worktree"), ("--rescue", "rescue")] {
        let report = repo.clean([flag, "--keep", "0", "--older-than", "1m"]);
        let kinds: Vec<&Value> =
            report["items"].as_array().unwrap().iter().map(|item| &item["kind"]).collect();
        assert_eq!(kinds, [kind], "{report:#}");
    }
}

#[test]
fn sightings_of_what_is_no_head_any_more_go() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let lease = repo.foreign_lease("work", ATTEMPT, "far-host", 300, 0);
    let other = repo.head("main");
    let place = repo.path.join(".git/aynig/sightings");
    fs::create_dir_all(&place).unwrap();
    let rows = format!("aynig sightings 1\nboot 7 {lease} - work\n");
    let gone = format!("boot 7 {other} - work\nboot 7 {other} origin work\n");
    fs::write(place.join("seen"), format!("{rows}{gone}")).unwrap();
    assert_eq!(item(&repo.clean([]), "2 sightings")["fate"], "would go");
    assert_eq!(fs::read_to_string(place.join("seen")).unwrap().lines().count(), 4);
    assert_eq!(item(&repo.clean(["--apply"]), "2 sightings")["fate"], "removed");
    assert_eq!(fs::read_to_string(place.join("seen")).unwrap(), rows);
}

#[test]
fn what_cannot_be_removed_or_read_is_told() {
    let repo = Repo::new();
    repo.ready("work", "rest");
    let path = repo.made_by("work");
    repo.git(["init", "--quiet", &path.join("inner").display().to_string()]);
    let output = repo.aynig(["clean", "--apply"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(out(&output).contains("could not be saved"), "{}", out(&output));
    assert!(path.join("inner/.git").exists());
    for arguments in [["clean", "--older-than", "soon"], ["clean", "--keep", "-1"], ["clean", "--into", ".."]]
    {
        assert_eq!(repo.aynig(arguments).status.code(), Some(2), "{arguments:?}");
    }
    fs::create_dir_all(repo.path.join(".aynig")).unwrap();
    std::os::unix::fs::symlink("/tmp", repo.path.join(".aynig/logs")).unwrap();
    assert_refused(&repo.aynig(["clean", "--logs"]), 3, &["is a symbolic link"]);
}
