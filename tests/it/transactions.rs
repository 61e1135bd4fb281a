//! Several refs moved together, in the repository: all or none, in any shape that refs are kept in.

use aynig::contract::ids::{BranchName, CommitId};
use aynig::git::repo::open::GitVariables;
use aynig::git::{RefChange, RefError, Store, Together};

use super::support::*;

fn store(repo: &Repo) -> Store {
    Store::open(&repo.path, &GitVariables::default(), None).expect("a repository")
}

fn change(repo: &Repo, name: &str, expected: Option<&str>, new: Option<&str>) -> RefChange {
    let id = |revision: &str| CommitId::parse_hex(repo.head(revision)).expect("an id");
    RefChange { name: name.into(), expected: expected.map(id), new: new.map(id) }
}

fn names(repo: &Repo) -> Vec<String> {
    repo.git(["for-each-ref", "--format=%(refname)"]).lines().map(str::to_owned).collect()
}

/// CONTRACT 5.28
#[test]
fn all_refs_move_or_none() {
    let repo = Repo::new();
    for branch in ["a", "b", "c"] {
        repo.git(["branch", branch]);
    }
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "new"]);
    let (old, new) = (Some("main~1"), Some("main"));
    let here = store(&repo).handle();
    let wanted = |last: RefChange| {
        [
            change(&repo, "refs/heads/a", old, new),
            change(&repo, "refs/heads/b", old, None),
            change(&repo, "refs/heads/new/one", None, new),
            last,
        ]
    };
    // Something is not as expected: a value, a ref that is there, a ref that is not, a name in the way.
    let before = repo.git(["for-each-ref"]);
    for (last, lost) in [
        (change(&repo, "refs/heads/c", new, old), true),
        (change(&repo, "refs/heads/c", None, new), true),
        (change(&repo, "refs/heads/none", old, new), true),
        (change(&repo, "refs/heads/none", old, None), true),
        (change(&repo, "refs/heads/main/x", None, new), false),
    ] {
        let name = last.name.clone();
        match here.swap_together(&wanted(last), "test") {
            Ok(Together::Lost { name: found, .. }) => assert!(lost && found == name, "{found}"),
            Err(RefError::Unwritable { name: found, .. }) => assert!(!lost && name == found, "{found}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(repo.git(["for-each-ref"]), before);
    }
    // A lock of somebody else is waited for, and then nothing is changed either.
    let lock = repo.path.join(".git/refs/heads/c.lock");
    std::fs::write(&lock, "").expect("a lock");
    let moved = here.swap_together(&wanted(change(&repo, "refs/heads/c", old, new)), "test");
    assert!(matches!(moved, Err(RefError::Locked { .. })), "{moved:?}");
    assert_eq!(repo.git(["for-each-ref"]), before);
    std::fs::remove_file(&lock).expect("it is there");
    let moved = here.swap_together(&wanted(change(&repo, "refs/heads/c", old, new)), "test: together");
    assert_eq!(moved.expect("nothing is in the way"), Together::Won);
    assert_eq!(names(&repo), ["a", "c", "main", "new/one"].map(|name| format!("refs/heads/{name}")));
    for branch in ["a", "c", "new/one"] {
        assert_eq!(repo.head(branch), repo.head("main"), "{branch}");
        assert!(repo.git(["reflog", "show", branch]).contains("test: together"), "{branch}");
    }
    let locks: Vec<_> = files_below(&repo.path.join(".git"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "lock"))
        .collect();
    assert_eq!(locks, Vec::<std::path::PathBuf>::new());
}

/// What the lock of a deletion contains.
const UNIQUE: &str = "delete-0b2c6f0e-5d0c-4e0b-8f3a-1c2d3e4f5a6b";

/// A process that was killed keeps a lock, and what it announced of it.
fn killed_with_lock(repo: &Repo, name: &str, value: &str) {
    let moves = repo.path.join(".git/aynig/moves");
    std::fs::create_dir_all(&moves).expect("a directory");
    let log = moves.join(format!("6f1b0a52-2a1f-4c7e-9d7c-0d1f5b7a9e3{}", name.len() % 10));
    std::fs::write(log, format!("{value} {name}\n")).expect("a log");
    std::fs::write(repo.path.join(format!(".git/{name}.lock")), value).expect("a lock");
}

/// CONTRACT 5.24
#[test]
fn the_lock_of_a_killed_process_is_in_nobodys_way() {
    let repo = Repo::new();
    for name in ["packed-refs", "refs/heads/a"] {
        repo.git(["branch", "a"]);
        killed_with_lock(&repo, name, UNIQUE);
        let gone = [change(&repo, "refs/heads/a", Some("main"), None)];
        let moved = store(&repo).handle().swap_together(&gone, "test");
        assert_eq!(moved.expect("the lock is nobody's"), Together::Won, "{name}");
        assert_eq!(names(&repo), ["refs/heads/main"]);
        assert!(!repo.path.join(format!(".git/{name}.lock")).exists());
    }
}

/// CONTRACT 5.28
#[test]
fn packed_refs_are_deleted_too() {
    let repo = Repo::new();
    for name in ["refs/heads/a", "refs/heads/a2", "refs/aynig/deferred/x"] {
        repo.git(["update-ref", name, "HEAD"]);
    }
    repo.git(["tag", "-a", "-m", "a tag", "t"]);
    repo.git(["pack-refs", "--all"]);
    // One is loose on top of its packed value.
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "new"]);
    repo.git(["update-ref", "refs/heads/a2", "HEAD"]);
    let here = store(&repo).handle();
    let gone = [
        change(&repo, "refs/aynig/deferred/x", Some("main~1"), None),
        change(&repo, "refs/heads/a2", Some("main"), None),
    ];
    assert_eq!(here.swap_together(&gone, "test").expect("it can"), Together::Won);
    assert_eq!(names(&repo), ["refs/heads/a", "refs/heads/main", "refs/tags/t"]);
    assert_eq!(repo.git(["cat-file", "-t", "t"]), "tag");
    repo.git(["fsck", "--strict"]);
    // A deleted ref can be made again, and the packed ones can be packed again.
    let again = [change(&repo, "refs/heads/a2", None, Some("main"))];
    assert_eq!(here.swap_together(&again, "test").expect("it can"), Together::Won);
    repo.git(["pack-refs", "--all"]);
    assert_eq!(repo.head("a2"), repo.head("main"));
}

/// CONTRACT 5.28
#[test]
fn a_linked_file_of_packed_refs_stays_shared() {
    let repo = Repo::new();
    for branch in ["a", "b"] {
        repo.git(["branch", branch]);
    }
    repo.git(["pack-refs", "--all"]);
    let (file, link) = (repo.path.join("shared-refs"), repo.path.join(".git/packed-refs"));
    std::fs::rename(&link, &file).expect("a file");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let gone = [change(&repo, "refs/heads/a", Some("main"), None)];
    assert_eq!(store(&repo).handle().swap_together(&gone, "test").expect("it can"), Together::Won);
    assert!(link.is_symlink());
    let packed = std::fs::read_to_string(&file).expect("a file");
    assert!(packed.contains("refs/heads/b") && !packed.contains("refs/heads/a"), "{packed}");
    assert_eq!(names(&repo), ["refs/heads/b", "refs/heads/main"]);
    // Its lock is beside the file, also that of a killed process.
    let lock = repo.path.join("shared-refs.lock");
    assert!(!lock.exists());
    killed_with_lock(&repo, "packed-refs", UNIQUE);
    std::fs::rename(repo.path.join(".git/packed-refs.lock"), &lock).expect("a lock");
    let gone = [change(&repo, "refs/heads/b", Some("main"), None)];
    let moved = store(&repo).handle().swap_together(&gone, "test");
    assert_eq!(moved.expect("the lock is nobody's"), Together::Won);
    assert!(!lock.exists());
}

/// CONTRACT 5.28
#[test]
fn directories_go_with_their_last_ref() {
    let repo = Repo::new();
    for name in ["run/x/a", "run/y/a", "top"] {
        repo.git(["branch", name]);
    }
    // This packs the refs, and leaves the directories.
    repo.git(["gc", "--quiet"]);
    repo.git(["branch", "run/x/b"]);
    let directory = |name: &str| repo.path.join(".git/refs/heads").join(name);
    let here = store(&repo).handle();
    let delete = |names: &[&str]| {
        let gone = |name: &&str| change(&repo, &format!("refs/heads/{name}"), Some("main"), None);
        let gone: Vec<RefChange> = names.iter().map(gone).collect();
        assert_eq!(here.swap_together(&gone, "test").expect("it can"), Together::Won);
    };
    delete(&["run/x/a", "top"]);
    assert_eq!([directory("run/x"), directory("run/y")].map(|path| path.is_dir()), [true, true]);
    delete(&["run/x/b", "run/y/a"]);
    assert_eq!([directory("run"), directory("")].map(|path| path.is_dir()), [false, true]);
    // Those of the lock of a change that is lost go, too.
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "new"]);
    repo.git(["update-ref", "refs/heads/run/z/a", "main~1"]);
    repo.git(["pack-refs", "--all"]);
    std::fs::remove_dir_all(directory("run"))
        .or_else(|_| std::fs::create_dir_all(directory("")))
        .expect("no directory");
    let lost = [change(&repo, "refs/heads/run/z/a", Some("main"), None)];
    assert!(matches!(here.swap_together(&lost, "test").expect("it can"), Together::Lost { .. }));
    assert!(!directory("run").exists());
}

/// CONTRACT 5.28
#[test]
fn a_log_goes_before_its_ref_and_with_its_directories() {
    let repo = Repo::new();
    repo.git(["branch", "run/x/a"]);
    repo.git(["branch", "run/y/a"]);
    let log = |name: &str| repo.path.join(".git/logs/refs/heads").join(name);
    assert!(log("run/x/a").is_file());
    let delete = |name: &str| {
        let gone = [change(&repo, &format!("refs/heads/{name}"), Some("main"), None)];
        assert_eq!(store(&repo).handle().swap_together(&gone, "test").expect("it can"), Together::Won);
    };
    delete("run/x/a");
    assert_eq!([log("run/x").exists(), log("run/y/a").is_file(), log("main").is_file()], [false, true, true]);
    // Where the files of a ref and of its log would be there may be directories of removed ones.
    repo.git(["pack-refs", "--all"]);
    std::fs::remove_file(log("run/y/a")).expect("a log");
    for place in ["logs/refs/heads/run/y/a/b", "refs/heads/run/y/a/b"] {
        std::fs::create_dir_all(repo.path.join(".git").join(place)).expect("a directory");
    }
    delete("run/y/a");
    assert_eq!(names(&repo), ["refs/heads/main"]);
    assert_eq!([log("run").exists(), repo.path.join(".git/refs/heads/run").exists()], [false, false]);
    // A file in the place of a directory of logs is not the log of the ref.
    repo.git(["branch", "run/z"]);
    std::fs::remove_dir_all(log("run")).expect("a directory");
    std::fs::write(log("run"), "").expect("a file");
    delete("run/z");
    assert_eq!(names(&repo), ["refs/heads/main"]);
}

#[test]
fn no_list_misses_a_ref_that_is_packed_meanwhile() {
    let repo = Repo::new();
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "new"]);
    let ids = ["main~1", "main"].map(|name| CommitId::parse_hex(repo.head(name)));
    let store = store(&repo);
    // Moved refs have files.
    let moved = |expected: Option<CommitId>, new: Option<CommitId>| {
        let change = |number| RefChange { name: format!("refs/heads/many/{number}").into(), expected, new };
        let all: Vec<RefChange> = (0..100).map(change).collect();
        assert_eq!(store.handle().swap_together(&all, "test").expect("it can"), Together::Won);
    };
    moved(None, ids[0]);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lister = scope.spawn(|| {
            let mut least = usize::MAX;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                least = least.min(store.handle().branches().expect("it can").len());
            }
            least
        });
        for round in 0..40 {
            repo.git(["pack-refs", "--all"]);
            moved(ids[round % 2], ids[(round + 1) % 2]);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(lister.join().expect("no panic"), 101);
    });
}

#[test]
fn named_branches_are_read_as_the_list_shows_them() {
    let repo = Repo::new();
    for branch in ["packed", "moved", "deep/er", "broken"] {
        repo.git(["branch", branch]);
    }
    repo.git(["pack-refs", "--all"]);
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "new"]);
    repo.git(["update-ref", "refs/heads/moved", "HEAD"]);
    repo.git(["branch", "loose"]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/packed"]);
    repo.git(["update-ref", "refs/remotes/hub/packed", "HEAD"]);
    std::fs::write(repo.path.join(".git/refs/heads/broken"), "no id\n").expect("a file");
    // git follows links, but for one to the name of a ref: that is a symbolic ref. Here another name of a file is one, too.
    std::fs::create_dir(repo.path.join(".git/shared")).expect("a directory");
    std::fs::write(repo.path.join(".git/shared/ref"), repo.head("main~1")).expect("a file");
    repo.git(["branch", "sub/here"]);
    for (to, link) in [
        ("loose", "linked"),
        ("sub", "beside"),
        ("../../shared", "far"),
        ("refs/heads/packed", "named"),
        ("..", "circle"),
    ] {
        std::os::unix::fs::symlink(to, repo.path.join(".git/refs/heads").join(link)).expect("a link");
    }
    let here = store(&repo).handle();
    let all = here.branches().expect("it can");
    let names: Vec<String> = all.iter().map(|tip| tip.branch.to_string()).collect();
    assert_eq!(
        names,
        [
            "beside/here",
            "deep/er",
            "far/ref",
            "link",
            "linked",
            "loose",
            "main",
            "moved",
            "named",
            "packed",
            "sub/here"
        ]
    );
    let symbolic =
        all.iter().filter_map(|tip| Some((tip.branch.to_string(), tip.target.as_ref().err()?.to_string())));
    let symbolic: Vec<_> = symbolic.collect();
    let named = [("beside/here", "sub/here"), ("link", "packed"), ("linked", "loose"), ("named", "packed")];
    assert_eq!(symbolic, named.map(|(name, to)| (name.to_owned(), format!("refs/heads/{to}"))));
    for tip in all.iter().filter(|tip| tip.target.is_ok()) {
        assert_eq!(tip.target.as_ref().map(ToString::to_string), Ok(repo.head(&tip.branch.to_string())));
    }
    let branch = |name: &str| BranchName::new(name).expect("a name");
    let few =
        |names: &[&str]| here.branches_of(None, &names.iter().map(|name| branch(name)).collect::<Vec<_>>());
    for tip in &all {
        assert_eq!(few(&[&tip.branch.to_string()]).expect("it can").as_slice(), std::slice::from_ref(tip));
    }
    let every = [
        "packed",
        "none",
        "moved",
        "main",
        "loose",
        "link",
        "deep/er",
        "deep",
        "broken",
        "main",
        "linked",
        "far/ref",
        "far",
        "named",
        "beside/here",
        "beside",
        "sub/here",
    ];
    assert_eq!(few(&every).expect("it can"), all);
    assert_eq!(few(&["none"]).expect("it can"), []);
}

/// CONTRACT 5.28
#[test]
fn a_directory_that_goes_and_comes_is_in_nobodys_way() {
    let repo = Repo::new();
    let store = store(&repo);
    let turn = |name: &str| {
        let here = store.handle();
        for _ in 0..300 {
            for (from, to) in [(None, Some("main")), (Some("main"), None)] {
                let moved = here.swap_together(&[change(&repo, name, from, to)], "test");
                assert_eq!(moved.expect("it can"), Together::Won);
            }
        }
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // git makes the directory of a ref below another one for the lock, before it refuses the name.
        let place = repo.path.join(".git/refs/heads/run/x/a");
        let done = &done;
        scope.spawn(move || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                if std::fs::create_dir_all(&place).is_ok() {
                    drop(std::fs::write(place.join("zz.lock"), ""));
                    drop(std::fs::remove_dir_all(&place));
                }
            }
            for above in place.ancestors().skip(1).take(2) {
                drop(std::fs::remove_dir(above));
            }
        });
        let turns = ["refs/heads/run/x/a", "refs/heads/run/x/b", "refs/heads/run/y/z/c"]
            .map(|name| scope.spawn(move || turn(name)));
        let ended = turns.map(std::thread::ScopedJoinHandle::join);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(names(&repo), ["refs/heads/main"]);
    assert!(!repo.path.join(".git/refs/heads/run").exists());
}

/// CONTRACT 5.28
#[test]
fn of_many_transactions_with_a_ref_in_common_one_wins() {
    let repo = Repo::new();
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "new"]);
    for name in ["common", "a", "b"] {
        repo.git(["branch", name, "main~1"]);
    }
    let store = store(&repo);
    let own = |name: &str, first: bool| {
        let common = change(&repo, "refs/heads/common", Some("main~1"), Some("main"));
        let other = change(&repo, &format!("refs/heads/{name}"), Some("main~1"), Some("main"));
        if first { vec![common, other] } else { vec![other, common] }
    };
    let both = [own("a", true), own("b", false)];
    let won: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = both
            .iter()
            .map(|changes| scope.spawn(|| store.handle().swap_together(changes, "test")))
            .collect();
        let moved = threads.into_iter().map(|thread| thread.join().expect("no panic").expect("no error"));
        moved.filter(|moved| *moved == Together::Won).count()
    });
    assert_eq!(won, 1);
    let moved = ["a", "b"].map(|name| repo.head(name) == repo.head("main"));
    assert_eq!((repo.head("common"), moved[0] != moved[1]), (repo.head("main"), true));
}

/// CONTRACT 5.28
#[test]
fn what_stands_in_the_way_of_a_name_is_found_before_the_first_write() {
    let repo = Repo::new();
    for name in ["first", "loose/below", "packed/below", "above", "target"] {
        repo.git(["branch", name]);
    }
    repo.git(["pack-refs", "--all"]);
    repo.git(["update-ref", "-d", "refs/heads/loose/below"]);
    repo.git(["branch", "loose/below"]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/target"]);
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "new"]);
    let here = store(&repo).handle();
    let (old, new) = (Some("main~1"), Some("main"));
    let first = || change(&repo, "refs/heads/first", old, new);
    let create = |name: &str| change(&repo, name, None, new);
    let before = repo.git(["for-each-ref"]);
    for (others, words) in [
        (vec![create("refs/heads/loose")], "refs/heads/loose/below exists"),
        (vec![create("refs/heads/packed")], "refs/heads/packed/below exists"),
        (vec![create("refs/heads/above/x")], "refs/heads/above exists"),
        (vec![create("refs/heads/main/x")], "refs/heads/main exists"),
        (vec![create("refs/heads/link")], "it is a symbolic ref to refs/heads/target"),
        (vec![create("refs/heads/n"), create("refs/heads/n/m")], "refs/heads/n/m is to be changed as well"),
        (vec![first()], "refs/heads/first is to be changed as well"),
    ] {
        let changes: Vec<RefChange> = [first()].into_iter().chain(others).collect();
        match here.swap_together(&changes, "test") {
            Err(RefError::Unwritable { why, .. }) => assert!(why.contains(words), "{words}: {why}"),
            other => panic!("{words}: {other:?}"),
        }
        assert_eq!(repo.git(["for-each-ref"]), before, "{words}");
    }
    assert_eq!(repo.git(["symbolic-ref", "refs/heads/link"]), "refs/heads/target");
    // Where only empty directories are left, of refs and of their logs, the name is free.
    let gone = [change(&repo, "refs/heads/loose/below", old, None)];
    assert_eq!(here.swap_together(&gone, "test").expect("it can"), Together::Won);
    assert_eq!(
        here.swap_together(&[first(), create("refs/heads/loose")], "test").expect("it can"),
        Together::Won
    );
}

/// CONTRACT 5.28
#[test]
fn transactions_and_git_at_work_lose_nothing() {
    let repo = Repo::new();
    for number in 0..20 {
        repo.git(["commit", "--quiet", "--allow-empty", "-m", &number.to_string()]);
    }
    let commits: Vec<CommitId> = repo
        .git(["rev-list", "--reverse", "main"])
        .lines()
        .map(|id| CommitId::parse_hex(id).expect("an id"))
        .collect();
    for name in ["refs/heads/one", "refs/heads/two", "refs/heads/git", "refs/heads/filler/1"] {
        repo.git(["update-ref", name, &commits[0].to_string()]);
    }
    let store = store(&repo);
    let done = std::sync::atomic::AtomicBool::new(false);
    let is_done = || done.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done() {
                // It may find a ref that was moved or locked meanwhile: then it fails, and is run again.
                drop(repo.git_command().args(["pack-refs", "--all"]).output());
                drop(repo.git_command().args(["gc", "--quiet"]).output());
            }
        });
        let gits = scope.spawn(|| {
            let mut at = 0;
            while !is_done() {
                let (old, new) = (commits[at % 20].to_string(), commits[(at + 1) % 20].to_string());
                let moved = repo.git_command().args(["update-ref", "refs/heads/git", &new, &old]).output();
                at += usize::from(moved.expect("git runs").status.success());
            }
            at
        });
        let here = store.handle();
        let step = |name: &str, from: Option<usize>, to: Option<usize>| RefChange {
            name: name.into(),
            expected: from.map(|at| commits[at]),
            new: to.map(|at| commits[at]),
        };
        for at in 0..120 {
            let (old, new) = (at % 20, (at + 1) % 20);
            let slot = "refs/aynig/deferred/one";
            let slot =
                if at % 2 == 0 { step(slot, None, Some(old)) } else { step(slot, Some(old - 1), None) };
            let moved = [
                step("refs/heads/one", Some(old), Some(new)),
                slot,
                step("refs/heads/two", Some(old), Some(new)),
            ];
            assert_eq!(
                here.swap_together(&moved, "test").expect("git is at work only"),
                Together::Won,
                "{at}"
            );
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let at = gits.join().expect("no panic");
        assert_eq!(repo.head("git"), commits[at % 20].to_string());
    });
    assert_eq!([repo.head("one"), repo.head("two")], [commits[0].to_string(), commits[0].to_string()]);
    assert!(!names(&repo).contains(&"refs/aynig/deferred/one".to_owned()));
    repo.git(["fsck", "--strict"]);
    let left: Vec<_> = files_below(&repo.path.join(".git"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "lock"))
        .collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}
