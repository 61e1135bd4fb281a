//! Puts back the hooks and settings that a step changed (CONTRACT 20.33).
//!
//! Why at once: the end of a step is pushed by git, which obeys them, and so does whatever runs next on this host. What a
//! step set stays in the directory of saved contents.
//!
//! Invariant: what is put back comes from memory. A file of settings is replaced by a rename, under git's own lock of it; a
//! lock that a step left hinders nothing. Files outside of the git directory, to which a link of it leads, are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::contract::layout::HEADS;
use crate::fsutil;
use crate::git::process::call::Git;
use crate::git::repo::executing::{NO_VALUE, is_readable, settings_of};

use super::Workspaces;
use super::context::Context;
use super::locked::{Locked, lock_of};
use super::record::{
    HEAD, HOOKS, Hook, MOST_HOOKS, OwnFile, RULES, Record, Values, key_and_worktree, real_of,
};
use super::refusal::Refusal;
use super::remotes::{advice, put_back_with, related};
use super::tampering::{Change, Outside, Thing, settled};

/// How often what is still changed is put back: settings one by one, and then whole files.
const ROUNDS: usize = 3;

/// How often the settings of a file are put back that somebody else changes at the same moment.
const TRIES: usize = 100;

/// What a step changed outside of its worktree.
#[derive(Debug)]
pub struct Settled {
    /// All of it.
    pub changes: Vec<Change>,
    /// What was not put back.
    pub left: Vec<Change>,
    /// Commands for what belongs to settings that were put back, and is none of them.
    pub advice: Vec<String>,
    /// Other workspaces of this host whose steps were live when hooks or settings were changed, and what those noted.
    pub beside: Vec<String>,
    /// Whether the file was removed or replaced by which other steps see this one.
    pub is_hidden: bool,
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
        let mut others = Vec::new();
        let named = changes.iter().filter(|change| change.is_unsettled()).map(|change| change.name.as_str());
        let named = named.collect::<Vec<_>>().join(", ");
        if !named.is_empty() {
            // Before they are put back, so that whoever sees no change sees the note.
            others = self.note_beside(context, &named)?;
        }
        for round in 0..ROUNDS {
            let goes_back = |change: &Change| {
                let name = &change.name;
                change.is_unsettled()
                    || now.in_the_way.contains_key(name)
                    || is_work_of_another(name, before, &now)
            };
            if !left.iter().any(goes_back) {
                break;
            }
            changes.extend(self.restore(context, (before, &now), &left, round > 0));
            let odd;
            (now, odd) = self.seen_after(context, before)?;
            left = odd;
            left.extend(self.compared(context, (before, &now), true));
        }
        let advice = advice(&changes, (before, &now));
        let recorded = self.hold_as_it_is(context).and_then(|held| {
            let all = self.compared(&held.context, (&outside.due, &now), true);
            self.keep_record(&held.context, &settled(outside.due.clone(), now, &all))
        });
        let noted = outside.live.as_ref().map(|live| live.notes());
        let (is_hidden, notes) = match noted {
            Some(None) => (true, Vec::new()),
            noted => (false, noted.flatten().unwrap_or_default()),
        };
        let beside = if notes.is_empty() { others } else { notes };
        let is_over = recorded.is_ok() && beside.is_empty() && !left.iter().any(Change::is_unsettled);
        outside.live.iter().for_each(|live| live.set_over(is_over));
        Ok(Settled { changes, left, advice, beside, is_hidden, recorded })
    }

    /// Hooks, settings and refs after a step, and the files that had to be put back before git could work at all.
    fn seen_after(&self, context: &Context, before: &Record) -> Result<(Record, Vec<Change>), Refusal> {
        let mut mended = self.mend_links(context, before);
        mended.extend(self.mend_vital(context, before)?);
        mended.extend(self.mend_files(context, before, |path, was| !is_head(path) && is_odd(path, was)));
        let mut now = self.recorded_now(context).or_else(|refusal| {
            let more = self.mend_files(context, before, |path, was| !is_head(path) && !is_same(path, was));
            let is_mended = !more.is_empty();
            mended.extend(more);
            if is_mended { self.recorded_now(context) } else { Err(refusal) }
        })?;
        if let Some(crowd) = self.mend_crowd(context, before, &now) {
            mended.push(crowd);
            now = self.recorded_now(context)?;
        }
        Ok((now, mended))
    }

    /// Puts back the files without which git does not work here, if it does not. Nothing else can be compared before.
    fn mend_vital(&self, context: &Context, before: &Record) -> Result<Vec<Change>, Refusal> {
        for pipe in self.repo.remove_pipes(&RULES) {
            tracing::warn!("{} was a named pipe, and was removed", pipe.display());
        }
        let (vital, at) = (self.vital_of(context)?, self.git_dir_of(context)?);
        let works = || self.repo.git_works(&at) && self.repo.git_works(self.repo.common_dir());
        let is_due = |path: &Path, was: Option<(&OwnFile, &[u8])>| {
            let is_lost = was.is_some() && !path.metadata().is_ok_and(|found| found.is_file());
            vital.iter().any(|one| one == path) && (is_lost || !is_same(path, was) && !works())
        };
        // A person may have moved HEAD, so the settings come first.
        let mut mended = self.mend_files(context, before, |path, was| !is_head(path) && is_due(path, was));
        mended.extend(self.mend_files(context, before, |path, was| is_head(path) && is_due(path, was)));
        Ok(mended)
    }

    /// The settings of a file that are new or others, as far as they can be read. Where git does not find the repository
    /// all others seem to be gone.
    fn new_settings(&self, context: &Context, before: &Record, file: &Path) -> Vec<Change> {
        let Ok(now) = self.recorded_now(context) else { return Vec::new() };
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let is_there = |name: &String| {
            now.settings.get(name).is_some_and(|values| values.iter().any(|(one, _)| *one == real))
        };
        let mut changes = self.compared(context, (before, &now), true);
        changes.retain(|change| change.thing == Thing::Setting && is_there(&change.name));
        changes
    }

    /// Makes the directories of hooks and files the links, or none, that they were. Until then nothing in them is touched:
    /// it may be somebody else's.
    fn mend_links(&self, context: &Context, before: &Record) -> Vec<Change> {
        let saved = self.saved(context);
        let mend = |(directory, was): (&PathBuf, &Option<PathBuf>)| {
            let link = std::fs::read_link(directory).ok();
            let had_some = before.hooks.keys().any(|name| Path::new(name).starts_with(directory));
            let is_file = had_some && directory.symlink_metadata().is_ok_and(|found| found.is_file());
            if link == *was && !is_file {
                return None;
            }
            let cleared = if link.is_some() || is_file {
                std::fs::remove_file(directory)
            } else {
                fsutil::clear_odd(directory).map(drop)
            };
            let linked = cleared.and_then(|()| was.as_ref().map_or(Ok(()), |was| symlink(was, directory)));
            warned(directory, linked);
            let target = |link: &PathBuf| Hook { content: link.to_string_lossy().into_owned(), mode: None };
            let (old, new) = (was.as_ref().map(target), link.as_ref().map(target));
            let thing = if directory.ends_with(HOOKS) { Thing::Hook } else { Thing::File };
            Some(Change::of_whole(thing, &saved, directory, (old.as_ref(), new.as_ref())))
        };
        before.links.iter().filter_map(mend).collect()
    }

    /// Puts the directory of hooks back as a whole if it has more files than are compared.
    fn mend_crowd(&self, context: &Context, before: &Record, now: &Record) -> Option<Change> {
        if now.hooks.len() < MOST_HOOKS || before.hooks.len() >= MOST_HOOKS {
            return None;
        }
        let (saved, hooks) = (self.saved(context), self.repo.common_dir().join(HOOKS));
        match fsutil::set_aside(&hooks) {
            Ok(aside) => {
                (self.options.tell)(&format!(
                    "{} is put back; {} has what was there",
                    hooks.display(),
                    aside.display()
                ));
            }
            Err(error) => warned(&hooks, Err(error)),
        }
        for path in before.hooks.keys().map(Path::new).filter(|path| path.starts_with(&hooks)) {
            warned(path, restore_hook(before, &saved, path));
        }
        let crowd = |content: &str| Hook { content: content.to_owned(), mode: None };
        Some(Change::of_whole(Thing::Hook, &saved, &hooks, (Some(&crowd("few")), Some(&crowd("many")))))
    }

    /// Puts files back as a whole if `is_due`.
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
            mended.extend(self.new_settings(context, before, path));
            let there = path.symlink_metadata().ok().map(|_| Hook { content: String::new(), mode: None });
            warned(path, self.restore_file(before, path, known));
            let old = was.as_ref().map(|was| &was.file);
            mended.push(Change::of_whole(Thing::File, &saved, path, (old, there.as_ref())));
        }
        mended
    }

    /// Makes a file what it was. What is there instead is kept beside it.
    fn restore_file(&self, before: &Record, path: &Path, was: Option<(&OwnFile, &[u8])>) -> io::Result<()> {
        let real = real_of(path, was.map(|(was, _)| was));
        let _held = Locked::wait(real, before.locks.contains(&lock_of(real)));
        fsutil::clear_odd(path)?;
        if path.symlink_metadata().is_ok_and(|found| found.is_file()) && !is_same(path, was) {
            let words = match fsutil::keep_aside(path) {
                Ok(aside) => format!("{} has what was there", aside.display()),
                Err(error) => format!("what was there is lost: {error}"),
            };
            (self.options.tell)(&format!("{} is put back; {words}", path.display()));
        }
        let Some((was, content)) = was else { return std::fs::remove_file(path).or_else(absent) };
        if let Some((target, _)) = &was.link
            && std::fs::read_link(path).ok().as_ref() != Some(target)
        {
            std::fs::remove_file(path).or_else(absent)?;
            symlink(target, path)?;
        }
        write(real, content)?;
        let mode = was.file.mode.unwrap_or(0o644);
        std::fs::set_permissions(real, std::fs::Permissions::from_mode(mode))
    }

    /// Puts back what is named. `whole`: files of settings as a whole. Returns what was put back with it.
    fn restore(
        &self,
        context: &Context,
        (before, now): (&Record, &Record),
        named: &[Change],
        whole: bool,
    ) -> Vec<Change> {
        let saved = self.saved(context);
        before.save_again(&saved);
        let mut keys: BTreeMap<&PathBuf, BTreeSet<&str>> = BTreeMap::new();
        for change in named.iter().filter(|change| change.is_violation) {
            let (name, path) = (change.name.as_str(), Path::new(&change.name));
            match change.thing {
                Thing::Hook | Thing::File => {
                    let is_elsewhere = before.foreign.iter().any(|place| path.starts_with(place));
                    let is_whole = before.files.contains_key(path) || before.links.contains_key(path);
                    if !is_elsewhere && !is_whole {
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
                // It was moved under the name of this workspace, so nobody else moved it since, or the swap fails.
                Thing::Ref if is_work_of_another(name, before, now) => {
                    let git = Git::new(self.repo.common_dir()).args(["update-ref", "--no-deref"]);
                    let (old, new) = (before.ours.get(name), now.ours.get(name));
                    let absent = "0".repeat(old.or(new).map_or(0, String::len));
                    let git = match old {
                        Some(old) => git.args([name, old, new.unwrap_or(&absent)]),
                        None => git.args(["-d", name, new.unwrap_or(&absent)]),
                    };
                    if let Some(new) = new {
                        (self.options.tell)(&format!(
                            "{name} is put back; `git show {new}` shows what was there"
                        ));
                    }
                    warned(path, git.run().map(drop).map_err(io::Error::other));
                }
                Thing::Ref => {}
            }
        }
        let mut related = Vec::new();
        for (file, names) in keys {
            let was = before.files.get(file).and_then(Option::as_ref);
            let content = was.and_then(|was| before.content(&saved, &was.file.content).ok());
            let known = was.zip(content.as_deref());
            let is_whole = whole || known.is_some() && file.symlink_metadata().is_err();
            let restored = match known {
                Some(_) if is_whole => self.restore_file(before, file, known),
                _ => restore_settings(before, &saved, (file, content.as_deref()), &names)
                    .map(|more| related.extend(more)),
            };
            warned(file, restored);
        }
        related
    }
}

/// Whether a ref is the work branch of another workspace.
fn is_work_of_another(name: &str, before: &Record, now: &Record) -> bool {
    name.starts_with(HEADS) && (before.ours.contains_key(name) || now.ours.contains_key(name))
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

/// Whether it is the file that names what the main checkout is at.
fn is_head(path: &Path) -> bool {
    path.ends_with(HEAD)
}

/// Replaces a file. A step may have made its directory read-only.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fsutil::opened_up(path.parent().unwrap_or(path), || fsutil::replace(path, content))
}

/// Gives a hook, or a file of rules, the content that it had, or removes a new one.
fn restore_hook(before: &Record, saved: &Path, path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    let cleared = || fsutil::opened_up(directory, || fsutil::clear_odd(path));
    let Some(Hook { content, mode }) = before.hooks.get(&*path.to_string_lossy()) else {
        cleared()?;
        return std::fs::remove_file(path).or_else(absent);
    };
    if directory.symlink_metadata().is_ok_and(|found| !found.is_dir() && !found.is_symlink()) {
        fsutil::set_aside(directory)?;
    }
    std::fs::create_dir_all(directory)?;
    cleared()?;
    let Some(mode) = mode else {
        std::fs::remove_file(path).or_else(absent)?;
        return symlink(content, path);
    };
    write(path, &before.content(saved, content)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode))
}

/// Gives settings the values that they had in a file, and those of branches that belong to them, which it returns. The
/// lock is held only while the file is replaced: whoever finds a lock of git fails.
fn restore_settings(
    before: &Record,
    saved: &Path,
    (file, was): (&Path, Option<&[u8]>),
    names: &BTreeSet<&str>,
) -> io::Result<Vec<Change>> {
    let room = tempfile::tempdir().or_else(|error| tempfile::tempdir_in("/tmp").map_err(|_| error))?;
    let [draft, old] = ["config", "before"].map(|name| room.path().join(name));
    fsutil::replace(&old, was.unwrap_or_default())?;
    let old = settings_of(&old);
    let read = || match fsutil::read_plain(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    for _ in 0..TRIES {
        let content = read()?;
        fsutil::replace(&draft, &content)?;
        edit(before, saved, (file, &draft), names)?;
        let mut more = Vec::new();
        for (key, values) in related(names, &old, &settings_of(&draft)) {
            let values: Vec<Vec<u8>> = values.into_iter().map(|value| value.as_bytes().to_vec()).collect();
            set(&draft, key, &values)?;
            more.push(put_back_with(key, !values.is_empty()));
        }
        let edited = fsutil::read_plain(&draft)?;
        let _held = Locked::wait(file, before.locks.contains(&lock_of(file)));
        if read()? == content {
            return if edited == content { Ok(more) } else { write(file, &edited).map(|()| more) };
        }
    }
    Err(io::Error::other("somebody else changes it all the time"))
}

/// Gives settings in the draft of a file the values that they had in it.
fn edit(
    before: &Record,
    saved: &Path,
    (file, draft): (&Path, &Path),
    names: &BTreeSet<&str>,
) -> io::Result<()> {
    for name in names {
        let key = key_and_worktree(name).0;
        let old: &Values = &before.settings.get(*name).cloned().unwrap_or_default();
        let of_file = old.iter().filter(|(one, _)| one == file);
        let wanted: Vec<Vec<u8>> =
            of_file.map(|(_, digest)| before.content(saved, digest)).collect::<io::Result<_>>()?;
        set(draft, key, &wanted)?;
    }
    Ok(())
}

/// Gives a setting these values in a file.
fn set(file: &Path, key: &str, wanted: &[Vec<u8>]) -> io::Result<()> {
    // Outside of every repository, so that no setting of this one counts.
    let config = |arguments: &[&OsStr]| {
        let git = Git::new(Path::new("/")).args(["config", "--file"]).args([file]);
        git.args(arguments)
    };
    let text = |words: &'static str| OsStr::new(words);
    let listed = config(&[text("--null"), text("--list")]).run().map_err(io::Error::other)?.stdout;
    let entries = listed.split(|byte| *byte == 0);
    let entries = entries.map(|entry| entry.split_once_str("\n").unwrap_or((entry, NO_VALUE)));
    let of_key = entries.filter(|(name, _)| *name == key.as_bytes());
    let there: Vec<&[u8]> = of_key.map(|(_, value)| value).collect();
    if there == wanted {
        return Ok(());
    }
    if !there.is_empty() {
        config(&[text("--unset-all"), key.as_ref()]).run().map_err(io::Error::other)?;
    }
    for value in wanted {
        let added = config(&[text("--add"), key.as_ref(), OsStr::from_bytes(value)]).run();
        added.map_err(io::Error::other)?;
    }
    Ok(())
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const EVIL: &str = "[remote \"x\"]\n\tpushurl = /evil\n";

    /// CONTRACT 20.33
    #[test]
    fn a_setting_that_somebody_else_writes_at_that_moment_stays() {
        let room = tempfile::tempdir().expect("a directory");
        let (file, lock) = (room.path().join("config"), room.path().join("config.lock"));
        let before: Record =
            serde_json::from_str(r#"{"version":1,"hooks":{},"settings":{},"refs":{}}"#).expect("a record");
        let names = BTreeSet::from(["remote.x.pushurl"]);
        fsutil::replace(&file, EVIL.as_bytes()).expect("a file");
        // Git writes the new file as the lock, and renames it.
        fsutil::replace(&lock, format!("{EVIL}[user]\n\tname = somebody\n").as_bytes()).expect("a lock");
        let (done, is_done) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                restore_settings(&before, room.path(), (&file, None), &names).expect("it is put back");
                done.send(()).ok();
            });
            is_done.recv_timeout(Duration::from_millis(300)).ok();
            std::fs::rename(&lock, &file).expect("renamed");
        });
        let now = std::fs::read_to_string(&file).expect("a file");
        assert!(now.contains("somebody") && !now.contains("evil"), "{now}");
        // Nobody holds a lock that long.
        fsutil::replace(&file, EVIL.as_bytes()).expect("a file");
        fsutil::replace(&lock, b"left").expect("a lock");
        restore_settings(&before, room.path(), (&file, None), &names).expect("it is put back");
        assert!(!std::fs::read_to_string(&file).expect("a file").contains("evil"));
        assert!(!lock.exists());
    }
}
