//! `aynig next`: the one valid `SET_STATE` line for a command to print.
//!
//! Invariant: it prints a line that the runner accepts, or nothing. It needs no repository.

use aynig::contract::alike::misspelt;
use aynig::contract::carried::KeepTrailers;
use aynig::contract::declaration::{Declaration, Declared};
use aynig::contract::ids::StateName;
use aynig::contract::protocol::line;
use aynig::ops::app::Process;
use aynig::ops::declare;
use aynig::ops::error::Error;

use crate::cli::args::Next;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::work::by_hand::text;

/// Runs the subcommand.
pub(crate) fn run(process: &Process, arguments: &Next) -> Result<Exit, Error> {
    let declared = match (&arguments.unable, &arguments.state) {
        (Some(why), _) => Declared::Unable(why.clone()),
        (None, Some(state)) => Declared::Next(declaration(process, arguments, state)?),
        (None, None) => return Err(Error::usage("no STATE was given")),
    };
    let line = line(&declared).map_err(|why| Error::usage(format!("nothing was printed: {why}")))?;
    if let Declared::Next(declaration) = &declared {
        for slip in misspelt(&declaration.trailers) {
            ui::warn(&slip.to_string());
        }
    }
    ui::answer(&line);
    Ok(Exit::Done)
}

fn declaration(process: &Process, arguments: &Next, state: &StateName) -> Result<Declaration, Error> {
    let options = &arguments.text;
    declare::check(Some(state), &options.trailer)?;
    let stdin = options.body_stdin.then_some(std::path::Path::new("-"));
    let given = text(options.body.as_ref(), options.body_file.as_deref().or(stdin), &process.start)?;
    Ok(Declaration {
        state: state.clone(),
        subject: options.subject.clone(),
        body: given.map(utf8).transpose()?,
        lease_seconds: arguments.lease_seconds,
        keep_body: arguments.keep_body,
        keep_trailers: options.keep_trailers.map_or(KeepTrailers::None, KeepTrailers::from),
        trailers: options.trailer.clone(),
    })
}

/// JSON is text, while git accepts any bytes.
fn utf8(body: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(body).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(at).copied().unwrap_or_default();
        let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::usage(format!(
            "nothing was printed: the body is not UTF-8: byte {byte:#04x} at offset {at}, on line {line}"
        ))
        .hint("convert it (`iconv`), or leave the text in a file of the worktree; `set-state --body-file` takes any bytes")
    })
}
