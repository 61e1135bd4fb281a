//! Objections to the files of a pack.
//!
//! Git itself refuses names that lead out of a directory or into `.git`. Refused here are submodules,
//! symlinks out of the pack, and names that are equal on some file systems.

use std::collections::{BTreeMap, BTreeSet};

use aynig::git::objects::bundle::Files;

/// The directory that a pack fills.
pub(crate) const AYNIG: &str = ".aynig";
/// The record of installed packs and their sources, below [`AYNIG`].
pub(crate) const RECORD: &str = "installed.json";

/// `a/b/c` as `a`, `a/b`, `a/b/c`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain(std::iter::once(path))
}

/// All objections to writing `files`, whose symlinks lead to `targets`, below `.aynig/` next to the files in
/// `here`.
pub(crate) fn objections(files: &Files, targets: &BTreeMap<String, String>, here: &Files) -> Vec<String> {
    let mut against = Vec::new();
    let mut object = |path: &str, why: &str| against.push(format!("{AYNIG}/{path} {why}"));
    let parts: BTreeSet<&str> = files.keys().flat_map(|path| prefixes(path)).collect();
    let mut spelt = BTreeMap::new();
    for part in here.keys().flat_map(|path| prefixes(path)).chain(parts.iter().copied()) {
        let first = *spelt.entry(part.to_lowercase()).or_insert(part);
        if first != part && parts.contains(part) {
            object(part, &format!("differs from {AYNIG}/{first} only in upper and lower case"));
        }
    }
    for (path, blob) in files {
        if path.contains(|c: char| c.is_control() || "\\:\u{fffd}".contains(c)) {
            object(path, "has characters in its name that mean something else elsewhere");
        }
        if prefixes(path).next().is_some_and(|first| first.eq_ignore_ascii_case("logs")) {
            object(path, "is where the runner's logs are");
        }
        if blob.mode == "160000" {
            object(path, "is a submodule, whose files are not in the pack");
        }
        if let Some(target) = targets.get(path).filter(|target| leads_out(path, target, targets)) {
            object(path, &format!("is a link to {target}, out of the pack or through another link"));
        }
    }
    against
}

fn leads_out(path: &str, target: &str, links: &BTreeMap<String, String>) -> bool {
    let mut here: Vec<&str> = path.split('/').collect();
    here.pop();
    target.starts_with('/')
        || target.split('/').any(|name| match name {
            "" | "." => false,
            ".." => here.pop().is_none(),
            name => {
                here.push(name);
                links.contains_key(&here.join("/"))
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aynig::git::objects::bundle::Blob;

    #[test]
    fn names_that_are_others_elsewhere_and_links_out_of_the_pack_are_refused() {
        for (names, link, here, count) in [
            (&["a\\..\\b"][..], "", "", 1),
            (&["c:x"], "", "", 1),
            (&["a\nb"], "", "", 1),
            (&["logs/x"], "", "", 1),
            (&["Logs"], "", "", 1),
            (&["A", "a"], "", "", 1),
            (&["Dir/x", "dir/y"], "", "", 1),
            (&["command/Hello"], "", "command/hello", 1),
            (&["command/a", ".gitignore", "a.git", "größe", "logs.md"], "", "command/a", 0),
            (&["tool"], "../tool", "", 0),
            (&["tool"], "./../tool", "", 0),
            (&["tool"], "..", "", 0),
            (&["tool"], "../../x", "", 1),
            (&["tool"], "/etc/passwd", "", 1),
            (&["tool"], "link/../../../x", "", 1),
            (&["tool"], "link", "", 1),
        ] {
            let mut targets = BTreeMap::new();
            if !link.is_empty() {
                targets.insert("command/x".to_owned(), link.to_owned());
                targets.insert("command/link".to_owned(), "..".to_owned());
            }
            let blob = Blob { mode: "100644".to_owned(), id: String::new() };
            let all = names.iter().copied().chain(targets.keys().map(String::as_str));
            let files: Files = all.map(|name| (name.to_owned(), blob.clone())).collect();
            let here = Files::from([(here.to_owned(), blob)]);
            let against = objections(&files, &targets, &here);
            assert_eq!(against.len(), count, "{names:?} {link} {here:?}: {against:?}");
        }
    }
}
