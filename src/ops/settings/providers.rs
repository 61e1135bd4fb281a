//! `aynig.provider.<name>.*`: the agents of this host.
//!
//! Invariant: what a repository or a run contains does not count here, only git's configuration. Only the settings of
//! the provider that is needed are read.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::contract::alike::nearest;
use crate::git::Repo;
use crate::git::repo::config::Setting;
use crate::model::ids::ProviderName;
use crate::provider::environment::refusal;
use crate::provider::{Kind, Provider, find, named};

use super::read::seconds;
use super::{Error, expanded, place};

/// The names below `aynig.provider.<name>.`.
const NAMES: [&str; 8] =
    ["kind", "command", "args", "model", "env", "protocol", "idleSeconds", "turnSeconds"];

/// The longest time without output and change, unless it is set: 15 minutes.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// The longest time of a turn, unless it is set: 2 hours.
const WALL: Duration = Duration::from_secs(2 * 60 * 60);

/// The longest time that can be set: a week.
const LONGEST: u64 = 7 * 86_400;

/// A provider that needs no settings.
struct Known {
    name: &'static str,
    kind: Kind,
    args: &'static [&'static str],
    /// Variables that are passed on.
    passed: &'static [&'static str],
    /// Variables that are set to `true`.
    set: &'static [&'static str],
}

const KNOWN: [Known; 3] = [
    Known {
        name: "claude",
        kind: Kind::Claude,
        args: &[],
        passed: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CONFIG_DIR",
        ],
        set: &[],
    },
    Known {
        name: "codex",
        kind: Kind::Codex,
        args: &[],
        passed: &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"],
        set: &[],
    },
    Known {
        name: "gemini",
        kind: Kind::Acp,
        args: &["--acp"],
        passed: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"],
        // Without the first it starts itself again, and signals do not reach the second process.
        set: &["GEMINI_CLI_NO_RELAUNCH", "GEMINI_CLI_TRUST_WORKSPACE"],
    },
];

/// An entry of a provider.
struct Entry {
    provider: String,
    /// As written, with any case.
    name: String,
    setting: Setting,
}

fn entries(repo: &Repo) -> Vec<Entry> {
    let split = |setting: Setting| {
        let rest = strip(&setting.name)?;
        let (provider, name) = rest.rsplit_once('.')?;
        Some(Entry { provider: provider.to_owned(), name: name.to_owned(), setting })
    };
    repo.settings("aynig").into_iter().filter_map(split).collect()
}

/// What follows `provider.` in the name of a setting.
fn strip(name: &str) -> Option<&str> {
    let (head, rest) = name.split_once('.')?;
    head.eq_ignore_ascii_case("provider").then_some(rest)
}

/// A warning for a setting of a provider that does not exist. `None` for any other setting, too.
pub(super) fn unknown(setting: &Setting) -> Option<Option<String>> {
    let rest = strip(&setting.name)?;
    let (provider, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    let is_known = NAMES.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_known && named(provider).is_some() {
        return Some(None);
    }
    let near = match nearest(name, NAMES) {
        _ if is_known => "; the name of a provider is 1 to 32 characters out of a-z, 0-9 and -".to_owned(),
        Some(near) => format!("; did you mean aynig.provider.{provider}.{near}?"),
        None => String::new(),
    };
    Some(Some(format!("unknown setting {}, ignored{near}", place(setting))))
}

/// The names of all providers: those with settings, and those that need none.
pub fn names(repo: &Repo) -> Vec<ProviderName> {
    let set = entries(repo).into_iter().map(|entry| entry.provider);
    let all: BTreeSet<ProviderName> =
        set.chain(KNOWN.iter().map(|known| known.name.to_owned())).filter_map(|name| named(&name)).collect();
    all.into_iter().collect()
}

/// Whether a provider has settings here.
pub fn is_configured(repo: &Repo, name: &ProviderName) -> bool {
    entries(repo).iter().any(|entry| named(&entry.provider).as_ref() == Some(name))
}

/// The kind of a provider by its settings here; without any, that of a well-known name. `None` if neither says.
pub fn kind(repo: Option<&Repo>, text: &str) -> Option<Kind> {
    let name = ProviderName::parse(text).ok()?;
    let known = || KNOWN.iter().find(|known| known.name == name.as_str()).map(|known| known.kind);
    match repo {
        Some(repo) => provider(repo, &name).ok()?.map(|provider| provider.kind),
        None => known(),
    }
}

/// A provider of this host. `None` if it is not configured.
///
/// # Errors
/// A setting with a wrong value.
pub fn provider(repo: &Repo, name: &ProviderName) -> Result<Option<Provider>, Error> {
    let entries: Vec<Entry> =
        entries(repo).into_iter().filter(|entry| named(&entry.provider).as_ref() == Some(name)).collect();
    let known = KNOWN.iter().find(|known| known.name == name.as_str());
    if known.is_none() && entries.is_empty() {
        return Ok(None);
    }
    let mut draft = Draft::default();
    for entry in &entries {
        draft.take(entry).map_err(|why| wrong(entry, name, &why))?;
    }
    draft.finish(name, known).map(Some)
}

/// The provider of this name if this host has it and its program. The error is a reason for people.
pub(crate) fn here(repo: &Repo, text: &str) -> Result<Provider, String> {
    let name = named(text).ok_or_else(|| format!("{text} is no name of a provider"))?;
    let provider = provider(repo, &name).map_err(|error| match error.hints.first() {
        Some(next) => format!("{}; {next}", error.message),
        None => error.message,
    })?;
    let provider = provider.ok_or_else(|| {
        let all: Vec<String> = names(repo).iter().map(ToString::to_string).collect();
        let near = nearest(name.as_str(), all);
        let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
        format!(
            "this host has no provider {name}; {near}`git config aynig.provider.{name}.kind KIND` makes one"
        )
    })?;
    find(&provider)?;
    Ok(provider)
}

fn wrong(entry: &Entry, name: &ProviderName, why: &str) -> Error {
    Error::setup(format!("{}: {why}", place(&entry.setting)))
        .hint(format!("set it: `git config aynig.provider.{name}.{} VALUE`", entry.name))
        .hint("`git config --show-origin --get-regexp '^aynig\\.'` lists all settings and their files")
}

#[derive(Default)]
struct Draft {
    kind: Option<String>,
    command: Option<PathBuf>,
    args: Vec<String>,
    model: Option<String>,
    env: Vec<(String, Option<std::ffi::OsString>)>,
    protocol: Option<String>,
    idle: Option<Duration>,
    wall: Option<Duration>,
}

impl Draft {
    fn take(&mut self, entry: &Entry) -> Result<(), String> {
        let Some(value) = entry.setting.value.clone() else { return Err("a value is required".to_owned()) };
        match entry.name.to_ascii_lowercase().as_str() {
            "kind" if ["custom", "claude", "codex", "acp"].contains(&value.as_str()) => {
                self.kind = Some(value)
            }
            "kind" => return Err("write custom, claude, codex or acp".to_owned()),
            "protocol" if ["text", "jsonl"].contains(&value.as_str()) => self.protocol = Some(value),
            "protocol" => return Err("write text or jsonl".to_owned()),
            "command" => self.command = Some(command(&value)?),
            "args" => self.args.extend(words(&value)?),
            "model" => self.model = Some(value).filter(|model| !model.is_empty()),
            "env" => {
                let (name, value) = match value.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.into())),
                    None => (value, None),
                };
                if let Some(why) = refusal(&name) {
                    return Err(why.to_owned());
                }
                self.env.push((name, value));
            }
            "idleseconds" => self.idle = Some(time(&value)?),
            "turnseconds" => self.wall = Some(time(&value)?),
            // It is reported as unknown.
            _ => {}
        }
        Ok(())
    }

    fn finish(self, name: &ProviderName, known: Option<&Known>) -> Result<Provider, Error> {
        let missing = |what: &str| {
            let values = if what == "kind" { " (claude, codex, acp or custom)" } else { "" };
            Error::setup(format!("the provider {name} has no {what}"))
                .hint(format!("set it: `git config aynig.provider.{name}.{what} VALUE`{values}"))
        };
        let kind = match (self.kind.as_deref(), self.protocol.as_deref()) {
            (Some("claude"), None) => Kind::Claude,
            (Some("codex"), None) => Kind::Codex,
            (Some("acp"), None) => Kind::Acp,
            (Some("custom"), Some("jsonl")) => Kind::Jsonl,
            (Some("custom"), _) => Kind::Text,
            (None, None) => known.map(|known| known.kind).ok_or_else(|| missing("kind"))?,
            (kind, Some(_)) => {
                let key = format!("aynig.provider.{name}");
                let mends = match kind {
                    None => format!("`git config {key}.kind custom`"),
                    Some(_) => format!("`git config --unset-all {key}.protocol`"),
                };
                let kind = kind.map_or_else(|| "no kind".to_owned(), |kind| format!("the kind {kind}"));
                return Err(Error::setup(format!("the provider {name} has a protocol and {kind}"))
                    .hint(format!("only the kind custom has a protocol: {mends}")));
            }
            (Some(_), None) => unreachable!("kinds are checked when they are read"),
        };
        let known = known.filter(|known| known.kind == kind);
        let default = match kind {
            Kind::Claude => Some("claude"),
            Kind::Codex => Some("codex"),
            Kind::Acp => known.map(|known| known.name),
            Kind::Text | Kind::Jsonl => None,
        };
        let is_default = match (&self.command, default) {
            (Some(command), Some(default)) => command.file_name().is_some_and(|file| file == default),
            (None, _) => true,
            (Some(_), None) => false,
        };
        let command = self.command.or(default.map(PathBuf::from)).ok_or_else(|| missing("command"))?;
        let mut args = self.args;
        let mut env = Vec::new();
        if let Some(known) =
            KNOWN.iter().find(|one| one.kind == kind && (kind != Kind::Acp || known.is_some()))
        {
            // Another program of the kind acp has other arguments.
            if args.is_empty() && (is_default || kind != Kind::Acp) {
                args = known.args.iter().map(ToString::to_string).collect();
            }
            env.extend(known.passed.iter().map(|name| ((*name).to_owned(), None)));
            env.extend(known.set.iter().map(|name| ((*name).to_owned(), Some("true".into()))));
        }
        env.extend(self.env);
        Ok(Provider {
            name: name.clone(),
            kind,
            command,
            args,
            model: self.model,
            env,
            idle: Some(self.idle.unwrap_or(IDLE)),
            wall: Some(self.wall.unwrap_or(WALL)),
        })
    }
}

fn command(value: &str) -> Result<PathBuf, String> {
    let path = expanded(PathBuf::from(value));
    if value.is_empty() {
        return Err("a program is required".to_owned());
    }
    if path.components().count() > 1 && !path.is_absolute() {
        return Err("write an absolute path, or a name that is looked up in PATH".to_owned());
    }
    Ok(path)
}

fn time(value: &str) -> Result<Duration, String> {
    seconds(&(1..=LONGEST), value).map(Duration::from_secs)
}

/// Splits words as a shell does, without expanding anything.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                let Some(next) = rest.next() else { return Err("it ends with a backslash".to_owned()) };
                word.get_or_insert_default().push(next);
            }
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quotation mark is not closed".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_like_words() {
        let split = |text: &str| words(text).map(|words| words.join("|"));
        for (text, expected) in [
            ("", ""),
            ("--acp", "--acp"),
            (" a  b\tc ", "a|b|c"),
            ("-c 'a b' \"c d\"e", "-c|a b|c de"),
            (r#"a\ b "q\"r" 'x\y' ''"#, r#"a b|q"r|x\y|"#),
            ("$HOME `x`", "$HOME|`x`"),
        ] {
            assert_eq!(split(text), Ok(expected.to_owned()), "{text}");
        }
        for text in ["'a", "\"a", "a\\"] {
            assert!(split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_known_program_keeps_its_arguments_wherever_it_is() {
        let name = named("gemini").expect("a name");
        let known = KNOWN.iter().find(|known| known.name == "gemini");
        let args = |command: Option<&str>, args: &[&str]| {
            let args = args.iter().map(ToString::to_string).collect();
            let draft = Draft { command: command.map(PathBuf::from), args, ..Draft::default() };
            draft.finish(&name, known).expect("a provider").args
        };
        assert_eq!(args(None, &[]), ["--acp"]);
        assert_eq!(args(Some("/opt/bin/gemini"), &[]), ["--acp"]);
        assert_eq!(args(Some("/opt/bin/gemini"), &["--acp", "--debug"]), ["--acp", "--debug"]);
        assert_eq!(args(Some("/opt/bin/opencode"), &[]), Vec::<String>::new());
    }
}
