//! Answers to states that wait for somebody (`dwp-waits-for`, CONTRACT 11.23).
//!
//! Invariant: an answer is put only on the commit that asked, and is one of the listed states. It keeps
//! the request and changes no files.

use bstr::{BString, ByteSlice};

use crate::clock;
use crate::contract::cancel::is_cancelled;
use crate::contract::carried::{KeepTrailers, kept_and_given};
use crate::contract::head::{Event, Head};
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::contract::manual::ManualState;
use crate::contract::message::Message;
use crate::contract::report::plain_line;
use crate::contract::titles::answer_title;
use crate::contract::trailers::Trailer;
use crate::contract::waits_for::{ANSWERED_KEY, Answers, WaitsFor};
use crate::git::Repo;
use crate::runner::authority::Authority;
use crate::runner::landing::ask::newest_request;
use crate::words::shell_quote;

use super::Onto;
use super::request::{ask, with_reply};
use super::target::Target;
use crate::ops::error::{Error, Kind};

/// The most commits that are searched for an answer.
const MOST_SEARCHED: usize = 100;

/// The longest name shown, in characters.
const MAX_NAME_CHARS: usize = 100;

/// A state that waits for an answer.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The branch.
    pub branch: BranchName,
    /// The commit that asks, its state and its message.
    pub event: Event,
    /// Its author.
    pub author: BString,
    /// The name that it waits for, and the answers.
    pub question: WaitsFor,
}

/// Returns the question of a branch.
pub fn question(repo: &Repo, authority: &Authority, branch: &BranchName) -> Result<Asked, Error> {
    let onto = Onto { branch: Some(branch.clone()), answers: true, ..Onto::default() };
    let target = Target::look(repo, authority, &onto)?;
    target.check_no_driver(repo)?;
    let (event, question) = asked(repo, authority, &target)?;
    Ok(question_of(repo, &target, event, &question))
}

/// Returns the question of a branch as a look has found it.
pub fn question_at(repo: &Repo, branch: &str, head: &str) -> Option<Asked> {
    let commit = CommitId::parse_hex(head)?;
    let Head::Ready(event) = Head::read(&repo.commit(commit).ok()?.facts()) else { return None };
    let question = WaitsFor::of(&event.message.trailers)?;
    let branch = BranchName::new(branch).ok()?;
    Some(Asked { branch, author: repo.author(commit).unwrap_or_default(), event, question })
}

/// Returns a question with its place.
fn question_of(repo: &Repo, target: &Target, event: &Event, question: &WaitsFor) -> Asked {
    let author = repo.author(event.commit).unwrap_or_default();
    Asked { branch: target.branch.clone(), event: event.clone(), author, question: question.clone() }
}

/// Returns the question at HEAD. Fails if there is none.
fn asked<'t>(repo: &Repo, authority: &Authority, target: &'t Target) -> Result<(&'t Event, WaitsFor), Error> {
    if let Head::Ready(event) = &target.meaning
        && let Some(question) = WaitsFor::of(&event.message.trailers)
    {
        return Ok((event, question));
    }
    let message = format!(
        "{} does not wait for an answer: {}; nothing was changed",
        target.branch,
        target.head_words()
    );
    let mut error = Error::new(Kind::Conflict, message);
    if let (Head::Ready(event), Some(head)) = (&target.meaning, &target.head)
        && is_cancelled(event)
        && newest_request(repo, &target.branch, head.id)
            .is_some_and(|asked| WaitsFor::of(&asked.message.trailers).is_some())
    {
        let line = format!("aynig set-state {}{} --retry", shell_quote(&target.branch), option(authority));
        return Err(error.hint(format!("the question was cancelled; `{line}` asks it again")));
    }
    if let Some(answer) = target.head.as_ref().and_then(|head| newest_answer(repo, head.id, "")) {
        error = error.hint(answer);
    }
    Err(error.hint(by_hand(authority, &target.branch, "")))
}

/// The command that sets a state that is no listed answer. `keep` keeps the text of the question.
fn by_hand(authority: &Authority, branch: &BranchName, keep: &str) -> String {
    let (branch, remote) = (shell_quote(branch), option(authority));
    format!("`aynig set-state --branch {branch}{remote} --state STATE{keep}` sets a state by hand")
}

/// The option that keeps the text of the question.
const KEEP: &str = " --keep-body";

fn option(authority: &Authority) -> String {
    authority.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default()
}

/// Returns a line for each of the answers, which only holds for this question.
pub fn lines(authority: &Authority, asked: &Asked) -> Vec<String> {
    let states: Vec<&str> = match &asked.question.answers {
        Answers::Any => vec!["STATE"],
        Answers::Listed(states) => states.iter().map(StateName::as_str).collect(),
        Answers::Invalid(_) => Vec::new(),
    };
    let (branch, commit) = (shell_quote(&asked.branch), asked.event.commit.short());
    let line = |state| format!("aynig answer {branch} {state} --expect {commit}{}", option(authority));
    states.into_iter().map(line).collect()
}

/// Drafts the answer `state`.
pub(super) fn draft(
    repo: &Repo,
    authority: &Authority,
    target: &Target,
    onto: &Onto,
    (state, comment): (&StateName, Option<&[u8]>),
) -> Result<ManualState, Error> {
    let (event, question) = asked(repo, authority, target)?;
    let with_lines = |error| {
        let more = if comment.is_some() { " --comment TEXT" } else { "" };
        let lines = lines(authority, &question_of(repo, target, event, &question)).into_iter();
        lines.fold(error, |error: Error, line| error.hint(format!("`{line}{more}`")))
    };
    if state.is_working() {
        let message = format!("working is a lease, and no answer to {}; nothing was changed", target.branch);
        return Err(with_lines(Error::usage(message)));
    }
    match &question.answers {
        Answers::Listed(states) if !states.contains(state) => {
            let list = question.answers.list().unwrap_or_default();
            let message = format!(
                "{state} is not one of the answers that {} waits for: {list}; nothing was changed",
                target.branch
            );
            return Err(with_lines(Error::usage(message)).hint(by_hand(authority, &target.branch, KEEP)));
        }
        Answers::Invalid(why) => {
            return Err(Error::failed(format!("{}: {why}; nothing was changed", target.branch))
                .hint(by_hand(authority, &target.branch, KEEP)));
        }
        Answers::Any | Answers::Listed(_) => {}
    }
    target.check_signed(repo, onto.accept_unsigned, event.commit)?;
    let request = ask(repo, target, onto)?.unwrap_or_else(|| event.clone());
    let given = [Trailer::new(ANSWERED_KEY, event.commit.to_string())];
    Ok(ManualState {
        state: state.clone(),
        subject: Some(answer_title(state).to_string()),
        trailers: kept_and_given(KeepTrailers::All, &target.trailers(), &request.message.trailers, &given),
        body: Some(with_reply(repo, target, request, comment).into()),
        source: authority.source().cloned(),
        overrides: None,
        lease_seconds: None,
        from_attempt: None,
    })
}

/// Returns the author and the state of the answer at or below `head` to the commit whose id begins with `asked`.
pub(super) fn newest_answer(repo: &Repo, head: CommitId, asked: &str) -> Option<String> {
    let found = repo.history(head).take(MOST_SEARCHED).map_while(Result::ok).find(|stored| {
        let message = Message::parse(&stored.message);
        message.trailers.last(ANSWERED_KEY).is_some_and(|answered| answered.starts_with(asked.as_bytes()))
    })?;
    let state = Head::read(&found.facts()).state()?;
    let by = plain_line(repo.author(found.id).ok()?.as_bytes(), MAX_NAME_CHARS);
    let ago = clock::span(clock::wall_seconds().saturating_sub(found.committed_at).max(0).unsigned_abs());
    Some(format!("{by} answered with {state} {ago} ago ({})", found.id.short()))
}
