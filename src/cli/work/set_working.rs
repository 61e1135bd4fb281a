//! `aynig set-working`: a lease by hand, taken or renewed.
//!
//! Invariant: a renewal keeps attempt, runner and the trailers of the lease it follows, so that the runner who made it and
//! whoever recovers it still recognise the attempt (contract §5, "Working Lease").

use serde_json::json;

use aynig::clock;
use aynig::contract::head::Head;
use aynig::contract::ids::AttemptId;
use aynig::contract::manual::{ManualLease, set_working_draft};
use aynig::contract::message::Message;
use aynig::ops::app::App;
use aynig::ops::missing;
use aynig::runner::shell_quote;

use crate::cli::args::SetWorking;
use crate::cli::error::{CommandError, Exit, Kind};
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::ui::{FAINT, styled};
use crate::cli::work::set_state::{body, refused, transition};
use crate::cli::work::target::{lease_words, runner_words, warn, write};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &SetWorking) -> Result<Exit, CommandError> {
    let options = &arguments.commit;
    let body = body(options, &app.process.start)?;
    let repo = app.repo();
    let authority = authority(&repo, options.remote.as_ref())?;
    let written = write(&repo, &authority, options, "aynig: set working", |target| {
        let head = if target.inside {
            target.trailers()
        } else {
            // From outside only HEAD counts: a plain commit on a lease means somebody took the branch over.
            let head = target.head.as_ref();
            head.map(|head| Message::parse(&head.message).trailers).unwrap_or_default()
        };
        let asked = ManualLease {
            head,
            attempt: AttemptId::random(),
            runner: app.repo().runner_id().to_owned(),
            seconds: arguments.lease_seconds,
            subject: options.subject.clone(),
            body: body.clone(),
            trailers: options.trailer.clone(),
            source: authority.source().cloned(),
        };
        set_working_draft(&asked)
            .map_err(|error| refused(&error, &missing::options(&repo, &authority, &target.branch)))
    })?;
    if let Some((lease, left)) = written.before.foreign_lease()
        && lease.runner != app.repo().runner_id()
    {
        warn(&format!(
            "{} is leased to {} for another {}; the lease was renewed in its name, and the branch is not yours by that",
            written.before.branch,
            lease_words(lease),
            clock::span(left)
        ));
    }
    let Head::Working(lease) = Head::read(&written.commit.facts()) else {
        let id = written.commit.id;
        let message = format!("commit {id} was written as a lease and does not read as one");
        return Err(CommandError::new(Kind::Bug, message));
    };
    let until = clock::format_utc(lease.expires_at());
    if options.json {
        ui::answer_json(&json!({
            "branch": written.before.branch.to_string(),
            "state": "working",
            "commit": written.commit.id.to_string(),
            "previous": written.before.previous(),
            "parent": written.before.head.as_ref().map(|head| head.id.to_string()),
            "originState": lease.origin.as_ref().map(ToString::to_string),
            "runId": lease.run_id.to_string(),
            "runner": lease.runner.to_string(),
            "leaseSeconds": lease.seconds,
            "expiresAt": until,
        }));
    } else {
        let more = format!(", attempt {} of {} until {until}", lease.run_id, runner_words(&lease));
        ui::answer(&transition(&written, "working", &more));
        if written.before.lease().is_none() {
            // As its holder, whom a server that guards its branches lets do so.
            let branch = shell_quote(&written.before.branch.to_string());
            let remote =
                authority.source().map(|remote| format!("AYNIG_REMOTE={} ", shell_quote(remote.as_str())));
            let remote = remote.unwrap_or_default();
            let line = format!(
                "end it with `AYNIG_BRANCH={branch} {remote}AYNIG_RUN_ID={} aynig set-state --state STATE`",
                lease.run_id
            );
            ui::narrate(&styled(FAINT, ui::sanitize(&line)));
        }
    }
    Ok(Exit::Done)
}
