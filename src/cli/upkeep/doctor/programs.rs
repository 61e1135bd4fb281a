//! Checks whether programs that settings and commands name are found, also with cron's PATH.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use aynig::fsutil::{Missing, found_in, is_executable, missing_program, program_of};
use aynig::git::Repo;
use aynig::model::ids::ProviderName;
use aynig::ops::settings;
use aynig::ops::settings::providers;
use aynig::publish::Forge;
use aynig::runner::{pluralize, shell_quote};

use crate::cli::upkeep::doctor::{Finding, commands, head};

/// The PATH that cron sets.
const CRON: &str = "/usr/bin:/bin";

/// Checks `aynig.notify`, and whether its program is found.
pub(crate) fn notify(repo: &Repo) -> Option<Finding> {
    const CHECK: &str = "notify";
    // Unreadable settings have a finding of their own.
    let settings::Notify { line, globs, .. } = settings::notify(repo).ok()?;
    let Some(line) = line else {
        return (globs > 0).then(|| {
            Finding::warning(
                CHECK,
                "aynig.notifyStates names states, but there is no aynig.notify to tell anybody",
                "git config aynig.notify COMMAND, or git config --unset-all aynig.notifyStates",
            )
        });
    };
    let missing = missing_program(&line, Some(repo.top()), &search()).map(|missing| {
        let next = match &missing {
            Missing::NotExecutable(file) => made_executable(file),
            Missing::NotThere(_) => {
                "git config --show-origin aynig.notify; a path in it begins at the repository's main directory"
                    .to_owned()
            }
            Missing::NotInPath(word) => format!("install {word}, or write its whole path into aynig.notify"),
        };
        (format!("{} of aynig.notify {}", missing.program(), missing.why()), next)
    });
    Some(match missing {
        Some((text, next)) => Finding::error(CHECK, text, next),
        None => Finding::ok(
            CHECK,
            format!(
                "`{line}` is run for what is stalled or lost{}",
                if globs == 0 {
                    String::new()
                } else {
                    format!(", and for states that match {}", pluralize(globs, "glob"))
                }
            ),
        ),
    })
}

/// Names the configured agents, validators and planners whose program is missing. Their steps are left to other hosts.
pub(crate) fn of_steps(repo: &Repo) -> Vec<Finding> {
    let of_provider = |name: &ProviderName| {
        // Unreadable settings have a finding of their own.
        let provider = providers::provider(repo, name).ok()??;
        let why = aynig::provider::find(&provider).err()?;
        let next = format!("install it, or git config aynig.provider.{name}.command PROGRAM");
        Some(Finding::warning("provider", format!("the provider {name} does no turn here: {why}"), next))
    };
    let of_lines = |check: &'static str, what: &str, lines: BTreeMap<String, String>| {
        let finding = |(name, line): (&String, &String)| {
            let missing = missing_program(line, None, &search())?;
            let setting = match name.as_str() {
                "" => format!("aynig.{check}"),
                name => format!("aynig.{check}.{name}"),
            };
            let next = match &missing {
                Missing::NotExecutable(file) => made_executable(file),
                _ => format!("install it, or git config {setting} COMMAND"),
            };
            let text = format!(
                "{} of {setting} {}: no step with this {what} is done here",
                missing.program(),
                missing.why()
            );
            Some(Finding::warning(check, text, next))
        };
        lines.iter().filter_map(finding).collect::<Vec<_>>()
    };
    let names = providers::names(repo).into_iter().filter(|name| providers::is_configured(repo, name));
    let mut findings: Vec<Finding> = names.filter_map(|name| of_provider(&name)).collect();
    findings.extend(of_lines(
        "validator",
        "validator",
        settings::lines::validators(repo).unwrap_or_default(),
    ));
    findings.extend(of_lines("evaluator", "planner", settings::lines::evaluators(repo).unwrap_or_default()));
    findings
}

/// The directories in which programs are searched.
fn search() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn made_executable(file: &Path) -> String {
    format!("chmod +x {}", shell_quote(file.as_os_str().as_encoded_bytes()))
}

/// Checks whether the program in `aynig.forge` is found.
pub(crate) fn forge(repo: &Repo) -> Option<Finding> {
    let (text, next) = match settings::forge(repo).ok()? {
        Forge::Gh if found_in("gh", &search()).is_none() => {
            let next = "install it and `gh auth login`, or git config aynig.forge none";
            ("gh of aynig.forge is not in PATH".to_owned(), next)
        }
        Forge::Program(file) if !is_executable(&file) => {
            let next = "git config --show-origin aynig.forge; it names a program by its absolute path";
            (format!("{} of aynig.forge is no executable file", file.display()), next)
        }
        Forge::Gh | Forge::Program(_) | Forge::None | Forge::PushOptions | Forge::Agit => return None,
    };
    Some(Finding::error("forge", text, next))
}

/// Checks whether git and the interpreters of the commands are found, by our PATH and by cron's.
pub(crate) fn path(repo: &Repo) -> Vec<Finding> {
    let Some(path) = std::env::var_os("PATH").filter(|path| !path.is_empty()) else {
        return vec![Finding::error("PATH", "PATH is not set", format!("PATH={CRON}; export PATH"))];
    };
    let mut programs = BTreeSet::from(["git".to_owned()]);
    programs.extend(head(repo).map(|head| commands::by_env(repo, head)).unwrap_or_default());
    let told = settings::notify(repo).ok().and_then(|notify| notify.line);
    programs
        .extend(told.as_deref().and_then(program_of).filter(|word| !word.contains('/')).map(str::to_owned));
    let missing: BTreeSet<PathBuf> = programs
        .iter()
        .filter(|name| found_in(name, OsStr::new(CRON)).is_none())
        .filter_map(|name| found_in(name, &path)?.parent().map(Path::to_owned))
        .collect();
    if missing.is_empty() {
        return vec![Finding::ok("PATH", "all interpreters are found, also with cron's PATH")];
    }
    let dirs: Vec<String> = missing.iter().map(|dir| dir.display().to_string()).collect();
    let line = format!("PATH={}:{CRON}", dirs.join(":"));
    vec![Finding::warning(
        "PATH",
        format!("cron's PATH ({CRON}) lacks {}", dirs.join(" and ")),
        format!("in a crontab or a unit: {line}"),
    )]
}
