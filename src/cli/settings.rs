//! `aynig.*` in git's configuration: what an option is when nothing nearer says so.
//!
//! Invariant: flag > environment > trailer > git's configuration > built-in default, for every setting. A value is parsed
//! by the very parser of its option, so both take the same; one that is misspelt or has the wrong type is named with the
//! file it is in, and never silently ignored. The README has the table, and a test compares it with [`KEYS`].

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::contract::alike::nearest;
use crate::contract::ids::{RemoteName, RoleName};
use crate::git::Repo;
use crate::git::config::{Setting, boolean};
use crate::runner::options::Trust;

use super::args::{Arguments, Run};
use super::error::CommandError;
use super::run::globs;
use super::ui::{self, CARE, harmless, styled};

/// All settings below `aynig.`: the name, and the option of `aynig run` it stands for, if it is one.
pub const KEYS: [(&str, Option<&str>); 23] = [
    ("branch", Some("branch")),
    ("commandTimeout", Some("command-timeout")),
    ("commandsFrom", Some("commands-from")),
    ("currentBranch", Some("current-branch")),
    ("graceSeconds", Some("grace-seconds")),
    ("heartbeat", None),
    ("jobs", Some("jobs")),
    ("leaseSeconds", Some("lease-seconds")),
    ("notify", None),
    ("notifySeconds", None),
    ("notifyStates", None),
    ("pool", None),
    ("poolKeepIgnored", None),
    ("remote", None),
    ("requireSigned", None),
    ("role", None),
    ("runnerId", None),
    ("setup", None),
    ("skewSeconds", Some("skew-seconds")),
    ("states", Some("states")),
    ("takeover", Some("takeover")),
    ("trailerVariables", None),
    ("worktree", Some("worktree")),
];

/// How long telling somebody may take unless `aynig.notifySeconds` says otherwise, seconds.
const NOTIFY_SECONDS: u64 = 30;

/// The most it may say, as the end of a run waits for it.
const MOST_NOTIFY_SECONDS: u64 = 3_600;

/// What a setting's value was found to be, and where.
fn place(setting: &Setting) -> String {
    let file = match &setting.file {
        Some(file) => file.display().to_string(),
        None => "the environment (`git -c`, GIT_CONFIG_COUNT)".to_owned(),
    };
    match &setting.value {
        Some(value) => format!("aynig.{} = {value:?} in {file}", shown(setting)),
        None => format!("aynig.{} without a value in {file}", shown(setting)),
    }
}

/// Its name as people know it; a misspelt one as written.
fn shown(setting: &Setting) -> &str {
    canonical(&setting.name).unwrap_or(&setting.name)
}

/// Its value as text; where it stands alone there is none.
fn text(setting: &Setting) -> &str {
    setting.value.as_deref().unwrap_or_default()
}

fn last(repo: &Repo, name: &str) -> Option<Setting> {
    repo.settings("aynig").into_iter().rfind(|setting| setting.name.eq_ignore_ascii_case(name))
}

fn wrong(setting: &Setting, why: impl std::fmt::Display) -> CommandError {
    let name = shown(setting);
    CommandError::setup(format!("{}: {}", harmless(&place(setting)), harmless(&why.to_string())))
        .hint(format!(
            "set it: `git config aynig.{name} VALUE`, or drop it: `git config --unset-all aynig.{name}`"
        ))
        .hint("`git config --show-origin --get-regexp '^aynig\\.'` lists all settings and their files")
}

fn canonical(name: &str) -> Option<&'static str> {
    KEYS.iter().map(|(key, _)| *key).find(|key| key.eq_ignore_ascii_case(name))
}

/// Whether a name that stands alone is a value.
fn is_boolean(name: &str) -> bool {
    ["heartbeat", "poolKeepIgnored", "requireSigned"].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// `aynig.role`.
pub fn role(repo: &Repo) -> Result<Option<RoleName>, CommandError> {
    let Some(setting) = last(repo, "role").filter(|setting| !text(setting).is_empty()) else {
        return Ok(None);
    };
    RoleName::parse(text(&setting)).map(Some).map_err(|error| wrong(&setting, error))
}

/// `aynig.remote`.
pub fn remote(repo: &Repo) -> Result<Option<RemoteName>, CommandError> {
    let Some(setting) = last(repo, "remote").filter(|setting| !text(setting).is_empty()) else {
        return Ok(None);
    };
    let name = RemoteName::parse(text(&setting)).map_err(|error| wrong(&setting, error))?;
    if repo.has_remote(&name) {
        return Ok(Some(name));
    }
    Err(wrong(&setting, "this repository has no such remote").hint("`git remote -v` lists its remotes"))
}

/// `aynig.setup`; an empty one counts as none.
pub fn setup(repo: &Repo) -> Option<String> {
    last(repo, "setup").and_then(|setting| setting.value).filter(|line| !line.trim().is_empty())
}

/// How people are told, as `aynig.notify` and its companions say.
#[derive(Debug, Clone)]
pub struct Notify {
    /// The command line; none where nobody is told.
    pub line: Option<String>,
    /// The longest it may take.
    pub limit: Duration,
    /// The states that are told besides `stalled`.
    pub states: globset::GlobSet,
    /// How many globs that are.
    pub globs: usize,
}

/// `aynig.notify`, `aynig.notifySeconds` and `aynig.notifyStates`; an empty command line counts as none.
pub fn notify(repo: &Repo) -> Result<Notify, CommandError> {
    let line = last(repo, "notify").and_then(|setting| setting.value).filter(|line| !line.trim().is_empty());
    let seconds = match last(repo, "notifySeconds") {
        None => NOTIFY_SECONDS,
        Some(setting) => match text(&setting).trim().parse() {
            Ok(seconds @ 1..=MOST_NOTIFY_SECONDS) => seconds,
            Ok(_) | Err(_) => {
                return Err(wrong(&setting, format!("write a number from 1 to {MOST_NOTIFY_SECONDS}")));
            }
        },
    };
    let mut texts = Vec::new();
    for setting in repo.settings("aynig") {
        if setting.name.eq_ignore_ascii_case("notifyStates") {
            is_glob(&setting)?;
            texts.push(text(&setting).to_owned());
        }
    }
    let states = globs("aynig.notifyStates", &texts)?;
    Ok(Notify { line, limit: Duration::from_secs(seconds), states, globs: texts.len() })
}

/// What `aynig run` was told, with the settings in place of what the command line leaves open.
pub fn complete(repo: &Repo, given: &Run, matches: &ArgMatches) -> Result<Run, CommandError> {
    for text in unknown(repo) {
        ui::narrate(&format!("{} {}", styled(CARE, "warning:"), harmless(&text)));
    }
    completed(repo, given, matches)
}

/// The same without a word about names that are no settings.
pub fn completed(repo: &Repo, given: &Run, matches: &ArgMatches) -> Result<Run, CommandError> {
    let mut run = given.clone();
    let settings = repo.settings("aynig");
    let alone = settings.iter().find(|setting| setting.value.is_none() && !is_boolean(&setting.name));
    if let Some(setting) = alone.filter(|setting| canonical(&setting.name).is_some()) {
        return Err(wrong(setting, "a value is required"));
    }
    for (name, option) in KEYS {
        let Some(option) = option else { continue };
        if matches.value_source(&option.replace('-', "_")) == Some(ValueSource::CommandLine) {
            continue;
        }
        let values: Vec<&Setting> =
            settings.iter().filter(|setting| setting.name.eq_ignore_ascii_case(name)).collect();
        for setting in values {
            let parsed = parse(option, setting)?;
            match name {
                "branch" => {
                    is_glob(setting)?;
                    run.branch.extend(parsed.branch);
                }
                "commandsFrom" => run.commands_from = parsed.commands_from,
                "states" => {
                    is_glob(setting)?;
                    run.states.extend(parsed.states);
                }
                "commandTimeout" => run.command_timeout = parsed.command_timeout,
                "currentBranch" => run.current_branch = parsed.current_branch,
                "graceSeconds" => run.grace_seconds = parsed.grace_seconds,
                "jobs" => run.jobs = parsed.jobs,
                "leaseSeconds" => run.lease_seconds = parsed.lease_seconds,
                "skewSeconds" => run.skew_seconds = parsed.skew_seconds,
                "takeover" => run.takeover = parsed.takeover,
                "worktree" => run.worktree = expanded(parsed.worktree),
                other => unreachable!("aynig.{other} stands for an option that is not taken over"),
            }
        }
    }
    run.no_heartbeat |= flag(repo, "heartbeat")? == Some(false);
    flag(repo, "poolKeepIgnored")?;
    notify(repo)?;
    if let Some(setting) = last(repo, "pool")
        && text(&setting).trim().parse::<usize>().is_err()
    {
        return Err(wrong(&setting, "write a number from 0 on"));
    }
    run.require_signed |= require_signed(repo)?;
    Ok(run)
}

/// Refuses a value that is no glob.
fn is_glob(setting: &Setting) -> Result<(), CommandError> {
    let why = |error: globset::Error| wrong(setting, format!("it is not a glob: {}", error.kind()));
    globset::Glob::new(text(setting)).map(drop).map_err(why)
}

/// A boolean, as git reads it.
fn flag(repo: &Repo, name: &str) -> Result<Option<bool>, CommandError> {
    let Some(setting) = last(repo, name) else { return Ok(None) };
    match boolean(setting.value.as_deref()) {
        Some(value) => Ok(Some(value)),
        None => Err(wrong(&setting, "it is neither true nor false")),
    }
}

/// `aynig.requireSigned`.
pub fn require_signed(repo: &Repo) -> Result<bool, CommandError> {
    Ok(flag(repo, "requireSigned")?.unwrap_or(false))
}

/// `aynig.trailerVariables`, in any case of letters; none if it is not set.
pub fn trailer_variables(repo: &Repo) -> Result<Option<globset::GlobSet>, CommandError> {
    let mut globs: Option<globset::GlobSetBuilder> = None;
    for setting in repo.settings("aynig") {
        if setting.name.eq_ignore_ascii_case("trailerVariables") {
            is_glob(&setting)?;
            let glob = globset::GlobBuilder::new(text(&setting)).case_insensitive(true).build();
            globs
                .get_or_insert_with(globset::GlobSetBuilder::new)
                .add(glob.map_err(|error| wrong(&setting, error))?);
        }
    }
    globs.map(|globs| globs.build()).transpose().map_err(|error| CommandError::setup(error.to_string()))
}

/// Whose commands and commits `aynig run` would run here without options.
pub fn trust(repo: &Repo) -> Result<Trust, CommandError> {
    let settings = repo.settings("aynig");
    let named =
        |name: &'static str| settings.iter().filter(move |setting| setting.name.eq_ignore_ascii_case(name));
    let texts = |name| {
        named(name)
            .map(|setting| is_glob(setting).map(|()| text(setting).to_owned()))
            .collect::<Result<Vec<String>, CommandError>>()
    };
    let commands_from = match named("commandsFrom").next_back() {
        Some(setting) => parse("commands-from", setting)?.commands_from,
        None => None,
    };
    Ok(Trust {
        commands_from,
        require_signed: require_signed(repo)?,
        states: globs("--states", &texts("states")?)?,
        branches: globs("--branch", &texts("branch")?)?,
        variables: trailer_variables(repo)?,
    })
}

/// The value as the option's own parser reads it.
fn parse(option: &str, setting: &Setting) -> Result<Run, CommandError> {
    let words = ["run".to_owned(), format!("--{option}={}", text(setting))];
    let read = Arguments::command().no_binary_name(true).try_get_matches_from(words).and_then(|matches| {
        Run::from_arg_matches(matches.subcommand_matches("run").expect("the first of the words"))
    });
    read.map_err(|error| {
        let said = error.to_string();
        let reason: Vec<&str> = said.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let reason = reason.join(" ");
        let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
        // The value and its name are said already.
        let spoken = format!("invalid value '{}' for '", text(setting));
        let after = reason.strip_prefix(&spoken).and_then(|rest| Some(rest.split_once("'")?.1));
        let why = after.map(|rest| rest.trim_start_matches(':').trim()).filter(|rest| !rest.is_empty());
        wrong(setting, why.unwrap_or(reason))
    })
}

/// `~/` at the beginning of a path, as git has it in its own settings.
fn expanded(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path,
    }
}

/// What is to be said about names that are no settings.
pub fn unknown(repo: &Repo) -> Vec<String> {
    let settings = repo.settings("aynig").into_iter().filter(|setting| canonical(&setting.name).is_none());
    settings
        .map(|setting| {
            let near = nearest(&setting.name, KEYS.map(|(key, _)| key))
                .map(|key| format!("; did you mean aynig.{key}?"))
                .unwrap_or_default();
            format!("{} is no setting of aynig and changes nothing{near}", place(&setting))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_that_stands_for_an_option_has_one() {
        let program = Arguments::command();
        let run = program.find_subcommand("run").expect("a subcommand");
        for (name, option) in KEYS {
            let Some(option) = option else { continue };
            assert!(run.get_arguments().any(|argument| argument.get_long() == Some(option)), "{option}");
            let camel: String = option
                .split('-')
                .enumerate()
                .map(
                    |(at, part)| {
                        if at == 0 { part.to_owned() } else { part[..1].to_uppercase() + &part[1..] }
                    },
                )
                .collect();
            assert_eq!(name, camel);
        }
    }
}
