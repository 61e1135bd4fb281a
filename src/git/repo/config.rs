//! Git's configuration: all layers and includes, as git itself reads them.
//!
//! Invariant: configuration is read, never written, since a write takes a lock that parallel
//! runners would contend for. It is read in this process, so that an idle pass starts no `git`. But
//! trust settings must not depend on whether two readers agree. So before anything is claimed or
//! signed, git is asked once what it reads ([`Repo::check_git`]).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use bstr::{BString, ByteSlice};
use gix::config::Source;
use gix::config::file::SectionRef;

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::ids::BranchName;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::listing::{is_ours, listing, parsed};
use crate::git::repo::open::{Repo, gix_chain};
use crate::git::worktrees::registration::same_place;

/// How long git is not asked again whether it accepts the repository: passes follow each other quickly.
const JUST_NOW: Duration = Duration::from_secs(1);

/// The variables that pass settings to git: that of `git -c`, and those that users set.
pub const CONFIG_VARIABLES: [&str; 2] = ["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"];

/// The variables by which a runner holds what its commands call, in the same repository, to its own
/// `aynig.commandsFrom` and `aynig.requireSigned` (CONTRACT 13.13).
pub(crate) const COMMANDS_FROM: &str = "AYNIG_COMMANDS_FROM";
/// See [`COMMANDS_FROM`].
pub(crate) const REQUIRE_SIGNED: &str = "AYNIG_REQUIRE_SIGNED";

/// One entry of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name below the section, as written, with its subsection as a prefix.
    pub(crate) name: String,
    /// The value; `None` for a name without a value, which is a true boolean.
    pub(crate) value: Option<String>,
    /// The file it was read from; `None` for the environment.
    pub(crate) file: Option<PathBuf>,
}

/// Why settings cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Git does not work here, or cannot read its configuration.
    #[error(transparent)]
    Git(#[from] ProcessError),
    /// This process could not read it.
    #[error("git's configuration could not be read: {0}")]
    Unreadable(String),
    /// The value of a boolean is not one.
    #[error("{key} = {value:?} is neither true nor false")]
    NoBoolean {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Git reads another value than this program does.
    #[error("git reads {key} as {gits} and aynig reads it as {ours}")]
    Disputed {
        /// The key, in git's spelling.
        key: String,
        /// The value git reads, and its origin.
        gits: String,
        /// The value read here.
        ours: String,
    },
}

/// Parses a boolean as git does (`git config --type=bool`); `None` if it is not one.
pub(crate) fn boolean(value: Option<&str>) -> Option<bool> {
    let Some(text) = value else { return Some(true) };
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" | "" => Some(false),
        number => integer(number).map(|number| number != 0),
    }
}

/// Parses a number as git does: signed, decimal, octal or hexadecimal, with a unit.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let (text, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?.checked_mul(factor)?;
    (number <= i64::from(i32::MAX)).then_some(sign * number)
}

impl Repo {
    /// The pager that git would use on a terminal: `GIT_PAGER`, `core.pager`, `PAGER`, else its
    /// built-in default; `None` for no pager.
    pub fn pager(&self) -> Option<String> {
        let asked = Git::shared(self.common_dir()).args(["var", "GIT_PAGER"]).run();
        asked.ok().map(|output| output.text()).filter(|pager| !pager.is_empty() && pager != "cat")
    }

    /// A string from git's configuration; the last value wins, `None` when unset.
    pub fn config(&self, key: &str) -> Option<String> {
        self.gix.config_snapshot().string(key).map(|value| value.to_str_lossy().into_owned())
    }

    /// A setting of a branch, whose name need not be UTF-8.
    pub(crate) fn config_of_branch(&self, branch: &BranchName, name: &str) -> Option<BString> {
        self.gix.config_snapshot().plumbing().string_by("branch", branch.as_bstr(), name)
    }

    /// A boolean that is validated elsewhere, or not critical: an invalid value counts as false.
    pub(crate) fn config_flag(&self, key: &str) -> bool {
        self.gix.config_snapshot().boolean(key).unwrap_or(false)
    }

    /// Whether commits made here are to be signed (`commit.gpgSign`).
    pub fn signs(&self) -> Result<bool, ConfigError> {
        let last = self.settings("commit").into_iter().rfind(|one| one.name.eq_ignore_ascii_case("gpgSign"));
        let Some(setting) = last else { return Ok(false) };
        boolean(setting.value.as_deref()).ok_or_else(|| ConfigError::NoBoolean {
            key: "commit.gpgsign".to_owned(),
            value: setting.value.unwrap_or_default(),
        })
    }

    /// The names of all configured remotes.
    pub fn remote_names(&self) -> Vec<String> {
        self.gix.remote_names().iter().map(|name| name.to_str_lossy().into_owned()).collect()
    }

    /// All entries of a section, the widest layer (the system's) first.
    pub fn settings(&self, section: &str) -> Vec<Setting> {
        let mut all = entries(self.gix.config_snapshot().plumbing(), section);
        if section == "aynig" {
            all.extend(self.held_to());
        }
        all
    }

    /// The settings that an enclosing runner imposes. They come last, so they count.
    fn held_to(&self) -> Vec<Setting> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_of_here =
            || variable("AYNIG_GIT_DIR").is_some_and(|of| same_place(of.as_ref(), self.common_dir()));
        let held = [("commandsFrom", COMMANDS_FROM), ("requireSigned", REQUIRE_SIGNED)];
        let held = held.into_iter().filter_map(|(name, held)| {
            let value = Some(variable(held)?.to_string_lossy().into_owned());
            is_of_here().then(|| Setting { name: name.to_owned(), value, file: None })
        });
        held.collect()
    }

    /// Whether only signed commits are accepted here (`aynig.requireSigned`). A value that is no boolean counts as yes.
    pub(crate) fn requires_signed(&self) -> bool {
        let last =
            self.settings("aynig").into_iter().rfind(|one| one.name.eq_ignore_ascii_case("requireSigned"));
        last.is_some_and(|setting| boolean(setting.value.as_deref()).unwrap_or(true))
    }

    /// The files outside the tree that decide how git writes files to disk: configuration and
    /// attributes files, including those that do not exist. `None` if includes may add more.
    pub(crate) fn files_of_ways(&self) -> Option<Vec<PathBuf>> {
        let fresh = self.reread().ok()?;
        let snapshot = fresh.config_snapshot();
        let config = snapshot.plumbing();
        if ["include", "includeIf"].iter().any(|name| config.sections_by_name(name).is_some()) {
            return None;
        }
        let mut variable = |name: &str| std::env::var_os(name);
        let mut files: Vec<PathBuf> = config.sections().filter_map(|part| part.meta().path.clone()).collect();
        let sources = [Source::GitInstallation, Source::System, Source::Git, Source::User];
        files.extend(sources.into_iter().filter_map(|source| source.storage_location(&mut variable)));
        files.extend(
            ["config", "config.worktree", "info/attributes"].map(|name| self.common_dir().join(name)),
        );
        files.push("/etc/gitattributes".into());
        match snapshot.trusted_path("core.attributesFile").ok()? {
            Some(named) => files.push(named),
            None => files.extend(
                Source::Git.storage_location(&mut variable).map(|config| config.with_file_name("attributes")),
            ),
        }
        Some(files)
    }

    /// A call that git answers as at the top of the checkout we were started in: relative file
    /// names, `config.worktree` and settings from our environment count.
    pub(crate) fn git_here(&self) -> Git {
        let git = match self.checkout_top() {
            Some(top) => Git::inside(top, self.git_dir()),
            None => Git::shared(self.common_dir()),
        };
        self.told_config().iter().fold(git, |git, (name, value)| git.env(name, value))
    }

    /// A setting as git reads it from here; `None` if unset.
    pub(crate) fn config_here(&self, key: &str) -> Option<String> {
        self.git_here().args(["config", "--get", key]).run().ok().map(|output| output.text())
    }

    /// The value of `gc.pruneExpire` if by it `git gc` deletes unreached objects that are younger than `seconds`.
    pub fn prunes_within(&self, seconds: i64) -> Option<String> {
        const KEY: &str = "gc.pruneExpire";
        let asked = self.git_here().args(["config", "--type=expiry-date", "--get", KEY]).run().ok()?;
        let oldest: u64 = asked.text().trim().parse().ok()?;
        let limit = u64::try_from(clock::wall_seconds().saturating_sub(seconds)).unwrap_or(0);
        (oldest > limit).then(|| self.config_here(KEY)).flatten()
    }

    /// A setting that names a file, as git resolves it from here; `None` if unset or empty.
    pub fn config_file(&self, key: &str) -> Result<Option<PathBuf>, ProcessError> {
        let asked = self.git_here().args(["config", "--type=path", "--get", key]).run();
        let output = match asked {
            Err(ProcessError::Failed { status, .. }) if status.code() == Some(1) => return Ok(None),
            asked => asked?,
        };
        let name = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
        let top = self.checkout_top().unwrap_or(self.common_dir());
        Ok((!name.is_empty()).then(|| top.join(OsStr::from_bytes(name))))
    }

    /// Checks that there is a `git` program, that it accepts this repository, and that it reads our
    /// settings as this process does. Called before anything is claimed.
    pub fn check_git(&self) -> Result<(), ConfigError> {
        let common_dir = self.common_dir();
        let mut accepted = self.accepted().lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.is_some_and(|at| at.elapsed() < JUST_NOW) {
            return self.check_settings();
        }
        let taken = || Git::shared(common_dir).args(["rev-parse", "--git-dir"]).run().map(drop);
        let (taken, settings) = beside(taken, || self.check_settings());
        taken?;
        settings?;
        *accepted = Some(Stopwatch::start());
        Ok(())
    }

    /// Checks once that git reads our settings as this process does. Also called before anything is
    /// signed.
    pub(crate) fn check_settings(&self) -> Result<(), ConfigError> {
        if self.settings_checked().get().is_none() {
            // Tried twice, since a setting may just be changing.
            self.compare_settings().or_else(|_| self.compare_settings())?;
            self.settings_checked().get_or_init(|| ());
        }
        Ok(())
    }

    /// Whether the repository's configuration is there. An editor may take the file away for a moment. Git reads
    /// that as a file without settings, which would turn `aynig.requireSigned` off.
    pub fn has_config(&self) -> bool {
        self.common_dir().join("config").metadata().is_ok_and(|found| found.len() > 0)
    }

    /// Whether git's configuration has changed since this process opened the repository.
    pub(crate) fn is_reconfigured(&self) -> bool {
        if !self.has_config() {
            return false;
        }
        match self.reread() {
            Ok(fresh) => {
                let now = fresh.config_snapshot().plumbing().to_bstring();
                now != self.gix.config_snapshot().plumbing().to_bstring()
            }
            // To open the repository anew reports what is wrong.
            Err(_) => !self.is_gone(),
        }
    }

    fn compare_settings(&self) -> Result<(), ConfigError> {
        let (git_dir, told) = (self.git_dir(), self.told_config());
        // Read anew, since a user may have changed it since this process began.
        let (output, fresh) = beside(|| listing(git_dir, told, &["--show-origin"]), || self.reread());
        let output = output?;
        let fresh = fresh.map_err(|error| ConfigError::Unreadable(gix_chain(&error)))?;
        let mut both: BTreeMap<String, Both> = BTreeMap::new();
        for (origin, key, value) in parsed(&output) {
            let both = both.entry(key).or_default();
            both.gits.push(value);
            both.origin = origin;
        }
        for section in SECTIONS {
            for setting in entries(fresh.config_snapshot().plumbing(), section) {
                both.entry(spelt(section, &setting.name)).or_default().ours.push(setting.value);
            }
        }
        match both.into_iter().find(|(key, both)| is_ours(key) && !both.are_alike()) {
            None => Ok(()),
            Some((key, both)) => Err(ConfigError::Disputed {
                key,
                gits: format!("{} ({})", in_words(both.gits.last()), both.origin),
                ours: in_words(both.ours.last()),
            }),
        }
    }
}

/// Runs a `git` call in another thread while this one does other work, since a `git` takes longer
/// than most of it.
fn beside<T: Send, U>(git: impl FnOnce() -> T + Send, here: impl FnOnce() -> U) -> (T, U) {
    thread::scope(|scope| {
        let asked = scope.spawn(git);
        let done = here();
        (asked.join().unwrap_or_else(|panic| resume_unwind(panic)), done)
    })
}

/// The values of one key, as git reads them and as they are read here.
#[derive(Debug, Default)]
struct Both {
    gits: Vec<Option<String>>,
    ours: Vec<Option<String>>,
    /// The origin of git's last value.
    origin: String,
}

impl Both {
    fn are_alike(&self) -> bool {
        // A name without a value is read here like an empty value, if the same name follows.
        let plain = |values: &[Option<String>]| -> Vec<String> {
            values.iter().map(|value| value.clone().unwrap_or_default()).collect()
        };
        plain(&self.gits) == plain(&self.ours) && self.gits.last() == self.ours.last()
    }
}

fn in_words(value: Option<&Option<String>>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(None) => "set without a value".to_owned(),
        Some(Some(value)) => format!("{value:?}"),
    }
}

/// The sections with settings that must be read as git reads them.
const SECTIONS: [&str; 2] = ["aynig", "commit"];

/// A key in git's spelling: only a subsection keeps its case.
fn spelt(section: &str, name: &str) -> String {
    match name.rsplit_once('.') {
        Some((subsection, name)) => format!("{section}.{subsection}.{}", name.to_ascii_lowercase()),
        None => format!("{section}.{}", name.to_ascii_lowercase()),
    }
}

fn entries(config: &gix::config::File, section: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    for part in config.sections_by_name(section).into_iter().flatten() {
        let prefix = part.header().subsection_name().map(|name| format!("{name}.")).unwrap_or_default();
        let mut seen: Vec<String> = Vec::new();
        for name in part.value_names() {
            let lower = name.to_ascii_lowercase();
            if seen.contains(&lower) {
                continue;
            }
            seen.push(lower);
            let values = values_of(part, &name);
            settings.extend(values.into_iter().map(|value| Setting {
                name: format!("{prefix}{name}"),
                value,
                file: part.meta().path.clone(),
            }));
        }
    }
    settings
}

/// The values of a name in a section; `None`: the name alone, without `=`.
pub(super) fn values_of(part: SectionRef<'_>, name: &str) -> Vec<Option<String>> {
    let text = |value: &BString| Some(value.to_str_lossy().into_owned());
    let mut values: Vec<Option<String>> = part.values(name).iter().map(text).collect();
    // Of several names without a value only the last shows. Those before it do not matter
    // for a boolean.
    if part.value_implicit(name) == Some(None) {
        values.pop();
        values.push(None);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_gits() {
        for (value, expected) in [
            (None, Some(true)),
            (Some("YES"), Some(true)),
            (Some("on"), Some(true)),
            (Some("False"), Some(false)),
            (Some(""), Some(false)),
            (Some("00"), Some(false)),
            (Some("010"), Some(true)),
            (Some("0x1F"), Some(true)),
            (Some("-0"), Some(false)),
            (Some("-1"), Some(true)),
            (Some("+2g"), None),
            (Some("1G"), Some(true)),
            (Some("2147483647"), Some(true)),
            (Some("2147483648"), None),
            (Some("08"), None),
            (Some("k"), None),
            (Some("--1"), None),
            (Some("0x"), None),
            (Some("1 "), None),
            (Some("\t1"), Some(true)),
            (Some("maybe"), None),
        ] {
            assert_eq!(boolean(value), expected, "{value:?}");
        }
    }

    #[test]
    fn keys_are_spelt_as_git_lists_them() {
        assert_eq!(spelt("aynig", "requireSigned"), "aynig.requiresigned");
        assert_eq!(spelt("gpg", "ssh.allowedSignersFile"), "gpg.ssh.allowedsignersfile");
    }

    #[test]
    fn two_readings_are_alike_or_not() {
        let values = |text: &str| -> Vec<Option<String>> {
            text.split_terminator(',').map(|word| (word != "alone").then(|| word.to_owned())).collect()
        };
        for (gits, ours, alike) in [
            ("", "", true),
            ("x", "x", true),
            ("x", "", false),
            ("", "x", false),
            ("x,y", "y", false),
            ("x,y", "y,x", false),
            ("alone", "alone", true),
            ("x,alone", "x,", false),
            ("alone,x", ",x", true),
            ("alone", ",", false),
        ] {
            let both = Both { gits: values(gits), ours: values(ours), origin: String::new() };
            assert_eq!(both.are_alike(), alike, "{gits:?} {ours:?}");
        }
    }

    #[test]
    fn a_listing_is_taken_apart() {
        let found: Vec<_> = parsed(b"file:/x/config\0a.b\nc\nd\0command line:\0a.alone\0").collect();
        assert_eq!(
            found,
            [
                ("/x/config".to_owned(), "a.b".to_owned(), Some("c\nd".to_owned())),
                ("command line:".to_owned(), "a.alone".to_owned(), None),
            ]
        );
    }
}
