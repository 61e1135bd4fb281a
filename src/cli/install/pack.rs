//! Whether the files of a pack may be written below `.aynig/`.
//!
//! Invariant: a [`Pack`] holds only plain names, files, and links that end at something of the same pack, each name once
//! also where upper and lower case are the same; so writing it below a real directory cannot reach out of that.

use std::collections::{BTreeMap, BTreeSet};

use crate::git::pack::{Entry, Kind};

/// The directory that a pack fills.
pub const AYNIG: &str = ".aynig";
/// What is installed, and from where; below [`AYNIG`].
pub const RECORD: &str = "installed.json";

/// The longest target of a link.
const MAX_TARGET: usize = 1024;

/// One file of a pack, or of a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// A file, an executable or a link.
    pub mode: Mode,
    /// Its object id, in hex.
    pub id: String,
    /// Its content, or where the link leads.
    pub data: Vec<u8>,
}

/// What git distinguishes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A regular file.
    File,
    /// A regular file with the executable bit.
    Executable,
    /// A symbolic link.
    Link,
}

impl Mode {
    /// As git writes it in a tree.
    pub fn digits(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }
}

/// The files of a pack, by their paths below `.aynig/`.
#[derive(Debug, Default)]
pub struct Pack(pub BTreeMap<String, Item>);

impl Pack {
    /// The pack that `entries` are; `here` are paths below the `.aynig/` of the checkout.
    ///
    /// # Errors
    /// Everything that speaks against it.
    pub fn check(entries: Vec<Entry>, here: &[String]) -> Result<Self, Vec<String>> {
        let mut against = Vec::new();
        let mut files = BTreeMap::new();
        for entry in entries {
            let name = String::from_utf8_lossy(&entry.path).into_owned();
            if let Some(why) =
                String::from_utf8(entry.path.to_vec()).map_or(Some("no UTF-8"), |name| odd_path(&name))
            {
                against.push(format!("{AYNIG}/{name}: the name is {why}"));
                continue;
            }
            // What the pack's own repository has installed, and from where, is no part of the pack.
            if name == RECORD {
                continue;
            }
            let mode = match entry.kind {
                Kind::File => Mode::File,
                Kind::Executable => Mode::Executable,
                Kind::Link => Mode::Link,
                Kind::Submodule => {
                    against
                        .push(format!("{AYNIG}/{name}: it is a submodule, whose files are not in the pack"));
                    continue;
                }
            };
            if files.insert(name.clone(), Item { mode, id: entry.id, data: entry.data }).is_some() {
                against.push(format!("{AYNIG}/{name}: the name is there twice"));
            }
        }
        let mut spelt: BTreeMap<String, &str> = BTreeMap::new();
        for path in here.iter().map(String::as_str).chain(files.keys().map(String::as_str)) {
            for whole in prefixes(path) {
                let first = *spelt.entry(whole.to_lowercase()).or_insert(whole);
                // What the checkout has of both spellings was there before.
                if first != whole && files.keys().any(|name| prefixes(name).any(|prefix| prefix == whole)) {
                    against.push(format!(
                        "{AYNIG}/{whole}: it differs from {AYNIG}/{first} only in upper and lower case"
                    ));
                }
            }
        }
        let directories: BTreeSet<&str> =
            files.keys().flat_map(|path| prefixes(path).filter(move |prefix| prefix != path)).collect();
        for directory in &directories {
            if files.contains_key(*directory) {
                against.push(format!("{AYNIG}/{directory}: it is a file and a directory"));
            }
        }
        for (path, item) in files.iter().filter(|(_, item)| item.mode == Mode::Link) {
            if let Some(why) = odd_link(path, &item.data, &files, &directories) {
                let target = String::from_utf8_lossy(&item.data);
                against.push(format!("{AYNIG}/{path}: the link to {target} {why}"));
            }
        }
        against.dedup();
        if against.is_empty() { Ok(Self(files)) } else { Err(against) }
    }
}

/// `a/b/c` as `a`, `a/b`, `a/b/c`.
pub fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain(std::iter::once(path))
}

/// Why a path below `.aynig/` can be none of a pack.
pub fn odd_path(path: &str) -> Option<&'static str> {
    if path.starts_with('/') {
        return Some("absolute");
    }
    if path == "logs" || path.to_lowercase().starts_with("logs/") {
        return Some("that of the runner's logs");
    }
    path.split('/').find_map(odd_name)
}

/// Why a name cannot be written, or means something else where it is written.
fn odd_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("empty");
    }
    if name == "." || name == ".." {
        return Some("a way out of the directory");
    }
    if name.contains(|c: char| c.is_control() || c == '\\' || c == ':') {
        return Some("one with characters that mean something else elsewhere");
    }
    // File systems drop some characters, ends and cases of a name: all that becomes `.git` somewhere is `.git`.
    let visible: String = name.chars().filter(|c| !is_ignorable(*c)).collect::<String>().to_lowercase();
    let bare = visible.trim_end_matches(['.', ' ']);
    let short = bare.strip_prefix("git~").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    if bare == ".git" || bare == ".gitmodules" || short {
        return Some("one that git keeps for itself");
    }
    None
}

/// Characters that a file system may leave out of a name.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn odd_link(
    path: &str,
    target: &[u8],
    files: &BTreeMap<String, Item>,
    directories: &BTreeSet<&str>,
) -> Option<&'static str> {
    let Ok(target) = std::str::from_utf8(target) else { return Some("is no UTF-8") };
    if target.is_empty() || target.len() > MAX_TARGET || target.contains(char::is_control) {
        return Some("is no path");
    }
    if target.starts_with('/') {
        return Some("leads out of the pack");
    }
    let mut here: Vec<&str> = path.split('/').collect();
    here.pop();
    let names: Vec<&str> = target.split('/').collect();
    for (at, name) in names.iter().enumerate() {
        match *name {
            "" | "." => {}
            ".." => {
                if here.pop().is_none() {
                    return Some("leads out of the pack");
                }
            }
            name => here.push(name),
        }
        // A link on the way could turn the rest of the way elsewhere.
        if at + 1 < names.len() && files.get(&here.join("/")).is_some_and(|item| item.mode == Mode::Link) {
            return Some("leads through another link");
        }
    }
    let end = here.join("/");
    if files.contains_key(&end) || directories.contains(end.as_str()) || end.is_empty() {
        None
    } else {
        Some("leads nowhere in the pack")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind, data: &str) -> Entry {
        Entry { path: path.into(), kind, id: "1".repeat(40), data: data.into() }
    }

    fn against(entries: &[(&str, Kind, &str)], here: &[&str]) -> Vec<String> {
        let entries = entries.iter().map(|(path, kind, data)| entry(path, *kind, data)).collect();
        let here: Vec<String> = here.iter().map(|path| (*path).to_owned()).collect();
        Pack::check(entries, &here).err().unwrap_or_default()
    }

    #[test]
    fn names_that_could_reach_out_are_refused() {
        for name in [
            "../x",
            "a/../../x",
            "/etc/x",
            "a//b",
            ".",
            ".git/config",
            "a/.GIT/hooks/x",
            "git~1/config",
            ".g\u{200c}it/config",
            ".git./x",
            ".gitmodules",
            "a\\..\\b",
            "c:x",
            "a\nb",
            "logs/x",
            "Logs/x",
        ] {
            assert_eq!(against(&[(name, Kind::File, "")], &[]).len(), 1, "{name}");
        }
        for name in [
            "command/a",
            ".gitignore",
            ".gitattributes",
            "a.git",
            "git",
            "roles/r/command/a b",
            "größe",
            "logs.md",
        ] {
            assert_eq!(against(&[(name, Kind::File, "")], &[]), Vec::<String>::new(), "{name}");
        }
        let bytes = Entry { path: b"a\xff".into(), ..entry("", Kind::File, "") };
        assert!(Pack::check(vec![bytes], &[]).is_err());
    }

    #[test]
    fn names_that_are_one_elsewhere_are_refused() {
        let file = |name| (name, Kind::File, "");
        for (names, here) in [
            (vec!["A", "a"], vec![]),
            (vec!["Dir/x", "dir/y"], vec![]),
            (vec!["command/Hello"], vec!["command/hello"]),
            (vec!["a", "a/b"], vec![]),
            (vec!["a", "a"], vec![]),
        ] {
            let entries: Vec<_> = names.iter().map(|name| file(*name)).collect();
            assert!(!against(&entries, &here).is_empty(), "{names:?} {here:?}");
        }
        assert_eq!(against(&[file("a"), file("b")], &["X", "x", "a"]), Vec::<String>::new());
    }

    #[test]
    fn links_stay_in_the_pack() {
        let with = |target: &'static str| {
            against(
                &[
                    ("tool", Kind::Executable, ""),
                    ("command/x", Kind::Link, target),
                    ("dir/y", Kind::File, ""),
                    ("dir/up", Kind::Link, "../dir"),
                ],
                &[],
            )
        };
        for target in ["../tool", "./../tool", "../dir/y", "../dir", ".."] {
            assert_eq!(with(target), Vec::<String>::new(), "{target}");
        }
        for target in [
            "../../x",
            "/etc/passwd",
            "../none",
            "../dir/up/../../../x",
            "../dir/up/y",
            "../../.aynig/tool",
            "",
        ] {
            assert_eq!(with(target).len(), 1, "{target}");
        }
        assert_eq!(against(&[("m", Kind::Submodule, "")], &[]).len(), 1);
    }

    #[test]
    fn the_record_of_the_source_is_left_out() {
        let pack =
            Pack::check(vec![entry(RECORD, Kind::File, "{}"), entry("a", Kind::File, "")], &[]).unwrap();
        assert_eq!(pack.0.keys().collect::<Vec<_>>(), ["a"]);
    }
}
