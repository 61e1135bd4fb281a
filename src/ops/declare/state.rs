//! A state by hand.

use bstr::{BString, ByteSlice};

use crate::clock;
use crate::contract::alike::misspelt;
use crate::contract::carried::{KeepTrailers, is_of_one_commit, kept_and_given};
use crate::contract::head::{Event, Head};
use crate::contract::ids::{BranchName, StateName};
use crate::contract::kept::Kept;
use crate::contract::lease::requested_seconds;
use crate::contract::manual::{ManualError, ManualState, set_state_draft};
use crate::contract::message::{Draft, Message};
use crate::contract::parking::{NOT_BEFORE_KEY, Parking, parking};
use crate::contract::trailers::{Trailer, Trailers, is_runner_managed};
use crate::contract::waits_for::{Answers, WaitsFor};
use crate::git::Repo;
use crate::git::objects::commits::Stored;
use crate::runner::authority::Authority;
use crate::runner::landing::ask::newest_request;
use crate::runner::survey::resolve::Resolver;
use crate::runner::survey::verdict::NoCommand;

use super::answer;
use super::checks::holder;
use super::request::{ask, with_reply};
use super::target::Target;
use super::write::write;
use super::{Advice, Content, Onto, StateRequest, Wanted, Written, misread, refused};
use crate::ops::error::Error;
use crate::ops::outer::attempt_around;
use crate::ops::{missing, settings};

/// Refuses a state that no branch can be set to, before any input is read.
pub fn check(state: Option<&StateName>, trailers: &[Trailer]) -> Result<(), Error> {
    if state.is_some_and(StateName::is_working) {
        return Err(refused(&ManualError::Working, ""));
    }
    let trailers = trailers.iter().cloned().collect();
    if let Some(Answers::Invalid(why)) = WaitsFor::of(&trailers).map(|question| question.answers) {
        return Err(Error::usage(format!("nobody could answer: {why}")));
    }
    match parking(&trailers, 0) {
        Parking::Unreadable(why) => Err(Error::usage(format!("the branch could never be run: {why}"))
            .hint("`--trailer 'dwp-not-before: +2h'` is two hours from now")),
        Parking::Over | Parking::Until(_) => Ok(()),
    }
}

/// Sets the state of a branch.
pub fn state(repo: &Repo, authority: &Authority, request: &StateRequest) -> Result<Written, Error> {
    match &request.wanted {
        Wanted::State { state, .. } => check(Some(state), given(request))?,
        Wanted::Retry { .. } => check(None, given(request))?,
        Wanted::Answer { .. } => {}
    }
    let landed = write(repo, authority, &request.onto, "aynig: set state", |target| {
        // A lease needs no person, and reports itself.
        let overrides = match &request.wanted {
            Wanted::Answer { .. } => None,
            Wanted::State { .. } | Wanted::Retry { .. } => {
                target.check_free(repo, authority, request.onto.force)?
            }
        };
        compose(repo, authority, request, target, overrides)
    })?;
    let Some(state) = Head::read(&landed.commit.facts()).state() else {
        return Err(misread(landed.commit.id, "a state"));
    };
    let branch = &landed.before.branch;
    // Whoever asks again after an invalid declaration was told to.
    let again = matches!(request.wanted, Wanted::Retry { .. });
    let foreign = landed.before.foreign_lease();
    let foreign =
        foreign.filter(|(lease, _)| !(again && matches!(Kept::of(&lease.message), Some(Kept::Invalid(_)))));
    let overridden = foreign.map(|(lease, left)| Advice::Overridden {
        branch: branch.clone(),
        lease: lease.clone(),
        left,
        holder: holder(repo, authority, lease),
    });
    let slips = slips(repo, Some(authority), branch, &landed.commit, (&state, request));
    let head = landed.before.head.as_ref().filter(|_| again);
    let newest =
        head.and_then(|head| newest_request(repo, branch, head.id)).map(|event| event.message.trailers);
    let is_parked = given(request).iter().any(|trailer| trailer.key == NOT_BEFORE_KEY);
    let newest = newest.filter(|trailers| WaitsFor::of(trailers).is_none() && !is_parked);
    let unpaused = newest.and_then(|trailers| {
        let Parking::Until(until) = parking(&trailers, clock::wall_seconds()) else { return None };
        Some(Advice::Unpaused { branch: branch.clone(), state: state.clone(), until })
    });
    let mut written = landed.written(state);
    written.advice.extend(overridden.into_iter().chain(slips).chain(unpaused));
    Ok(written)
}

/// Returns advice about the state and the trailers that were requested, which are in `commit` now. `authority` is given if
/// that is on the branch.
pub(super) fn slips(
    repo: &Repo,
    authority: Option<&Authority>,
    branch: &BranchName,
    commit: &Stored,
    (state, request): (&StateName, &StateRequest),
) -> Vec<Advice> {
    let again = matches!(request.wanted, Wanted::Retry { .. });
    let (about, state) = (branch.clone(), state.clone());
    let slip = match slip(repo, commit, &state) {
        Some(Some(near)) => {
            let corrected = authority
                .map(|authority| missing::corrected(repo, authority, (branch, commit), (&state, &near)));
            Some(Advice::NoCommand { branch: about, state, near, corrected })
        }
        Some(None) if again => Some(Advice::NothingRuns { branch: about, state }),
        Some(None) | None => None,
    };
    let trailers = misspelt(given(request)).into_iter().map(Advice::Misspelt);
    slip.into_iter().chain(trailers).collect()
}

fn given(request: &StateRequest) -> &[Trailer] {
    match &request.wanted {
        Wanted::State { content, .. } => &content.trailers,
        Wanted::Retry { trailers, .. } => trailers,
        Wanted::Answer { .. } => &[],
    }
}

/// Drafts the commit that declares the requested state.
pub(super) fn compose(
    repo: &Repo,
    authority: &Authority,
    request: &StateRequest,
    target: &Target,
    overrides: Option<BString>,
) -> Result<Draft, Error> {
    let from_attempt = attempt_around().filter(|_| !target.held);
    let asked = match &request.wanted {
        Wanted::State { state, content } => ManualState {
            state: state.clone(),
            subject: content.subject.clone(),
            body: body(repo, target, &request.onto, content)?,
            lease_seconds: content.lease_seconds,
            trailers: trailers(repo, target, &request.onto, content)?,
            source: authority.source().cloned(),
            overrides,
            from_attempt,
        },
        Wanted::Retry { lease_seconds, reply, trailers } => {
            let again = retry(repo, target, authority, &request.onto, (reply.as_deref(), trailers))?;
            let lease_seconds = lease_seconds.or(again.lease_seconds);
            ManualState { lease_seconds, overrides, from_attempt, ..again }
        }
        Wanted::Answer { state, comment } => {
            let given = (state, comment.as_deref());
            let answer = answer::draft(repo, authority, target, &request.onto, given)?;
            ManualState { from_attempt, ..answer }
        }
    };
    set_state_draft(&asked).map_err(|error| refused(&error, ""))
}

/// Returns the body: as given, or below the one that is kept.
fn body(repo: &Repo, target: &Target, onto: &Onto, content: &Content) -> Result<Option<Vec<u8>>, Error> {
    if !content.keep_body {
        return Ok(content.body.clone());
    }
    match ask(repo, target, onto)? {
        Some(request) => Ok(Some(with_reply(repo, target, request, content.body.as_deref()).into())),
        None => Err(Error::failed(format!(
            "nothing was ever asked on {}, so there is no body to keep",
            target.branch
        ))
        .hint("give all of it with `--body TEXT`, and leave out `--keep-body` and `--reply`")),
    }
}

/// Returns the kept and the given trailers.
fn trailers(repo: &Repo, target: &Target, onto: &Onto, content: &Content) -> Result<Vec<Trailer>, Error> {
    let ask = match content.keep_trailers {
        KeepTrailers::All => ask(repo, target, onto)?.map(|ask| ask.message.trailers).unwrap_or_default(),
        KeepTrailers::None | KeepTrailers::Dwp => Trailers::new(),
    };
    Ok(kept_and_given(content.keep_trailers, &target.trailers(), &ask, &content.trailers))
}

/// Drafts the newest request on the branch again.
fn retry(
    repo: &Repo,
    target: &Target,
    authority: &Authority,
    onto: &Onto,
    (reply, given): (Option<&[u8]>, &[Trailer]),
) -> Result<ManualState, Error> {
    let Some(request) = ask(repo, target, onto)? else {
        return Err(Error::failed(format!(
            "nothing was ever asked on {}, so nothing can be asked again",
            target.branch
        ))
        .hint(format!(
            "ask for something: `aynig set-state{} --state STATE --body TEXT`",
            missing::options(repo, authority, &target.branch)
        )));
    };
    let Event { state, message, .. } = request.clone();
    let asks = WaitsFor::of(&message.trailers).is_some();
    Ok(ManualState {
        state,
        subject: Some(message.subject.to_str_lossy().into_owned()),
        body: Some(with_reply(repo, target, request, reply).into()),
        lease_seconds: requested_seconds(&message.trailers).ok().flatten(),
        // A retry is due at once. What waits for somebody keeps its deadline.
        trailers: message
            .trailers
            .into_iter()
            .filter(|trailer| {
                !is_runner_managed(&trailer.key)
                    && !is_of_one_commit(&trailer.key)
                    && (asks || trailer.key != NOT_BEFORE_KEY)
                    && !given.iter().any(|given| given.key == trailer.key)
            })
            .chain(given.iter().cloned())
            .collect(),
        source: authority.source().cloned(),
        overrides: None,
        from_attempt: None,
    })
}

/// For a state without a command, the command that it nearly has the name of, if any. Such a state is allowed.
fn slip(repo: &Repo, commit: &Stored, state: &StateName) -> Option<Option<String>> {
    let waits = WaitsFor::of(&Message::parse(&commit.message).trailers).is_some();
    // If commands come from another tree, this tree proves nothing.
    if waits || settings::trust(repo).is_ok_and(|trust| trust.commands_from.is_some()) {
        return None;
    }
    match Resolver::new(None).in_commit(repo, commit.id, commit.tree, state) {
        Err(NoCommand::Missing { .. }) => {
            let commands = repo.directory_in(commit.tree, ".aynig").ok()??;
            Some(missing::command(repo, commands, state))
        }
        _ => None,
    }
}
