//! Removes directory trees, and finds file systems that are mounted in one.
//!
//! Invariant: nothing is removed through a mount. A command may leave something mounted in its
//! worktree (a bind mount, FUSE), and those files belong to others.

use std::ffi::OsString;
use std::fmt::{Display, Formatter, Result};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::words::shell_quote;

/// The mounts of this process (proc_pid_mountinfo(5)); Linux only.
const MOUNTS: &str = "/proc/self/mountinfo";

/// File systems are mounted in a directory that is to be read or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The mount points, in the order of mounting.
    at: Vec<PathBuf>,
}

impl std::error::Error for Mounted {}

impl Display for Mounted {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "something is mounted in it; {}", self.next())
    }
}

impl Mounted {
    /// The command lines for the user, the last mount first.
    pub(crate) fn next(&self) -> String {
        let at = self.at.iter().rev().map(|at| shell_quote(at.display().to_string()));
        format!("`umount {}`, then `aynig clean`", at.collect::<Vec<_>>().join(" "))
    }
}

/// Checks that no file system is mounted at `directory` or below it. Reads one file on Linux, and
/// looks at every directory elsewhere. A directory that does not exist has none.
///
/// # Errors
/// [`Mounted`] with the mount points.
pub(crate) fn no_mounts_in(directory: &Path) -> std::result::Result<(), Mounted> {
    let Ok(directory) = directory.canonicalize() else { return Ok(()) };
    let at = match fs::read(MOUNTS) {
        Ok(list) => mount_points(&list).filter(|at| at.starts_with(&directory)).collect(),
        Err(_) => other_devices(&directory),
    };
    if at.is_empty() { Ok(()) } else { Err(Mounted { at }) }
}

/// The mount points of a mountinfo file: the fifth field of each line.
fn mount_points(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    list.split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(OsString::from_vec(unescaped(field))))
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescaped(mut field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some((first, rest)) = field.split_first() {
        let digits = rest.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                field = &rest[3..];
            }
            None => {
                plain.push(*first);
                field = rest;
            }
        }
    }
    plain
}

/// The uppermost directories below `top` that are on another device than the directory above `top`.
fn other_devices(top: &Path) -> Vec<PathBuf> {
    let device = |path: &Path| path.symlink_metadata().map(|found| found.dev()).ok();
    let own = device(top.parent().unwrap_or(top));
    let (mut found, mut ahead) = (Vec::new(), vec![top.to_owned()]);
    while let Some(next) = ahead.pop() {
        if device(&next) != own {
            found.push(next);
            continue;
        }
        let below = fs::read_dir(&next).into_iter().flatten().flatten();
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        ahead.extend(below.filter(is_dir).map(|entry| entry.path()));
    }
    found
}

/// Removes a directory tree, including directories whose mode denies their owner writing. Does not
/// follow links, and removes nothing if a file system is mounted in it.
///
/// # Errors
/// Any error from removing; [`ErrorKind::NotADirectory`] for anything but a directory, including a
/// link to one; [`ErrorKind::ResourceBusy`] with [`Mounted`].
pub(crate) fn remove_all(directory: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(directory)?.is_dir() {
        return Err(io::Error::new(ErrorKind::NotADirectory, "it is not a directory"));
    }
    no_mounts_in(directory).map_err(|mounted| io::Error::new(ErrorKind::ResourceBusy, mounted))?;
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        let mode = fs::symlink_metadata(&next)?.permissions().mode();
        if mode & 0o700 != 0o700 {
            fs::set_permissions(&next, Permissions::from_mode(mode | 0o700))?;
        }
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                ahead.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(directory)
}

/// Removes a directory tree that contains only directories; fails at the first file.
pub(crate) fn remove_empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        remove_empty(&entry?.path())?;
    }
    fs::remove_dir(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn mount_points_of_the_kernels_list() {
        let list = b"22 1 0:21 / / rw,relatime - overlay none rw\n\
            31 22 0:5 /a /w/x\\040y\\134z\\012 rw shared:1 master:2 - tmpfs none rw\n\
            short\n32 22 0:5 / /w/\\9 rw - tmpfs none rw\n";
        let found: Vec<PathBuf> = mount_points(list).collect();
        assert_eq!(found, ["/", "/w/x y\\z\n", "/w/\\9"].map(PathBuf::from));
        let mounted = Mounted { at: vec!["/w/a b".into(), "/w/a b/c".into()] };
        let words = "something is mounted in it; `umount '/w/a b/c' '/w/a b'`, then `aynig clean`";
        assert_eq!(mounted.to_string(), words);
    }

    #[test]
    fn devices_are_compared_where_there_is_no_list() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        assert_eq!(other_devices(&scratch.path().join("a")), Vec::<PathBuf>::new());
        assert_eq!(no_mounts_in(&scratch.path().join("a")), Ok(()));
        assert_eq!(no_mounts_in(&scratch.path().join("missing")), Ok(()));
        if cfg!(target_os = "linux") {
            assert_eq!(other_devices(Path::new("/proc")), [PathBuf::from("/proc")]);
            assert!(no_mounts_in(Path::new("/proc")).is_err());
        }
    }

    #[test]
    fn directories_that_forbid_it_are_removed_and_links_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (inner, beside) = (scratch.path().join("a/b"), scratch.path().join("beside"));
        fs::create_dir_all(&inner).unwrap();
        File::create(&beside).unwrap();
        std::os::unix::fs::symlink(scratch.path(), inner.join("link")).unwrap();
        File::create(inner.join("file")).unwrap();
        for directory in [inner.clone(), scratch.path().join("a")] {
            fs::set_permissions(&directory, Permissions::from_mode(0o555)).unwrap();
        }
        remove_all(&scratch.path().join("a")).unwrap();
        assert!(beside.exists() && !scratch.path().join("a").exists());
    }
}
