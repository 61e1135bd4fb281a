//! Settings of the repository itself that make git run a program, or work elsewhere, and those that say what this
//! program runs, who somebody is, and which files git takes.
//!
//! Why only its own files: a user's and the system's settings are out of reach of what works in a
//! worktree, as far as this program is concerned.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use bstr::ByteSlice;
use gix::config::Source;

use crate::clock;
use crate::fsutil;
use crate::git::process::call::{Git, ProcessError};
use crate::git::process::patience::remove_pipes_of_git;
use crate::git::repo::config::values_of;
use crate::git::repo::listing::{Executing, Known, listing};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Identity;

/// The file with a worktree's own settings.
const OWN_FILE: &str = "config.worktree";

/// The key of a file that cannot be read.
const UNREADABLE: &str = "include.unreadable";

/// The value of a name without `=`: git takes it as this, wherever it takes it.
pub(crate) const NO_VALUE: &[u8] = b"true";

impl Executing {
    /// Whether it makes git run a program or work elsewhere.
    pub(crate) fn executes(&self) -> bool {
        executes(&self.key)
    }
}

impl Repo {
    /// Removes named pipes and the like in the common git directory, but not at the paths `kept`: every git that opens one
    /// waits. Returns their paths.
    pub(crate) fn remove_pipes(&self, kept: &[&str]) -> Vec<PathBuf> {
        remove_pipes_of_git(self.common_dir(), kept)
    }

    /// Whether git, and this process, can work with the settings that apply to the git directory `at`.
    pub(crate) fn git_works(&self, at: &Path) -> bool {
        let asked = Git::new(at).env("GIT_DIR", at).args(["rev-parse", "--is-bare-repository", "--git-dir"]);
        asked.run().is_ok() && self.reread().is_ok()
    }

    /// The settings of the repository that make git run a program or work elsewhere, as they apply
    /// to the git directory `at`.
    pub(crate) fn executing_settings(&self, at: &Path) -> Result<Vec<Executing>, ProcessError> {
        let mut found = self.watched_settings(at)?;
        found.retain(|one| executes(&one.key));
        Ok(found)
    }

    /// These, and those that say what runs and who somebody is. The main checkout's own ones count wherever `at` is.
    pub(crate) fn watched_settings(&self, at: &Path) -> Result<Vec<Executing>, ProcessError> {
        let files = ["config", OWN_FILE].map(|name| self.common_dir().join(name));
        let files = files.into_iter().chain([at.join(OWN_FILE)]);
        let seen: Vec<_> = files.map(|file| file.metadata().ok().map(|found| Identity::of(&found))).collect();
        let mut known = self.known_settings().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.at == at && known.seen == seen) {
            return Ok(known.found.clone());
        }
        let mut found = self.own_settings(at, &[&b"local"[..], b"worktree"])?;
        let common = self.common_dir();
        if at != common && common.join(OWN_FILE).symlink_metadata().is_ok() {
            found.extend(self.own_settings(common, &[b"worktree"])?);
        }
        found.retain(|one| executes(&one.key) || is_watched(one));
        // An include leads to other files, and a file may be written twice within a tick of its clock.
        let settled = clock::wall_millis() / 1000 - 1;
        let is_settled = seen.iter().flatten().all(|one| one.changed_at() < settled);
        let includes = found.iter().any(|one| one.key.starts_with("include"));
        *known = (is_settled && !includes).then(|| Known { at: at.to_owned(), seen, found: found.clone() });
        Ok(found)
    }

    /// The settings of other worktrees than that of `at` that say what runs and who somebody is, by the names of their
    /// registrations. A file that cannot be read is one setting.
    pub(crate) fn watched_elsewhere(&self, at: &Path) -> BTreeMap<String, Vec<Executing>> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(self.common_dir().join("worktrees")).into_iter().flatten().flatten() {
            if entry.path() == at {
                continue;
            }
            let file = entry.path().join(OWN_FILE);
            let mut settings = match file.symlink_metadata() {
                Ok(_) => settings_of(&file),
                Err(_) => Vec::new(),
            };
            settings.retain(|one| executes(&one.key) || is_watched(one));
            found.insert(entry.file_name().to_string_lossy().into_owned(), settings);
        }
        found
    }

    fn own_settings(&self, at: &Path, scopes: &[&[u8]]) -> Result<Vec<Executing>, ProcessError> {
        let listed = listing(at, &[], &["--show-scope", "--show-origin"])?;
        let mut parts = listed.split(|byte| *byte == 0);
        let entries = std::iter::from_fn(|| Some((parts.next()?, parts.next()?, parts.next()?)));
        let own = entries.filter(|(scope, ..)| scopes.contains(scope));
        Ok(own
            .map(|(_, origin, entry)| {
                let (key, value) = entry.split_once_str("\n").unwrap_or((entry, NO_VALUE));
                let words = |text: &[u8]| text.to_str_lossy().into_owned();
                let file = at.join(words(origin.strip_prefix(b"file:").unwrap_or(origin)));
                let file = file.canonicalize().unwrap_or(file);
                Executing { key: words(key), value: words(value), file }
            })
            .collect())
    }
}

/// Whether git can read settings from a file. Opening a named pipe would wait forever.
pub(crate) fn is_readable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
        && gix::config::File::from_path_no_includes(file.to_owned(), Source::Local).is_ok()
}

/// The settings in a file. One that cannot be read is one setting.
pub(crate) fn settings_of(file: &Path) -> Vec<Executing> {
    let one = |key: String, value: &[u8]| {
        let value = value.to_str_lossy().into_owned();
        Executing { key, value, file: file.to_owned() }
    };
    // Opening a named pipe would wait forever.
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    let read = is_file.then(|| gix::config::File::from_path_no_includes(file.to_owned(), Source::Worktree));
    let Some(Ok(read)) = read else {
        return vec![one(UNREADABLE.to_owned(), &fsutil::read_plain(file).unwrap_or_default())];
    };
    let mut found = Vec::new();
    for section in read.sections() {
        let header = section.header();
        let names: BTreeSet<String> = section.value_names().collect();
        let of = header.name().to_str_lossy().to_ascii_lowercase();
        let of = match header.subsection_name() {
            Some(middle) => format!("{of}.{}", middle.to_str_lossy()),
            None => of,
        };
        for name in names {
            let key = format!("{of}.{}", name.to_ascii_lowercase());
            let values = values_of(section, &name).into_iter();
            found.extend(
                values.map(|value| one(key.clone(), value.as_deref().map_or(NO_VALUE, str::as_bytes))),
            );
        }
    }
    found
}

/// Sections and names of settings whose value `git status` and `git add` run.
const RUN_BY_STATUS: [(&str, &[&str]); 2] =
    [("core", &["fsmonitor", "hookspath"]), ("filter", &["clean", "process", "smudge"])];

/// Those that other calls of git run, that name a file with more settings, or another place.
const OTHERS: [(&str, &[&str]); 11] = [
    ("core", &["alternaterefscommand", "askpass", "editor", "gitproxy", "pager", "sshcommand", "worktree"]),
    ("credential", &["helper"]),
    ("diff", &["command", "external", "textconv"]),
    ("extensions", &["partialclone"]),
    ("gpg", &["defaultkeycommand", "program"]),
    ("hook", &["command"]),
    ("include", &["path"]),
    ("includeif", &["path"]),
    ("merge", &["driver"]),
    ("remote", &["promisor", "receivepack", "uploadpack", "vcs"]),
    ("sequence", &["editor"]),
];

/// Sections of settings that say what this program runs, who somebody is, and where things go.
const WATCHED: [&str; 21] = [
    "alias",
    "author",
    "aynig",
    "committer",
    "credential",
    "extensions",
    "gpg",
    "hook",
    "http",
    "include",
    "includeif",
    "interactive",
    "man",
    "pager",
    "protocol",
    "remote",
    "tar",
    "trailer",
    "uploadpack",
    "url",
    "user",
];

/// Settings that decide which files git takes, and how; what a new repository gets, what `git gc` runs, and what a push
/// takes along.
const RULES: [&str; 13] = [
    "core.attributesfile",
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.ignorecase",
    "core.symlinks",
    "core.trustctime",
    "core.untrackedcache",
    "gc.recentobjectshook",
    "init.templatedir",
    "push.default",
];

/// Whether a step may not change this setting.
fn is_watched(Executing { key, value, .. }: &Executing) -> bool {
    let section = key.split_once('.').map_or(key.as_str(), |(section, _)| section);
    // The program of an address like `ext::PROGRAM`, and of an update like `!PROGRAM`.
    let runs = match section {
        "branch" => value.contains("::"),
        "submodule" => value.starts_with('!'),
        _ => false,
    };
    runs || WATCHED.contains(&section) || key.ends_with(".gpgsign") || RULES.contains(&key.as_str())
}

/// Whether git runs the value of this key, reads settings from it, or works where it says.
pub(crate) fn executes(key: &str) -> bool {
    status_executes(key) || is_listed(key, &OTHERS)
}

/// Whether `git status` and `git add` run the value of this key.
pub(crate) fn status_executes(key: &str) -> bool {
    is_listed(key, &RUN_BY_STATUS)
}

fn is_listed(key: &str, list: &[(&str, &[&str])]) -> bool {
    let (Some((section, _)), Some((_, name))) = (key.split_once('.'), key.rsplit_once('.')) else {
        return false;
    };
    list.iter().any(|(listed, names)| *listed == section && names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 15.12
    #[test]
    fn keys_that_execute() {
        for key in [
            "filter.a.b.clean",
            "core.fsmonitor",
            "include.path",
            "includeif.gitdir:/x.path",
            "gpg.ssh.program",
        ] {
            assert!(executes(key), "{key}");
        }
        for key in [
            "core.bare",
            "user.name",
            "remote.origin.url",
            "filter.clean.required",
            "clean",
            "branch.core.merge",
        ] {
            assert!(!executes(key), "{key}");
        }
    }

    /// CONTRACT 20.33
    #[test]
    fn keys_that_a_step_may_not_change() {
        let setting = |key: &str, value: &str| Executing {
            key: key.to_owned(),
            value: value.to_owned(),
            file: "f".into(),
        };
        for (key, value) in [
            ("aynig.validator.ok", "x"),
            ("user.email", "x"),
            ("remote.origin.pushurl", "x"),
            ("url.x.insteadof", "x"),
            ("commit.gpgsign", "x"),
            ("core.excludesfile", "x"),
            ("trailer.x.cmd", "x"),
            ("uploadpack.packobjectshook", "x"),
            ("tar.x.command", "x"),
            ("man.x.cmd", "x"),
            ("gc.recentobjectshook", "x"),
            ("init.templatedir", "x"),
            ("push.default", "x"),
            ("branch.main.remote", "ext::x"),
            ("submodule.a.update", "!x"),
            ("aynig", "x"),
        ] {
            assert!(is_watched(&setting(key, value)) && !executes(key), "{key}");
        }
        for (key, value) in [
            ("branch.main.remote", "origin"),
            ("submodule.a.update", "rebase"),
            ("core.bare", "x"),
            ("maintenance.auto", "x"),
            ("submodule.a.url", "x"),
        ] {
            assert!(!is_watched(&setting(key, value)), "{key}");
        }
    }

    /// A submodule has `core.worktree`, and a partial clone its promisor.
    #[test]
    fn keys_that_status_executes() {
        for key in ["filter.a.b.clean", "filter.lfs.process", "core.fsmonitor", "core.hookspath"] {
            assert!(status_executes(key) && executes(key), "{key}");
        }
        for key in ["core.worktree", "remote.origin.promisor", "filter.lfs.required", "core.pager"] {
            assert!(!status_executes(key), "{key}");
        }
    }
}
