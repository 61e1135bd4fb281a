//! `aynig.*` in git's configuration, and the sources that precede it.
//!
//! Invariant: flag > environment > trailer > git's configuration > built-in default, for every
//! setting. An option and its setting take the same values ([`keys`]). A misspelt value or one of
//! the wrong type is reported with its file, never silently ignored. An operation reads only the
//! settings it needs, so other settings cannot make it fail.

mod key;
pub mod keys;
pub mod lines;
pub mod providers;
mod read;
mod values;

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::contract::alike::nearest;
use crate::contract::ids::{BranchName, RemoteName, RoleName};
use crate::contract::requeue::OnInterrupt;
use crate::git::Repo;
use crate::git::repo::config::Setting;
use crate::git::worktrees::registration::plain;
use crate::publish::Forge;
use crate::runner::options::{CurrentBranch, Selection, Takeover, Trust, is_glob};

use super::error::Error;
use keys::{Fallback, Group, KEYS, Key, Value};
use read::family;
pub use values::Settings;

/// Values of settings that the caller was given, in its order.
pub(crate) type Given = [(&'static Key, OsString)];

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self {
            role: None,
            remote: None,
            worktree: PathBuf::new(),
            current_branch: CurrentBranch::Skip,
            branch: Vec::new(),
            work_prefix: String::new(),
            run_prefix: String::new(),
            orch_lease_seconds: 0,
            approval_wait_seconds: 0,
            stall_repeats: 0,
            retry_pause: Vec::new(),
            approval_expire_seconds: None,
            require_signed_approvals: false,
            workspace_root: None,
            data_dir: None,
            protected_branches: Vec::new(),
            forge: Forge::None,
            rollback_keep_ignored: false,
            commands_from: None,
            require_signed: false,
            states: Vec::new(),
            trailer_variables: Vec::new(),
            jobs: NonZeroUsize::MIN,
            lease_seconds: 0,
            takeover: Takeover::Clock,
            skew_seconds: 0,
            heartbeat: false,
            grace_seconds: 0,
            command_timeout: None,
            requeue: false,
            interrupt_retries: 0,
            max_steps: 0,
            max_rounds: 0,
            setup: None,
            notify: None,
            notify_seconds: 0,
            notify_states: Vec::new(),
        };
        for key in &KEYS {
            if let Fallback::Value(value) = key.default {
                key.put(&mut settings, OsStr::new(value)).expect("a default is a value of its setting");
            }
        }
        settings
    }
}

impl Settings {
    /// Returns the settings of a run: the values given, else git's configuration.
    pub fn of_run(repo: &Repo, given: &Given) -> Result<Self, Error> {
        let is_given = |key: &Key| given.iter().any(|(one, _)| one.name == key.name);
        let mut settings = Self::read(repo, |key| key.is_for_runs() && !is_given(key))?;
        for (key, value) in given {
            let wrong = |why| Error::usage(format!("{}: {why}", key.name));
            key.put(&mut settings, value).map_err(wrong)?;
        }
        settings.role = role(repo, settings.role)?;
        Ok(settings)
    }

    /// Reads the settings that `wanted` admits from git's configuration. The others keep their
    /// defaults.
    fn read(repo: &Repo, wanted: impl Fn(&Key) -> bool) -> Result<Self, Error> {
        let mut settings = Self::default();
        let entries = repo.settings("aynig");
        for key in KEYS.iter().filter(|key| wanted(key)) {
            let mut values: Vec<&Setting> = entries.iter().filter(|entry| is(entry, key)).collect();
            if !key.is_repeatable() {
                values = values.split_off(values.len().saturating_sub(1));
            }
            for entry in values {
                take(&mut settings, key, entry).map_err(|why| wrong(entry, why))?;
            }
        }
        Ok(settings)
    }

    /// Returns what the interruption of a command leads to.
    pub(crate) fn on_interrupt(&self) -> OnInterrupt {
        let most = u32::try_from(self.interrupt_retries).unwrap_or(u32::MAX);
        OnInterrupt { requeue: self.requeue, most }
    }

    /// Returns which commands and commits are run.
    pub(crate) fn trust(&self) -> Result<Trust, Error> {
        Ok(Trust {
            commands_from: self.commands_from.clone(),
            require_signed: self.require_signed,
            states: globs("--states", &self.states)?,
            branches: branch_globs(&self.branch)?,
            variables: variables(&self.trailer_variables)?,
        })
    }
}

/// Puts an entry of git's configuration into the settings.
fn take(settings: &mut Settings, key: &Key, entry: &Setting) -> Result<(), String> {
    let Some(text) = &entry.value else {
        let Value::Flag(put) = key.value else { return Err("a value is required".to_owned()) };
        put(settings, true);
        return Ok(());
    };
    match key.value {
        Value::Name(_) if text.is_empty() => Ok(()),
        Value::Line(_) if text.trim().is_empty() => Ok(()),
        Value::Path(_) => key.put(settings, expanded(text.into()).as_os_str()),
        _ => key.check(OsStr::new(text)).and_then(|()| key.put(settings, OsStr::new(text))),
    }
}

/// Expands `~/` at the beginning of a path, as git does in its own settings.
fn expanded(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path,
    }
}

/// Returns the faulty settings of git's configuration.
pub fn mistakes(repo: &Repo) -> Vec<Error> {
    let results = [
        Settings::read(repo, Key::is_for_runs).map(drop),
        Settings::read(repo, |key| key.group == Group::Role).map(drop),
        workspace(repo).map(drop),
        remote(repo).map(drop),
        lines::validators(repo).map(drop),
        lines::evaluators(repo).map(drop),
    ];
    let agents = providers::names(repo).into_iter().map(|name| providers::provider(repo, &name).map(drop));
    results.into_iter().chain(agents).filter_map(Result::err).collect()
}

/// Checks what a run reads besides its own settings: what the hook and the steps of flows and graphs need. The provider of a
/// step is checked by the step, since other hosts may have it.
pub fn check_steps(repo: &Repo) -> Result<(), Error> {
    notify(repo)?;
    workspace(repo)?;
    lines::validators(repo)?;
    lines::evaluators(repo).map(drop)
}

/// `aynig.workPrefix`.
pub(crate) fn work_prefix(repo: &Repo) -> Result<String, Error> {
    Ok(Settings::read(repo, |key| key.name == "workPrefix")?.work_prefix)
}

/// The beginnings of the names of work branches, and of drivers.
pub fn prefixes(repo: &Repo) -> Result<(String, String), Error> {
    let settings = Settings::read(repo, |key| ["workPrefix", "runPrefix"].contains(&key.name))?;
    Ok((settings.work_prefix, settings.run_prefix))
}

/// The settings of workspaces.
pub(crate) fn workspace(repo: &Repo) -> Result<Settings, Error> {
    const OTHERS: [&str; 4] = ["workPrefix", "runPrefix", "commandsFrom", "setup"];
    let settings = Settings::read(repo, |key| key.group == Group::Workspace || OTHERS.contains(&key.name))?;
    check_absolute("workspaceRoot", settings.workspace_root.as_deref())?;
    check_absolute("dataDir", settings.data_dir.as_deref())?;
    Ok(settings)
}

/// `aynig.forge`.
pub fn forge(repo: &Repo) -> Result<Forge, Error> {
    Ok(Settings::read(repo, |key| key.name == "forge")?.forge)
}

/// `aynig.dataDir`, if it is set.
pub(crate) fn data_dir(repo: &Repo) -> Result<Option<PathBuf>, Error> {
    let directory = Settings::read(repo, |key| key.name == "dataDir")?.data_dir;
    check_absolute("dataDir", directory.as_deref())?;
    Ok(directory)
}

fn check_absolute(name: &str, path: Option<&Path>) -> Result<(), Error> {
    match path.filter(|path| !path.is_absolute()) {
        None => Ok(()),
        Some(path) => Err(Error::setup(format!(
            "aynig.{name} = {} is no absolute path; nothing was changed",
            path.display()
        ))
        .hint(format!("set it: `git config aynig.{name} DIR`"))),
    }
}

/// `aynig.requireSigned`.
pub fn require_signed(repo: &Repo) -> Result<bool, Error> {
    Ok(Settings::read(repo, |key| key.name == "requireSigned")?.require_signed)
}

/// Returns which commands and commits `aynig run` would run here without options.
pub fn trust(repo: &Repo) -> Result<Trust, Error> {
    Settings::read(repo, Key::is_security)?.trust()
}

/// The settings that decide what would be run, besides those of trust.
const JUDGING: [&str; 7] =
    ["takeover", "skewSeconds", "workPrefix", "runPrefix", "interruptRetries", "maxSteps", "maxRounds"];

/// Returns the settings by which `aynig run` without options would choose branches and judge leases
/// here.
pub(crate) fn judging(repo: &Repo) -> Result<Settings, Error> {
    Settings::read(repo, |key| key.is_security() || JUDGING.contains(&key.name))
}

/// Returns the role: the one named, else `ROLE` unless it is empty, else `aynig.role`.
pub(crate) fn role(repo: &Repo, named: Option<RoleName>) -> Result<Option<RoleName>, Error> {
    if named.is_some() {
        return Ok(named);
    }
    match std::env::var("ROLE") {
        Ok(text) if !text.is_empty() => RoleName::parse(&text)
            .map(Some)
            .map_err(|error| Error::usage(format!("the variable ROLE is no role name: {error}"))),
        _ => Ok(Settings::read(repo, |key| key.group == Group::Role)?.role),
    }
}

/// `aynig.remote`.
pub(crate) fn remote(repo: &Repo) -> Result<Option<RemoteName>, Error> {
    let Some(name) = Settings::read(repo, |key| key.group == Group::Remote)?.remote else { return Ok(None) };
    if repo.has_remote(&name) {
        return Ok(Some(name));
    }
    let entry = repo.settings("aynig").into_iter().rfind(|entry| entry.name.eq_ignore_ascii_case("remote"));
    let entry = entry.expect("it was just read");
    Err(with_near(repo, &name, wrong(&entry, "this repository has no such remote")))
}

/// An error about a remote that this repository does not have, with the next steps.
pub(super) fn with_near(repo: &Repo, remote: &RemoteName, error: Error) -> Error {
    match nearest(remote.as_str(), &repo.remote_names()) {
        Some(near) => error.hint(format!("did you mean {near}?")).hint("`git remote -v` lists its remotes"),
        None => error
            .hint(format!("`git remote -v` lists its remotes; `git remote add {remote} URL` adds this one")),
    }
}

/// Whether `aynig.remote` is set, if only to nothing.
pub(crate) fn names_remote(repo: &Repo) -> bool {
    repo.settings("aynig").iter().any(|entry| entry.name.eq_ignore_ascii_case("remote"))
}

/// `aynig.notify` and its companions.
#[derive(Debug, Clone)]
pub struct Notify {
    /// The command line. `None` if there is no hook.
    pub line: Option<String>,
    /// The longest it may take.
    pub limit: Duration,
    /// The states that run the hook besides `stalled`.
    pub states: GlobSet,
    /// The number of those globs.
    pub globs: usize,
}

/// `aynig.notify`, `aynig.notifySeconds` and `aynig.notifyStates`.
pub fn notify(repo: &Repo) -> Result<Notify, Error> {
    let settings = Settings::read(repo, |key| key.group == Group::Notify)?;
    Ok(Notify {
        line: settings.notify,
        limit: Duration::from_secs(settings.notify_seconds),
        states: globs("aynig.notifyStates", &settings.notify_states)?,
        globs: settings.notify_states.len(),
    })
}

/// Compiles the globs of an option.
pub fn globs(option: &str, texts: &[String]) -> Result<GlobSet, Error> {
    let mut globs = GlobSetBuilder::new();
    for text in texts {
        let glob = globset::Glob::new(text)
            .map_err(|error| Error::usage(format!("{option} {text} is not a glob: {}", error.kind())))?;
        globs.add(glob);
    }
    globs.build().map_err(|error| Error::usage(format!("{option}: {error}")))
}

/// Compiles names of branches and globs on them. A brace in a name is part of it.
pub fn branch_globs(named: &[String]) -> Result<GlobSet, Error> {
    let pattern = |one: &String| if is_glob(one.as_bytes()) { one.clone() } else { globset::escape(one) };
    globs("--branch", &named.iter().map(pattern).collect::<Vec<_>>())
}

/// Selects the branches that names and globs on them select. Without a glob no other branch is read.
pub fn narrowed(plain: Selection, named: &[OsString]) -> Result<Selection, Error> {
    let name = |one: &OsString| BranchName::new(one.as_bytes()).ok();
    match named.iter().map(name).collect::<Option<Vec<_>>>() {
        Some(names) => only(plain, names),
        None => {
            let named: Vec<String> = named.iter().map(|one| one.to_string_lossy().into_owned()).collect();
            Ok(Selection { globs: branch_globs(&named)?, ..plain })
        }
    }
}

/// Selects these branches. No other is read, if there is one of them.
pub fn only(plain: Selection, branches: Vec<BranchName>) -> Result<Selection, Error> {
    let names: Vec<String> = branches.iter().map(BranchName::to_string).collect();
    Ok(Selection { globs: branch_globs(&names)?, only: branches, ..plain })
}

/// Compiles the globs on trailers, which ignore case. `None` if there are none.
fn variables(texts: &[String]) -> Result<Option<GlobSet>, Error> {
    if texts.is_empty() {
        return Ok(None);
    }
    let cannot = |error: globset::Error| Error::setup(format!("aynig.trailerVariables: {error}"));
    let mut globs = GlobSetBuilder::new();
    for text in texts {
        globs.add(GlobBuilder::new(text).case_insensitive(true).build().map_err(cannot)?);
    }
    globs.build().map(Some).map_err(cannot)
}

/// Returns a warning for each name that is no setting.
pub fn unknown(repo: &Repo) -> Vec<String> {
    let is_unknown = |entry: &Setting| key_of(entry).is_none();
    let entries = repo.settings("aynig").into_iter().filter(is_unknown);
    entries
        .filter_map(|entry| {
            if let Some(warning) = providers::unknown(&entry) {
                return warning;
            }
            let near = nearest(&entry.name, KEYS.iter().map(|key| key.name))
                .map(|name| format!("; did you mean aynig.{name}?"))
                .unwrap_or_default();
            Some(format!("unknown setting {}, ignored{near}", place(&entry)))
        })
        .collect()
}

fn is(entry: &Setting, key: &Key) -> bool {
    let Some(family) = family(key.name) else { return entry.name.eq_ignore_ascii_case(key.name) };
    entry.name.split_once('.').is_some_and(|(head, _)| head.eq_ignore_ascii_case(family))
}

fn key_of(entry: &Setting) -> Option<&'static Key> {
    KEYS.iter().find(|key| is(entry, key))
}

/// Returns the documented name of a setting. A misspelt one is shown as written, and one of a family.
fn shown(entry: &Setting) -> &str {
    key_of(entry).map_or(&entry.name, |key| if family(key.name).is_some() { &entry.name } else { key.name })
}

/// The path without `..`, if that is the same file.
fn without_detours(file: &Path) -> PathBuf {
    let short = plain(file);
    let is_same = short.canonicalize().is_ok_and(|one| file.canonicalize().is_ok_and(|other| one == other));
    if is_same { short } else { file.to_owned() }
}

/// Describes a setting's value, and its file.
fn place(entry: &Setting) -> String {
    let file = match &entry.file {
        // Git names the file by the way that it takes from a worktree.
        Some(file) => without_detours(file).display().to_string(),
        None => "the environment (`git -c`, GIT_CONFIG_COUNT, or the runner around it)".to_owned(),
    };
    match &entry.value {
        Some(value) => format!("aynig.{} = {value:?} in {file}", shown(entry)),
        None => format!("aynig.{} without a value in {file}", shown(entry)),
    }
}

fn wrong(entry: &Setting, why: impl std::fmt::Display) -> Error {
    let name = shown(entry);
    Error::setup(format!("{}: {why}", place(entry)))
        .hint(format!(
            "set it: `git config aynig.{name} VALUE`, or drop it: `git config --unset-all aynig.{name}`"
        ))
        .hint("`git config --show-origin --get-regexp '^aynig\\.'` lists all settings and their files")
}

#[cfg(test)]
mod tests {
    use super::keys::Takes;
    use super::*;

    #[test]
    fn an_option_is_called_like_its_setting() {
        for key in &KEYS {
            let Some(option) = &key.option else { continue };
            let name = match option.takes {
                Takes::Value(_) | Takes::True => option.long,
                Takes::False(_) => option.long.strip_prefix("no-").expect("it says that it is not"),
            };
            let mut camel = String::new();
            for (at, part) in name.split('-').enumerate() {
                camel += &if at == 0 { part.to_owned() } else { part[..1].to_uppercase() + &part[1..] };
            }
            assert_eq!(key.name, camel);
        }
    }

    #[test]
    fn defaults_are_those_of_the_table() {
        let settings = Settings::default();
        assert_eq!((settings.lease_seconds, settings.skew_seconds, settings.grace_seconds), (300, 10, 10));
        assert!(settings.heartbeat && settings.setup.is_none() && !settings.require_signed);
        assert_eq!(settings.worktree, PathBuf::from(".worktrees"));
    }

    #[test]
    fn values_are_checked_by_their_row() {
        let key = |name: &str| KEYS.iter().find(|key| key.name == name).expect("a setting");
        for (name, value, why) in [
            ("jobs", "many", "write a number from 1 on"),
            ("jobs", "0", "write a number from 1 on"),
            ("leaseSeconds", "0", "must be from 1 to 31536000 s"),
            ("graceSeconds", "1.5h", "not a duration: write 90s, 5m, 2h, 14d, 1h30m, or a number of seconds"),
            ("currentBranch", "maybe", "write skip or include or only"),
            ("heartbeat", "perhaps", "it is neither true nor false"),
            ("commandsFrom", "", "a value is required"),
            ("worktree", "", "a value is required"),
        ] {
            assert_eq!(key(name).check(OsStr::new(value)), Err(why.to_owned()), "{name}");
        }
        for (name, why) in [("branch", "it is not a glob"), ("states", "it is not a glob")] {
            assert!(key(name).check(OsStr::new("a[")).is_err_and(|error| error.contains(why)), "{name}");
        }
        for (name, value) in
            [("jobs", " 4 "), ("heartbeat", "no"), ("pool", "0"), ("skewSeconds", "1m30s"), ("branch", "a/*")]
        {
            assert_eq!(key(name).check(OsStr::new(value)), Ok(()), "{name}");
        }
    }
}
