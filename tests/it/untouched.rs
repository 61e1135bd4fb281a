//! A worktree that is exactly as git filled it is removed without a call of git. The smallest change is found
//! all the same, also one in the same second and of the same size.

use super::support::*;

/// A command line, and whether it leaves something to save.
const CASES: [(&str, bool); 19] = [
    (":", false),
    ("cat README >/dev/null; ls -R >/dev/null", false),
    ("touch README", false),
    ("mkdir empty", false),
    ("echo x >ignored", false),
    ("cp -p README README.new; mv README.new README", false),
    ("printf 'SAME' | dd of=same conv=notrunc 2>/dev/null", true),
    ("printf 'SAME' | dd of=same conv=notrunc 2>/dev/null; touch -r other same", true),
    ("printf 'SAME' >same.new; touch -r same same.new; mv same.new same", true),
    ("chmod +x same", true),
    ("chmod -x .aynig/command/work", true),
    ("rm same", true),
    ("rm same; ln -s other same", true),
    ("rm link; ln -s same link", true),
    ("rm link; printf other >link", true),
    ("echo x >new", true),
    ("mkdir dir; echo x >dir/new", true),
    ("git rm -q --cached same", true),
    ("git update-index --assume-unchanged same; printf 'SAME' >same", true),
];

fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", &format!("{script}; next done"))]);
    for (name, text) in [("same", "same"), ("other", "diff"), (".gitignore", "ignored\n")] {
        std::fs::write(repo.path.join(name), text).expect("a file");
    }
    std::os::unix::fs::symlink("other", repo.path.join("link")).expect("a link");
    repo.commit_all("files");
    repo
}

#[test]
fn the_least_change_is_found() {
    for (script, leaves) in CASES {
        let repo = repo(script);
        repo.ready("task", "work");
        repo.aynig_ok(["run"]);
        assert_eq!(repo.state("task"), "done", "{script}");
        assert_eq!(repo.rescues().len(), usize::from(leaves), "{script}: {:?}", repo.rescues());
        repo.assert_tidy();
    }
}

/// Its timestamps come from another clock, or have another precision.
#[test]
fn another_file_system_is_left_to_git() {
    use std::os::unix::fs::MetadataExt;
    let repo = repo(":");
    let here = repo.path.metadata().expect("it is there").dev();
    let mut places =
        [std::path::Path::new("/dev/shm"), std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))].into_iter();
    let Some(elsewhere) = places.find(|place| place.metadata().is_ok_and(|found| found.dev() != here)) else {
        return;
    };
    let room = tempfile::tempdir_in(elsewhere).expect("a directory");
    repo.ready("task", "work");
    let place = room.path().join("wt").display().to_string();
    let output = repo.aynig(["--log-level", "trace", "run", "--worktree", &place]);
    assert!(err(&output).contains("status --porcelain"), "{}", err(&output));
}
