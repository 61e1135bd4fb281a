//! What a setting is: its names, its values, and where it is read.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::git::repo::config::boolean;

use super::read::{number, seconds, text};
use super::values::Settings;

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// Its name below `aynig.`.
    pub name: &'static str,
    /// The readers of the setting.
    pub(crate) group: Group,
    /// The option of `aynig run` that takes the same values.
    pub option: Option<Flag>,
    /// The variable between the option and git's configuration in precedence, as
    /// `aynig-config(5)` shows it.
    pub environment: &'static str,
    /// The trailer between them in precedence.
    pub trailer: &'static str,
    /// Its values.
    pub value: Value,
    /// The value if nothing sets it.
    pub default: Fallback,
    /// Its help text.
    pub help: &'static str,
}

/// The readers of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Runs only.
    Run,
    /// Runs, and everything that shows what would be run. These settings say which commands and
    /// commits are trusted.
    Security,
    /// Every writer of a state.
    Notify,
    /// What is about runs and their workspaces.
    Workspace,
    /// Read only if no other source names a role.
    Role,
    /// Read only if no other source names a remote.
    Remote,
    /// [`crate::git`], when it opens a repository.
    Runner,
}

/// An option of `aynig run`.
#[derive(Debug)]
pub struct Flag {
    /// Its name.
    pub long: &'static str,
    /// Its letter.
    pub short: Option<char>,
    /// Its argument.
    pub takes: Takes,
    /// The source of its default, if that is not git's configuration alone.
    pub default: &'static str,
}

/// The argument of an option.
#[derive(Debug)]
pub enum Takes {
    /// A value, with its name in help texts.
    Value(&'static str),
    /// None: it makes the setting true.
    True,
    /// None: it makes the setting false, with this documentation.
    False(&'static str),
}

/// The value of a setting that nothing sets.
#[derive(Debug)]
pub enum Fallback {
    /// A value.
    Value(&'static str),
    /// A description, if no value expresses it.
    Words(&'static str),
}

/// The values of a setting, and the field that each is put into.
pub enum Value {
    /// Git's booleans.
    Flag(fn(&mut Settings, bool)),
    /// Whole numbers.
    Number(RangeInclusive<u64>, fn(&mut Settings, u64)),
    /// Durations, in seconds.
    Seconds(RangeInclusive<u64>, fn(&mut Settings, u64)),
    /// One of some words.
    Word(&'static [Word]),
    /// A path.
    Path(fn(&mut Settings, PathBuf)),
    /// A text that is not empty.
    Text(fn(&mut Settings, String)),
    /// A text for `sh`. A blank one counts as none.
    Line(fn(&mut Settings, String)),
    /// A glob. All values count.
    Glob(fn(&mut Settings, String)),
    /// A name. An empty one counts as none in git's configuration.
    Name(fn(&mut Settings, &str) -> Result<(), String>),
}

/// One word of a setting that is a choice of words.
#[derive(Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// Its meaning.
    pub help: &'static str,
    pub(super) put: fn(&mut Settings),
}

impl std::fmt::Debug for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Flag(_) => "Flag",
            Self::Number(..) => "Number",
            Self::Seconds(..) => "Seconds",
            Self::Word(_) => "Word",
            Self::Path(_) => "Path",
            Self::Text(_) => "Text",
            Self::Line(_) => "Line",
            Self::Glob(_) => "Glob",
            Self::Name(_) => "Name",
        })
    }
}

impl Key {
    /// Whether the setting says which commands and commits are run.
    pub(crate) fn is_security(&self) -> bool {
        self.group == Group::Security
    }

    /// Whether a run reads it from git's configuration, unless it was given.
    pub(crate) fn is_for_runs(&self) -> bool {
        match self.group {
            Group::Run | Group::Security | Group::Notify => true,
            Group::Workspace | Group::Role | Group::Remote | Group::Runner => false,
        }
    }

    /// Whether all of its values count, not only the last.
    pub fn is_repeatable(&self) -> bool {
        matches!(self.value, Value::Glob(_))
    }

    /// Checks a value, and returns the fault.
    pub fn check(&self, value: &OsStr) -> Result<(), String> {
        if let Value::Glob(_) = self.value {
            let glob = globset::Glob::new(text(value)?);
            return glob.map(drop).map_err(|error| format!("it is not a glob: {}", error.kind()));
        }
        self.put(&mut Settings::default(), value)
    }

    /// Puts a value into the settings. A glob is not checked.
    pub(crate) fn put(&self, settings: &mut Settings, value: &OsStr) -> Result<(), String> {
        match &self.value {
            Value::Flag(put) => {
                put(settings, boolean(Some(text(value)?)).ok_or("it is neither true nor false")?);
            }
            Value::Number(range, put) => put(settings, number(range, text(value)?)?),
            Value::Seconds(range, put) => put(settings, seconds(range, text(value)?)?),
            Value::Word(words) => match words.iter().find(|word| word.word == value) {
                Some(word) => (word.put)(settings),
                None => {
                    let words: Vec<&str> = words.iter().map(|word| word.word).collect();
                    return Err(format!("write {}", words.join(" or ")));
                }
            },
            Value::Path(_) | Value::Text(_) if value.is_empty() => {
                return Err("a value is required".to_owned());
            }
            Value::Path(put) => put(settings, value.into()),
            Value::Text(put) | Value::Line(put) | Value::Glob(put) => put(settings, text(value)?.to_owned()),
            Value::Name(put) => put(settings, text(value)?)?,
        }
        Ok(())
    }
}
