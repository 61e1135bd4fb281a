//! State commits by hand: the parts shared by `set-state` and `set-working`.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use aynig::clock::{format_utc, span};
use aynig::contract::carried::KeepTrailers;
use aynig::ops::declare::{Advice, Content, Expected, Holder, Onto, Written};
use aynig::ops::error::Error;
use aynig::ops::target::branch_name;
use aynig::ops::view::lease::lease_words;
use aynig::runner::shell_quote;
use aynig::words::first_of;

use crate::cli::args::CommitOptions;
use crate::cli::ui;
use crate::cli::ui::{FAINT, GOOD, STRONG, styled};

/// The longest body, in bytes.
const MAX_BODY: u64 = 1 << 20;

/// The most paths that are named.
const MOST_NAMED: usize = 8;

/// The target of the commit: the named branch, if any.
pub(crate) fn onto(named: Option<&OsStr>, options: &CommitOptions) -> Result<Onto, Error> {
    let branch = named.or(options.branch.as_deref()).map(branch_name).transpose()?;
    Ok(Onto { branch, ..conditions(options) })
}

/// The conditions under which a commit is made, on no branch yet.
pub(crate) fn conditions(options: &CommitOptions) -> Onto {
    let expected = Expected { commit: options.expect.clone(), state: options.if_state.clone() };
    Onto { branch: None, accept_unsigned: options.accept_unsigned, expected, force: false, answers: false }
}

/// The text of the commit. Files are resolved against `start`.
pub(crate) fn content(options: &CommitOptions, start: &Path) -> Result<Content, Error> {
    let stdin = options.text.body_stdin.then_some(Path::new("-"));
    let body = text(options.text.body.as_ref(), options.text.body_file.as_deref().or(stdin), start)?;
    let keep_trailers = options.text.keep_trailers.map_or(KeepTrailers::None, KeepTrailers::from);
    Ok(Content {
        subject: options.text.subject.clone(),
        body,
        lease_seconds: None,
        trailers: options.text.trailer.clone(),
        keep_body: false,
        keep_trailers,
    })
}

/// Reads a body: `text`, or the contents of `file`, resolved against `start` (`-` is stdin). Bytes, because a
/// file need not contain text.
pub(crate) fn text(
    text: Option<&OsString>,
    file: Option<&Path>,
    start: &Path,
) -> Result<Option<Vec<u8>>, Error> {
    if let Some(text) = text {
        return Ok(Some(text.clone().into_vec()));
    }
    let Some(file) = file else { return Ok(None) };
    if file.as_os_str() == "-" {
        let bytes = bounded(std::io::stdin().lock());
        let bytes = bytes.map_err(|error| Error::because("read the body from stdin", &error))?;
        return bytes.map(Some).ok_or_else(|| too_long("stdin"));
    }
    let file = start.join(file);
    let name = file.display().to_string();
    let bytes = std::fs::File::open(&file).and_then(bounded).map_err(|error| {
        Error::usage(format!("could not read the body from {name}: {error}"))
            .hint("give an existing file, or the text itself (`--help` names the options)")
    })?;
    bytes.map(Some).ok_or_else(|| too_long(&name))
}

/// Reads a body; `None` if it is longer than a body may be.
fn bounded(source: impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let length = source.take(MAX_BODY + 1).read_to_end(&mut bytes)?;
    Ok((u64::try_from(length).is_ok_and(|length| length <= MAX_BODY)).then_some(bytes))
}

fn too_long(name: &str) -> Error {
    Error::usage(format!("the body from {name} is longer than 1 MiB; nothing was written"))
        .hint("commit the long text as a file on the branch, and name the file in the body")
}

/// The line that reports a written state.
pub(crate) fn transition(written: &Written, more: &str) -> String {
    let before = written.previous.as_ref().map_or_else(|| "(no state)".to_owned(), ToString::to_string);
    format!(
        "{}  {before} → {}  {}",
        styled(STRONG, ui::sanitize(&written.branch.to_string())),
        styled(GOOD, &written.state),
        styled(FAINT, ui::sanitize(&format!("({}{more})", written.commit.short())))
    )
}

/// Prints all advice.
pub(crate) fn advise(advice: &[Advice]) {
    for advice in advice {
        match advice {
            Advice::PushedAlong { remote, branch, from, to, subject } => {
                ui::narrate(&ui::sanitize(&format!(
                    "with it went what {remote} did not have of {branch}: {}..{} ({subject})",
                    from.short(),
                    to.short()
                )))
            }
            Advice::StagedAlong { paths } => {
                ui::remark(&ui::sanitize(&format!(
                    "with it went what was staged: {}",
                    first_of(paths, MOST_NAMED)
                )));
            }
            Advice::Unpaused { branch, state, until } => ui::remark(&ui::sanitize(&format!(
                "{branch} was to wait until {} (dwp-not-before); a retry is due at once; to let it wait: `aynig set-state {} \
                 --state {state} --keep-body --keep-trailers=all --trailer 'dwp-not-before: {}'`",
                format_utc(*until),
                shell_quote(branch),
                format_utc(*until)
            ))),
            Advice::NotFollowed { why } => ui::warn(&format!("this checkout did not follow: {why}")),
            Advice::Overridden { branch, lease, left, holder } => {
                let then = match holder {
                    Holder::Hand => "it was taken by hand, so no runner notices; tell whoever works under it",
                    Holder::Ended => {
                        "its command had ended; what that left running may not set a state any more"
                    }
                    Holder::Gone => "its runner on this host is gone; the next `aynig run` saves the work",
                    Holder::Runner => "its runner will notice, stop its command and save the work",
                };
                let (lease, left) = (lease_words(lease), span(*left));
                ui::warn(&format!("{branch} was leased to {lease} for another {left}; {then}"));
            }
            Advice::RenewedForOther { branch, lease, left } => ui::warn(&format!(
                "{branch} is leased to {} for another {}; the lease was renewed in its name, and the branch is not yours by that",
                lease_words(lease),
                span(*left)
            )),
            Advice::NoCommand { branch, state, near, corrected } => {
                let next = corrected.as_ref().map(|line| format!(" {line} requests it")).unwrap_or_default();
                ui::warn(&format!("{branch} has no command for {state}; did you mean {near}?{next}"));
            }
            Advice::NothingRuns { branch, state } => {
                ui::warn(&format!(
                    "{branch} has no command for {state}, so nothing runs; `--state STATE` requests another state"
                ));
            }
            Advice::Misspelt(slip) => ui::warn(&slip.to_string()),
        }
    }
}
