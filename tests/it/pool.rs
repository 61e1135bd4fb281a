//! Worktrees that are kept where a checkout is expensive: the next step needs no checkout, and finds nothing
//! of the previous one.

use std::path::PathBuf;

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// Enough files for a worktree to be kept.
const MANY: usize = 1_000;

/// A repository with these commands, large enough for the pool.
pub(crate) fn large(commands: &[(&str, &str)]) -> Repo {
    let repo = Repo::scene(commands);
    for n in 0..MANY {
        repo.write(&format!("dir{}/file{n}", n / 100), &format!("file {n}\n"));
    }
    repo.write(".gitignore", "*.ignored\n.worktrees/\n.aynig/logs/\n");
    repo.commit_all("many files");
    repo
}

/// Lists the worktree: every path except `.git` with its kind and permissions, and the inode of one file.
pub(crate) const CENSUS: &str = r#"
find . -name .git -prune -o -printf '%y %m %n %p %l\n' | sort >"$ROOM/census.$AYNIG_BRANCH"
GIT_OPTIONAL_LOCKS=0 git status --porcelain --ignored >"$ROOM/status.$AYNIG_BRANCH"
git ls-files -v | grep -v '^H' >"$ROOM/flags.$AYNIG_BRANCH"
own=$(git rev-parse --absolute-git-dir)
(cd "$own" && find . -not -name aynig-index | sort) >"$ROOM/registration.$AYNIG_BRANCH"
git rev-parse --abbrev-ref HEAD >"$ROOM/head.$AYNIG_BRANCH"
stat -c %i dir0/file1 >"$ROOM/inode.$AYNIG_BRANCH"
next done
"#;

/// Leftovers of steps, each on a branch of its own.
pub(crate) const LEFTOVERS: [(&str, &str); 23] = [
    ("ignored", "mkdir -p deep/er && echo x >deep/er/a.ignored && echo y >dir0/b.ignored"),
    ("untracked", "echo x >new && mkdir empty && ln -s / everything"),
    ("staged", "echo x >dir0/file1 && git add dir0/file1 && git rm -q dir1/file101"),
    ("committed", "echo x >dir0/file1 && git commit -qam own"),
    ("changed", "echo x >dir0/file1"),
    (
        "flags",
        "git update-index --assume-unchanged dir0/file1 && git update-index --skip-worktree dir0/file2 && echo x >dir0/file1",
    ),
    (
        "hidden",
        "git update-index --assume-unchanged dir0/file1; echo 'file x' >dir0/file1; touch -r dir0/file2 dir0/file1",
    ),
    (
        "modes",
        "chmod 600 dir0/file1 && chmod 700 dir1 && chmod +x dir2/file201 && git config core.fileMode false",
    ),
    ("links", "ln dir0/file1 \"$ROOM/link\" && rm -r dir3 && ln -s dir4 dir3"),
    ("moved", "mv dir3 \"$ROOM/moved\" && ln -s \"$ROOM/moved\" dir3"),
    ("repository", "git init -q nested.ignored"),
    ("inner", "git init -q dir5"),
    ("embedded", "git init -q embedded && git -C embedded commit -q --allow-empty -m x"),
    ("pipe", "mkfifo dir0/pipe && mkfifo pipe.ignored"),
    ("index", "rm \"$(git rev-parse --git-dir)/index\" && git read-tree --empty"),
    ("sparse", "git sparse-checkout set dir1"),
    (
        "config",
        "git config extensions.worktreeConfig true && git config --worktree core.hooksPath hooks.ignored",
    ),
    (
        "hooks",
        "d=$(git rev-parse --absolute-git-dir) && mkdir $d/hooks && printf '#!/bin/sh\\nexit 1\\n' >$d/hooks/pre-commit",
    ),
    ("bisect", "git bisect start -q HEAD HEAD~1 || true; git update-ref refs/worktree/mine HEAD"),
    ("merge", "git rev-parse HEAD >\"$(git rev-parse --git-dir)/MERGE_HEAD\""),
    ("detached", "git checkout -q --detach HEAD~1"),
    ("dotgit", "rm .git && echo 'gitdir: /nowhere' >.git"),
    ("gone", "rm -rf dir0 dir1 .git"),
];

/// Damage done to a kept worktree.
type Harm = fn(&Repo, PathBuf);

impl Repo {
    pub(crate) fn left_by(&self, name: &str) -> String {
        std::fs::read_to_string(self.beside(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn pool(&self) -> Vec<String> {
        self.worktrees().into_iter().filter(|path| path.contains("/aynig/pool/")).collect()
    }

    pub(crate) fn step(&self, branch: &str, state: &str) {
        self.ready(branch, state);
        self.aynig_ok(["run", "--branch", branch]);
        assert_eq!(self.state(branch), "done", "{}", self.message(branch));
    }

    /// Records the contents of a fresh worktree for a command.
    pub(crate) fn fresh(&self, of: &str) {
        self.git(["config", "aynig.pool", "0"]);
        self.step("fresh", of);
        self.git(["config", "--unset", "aynig.pool"]);
        assert_eq!(self.pool(), Vec::<String>::new(), "a pool that is turned off is emptied");
    }

    /// Asserts that a branch found the contents of a fresh worktree.
    pub(crate) fn assert_like_fresh(&self, branch: &str) {
        for what in ["census", "status", "flags", "registration"] {
            let (fresh, found) =
                (self.left_by(&format!("{what}.fresh")), self.left_by(&format!("{what}.{branch}")));
            let added: Vec<&str> =
                found.lines().filter(|line| !fresh.lines().any(|known| known == *line)).collect();
            let gone: Vec<&str> =
                fresh.lines().filter(|line| !found.lines().any(|known| known == *line)).collect();
            // Git may or may not create this one.
            let both: Vec<&&str> = added.iter().chain(&gone).filter(|line| **line != "./ORIG_HEAD").collect();
            assert!(both.is_empty(), "{what}: {both:#?}");
        }
        assert_eq!(self.left_by(&format!("head.{branch}")).trim(), branch);
    }
}

/// CONTRACT 9.15
#[test]
fn a_large_worktree_is_used_again_and_a_small_one_is_not_kept() {
    let repo = large(&[("work", CENSUS)]);
    repo.step("one", "work");
    assert_eq!(repo.pool().len(), 1, "{:?}", repo.worktrees());
    let list = repo.git(["worktree", "list", "--porcelain"]);
    assert!(list.contains("locked aynig pool"), "{list}");
    repo.step("two", "work");
    assert_eq!(repo.pool().len(), 1);
    assert_eq!(repo.left_by("inode.one"), repo.left_by("inode.two"), "the same file, not written again");
    assert!(!repo.path.join(".worktrees").exists(), "nothing is left where worktrees are made");
    repo.fresh("work");
    repo.assert_like_fresh("two");
    repo.assert_tidy();

    let small = Repo::scene(&[("work", "next done")]);
    small.step("one", "work");
    small.assert_tidy();
}

/// CONTRACT 9.15
#[test]
fn nothing_of_a_step_reaches_the_next() {
    let mut commands: Vec<(String, String)> = LEFTOVERS
        .iter()
        .map(|(name, mess)| ((*name).to_owned(), format!("{{ {mess}; }} >&2\nnext done")))
        .collect();
    commands.push(("look".to_owned(), CENSUS.to_owned()));
    let borrowed: Vec<(&str, &str)> =
        commands.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let repo = large(&borrowed);
    repo.fresh("look");
    repo.step("prime", "look");
    for (name, _) in LEFTOVERS {
        assert_eq!(repo.pool().len(), 1, "before {name}");
        let mess = repo.ready(name, name);
        repo.aynig(["run", "--branch", name]);
        assert_ne!(repo.head(name), mess, "{name} was run");
        for key in ["core.fileMode", "extensions.worktreeConfig", "core.sparseCheckout", "index.sparse"] {
            // A setting for all worktrees is not a leftover of one.
            repo.git_command().args(["config", "--unset-all", key]).output().expect("git runs");
        }
        let look = format!("after-{name}");
        repo.step(&look, "look");
        repo.assert_like_fresh(&look);
        assert_eq!(repo.git(["show", &format!("{look}:dir0/file1")]), "file 1");
        assert!(repo.pool().len() <= 2, "{:?}", repo.pool());
    }
}

#[test]
fn files_become_directories_and_go_away() {
    let repo = large(&[("work", CENSUS)]);
    repo.step("one", "work");
    repo.git(["rm", "-rq", "dir1", "dir2/file205"]);
    repo.write("dir1", "a file now\n");
    repo.write("dir2/file205/inner", "a directory now\n");
    repo.write("added/deep/file", "new\n");
    repo.commit_all("another tree");
    repo.step("two", "work");
    assert_eq!(repo.left_by("inode.one"), repo.left_by("inode.two"), "unchanged files were not written");
    repo.fresh("work");
    repo.assert_like_fresh("two");
}

#[test]
fn files_that_are_to_be_written_in_another_way_are_written_again() {
    let repo =
        large(&[("work", &format!("od -c dir0/file1 | head -1 >\"$ROOM/bytes.$AYNIG_BRANCH\"\n{CENSUS}"))]);
    repo.step("one", "work");
    repo.write(".gitattributes", "dir0/* text eol=crlf\n");
    repo.commit_all("line ends");
    repo.step("two", "work");
    assert!(repo.left_by("bytes.two").contains("\\r"), "{}", repo.left_by("bytes.two"));
}

/// CONTRACT 9.15
#[test]
fn ignored_files_stay_where_that_is_asked_for() {
    let build = "[ -e a.ignored ] && say seen.$AYNIG_BRANCH yes; echo x >a.ignored; echo y >b; next done";
    let repo = large(&[("work", build)]);
    repo.git(["config", "aynig.poolKeepIgnored", "true"]);
    repo.step("one", "work");
    repo.step("two", "work");
    assert_eq!(repo.said("seen.two"), "yes");
    assert_eq!(repo.rescues().len(), 2, "untracked files are saved as ever: {:?}", repo.rescues());
}

/// CONTRACT 9.15
#[test]
fn no_more_are_kept_than_asked_for_and_two_runners_never_share_one() {
    let work = format!(
        "mkdir \"$ROOM/in.$(stat -c %i .)\" || exit 7\n{CENSUS}\nsay up.$AYNIG_BRANCH x\nawait go; rmdir \"$ROOM/in.$(stat -c %i .)\""
    );
    let repo = large(&[("work", &work)]);
    for round in ["a", "b"] {
        for n in 0..4 {
            repo.ready(&format!("{round}{n}"), "work");
        }
        let runners = [0, 1].map(|_| repo.aynig_start(["run", "--jobs", "2"]));
        for n in 0..4 {
            repo.said(&format!("up.{round}{n}"));
        }
        repo.release("go");
        for runner in runners {
            let output = runner.finish();
            assert!(output.status.success(), "{}", told(&output));
        }
        for n in 0..4 {
            assert_eq!(repo.state(&format!("{round}{n}")), "done");
        }
        assert_eq!(repo.pool().len(), 2, "{:?}", repo.worktrees());
        std::fs::remove_file(repo.beside("go")).expect("released");
    }
    repo.git(["config", "aynig.pool", "1"]);
    repo.release("go");
    repo.step("c", "work");
    assert_eq!(repo.pool().len(), 1, "{:?}", repo.worktrees());
}

/// CONTRACT 9.15
#[test]
fn a_worktree_with_a_survivor_or_of_a_killed_runner_is_not_kept() {
    // From outside the worktree, with a file in it open.
    let stay = r#"
( cd / && exec 3>>"$WORKTREE_PATH/dir0/file1" && say holds x && await go && echo late >&3 ) >/dev/null 2>&1 &
await holds
next done"#;
    let repo = large(&[
        ("stay", stay),
        ("wait", "echo x >new; say waits $$; await never; next done"),
        ("look", CENSUS),
    ]);
    repo.fresh("look");
    repo.step("held", "stay");
    assert_eq!(repo.pool(), Vec::<String>::new(), "a process has a file in it open");
    repo.step("look1", "look");
    repo.release("go");
    repo.assert_like_fresh("look1");
    assert_eq!(repo.pool().len(), 1);

    repo.ready("killed", "wait");
    let runner = repo.aynig_start(["run", "--lease-seconds", "1", "--branch", "killed"]);
    let command = repo.said_pid("waits");
    runner.signal(Signal::SIGKILL);
    runner.finish();
    command.gone();
    repo.deserted();
    repo.run_until("killed", "stalled", &["run", "--branch", "killed"]);
    assert_eq!(repo.show(&format!("{}:new", repo.rescue())), "x", "its work was saved");
    repo.step("look2", "look");
    repo.assert_like_fresh("look2");
    assert_eq!(repo.pool().len(), 1, "{:?}", repo.worktrees());
}

/// CONTRACT 9.15
#[test]
fn what_is_wrong_with_a_kept_worktree_costs_a_checkout_and_no_more() {
    let repo = large(&[("look", CENSUS)]);
    repo.fresh("look");
    let harm: [(&str, Harm); 5] = [
        ("removed", |_, kept| std::fs::remove_dir_all(kept).expect("it is there")),
        ("pool-removed", |_, kept| {
            std::fs::remove_dir_all(kept.parent().expect("the pool")).expect("it is there")
        }),
        ("changed", |_, kept| std::fs::write(kept.join("dir0/file1"), "x").expect("it is there")),
        ("added", |_, kept| std::fs::write(kept.join("more.ignored"), "x").expect("it is there")),
        ("other", |repo, kept| {
            std::fs::write(kept.join(".git"), format!("gitdir: {}/.git\n", repo.path.display()))
                .expect("it is there")
        }),
    ];
    for (name, harm) in harm {
        repo.step(&format!("before-{name}"), "look");
        let kept = repo.pool();
        assert_eq!(kept.len(), 1, "{name}: {kept:?}");
        harm(&repo, PathBuf::from(&kept[0]));
        repo.step(name, "look");
        repo.assert_like_fresh(name);
        assert_eq!(repo.pool().len(), 1, "{name}: {:?}", repo.worktrees());
    }
    // Half taken: the runner died before it wrote the mark of the attempt.
    let kept = repo.pool().remove(0);
    let own = repo.git(["-C", &kept, "rev-parse", "--absolute-git-dir"]);
    std::fs::remove_file(PathBuf::from(own).join("aynig-pool")).expect("it was ready");
    repo.step("half", "look");
    repo.assert_like_fresh("half");
    assert!(!repo.worktrees().contains(&kept) && repo.pool().len() == 1, "{:?}", repo.worktrees());
    assert_eq!(repo.rescues(), Vec::<String>::new(), "no command was ever in it");
}

#[test]
fn a_bare_repository_with_a_remote_has_a_pool_too() {
    let repo = large(&[("look", CENSUS)]);
    repo.ready("one", "look");
    repo.git(["clone", "--quiet", "--bare", ".", "../clone.git"]);
    let clone = repo.beside("clone.git");
    let remote = repo.path.display().to_string();
    let at = |arguments: &[&str]| {
        let output = repo.aynig_command().current_dir(&clone).args(arguments).output().expect("aynig runs");
        assert!(output.status.success(), "{}", told(&output));
    };
    let configured =
        repo.git_command().current_dir(&clone).args(["config", "remote.origin.url", &remote]).status();
    assert!(configured.expect("git runs").success());
    at(&["run", "--remote", "origin"]);
    assert_eq!(repo.state("one"), "done");
    repo.ready("two", "look");
    at(&["run", "--remote", "origin"]);
    assert_eq!(repo.state("two"), "done");
    assert_eq!(repo.left_by("inode.one"), repo.left_by("inode.two"));
    assert_eq!(repo.left_by("head.two").trim(), "HEAD", "detached");
    assert_eq!(repo.left_by("census.one"), repo.left_by("census.two"));
    assert_eq!(repo.left_by("status.two"), "");
}

#[cfg(debug_assertions)]
#[test]
fn a_runner_killed_over_a_kept_worktree_leaves_nothing_in_the_way() {
    use aynig::crashpoint::Point;
    for point in
        [Point::PoolMarked, Point::PoolRelinked, Point::PoolShelved, Point::PoolTaken, Point::PoolRefilled]
    {
        let repo = large(&[
            ("work", &format!("{CENSUS}\necho left >left.ignored; echo more >>dir0/file2; git add -A")),
            ("look", CENSUS),
        ]);
        repo.fresh("look");
        repo.step("earlier", "work");
        repo.ready("task", "work");
        let mut runner = repo.aynig_command();
        runner.args(["run", "--lease-seconds", "30"]).env("AYNIG_CRASH_AT", point.name());
        let output = runner.output().expect("aynig runs");
        let killed = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(killed, Some(9), "{point:?}: {}", told(&output));
        repo.deserted();
        let landed = matches!(point, Point::PoolMarked | Point::PoolRelinked | Point::PoolShelved);
        assert_eq!(repo.state("task"), if landed { "done" } else { "working" }, "{point:?}");
        // The lease has expired for the next runner. The branch after it gets a normal worktree.
        let mut later = repo.aynig_command();
        later.args(["run"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "40");
        later.output().expect("aynig runs");
        assert_eq!(repo.state("task"), if landed { "done" } else { "stalled" }, "{point:?}");
        repo.step("next", "look");
        repo.assert_like_fresh("next");
        repo.git(["config", "aynig.pool", "0"]);
        repo.step("last", "look");
        assert_eq!(repo.worktrees(), Vec::<String>::new(), "{point:?}");
        repo.assert_tidy();
    }
}
