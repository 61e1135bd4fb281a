//! A person's checkout is sparse (`git sparse-checkout`); a runner's worktrees still have all files.

use super::scene::*;
use super::support::*;

/// Ways to check out only `docs/`.
const WAYS: [(&str, &str); 4] = [
    ("cone", "git sparse-checkout set docs"),
    ("index", "git sparse-checkout set --sparse-index docs"),
    ("patterns", "git sparse-checkout set --no-cone docs/"),
    // As before git had a configuration per worktree.
    (
        "shared",
        "git config core.sparseCheckout true; mkdir -p .git/info; echo docs/ >.git/info/sparse-checkout; git read-tree -mu HEAD",
    ),
];

/// Lists the files, and leaves work.
const LOOKS: &str = r#"
find . -name .git -prune -o -type f -print | sort >"$ROOM/files"
git ls-files -t | grep -v '^H' >"$ROOM/skipped"
git status --porcelain >"$ROOM/status"
echo more >>src/s; echo new >src/new; echo staged >docs/staged; git add docs/staged
"#;

fn repo(way: &str) -> Repo {
    let well = format!("{LOOKS}git add --all && next done");
    let repo = Repo::scene(&[("well", &well), ("badly", &format!("{LOOKS}exit 1"))]);
    for path in ["docs/d", "src/s", "top"] {
        repo.write(path, path);
    }
    repo.write(".gitignore", ".worktrees/\n.aynig/logs/\n");
    repo.commit_all("files");
    repo.ready("good", "well");
    repo.ready("bad", "badly");
    let mut shell = std::process::Command::new("sh");
    let done = hermetic(&mut shell).current_dir(&repo.path).args(["-ec", way]).output().expect("sh runs");
    assert!(done.status.success(), "{}", told(&done));
    assert!(repo.path.join("docs/d").exists() && !repo.path.join("src").exists(), "{way}");
    repo
}

/// The person's files and configuration.
fn of_the_person(repo: &Repo) -> (Vec<std::path::PathBuf>, Vec<Option<String>>, String) {
    let mut files = files_below(&repo.path);
    files.retain(|path| {
        !path.starts_with(repo.path.join(".git")) && !path.starts_with(repo.path.join(".aynig"))
    });
    files.sort();
    let settings = ["config", "config.worktree", "info/sparse-checkout"];
    let texts = settings.map(|name| std::fs::read_to_string(repo.path.join(".git").join(name)).ok());
    (files, texts.to_vec(), repo.git(["ls-files", "-t"]))
}

#[test]
fn a_command_has_the_whole_tree() {
    for (name, way) in WAYS {
        let repo = repo(way);
        let before = of_the_person(&repo);
        for (branch, code) in [("good", 0), ("bad", 1)] {
            let output = repo.aynig(["run", "--branch", branch]);
            assert_eq!(output.status.code(), Some(code), "{name}: {}", told(&output));
            let whole = "./.aynig/command/badly\n./.aynig/command/well\n./.gitignore\n./README\n./docs/d\n./src/s\n./top";
            assert_eq!(repo.said("files"), whole, "{name} {branch}: {}", told(&output));
            for empty in ["skipped", "status"] {
                let text = std::fs::read_to_string(repo.beside(empty)).expect("it was written");
                assert_eq!(text, "", "{name} {branch} {empty}");
            }
        }
        assert_eq!(repo.show("good:src/new"), "new", "{name}");
        assert_eq!(
            repo.paths_in("good").len(),
            repo.paths_in("main").len() + 2,
            "{name}: nothing else changed"
        );
        let rescue = repo.rescue();
        assert_eq!(repo.show(&format!("{rescue}:src/s")), "src/smore", "{name}");
        assert_eq!(repo.show(&format!("{rescue}:src/new")), "new", "{name}");
        assert_eq!(repo.paths_in(&rescue).len(), repo.paths_in("main").len() + 2, "{name}");
        assert_eq!(of_the_person(&repo), before, "{name}");
        repo.assert_tidy();
    }
}

#[test]
fn a_kept_worktree_has_the_whole_tree_too() {
    for (name, way) in [WAYS[0], WAYS[3]] {
        let repo =
            Repo::scene(&[("counts", "find . -name '*.many' | wc -l >\"$ROOM/$AYNIG_BRANCH\"; next done")]);
        for n in 0..1000 {
            repo.write(&format!("src/{n}.many"), "x\n");
        }
        repo.write("docs/one.many", "x\n");
        repo.write(".gitignore", ".worktrees/\n.aynig/logs/\n");
        repo.commit_all("files");
        let mut shell = std::process::Command::new("sh");
        hermetic(&mut shell).current_dir(&repo.path).args(["-ec", way]);
        assert!(shell.status().expect("sh runs").success());
        for branch in ["one", "two"] {
            repo.ready(branch, "counts");
            repo.aynig_ok(["run", "--branch", branch]);
            assert_eq!(repo.said(branch), "1001", "{name} {branch}");
        }
        assert!(repo.worktrees()[0].contains("/aynig/pool/"), "{name}: it was kept");
    }
}
