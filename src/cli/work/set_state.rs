//! `aynig set-state`: one commit that declares the next state of a branch.
//!
//! Invariant: `working` is never declared here, and nothing but the one branch changes. Which branch, tree and parent is
//! `target`'s; what may be written is `contract::manual`'s.

use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use bstr::ByteSlice;
use serde_json::json;

use aynig::contract::alike::misspelt;
use aynig::contract::head::{Event, Head};
use aynig::contract::ids::StateName;
use aynig::contract::manual::{ManualError, ManualState, set_state_draft};
use aynig::contract::parking::{NOT_BEFORE_KEY, Parking, parking};
use aynig::contract::trailers::{Trailers, is_runner_managed};
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::missing;
use aynig::ops::settings;
use aynig::runner::authority::Authority;
use aynig::runner::survey::resolve::Resolver;
use aynig::runner::survey::verdict::NoCommand;

use crate::cli::args::{CommitOptions, SetState};
use crate::cli::error::{CommandError, Exit};
use crate::cli::notify;
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::ui::{FAINT, GOOD, STRONG, styled};
use crate::cli::work::target::{Target, Written, warn, warn_of_foreign_lease, write};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &SetState) -> Result<Exit, CommandError> {
    let options = &arguments.commit;
    if arguments.state.as_ref().is_some_and(StateName::is_working) {
        // Before stdin is waited for.
        return Err(refused(&ManualError::Working, ""));
    }
    if let Parking::Unreadable(why) = parking(&options.trailer.iter().cloned().collect(), 0) {
        return Err(CommandError::usage(format!("the branch could never be run: {why}")));
    }
    let body = body(options, &app.process.start)?;
    let repo = app.repo();
    let authority = authority(&repo, options.remote.as_ref())?;
    let written = write(&repo, &authority, options, "aynig: set state", |target| {
        let asked = match &arguments.state {
            Some(state) => ManualState {
                state: state.clone(),
                subject: options.subject.clone(),
                body: body.clone(),
                trailers: options.trailer.clone(),
                kept: if options.keep_trailers { target.trailers() } else { Trailers::new() },
                source: authority.source().cloned(),
            },
            None => again(&repo, target, &authority, options)?,
        };
        set_state_draft(&asked).map_err(|error| refused(&error, ""))
    })?;
    warn_of_foreign_lease(&repo, &authority, &written.before);
    warn_of_a_slip(&repo, &written);
    for slip in misspelt(&options.trailer) {
        warn(&slip.to_string());
    }
    let declared = Head::read(&written.commit.facts()).state();
    let state = declared.as_ref().map_or("", StateName::as_str);
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
    if let Some(declared) = &declared {
        notify::state_was_set(&repo, &app.process, authority.source(), &written, declared);
    }
    Ok(Exit::Done)
}

/// Warns of a state without a command that is nearly the name of one. It is lawful all the same.
fn warn_of_a_slip(repo: &Repo, written: &Written) {
    let Some(state) = Head::read(&written.commit.facts()).state() else { return };
    // Where commands come from elsewhere, this tree does not tell.
    if settings::trust(repo).is_ok_and(|trust| trust.commands_from.is_some()) {
        return;
    }
    let commit = &written.commit;
    let resolved = Resolver::new(None).in_commit(repo, commit.id, commit.tree, &state);
    if let Err(NoCommand::Missing { .. }) = resolved
        && let Ok(Some(aynig)) = repo.directory_in(written.commit.tree, ".aynig")
        && let Some(near) = missing::command(repo, aynig, &state)
    {
        warn(&format!("{} has no command for {state}; did you mean {near}?", written.before.branch));
    }
}

/// What was asked last on the branch, to be asked again: leases and stalled commits only tell what became of it.
fn again(
    repo: &Repo,
    target: &Target,
    authority: &Authority,
    options: &CommitOptions,
) -> Result<ManualState, CommandError> {
    let asked = target.head.as_ref().and_then(|head| {
        repo.history(head.id).flatten().find_map(|stored| match Head::read(&stored.facts()) {
            Head::Ready(event) if !event.state.is_stalled() => Some(event),
            Head::Ready(_) | Head::Working(_) | Head::Unmanaged | Head::Invalid(_) => None,
        })
    });
    let Some(Event { state, message, commit, .. }) = asked else {
        return Err(CommandError::failed(format!(
            "nothing was ever asked on {}, so nothing can be asked again",
            target.branch
        ))
        .hint(format!(
            "ask for something: `aynig set-state{} --state STATE --body TEXT`",
            missing::options(repo, authority, &target.branch)
        )));
    };
    // Below a commit of a runner there may be one that nobody has signed, whose files were left out and whose wish was not.
    target.check_signed(repo, options, commit)?;
    Ok(ManualState {
        state,
        subject: Some(message.subject.to_str_lossy().into_owned()),
        body: Some(message.body.into()),
        // Whoever asks again wants it now.
        trailers: message
            .trailers
            .into_iter()
            .filter(|trailer| !is_runner_managed(&trailer.key) && trailer.key != NOT_BEFORE_KEY)
            .collect(),
        kept: Trailers::new(),
        source: authority.source().cloned(),
    })
}

/// One line for what was set.
pub(crate) fn transition(written: &Written, state: &str, more: &str) -> String {
    let before = written.before.previous().unwrap_or_else(|| "(no state)".to_owned());
    format!(
        "{}  {before} → {}  {}",
        styled(STRONG, ui::sanitize(&written.before.branch.to_string())),
        styled(GOOD, state),
        styled(FAINT, ui::sanitize(&format!("({}{more})", written.commit.id.short())))
    )
}

/// The body from wherever it is to come; bytes, since a file need not hold text. Files are found from `start`.
pub(crate) fn body(options: &CommitOptions, start: &Path) -> Result<Option<Vec<u8>>, CommandError> {
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

/// A commit by hand that the contract does not allow; `options` name the branch it was for.
pub(crate) fn refused(error: &ManualError, options: &str) -> CommandError {
    let hint = match error {
        ManualError::Working => "`aynig set-working` claims a branch or renews its lease".to_owned(),
        ManualError::RunnerManaged { .. } => "the runner writes these itself; leave it away".to_owned(),
        ManualError::NoOrigin => {
            format!("declare what is to be worked on: `aynig set-state{options} --state STATE`")
        }
    };
    CommandError::usage(error.to_string()).hint(hint)
}
