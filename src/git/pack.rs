//! Fetching files of another repository, without leaving anything of it in this one.
//!
//! Invariant: what is fetched lies in a bare repository of its own, in a directory that goes with its [`Fetched`]; no ref, no
//! object and no `shallow` file of this repository changes. Trees are read entry by entry, as they are, so that names no
//! checkout would make are seen by whoever judges them; nothing is ever checked out from them.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use bstr::{BString, ByteSlice};

use super::interrupt::{Errand, Interrupt};
use super::process::{Git, ProcessError};
use super::registration::Checkout;
use super::remote::QUIET_FETCH;
use super::repo::{Repo, error_chain, gits, ours};
use crate::contract::ids::CommitId;

/// The longest one fetch may take; nothing is locked meanwhile that others wait for.
const PATIENCE: Duration = Duration::from_secs(600);

/// No directory in a pack lies deeper.
const MAX_DEPTH: usize = 32;

/// What may be read of one pack: so many files, and so many bytes in all of them.
pub const MAX_FILES: usize = 2_000;
/// See [`MAX_FILES`].
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The ref in the repository of its own.
const FETCHED: &str = "refs/aynig/pack";

/// Why another repository's files could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// There is no room to fetch into.
    #[error("could not make a directory to fetch into in {place}")]
    Room {
        /// Where.
        place: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// No answer, or none for us.
    #[error("could not fetch from the source")]
    Unreachable(#[source] ProcessError),
    /// It answers, and does not have that ref.
    #[error("the source has no branch, tag or commit {reference}")]
    NoRef {
        /// As it was asked for.
        reference: String,
    },
    /// What came cannot be read.
    #[error("could not read what was fetched: {why}")]
    Unreadable {
        /// What was found.
        why: String,
    },
    /// More than is read.
    #[error("the pack is larger than {MAX_FILES} files or {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
}

/// What a pack's entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A regular file with the executable bit.
    Executable,
    /// A symbolic link; its content is its target.
    Link,
    /// Another repository's commit.
    Submodule,
}

/// One file of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path below the directory asked for: names as they stand in the trees, joined by `/`.
    pub path: BString,
    /// What it is.
    pub kind: Kind,
    /// Its object id, in hex.
    pub id: String,
    /// Its content; empty for a submodule.
    pub data: Vec<u8>,
}

/// A commit of another repository with all it refers to. What was fetched is removed with this value.
#[derive(Debug)]
pub struct Fetched {
    gix: gix::Repository,
    /// Which commit the ref was.
    pub commit: CommitId,
    _room: tempfile::TempDir,
}

/// Fetches `reference` from `url` into a repository of its own below `place`: one commit, where the source can do that. Ends soon after
/// `stop` says so.
///
/// # Errors
/// All of [`PackError`] but [`PackError::TooLarge`].
pub fn fetch(place: &Path, url: &OsStr, reference: &str, stop: &Interrupt) -> Result<Fetched, PackError> {
    match fetch_in_format(place, url, reference, "sha1", stop) {
        Err(error) if said(&error).contains("mismatched algorithms") => {
            fetch_in_format(place, url, reference, "sha256", stop)
        }
        other => other,
    }
}

fn fetch_in_format(
    place: &Path,
    url: &OsStr,
    reference: &str,
    format: &str,
    stop: &Interrupt,
) -> Result<Fetched, PackError> {
    let no_room = |source| PackError::Room { place: place.display().to_string(), source };
    let room = tempfile::Builder::new().prefix("fetch-").tempdir_in(place).map_err(no_room)?;
    let broken = |source: ProcessError| no_room(std::io::Error::other(source));
    Git::new(place)
        .env("GIT_DEFAULT_REF_FORMAT", "files")
        .args(["init", "--quiet", "--bare", "--template="])
        .arg(format!("--object-format={format}"))
        .arg(room.path())
        .run()
        .map_err(broken)?;
    let is_id = matches!(reference.len(), 40 | 64) && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    let one = format!("+{reference}:{FETCHED}");
    let fetch_specs = |specs: &[&str], shallow| fetch_specs(room.path(), url, specs, shallow, stop);
    let mut fetched = fetch_specs(&[&one], true);
    if fetched.as_ref().is_err_and(|error| error.to_string().contains("shallow")) {
        fetched = fetch_specs(&[&one], false);
    }
    match fetched {
        Err(ProcessError::Failed { .. }) if is_id => {
            // A server need not hand out a commit by its id; it is among what its branches and tags lead to, or nowhere.
            let all = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
            fetch_specs(&all, false).map_err(PackError::Unreachable)?;
            let named = Git::shared(room.path())
                .env("GIT_DIR", room.path())
                .args(["update-ref", FETCHED])
                .arg(reference)
                .run();
            named.map_err(|_| PackError::NoRef { reference: reference.to_owned() })?;
        }
        Err(error) if error.to_string().contains("find remote ref") => {
            return Err(PackError::NoRef { reference: reference.to_owned() });
        }
        other => other.map_err(PackError::Unreachable)?,
    }
    let unreadable = |error: &gix::Error| PackError::Unreadable { why: error_chain(error) };
    let gix = gix::open_opts(room.path(), gix::open::Options::isolated().open_path_as_is(true))
        .map_err(|error| unreadable(&error))?;
    let tip = gix
        .find_reference(FETCHED)
        .and_then(|mut found| Ok(found.peel_to_id()?.detach()))
        .map_err(|error| unreadable(&error))?;
    gix.find_commit(tip).map_err(|_| PackError::Unreadable { why: format!("{tip} is no commit") })?;
    let commit = ours(&tip);
    Ok(Fetched { gix, commit, _room: room })
}

fn fetch_specs(
    room: &Path,
    url: &OsStr,
    specs: &[&str],
    shallow: bool,
    stop: &Interrupt,
) -> Result<(), ProcessError> {
    let mut git = Git::shared(room).env("GIT_DIR", room).args(QUIET_FETCH);
    if shallow {
        git = git.arg("--depth=1");
    }
    git.arg("--end-of-options")
        .arg(url)
        .args(specs)
        .timeout(PATIENCE)
        .for_others(stop, Errand::Other)
        .run()
        .map(drop)
}

fn said(error: &PackError) -> String {
    match error {
        PackError::Unreachable(source) => source.to_string(),
        PackError::Room { .. }
        | PackError::NoRef { .. }
        | PackError::Unreadable { .. }
        | PackError::TooLarge => String::new(),
    }
}

impl Fetched {
    /// All files below the directory `path` of the commit (names joined by `/`), in the order of its trees; `None` if there is
    /// no such directory. Links are not followed.
    ///
    /// # Errors
    /// [`PackError::Unreadable`] and [`PackError::TooLarge`].
    pub fn files_below(&self, path: &str) -> Result<Option<Vec<Entry>>, PackError> {
        let Some(top) = self.directory(path)? else { return Ok(None) };
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut ahead = vec![(BString::default(), top, 0)];
        while let Some((prefix, tree, depth)) = ahead.pop() {
            for (name, kind, id) in self.entries(tree)? {
                let mut path = prefix.clone();
                path.extend_from_slice(&name);
                if kind == gix::objs::tree::EntryKind::Tree {
                    if depth >= MAX_DEPTH {
                        return Err(PackError::TooLarge);
                    }
                    path.push(b'/');
                    ahead.push((path, id, depth + 1));
                    continue;
                }
                let kind = match kind {
                    gix::objs::tree::EntryKind::BlobExecutable => Kind::Executable,
                    gix::objs::tree::EntryKind::Link => Kind::Link,
                    gix::objs::tree::EntryKind::Commit => Kind::Submodule,
                    gix::objs::tree::EntryKind::Blob | gix::objs::tree::EntryKind::Tree => Kind::File,
                };
                let data = if kind == Kind::Submodule { Vec::new() } else { self.blob(id, &mut bytes)? };
                found.push(Entry { path, kind, id: id.to_string(), data });
                if found.len() > MAX_FILES {
                    return Err(PackError::TooLarge);
                }
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Some(found))
    }

    /// Directories of the commit that hold a directory `name`, the nearest first; no more than `most`, and not all of a deep tree.
    ///
    /// # Errors
    /// [`PackError::Unreadable`].
    pub fn directories_with(&self, name: &str, most: usize) -> Result<Vec<String>, PackError> {
        const LEVELS: usize = 4;
        let mut found = Vec::new();
        let mut ahead: Vec<(String, gix::ObjectId)> =
            self.directory("")?.into_iter().map(|id| (String::new(), id)).collect();
        for _ in 0..LEVELS {
            for (path, tree) in std::mem::take(&mut ahead) {
                for (entry, kind, id) in self.entries(tree)? {
                    let (gix::objs::tree::EntryKind::Tree, Ok(entry)) = (kind, entry.to_str()) else {
                        continue;
                    };
                    if entry == name {
                        found.push(path.clone());
                    } else {
                        let below =
                            if path.is_empty() { entry.to_owned() } else { format!("{path}/{entry}") };
                        ahead.push((below, id));
                    }
                }
                if found.len() >= most {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    fn directory(&self, path: &str) -> Result<Option<gix::ObjectId>, PackError> {
        let unreadable = |error: &gix::Error| PackError::Unreadable { why: error_chain(error) };
        let commit = self.gix.find_commit(gits(self.commit)).map_err(|error| unreadable(&error))?;
        let mut here = commit.tree_id().map_err(|error| unreadable(&error))?.detach();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let next = self.entries(here)?.into_iter().find(|(entry, _, _)| entry == name);
            match next {
                Some((_, gix::objs::tree::EntryKind::Tree, id)) => here = id,
                Some(_) | None => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    fn entries(
        &self,
        tree: gix::ObjectId,
    ) -> Result<Vec<(BString, gix::objs::tree::EntryKind, gix::ObjectId)>, PackError> {
        let unreadable = |why: String| PackError::Unreadable { why };
        let tree = self.gix.find_tree(tree).map_err(|error| unreadable(error_chain(&error)))?;
        let decoded = tree.decode().map_err(|error| unreadable(error_chain(&error)))?;
        let entries = decoded.entries.iter();
        Ok(entries.map(|entry| (entry.filename.into(), entry.mode.kind(), entry.oid.to_owned())).collect())
    }

    fn blob(&self, id: gix::ObjectId, bytes: &mut u64) -> Result<Vec<u8>, PackError> {
        let unreadable = |error: &gix::Error| PackError::Unreadable { why: error_chain(error) };
        *bytes += self.gix.find_header(id).map_err(|error| unreadable(&error))?.size();
        if *bytes > MAX_BYTES {
            return Err(PackError::TooLarge);
        }
        Ok(self.gix.find_object(id).map_err(|error| unreadable(&error))?.data.clone())
    }
}

/// The object id, in hex, that `data` has as a file; in the format that the id `like` is of.
pub fn blob_id(data: &[u8], like: &str) -> String {
    let kind = if like.len() == 64 { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    gix::objs::compute_hash(kind, gix::objs::Kind::Blob, data)
        .map_or_else(|_| String::new(), |id| id.to_string())
}

/// What git has of a directory of a checkout.
#[derive(Debug, Default)]
pub struct Tracked {
    /// What differs from HEAD: staged, changed, or in no commit at all; paths from the top.
    pub uncommitted: Vec<String>,
    /// All files in the index.
    pub files: Vec<String>,
    /// Those among them that git is told not to look at (assumed unchanged, or skipped by a sparse checkout).
    pub overlooked: Vec<String>,
}

impl Repo {
    /// What git has of `directory` in a person's checkout.
    ///
    /// # Errors
    /// Whatever kept git from looking.
    pub fn tracked_below(&self, checkout: &Checkout, directory: &str) -> Result<Tracked, ProcessError> {
        let git = || {
            Git::inside(&checkout.path, &checkout.git_dir)
                .env("GIT_OPTIONAL_LOCKS", "0")
                .env("GIT_LITERAL_PATHSPECS", "1")
        };
        let names = |bytes: &[u8], skip: usize| -> Vec<(Vec<u8>, String)> {
            let fields = bytes.split(|byte| *byte == 0).filter(|field| field.len() > skip);
            fields.map(|field| (field[..skip].to_vec(), field[skip..].to_str_lossy().into_owned())).collect()
        };
        let status = git()
            .args(["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none"])
            .args(["--no-renames", "--ignored=no", "--", directory])
            .run()?;
        let listed = git().args(["ls-files", "-v", "-z", "--", directory]).run()?;
        let listed = names(&listed.stdout, 2);
        let is_overlooked =
            |tag: &[u8]| tag.first().is_some_and(|tag| tag.is_ascii_lowercase() || *tag == b'S');
        Ok(Tracked {
            uncommitted: names(&status.stdout, 3).into_iter().map(|(_, name)| name).collect(),
            overlooked: listed
                .iter()
                .filter(|(tag, _)| is_overlooked(tag))
                .map(|(_, name)| name.clone())
                .collect(),
            files: listed.into_iter().map(|(_, name)| name).collect(),
        })
    }
}
