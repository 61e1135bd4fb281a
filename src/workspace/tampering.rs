//! Compares hooks, settings and refs with those before a step (CONTRACT 15.15).
//!
//! Invariant: a command that is shown undoes exactly what was found, and a ref goes back only from the value that was
//! seen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bstr::{BString, ByteSlice};
use globset::GlobSet;

use crate::contract::ids::CommitId;
use crate::contract::layout::{HEADS, RUNS, archived_ledger};
use crate::git::refs::reflog;
use crate::git::repo::executing::executes;
use crate::ledger::tip::Tip;
use crate::model::ids::RunId;
use crate::words::{first_of, shell_quote};

use super::Workspaces;
use super::beside::Live;
use super::context::{Context, settles};
use super::record::{Hook, Record, Values, is_enabling, key_and_worktree, rule_of, saved_at};
use super::refusal::Refusal;
use super::store::Entry;

/// What was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// A hook of the repository.
    Hook,
    /// A file that decides which files git takes, and how.
    File,
    /// A setting that makes git run a program or work elsewhere.
    Setting,
    /// A ref.
    Ref,
}

/// How it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is new.
    Added,
    /// It is another one.
    Changed,
    /// A ref does not have what it had.
    Rewound,
    /// It is gone.
    Removed,
}

/// Something outside of a workspace that was changed since the last snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it is.
    pub thing: Thing,
    /// Its name.
    pub name: String,
    /// How it was changed.
    pub how: How,
    /// The command that undoes it.
    pub undo: String,
    /// Whether it must not be.
    pub is_violation: bool,
    /// Whether a branch is protected.
    pub is_protected: bool,
}

impl Change {
    /// The change of a file as a whole.
    pub(super) fn of_whole(
        thing: Thing,
        saved: &Path,
        path: &Path,
        (old, new): (Option<&Hook>, Option<&Hook>),
    ) -> Self {
        let name = path.to_string_lossy().into_owned();
        let undo = restores_hook(saved, &name, old);
        Self { thing, how: how(old, new), undo, name, is_violation: true, is_protected: false }
    }

    /// Whether no step may begin before it is put back or accepted.
    pub fn is_unsettled(&self) -> bool {
        self.is_violation && self.thing != Thing::Ref
    }

    /// Whether git may run a program by it, so that no git may work in a worktree.
    pub fn executes(&self) -> bool {
        self.thing == Thing::Setting && executes(&self.name)
    }
}

impl Thing {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::File => "file",
            Self::Setting => "setting",
            Self::Ref => "ref",
        }
    }
}

impl How {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Rewound => "rewound",
            Self::Removed => "removed",
        }
    }
}

/// Whether the move of a ref was the workspace's own.
type IsOwn<'a> = dyn Fn(&str, Option<CommitId>, Option<CommitId>) -> bool + 'a;

/// How many changes a sentence names.
const NAMED: usize = 3;

/// What the comparison has to ask.
struct Rules<'a> {
    /// Whether all was done while a step was live.
    in_step: bool,
    /// The directory of saved contents.
    saved: &'a Path,
    protected: &'a GlobSet,
    /// The beginning of the names of drivers, and the own one, which its lease protects.
    drivers: (&'a str, &'a str),
    /// Whether a ref was moved under the identity of the workspace.
    is_own: &'a IsOwn<'a>,
    /// Whether a ledger is in the archive.
    is_archived: &'a dyn Fn(&str) -> bool,
    /// Whether the run of a ledger has ended, so that its driver may go.
    is_ended: &'a dyn Fn(&str) -> bool,
    /// Whether settings of each worktree's own may be turned on.
    may_enable: &'a dyn Fn() -> bool,
    /// Whether the second commit has all that the first one has.
    has_all: &'a dyn Fn(CommitId, CommitId) -> bool,
}

/// Pairs the entries of two maps, by name; equal ones are left out.
fn differing<'a, T: PartialEq>(
    before: &'a BTreeMap<String, T>,
    now: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = (&'a str, Option<&'a T>, Option<&'a T>)> {
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    let pair = |name: &'a String| (name.as_str(), before.get(name), now.get(name));
    names.map(pair).filter(|(_, before, now)| before != now)
}

fn how<T>(before: Option<&T>, now: Option<&T>) -> How {
    match (before, now) {
        (None, _) => How::Added,
        (_, None) => How::Removed,
        _ => How::Changed,
    }
}

/// Compares what is there with what was there.
fn compare(before: &Record, now: &Record, rules: &Rules<'_>) -> Vec<Change> {
    let change = |thing: Thing, name: &str, how: How, undo: String| Change {
        thing,
        name: name.to_owned(),
        how,
        undo,
        is_violation: true,
        is_protected: false,
    };
    let mut found = Vec::new();
    for (name, old, new) in differing(&before.hooks, &now.hooks) {
        let thing = if rule_of(name).is_some() { Thing::File } else { Thing::Hook };
        found.push(change(thing, name, how(old, new), restores_hook(rules.saved, name, old)));
    }
    // Worktrees come and go beside a step.
    let is_there = |name: &str| {
        let worktree = key_and_worktree(name).1;
        worktree.is_none_or(|name| before.worktrees.contains(name) && now.worktrees.contains(name))
    };
    let counts =
        |name: &str| (rules.in_step || executes(name) || before.broken.contains(name)) && is_there(name);
    // Where a value is does not matter.
    let values = |all: Option<&Values>| {
        all.map(|all| all.iter().map(|(_, digest)| digest.clone()).collect::<Vec<_>>())
    };
    let settings = differing(&before.settings, &now.settings)
        .filter(|(name, old, new)| values(*old) != values(*new) && counts(name));
    for (name, old, new) in settings {
        if is_enabling(name, old.is_some()) && (rules.may_enable)() {
            continue;
        }
        let undo = restores_setting(rules.saved, name, old, new);
        found.push(change(Thing::Setting, name, how(old, new), undo));
    }
    for (name, old, new) in differing(&before.refs, &now.refs) {
        let id = |target: Option<&String>| CommitId::parse_hex(target?);
        let (from, to) = (id(old), id(new));
        let how = match (how(old, new), from, to) {
            (How::Changed, Some(from), Some(to)) if !(rules.has_all)(to, from) => How::Rewound,
            (how, ..) => how,
        };
        let is_protected =
            name.strip_prefix("refs/heads/").is_some_and(|branch| rules.protected.is_match(branch));
        let is_driver = rules.in_step && name.starts_with(rules.drivers.0) && name != rules.drivers.1;
        let is_violation = (is_protected || is_driver) && (rules.is_own)(name, from, to)
            || is_driver && how == How::Removed && is_driver_of_a_run(name, rules, now);
        let undo = restores_ref(name, old, new);
        found.push(Change { is_violation, is_protected, ..change(Thing::Ref, name, how, undo) });
    }
    let in_the_way = differing(&before.in_the_way, &now.in_the_way).filter(|_| rules.in_step);
    for (name, old, new) in in_the_way.filter(|(_, _, new)| new.is_some()) {
        found.push(change(Thing::Ref, name, how(old, new), restores_ref(name, old, new)));
    }
    let ours = differing(&before.ours, &now.ours).filter(|_| rules.in_step);
    for (name, old, new) in ours {
        let id = |target: Option<&String>| CommitId::parse_hex(target?);
        let is_lost = new.is_none() && name.starts_with(RUNS) && !(rules.is_archived)(name);
        if is_lost || (rules.is_own)(name, id(old), id(new)) {
            found.push(change(Thing::Ref, name, how(old, new), restores_ref(name, old, new)));
        }
    }
    found
}

/// Whether the run of a driver has its ledger, and has not ended.
fn is_driver_of_a_run(name: &str, rules: &Rules<'_>, now: &Record) -> bool {
    let slug = name.strip_prefix(rules.drivers.0).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let ledger = format!("{RUNS}{slug}");
    !slug.is_empty() && now.ours.keys().any(|name| name.starts_with(&ledger) && !(rules.is_ended)(name))
}

fn restores_hook(saved: &Path, name: &str, old: Option<&Hook>) -> String {
    let shown = shell_quote(name);
    match old {
        None => format!("rm {shown}"),
        Some(Hook { content, mode: None }) => format!("ln -sfn {} {shown}", shell_quote(content)),
        Some(Hook { content, mode: Some(mode) }) => {
            let copy = saved_at(saved, content);
            format!("install -m {mode:o} {} {shown}", shell_quote(copy.as_os_str().as_encoded_bytes()))
        }
    }
}

/// The commands that give a setting the values that it had.
pub(super) fn restores_setting(
    saved: &Path,
    key: &str,
    old: Option<&Values>,
    new: Option<&Values>,
) -> String {
    let key = shell_quote(key_and_worktree(key).0);
    let shown = |path: &Path| shell_quote(path.as_os_str().as_encoded_bytes());
    let mut files: Vec<&PathBuf> = new.into_iter().flatten().map(|(file, _)| file).collect();
    files.dedup();
    let unset = files.into_iter().map(|file| format!("git config --file {} --unset-all {key}", shown(file)));
    let add = |(file, digest): &(PathBuf, String)| {
        let copy = shown(&saved_at(saved, digest));
        format!("git config --file {} --add {key} \"$(cat {copy})\"", shown(file))
    };
    let commands = unset.chain(old.into_iter().flatten().map(add));
    commands.collect::<Vec<String>>().join(" && ")
}

fn restores_ref(name: &str, old: Option<&String>, new: Option<&String>) -> String {
    let shown = shell_quote(name);
    let nothing = |id: &str| "0".repeat(id.len());
    match (old, new) {
        (Some(old), _) if old.starts_with("ref: ") => {
            format!("git symbolic-ref {shown} {}", shell_quote(old.trim_start_matches("ref: ")))
        }
        (Some(old), Some(new)) if new.starts_with("ref: ") => {
            format!("git update-ref --no-deref {shown} {old}")
        }
        (Some(old), Some(new)) => format!("git update-ref {shown} {old} {new}"),
        (Some(old), None) => format!("git update-ref {shown} {old} {}", nothing(old)),
        (None, Some(new)) if new.starts_with("ref: ") => format!("git symbolic-ref --delete {shown}"),
        (None, Some(new)) => format!("git update-ref -d {shown} {new}"),
        (None, None) => String::new(),
    }
}

/// The record after a step: as things are now, but where that is a violation, as they were.
pub(super) fn settled(before: Record, mut now: Record, changes: &[Change]) -> Record {
    fn keep<T: Clone>(name: &str, before: &BTreeMap<String, T>, now: &mut BTreeMap<String, T>) {
        now.remove(name);
        now.extend(before.get(name).map(|old| (name.to_owned(), old.clone())));
    }
    for Change { thing, name, .. } in changes.iter().filter(|change| change.is_violation) {
        match thing {
            Thing::Hook | Thing::File => keep(name, &before.hooks, &mut now.hooks),
            Thing::Setting => {
                keep(name, &before.settings, &mut now.settings);
                now.broken.insert(name.clone());
            }
            Thing::Ref => keep(name, &before.refs, &mut now.refs),
        }
    }
    now
}

/// The words for hooks and settings that were changed and not settled.
pub fn unsettled_words(context: &Context, changes: &[Change]) -> Option<String> {
    let changes: Vec<&Change> = changes.iter().filter(|change| change.is_unsettled()).collect();
    let short = |change: &&Change| match change.thing {
        Thing::Hook => change.name.rsplit('/').next().unwrap_or_default().to_owned(),
        Thing::File => rule_of(&change.name).unwrap_or(&change.name).to_owned(),
        Thing::Setting | Thing::Ref => change.name.clone(),
    };
    (!changes.is_empty()).then(|| {
        let named = first_of(changes.iter().map(short), NAMED);
        format!("hooks or settings of this repository were changed: {named}; {}", settles(context))
    })
}

/// Hooks, settings and refs at the beginning of a step. They are compared from memory, which no step can change.
#[derive(Debug, Clone)]
pub struct Outside {
    /// As they were.
    now: Record,
    /// The same, but what was changed before and must not be is as it has to become again.
    pub(super) due: Record,
    /// Shows other steps of this host that this one is live.
    pub(super) live: Option<Arc<Live>>,
}

impl Outside {
    /// Whatever the step does from now on is known to others until it is put back.
    pub fn begin(&self) {
        self.live.iter().for_each(|live| live.set_over(false));
    }

    /// The step runs no program, so nothing that changes from now on is its doing.
    pub fn clear(&mut self) {
        self.live = None;
    }

    /// As they were.
    pub(super) fn now(&self) -> &Record {
        &self.now
    }
}

impl Workspaces<'_> {
    /// Finds what was changed outside of a workspace since it was recorded, and what the next step is compared with.
    /// `in_step`: a step did all of it.
    pub(super) fn look_outside(
        &self,
        context: &Context,
        in_step: bool,
    ) -> Result<(Vec<Change>, Outside), Refusal> {
        let now = self.recorded_now(context)?;
        let Some(before) = self.record_of(context) else {
            return Ok((Vec::new(), Outside { due: now.clone(), now, live: None }));
        };
        let changes = self.compared(context, (&before, &now), in_step);
        let due = settled(before, now.clone(), &changes);
        Ok((changes, Outside { now, due, live: None }))
    }

    /// Finds what was changed outside of a workspace by a step that was cut off, by what was recorded before it. It is
    /// recorded until it is put back or accepted. A record that the step removed stays gone, so that a person is asked.
    pub fn note_changes(&self, context: &Context) -> Result<(), Refusal> {
        let held = self.hold_as_it_is(context)?;
        let Some(before) = self.record_of(&held.context) else {
            return if self.is_shown(context) { Ok(()) } else { self.show_cut_off(context, None) };
        };
        let (changes, outside) = self.look_outside(&held.context, true)?;
        self.keep_record(&held.context, &outside.due)?;
        if changes.iter().any(Change::is_unsettled) && !self.is_shown(context) {
            self.show_cut_off(context, Some(&before))?;
        }
        Ok(())
    }

    /// Hooks and settings that were changed, and that nobody has put back or accepted.
    pub fn to_settle(&self, context: &Context) -> Result<Vec<Change>, Refusal> {
        let (mut changes, _) = self.look_outside(context, false)?;
        changes.retain(Change::is_unsettled);
        Ok(changes)
    }

    /// Whether a workspace was removed as it should be.
    pub fn was_removed(&self, context: &Context) -> bool {
        let is_it = |entry: Entry| entry.context.is_ok_and(|found| found.created_at == context.created_at);
        self.removed().is_ok_and(|all| all.into_iter().any(is_it))
    }

    pub(super) fn compared(
        &self,
        context: &Context,
        (before, now): (&Record, &Record),
        in_step: bool,
    ) -> Vec<Change> {
        let drivers = format!("{HEADS}{}", self.options.drivers);
        let own = format!("{drivers}{}", context.handle());
        let rules = Rules {
            in_step,
            drivers: (&drivers, &own),
            may_enable: &|| self.may_enable(),
            is_archived: &|ledger| {
                let run = ledger.strip_prefix(RUNS).unwrap_or_default();
                self.repo.read_ref(archived_ledger(run).as_bstr()).is_ok_and(|found| found.is_some())
            },
            is_ended: &|ledger| {
                let run = RunId::parse(ledger.strip_prefix(RUNS).unwrap_or_default());
                let tip = self.repo.read_ref(ledger.into()).ok().flatten();
                let read = run.zip(tip).and_then(|(run, tip)| Tip::read_run(self.repo, run, tip).ok());
                read.is_some_and(|read| read.state.run.status.is_ended())
            },
            saved: &self.saved(context),
            protected: &self.options.protected,
            is_own: &|name, from, to| self.is_own_move(&context.address(), name, from, to),
            has_all: &|to, from| self.repo.descends(to, from),
        };
        compare(before, now, &rules)
    }

    /// Whether a ref was moved by somebody with this address: by its reflog, else by the committer.
    fn is_own_move(&self, own: &str, name: &str, from: Option<CommitId>, to: Option<CommitId>) -> bool {
        let Some(to) = to else { return false };
        let log = reflog::of(self.repo.common_dir(), name.into());
        let is_own = |who: &BString| who.contains_str(format!("<{own}>"));
        if log.last().is_some_and(|last| last.to == to) {
            let since = log.iter().rev().take_while(|moved| Some(moved.to) != from);
            return since.into_iter().any(|moved| is_own(&moved.who));
        }
        self.repo.committer(to).is_ok_and(|committer| committer == own.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use globset::{Glob, GlobSetBuilder};

    use super::*;

    fn record(hooks: &[(&str, &str)], settings: &[(&str, &str)], refs: &[(&str, &str)]) -> Record {
        let mut record: Record =
            serde_json::from_str(r#"{"version":1,"hooks":{},"settings":{},"refs":{}}"#).expect("a record");
        let text = |text: &str| text.to_owned();
        let hook = |content: &str| Hook { content: text(content), mode: Some(0o755) };
        record.hooks = hooks.iter().map(|(name, content)| (text(name), hook(content))).collect();
        let values = |value: &str| vec![(PathBuf::from("/r/config"), text(value))];
        record.settings = settings.iter().map(|(key, value)| (text(key), values(value))).collect();
        record.refs = refs.iter().map(|(name, id)| (text(name), id.repeat(40))).collect();
        record
    }

    /// CONTRACT 15.15
    #[test]
    fn what_is_a_violation_and_what_undoes_it() {
        let mut protected = GlobSetBuilder::new();
        for glob in ["main", "release/*"] {
            protected.add(Glob::new(glob).expect("a glob"));
        }
        let protected = protected.build().expect("globs");
        let found = |before: &Record, now: &Record, is_own: bool| {
            let rules = Rules {
                in_step: false,
                drivers: ("refs/heads/run/", "refs/heads/run/1/flow"),
                may_enable: &|| true,
                is_archived: &|_| false,
                is_ended: &|_| false,
                saved: Path::new("/s"),
                protected: &protected,
                is_own: &|_, _, _| is_own,
                has_all: &|to, from| to.to_string() > from.to_string(),
            };
            let changes = compare(before, now, &rules);
            let words = |one: &Change| (one.how, one.is_violation, one.undo.clone());
            changes.iter().map(words).collect::<Vec<_>>()
        };
        let empty = || record(&[], &[], &[]);
        let hook = |content| record(&[("/r/hooks/x", content)], &[], &[]);
        let unset = "git config --file /r/config --unset-all core.pager".to_owned();
        let add = "git config --file /r/config --add core.pager \"$(cat /s/1)\"".to_owned();
        let setting = |value| record(&[], &[("core.pager", value)], &[]);
        for (before, now, how, undo) in [
            (empty(), hook("1"), How::Added, "rm /r/hooks/x".to_owned()),
            (hook("1"), hook("2"), How::Changed, "install -m 755 /s/1 /r/hooks/x".to_owned()),
            (hook("1"), empty(), How::Removed, "install -m 755 /s/1 /r/hooks/x".to_owned()),
            (empty(), setting("1"), How::Added, unset.clone()),
            (setting("1"), setting("2"), How::Changed, format!("{unset} && {add}")),
            (setting("1"), empty(), How::Removed, add),
        ] {
            // Whoever did it.
            for is_own in [true, false] {
                assert_eq!(found(&before, &now, is_own), [(how, true, undo.clone())]);
            }
            let mut settled = settled(before.clone(), now.clone(), &compare_all(&before, &now));
            settled.broken.clear();
            assert_eq!(settled, before);
        }
        let [one, two, none] = ["1", "2", "0"].map(|digit| digit.repeat(40));
        let branch = |name: &str, id| record(&[], &[], &[(name, id)]);
        for (name, is_protected) in
            [("refs/heads/main", true), ("refs/heads/release/1", true), ("refs/heads/x", false)]
        {
            for (before, now, how, undo) in [
                (
                    branch(name, "1"),
                    branch(name, "2"),
                    How::Changed,
                    format!("git update-ref {name} {one} {two}"),
                ),
                (
                    branch(name, "2"),
                    branch(name, "1"),
                    How::Rewound,
                    format!("git update-ref {name} {two} {one}"),
                ),
                (branch(name, "1"), empty(), How::Removed, format!("git update-ref {name} {one} {none}")),
                (empty(), branch(name, "1"), How::Added, format!("git update-ref -d {name} {one}")),
            ] {
                for is_own in [true, false] {
                    assert_eq!(found(&before, &now, is_own), [(how, is_protected && is_own, undo.clone())]);
                }
            }
        }
        assert_eq!(found(&hook("1"), &hook("1"), true), []);
    }

    /// CONTRACT 20.33
    #[test]
    fn a_setting_that_a_step_changed_is_named_until_it_is_put_back() {
        let of = |value| record(&[], &[("aynig.x", value)], &[]);
        let none = GlobSet::empty();
        let rules = |in_step| Rules {
            in_step,
            drivers: ("refs/heads/run/", "refs/heads/run/1/flow"),
            may_enable: &|| true,
            is_archived: &|name| name.ends_with('9'),
            is_ended: &|name| name.ends_with('8'),
            saved: Path::new("/s"),
            protected: &none,
            is_own: &|_, _, _| false,
            has_all: &|_, _| true,
        };
        assert_eq!(compare(&of("1"), &of("2"), &rules(false)), [], "a person did it");
        let found = compare(&of("1"), &of("2"), &rules(true));
        assert!(matches!(&found[..], [one] if one.is_unsettled() && !one.executes()), "{found:?}");
        let due = settled(of("1"), of("2"), &found);
        assert_eq!(compare(&due, &of("2"), &rules(false)), found);
        assert_eq!(compare(&due, &of("1"), &rules(false)), []);
        assert!(settled(due, of("1"), &[]).broken.is_empty());
    }

    /// CONTRACT 20.33
    #[test]
    fn drivers_of_runs_that_have_not_ended_stay() {
        let none = GlobSet::empty();
        let rules = Rules {
            in_step: true,
            drivers: ("refs/heads/run/", "refs/heads/run/1/flow"),
            may_enable: &|| true,
            is_archived: &|_| false,
            is_ended: &|name| name.ends_with('8'),
            saved: Path::new("/s"),
            protected: &none,
            is_own: &|_, _, _| false,
            has_all: &|_, _| true,
        };
        for (slug, is_found) in [("7", true), ("8", false), ("9", false)] {
            let before = record(&[], &[], &[(&format!("refs/heads/run/{slug}/flow"), "1")]);
            let mut now = record(&[], &[], &[]);
            now.ours = ["7", "8"].map(|run| (format!("{RUNS}{run}"), "1".repeat(40))).into();
            let mut found = compare(&before, &now, &rules);
            found.retain(|change| change.is_violation && change.name.starts_with(HEADS));
            assert_eq!(!found.is_empty(), is_found, "{slug}");
        }
    }

    fn compare_all(before: &Record, now: &Record) -> Vec<Change> {
        let rules = Rules {
            in_step: false,
            drivers: ("refs/heads/run/", "refs/heads/run/1/flow"),
            may_enable: &|| true,
            is_archived: &|name| name.ends_with('9'),
            is_ended: &|name| name.ends_with('8'),
            saved: Path::new("/s"),
            protected: &GlobSet::empty(),
            is_own: &|_, _, _| false,
            has_all: &|_, _| true,
        };
        compare(before, now, &rules)
    }
}
