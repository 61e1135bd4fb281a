//! The commands of `--commands-from` on disk: a copy of one tree's `.aynig/`, outside all worktrees
//! (CONTRACT 13.3).
//!
//! Invariant: a copy appears whole or not at all, named after its tree. Before each start of a command it is
//! compared with that tree, file by file, and made anew if it differs. Its files are read-only, but a command
//! runs as the same user and can change that; hence the comparison. Copies that were not used for a week are
//! removed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::contract::ids::CommitId;
use crate::contract::layout::Own;
use crate::fsutil;
use crate::fsutil::DirLock;
use crate::git::objects::revspec::Content;
use crate::git::{CommitError, Repo};

/// How long an unused copy stays. A command that runs for longer may miss the files beside it.
const KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The longest wait for other runners on this host that compare or make a copy.
const PATIENCE: Duration = Duration::from_secs(120);

/// The name prefix of copies that are unfinished or were replaced.
const DRAFT: &str = ".draft-";

/// Why a copy could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    /// The tree cannot be read.
    #[error(transparent)]
    Tree(#[from] CommitError),
    /// A file operation failed.
    #[error("could not {what} {}", path.display())]
    Files {
        /// The operation, as a verb.
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Returns a directory whose `.aynig` is an exact copy of `tree`.
pub(crate) fn copy_of(repo: &Repo, tree: CommitId) -> Result<PathBuf, CopyError> {
    let place = Own::Commands.within(repo.common_dir());
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| CopyError::Files { what, path, source }
    };
    fsutil::create_private_dir_all(&place).map_err(failed("make", &place))?;
    let _turn = DirLock::acquire(&place, PATIENCE).map_err(failed("lock", &place))?;
    let mut wanted: BTreeMap<PathBuf, Content> = repo
        .files_of(tree)?
        .into_iter()
        .map(|(path, content)| (Path::new(".aynig").join(path), content))
        .collect();
    wanted.insert(".aynig".into(), Content::Directory);
    let copy = place.join(tree.to_string());
    // A copy that cannot be read counts as different.
    if !is_faithful(&copy, &wanted).unwrap_or(false) {
        if copy.symlink_metadata().is_ok() {
            tracing::warn!(copy = %copy.display(), "a copy of commands was changed; it is made anew");
        }
        renew(&place, &copy, &wanted).map_err(failed("write commands to", &copy))?;
    }
    if let Err(error) = File::open(&copy).and_then(|top| top.set_modified(clock::wall())) {
        tracing::debug!(%error, "the use of a copy of commands could not be noted");
    }
    if let Err(error) = clear(&place, &copy) {
        tracing::warn!(%error, place = %place.display(), "old copies of commands could not be removed");
    }
    Ok(copy)
}

/// Whether `top` has exactly the `wanted` contents.
fn is_faithful(top: &Path, wanted: &BTreeMap<PathBuf, Content>) -> io::Result<bool> {
    if !is_same(top, &Content::Directory)? {
        return Ok(false);
    }
    let mut seen = 0;
    let mut ahead = vec![PathBuf::new()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(top.join(&directory))? {
            let path = directory.join(entry?.file_name());
            let same = match wanted.get(&path) {
                Some(content) => is_same(&top.join(&path), content)?,
                None => false,
            };
            if !same {
                return Ok(false);
            }
            seen += 1;
            if wanted.get(&path) == Some(&Content::Directory) {
                ahead.push(path);
            }
        }
    }
    Ok(seen == wanted.len())
}

fn is_same(path: &Path, wanted: &Content) -> io::Result<bool> {
    let found = path.symlink_metadata()?;
    let mode = found.permissions().mode() & 0o7777;
    Ok(match wanted {
        Content::Directory => found.is_dir() && mode == 0o555,
        Content::Link(target) => {
            found.is_symlink() && fs::read_link(path)?.into_os_string().into_vec() == target.as_slice()
        }
        Content::File { bytes, executable } => {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            found.is_file()
                && mode == bits(*executable)
                && found.len() == length
                && crate::fsutil::read_plain(path)? == *bytes
        }
    })
}

fn bits(executable: bool) -> u32 {
    if executable { 0o555 } else { 0o444 }
}

/// Writes a new copy beside the old one, and renames it into its place.
fn renew(place: &Path, copy: &Path, wanted: &BTreeMap<PathBuf, Content>) -> io::Result<()> {
    let draft = tempfile::Builder::new().prefix(DRAFT).tempdir_in(place)?.keep();
    let written = write(&draft, wanted).and_then(|()| {
        if copy.symlink_metadata().is_ok() {
            // Within one directory, since moving a read-only directory to another parent needs write
            // permission on it.
            fs::rename(copy, draft.with_extension("old"))?;
        }
        fs::rename(&draft, copy)
    });
    if written.is_err()
        && let Err(error) = fsutil::remove_all(&draft)
    {
        tracing::debug!(%error, "an unfinished copy of commands was left for the next runner");
    }
    written
}

fn write(draft: &Path, wanted: &BTreeMap<PathBuf, Content>) -> io::Result<()> {
    // In path order a directory comes before its contents.
    for (path, content) in wanted {
        let path = draft.join(path);
        match content {
            Content::Directory => fs::create_dir(&path)?,
            Content::Link(target) => symlink(OsStr::from_bytes(target), &path)?,
            Content::File { bytes, executable } => {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                file.write_all(bytes)?;
                file.set_permissions(Permissions::from_mode(bits(*executable)))?;
            }
        }
    }
    for (path, content) in wanted.iter().rev() {
        if *content == Content::Directory {
            fs::set_permissions(draft.join(path), Permissions::from_mode(0o555))?;
        }
    }
    fs::set_permissions(draft, Permissions::from_mode(0o555))
}

/// Removes unfinished and replaced copies, and those that were not used for a week.
fn clear(place: &Path, current: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        let found = path.symlink_metadata()?;
        let unfinished = path.file_name().is_some_and(|name| name.as_bytes().starts_with(DRAFT.as_bytes()));
        let age = clock::wall().duration_since(found.modified()?).unwrap_or_default();
        if path == current || !(unfinished || age > KEEP) {
            continue;
        }
        if found.is_dir() { fsutil::remove_all(&path)? } else { fs::remove_file(&path)? }
    }
    Ok(())
}
