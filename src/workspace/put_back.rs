//! Puts back the hooks and settings that a step changed (CONTRACT 20.33).
//!
//! Why at once: the end of a step is pushed by git, which obeys them, and so does whatever runs next on this host. What a
//! step set stays in the directory of saved contents.
//!
//! Invariant: what is put back comes from memory, and a lock of git hinders nothing: a file of settings is replaced as a
//! whole. Files outside of the git directory, to which a link of it leads, are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::fsutil;
use crate::git::process::call::Git;
use crate::git::repo::executing::is_readable;

use super::Workspaces;
use super::context::Context;
use super::record::{HOOKS, Hook, OwnFile, RULES, Record, Values, key_and_worktree, lock_of};
use super::refusal::Refusal;
use super::tampering::{Change, How, Outside, Thing, settled};

/// How often what is still changed is put back: settings one by one, and then whole files.
const ROUNDS: usize = 3;

/// What a step changed outside of its worktree.
#[derive(Debug)]
pub struct Settled {
    /// All of it.
    pub changes: Vec<Change>,
    /// What was not put back.
    pub left: Vec<Change>,
    /// Other workspaces of this host whose steps were live when hooks or settings were changed, and what those noted.
    pub beside: Vec<String>,
    /// Whether it is recorded.
    pub recorded: Result<(), Refusal>,
}

impl Workspaces<'_> {
    /// Puts hooks and settings back to what they were before a step. What is left is recorded, until it is put back or
    /// accepted.
    pub fn put_back_outside(&self, context: &Context, outside: &Outside) -> Result<Settled, Refusal> {
        let before = outside.now();
        let (mut now, mut changes) = self.seen_after(context, before)?;
        let mut left = self.compared(context, (before, &now), true);
        changes.extend(left.iter().cloned());
        let mut beside = Vec::new();
        let named = changes.iter().filter(|change| change.is_unsettled()).map(|change| change.name.as_str());
        let named = named.collect::<Vec<_>>().join(", ");
        if !named.is_empty() {
            // Before they are put back, so that whoever sees no change sees the note.
            beside = self.note_beside(context, &named)?;
        }
        for round in 0..ROUNDS {
            if !left.iter().any(|change| change.is_unsettled() || now.in_the_way.contains_key(&change.name)) {
                break;
            }
            self.restore(context, (before, &now), &left, round > 0);
            let odd;
            (now, odd) = self.seen_after(context, before)?;
            left = odd;
            left.extend(self.compared(context, (before, &now), true));
        }
        let recorded = self.hold_as_it_is(context).and_then(|held| {
            let all = self.compared(&held.context, (&outside.due, &now), true);
            self.keep_record(&held.context, &settled(outside.due.clone(), now, &all))
        });
        beside.extend(self.take_notes(context));
        Ok(Settled { changes, left, beside, recorded })
    }

    /// Hooks, settings and refs after a step, and the files that had to be put back before git could work at all.
    fn seen_after(&self, context: &Context, before: &Record) -> Result<(Record, Vec<Change>), Refusal> {
        let mut mended = self.mend_vital(context, before)?;
        mended.extend(self.mend_files(context, before, is_odd));
        mended.extend(self.mend_hooks(context, before));
        let now = self.recorded_now(context).or_else(|refusal| {
            let more = self.mend_files(context, before, |path, was| !is_same(path, was));
            let is_mended = !more.is_empty();
            mended.extend(more);
            if is_mended { self.recorded_now(context) } else { Err(refusal) }
        })?;
        Ok((now, mended))
    }

    /// Puts back the files without which git does not work here, if it does not. Nothing else can be compared before.
    fn mend_vital(&self, context: &Context, before: &Record) -> Result<Vec<Change>, Refusal> {
        for pipe in self.repo.remove_pipes(&RULES) {
            tracing::warn!("{} was a named pipe, and was removed", pipe.display());
        }
        let (saved, at) = (self.saved(context), self.git_dir_of(context)?);
        let works = || self.repo.git_works(&at) && self.repo.git_works(self.repo.common_dir());
        let mut mended = Vec::new();
        for path in self.vital_of(context)? {
            let name = path.to_string_lossy().into_owned();
            let old = before.vital.get(&name);
            let is_there = path.metadata().is_ok_and(|found| found.is_file());
            let is_lost = old.is_some() && !is_there;
            if !is_lost && (is_as_it_was(before, &saved, &path, old) || works()) {
                continue;
            }
            let change = Change::of_file(&saved, &name, old, is_there);
            if mended.is_empty() {
                mended.extend(self.new_settings(context, before));
            }
            let aside = if is_there { fsutil::set_aside(&path).map(drop) } else { Ok(()) };
            aside
                .and_then(|()| put_file(before, &saved, &path, old))
                .map_err(|error| Refusal::because(&format!("put {name} back"), &error))?;
            mended.push(change);
        }
        Ok(mended)
    }

    /// The settings that are new or others, as far as they can be read. Where git does not find the repository all others
    /// seem to be gone.
    fn new_settings(&self, context: &Context, before: &Record) -> Vec<Change> {
        let Ok(now) = self.recorded_now(context) else { return Vec::new() };
        let mut changes = self.compared(context, (before, &now), true);
        changes.retain(|change| change.thing == Thing::Setting && change.how != How::Removed);
        changes
    }

    /// Makes the directory of hooks the link, or none, that it was.
    fn mend_hooks(&self, context: &Context, before: &Record) -> Option<Change> {
        let hooks = self.repo.common_dir().join(HOOKS);
        let link = std::fs::read_link(&hooks).ok();
        let had_hooks = before.hooks.keys().any(|name| Path::new(name).starts_with(&hooks));
        let is_file = had_hooks && hooks.symlink_metadata().is_ok_and(|found| found.is_file());
        if link == before.hooks_link && !is_file {
            return None;
        }
        let cleared = match link {
            Some(_) => std::fs::remove_file(&hooks),
            None if is_file => std::fs::remove_file(&hooks),
            None => fsutil::clear_odd(&hooks).map(drop),
        };
        let linked = cleared.and_then(|()| match &before.hooks_link {
            Some(target) => symlink(target, &hooks),
            None => Ok(()),
        });
        warned(&hooks, linked);
        let target = |link: &PathBuf| Hook { content: link.to_string_lossy().into_owned(), mode: None };
        let saved = self.saved(context);
        let old = before.hooks_link.as_ref().map(target);
        Some(Change::of_whole(
            Thing::Hook,
            &saved,
            &hooks,
            (old.as_ref(), link.as_ref().map(target).as_ref()),
        ))
    }

    /// Puts files of settings back as a whole if `is_due`.
    fn mend_files(
        &self,
        context: &Context,
        before: &Record,
        is_due: impl Fn(&Path, Option<(&OwnFile, &[u8])>) -> bool,
    ) -> Vec<Change> {
        let saved = self.saved(context);
        let mut mended = Vec::new();
        for (path, was) in &before.files {
            let content = was.as_ref().map(|was| before.content(&saved, &was.file.content)).transpose();
            let Ok(content) = content else { continue };
            let known = was.as_ref().zip(content.as_deref());
            if !is_due(path, known) {
                continue;
            }
            warned(path, restore_file(path, known));
            unlock(path, before);
            let there = path.symlink_metadata().ok().map(|_| Hook { content: String::new(), mode: None });
            let old = was.as_ref().map(|was| &was.file);
            mended.push(Change::of_whole(Thing::File, &saved, path, (old, there.as_ref())));
        }
        mended
    }

    /// Puts back what is named. `whole`: files of settings as a whole.
    fn restore(&self, context: &Context, (before, now): (&Record, &Record), named: &[Change], whole: bool) {
        let saved = self.saved(context);
        before.save_again(&saved);
        let all_hooks = self.repo.common_dir().join(HOOKS);
        let mut keys: BTreeMap<&PathBuf, BTreeSet<&str>> = BTreeMap::new();
        for change in named.iter().filter(|change| change.is_violation) {
            let (name, path) = (change.name.as_str(), Path::new(&change.name));
            match change.thing {
                Thing::Hook | Thing::File => {
                    let is_elsewhere = before.foreign.iter().any(|place| path.starts_with(place));
                    if !is_elsewhere && !before.files.contains_key(path) && path != all_hooks {
                        warned(path, restore_hook(before, &saved, path));
                    }
                }
                Thing::Setting => {
                    let files = before.settings.get(name).into_iter().chain(now.settings.get(name));
                    for (file, _) in files.flatten() {
                        keys.entry(file).or_default().insert(name);
                    }
                }
                Thing::Ref if now.in_the_way.contains_key(name) => {
                    let git = Git::new(self.repo.common_dir()).args(["update-ref", "--no-deref"]);
                    let git = match before.in_the_way.get(name) {
                        Some(old) => git.args([name, old]),
                        None => git.args(["-d", name]),
                    };
                    warned(path, git.run().map(drop).map_err(io::Error::other));
                }
                Thing::Ref => {}
            }
        }
        for (file, names) in keys {
            let was = before.files.get(file).and_then(Option::as_ref);
            let content = was.and_then(|was| before.content(&saved, &was.file.content).ok());
            let known = was.zip(content.as_deref());
            let is_whole = whole || known.is_some() && file.symlink_metadata().is_err();
            let restored = match known {
                Some(_) if is_whole => restore_file(file, known),
                _ => restore_settings(before, &saved, file, &names),
            };
            warned(file, restored);
            unlock(file, before);
        }
    }
}

fn warned(path: &Path, restored: io::Result<()>) {
    if let Err(error) = restored {
        tracing::warn!(%error, "{} could not be put back", path.display());
    }
}

/// Whether git cannot read a file of settings any more, or another file is there by a link.
fn is_odd(path: &Path, was: Option<(&OwnFile, &[u8])>) -> bool {
    let link = was.and_then(|(was, _)| was.link.as_ref()).map(|(target, _)| target);
    path.symlink_metadata().is_ok()
        && (std::fs::read_link(path).ok().as_ref() != link || !is_readable(path) && !is_same(path, was))
}

/// Whether a file has the content that it had.
fn is_same(path: &Path, was: Option<(&OwnFile, &[u8])>) -> bool {
    fsutil::read_plain(path).ok().as_deref() == was.map(|(_, content)| content)
}

/// The same of a file that is recorded in another way.
fn is_as_it_was(before: &Record, saved: &Path, path: &Path, old: Option<&Hook>) -> bool {
    let content = old.and_then(|old| before.content(saved, &old.content).ok());
    fsutil::read_plain(path).ok() == content
}

/// Removes a lock of git that was not there before. No program of the step lives.
fn unlock(file: &Path, before: &Record) {
    let lock = lock_of(file);
    if !before.locks.contains(&lock) {
        let cleared = fsutil::clear_odd(&lock).and_then(|_| std::fs::remove_file(&lock).or_else(absent));
        warned(&lock, cleared);
    }
}

/// Makes a file of settings what it was.
fn restore_file(path: &Path, was: Option<(&OwnFile, &[u8])>) -> io::Result<()> {
    fsutil::clear_odd(path)?;
    let Some((was, content)) = was else { return std::fs::remove_file(path).or_else(absent) };
    let real = match &was.link {
        None => path,
        Some((target, real)) => {
            if std::fs::read_link(path).ok().as_ref() != Some(target) {
                std::fs::remove_file(path).or_else(absent)?;
                symlink(target, path)?;
            }
            real
        }
    };
    write(real, content)?;
    let mode = was.file.mode.unwrap_or(0o644);
    std::fs::set_permissions(real, std::fs::Permissions::from_mode(mode))
}

/// Replaces a file. A step may have made its directory read-only.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    match (fsutil::replace(path, content), path.parent()) {
        (Err(error), Some(directory)) if denied(&error) => {
            let mut permissions = directory.metadata()?.permissions();
            permissions.set_mode(permissions.mode() | 0o700);
            std::fs::set_permissions(directory, permissions)?;
            fsutil::replace(path, content)
        }
        (written, _) => written,
    }
}

/// Gives a hook, or a file of rules, the content that it had, or removes a new one.
fn restore_hook(before: &Record, saved: &Path, path: &Path) -> io::Result<()> {
    put_file(before, saved, path, before.hooks.get(&*path.to_string_lossy()))
}

/// Gives a file the content that it had, or removes a new one.
fn put_file(before: &Record, saved: &Path, path: &Path, old: Option<&Hook>) -> io::Result<()> {
    fsutil::clear_odd(path)?;
    let Some(Hook { content, mode }) = old else {
        return std::fs::remove_file(path).or_else(absent);
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let Some(mode) = mode else {
        std::fs::remove_file(path).or_else(absent)?;
        return symlink(content, path);
    };
    write(path, &before.content(saved, content)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode))
}

/// Gives settings the values that they had in a file. The file is replaced, so that no lock hinders that.
fn restore_settings(before: &Record, saved: &Path, file: &Path, names: &BTreeSet<&str>) -> io::Result<()> {
    let room = tempfile::tempdir().or_else(|error| tempfile::tempdir_in("/tmp").map_err(|_| error))?;
    let draft = room.path().join("config");
    let content = match fsutil::read_plain(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    fsutil::create(&draft, &content)?;
    for name in names {
        let key = key_and_worktree(name).0;
        let old: &Values = &before.settings.get(*name).cloned().unwrap_or_default();
        let of_file = old.iter().filter(|(one, _)| one == file);
        let wanted: Vec<Vec<u8>> =
            of_file.map(|(_, digest)| before.content(saved, digest)).collect::<io::Result<_>>()?;
        // Outside of every repository, so that no setting of this one counts.
        let config = |arguments: &[&OsStr]| {
            let git = Git::new(Path::new("/")).args(["config", "--file"]).args([&draft]);
            git.args(arguments)
        };
        let text = |words: &'static str| OsStr::new(words);
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
            config(&[text("--add"), key.as_ref(), OsStr::from_bytes(&value)])
                .run()
                .map_err(io::Error::other)?;
        }
    }
    let edited = fsutil::read_plain(&draft)?;
    if edited == content { Ok(()) } else { write(file, &edited) }
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
