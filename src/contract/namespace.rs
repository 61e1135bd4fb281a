//! The names of runners' refs on a hub (`aynig.refNamespace`, CONTRACT 5.39).
//!
//! Invariant: in a repository these refs are below `refs/aynig/`. Only what is sent to a remote, or comes from it, has
//! other names.

use bstr::{BStr, BString};

use super::ids::{BranchName, HEADS};
use super::layout::{ARCHIVE, OURS, RUN_PREFIX, RUNS, TRIED, WORKS};

/// Where git and people have all refs of a kind.
const SHARED: [&str; 4] = ["refs/heads", "refs/tags", "refs/remotes", "refs/notes"];

/// The runners' refs that a clone does not fetch with the branches.
const NO_BRANCHES: [&str; 4] = [RUNS, WORKS, ARCHIVE, TRIED];

/// The beginning of the names of runners' refs on a hub, with a `/` at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

impl Default for Namespace {
    fn default() -> Self {
        Self(OURS.to_owned())
    }
}

impl Namespace {
    /// Reads the setting. Without a value it is the default.
    ///
    /// # Errors
    /// The advice for another value.
    pub fn parse(value: &str) -> Result<Self, String> {
        let name = value.strip_suffix('/').unwrap_or(value);
        let below = |prefix: &str| format!("{name}/").starts_with(prefix);
        if value.is_empty() || below(OURS) && name.len() + 1 == OURS.len() {
            return Ok(Self::default());
        }
        if !name.starts_with("refs/") || BranchName::new(name).is_err() {
            return Err("write the beginning of ref names, such as refs/heads/aynig".to_owned());
        }
        let taken = SHARED.contains(&name)
            || ["refs/remotes/", OURS].into_iter().any(below)
            || [RUN_PREFIX, "work/"].into_iter().any(|prefix| below(&format!("{HEADS}{prefix}")));
        if taken {
            return Err(format!(
                "{name} has other refs already; write a name of its own, such as refs/heads/aynig"
            ));
        }
        Ok(Self(format!("{name}/")))
    }

    /// The name on the hub of a ref here.
    #[must_use]
    pub fn there(&self, name: &BStr) -> BString {
        match name.strip_prefix(OURS.as_bytes()) {
            Some(rest) => [self.0.as_bytes(), rest].concat().into(),
            None => name.to_owned(),
        }
    }

    /// The name here of a ref of the hub. `None` for one below `refs/aynig/` that only other clones know.
    #[must_use]
    pub fn here(&self, name: &BStr) -> Option<BString> {
        match name.strip_prefix(self.0.as_bytes()) {
            Some(rest) => Some([OURS.as_bytes(), rest].concat().into()),
            None => (!name.starts_with(OURS.as_bytes())).then(|| name.to_owned()),
        }
    }

    /// The name here of a runners' ref of the hub, also of one of clones without the setting.
    #[must_use]
    pub fn of_runners(&self, name: &BStr) -> Option<BString> {
        let there = name.strip_prefix(self.0.as_bytes()).or(name.strip_prefix(OURS.as_bytes()));
        there.map(|rest| [OURS.as_bytes(), rest].concat().into())
    }

    /// Whether a branch of the hub is no branch, but a runners' ref.
    #[must_use]
    pub fn has_branch(&self, branch: &BranchName) -> bool {
        branch.full_ref().starts_with(self.0.as_bytes())
    }

    /// The refspecs that leave out what is no branch. Deferred states come along, since git leaves them out of all
    /// that is fetched or of nothing.
    pub(crate) fn exclusions(&self) -> Vec<BString> {
        if !self.0.starts_with(HEADS) {
            return Vec::new();
        }
        NO_BRANCHES.iter().map(|prefix| format!("^{}*", self.there(BStr::new(prefix))).into()).collect()
    }

    /// Whether refs have the same names everywhere.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0 == OURS
    }

    /// The prefix.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 5.39
    #[test]
    fn values_are_checked() {
        for (value, wanted) in [
            ("", Some(OURS)),
            ("refs/aynig", Some(OURS)),
            ("refs/aynig/", Some(OURS)),
            ("refs/heads/aynig", Some("refs/heads/aynig/")),
            ("refs/heads/bots/aynig/", Some("refs/heads/bots/aynig/")),
            ("refs/tags/aynig", Some("refs/tags/aynig/")),
            ("refs/custom", Some("refs/custom/")),
            ("refs/heads/runner", Some("refs/heads/runner/")),
            ("aynig", None),
            ("refs", None),
            ("refs/", None),
            ("refs/heads", None),
            ("refs/heads/", None),
            ("refs/tags", None),
            ("refs/remotes/origin", None),
            ("refs/aynig/deferred", None),
            ("refs/heads/run", None),
            ("refs/heads/work/x", None),
            ("refs/heads/a..b", None),
            ("refs/heads//a", None),
            ("refs/heads/a b", None),
            ("refs/heads/a*", None),
            ("refs/heads/a.lock", None),
        ] {
            let read = Namespace::parse(value);
            assert_eq!(read.as_ref().ok().map(Namespace::as_str), wanted, "{value}: {read:?}");
        }
    }

    /// CONTRACT 5.39
    #[test]
    fn names_are_translated_both_ways() {
        let other = Namespace::parse("refs/heads/aynig").unwrap();
        for (ours, here, there) in [
            (&other, "refs/aynig/deferred/a/b", "refs/heads/aynig/deferred/a/b"),
            (&other, "refs/heads/main", "refs/heads/main"),
            (&Namespace::default(), "refs/aynig/runs/x", "refs/aynig/runs/x"),
        ] {
            assert_eq!(ours.there(BStr::new(here)), there);
            assert_eq!(ours.here(BStr::new(there)).unwrap(), here);
        }
        assert_eq!(other.here(BStr::new("refs/aynig/runs/x")), None);
        assert_eq!(other.of_runners(BStr::new("refs/aynig/runs/x")).unwrap(), "refs/aynig/runs/x");
        assert_eq!(other.of_runners(BStr::new("refs/heads/aynigs/runs/x")), None);
        let is_ours = |name: &str| other.has_branch(&BranchName::new(name).unwrap());
        assert!(is_ours("aynig/deferred/a") && !is_ours("aynig") && !is_ours("a/aynig/b"));
    }
}
