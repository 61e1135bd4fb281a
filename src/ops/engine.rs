//! Runs of flows for front ends: the engine with the settings of this host, and errors with the next step.

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::ids::{CommitId, RemoteName};
use crate::engine::Engine;
use crate::engine::attempt::Attempt;
pub use crate::engine::attempt::Ended;
pub use crate::engine::control::{Granted, Reply, Wish};
use crate::engine::graph::answers::Manners;
pub use crate::engine::start::{Order, Started};
use crate::git::Repo;
use crate::ledger::Place;
use crate::stop::Stop;
use crate::supervise::Watchdog;
use crate::workspace::refusal::Refusal;

use super::app::Process;
use super::error::Error;
pub use super::inside::persons_only;
use super::outer::OuterCommand;
use super::{graphs, notify, settings, trust, workspace};

/// The engine of this host. `watchdog` is the argument by which this program starts its watchdog.
pub fn open<'a>(
    repo: &'a Repo,
    process: &'a Process,
    stop: Stop,
    watchdog: &str,
    tell: fn(&str),
) -> Result<Engine<'a>, Error> {
    let mut workspaces = workspace::at(repo, process, stop.clone())?;
    workspaces.options.tell = tell;
    let settings = settings::workspace(repo)?;
    let manners = manners(&settings, process, tell);
    Ok(Engine {
        repo,
        workspaces,
        run_prefix: settings.run_prefix,
        lease_seconds: settings.orch_lease_seconds,
        skew_seconds: settings::judging(repo)?.skew_seconds,
        manners,
        stall_repeats: usize::try_from(settings.stall_repeats).unwrap_or(usize::MAX),
        pauses: settings.retry_pause,
        providers: Box::new(|name| settings::providers::here(repo, name)),
        roles: Box::new(|base, role| graphs::role_text(repo, base, role).map_err(refusal)),
        vets: Box::new(|flow, file, base| {
            let remote = settings::remote(repo).map_err(refusal)?;
            trust::check_step(repo, remote.as_ref(), (flow, file), base).map_err(refusal)
        }),
        validators: settings::lines::validators(repo)?,
        evaluators: settings::lines::evaluators(repo)?,
        environment: held_to(repo)?,
        program: process.program.clone(),
        watchdog: Watchdog::lazy(process.program.clone(), vec![watchdog.into()]),
        op: Cell::default(),
        stop,
        tell,
        moved: Box::new(move |moved| {
            if let Err(warning) = notify::announce_run(repo, process, moved) {
                tell(&warning);
            }
        }),
    })
}

/// The variables that hold what the programs of a step call to the commands and signatures of this host (CONTRACT 13.13).
fn held_to(repo: &Repo) -> Result<Vec<(OsString, OsString)>, Error> {
    let held = settings::trust(repo)?.variables();
    let of = (!held.is_empty()).then(|| ("AYNIG_GIT_DIR".into(), repo.common_dir().into()));
    Ok(held.into_iter().map(|(name, value)| (name.into(), value.into())).chain(of).collect())
}

fn refusal(error: Error) -> Refusal {
    Refusal::failed(error.message, error.hints)
}

/// How this host treats requests of nodes.
fn manners(settings: &settings::Settings, process: &Process, tell: fn(&str)) -> Manners {
    let process = process.clone();
    Manners {
        wait: Duration::from_secs(settings.approval_wait_seconds),
        expiry: settings.approval_expire_seconds.map(Duration::from_secs),
        requires_signed: settings.require_signed_approvals,
        listener: Arc::new(move |repo, requested| {
            if let Err(warning) = notify::announce_request(repo, &process, requested) {
                tell(&warning);
            }
        }),
    }
}

/// The place that decides new runs here.
#[must_use]
pub fn place(remote: Option<&RemoteName>) -> Place {
    remote.map_or(Place::Here, |remote| Place::Remote(remote.clone()))
}

/// The attempt that this process carries out. Fails outside of a driver's command.
pub fn attempt(repo: &Repo) -> Result<Attempt, Error> {
    let outside = || {
        Error::usage("this is called by the command of a run's driver, and by nobody else")
            .hint("`aynig run` carries out the steps of runs, `aynig flow list` lists the runs")
    };
    let outer = OuterCommand::of(repo)?.ok_or_else(outside)?;
    let trigger = std::env::var("COMMIT_HASH").ok();
    let trigger = trigger.and_then(|hash| CommitId::parse_hex(hash.as_bytes())).ok_or_else(outside)?;
    let id = outer.run.ok_or_else(outside)?.to_string();
    Ok(Attempt { branch: outer.branch, id, trigger, remote: outer.remote })
}
