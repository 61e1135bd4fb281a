//! A program of the operator's: one JSON object on its standard input, one on its standard output (CONTRACT 21.11).

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::workspace::refusal::{Refusal, Why};

use super::call::Call;
use super::proposal::{Proposal, ProposalState, Subject, Texts};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
struct Request<'a> {
    version: u32,
    action: &'static str,
    remote: &'a str,
    url: &'a str,
    head: &'a str,
    base: &'a str,
    commit: &'a str,
    title: &'a str,
    body: &'a str,
    draft: bool,
    previous: Option<Previous<'a>>,
}

#[derive(Debug, Serialize)]
struct Previous<'a> {
    url: &'a str,
    number: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    number: Option<u64>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    body: Option<String>,
}

pub(super) fn find(path: &Path, subject: &Subject<'_>) -> Result<Option<Proposal>, Refusal> {
    ask(path, subject, "find", subject.previous.map(Proposal::at).as_ref())
}

pub(super) fn create(path: &Path, subject: &Subject<'_>) -> Result<Option<Proposal>, Refusal> {
    ask(path, subject, "create", None)
}

pub(super) fn update(path: &Path, subject: &Subject<'_>, proposal: &Proposal) -> Result<(), Refusal> {
    ask(path, subject, "update", Some(proposal)).map(drop)
}

fn ask(
    path: &Path,
    subject: &Subject<'_>,
    action: &'static str,
    previous: Option<&Proposal>,
) -> Result<Option<Proposal>, Refusal> {
    let Subject { remote, address, head, base, commit, texts, draft, directory, stop, interrupt, .. } =
        subject;
    let request = Request {
        version: VERSION,
        action,
        remote,
        url: address,
        head,
        base,
        commit,
        title: &texts.title,
        body: &texts.body,
        draft: *draft,
        previous: previous.map(|one| Previous { url: &one.url, number: one.number }),
    };
    let name = format!("{} (aynig.forge)", path.display());
    let stdin = serde_json::to_vec(&request).map_err(|error| Refusal::because("write JSON", &error))?;
    let (program, arguments) = (path.to_owned(), Vec::new());
    let call = Call { program, name: name.clone(), arguments, stdin, directory, stop, interrupt };
    let stdout = call.make()?.checked()?;
    let wrong = |why: String| {
        let message = format!("`{name}` gave no answer that can be read to {action}: {why}");
        Refusal::new(Why::Remote, message)
    };
    if stdout.trim_ascii().is_empty() {
        return Ok(None);
    }
    let answer: Answer = serde_json::from_slice(&stdout).map_err(|error| wrong(error.to_string()))?;
    let Some(url) = answer.url else { return Ok(None) };
    if url.is_empty() || url.len() > 2_000 || url.chars().any(char::is_control) {
        return Err(wrong("its url is no address".to_owned()));
    }
    let state = answer.state.as_deref().unwrap_or("open");
    let state = ProposalState::parse(state)
        .ok_or_else(|| wrong(format!("its state is {state:?}, and not open, closed or merged")))?;
    let texts = answer.title.zip(answer.body).map(|(title, body)| Texts { title, body });
    let number = answer.number.or_else(|| Proposal::at(&url).number);
    Ok(Some(Proposal { url, number, state, texts }))
}
