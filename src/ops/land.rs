//! Landing: puts the result of a branch on another one as a single clean commit.
//!
//! Invariant: the target moves by one compare-and-swap from the very commit that was merged into. Its checkout is
//! updated just before, and only if it is clean; no changes of a user are overwritten (CONTRACT.md §14).

mod moves;

use std::path::PathBuf;

use bstr::BString;

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::lease::{Lease, Liveness};
use crate::contract::message::{Draft, Message};
use crate::contract::parking::{Parking, parking};
pub use crate::contract::squash::Said;
use crate::contract::squash::{merge_draft, squash_draft};
use crate::contract::waits_for::WaitsFor;
use crate::engine::FLOW;
use crate::git::Repo;
use crate::git::objects::commits::{NewCommit, Stored};
use crate::git::objects::merge::{Merge, MergeError};
use crate::model::run::RunKind;
use crate::model::state::State;
use crate::runner::authority::Authority;
use crate::runner::options::Trust;
use crate::runner::survey::resolve::Resolver;
use crate::runner::survey::trust;
use crate::words::{error_chain, shell_quote};

use super::declare::{Driven, driven_by};
use super::error::{Error, Kind};
use super::missing::for_run;
use super::runs;
use super::settings;
use super::target::existing_head;
use super::view::lease::lease_words;
use super::work;
use crate::runner::survey::line::lease_below;

/// The kind of commit that lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// One commit with all changes, on the target alone.
    Squash,
    /// A merge commit, which keeps the commits of the branch.
    Merge,
}

/// Requests a landing.
#[derive(Debug, Clone)]
pub struct Request {
    /// The branch to land.
    pub branch: BranchName,
    /// The target; else the default branch.
    pub into: Option<BranchName>,
    /// The kind of commit.
    pub strategy: Strategy,
    /// The commit's text.
    pub said: Said,
    /// Whether our signature may vouch for unsigned commits (CONTRACT 13.10).
    pub accept_unsigned: bool,
    /// Whether work lands whose run has not succeeded (CONTRACT 21.13).
    pub unsuccessful: bool,
}

/// The result of a request.
#[derive(Debug)]
pub enum Landing {
    /// The branch has landed.
    Landed(Landed),
    /// The target already has all its commits.
    Nothing {
        /// The target.
        into: BranchName,
    },
    /// Both sides changed these paths, and nothing was written.
    Conflicts {
        /// The target.
        into: BranchName,
        /// The paths.
        paths: Vec<BString>,
        /// The worktree that has the branch checked out, if it is another one than this.
        worktree: Option<PathBuf>,
        /// `SLUG/NAME` of the workspace whose branch it is.
        workspace: Option<String>,
    },
}

/// A landed branch.
#[derive(Debug)]
pub struct Landed {
    /// The target.
    pub into: BranchName,
    /// Its HEAD before.
    pub parent: CommitId,
    /// Its HEAD now.
    pub commit: CommitId,
    /// Its subject.
    pub subject: BString,
    /// The checkout that was updated.
    pub followed: Option<PathBuf>,
    /// `SLUG/NAME` of the workspace whose branch landed. Its worktree goes before the branch does.
    pub workspace: Option<String>,
    /// Whether the branch that landed waits for something, which its deletion would lose.
    pub is_open: bool,
    /// Whether the branch that landed is checked out, so git does not delete it.
    pub is_checked_out: bool,
    /// The command that brings it to this clone, if a remote decides.
    pub brings: Option<String>,
    /// Warnings to show to the user.
    pub warnings: Vec<String>,
}

/// One of the two branches.
struct Side {
    name: BranchName,
    head: Stored,
    meaning: Head,
}

impl Side {
    fn look(repo: &Repo, authority: &Authority, name: &BranchName) -> Result<Self, Error> {
        let head = existing_head(repo, authority, name).map_err(|error| {
            let is_here = || repo.branch_head(name).is_ok_and(|head| head.is_some());
            match authority.source().filter(|_| error.kind == Kind::NotFound && is_here()) {
                None => error,
                Some(remote) => error.hint(format!(
                    "it is in this clone: `git push {remote} {}` brings it there",
                    shell_quote(name)
                )),
            }
        })?;
        let head = repo
            .commit(head)
            .map_err(|error| Error::because(&format!("read the newest commit of {name}"), &error))?;
        let meaning = Head::read(&head.facts());
        Ok(Self { name: name.clone(), head, meaning })
    }

    fn lease(&self, repo: &Repo) -> Option<Lease> {
        match &self.meaning {
            Head::Working(lease) => Some(lease.clone()),
            Head::Unmanaged | Head::Invalid(_) => lease_below(repo, &self.name, self.head.id),
            Head::Ready(_) => None,
        }
    }

    /// Checks that no live lease holds the branch. Returns whether an expired one does.
    fn check_free(&self, repo: &Repo, authority: &Authority) -> Result<bool, Error> {
        let Some(lease) = self.lease(repo) else { return Ok(false) };
        let skew = if authority.source().is_none() { 0 } else { settings::judging(repo)?.skew_seconds };
        let now = clock::wall_seconds().saturating_sub_unsigned(skew);
        let Liveness::Live { left } = lease.liveness(now) else { return Ok(true) };
        let name = &self.name;
        let message = format!(
            "{name} is under a lease of {} for another {}; nothing was changed",
            lease_words(&lease),
            clock::span(left)
        );
        Err(Error::new(Kind::Conflict, message).hint(format!(
            "wait until it is over: `aynig status --watch --branch {}{}` shows when",
            shell_quote(name),
            option(authority)
        )))
    }

    /// Checks that our signature vouches for no commit that a runner would refuse (CONTRACT 13.10).
    fn check_signed(&self, repo: &Repo, accept_unsigned: bool) -> Result<(), Error> {
        if accept_unsigned || !repo.signs().unwrap_or(true) {
            return Ok(());
        }
        let trust = Trust { require_signed: settings::require_signed(repo)?, ..Trust::default() };
        let Some(why) = trust::refused(repo, &trust, self.head.id) else { return Ok(()) };
        let name = &self.name;
        Err(Error::setup(format!("nothing was changed, as the signature would vouch for {name}: {why}"))
            .hint(format!("look at what it brings: `git show {}`", self.head.id.short()))
            .hint("if you vouch for it, the same again with `--accept-unsigned`"))
    }
}

/// The branch to land. `run` is that of which it is the work.
fn look_from(
    repo: &Repo,
    authority: &Authority,
    request: &Request,
    run: Option<&(State, String)>,
) -> Result<Side, Error> {
    let found = Side::look(repo, authority, &request.branch);
    found.map_err(|error| named_run(repo, &request.branch, error)).map_err(|error| match run {
        // Its work is at another ref there, and the branch here may be an old one.
        Some((state, handle)) if authority.source().is_some() && error.kind == Kind::NotFound => {
            let has_work = state.workspaces.values().any(|one| one.head_sha != one.base_sha);
            let next = if has_work {
                let anyway = if work::obstacle(state).is_some() { " --unsuccessful" } else { "" };
                format!("`aynig publish {handle}{anyway}` brings the work of its run there")
            } else {
                let (slug, shows) = (&state.run.slug, runs::shows(&state.run));
                format!("run {slug} has no work yet: `{shows}` shows where it stands")
            };
            Error { hints: vec![next], ..error }
        }
        _ => error,
    })
}

/// Lands a branch on another.
pub fn land(repo: &Repo, authority: &Authority, request: &Request) -> Result<Landing, Error> {
    let into = target(repo, authority, request)?;
    let run = work::of_run(repo, authority, &request.branch);
    let from = look_from(repo, authority, request, run.as_ref())?;
    if let Some(driven) = driven_by(repo, &from.name, Some(from.head.id))? {
        return Err(no_work(repo, &from.name, &driven)?);
    }
    // The next landing there begins after this one.
    let _turn = moves::turn(repo, authority, &into)?;
    let onto = Side::look(repo, authority, &into)?;
    let is_over = from.check_free(repo, authority)?;
    onto.check_free(repo, authority)?;
    let about = run.as_ref().map(|(state, handle)| work::may_land(state, handle, request.unsuccessful));
    let about = about.transpose()?.flatten();
    if let Some((state, handle)) = &run {
        work::check_newest(repo, authority, (state, handle), (&from.name, from.head.id))?;
    }
    if repo.descends(onto.head.id, from.head.id) {
        return Ok(Landing::Nothing { into });
    }
    let tree = match repo.merge_trees(onto.head.id, from.head.id, onto.head.id) {
        Ok(Merge::Clean(tree)) if tree == onto.head.tree => return Ok(Landing::Nothing { into }),
        Ok(Merge::Clean(tree)) => tree,
        Ok(Merge::Conflicts(paths)) => {
            let mut all = repo.checkouts_of(&from.name).unwrap_or_default().into_iter();
            let worktree = all.find(|one| one.path != repo.top()).map(|one| one.path.clone());
            let workspace = run.map(|(_, handle)| handle);
            return Ok(Landing::Conflicts { into, paths, worktree, workspace });
        }
        Err(error) => return Err(unmerged(repo, &from.name, &into, &error)),
    };
    for side in [&from, &onto] {
        side.check_signed(repo, request.accept_unsigned)?;
    }
    let checkout = moves::checkout(repo, authority, &onto, tree)?;
    let workspace = workspace(repo, &from.name);
    let label = run.as_ref().map(|(state, _)| state.run.label.clone());
    let draft = draft(repo, request, &onto, &from, label)?;
    let (message, mut warnings) = encoded(&draft, request)?;
    warnings.extend(about);
    warnings.extend(run.as_ref().and_then(|(state, _)| work::by_hand(repo, state, from.head.id)));
    let open = still_open(repo, authority, &from)?;
    let parents = match request.strategy {
        Strategy::Squash => vec![onto.head.id],
        Strategy::Merge => vec![onto.head.id, from.head.id],
    };
    let new = NewCommit { tree, parents: &parents, message: &message, attempt: None };
    let commit = repo
        .write_commit(&new)
        .map_err(|error| Error::because(&format!("write a commit for {into}"), &error))?;
    let elsewhere = moves::move_target(repo, authority, &onto, commit, checkout.as_ref())?;
    let followed = checkout.filter(|_| elsewhere.is_none()).map(|checkout| checkout.path.clone());
    warnings.extend(elsewhere);
    let is_open = !open.is_empty();
    warnings.extend(open);
    warnings.extend(remarks(repo, &from, &onto, is_over));
    let subject = Message::parse(&message).subject;
    let parent = onto.head.id;
    let is_checked_out = repo.checkouts_of(&from.name).is_ok_and(|all| !all.is_empty());
    let brings = brings(repo, authority, &into, commit);
    Ok(Landing::Landed(Landed {
        into,
        parent,
        commit,
        subject,
        followed,
        workspace,
        is_open,
        is_checked_out,
        brings,
        warnings,
    }))
}

/// The command that brings here what has landed on the remote that decides. On a branch that follows another one, or
/// on none, `git pull` would bring something else or fail.
fn brings(repo: &Repo, authority: &Authority, into: &BranchName, landed: CommitId) -> Option<String> {
    let remote = authority.source()?;
    let here = repo.checkout().and_then(|checkout| checkout.branch);
    let is_pulled = here.as_ref().and_then(|here| repo.upstream_on(here, remote)).as_ref() == Some(into);
    let head = here.and_then(|here| repo.branch_head(&here).ok().flatten());
    Some(if is_pulled {
        // Git refuses to guess how to join two histories.
        let has_own = head.is_some_and(|head| !repo.descends(landed, head));
        if has_own { "git pull --rebase" } else { "git pull" }.to_owned()
    } else {
        format!("git fetch {}", shell_quote(remote.as_str()))
    })
}

/// The name of a run is none of its work branches.
fn named_run(repo: &Repo, branch: &BranchName, error: Error) -> Error {
    let Ok((prefix, _)) = settings::prefixes(repo) else { return error };
    for_run(repo, branch, error, |run| {
        let work = |name: &str| shell_quote(format!("{prefix}{}/{name}", run.slug));
        Some(match run.kind {
            RunKind::Flow => format!("`aynig land {}` lands its work", work(FLOW)),
            RunKind::Graph => format!("`aynig land {}` lands the work of a node", work("ALIAS")),
        })
    })
}

/// The driver of a run has its states and commands, and none of its work.
fn no_work(repo: &Repo, driver: &BranchName, driven: &Driven) -> Result<Error, Error> {
    let Driven { slug, node } = driven;
    let (prefix, _) = settings::prefixes(repo)?;
    let work = format!("{prefix}{slug}/{}", node.as_deref().unwrap_or(FLOW));
    let message = format!("{driver} drives run {slug}, and has none of its work; nothing was changed");
    Ok(Error::usage(message).hint(format!("`aynig land {}` lands its work", shell_quote(&work))))
}

/// `SLUG/NAME` of the workspace whose worktree here is on `branch`.
fn workspace(repo: &Repo, branch: &BranchName) -> Option<String> {
    let all = repo.workspace_worktrees().unwrap_or_default();
    all.iter().filter_map(|one| one.workspace()).find(|mark| mark.branch == *branch)?;
    let branch = branch.to_string();
    let (above, name) = branch.rsplit_once('/')?;
    let slug = above.rsplit('/').next()?;
    Some(format!("{slug}/{name}"))
}

/// The target branch.
fn target(repo: &Repo, authority: &Authority, request: &Request) -> Result<BranchName, Error> {
    let mut into = request.into.clone().or_else(|| repo.default_branch(authority.source()));
    if into.is_none() && authority.source().is_some() {
        // A clone that has fetched nothing yet knows no branch of its remote.
        authority.refresh(repo)?;
        into = repo.default_branch(authority.source());
    }
    let Some(into) = into else {
        return Err(Error::usage("there is no default branch to land on: neither main nor master exists")
            .hint("name one: `--into BRANCH`"));
    };
    if into == request.branch {
        return Err(Error::usage(format!("{into} cannot be landed on itself"))
            .hint("name another with `--into BRANCH`"));
    }
    Ok(into)
}

fn option(authority: &Authority) -> String {
    authority.source().map(|remote| format!(" --remote {}", shell_quote(remote.as_str()))).unwrap_or_default()
}

fn unmerged(repo: &Repo, branch: &BranchName, into: &BranchName, error: &MergeError) -> Error {
    let message = format!("{branch} could not be merged into {into}: {}", error_chain(error));
    let by_hand = |merge: &str| {
        format!(
            "in a checkout: `git switch {} && git merge {merge} {}`",
            shell_quote(into),
            shell_quote(branch)
        )
    };
    match error {
        MergeError::Unrelated if repo.is_shallow() => {
            Error::setup(format!("{message} that this clone has, since it is shallow"))
                .hint("`git fetch --unshallow` brings the others")
        }
        MergeError::Unrelated => Error::failed(message)
            .hint(by_hand("--allow-unrelated-histories"))
            .hint("or name another with `--into BRANCH`"),
        MergeError::GitTooOld => Error::setup(message).hint(by_hand("--squash")),
        MergeError::Commit(_) | MergeError::Git(_) => {
            Error::setup(message).hint("`aynig doctor` and `git fsck` name what is damaged")
        }
    }
}

/// The new commit's message. `label` is that of the run of a workspace.
fn draft(
    repo: &Repo,
    request: &Request,
    onto: &Side,
    from: &Side,
    label: Option<String>,
) -> Result<Draft, Error> {
    if request.strategy == Strategy::Merge {
        return Ok(merge_draft(&from.name, &request.said));
    }
    let trying = format!("read the commits of {}", from.name);
    let commits = repo
        .commits_between(onto.head.id, from.head.id)
        .map_err(|error| Error::because(&trying, &error))?
        .into_iter()
        .map(|id| repo.commit(id).map(|stored| Message::parse(&stored.message)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::because(&trying, &error))?;
    let label = label.map(|label| label.split_whitespace().collect::<Vec<_>>().join(" "));
    let label = label.filter(|label| !label.is_empty());
    Ok(squash_draft(&from.name, &commits, &request.said, label.as_deref()))
}

/// The message. A body from the history that cannot be written is left out, with a warning.
fn encoded(draft: &Draft, request: &Request) -> Result<(BString, Vec<String>), Error> {
    let refused = |error: &dyn std::error::Error| {
        Error::usage(format!("could not land {}: {}", request.branch, error_chain(error)))
            .hint("give it other words: `--subject TEXT`, `--body TEXT`")
    };
    match draft.encode() {
        Ok(message) => Ok((message, Vec::new())),
        Err(error) if request.said.body.is_some() || draft.body.is_empty() => Err(refused(&error)),
        Err(error) => {
            let bare = Draft { body: BString::default(), ..draft.clone() };
            let message = bare.encode().map_err(|error| refused(&error))?;
            let warning =
                format!("the body was left out: {}; `--body TEXT` gives another", error_chain(&error));
            Ok((message, vec![warning]))
        }
    }
}

/// What the branch waits for.
fn still_open(repo: &Repo, authority: &Authority, from: &Side) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let (name, quoted) = (&from.name, shell_quote(&from.name));
    if let Head::Ready(event) = &from.meaning {
        let trailers = &event.message.trailers;
        if let Some(question) = WaitsFor::of(trailers) {
            found.push(format!(
                "{name} waits for an answer of {}; `aynig answer {quoted}{}` shows the question",
                question.words(),
                option(authority)
            ));
        } else if let Parking::Until(time) = parking(trailers, clock::wall_seconds()) {
            found.push(format!("{name} is parked until {}, and is run then", clock::format_utc(time)));
        }
    }
    if authority.slot(repo, name)?.is_some() {
        found.push(format!(
            "a deferred state waits for {name}; `aynig set-state --withdraw {quoted}{}` removes it",
            option(authority)
        ));
    }
    Ok(found)
}

/// The warnings about the two branches.
fn remarks(repo: &Repo, from: &Side, onto: &Side, is_over: bool) -> Vec<String> {
    let mut found = Vec::new();
    let name = &from.name;
    let log = || format!("`aynig log {}` tells more", shell_quote(name));
    match &from.meaning {
        _ if is_over => {
            found.push(format!("the last attempt on {name} came to no end, and its lease is over; {}", log()))
        }
        Head::Ready(event) if event.state.is_stalled() => {
            found.push(format!(
                "{name} is stalled: what its last attempt left behind is not in it; {}",
                log()
            ));
        }
        Head::Ready(event) => {
            let (head, tree) = (from.head.id, from.head.tree);
            if Resolver::new(None).in_commit(repo, head, tree, &event.state).is_ok() {
                found.push(format!(
                    "{name} still asks for {}, and the next `aynig run` goes on with it",
                    event.state
                ));
            }
        }
        Head::Unmanaged | Head::Invalid(_) | Head::Working(_) => {}
    }
    if let Head::Ready(event) = &onto.meaning {
        found.push(format!("{} declared the state {}, which this commit ends", onto.name, event.state));
    }
    found
}
