//! `aynig set-state`: one commit that declares the next state of a branch.
//!
//! Invariant: `working` is never declared here, and nothing but the one branch changes. Which branch, tree and parent is
//! `target`'s; what may be written is `contract::manual`'s.

use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use serde_json::json;

use crate::contract::manual::{ManualError, ManualState, set_state_draft};
use crate::contract::trailers::Trailers;
use crate::git::Store;

use super::args::{CommitOptions, SetState};
use super::entry::Surroundings;
use super::error::{CommandError, Exit};
use super::target::{Written, arbiter, warn_of_foreign_lease, write};
use super::ui::{self, FAINT, GOOD, STRONG, styled};

/// Runs the subcommand.
pub fn run(store: &Store, surroundings: &Surroundings, arguments: &SetState) -> Result<Exit, CommandError> {
    let options = &arguments.commit;
    if arguments.state.is_working() {
        // Before stdin is waited for.
        return Err(refused(&ManualError::Working));
    }
    let body = body(options, &surroundings.start)?;
    let repo = store.handle();
    let log = format!("aynig: set {}", arguments.state);
    let arbiter = arbiter(&repo, options.remote.as_ref())?;
    let written = write(&repo, &arbiter, options.branch.as_deref(), &log, |target| {
        let asked = ManualState {
            state: arguments.state.clone(),
            subject: options.subject.clone(),
            body: body.clone(),
            trailers: options.trailer.clone(),
            kept: if options.keep_trailers { target.trailers() } else { Trailers::new() },
            source: arbiter.source().cloned(),
        };
        set_state_draft(&asked).map_err(|error| refused(&error))
    })?;
    warn_of_foreign_lease(&written.before);
    let state = arguments.state.as_str();
    if options.json {
        ui::answer_json(&json!({
            "branch": written.before.branch.to_string(),
            "state": state,
            "commit": written.commit.id.to_string(),
            "previous": written.before.previous(),
            "parent": written.before.head.as_ref().map(|head| head.id.to_string()),
        }));
    } else {
        ui::answer(&transition(&written, state, ""));
    }
    Ok(Exit::Done)
}

/// One line for what was set.
pub fn transition(written: &Written, state: &str, more: &str) -> String {
    let before = written.before.previous().unwrap_or_else(|| "(no state)".to_owned());
    format!(
        "{}  {before} → {}  {}",
        styled(STRONG, ui::harmless(&written.before.branch.to_string())),
        styled(GOOD, state),
        styled(FAINT, ui::harmless(&format!("({}{more})", written.commit.id.short())))
    )
}

/// The body from wherever it is to come; bytes, since a file need not hold text. Files are found from `start`.
pub fn body(options: &CommitOptions, start: &Path) -> Result<Option<Vec<u8>>, CommandError> {
    if let Some(text) = &options.body {
        return Ok(Some(text.clone().into_vec()));
    }
    match &options.body_file {
        Some(file) if file.as_os_str() != "-" => {
            let file = start.join(file);
            std::fs::read(&file).map(Some).map_err(|error| {
                CommandError::usage(format!("could not read the body from {}: {error}", file.display()))
                    .hint("give an existing file, `--body TEXT`, or `--body-stdin`")
            })
        }
        None if !options.body_stdin => Ok(None),
        Some(_) | None => {
            let mut bytes = Vec::new();
            match std::io::stdin().lock().read_to_end(&mut bytes) {
                Ok(_) => Ok(Some(bytes)),
                Err(error) => Err(CommandError::because("read the body from stdin", &error)),
            }
        }
    }
}

/// A commit by hand that the contract does not allow.
pub fn refused(error: &ManualError) -> CommandError {
    let hint = match error {
        ManualError::Working => "`aynig set-working` claims a branch or renews its lease",
        ManualError::RunnerManaged { .. } => "the runner writes these itself; leave it away",
        ManualError::NoOrigin => "declare what is to be worked on: `aynig set-state --state STATE`",
    };
    CommandError::usage(error.to_string()).hint(hint)
}
