//! An untouched worktree goes to the next step of its run, whatever its size. That step finds nothing of the
//! previous one.

use std::path::PathBuf;

use super::pool::{CENSUS, LEFTOVERS};
use super::scene::*;
use super::support::*;

/// More leftovers of steps, each hidden from git in a different way.
const HIDDEN: [(&str, &str); 19] = [
    ("nothing", ":"),
    ("read", "cat dir0/file1 >/dev/null; ls -R >/dev/null"),
    ("file-mode", "chmod 640 dir0/file1"),
    ("directory-mode", "chmod 750 dir1"),
    ("top-mode", "chmod 700 ."),
    ("link-mode", "chmod 600 .git"),
    ("came-and-went", "echo x >new; rm new"),
    ("empty", "mkdir dir1/empty"),
    ("second-name", "ln dir0/file1 \"$ROOM/second\""),
    (
        "same-size",
        "printf 'FILE' | dd of=dir0/file1 conv=notrunc 2>/dev/null; touch -r dir0/file2 dir0/file1",
    ),
    ("replaced", "cp -p dir0/file1 new; mv new dir0/file1"),
    ("refreshed", "touch dir0/file1; git update-index -q --refresh"),
    ("own-ref", "git update-ref refs/worktree/mine HEAD"),
    ("own-settings", "echo x >\"$(git rev-parse --absolute-git-dir)/config.worktree\""),
    ("own-log", "echo x >\"$(git rev-parse --absolute-git-dir)/logs/other\""),
    ("own-mode", "chmod 600 \"$(git rev-parse --absolute-git-dir)/HEAD\""),
    ("own-commondir", "echo ../../../x >\"$(git rev-parse --absolute-git-dir)/commondir\""),
    ("committed-nothing", "git commit -q --allow-empty -m own"),
    ("index-copied", "d=$(git rev-parse --absolute-git-dir); cp -p $d/index $d/x; mv $d/x $d/index"),
];

/// Enough files to make the check of other processes' open files worthwhile, too few for the pool.
const SOME: usize = 400;

/// A small repository with these commands.
pub(crate) fn small(commands: &[(&str, &str)]) -> Repo {
    let repo = Repo::scene(commands);
    for path in ["dir0/file1", "dir0/file2", "dir1/file101", "dir2/file201", "dir3/file301", "dir5/file501"] {
        repo.write(path, &format!("file at {path}\n"));
    }
    for n in 0..SOME {
        repo.write(&format!("more/file{n}"), &format!("file {n}\n"));
    }
    repo.write(".gitignore", "*.ignored\n.worktrees/\n.aynig/logs/\n");
    repo.commit_all("few files");
    repo
}

/// CONTRACT 9.15
#[test]
fn an_untouched_worktree_goes_to_the_next_step() {
    let repo = small(&[("work", CENSUS)]);
    repo.fresh("work");
    for branch in ["a", "b", "c"] {
        repo.ready(branch, "work");
    }
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.left_by("inode.a"), repo.left_by("inode.b"), "the same file, not written again");
    assert_eq!(repo.left_by("inode.b"), repo.left_by("inode.c"));
    for branch in ["b", "c"] {
        repo.assert_like_fresh(branch);
    }
    assert!(!repo.path.join(".worktrees").exists(), "nothing is left where worktrees are made");
    repo.assert_tidy();

    repo.write("dir0/file2", "another tree\n");
    repo.git(["rm", "-rq", "dir3"]);
    repo.commit_all("less");
    repo.fresh("work");
    repo.branch_from("a", "d", b"please work\n\ndwp-state: work\n");
    repo.ready("e", "work");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.left_by("inode.d"), repo.left_by("inode.e"), "what is the same was not written");
    repo.assert_like_fresh("e");
    repo.assert_tidy();
}

/// CONTRACT 9.15
#[test]
fn nothing_of_a_step_reaches_the_next_of_its_run() {
    let messes = || LEFTOVERS.into_iter().chain(HIDDEN);
    let mut commands: Vec<(String, String)> =
        messes().map(|(name, mess)| (name.to_owned(), format!("{{ {mess}; }} >&2\nnext done"))).collect();
    commands.push(("look".to_owned(), CENSUS.to_owned()));
    let borrowed: Vec<(&str, &str)> =
        commands.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let repo = small(&borrowed);
    repo.fresh("look");
    for (name, _) in messes() {
        let look = format!("z-{name}");
        let mess = repo.ready(name, name);
        repo.ready(&look, "look");
        repo.aynig(["run", "--branch", name, "--branch", &look]);
        assert_ne!(repo.head(name), mess, "{name} was run");
        assert_eq!(repo.state(&look), "done", "{name}: {}", repo.message(&look));
        for key in ["core.fileMode", "extensions.worktreeConfig", "core.sparseCheckout", "index.sparse"] {
            // A setting for all worktrees is not a leftover of one.
            repo.git_command().args(["config", "--unset-all", key]).output().expect("git runs");
        }
        if name != "config" && name != "sparse" && name != "modes" {
            repo.assert_like_fresh(&look);
        }
        assert_eq!(repo.git(["show", &format!("{look}:dir0/file1")]), "file at dir0/file1", "{name}");
    }
}

/// Git configuration and attributes outside the tree decide how a worktree is filled; a command can change
/// both.
#[test]
fn files_that_are_to_be_written_in_another_way_are_written_again() {
    for change in [
        "git config core.eol crlf",
        "echo 'dir0/* text eol=crlf' >\"$(git rev-parse --git-common-dir)/info/attributes\"",
        "d=$(git rev-parse --git-common-dir); git config -f $d/more core.eol crlf; git config include.path more",
    ] {
        let look = "od -c dir0/file1 >\"$ROOM/bytes.$AYNIG_BRANCH\"; next done";
        let repo = small(&[("change", &format!("{change}; {look}")), ("look", look)]);
        repo.write(".git/info/attributes", "dir0/* text\n");
        repo.ready("a", "change");
        repo.ready("b", "look");
        repo.aynig_ok(["run"]);
        assert!(!repo.left_by("bytes.a").contains("\\r"), "{change}");
        assert!(repo.left_by("bytes.b").contains("\\r"), "{change}: {}", repo.left_by("bytes.b"));
    }
}

/// A symlink to the registration may lead to another repository later.
#[test]
fn the_link_of_a_worktree_is_not_handed_on_once_it_was_written_to() {
    let relink = "ln -s \"$own\" \"$ROOM/link\"; printf 'gitdir: %s\\n' \"$ROOM/link\" >.git";
    let relative = "printf 'gitdir: ../../.git/worktrees/%s\\n' \"${own##*/}\" >.git";
    for change in [relink, relative] {
        let change = format!("own=$(git rev-parse --absolute-git-dir); {change}; next done");
        let look = "cp .git \"$ROOM/link.b\"; git rev-parse --absolute-git-dir >\"$ROOM/own.b\"; next done";
        let repo = small(&[("change", &change), ("look", look)]);
        repo.ready("a", "change");
        repo.ready("b", "look");
        repo.aynig_ok(["run"]);
        assert_eq!(repo.left_by("link.b"), format!("gitdir: {}", repo.left_by("own.b")), "{change}");
        repo.assert_tidy();
        assert_eq!(left_in_pool(&repo), Vec::<PathBuf>::new(), "{change}");
    }
}

/// While a worktree waits for its next step, anyone may write into it: another step, or a process the last
/// one left. `first` ends only after `write` has begun, which could otherwise be given the waiting worktree itself.
#[test]
fn what_is_written_into_a_waiting_worktree_reaches_no_step() {
    let write = r#"
say writing x
until at=$(git worktree list --porcelain | sed -n 's/^worktree //p' | grep /aynig/pool/); do [ $((n += 1)) -lt 1200 ] && [ -d "$ROOM" ] || exit 9; sleep 0.05; done
echo x >"$at/dir1/new"; echo x >"$at/dir1/b.ignored"
say wrote x; next done"#;
    let look = "git status --porcelain --ignored >\"$ROOM/found.$AYNIG_BRANCH\"; next done";
    let repo = small(&[("write", write), ("first", "await writing; next look"), ("look", look)]);
    repo.ready("a", "first");
    repo.ready("b", "write");
    repo.aynig_ok(["run", "--drain", "--jobs", "2"]);
    assert_eq!(repo.said("wrote"), "x");
    assert_eq!(repo.left_by("found.a"), "");
    repo.assert_tidy();
}

fn left_in_pool(repo: &Repo) -> Vec<PathBuf> {
    let pool = repo.path.join(".git/aynig/pool");
    std::fs::read_dir(pool).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// CONTRACT 9.15
#[test]
fn a_worktree_in_which_somebody_has_a_file_open_is_not_handed_on() {
    let stay = r#"
( cd / && exec 3>>"$WORKTREE_PATH/dir0/file1" && say holds x && await go && echo late >&3 ) >/dev/null 2>&1 &
await holds
next done"#;
    let repo = small(&[("stay", stay), ("look", &format!("touch \"$ROOM/go\"\n{CENSUS}"))]);
    repo.fresh("look");
    std::fs::remove_file(repo.beside("go")).expect("it was made");
    repo.ready("a", "stay");
    repo.ready("b", "look");
    repo.aynig_ok(["run"]);
    repo.assert_like_fresh("b");
    repo.assert_tidy();
}

#[test]
fn where_the_pool_is_turned_off_none_is_handed_on() {
    let repo = small(&[("work", "stat -c %i dir0 >\"$ROOM/inode.$AYNIG_BRANCH\"; next done")]);
    repo.git(["config", "aynig.pool", "0"]);
    repo.ready("a", "work");
    repo.ready("b", "work");
    let mut run = repo.aynig_command();
    run.args(["--log-level", "trace", "run"]);
    let output = run.output().expect("aynig runs");
    assert_eq!(err(&output).matches("read-tree --reset").count(), 2, "{}", err(&output));
}

#[cfg(debug_assertions)]
#[test]
fn a_runner_killed_over_a_spare_leaves_nothing_in_the_way() {
    use aynig::crashpoint::Point;
    for point in
        [Point::PoolMarked, Point::PoolRelinked, Point::PoolShelved, Point::PoolTaken, Point::PoolRefilled]
    {
        let repo = small(&[("work", CENSUS)]);
        repo.fresh("work");
        repo.ready("a", "work");
        repo.ready("b", "work");
        let mut runner = repo.aynig_command();
        runner.args(["run", "--lease-seconds", "30"]).env("AYNIG_CRASH_AT", point.name());
        let output = runner.output().expect("aynig runs");
        let killed = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(killed, Some(9), "{point:?}: {}", told(&output));
        repo.deserted();
        assert_eq!(repo.state("a"), "done", "{point:?}");
        // The worktree that the dead runner held is removed by the next pass, even one with nothing to do.
        let mut later = repo.aynig_command();
        later.args(["run", "--branch", "none*"]);
        later.output().expect("aynig runs");
        assert_eq!(repo.worktrees(), Vec::<String>::new(), "{point:?}");
        let mut later = repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "40");
        later.output().expect("aynig runs");
        let taken = matches!(point, Point::PoolTaken | Point::PoolRefilled);
        assert_eq!(repo.state("b"), if taken { "stalled" } else { "done" }, "{point:?}");
        assert_eq!(repo.rescues(), Vec::<String>::new(), "no command was ever in it");
        repo.assert_tidy();
    }
}

/// Moving a worktree takes two changes, and the runner may die after each.
#[cfg(debug_assertions)]
#[test]
fn a_runner_killed_while_it_writes_any_file_leaves_no_directory_behind() {
    for at in 1.. {
        let repo = small(&[("work", "next done")]);
        repo.ready("a", "work");
        repo.ready("b", "work");
        let mut runner = repo.aynig_command();
        runner.args(["run", "--lease-seconds", "30"]).env("AYNIG_CRASH_AT", format!("file-drafted:{at}"));
        let output = runner.output().expect("aynig runs");
        if output.status.success() {
            assert!(at > 8, "several files are written: {at}");
            return;
        }
        repo.deserted();
        for _ in 0..2 {
            let mut later = repo.aynig_command();
            later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "40");
            later.output().expect("aynig runs");
        }
        assert_eq!(left_in_pool(&repo), Vec::<PathBuf>::new(), "file {at}");
        assert!(
            !repo.path.join(".worktrees/a").exists() && !repo.path.join(".worktrees/b").exists(),
            "file {at}"
        );
        assert_eq!(repo.rescues(), Vec::<String>::new(), "no command left anything");
        repo.assert_tidy();
    }
}
