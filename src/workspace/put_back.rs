//! Puts back the hooks and settings that a step changed (CONTRACT 20.33).
//!
//! Why at once: the end of a step is pushed by git, which obeys them, and so does whatever runs next on this host. What a
//! step set stays in the directory of saved contents.

use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::fsutil;
use crate::git::process::call::Git;

use super::Workspaces;
use super::context::Context;
use super::record::{Hook, RULES, Record, Values, content_of, key_and_worktree};
use super::refusal::Refusal;
use super::tampering::{Change, How, Outside, Thing};

impl Workspaces<'_> {
    /// Puts hooks and settings back to what they were before a step. What fails is found again by the next comparison.
    pub fn put_back_outside(&self, context: &Context, before: &Outside) -> Result<(), Refusal> {
        self.mend_vital(context, before)?;
        let now = self.recorded_now(context)?;
        let before = before.now();
        let saved = self.saved(context);
        for change in self.compared(context, (before, &now), true) {
            if !change.is_unsettled() {
                continue;
            }
            let name = &change.name;
            let restored = match change.thing {
                Thing::Hook | Thing::File => restore_hook(&saved, Path::new(name), before.hooks.get(name)),
                Thing::Setting => {
                    let values = |record: &Record| record.settings.get(name).cloned().unwrap_or_default();
                    restore_setting(&saved, key_and_worktree(name).0, &values(before), &values(&now))
                }
                Thing::Ref => continue,
            };
            if let Err(error) = restored {
                tracing::warn!(%error, name, "it could not be put back");
            }
        }
        Ok(())
    }

    /// Puts back the files without which git does not work here, if it does not. Nothing else can be compared before.
    pub(super) fn mend_vital(&self, context: &Context, before: &Outside) -> Result<Vec<Change>, Refusal> {
        for pipe in self.repo.remove_pipes(&RULES) {
            tracing::warn!("{} was a named pipe, and was removed", pipe.display());
        }
        let (saved, at) = (self.saved(context), self.git_dir_of(context)?);
        let works = || self.repo.git_works(&at) && self.repo.git_works(self.repo.common_dir());
        let mut mended = Vec::new();
        for path in self.vital_of(context)? {
            let name = path.to_string_lossy().into_owned();
            let old = before.now().vital.get(&name);
            let is_there = path.metadata().is_ok_and(|found| found.is_file());
            let is_lost = old.is_some() && !is_there;
            if !is_lost && (is_same(&saved, &path, old) || works()) {
                continue;
            }
            let change = Change::of_file(&saved, &name, old, is_there);
            if mended.is_empty() {
                mended.extend(self.new_settings(context, before));
            }
            let aside = if is_there { fsutil::set_aside(&path).map(drop) } else { Ok(()) };
            aside
                .and_then(|()| restore_hook(&saved, &path, old))
                .map_err(|error| Refusal::because(&format!("put {name} back"), &error))?;
            mended.push(change);
        }
        Ok(mended)
    }

    /// The settings that are new or others, as far as they can be read. Where git does not find the repository all others
    /// seem to be gone.
    fn new_settings(&self, context: &Context, before: &Outside) -> Vec<Change> {
        let Ok(now) = self.recorded_now(context) else { return Vec::new() };
        let mut changes = self.compared(context, (before.now(), &now), true);
        changes.retain(|change| change.thing == Thing::Setting && change.how != How::Removed);
        changes
    }
}

/// Whether a file has the content that it had.
fn is_same(saved: &Path, path: &Path, old: Option<&Hook>) -> bool {
    let content = old.and_then(|old| content_of(saved, &old.content).ok());
    fsutil::read_plain(path).ok() == content
}

/// Gives a hook the content that it had, or removes a new one.
fn restore_hook(saved: &Path, path: &Path, old: Option<&Hook>) -> io::Result<()> {
    fsutil::clear_odd(path)?;
    let Some(Hook { content, mode }) = old else { return std::fs::remove_file(path).or_else(absent) };
    let Some(mode) = mode else {
        std::fs::remove_file(path).or_else(absent)?;
        return symlink(content, path);
    };
    fsutil::replace(path, &content_of(saved, content)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode))
}

/// Gives a setting the values that it had in each file that has or had one.
fn restore_setting(saved: &Path, key: &str, old: &Values, new: &Values) -> io::Result<()> {
    let mut files: Vec<&PathBuf> = old.iter().chain(new).map(|(file, _)| file).collect();
    files.sort();
    files.dedup();
    for file in files {
        let of_file = old.iter().filter(|(one, _)| one == file);
        let wanted: Vec<Vec<u8>> =
            of_file.map(|(_, digest)| content_of(saved, digest)).collect::<io::Result<_>>()?;
        // Outside of every repository, so that no setting of this one counts.
        let config = |arguments: &[&std::ffi::OsStr]| {
            let git = Git::new(Path::new("/")).args(["config", "--file"]).args([file]);
            git.args(arguments)
        };
        let text = |words: &'static str| std::ffi::OsStr::new(words);
        let there = config(&[text("--null"), text("--get-all"), key.as_ref()]).run_unchecked();
        let there = there.map_err(io::Error::other)?.stdout;
        let there: Vec<&[u8]> = there.split(|byte| *byte == 0).collect();
        let there = &there[..there.len().saturating_sub(1)];
        if there == wanted {
            continue;
        }
        if !there.is_empty() {
            config(&[text("--unset-all"), key.as_ref()]).run().map_err(io::Error::other)?;
        }
        for value in wanted {
            use std::os::unix::ffi::OsStrExt;
            let value = std::ffi::OsStr::from_bytes(&value);
            config(&[text("--add"), key.as_ref(), value]).run().map_err(io::Error::other)?;
        }
    }
    Ok(())
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
