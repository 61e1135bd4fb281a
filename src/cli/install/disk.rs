//! The `.aynig/` of a checkout: what lies at a path, and the change of all paths of a plan or of none.
//!
//! Invariant: no link is followed, neither on the way to a file nor at its end; and a change that cannot be made as a whole is
//! taken back. Nothing here asks git: that what is overwritten is in a commit was settled before.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::pack::{AYNIG, Item, Mode, prefixes};
use crate::fsutil;

/// A checkout's `.aynig/`.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// That of the checkout at `top`.
    pub fn new(top: &Path) -> Self {
        Self { directory: top.join(AYNIG) }
    }

    /// The file or link at `path`, if there is one. `gone` says of what is in the way whether the plan will remove it before.
    ///
    /// # Errors
    /// What stands in the way of writing there, or of reading.
    pub fn read(&self, path: &str, gone: impl Fn(&str) -> bool) -> Result<Option<Item>, String> {
        let file = self.directory.join(path);
        let mut above = vec![(String::new(), self.directory.clone())];
        above.extend(
            prefixes(path)
                .filter(|part| *part != path)
                .map(|part| (part.to_owned(), self.directory.join(part))),
        );
        for (part, directory) in above {
            let shown = if part.is_empty() { AYNIG.to_owned() } else { format!("{AYNIG}/{part}") };
            match fs::symlink_metadata(&directory) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(format!("{shown}: {error}")),
                Ok(found) if found.is_symlink() => return Err(format!("{shown} is a symbolic link here")),
                Ok(found) if !found.is_dir() && gone(&part) => return Ok(None),
                Ok(found) if !found.is_dir() => return Err(format!("{shown} is no directory here")),
                Ok(_) if directory.join(".git").symlink_metadata().is_ok() => {
                    return Err(format!("{shown} is another repository here"));
                }
                Ok(_) => {}
            }
        }
        let cannot = |error: io::Error| format!("{AYNIG}/{path}: {error}");
        let found = match fs::symlink_metadata(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(cannot)?,
        };
        let (mode, data) = if found.is_symlink() {
            (Mode::Link, fs::read_link(&file).map_err(cannot)?.into_os_string().into_vec())
        } else if found.is_file() {
            let mut data = Vec::new();
            fsutil::open_plain(&file).and_then(|mut open| open.read_to_end(&mut data)).map_err(cannot)?;
            let executable = found.permissions().mode() & 0o100 != 0;
            (if executable { Mode::Executable } else { Mode::File }, data)
        } else if found.is_dir() && gone(&format!("{path}/")) {
            return Ok(None);
        } else {
            return Err(format!("{AYNIG}/{path} is neither a file nor a link here"));
        };
        Ok(Some(Item { mode, id: String::new(), data }))
    }

    /// Makes every path what is named with it: an item, or nothing. Removes first, writes then, in the order given.
    ///
    /// # Errors
    /// What could not be changed, and why; all that was changed before is as it was again.
    pub fn change(&self, paths: &[(&str, Option<&Item>)]) -> Result<(), String> {
        let mut done: Vec<(PathBuf, Option<Item>)> = Vec::new();
        let ordered = paths
            .iter()
            .filter(|(_, item)| item.is_none())
            .chain(paths.iter().filter(|(_, item)| item.is_some()));
        for (path, item) in ordered {
            let file = self.directory.join(path);
            let before = self.read(path, |_| true)?;
            let changed = match item {
                None => fs::remove_file(&file).map(|()| self.prune(&file)),
                Some(item) => self.write(&file, item),
            };
            if let Err(error) = changed {
                self.prune(&file);
                for (file, before) in done.into_iter().rev() {
                    let back = match &before {
                        Some(item) => self.write(&file, item),
                        None => fs::remove_file(&file).map(|()| self.prune(&file)),
                    };
                    if let Err(error) = back {
                        tracing::warn!(file = %file.display(), %error, "could not be put back; git has it");
                    }
                }
                return Err(format!(
                    "could not {} {}: {error}",
                    if item.is_some() { "write" } else { "remove" },
                    file.display()
                ));
            }
            done.push((file, before));
        }
        Ok(())
    }

    fn write(&self, file: &Path, item: &Item) -> io::Result<()> {
        let directory = file.parent().unwrap_or(&self.directory);
        fs::create_dir_all(directory)?;
        if item.mode == Mode::Link {
            let target = std::ffi::OsStr::from_bytes(&item.data);
            let draft = tempfile::Builder::new()
                .prefix(".aynig-")
                .make_in(directory, |draft| symlink(target, draft))?;
            return draft.persist(file).map(drop).map_err(|failed| failed.error);
        }
        fsutil::replace(file, &item.data)?;
        let mode = fs::symlink_metadata(file)?.permissions().mode();
        // Whoever may read it may run it, as git has it.
        let mode = if item.mode == Mode::Executable { mode | ((mode & 0o444) >> 2) } else { mode & !0o111 };
        fs::set_permissions(file, Permissions::from_mode(mode))
    }

    /// Removes the directories above `file` that are empty now.
    fn prune(&self, file: &Path) {
        for directory in
            file.ancestors().skip(1).take_while(|directory| directory.starts_with(&self.directory))
        {
            // It fails where there is something in it still, which is then the end.
            if fs::remove_dir(directory).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(mode: Mode, text: &str) -> Item {
        Item { mode, id: String::new(), data: text.into() }
    }

    #[test]
    fn all_of_it_or_nothing() {
        let room = tempfile::tempdir().unwrap();
        let disk = Disk::new(room.path());
        let (tool, link) = (item(Mode::Executable, "#!/bin/sh\n"), item(Mode::Link, "../tool"));
        disk.change(&[("tool", Some(&tool)), ("command/x", Some(&link)), ("old/deep/file", Some(&tool))])
            .unwrap();
        assert_eq!(disk.read("tool", |_| false), Ok(Some(tool.clone())));
        assert_eq!(disk.read("command/x", |_| false), Ok(Some(link.clone())));
        // `tool` is a file, so nothing can be written below it; what went before is taken back.
        let text = item(Mode::File, "new");
        let failed = disk.change(&[("tool/x", Some(&text)), ("a/b", Some(&text))]);
        assert!(failed.is_err());
        let failed = disk.change(&[
            ("a/b", Some(&text)),
            ("command/x", Some(&text)),
            ("old/deep/file", None),
            ("tool/x", Some(&text)),
        ]);
        assert!(failed.unwrap_err().contains("tool/x"));
        assert_eq!(disk.read("command/x", |_| false), Ok(Some(link)));
        assert_eq!(disk.read("old/deep/file", |_| false), Ok(Some(tool.clone())));
        assert!(!room.path().join(".aynig/a").exists());
        disk.change(&[("old", Some(&text)), ("old/deep/file", None), ("tool", Some(&text))]).unwrap();
        assert_eq!(disk.read("old", |_| false), Ok(Some(text.clone())));
        assert_eq!(disk.read("tool", |_| false), Ok(Some(text)), "it is no executable any more");
    }

    #[test]
    fn links_are_not_followed() {
        let room = tempfile::tempdir().unwrap();
        let elsewhere = room.path().join("elsewhere");
        fs::create_dir_all(elsewhere.join("command")).unwrap();
        symlink(&elsewhere, room.path().join(".aynig")).unwrap();
        assert!(Disk::new(room.path()).read("command/x", |_| false).unwrap_err().contains("symbolic link"));
        fs::remove_file(room.path().join(".aynig")).unwrap();
        fs::create_dir(room.path().join(".aynig")).unwrap();
        symlink(&elsewhere, room.path().join(".aynig/command")).unwrap();
        assert!(Disk::new(room.path()).read("command/x", |_| false).unwrap_err().contains("symbolic link"));
    }
}
