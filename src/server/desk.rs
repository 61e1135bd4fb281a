//! Operations on threads that may wait: they read files, run git and ask remotes.

use std::sync::Arc;

use axum::http::StatusCode;

use super::Shared;
use super::body::Keyed;
use super::failure::Failure;
use crate::engine::Engine;
use crate::git::Repo;
use crate::model::ids::{OpId, RunId};
use crate::ops::app::App;
use crate::ops::authority::{self, Authority};
use crate::ops::error::Error;
use crate::ops::{engine, runs};

/// What an operation works with.
pub(super) struct Desk<'a> {
    pub(super) shared: &'a Shared,
    pub(super) repo: &'a Repo,
    /// The id of the operation, if the request has a key.
    op: Option<Keyed>,
}

/// Carries out `job` on a thread of its own. `key` is of a request with an `Idempotency-Key`.
pub(super) async fn at_desk<T: Send + 'static>(
    shared: Arc<Shared>,
    key: Option<Keyed>,
    job: impl FnOnce(&Desk<'_>) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let carried = tokio::task::spawn_blocking(move || {
        // Opened anew, so that settings and remotes are those of now, as for a command line.
        let repo = App::open(shared.app.process.clone())?.repo();
        job(&Desk { shared: &shared, repo: &repo, op: key })
    });
    carried.await.unwrap_or_else(|_| {
        Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "a defect of aynig; its log has more"))
    })
}

impl Desk<'_> {
    /// The engine for an operation on a run. An operation with a key has the same id each time.
    pub(super) fn engine(&self, run: Option<RunId>) -> Result<Engine<'_>, Error> {
        let Shared { app, options, .. } = self.shared;
        let engine =
            engine::open(self.repo, &app.process, options.stop.clone(), options.watchdog, options.tell)?;
        engine
            .op
            .set(self.op.as_ref().zip(run).map(|(keyed, run)| OpId::of_key(run, &keyed.key, &keyed.request)));
        Ok(engine)
    }

    /// What decides races here.
    pub(super) fn authority(&self) -> Result<Authority, Error> {
        authority::for_run(self.repo, self.shared.options.remote.as_ref())
    }

    /// The run that a path names.
    pub(super) fn run(&self, named: &str) -> Result<RunId, Error> {
        runs::find(self.repo, named)
    }
}
