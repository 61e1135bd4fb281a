//! Fetches files of another repository and writes them into a checkout, with git's own commands and
//! checks.
//!
//! Invariant: fetched objects stay in a separate bare repository; no ref, object or index of this
//! repository changes. Git itself refuses hostile trees when fetching (`fsckObjects`), and refuses
//! to write below a symbolic link or over a file that differs from HEAD (`git apply`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::ByteSlice;
use serde::{Deserialize, Serialize};

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::process::call::{Git, ProcessError};
use crate::git::process::cancel::Purpose;
use crate::git::remote::QUIET_FETCH;
use crate::git::repo::open::Repo;
use crate::git::worktrees::registration::Checkout;

/// The longest one fetch may take. No lock is held meanwhile.
const PATIENCE: Duration = Duration::from_secs(600);

/// Limits of a pack: the number of files, and their total size in bytes.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The ref in the separate repository.
const FETCHED: &str = "refs/aynig/pack";

/// Why another repository's files are not available.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The source does not answer, or denies access.
    #[error("could not fetch from the source")]
    Unreachable(#[source] ProcessError),
    /// The source has no such ref.
    #[error("the source has no branch, tag or commit {0}")]
    NoRef(String),
    /// Git's check of the fetched objects failed.
    #[error("git refuses what the source holds: {0}")]
    Hostile(String),
    /// git failed on this machine.
    #[error("could not read what was fetched")]
    Unreadable(#[from] ProcessError),
    /// The pack exceeds a limit.
    #[error("the pack is larger than {MAX_FILES} files or {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
}

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// The mode as git writes it in a tree: `100644`, `100755`, `120000` for a symbolic link,
    /// `160000` for a submodule.
    pub mode: String,
    /// Its object id, in hex.
    pub id: String,
}

impl Blob {
    /// Whether it is executable, or a symbolic link, which may lead to an executable.
    pub fn may_run(&self) -> bool {
        self.mode != "100644"
    }
}

/// Files by their paths.
pub type Files = BTreeMap<String, Blob>;

/// A commit of another repository.
#[derive(Debug)]
pub struct Fetched {
    /// Its id in the source.
    pub commit: CommitId,
    /// The bare repository with its files, named after its object format.
    repo: PathBuf,
}

/// The date of commits that stand for plain directories.
const EPOCH: &str = "@0 +0000";

/// Whether `text` can name a branch or a tag.
pub fn is_refname(text: &str) -> bool {
    gix::validate::reference::name_partial(text.into()).is_ok()
}

fn git(repo: &Path) -> Git {
    Git::shared(repo).env("GIT_DIR", repo).args(["-c", "core.protectHFS=true"])
}

/// Creates a bare repository in `directory`.
fn quarantine(directory: &Path, format: &str) -> Result<PathBuf, ProcessError> {
    let git = Git::new(directory).env("GIT_DEFAULT_REF_FORMAT", "files");
    let format_option = format!("--object-format={format}");
    git.args(["init", "--quiet", "--bare", "--template=", &format_option, format]).run()?;
    Ok(directory.join(format))
}

/// The files below the directory `path` of a commit, and their total size in bytes. If `path` is
/// not a directory, that entry has the empty name.
fn list(git: Git, commit: &str, path: &str) -> Result<(Files, u64), ProcessError> {
    let git = git.env("GIT_LITERAL_PATHSPECS", "1").args(["ls-tree", "-r", "-l", "-z", commit, "--"]);
    let output = git.args(Some(path).filter(|path| !path.is_empty())).run()?;
    let (mut files, mut bytes) = (Files::new(), 0);
    for line in output.stdout.split(|byte| *byte == 0) {
        let line = line.to_str_lossy();
        let Some((facts, name)) = line.split_once('\t') else { continue };
        let [mode, _, id, size] = facts.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        bytes += size.parse::<u64>().unwrap_or(0);
        // Old trees may contain other permissions.
        let mode = if mode.starts_with("1006") { "100644" } else { mode };
        let name = name.strip_prefix(path).unwrap_or(name).trim_start_matches('/');
        files.insert(name.to_owned(), Blob { mode: mode.to_owned(), id: id.to_owned() });
    }
    Ok((files, bytes))
}

/// Whether git failed with these words.
fn said<T>(result: &Result<T, ProcessError>, words: &str) -> bool {
    result.as_ref().is_err_and(|error| error.to_string().contains(words))
}

impl Fetched {
    /// The files below the directory `path` of the commit, with ids in the object format of `repo`;
    /// empty if there is no such directory.
    pub fn files(&mut self, repo: &Repo, path: &str) -> Result<Files, PackError> {
        let (mut files, bytes) = list(git(&self.repo), &self.commit.to_string(), path)?;
        if files.len() > MAX_FILES || bytes > MAX_BYTES {
            return Err(PackError::TooLarge);
        }
        if files.remove("").is_some() || files.is_empty() {
            return Ok(Files::new());
        }
        let format = repo.gix.object_hash().to_string();
        if !self.repo.ends_with(&format) {
            // Exports a commit of these files alone to a repository of the other format.
            let git = || git(&self.repo).args(["-c", "user.name=aynig", "-c", "user.email=aynig"]);
            let tree = format!("{}:{path}", self.commit);
            let commit = git().args(["commit-tree", "-m", "pack", &tree]).run()?.text();
            git().args(["update-ref", FETCHED, &commit]).run()?;
            let stream = git().args(["fast-export", FETCHED]).run()?.stdout;
            let other = quarantine(self.repo.parent().unwrap_or(&self.repo), &format)?;
            crate::git::objects::bundle::git(&other).args(["fast-import", "--quiet"]).stdin(stream).run()?;
            self.repo = other;
            files = list(crate::git::objects::bundle::git(&self.repo), FETCHED, "")?.0;
        }
        Ok(files)
    }

    /// The directories of the commit that contain a directory `name`, the nearest to the top first.
    pub fn directories_with(&self, name: &str) -> Vec<String> {
        let git =
            git(&self.repo).args(["ls-tree", "-r", "-d", "-z", "--name-only", &self.commit.to_string()]);
        let listed = git.run().map(|output| output.stdout.to_str_lossy().into_owned()).unwrap_or_default();
        let paths = listed.split('\0').filter_map(|path| path.strip_suffix(name)?.strip_suffix('/'));
        let mut found: Vec<String> = paths.map(str::to_owned).collect();
        found.sort_by_key(|path| path.matches('/').count());
        found
    }

    /// The target of a symbolic link.
    pub fn target(&self, link: &Blob) -> Result<String, PackError> {
        let output = git(&self.repo).args(["cat-file", "blob", &link.id]).run()?;
        Ok(output.stdout.to_str_lossy().into_owned())
    }

    /// The patch that makes `changes` (`None`: remove) to the directory `tree`, and adds the file
    /// `more`, given by name and contents.
    pub fn patch(
        &self,
        repo: &Repo,
        tree: Option<CommitId>,
        changes: &[(&str, Option<&Blob>)],
        more: Option<(&str, &[u8])>,
    ) -> Result<Vec<u8>, PackError> {
        let git = || git(&self.repo);
        let objects = repo.common_dir().join("objects");
        let alternates = self.repo.join("objects/info/alternates");
        let written = fsutil::replace(&alternates, &[objects.as_os_str().as_bytes(), b"\n"].concat());
        // Without it git misses objects and reports that.
        written.unwrap_or_else(|error| tracing::warn!(%error, "could not write {}", alternates.display()));
        let tree = tree.map_or("--empty".to_owned(), |tree| tree.to_string());
        git().args(["read-tree", &tree]).run()?;
        let before = git().args(["write-tree", "--missing-ok"]).run()?.text();
        let mut lines = String::new();
        for (path, blob) in changes {
            lines.push_str(&match blob {
                Some(Blob { mode, id }) => format!("{mode} {id}\t{path}\0"),
                None => format!("0 {}\t{path}\0", "0".repeat(before.len())),
            });
        }
        if let Some((path, content)) = more {
            let id = git().args(["hash-object", "-w", "--stdin"]).stdin(content).run()?.text();
            lines.push_str(&format!("100644 {id}\t{path}\0"));
        }
        let added = git().args(["update-index", "-z", "--index-info"]).stdin(lines).run()?;
        if !added.stderr.is_empty() {
            // Not every transport checks names. Here git skips names that it would not write, and
            // warns.
            return Err(PackError::Hostile(added.complaint()));
        }
        let after = git().args(["write-tree", "--missing-ok"]).run()?.text();
        let how =
            ["--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color"];
        Ok(git().args(["diff-tree", "-r", "-p"]).args(how).args([&before, &after]).run()?.stdout)
    }
}

impl Repo {
    /// Fetches `reference` from `url` into a separate repository in `directory`: one commit only, if the
    /// source supports that.
    pub fn fetch_pack(&self, directory: &Path, url: &OsStr, reference: &str) -> Result<Fetched, PackError> {
        let mut repo = quarantine(directory, "sha1")?;
        let mut fetched = self.fetch_into(&repo, url, reference);
        if said(&fetched, "mismatched algorithms") {
            repo = quarantine(directory, "sha256")?;
            fetched = self.fetch_into(&repo, url, reference);
        }
        let missing = || PackError::NoRef(reference.to_owned());
        fetched.map_err(|error| match error.to_string() {
            words if words.contains("fsck error") => PackError::Hostile(words),
            words if words.contains("find remote ref") => missing(),
            _ => PackError::Unreachable(error),
        })?;
        let commit = format!("{FETCHED}^{{commit}}");
        let commit =
            git(&repo).args(["rev-parse", "--verify", "--quiet", &commit]).run().map_err(|_| missing())?;
        Ok(Fetched { commit: CommitId::parse_hex(commit.text()).ok_or_else(missing)?, repo })
    }

    /// Whether this is a directory that git could not fetch from.
    pub fn is_plain_directory(path: &Path) -> bool {
        let is_git = |path: &Path| path.join("HEAD").exists() && path.join("objects").is_dir();
        path.is_dir() && !path.join(".git").exists() && !is_git(path)
    }

    /// Commits the directory `path` of a plain directory in a separate repository in `room`. The same files give
    /// the same commit.
    pub fn take_directory(&self, room: &Path, from: &Path, path: &str) -> Result<Fetched, PackError> {
        let repo = quarantine(room, &self.gix.object_hash().to_string())?;
        let plain = ["core.bare=false", "core.autocrlf=false", "core.protectNTFS=true", "user.name=aynig"];
        let git = || {
            let git = plain.iter().fold(git(&repo), |git, setting| git.args(["-c", setting]));
            git.args(["-c", "user.email=aynig"]).env("GIT_WORK_TREE", from).env("GIT_LITERAL_PATHSPECS", "1")
        };
        if from.join(path).exists() {
            git().args(["add", "--all", "--force", "--end-of-options", path]).run()?;
        }
        let tree = git().args(["write-tree"]).run()?.text();
        let dated = |git: Git| git.env("GIT_AUTHOR_DATE", EPOCH).env("GIT_COMMITTER_DATE", EPOCH);
        let commit = dated(git()).args(["commit-tree", "-m", "pack", &tree]).run()?.text();
        let missing = || PackError::NoRef(path.to_owned());
        Ok(Fetched { commit: CommitId::parse_hex(commit).ok_or_else(missing)?, repo })
    }

    fn fetch_into(&self, repo: &Path, url: &OsStr, reference: &str) -> Result<(), ProcessError> {
        let fetch = |specs: &[&str], depth: Option<&str>| {
            git(repo)
                .env("GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file")
                .args(["-c", "fetch.fsckObjects=true"])
                .args(QUIET_FETCH)
                .args(depth)
                .arg("--end-of-options")
                .arg(url)
                .args(specs)
                .known_as("fetch")
                .timeout(PATIENCE)
                .for_others(self.interrupt(), Purpose::Other)
                .run()
                .map(drop)
        };
        let one = format!("+{reference}:{FETCHED}");
        let mut fetched = fetch(&[&one], Some("--depth=1"));
        if said(&fetched, "shallow") {
            fetched = fetch(&[&one], None);
        }
        let is_id =
            matches!(reference.len(), 40 | 64) && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id && matches!(fetched, Err(ProcessError::Failed { .. })) && !said(&fetched, "fsck error") {
            // A server need not serve a commit by its id. It is then reachable from a branch or
            // tag, or not available.
            fetched = fetch(&["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"], None);
            if git(repo).args(["update-ref", FETCHED, reference]).run().is_err() {
                tracing::debug!(reference, "the source has no such commit");
            }
        }
        fetched
    }

    /// Paths below `directory` in a checkout that differ from HEAD: staged, changed, or untracked.
    pub fn uncommitted_below(
        &self,
        checkout: &Checkout,
        directory: &str,
    ) -> Result<Vec<String>, ProcessError> {
        let output = Git::inside(&checkout.path, &checkout.git_dir)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .args(["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none"])
            .args(["--no-renames", "--ignored=no", "--", directory])
            .run()?;
        let text = output.stdout.to_str_lossy();
        Ok(text.split('\0').filter_map(|line| line.get(3..)).map(str::to_owned).collect())
    }

    /// The files below `directory` in the commit of a checkout. If it is not a directory, that
    /// entry has the empty name.
    pub fn files_at_head(&self, checkout: &Checkout, directory: &str) -> Result<Files, ProcessError> {
        let Some(head) = self.checked_out(checkout) else { return Ok(Files::new()) };
        Ok(list(Git::inside(&checkout.path, &checkout.git_dir), &head.to_string(), directory)?.0)
    }

    /// The contents of a file of a checkout's commit.
    pub fn content(&self, checkout: &Checkout, blob: &Blob) -> Result<Vec<u8>, ProcessError> {
        let git = Git::inside(&checkout.path, &checkout.git_dir);
        Ok(git.args(["cat-file", "blob", &blob.id]).run()?.stdout)
    }

    /// Applies a patch below `directory` in a checkout, unless one of the files differs from HEAD.
    /// With `--check` in `more`, only checks.
    pub fn apply_below(
        &self,
        checkout: &Checkout,
        directory: &str,
        patch: &[u8],
        more: Option<&str>,
    ) -> Result<(), ProcessError> {
        let git = Git::inside(&checkout.path, &checkout.git_dir);
        let git = git.args(["apply", "--whitespace=nowarn", "--no-ignore-whitespace"]).args(more);
        git.arg(format!("--directory={directory}")).known_as("apply").stdin(patch).run().map(drop)
    }
}
