//! Runs: the options that settings make.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use globset::GlobSet;

use crate::contract::ids::RoleName;
use crate::git::Repo;
use crate::runner::options::{Options, Selection, Trust};

use super::app::Process;
use super::error::Error;
use crate::ops::settings;
use crate::ops::settings::{Settings, globs};

/// The options that settings make.
pub fn options(repo: &Repo, process: &Process, settings: &Settings) -> Result<Options, Error> {
    Ok(Options {
        role: settings.role.clone(),
        selection: Selection {
            current: settings.current_branch,
            globs: globs("--branch", &settings.branch)?,
        },
        // Of other branches a run looks at none.
        trust: Trust { branches: GlobSet::empty(), ..settings.trust()? },
        ..unselective(repo, process, settings)
    })
}

/// Defaults, and every branch.
pub fn plain_options(repo: &Repo, process: &Process) -> Options {
    unselective(repo, process, &Settings::default())
}

/// What `status` and `doctor` survey with: every branch, judged as a plain `aynig run` here would judge it. `named` is the role, if
/// it was given.
pub fn survey_options(repo: &Repo, process: &Process, named: Option<RoleName>) -> Result<Options, Error> {
    let settings = settings::judging(repo)?;
    let trust = settings.trust()?;
    Ok(Options { role: settings::role(repo, named)?, trust, ..unselective(repo, process, &settings) })
}

/// The options without those that say which branches, states and commands.
fn unselective(repo: &Repo, process: &Process, settings: &Settings) -> Options {
    Options {
        role: None,
        selection: Selection::everything(),
        trust: Trust::default(),
        worktrees: absolute_below(repo.top(), &settings.worktree),
        jobs: settings.jobs,
        takeover: settings.takeover,
        skew_seconds: settings.skew_seconds,
        lease_seconds: settings.lease_seconds,
        heartbeat: settings.heartbeat,
        setup: settings.setup.clone(),
        grace: Duration::from_secs(settings.grace_seconds),
        command_timeout: settings.command_timeout.map(Duration::from_secs),
        runner_id: repo.runner_id().to_owned(),
        log_level: process.log_level.clone(),
        log_level_fixed: process.log_level_fixed,
        program: process.program.clone(),
    }
}

/// `path` below `top`, without `.` and `..` in it.
fn absolute_below(top: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in top.join(path).components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}
