//! What belongs to the settings of a remote: those of the branches that are on it, and its tracking branches
//! (CONTRACT 20.33).
//!
//! Why: `git remote rename` and its like change all of these together.

use std::collections::{BTreeMap, BTreeSet};

use crate::git::repo::listing::Executing;
use crate::words::shell_quote;

use super::record::Record;
use super::tampering::{Change, How, Thing};

/// Settings of a branch that belong to those of its remote.
const OF_BRANCHES: [&str; 3] = ["merge", "pushremote", "remote"];

/// The settings of branches whose remote is one of those that these settings are about, if they differ, with their old
/// values: a remote is renamed or removed together with them.
pub(super) fn related<'a>(
    names: &BTreeSet<&str>,
    old: &'a [Executing],
    now: &'a [Executing],
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let remotes: BTreeSet<&str> = names.iter().filter_map(|name| remote_of(name)).collect();
    let parts = |one: &'a Executing| {
        let (branch, name) = one.key.strip_prefix("branch.")?.rsplit_once('.')?;
        OF_BRANCHES.contains(&name).then_some((branch, one))
    };
    let of_branches = || old.iter().chain(now).filter_map(parts);
    let theirs = of_branches().filter(|(_, one)| remotes.contains(one.value.as_str()));
    let theirs: BTreeSet<&str> = theirs.map(|(branch, _)| branch).collect();
    let values = |all: &'a [Executing], key: &str| -> Vec<&'a str> {
        all.iter().filter(|one| one.key == key).map(|one| one.value.as_str()).collect()
    };
    let keys = of_branches().filter(|(branch, _)| theirs.contains(branch)).map(|(_, one)| one.key.as_str());
    keys.filter(|key| values(old, key) != values(now, key)).map(|key| (key, values(old, key))).collect()
}

/// The change of such a setting, which was put back.
pub(super) fn put_back_with(key: &str, was_there: bool) -> Change {
    Change {
        thing: Thing::Setting,
        name: key.to_owned(),
        how: if was_there { How::Changed } else { How::Added },
        undo: String::new(),
        is_violation: true,
        is_protected: false,
    }
}

/// The remote that a setting is about.
fn remote_of(key: &str) -> Option<&str> {
    key.strip_prefix("remote.")?.rsplit_once('.').map(|(remote, _)| remote)
}

/// Commands for the tracking branches of remotes whose settings were put back: those that are gone, and those that stay.
pub(super) fn advice(changes: &[Change], (before, now): (&Record, &Record)) -> Vec<String> {
    let settings = changes.iter().filter(|change| change.thing == Thing::Setting && change.is_violation);
    let remotes: BTreeSet<&str> = settings.filter_map(|change| remote_of(&change.name)).collect();
    let advice = remotes.into_iter().filter_map(|remote| {
        let place = format!("refs/remotes/{remote}/");
        let lacks = |some: &Record, others: &Record| {
            some.refs.keys().any(|name| name.starts_with(&place) && !others.refs.contains_key(name))
        };
        if !before.settings.contains_key(&format!("remote.{remote}.url")) {
            let place = shell_quote(&place);
            return lacks(now, before).then(|| {
                format!("`git for-each-ref --format='delete %(refname)' {place} | git update-ref --stdin` removes its refs, which stay")
            });
        }
        lacks(before, now).then(|| format!("`git fetch {}` makes {place}* again", shell_quote(remote)))
    });
    advice.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 20.33
    #[test]
    fn settings_of_branches_go_with_those_of_their_remote() {
        let of = |settings: &[(&str, &str)]| -> Vec<Executing> {
            let one = |(key, value): &(&str, &str)| Executing {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
                file: "f".into(),
            };
            settings.iter().map(one).collect()
        };
        let (main, other) = (("branch.a.b.remote", "origin"), ("branch.c.remote", "elsewhere"));
        let merge = ("branch.a.b.merge", "refs/heads/x");
        let words = ("branch.a.b.description", "words");
        let (old, renamed) = (of(&[main, merge, other, words]), of(&[("branch.a.b.remote", "up"), merge]));
        let names = BTreeSet::from(["remote.origin.url", "remote.up.url", "user.name"]);
        assert_eq!(related(&names, &old, &renamed), BTreeMap::from([(main.0, vec!["origin"])]));
        let gone = BTreeMap::from([(main.0, vec!["origin"]), (merge.0, vec!["refs/heads/x"])]);
        assert_eq!(related(&names, &old, &[]), gone);
        let added = BTreeMap::from([(main.0, vec![]), (merge.0, vec![])]);
        assert_eq!(related(&names, &[], &old), added);
        assert_eq!(related(&BTreeSet::from(["user.name"]), &old, &renamed), BTreeMap::new());
    }
}
