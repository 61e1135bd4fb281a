//! The plan of an installation: compares three versions of each file and changes nothing.
//!
//! The versions are the last installed one (`base`), the one here, and the pack's. A file that only the pack
//! changed is replaced; one that only this checkout changed is kept. If both changed it, that is a conflict,
//! and the file here stays. The pack's version is then the next base.

use aynig::git::objects::bundle::{Blob, Files};

/// The change of one file. A kept or conflicting file stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Replace,
    Remove,
    Unchanged,
    Kept,
    Conflict,
}

impl Change {
    pub(crate) fn word(self) -> &'static str {
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
    pub(crate) fn touches(self) -> bool {
        matches!(self, Self::Add | Self::Replace | Self::Remove)
    }
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Below `.aynig/`.
    pub(crate) path: String,
    pub(crate) change: Change,
    /// The reason, unless it is obvious.
    pub(crate) why: &'static str,
    /// The pack's version.
    pub(crate) new: Option<Blob>,
}

/// The plan for each file of the pack and of its last installation, in the order of their paths.
pub(crate) fn plan(base: &Files, here: &Files, pack: &Files, force: bool) -> Vec<Step> {
    let mut paths: Vec<&String> = pack.keys().chain(base.keys()).collect();
    paths.sort();
    paths.dedup();
    let steps = paths.into_iter().filter_map(|path| {
        let new = pack.get(path);
        let (change, why) = step(base.get(path), here.get(path), new, force)?;
        Some(Step { path: path.clone(), change, why, new: new.cloned() })
    });
    steps.collect()
}

fn step<T: PartialEq>(
    base: Option<T>,
    here: Option<T>,
    new: Option<T>,
    force: bool,
) -> Option<(Change, &'static str)> {
    let (changed_here, changed_there) = (here != base, new != base);
    Some(match (here.is_some(), new.is_some()) {
        (false, false) => return None,
        (true, false) if !changed_here => (Change::Remove, "the pack has it no more"),
        (true, false) if force => (Change::Remove, "the pack has it no more; changed here"),
        (true, false) => (Change::Conflict, "the pack has it no more, and it was changed here"),
        (false, true) if !changed_here => (Change::Add, ""),
        (false, true) if force => (Change::Add, "removed here"),
        (false, true) if changed_there => (Change::Conflict, "removed here, and changed in the pack"),
        (false, true) => (Change::Kept, "removed here"),
        (true, true) if here == new => (Change::Unchanged, ""),
        (true, true) if !changed_here => (Change::Replace, ""),
        (true, true) if force => (Change::Replace, "changed here"),
        (true, true) if base.is_none() => (Change::Conflict, "there is one here that is not of this pack"),
        (true, true) if changed_there => (Change::Conflict, "changed here, and in the pack"),
        (true, true) => (Change::Kept, "changed here"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_versions_make_one_decision() {
        // base, here, pack; "" means absent.
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
            let [base, here, new] = versions.map(|text| (!text.is_empty()).then_some(text));
            for (force, expected) in [(false, change), (true, forced)] {
                let got = step(base, here, new, force).map(|(change, _)| change);
                assert_eq!(got, expected, "{versions:?} force {force}");
            }
        }
    }
}
