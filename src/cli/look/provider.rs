//! `aynig provider`: shows the agents of this host, and whether they work.

use serde::Serialize;

use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::provider::{Found, Row, all, check, compared, row};
use aynig::ops::settings;
use aynig::provider::versions::{Bounds, Standing, bounds};
use aynig::provider::{Ended, How, of_its_own};
use aynig::supervise::Watchdog;

use crate::cli::args::{Provider, ProviderCheck, ProviderVerb};
use crate::cli::exit::Exit;
use crate::cli::internal::WATCHDOG;
use crate::cli::ui;
use crate::cli::ui::{BAD, FAINT, GOOD, STRONG, signals, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Provider) -> Result<Exit, Error> {
    match &arguments.verb {
        ProviderVerb::List(options) => list(app, options.json),
        ProviderVerb::Check(options) => examine(app, options),
    }
}

/// A provider that was checked, in JSON.
#[derive(Debug, Serialize)]
struct CheckedRow<'a> {
    #[serde(flatten)]
    row: Row<'a>,
    check: Option<Checked<'a>>,
}

/// A turn in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked<'a> {
    works: bool,
    how: &'static str,
    evidence: &'a str,
    answer: Option<&'a str>,
    model: Option<&'a str>,
    session: Option<&'a str>,
    total_tokens: Option<u64>,
    elapsed_ms: u64,
}

fn checked<'a>(found: &'a Found, ended: Option<&'a Ended>) -> CheckedRow<'a> {
    let check = ended.map(|ended| Checked {
        works: ended.how == How::Completed,
        how: ended.how.word(),
        evidence: &ended.evidence,
        answer: ended.final_text.as_deref(),
        model: ended.model.as_deref(),
        session: ended.session.as_deref(),
        total_tokens: ended.usage.map(|usage| usage.total_tokens),
        elapsed_ms: u64::try_from(ended.elapsed.as_millis()).unwrap_or(u64::MAX),
    });
    CheckedRow { row: row(found), check }
}

/// The version of a program, with the bound that it exceeds.
fn version_words(found: &Found) -> String {
    let version = found.version.as_deref().unwrap_or_default();
    match compared(found) {
        None if found.provider.as_ref().and_then(bounds).is_some() => {
            let printed = if version.is_empty() {
                "it prints no version".to_owned()
            } else {
                format!("`{version}` is no version")
            };
            format!("{printed}; {}", of_its_own(&found.name))
        }
        None => version.to_owned(),
        Some((_, Standing::Known)) => format!("{version}, known to work"),
        Some((Bounds { oldest, .. }, Standing::Older)) => {
            format!("{version}, older than {oldest}, the oldest version known to work")
        }
        Some((Bounds { newest, .. }, Standing::Newer)) => {
            format!("{version}, newer than {newest}, the newest version known to work")
        }
    }
}

/// Name, kind, program and version on one line.
fn line(found: &Found) -> String {
    let kind = found.provider.as_ref().map_or("?", |one| one.kind.protocol().unwrap_or(one.kind.word()));
    let name = ui::sanitize(found.name.as_str());
    let rest = match (&found.program, &found.reason) {
        (Some(program), None) => {
            let version = version_words(found);
            format!(
                "{}  {}",
                ui::sanitize(&program.display().to_string()),
                styled(FAINT, ui::sanitize(&version))
            )
        }
        (_, reason) => {
            let style = if found.is_configured { BAD } else { FAINT };
            styled(style, ui::sanitize(reason.as_deref().unwrap_or("no program")))
        }
    };
    format!("{}  {kind}  {}", styled(STRONG, name), rest.trim_end())
}

/// Warns of settings of providers that do not count.
fn warn_of_unknown(app: &App) {
    let unknown = settings::unknown(&app.repo());
    unknown.iter().filter(|words| words.contains("aynig.provider.")).for_each(|words| ui::warn(words));
}

fn list(app: &App, json: bool) -> Result<Exit, Error> {
    let stop = signals::shutdown()?;
    warn_of_unknown(app);
    let all = all(&app.repo(), &stop, None)?;
    if json {
        let rows: Vec<Row<'_>> = all.iter().map(row).collect();
        ui::answer_json(&serde_json::json!({ "providers": rows }));
    } else {
        all.iter().for_each(|found| ui::answer(&line(found)));
    }
    Ok(signals::exit(Exit::Done))
}

fn examine(app: &App, options: &ProviderCheck) -> Result<Exit, Error> {
    let stop = signals::shutdown()?;
    signals::leave();
    warn_of_unknown(app);
    let only = options.provider_name.as_deref();
    let mut all = all(&app.repo(), &stop, only)?;
    // One that needs no settings and is not installed is no fault, unless it is named.
    all.retain(|found| found.is_configured || found.program.is_some() || only.is_some());
    let watchdog = Watchdog::lazy(app.process.program.clone(), vec![WATCHDOG.into()]);
    let mut results = Vec::new();
    for found in &all {
        let ended = match (&found.provider, &found.program) {
            (Some(provider), Some(_)) if stop.cause().is_none() => {
                Some(check(provider, &app.process.program, &stop, &watchdog)?)
            }
            _ => None,
        };
        if !options.json {
            tell(found, ended.as_ref());
        }
        results.push((found, ended));
    }
    let is_good = |ended: &Option<Ended>| ended.as_ref().is_some_and(|ended| ended.how == How::Completed);
    let works = !results.is_empty() && results.iter().all(|(_, ended)| is_good(ended));
    let exit = if works { Exit::Done } else { Exit::Failed };
    if options.json {
        let rows: Vec<CheckedRow<'_>> =
            results.iter().map(|(found, end)| checked(found, end.as_ref())).collect();
        ui::answer_json(&serde_json::json!({ "providers": rows }));
    } else if results.is_empty() {
        ui::remark(&styled(
            FAINT,
            "no provider has settings, and none is installed; `aynig provider list` shows which there can be",
        ));
    }
    Ok(signals::exit(exit))
}

fn tell(found: &Found, ended: Option<&Ended>) {
    ui::answer(&line(found));
    let Some(ended) = ended else { return };
    let (style, word) = if ended.how == How::Completed { (GOOD, "ok") } else { (BAD, "no") };
    let time = ended.elapsed.as_secs_f64();
    ui::answer(&format!("  {}  {} ({time:.1} s)", styled(style, word), ui::sanitize(&ended.evidence)));
    let answer =
        ended.final_text.as_deref().and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
    for (what, value) in
        [("answer", answer), ("model", ended.model.as_deref()), ("session", ended.session.as_deref())]
    {
        if let Some(value) = value {
            ui::answer(&format!("      {what} {}", ui::sanitize(value)));
        }
    }
}
