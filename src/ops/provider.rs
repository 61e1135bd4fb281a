//! Providers for front ends: what is configured here, what is found, and what works.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::contract::alike::nearest;
use crate::flow::document::{Approval, Execution};
use crate::git::Repo;
use crate::model::ids::ProviderName;
use crate::provider::versions::{Bounds, Standing, bounds, standing};
use crate::provider::{self, Ended, Ids, Posture, Provider, Turn};
use crate::stop::Stop;
use crate::supervise::Watchdog;

use super::error::Error;
use super::settings::providers::{is_configured, names, provider};

/// The prompt of a check.
const PROMPT: &[u8] = b"Reply with the single word OK. Use no tools.\n";

/// The longest time of a check.
const LONGEST: Duration = Duration::from_secs(120);

/// The longest silence of a program in a check that is not bound to greet: it may wait for something that never comes.
const SILENT: Duration = Duration::from_secs(60);

/// A provider of this host.
#[derive(Debug)]
pub struct Found {
    /// Its name.
    pub name: ProviderName,
    /// Whether it has settings. Without, it is one of those that need none.
    pub is_configured: bool,
    /// What is configured.
    pub provider: Option<Provider>,
    /// Its program.
    pub program: Option<PathBuf>,
    /// What the program says of its version.
    pub version: Option<String>,
    /// Why it cannot be used.
    pub reason: Option<String>,
}

/// A provider in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its kind, if it is configured well.
    pub kind: Option<&'static str>,
    /// Its protocol.
    pub protocol: Option<&'static str>,
    /// Its command as configured.
    pub command: Option<String>,
    /// The program that was found.
    pub program: Option<String>,
    /// What that prints as its version.
    pub program_version: Option<&'a str>,
    /// That version in relation to those that are known to work.
    pub version_is: Option<&'static str>,
    /// The oldest version known to work.
    pub oldest_known: Option<&'static str>,
    /// The newest one.
    pub newest_known: Option<&'static str>,
    /// The model.
    pub model: Option<&'a str>,
    /// Whether it has settings.
    pub configured: bool,
    /// Why it cannot be used.
    pub reason: Option<&'a str>,
}

/// The row of a provider.
#[must_use]
pub fn row(found: &Found) -> Row<'_> {
    let provider = found.provider.as_ref();
    let bounds = provider.and_then(bounds);
    Row {
        name: found.name.as_str(),
        kind: provider.map(|one| one.kind.word()),
        protocol: provider.and_then(|one| one.kind.protocol()),
        command: provider.map(|one| one.command.display().to_string()),
        program: found.program.as_ref().map(|path| path.display().to_string()),
        program_version: found.version.as_deref(),
        version_is: compared(found).map(|(_, is)| is.word()),
        oldest_known: bounds.map(|bounds| bounds.oldest),
        newest_known: bounds.map(|bounds| bounds.newest),
        model: provider.and_then(|one| one.model.as_deref()),
        configured: found.is_configured,
        reason: found.reason.as_deref(),
    }
}

/// The version of a program in relation to its bounds, if both are known.
#[must_use]
pub fn compared(found: &Found) -> Option<(Bounds, Standing)> {
    let bounds = bounds(found.provider.as_ref()?)?;
    Some((bounds, standing(bounds, found.version.as_deref()?)?))
}

/// The providers of this host, or one of them.
pub fn all(repo: &Repo, stop: &Stop, only: Option<&str>) -> Result<Vec<Found>, Error> {
    let Some(text) = only else {
        return Ok(names(repo).into_iter().filter_map(|name| found(repo, name, stop)).collect());
    };
    let unknown = || {
        let error = Error::usage(format!("there is no provider {text} here"));
        let near = nearest(text, names(repo).iter().map(ToString::to_string));
        let error = near.into_iter().fold(error, |error, near| error.hint(format!("did you mean {near}?")));
        error.hint("`aynig provider list` lists them; `git config aynig.provider.NAME.kind KIND` makes one")
    };
    let name = provider::named(text).ok_or_else(unknown)?;
    Ok(vec![found(repo, name, stop).ok_or_else(unknown)?])
}

fn found(repo: &Repo, name: ProviderName, stop: &Stop) -> Option<Found> {
    let is_configured = is_configured(repo, &name);
    let mut found = Found { name, is_configured, provider: None, program: None, version: None, reason: None };
    match provider(repo, &found.name) {
        Ok(None) => return None,
        Err(error) => found.reason = Some([vec![error.message], error.hints].concat().join("; ")),
        Ok(Some(configured)) => {
            match provider::find(&configured) {
                Ok(program) => {
                    found.version = provider::version(&configured, &program, stop);
                    found.program = Some(program);
                }
                Err(why) => found.reason = Some(why),
            }
            found.provider = Some(configured);
        }
    }
    Some(found)
}

/// Lets a provider do one small turn in an empty directory, in which it may write nothing.
pub fn check(provider: &Provider, program: &Path, stop: &Stop, watchdog: &Watchdog) -> Result<Ended, Error> {
    let because = |error: std::io::Error| Error::because("make a directory for the check", &error);
    let place = tempfile::Builder::new().prefix("aynig-check-").tempdir().map_err(because)?;
    let (directory, evidence) = (place.path().join("tree"), place.path().join("evidence"));
    std::fs::create_dir(&directory).map_err(because)?;
    std::fs::create_dir(&evidence).map_err(because)?;
    let turn = Uuid::new_v4().to_string();
    Ok(provider::run(&Turn {
        provider,
        directory: &directory,
        prompt: PROMPT,
        posture: Posture {
            execution: Execution::ReadOnly,
            network: None,
            approval: Approval::DenyInteractive,
        },
        model: None,
        session: None,
        is_delta: false,
        listener: None,
        wall: Some(LONGEST),
        idle: (provider.kind == provider::Kind::Jsonl).then_some(SILENT),
        // A program of the provider may call it, as in a turn.
        environment: &[("AYNIG_BIN".into(), program.into())],
        ids: Ids { run: "check", node: "check", turn: &turn },
        evidence: &evidence,
        changed: &|| false,
        stop,
        watchdog: Some(watchdog),
        gate: None,
        tools: None,
    }))
}
