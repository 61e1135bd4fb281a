//! What installing a pack would change: three versions of each file compared, and nothing done.
//!
//! The three are the one installed last (`base`, by its id), the one that lies here, and the one of the pack now. What only the
//! pack changed is taken over, what only a person changed is kept, what both changed is a conflict, which is kept as it lies
//! here and told. Once told, the pack's version is the base of the next comparison.

use std::collections::BTreeMap;

use super::pack::{Item, Pack};
use super::record::Known;
use crate::git::pack::blob_id;

/// What becomes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is not here yet.
    Add,
    /// It is here in another version.
    Replace,
    /// The pack has it no more.
    Remove,
    /// It is here already.
    Unchanged,
    /// It was changed here, or removed here, and not in the pack.
    Kept,
    /// It was changed here, and in the pack too, or it is of another origin; it stays as it is.
    Conflict,
}

impl Change {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Replace => "change",
            Self::Remove => "remove",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
            Self::Conflict => "conflict",
        }
    }

    /// Whether the file is written or removed.
    pub fn touches(self) -> bool {
        matches!(self, Self::Add | Self::Replace | Self::Remove)
    }
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its path below `.aynig/`.
    pub path: String,
    /// What becomes of it.
    pub change: Change,
    /// Why, where that is not plain.
    pub why: &'static str,
}

/// Whether `item` is the version that `mode` and `id` stand for, in whichever object format that id is.
fn is(item: &Item, mode: &str, id: &str) -> bool {
    item.mode.digits() == mode && blob_id(&item.data, id) == id
}

/// The plan for each file of the pack and of its last installation, in the order of their paths.
pub fn plan(
    base: &BTreeMap<String, Known>,
    here: &BTreeMap<String, Item>,
    pack: &Pack,
    force: bool,
) -> Vec<Step> {
    let mut paths: Vec<&String> = pack.0.keys().chain(base.keys()).collect();
    paths.sort();
    paths.dedup();
    let steps = paths.into_iter().filter_map(|path| {
        let (change, why) = step(base.get(path), here.get(path), pack.0.get(path), force)?;
        Some(Step { path: path.clone(), change, why })
    });
    steps.collect()
}

fn step(
    base: Option<&Known>,
    here: Option<&Item>,
    new: Option<&Item>,
    force: bool,
) -> Option<(Change, &'static str)> {
    let as_installed = |here: &Item| base.is_some_and(|base| is(here, &base.mode, &base.id));
    let Some(new) = new else {
        return match here {
            // Gone on both sides.
            None => None,
            Some(here) if as_installed(here) => Some((Change::Remove, "the pack has it no more")),
            Some(_) if force => Some((Change::Remove, "the pack has it no more; changed here")),
            Some(_) => Some((Change::Conflict, "the pack has it no more, and it was changed here")),
        };
    };
    let pack_changed = base.is_none_or(|base| base.mode != new.mode.digits() || base.id != new.id);
    Some(match here {
        Some(here) if is(here, new.mode.digits(), &new.id) => (Change::Unchanged, ""),
        None if base.is_none() => (Change::Add, ""),
        None if force => (Change::Add, "removed here"),
        None if pack_changed => (Change::Conflict, "removed here, and changed in the pack"),
        None => (Change::Kept, "removed here"),
        Some(here) if as_installed(here) => (Change::Replace, ""),
        Some(_) if force => (Change::Replace, "changed here"),
        Some(_) if base.is_none() => (Change::Conflict, "there is one here that is not of this pack"),
        Some(_) if pack_changed => (Change::Conflict, "changed here, and in the pack"),
        Some(_) => (Change::Kept, "changed here"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::pack::Mode;
    use super::*;

    fn item(text: &str) -> Item {
        let id = blob_id(text.as_bytes(), &"0".repeat(40));
        Item { mode: Mode::File, id, data: text.into() }
    }

    fn known(text: &str) -> Known {
        Known { id: item(text).id, mode: Mode::File.digits().to_owned() }
    }

    #[test]
    fn three_versions_make_one_decision() {
        // base, here, pack; "" is none.
        for (versions, change, forced) in [
            (["", "", "n"], Some(Change::Add), Some(Change::Add)),
            (["", "n", "n"], Some(Change::Unchanged), Some(Change::Unchanged)),
            (["", "x", "n"], Some(Change::Conflict), Some(Change::Replace)),
            (["b", "b", "b"], Some(Change::Unchanged), Some(Change::Unchanged)),
            (["b", "b", "n"], Some(Change::Replace), Some(Change::Replace)),
            (["b", "x", "b"], Some(Change::Kept), Some(Change::Replace)),
            (["b", "x", "n"], Some(Change::Conflict), Some(Change::Replace)),
            (["b", "n", "n"], Some(Change::Unchanged), Some(Change::Unchanged)),
            (["b", "", "b"], Some(Change::Kept), Some(Change::Add)),
            (["b", "", "n"], Some(Change::Conflict), Some(Change::Add)),
            (["b", "b", ""], Some(Change::Remove), Some(Change::Remove)),
            (["b", "x", ""], Some(Change::Conflict), Some(Change::Remove)),
            (["b", "", ""], None, None),
        ] {
            let [base, here, new] = versions;
            let some = |text: &'static str| (!text.is_empty()).then_some(text);
            for (force, expected) in [(false, change), (true, forced)] {
                let (base, here, new) = (some(base).map(known), some(here).map(item), some(new).map(item));
                let got = step(base.as_ref(), here.as_ref(), new.as_ref(), force).map(|(change, _)| change);
                assert_eq!(got, expected, "{versions:?} force {force}");
            }
        }
    }

    #[test]
    fn the_executable_bit_counts() {
        let executable = Item { mode: Mode::Executable, ..item("b") };
        let base = known("b");
        let got = |here: &Item, new: &Item| {
            step(Some(&base), Some(here), Some(new), false).map(|(change, _)| change)
        };
        assert_eq!(got(&item("b"), &executable), Some(Change::Replace));
        assert_eq!(got(&executable, &item("b")), Some(Change::Kept));
    }

    #[test]
    fn another_object_format_is_the_same_content() {
        let long = Item { id: blob_id(b"b", &"0".repeat(64)), ..item("b") };
        assert_eq!(
            step(Some(&known("b")), Some(&item("b")), Some(&long), false),
            Some((Change::Unchanged, ""))
        );
    }
}
