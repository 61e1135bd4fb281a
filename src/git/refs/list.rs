//! Lists refs.
//!
//! Invariant: a ref that is there during the whole list is in it. Git packs a ref by writing `packed-refs` and then removing
//! the ref's file. So the files are read first and `packed-refs` afterwards, opened afresh: a ref whose file has gone
//! meanwhile is there. The lists of gix read them the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::PoisonError;

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::BranchName;
use crate::contract::layout::{self, HEADS};
use crate::fsutil;
use crate::git::refs::cas::RefError;
use crate::git::refs::file::Target;
use crate::git::refs::intent_log::PACKED;
use crate::git::refs::loose::DamagedRef;
use crate::git::repo::open::{Repo, gix_chain, ours};
use crate::git::worktrees::held::Identity;
use crate::words::shell_quote;

/// A branch as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// Its name.
    pub branch: BranchName,
    /// The commit it points at; for a symbolic ref, the name of the ref it points at.
    pub target: Target,
}

impl Repo {
    /// All local branches, sorted by name.
    pub fn branches(&self) -> Result<Vec<Tip>, RefError> {
        self.branches_below(HEADS)
    }

    /// The refs below `prefix`, by their names after it, sorted.
    pub(crate) fn tips(&self, prefix: &str) -> Result<Vec<Tip>, RefError> {
        let directory = &prefix[..prefix.rfind('/').map_or(0, |at| at + 1)];
        let loose: BTreeMap<BString, Option<Target>> = self
            .loose_refs(directory)
            .into_iter()
            .filter(|(name, _)| name.starts_with(prefix.as_bytes()))
            .map(|(name, target)| (name, self.sound(target)))
            .collect();
        let packed = self.packed_refs()?;
        let iter = packed.as_ref().map(|packed| packed.iter_prefixed(prefix.into())).transpose();
        let mut tips = Vec::new();
        for reference in iter.map_err(|error| self.unreadable_packed(Some(&error)))?.into_iter().flatten() {
            let Ok(reference) = reference else {
                tracing::warn!(prefix, "a line of packed-refs could not be read; passed over");
                continue;
            };
            let name = reference.name.as_bstr();
            // The file of a ref counts, also if it is damaged.
            if !loose.contains_key(name) {
                tips.extend(tip(prefix, name, Ok(ours(&reference.target()))));
            }
        }
        if !loose.is_empty() {
            tips.extend(loose.into_iter().filter_map(|(name, target)| tip(prefix, name.as_bstr(), target?)));
            tips.sort_by(|one, other| one.branch.cmp(&other.branch));
        }
        Ok(tips)
    }

    /// Those of these refs below `prefix` that there are, as [`Repo::tips`] lists them. No other is read.
    pub(crate) fn tips_of(&self, prefix: &str, only: BTreeSet<BranchName>) -> Result<Vec<Tip>, RefError> {
        let looked = only.into_iter().filter_map(|branch| {
            let name = BString::from([prefix.as_bytes(), branch.as_ref()].concat());
            let name = gix::refs::FullName::try_from(name).ok()?;
            let loose = self.loose_ref(name.as_bstr());
            Some((branch, name, loose))
        });
        // All files before `packed-refs`.
        let looked: Vec<_> = looked.collect();
        let packed = self.packed_refs()?;
        let mut tips = Vec::new();
        for (branch, name, loose) in looked {
            let target = match (loose.transpose(), &packed) {
                (Some(target), _) => self.sound(target),
                (None, None) => None,
                (None, Some(packed)) => {
                    let found = packed
                        .try_find(name.as_ref())
                        .map_err(|error| self.unreadable_packed(Some(&error)))?;
                    found.map(|found| Ok(ours(&found.target())))
                }
            };
            tips.extend(target.map(|target| Tip { branch, target }));
        }
        Ok(tips)
    }

    /// The target of a ref; `None` if its file is damaged, which is reported.
    fn sound(&self, target: Result<Target, DamagedRef>) -> Option<Target> {
        target.inspect_err(|damaged| self.report_damaged(damaged)).ok()
    }

    /// Opens `packed-refs` afresh. A damaged line hides refs, so nothing is listed then: git fails there, too.
    pub(super) fn packed_refs(&self) -> Result<Option<gix::refs::packed::Buffer>, RefError> {
        let file = self.common_dir().join(PACKED);
        // git replaces the file and never changes it.
        let found = match file.metadata() {
            Ok(found) if found.len() == 0 => return Err(self.unreadable_packed(None)),
            Ok(found) => Some(Identity::of(&found)),
            // A link to a file that is not there hides all refs.
            Err(_) if file.is_symlink() => return Err(self.unreadable_packed(None)),
            Err(_) => None,
        };
        let read = self.check_no_pipe(PACKED).map_err(gix::Error::from_error);
        let packed = read.and_then(|()| self.gix.refs.open_packed_buffer());
        let mut sound = self.sound_packed().lock().unwrap_or_else(PoisonError::into_inner);
        let is_sound = |packed: &gix::refs::packed::Buffer| {
            found.is_some() && *sound == found || damaged_line(packed.as_ref(), true).is_none()
        };
        // It has no header any more, and is sorted, unless a header says so of a file that is not.
        match packed {
            Ok(packed) if packed.as_ref().is_none_or(is_sound) => {
                *sound = found;
                Ok(packed)
            }
            Ok(_) => Err(self.unreadable_packed(None)),
            Err(error) => Err(self.unreadable_packed(Some(&error))),
        }
    }

    /// The error for a file of packed refs that cannot be read: the damaged line, or what was found.
    pub(super) fn unreadable_packed(&self, found: Option<&gix::Error>) -> RefError {
        let file = self.common_dir().join(PACKED);
        let content = match fsutil::read_plain(&file) {
            Ok(content) if content.is_empty() => {
                let why = format!(
                    "{} is empty, as after a loss of power; `rm {}` if no ref was in it, and `git fsck --no-reflogs` names the commits \
                     that no ref has",
                    file.display(),
                    shell_quote(file.as_os_str().as_bytes())
                );
                return RefError::Unreadable { name: PACKED.to_owned(), why };
            }
            Err(error) if file.is_symlink() => {
                let to = file.read_link().unwrap_or_default();
                let why = format!(
                    "{0} is a link to {1}: {error}; if no disk is missing and no ref was packed, `git pack-refs --all` where {1} is \
                     makes it",
                    file.display(),
                    to.display()
                );
                return RefError::Unreadable { name: PACKED.to_owned(), why };
            }
            content => content.unwrap_or_default(),
        };
        let file = file.canonicalize().unwrap_or(file);
        let header = content.lines().next().filter(|line| line.starts_with(b"#")).unwrap_or_default();
        let is_sorted = header.split_str(" ").any(|word| word == b"sorted");
        let why = match (damaged_line(&content, is_sorted), found) {
            (Some((number, line)), _) if damaged_line(&[line, b"\n"].concat(), false).is_none() => format!(
                "line {number}, the last one of {}, has no end, and git fails there, too: append a newline",
                file.display()
            ),
            (Some((number, line)), _) if line.ends_with(b"\r\n") => format!(
                "line {number} of {0} ends with a carriage return, and git passes over such lines; `sed -i 's/\\r$//' {0}` removes \
                 them",
                file.display()
            ),
            (Some((number, line)), _) if damaged_line(line, false).is_none() => format!(
                "line {number} of {0} is out of order, so refs in it are missed; `sed -i '1s/ sorted//' {0}` makes git sort them",
                file.display()
            ),
            (Some((number, line)), _) => format!(
                "line {number} of {} is no ref (`{}`), and git fails there, too; remove the line, and `git fsck --no-reflogs` \
                 names the commits that no ref has then",
                file.display(),
                line.trim_end().chars().take(60).collect::<String>(),
            ),
            (None, Some(error)) => gix_chain(error),
            (None, None) => format!("{} was changed meanwhile; try again", file.display()),
        };
        RefError::Unreadable { name: PACKED.to_owned(), why }
    }

    /// The refs with the name of a directory of ours, but for slots, whose states are listed elsewhere.
    ///
    /// # Errors
    /// [`RefError::Unreadable`] if refs cannot be listed.
    pub fn refs_in_the_way(&self) -> Result<Vec<String>, RefError> {
        let all = self.tips("refs/")?.into_iter().map(|tip| (format!("refs/{}", tip.branch), ()));
        let found = layout::in_the_way(&all.collect()).into_keys();
        Ok(found.filter(|name| !name.starts_with(layout::SLOTS)).collect())
    }
}

/// A listed ref, unless its name is none of a branch.
fn tip(prefix: &str, name: &BStr, target: Target) -> Option<Tip> {
    match BranchName::new(name.strip_prefix(prefix.as_bytes())?) {
        Ok(branch) => Some(Tip { branch, target }),
        Err(error) => {
            tracing::debug!(%error, "passed over");
            None
        }
    }
}

/// The first line of a file of packed refs that git refuses or passes over, and its number. A line that is out of order
/// makes git miss others.
fn damaged_line(packed: &[u8], is_sorted: bool) -> Option<(usize, &[u8])> {
    let is_id = |text: &[u8]| matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
    let mut before: &[u8] = b"";
    let mut is_sound = |at, line| {
        let Some(line) = <[u8]>::strip_suffix(line, b"\n").filter(|line| !line.ends_with(b"\r")) else {
            return false;
        };
        match line {
            [b'#', ..] => at == 0,
            [b'^', peeled @ ..] => is_id(peeled.trim_end()),
            line => {
                let Some(end) = line.iter().position(|byte| b" \t".contains(byte)) else { return false };
                let name = &line[end + 1..];
                let is_next = !is_sorted || name >= before;
                before = name;
                is_id(&line[..end]) && is_next
            }
        }
    };
    let mut lines = packed.lines_with_terminator().enumerate();
    lines.find(|(at, line)| !is_sound(*at, line)).map(|(at, line)| (at + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_lines_of_packed_refs_are_found() {
        let id = "0123456789012345678901234567890123456789";
        let sound = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{id} refs/heads/a\n{id} refs/tags/t\n^{id}\n"
        );
        assert_eq!(damaged_line(b"", true), None);
        assert_eq!(damaged_line(sound.as_bytes(), true), None);
        for damage in [
            "garbage\n",
            "\n",
            &format!("{id} refs/heads/b\r\n"),
            &id[..20],
            &format!("{id} refs/heads/b"),
            "# more\n",
            "^0123\n",
            "\0\0\0\n",
        ] {
            let damaged = format!("{sound}{damage}");
            assert_eq!(damaged_line(damaged.as_bytes(), true), Some((5, damage.as_bytes())), "{damage:?}");
        }
        let again = format!("{sound}{id} refs/heads/z\n");
        assert_eq!(damaged_line(again.as_bytes(), true).map(|(number, _)| number), Some(5), "out of order");
        assert_eq!(damaged_line(again.as_bytes(), false), None, "git sorts it");
        let middle = sound.replacen("refs/heads/a\n", "refs/heads/a\nx\n", 1);
        assert_eq!(damaged_line(middle.as_bytes(), true), Some((3, b"x\n".as_slice())));
    }
}
