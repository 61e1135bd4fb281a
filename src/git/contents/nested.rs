//! Finds submodules in a worktree whose contents exist nowhere else.
//!
//! Invariant: git keeps a submodule's repository in the worktree or in its registration, and loses
//! it with them. So a submodule counts as saved only if nothing in it is changed and all its
//! commits were fetched (CONTRACT 9.7). Only reads, and runs no program that the configuration of a
//! repository in a worktree names: a command may have written it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use gix::objs::tree::EntryKind;

use crate::contract::headlog;
use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::contents::hidden::{hidden, unapplied};
use crate::git::contents::in_progress::FILES;
use crate::git::objects::commits::Stored;
use crate::git::process::call::{Git, ProcessError};
use crate::git::refs::reflog;
use crate::git::repo::executing::status_executes;
use crate::git::repo::open::{Repo, ours};
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::{Workplace, plain};

impl Repo {
    /// The submodules of a worktree whose configuration names programs that `git status` runs, each
    /// with the reason. Git must not look into them, and that includes `git add` and `git status` at
    /// the top.
    pub(crate) fn programmed_submodules(&self, worktree: &Worktree) -> Result<Vec<String>, ProcessError> {
        if !worktree.path.is_dir() {
            return Ok(Vec::new());
        }
        let mut found = Looked::default();
        found.add(&worktree.path, self.links_of(worktree)?);
        let shown = |(path, why): (PathBuf, String)| {
            format!("{}: {why}", path.strip_prefix(&worktree.path).unwrap_or(&path).display())
        };
        Ok(found.programmed.into_iter().map(shown).collect())
    }

    /// The submodules that are there in a worktree, and theirs, without those that git must not look into.
    pub(super) fn submodules_there(&self, worktree: &Worktree) -> Result<Vec<PathBuf>, ProcessError> {
        let mut found = Looked::default();
        found.add(&worktree.path, self.links_of(worktree)?);
        let below = |path: PathBuf| path.strip_prefix(&worktree.path).map(Path::to_owned).unwrap_or(path);
        Ok(found.safe.into_iter().map(below).collect())
    }

    /// The submodules in the index of a worktree.
    pub(crate) fn links_of(&self, worktree: &Worktree) -> Result<Vec<(PathBuf, CommitId)>, ProcessError> {
        let index = worktree.git_dir.join("index");
        Ok(match self.index_file(&index) {
            Some(index_file) => index_file.gitlinks(),
            None if index.exists() => gitlinks(worktree.git(["ls-files", "--stage", "-z"]))?,
            // A snapshot begins from HEAD then.
            None => gitlinks(worktree.git(["ls-tree", "-r", "-z", "HEAD"])).unwrap_or_default(),
        })
    }

    /// The submodules of a worktree whose contents exist nowhere else, each with what it has.
    pub(crate) fn unsaved_submodules(&self, worktree: &Worktree) -> Result<Vec<String>, ProcessError> {
        if modules(&worktree.git_dir).is_empty() && !worktree.path.is_dir() {
            return Ok(Vec::new());
        }
        let index_file = self.index_file(&worktree.git_dir.join("index"));
        let staged = match &index_file {
            Some(index_file) => index_file.gitlinks(),
            None => gitlinks(worktree.git(["ls-files", "--stage", "-z"]))?,
        };
        let fetched = match made_from(worktree).and_then(|commit| self.commit(commit).ok()) {
            // Usually no file was staged, and the index is the tree the worktree was made from.
            Some(made)
                if index_file.and_then(|index_file| self.noted_tree(&index_file)) == Some(made.tree) =>
            {
                staged.clone()
            }
            Some(made) => self.gitlinks_of(worktree, &made)?,
            None => Vec::new(),
        };
        self.unsaved_in(worktree, staged, &fetched)
    }

    /// The unsaved submodules of the repository at `place`, which has or had submodules at the paths in `links` and
    /// `fetched`. The commits in `fetched` were not made here.
    fn unsaved_in(
        &self,
        place: &Workplace,
        links: Vec<(PathBuf, CommitId)>,
        fetched: &[(PathBuf, CommitId)],
    ) -> Result<Vec<String>, ProcessError> {
        let known = |path: &Path| fetched.iter().find(|(known, _)| known == path).map(|(_, commit)| *commit);
        let paths: BTreeSet<PathBuf> =
            links.into_iter().chain(fetched.iter().cloned()).map(|(path, _)| path).collect();
        let (mut unsaved, mut seen) = (Vec::new(), BTreeSet::new());
        for path in &paths {
            let inside = place.path.join(path);
            if !is_populated(&inside) {
                continue;
            }
            if let Some(why) = self.unsaved_there(&inside, known(path))? {
                unsaved.push(format!("{}: {why}", path.display()));
            }
            seen.extend(git_dir_of(&inside));
        }
        // Git keeps a submodule's repository when its files go, by `git submodule deinit` or with
        // the whole worktree. Its name may be the path of another one.
        for (name, repository) in modules(&place.git_dir) {
            if repository.canonicalize().is_ok_and(|repository| seen.contains(&repository)) {
                continue;
            }
            if let Some(why) = unsaved_left(&repository, known(&name))? {
                unsaved.push(format!("{}: {why}", name.display()));
            }
        }
        Ok(unsaved)
    }

    /// The submodule commits of a commit of ours. What is not all here is fetched by git.
    pub(super) fn gitlinks_of(
        &self,
        worktree: &Worktree,
        made: &Stored,
    ) -> Result<Vec<(PathBuf, CommitId)>, ProcessError> {
        let Ok(walked) = self.walk(made.tree) else {
            return gitlinks(worktree.git(["ls-tree", "-r", "-z", &made.id.to_string()]));
        };
        let links = walked.into_iter().filter(|entry| entry.kind == EntryKind::Commit);
        Ok(links.map(|link| (PathBuf::from(OsStr::from_bytes(&link.path)), ours(&link.id))).collect())
    }
}

/// Submodules that are there.
#[derive(Debug, Default)]
struct Looked {
    /// Git may look into them.
    safe: Vec<PathBuf>,
    /// Git must not look into them, for this reason.
    programmed: Vec<(PathBuf, String)>,
}

impl Looked {
    /// Adds the submodules `links` in `top`, and theirs.
    fn add(&mut self, top: &Path, links: Vec<(PathBuf, CommitId)>) {
        for (path, _) in links {
            let inside = top.join(path);
            if !is_populated(&inside) {
                continue;
            }
            match named_program(&inside).and_then(|named| match named {
                Some(key) => Ok(Err(format!("its configuration sets {key}, and git would run that"))),
                None => gitlinks(Git::new(&inside).args(["ls-files", "--stage", "-z"])).map(Ok),
            }) {
                Ok(Ok(links)) => {
                    self.add(&inside, links);
                    self.safe.push(inside);
                }
                Ok(Err(why)) => self.programmed.push((inside, why)),
                Err(error) => self.programmed.push((inside, error.to_string())),
            }
        }
    }
}

/// A key in the configuration of the submodule in `directory` by which `git status` would run a
/// program, or look elsewhere.
fn named_program(directory: &Path) -> Result<Option<String>, ProcessError> {
    let top = Git::new(directory).args(["rev-parse", "--show-toplevel"]).run()?.stdout;
    let top = Path::new(OsStr::from_bytes(top.trim_end_with(|byte| byte == '\n')));
    if top.canonicalize().ok() != directory.canonicalize().ok() {
        return Ok(Some("core.worktree".to_owned()));
    }
    let settings = ["config", "--show-scope", "--includes", "--name-only", "--list", "-z"];
    let listed = Git::new(directory).args(settings).run()?.stdout;
    let mut fields = listed.split(|byte| *byte == 0);
    while let (Some(scope), Some(key)) = (fields.next(), fields.next()) {
        let key = key.to_str_lossy();
        if (scope == b"local" || scope == b"worktree") && status_executes(&key) {
            return Ok(Some(key.into_owned()));
        }
    }
    Ok(None)
}

/// The commit a worktree was made from, if its reflog still has it. Its submodule commits were fetched, not made here.
pub(super) fn made_from(worktree: &Worktree) -> Option<CommitId> {
    // Git drops the oldest entries after some time.
    reflog::of_head(&worktree.git_dir).first().filter(|made| made.from.is_null()).map(|made| made.to)
}

/// The private git directory of the submodule in `directory`, without links.
fn git_dir_of(directory: &Path) -> Option<PathBuf> {
    let own = directory.join(".git");
    // A pipe in its place would block.
    let Ok(named) = fsutil::read_plain(&own) else { return own.canonicalize().ok() };
    let named = named.strip_prefix(b"gitdir: ")?.trim_end();
    directory.join(OsStr::from_bytes(named)).canonicalize().ok()
}

fn is_populated(directory: &Path) -> bool {
    directory.join(".git").symlink_metadata().is_ok()
}

impl Repo {
    /// The contents of a submodule that exist nowhere else, in words; `fetched` is the commit it was made from.
    fn unsaved_there(
        &self,
        directory: &Path,
        fetched: Option<CommitId>,
    ) -> Result<Option<String>, ProcessError> {
        let Some(git_dir) = git_dir_of(directory) else { return Ok(Some("a damaged .git".to_owned())) };
        let git = || Git::new(directory);
        let changes = git()
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .args(self.with_cases())
            .args(["status", "--porcelain", "-z", "--untracked-files=normal"])
            .args(["--ignore-submodules=untracked"])
            .run_over_all()?;
        let has_changes = !changes.stdout.is_empty() || overlooks_files(directory)?;
        if has_changes {
            return Ok(Some("changes that are not committed".to_owned()));
        }
        if let Some(why) = unsaved_commits(git(), &git_dir, fetched)? {
            return Ok(Some(why));
        }
        let head = git().args(["rev-parse", "--verify", "HEAD"]).run()?.stdout;
        let place = Workplace { path: directory.to_owned(), git_dir };
        if let Some(head) = CommitId::parse_hex(head.trim_end())
            && self.has_filtered_at(&place, head)?
        {
            return Ok(Some("contents that a filter leaves out".to_owned()));
        }
        let links_of = |commit: &str| gitlinks(git().args(["ls-tree", "-r", "-z", commit]));
        let head = links_of("HEAD")?;
        let links = head.iter().map(|(path, _)| path.clone()).collect();
        let mut rest = hidden(directory, &links, &|| git().args(["check-ignore"]))?;
        // A push of its HEAD does not push the commits of its own submodules.
        let fetched = fetched.map_or(Ok(Vec::new()), |commit| links_of(&commit.to_string()))?;
        rest.extend(self.unsaved_in(&place, head, &fetched)?);
        Ok((!rest.is_empty()).then(|| rest.join(", ")))
    }
}

/// The contents of an absent submodule's repository that exist nowhere else, in words.
fn unsaved_left(repository: &Path, fetched: Option<CommitId>) -> Result<Option<String>, ProcessError> {
    let gone = repository.join("gone");
    let git = || Git::inside(&gone, repository);
    if let Some(why) = unsaved_commits(git(), repository, fetched)? {
        return Ok(Some(why));
    }
    if !has_nothing_staged(git(), repository)? {
        return Ok(Some("changes that are staged".to_owned()));
    }
    for (name, nested) in modules(repository) {
        if let Some(why) = unsaved_left(&nested, None)? {
            return Ok(Some(format!("{}: {why}", name.display())));
        }
    }
    Ok(None)
}

/// The contents of a submodule's repository that were not fetched, besides its index, in words.
fn unsaved_commits(
    git: Git,
    git_dir: &Path,
    fetched: Option<CommitId>,
) -> Result<Option<String>, ProcessError> {
    if has_worktrees(git_dir) {
        return Ok(Some("a further worktree".to_owned()));
    }
    if let Some(why) = unapplied(git_dir) {
        return Ok(Some(why.to_owned()));
    }
    let are_saved = commits_are_saved(git, git_dir, fetched)?;
    Ok((!are_saved).then(|| "commits that no branch of a remote has".to_owned()))
}

/// Whether a submodule has a further worktree, which goes with its repository.
fn has_worktrees(git_dir: &Path) -> bool {
    std::fs::read_dir(git_dir.join("worktrees")).is_ok_and(|mut all| all.next().is_some())
}

/// Whether a submodule has files that its index tells git not to compare.
fn overlooks_files(directory: &Path) -> Result<bool, ProcessError> {
    let listed = Git::new(directory).args(["ls-files", "-v", "-z"]).run()?.stdout;
    // "<tag> <path>": a lower-case tag is of `--assume-unchanged`, `S` of `--skip-worktree`.
    let mut overlooked = listed.split(|byte| *byte == 0).filter_map(|line| {
        let tag = *line.first()?;
        (tag.is_ascii_lowercase() || tag == b'S').then(|| line.get(2..)).flatten()
    });
    Ok(overlooked.any(|path| directory.join(OsStr::from_bytes(path)).symlink_metadata().is_ok()))
}

/// Whether the index of a submodule is that of its HEAD, or was never written.
fn has_nothing_staged(git: Git, git_dir: &Path) -> Result<bool, ProcessError> {
    if !git_dir.join("index").exists() {
        return Ok(true);
    }
    let compared = git.args(["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD"]);
    Ok(compared.env("GIT_NO_LAZY_FETCH", "1").run_unchecked()?.status.success())
}

/// Whether all commits of the submodule that `git` acts on were fetched.
fn commits_are_saved(git: Git, git_dir: &Path, fetched: Option<CommitId>) -> Result<bool, ProcessError> {
    // A commit that was left is in the log of HEAD alone, which goes, too.
    let left = headlog::left(&reflog::of_head(git_dir), |_, _| false);
    let mut own = git.args(["rev-list", "--max-count=1", "--all", "HEAD"]);
    for commit in left {
        own = own.arg(commit.to_string());
    }
    // Commits that a merge or a rebase has put aside.
    for (name, _) in FILES {
        let named = reflog::read_if_there(&git_dir.join(name))?;
        for id in named.split(|byte| byte.is_ascii_whitespace()).filter_map(CommitId::parse_hex) {
            own = own.arg(id.to_string());
        }
    }
    own = own.args(["--not", "--remotes"]);
    if let Some(fetched) = fetched {
        own = own.arg(fetched.to_string());
    }
    // An error counts as unsaved: nothing is known of a repository without commits, or without the
    // commit it was made from.
    let own = own.env("GIT_NO_LAZY_FETCH", "1").run_unchecked()?;
    Ok(own.status.success() && own.stdout.is_empty())
}

/// The submodules' repositories in a private git directory, by name, without those of their submodules.
fn modules(git_dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let top = git_dir.join("modules");
    let (mut ahead, mut found) = (vec![top.clone()], Vec::new());
    while let Some(next) = ahead.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.join("objects").is_dir() {
                found.push((path.strip_prefix(&top).unwrap_or(&path).to_owned(), path));
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                ahead.push(path);
            }
        }
    }
    found
}

/// Records in the submodules' repositories in a registration that the worktree was renamed: git has noted its place in
/// them. A configuration that is no plain file is left as it is.
pub(crate) fn rename_in_submodules(git_dir: &Path, from: &Path, to: &Path) {
    for (_, repository) in modules(git_dir) {
        // Of a sparse one, git has noted it in the second.
        for name in ["config", "config.worktree"] {
            rename_in(&repository, &repository.join(name), from, to);
        }
        rename_in_submodules(&repository, from, to);
    }
}

/// Records it in one file of one repository.
fn rename_in(repository: &Path, config: &Path, from: &Path, to: &Path) {
    if !config.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return;
    }
    let call = |more: &[&OsStr]| {
        let file = [OsStr::new("config"), OsStr::new("--file"), config.as_os_str()];
        let key = [OsStr::new("core.worktree")];
        Git::inside(repository, repository).args(file).args(key).args(more).run()
    };
    let Ok(noted) = call(&[]) else { return };
    let noted = repository.join(OsStr::from_bytes(noted.stdout.trim_end()));
    let Ok(below) = plain(&noted).strip_prefix(from).map(Path::to_owned) else { return };
    if let Err(error) = call(&[to.join(below).as_os_str()]) {
        tracing::warn!(config = %config.display(), %error, "a submodule does not know its new place");
    }
}

/// The gitlinks in the output of `git ls-tree -z` or `git ls-files --stage -z`.
pub(crate) fn gitlinks(listing: Git) -> Result<Vec<(PathBuf, CommitId)>, ProcessError> {
    let output = listing.run()?;
    let entries = output.stdout.split(|byte| *byte == 0);
    Ok(entries
        .filter_map(|entry| {
            // "160000 commit <id>\t<path>" of a tree, "160000 <id> <stage>\t<path>" of an index
            let (facts, path) = entry.strip_prefix(b"160000 ")?.split_once_str("\t")?;
            let id = facts.split(|byte| *byte == b' ').find_map(CommitId::parse_hex)?;
            Some((PathBuf::from(OsStr::from_bytes(path)), id))
        })
        .collect())
}
