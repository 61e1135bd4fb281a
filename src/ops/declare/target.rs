//! The branch that a commit by hand is put on, as it was when it was read.
//!
//! Invariant: inside a command the branch is the command's, and it moves only while the attempt
//! holds it. A leftover process of a finished attempt cannot overwrite its successor (CONTRACT
//! 5.10).

use bstr::BString;

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::lease::{Lease, Liveness};
use crate::contract::message::Message;
use crate::contract::trailers::Trailers;
use crate::engine::FLOW;
use crate::engine::driver::run_of;
use crate::git::objects::commits::Stored;
use crate::git::worktrees::registration::same_place;
use crate::git::{Checkout, Repo, Unlisted, Workplace};
use crate::runner::authority::Authority;
use crate::runner::survey::line::lease_below;
use crate::runner::survey::scan::is_below;
use crate::runner::survey::verdict::Exclusion;
use crate::runner::survey::words::is_of_run;
use crate::words::{error_chain, shell_quote};

use super::{Advice, Onto};
use crate::ops::error::{Error, Kind, unlock};
use crate::ops::inside::persons_only;
use crate::ops::missing::{Purpose, missing};
use crate::ops::outer::OuterCommand;
use crate::ops::settings;
use crate::ops::target::{current_branch, head_of};
use crate::ops::view::lease::lease_words;

/// A branch that a commit is put on, as it was when it was read.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) branch: BranchName,
    /// Its HEAD. `None` on an unborn branch.
    pub(super) head: Option<Stored>,
    /// Whether the branch is the surrounding command's, since no other was named.
    pub(super) inside: bool,
    /// The meaning of HEAD.
    pub(super) meaning: Head,
    /// The nearest commit below HEAD that declares a state, if it is a lease and HEAD declares
    /// none.
    below: Option<Lease>,
    /// Whether the branch is under the lease of the caller's attempt.
    pub(super) held: bool,
    /// The checkout whose index is the new tree. If `None`, the tree stays HEAD's.
    pub(super) index: Option<Checkout>,
    /// Whether the checkout of the branch lacks changes of files that the branch has at a remote.
    behind: bool,
}

impl Target {
    pub(super) fn look(repo: &Repo, authority: &Authority, onto: &Onto) -> Result<Self, Error> {
        let named = onto.branch.as_ref();
        let around = OuterCommand::of(repo)?;
        let inside = around.as_ref().filter(|_| named.is_none());
        let branch = match (named, inside) {
            (Some(named), _) => named.clone(),
            (None, Some(inside)) => inside.branch.clone(),
            (None, None) => current_branch(repo, authority)?,
        };
        check_no_workspace(repo, &branch)?;
        let here = repo.checkout();
        // A remote's branch that was named is moved from the remote's HEAD. Commits and staged
        // changes in this checkout are left out: they are the user's until pushed.
        let attached = here
            .as_ref()
            .filter(|_| named.is_none() || authority.source().is_none())
            .filter(|_| !onto.answers)
            .filter(|here| follows(repo, authority, here, &branch))
            .cloned();
        let head =
            match head_of(repo, authority, &branch)? {
                Some(id) => Some(repo.commit(id).map_err(|error| {
                    Error::because(&format!("read the newest commit of {branch}"), &error)
                })?),
                None if attached.is_some() && inside.is_none() && unborn(repo, &branch) => None,
                None => {
                    let purpose = if onto.answers { Purpose::Read } else { Purpose::Write };
                    return Err(missing(repo, authority, &branch, purpose));
                }
            };
        let behind = attached.as_deref().filter(|_| inside.is_none()).zip(head.as_ref());
        let behind = behind.is_some_and(|(here, head)| !is_on_top(repo, authority, here, head));
        if let (true, Some(here), Some(head)) = (behind, &attached, &head)
            && has_staged(repo, here)
        {
            return Err(stale(&branch, head.id, authority));
        }
        // Its files are older than those of the branch.
        let attached = attached.filter(|_| !behind);
        let meaning = head.as_ref().map_or(Head::Unmanaged, |head| Head::read(&head.facts()));
        let below = match (&head, &meaning) {
            (Some(head), Head::Unmanaged | Head::Invalid(_)) => lease_below(repo, &branch, head.id),
            _ => None,
        };
        let index = attached.or_else(|| {
            let (inside, here) = (inside?, here?);
            let own = inside.worktree.as_ref().is_some_and(|worktree| same_place(worktree, &here.path));
            own.then_some(here)
        });
        let mut target =
            Self { branch, head, inside: inside.is_some(), meaning, below, held: false, index, behind };
        let ours = around.as_ref().and_then(|around| around.run.as_ref());
        target.held = ours.is_some() && target.lease().map(|lease| &lease.run_id) == ours;
        if let (Some(inside), false) = (inside, target.held)
            && let Some(run) = &inside.run
        {
            return Err(target.refusal(run));
        }
        Ok(target)
    }

    /// The lease the branch is under: HEAD, or the lease below commits that declare no state.
    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.meaning {
            Head::Working(lease) => Some(lease),
            Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => self.below.as_ref(),
        }
    }

    /// The trailers that a new commit may take over: HEAD's, or those of the lease below a
    /// command's own commits.
    pub(super) fn trailers(&self) -> Trailers {
        match (&self.below, &self.head) {
            (Some(lease), _) => lease.message.trailers.clone(),
            (None, Some(head)) => Message::parse(&head.message).trailers,
            (None, None) => Trailers::new(),
        }
    }

    /// A live lease of another attempt, with the seconds left.
    pub(super) fn foreign_lease(&self) -> Option<(&Lease, u64)> {
        let lease = self.lease().filter(|_| !self.held)?;
        match lease.liveness(clock::wall_seconds()) {
            Liveness::Live { left } => Some((lease, left)),
            Liveness::Expired { .. } => None,
        }
    }

    /// The parent of the new commit: HEAD, or with a remote the checkout's own commits on top of
    /// it.
    pub(super) fn parent(&self, repo: &Repo, authority: &Authority) -> Option<CommitId> {
        let head = self.head.as_ref()?.id;
        let own = self.follower(authority).and_then(|place| repo.checked_out(place));
        Some(own.filter(|own| repo.descends(*own, head)).unwrap_or(head))
    }

    /// Advice on the checkout's commits that the remote did not have, and that were pushed with the
    /// new one.
    pub(super) fn pushed_along(
        &self,
        repo: &Repo,
        authority: &Authority,
        parent: Option<CommitId>,
    ) -> Option<Advice> {
        let (remote, head, parent) = (authority.source()?, self.head.as_ref()?, parent?);
        (parent != head.id).then(|| Advice::PushedAlong {
            remote: remote.clone(),
            branch: self.branch.clone(),
            from: head.id,
            to: parent,
            subject: repo
                .commit(parent)
                .map_or_else(|_| String::new(), |stored| Message::parse(&stored.message).subject.to_string()),
        })
    }

    /// Advice on what a person had staged, and what is part of the commit. A command stages its result.
    pub(super) fn staged_along(
        &self,
        repo: &Repo,
        parent: Option<CommitId>,
        tree: CommitId,
    ) -> Option<Advice> {
        let before = repo.commit(parent.filter(|_| !self.inside && !self.held)?).ok()?.tree;
        let staged = repo.differences(before, tree).ok().filter(|staged| !staged.is_empty())?;
        Some(Advice::StagedAlong { paths: staged.into_iter().map(|one| one.path.to_string()).collect() })
    }

    /// Advice on a checkout of the branch that lacks its newest commits.
    pub(super) fn left_behind(&self) -> Option<Advice> {
        let why = format!("it lacks commits of {}; `git pull` brings them", self.branch);
        self.behind.then_some(Advice::NotFollowed { why })
    }

    /// Fast-forwards the checkout to the commit that was made from it. With a remote the checkout
    /// does not follow the branch by itself.
    pub(super) fn follow(
        &self,
        repo: &Repo,
        authority: &Authority,
        parent: Option<CommitId>,
        new: CommitId,
    ) -> Option<Advice> {
        let place = self.follower(authority)?;
        let error = repo.advance(place, parent?, new, "aynig: follow the state").err()?;
        Some(Advice::NotFollowed { why: error_chain(&error) })
    }

    /// The checkout that the commit is made from, if it has to be moved along.
    fn follower(&self, authority: &Authority) -> Option<&Workplace> {
        authority.follower(self.index.as_deref())
    }

    /// Describes HEAD, as part of a sentence.
    pub(super) fn head_words(&self) -> String {
        head_words(self.head.as_ref().map(|head| head.id), &self.meaning, self.below.as_ref())
    }

    fn refusal(&self, run: &BString) -> Error {
        let holder = self.head_words();
        let message = format!("attempt {run} no longer holds {}: {holder}; nothing was changed", self.branch);
        Error::new(Kind::Conflict, message)
            .hint(format!("`--branch {}` says that you mean it nevertheless", shell_quote(&self.branch)))
    }

    pub(super) fn tree(&self, repo: &Repo) -> Result<CommitId, Error> {
        match (&self.index, &self.head) {
            (Some(checkout), _) => {
                repo.index_tree(checkout).map_err(|error| match repo.conflicts(&checkout.path) {
                    Ok(paths) if !paths.is_empty() => Error::setup(format!(
                        "could not take the index of {} as the tree of the commit: it has conflicts in {}",
                        checkout.path.display(),
                        paths.join(", ")
                    ))
                    .hint("resolve them and `git add` the files, or undo with `git merge --abort` (or what else is under way)"),
                    Ok(_) | Err(_) => {
                        let trying = format!("take the index of {} as the tree of the commit", checkout.path.display());
                        let because = Error::because(&trying, &error);
                        let lock = checkout.git_dir.join("index.lock");
                        if lock.exists() { because.hint(unlock(&lock)) } else { because }
                    }
                })
            }
            (None, Some(head)) => Ok(head.tree),
            (None, None) => repo.empty_tree().map_err(|error| Error::because("write the empty tree", &error)),
        }
    }
}

/// Refuses a branch that is for work, not for requests (CONTRACT 11.15), and to a step the driver of a run (20.32).
pub(in crate::ops) fn check_no_workspace(repo: &Repo, branch: &BranchName) -> Result<(), Error> {
    let (prefix, drivers) = settings::prefixes(repo)?;
    if is_below(&drivers, branch) {
        persons_only(&format!("moving {branch}, the driver of a run,"))?;
    }
    if repo.unlisted(branch) == Some(Unlisted::Reserved) {
        let message = format!("branch {branch} {}; nothing was changed", Unlisted::Reserved.why());
        return Err(Error::setup(message).hint(Unlisted::Reserved.next()));
    }
    if !is_below(&prefix, branch) {
        return Ok(());
    }
    let exclusion = Exclusion::BelowWorkPrefix { prefix, of_run: is_of_run(branch) };
    Err(Error::setup(format!("{branch} {exclusion}; nothing was changed")))
}

/// The run that a branch drives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driven {
    /// Its slug.
    pub slug: String,
    /// The alias of the node of a graph; `None` for the driver of a flow.
    pub node: Option<String>,
}

/// The run that a branch drives, whose newest commit is `head`.
pub(in crate::ops) fn driven_by(
    repo: &Repo,
    branch: &BranchName,
    head: Option<CommitId>,
) -> Result<Option<Driven>, Error> {
    let prefix = settings::workspace(repo)?.run_prefix;
    let name = branch.to_string();
    let parts = name.strip_prefix(&prefix).and_then(|rest| rest.split_once('/'));
    let (Some(parts), Some(head)) = (parts, head) else { return Ok(None) };
    let run = run_of(repo, head);
    let run = run.map_err(|error| Error::because(&format!("read the history of {branch}"), &error))?;
    Ok(run
        .map(|_| parts)
        .map(|(slug, of)| Driven { slug: slug.to_owned(), node: (of != FLOW).then(|| of.to_owned()) }))
}

/// Refuses the driver of a run, which would be taken out of its run (CONTRACT 20.31).
pub(in crate::ops) fn check_no_driver(
    repo: &Repo,
    branch: &BranchName,
    head: Option<CommitId>,
) -> Result<(), Error> {
    let Some(Driven { slug, node }) = driven_by(repo, branch, head)? else { return Ok(()) };
    let message = format!("{branch} drives run {slug}, and its states follow from that; nothing was changed");
    if let Some(node) = node {
        return Err(Error::failed(message)
            .hint(format!("`aynig orch show {slug}` shows what {node} waits for"))
            .hint("`aynig orch approvals` lists the requests, and the lines that answer them".to_owned())
            .hint(format!(
                "`aynig orch node stop|start|interrupt {slug} {node}` steers the node, `aynig orch run \
                 pause|resume|stop {slug}` the run"
            )));
    }
    Err(Error::failed(message)
        .hint(format!("`aynig flow show {slug}` shows what it waits for"))
        .hint(format!("`aynig flow approve {slug}` or `aynig flow reject {slug}` answers a gate"))
        .hint(format!(
            "`aynig flow stop {slug}` ends the run, `aynig flow pause {slug}` pauses it, `aynig flow resume {slug}` \
             carries it on"
        )))
}

/// Describes a HEAD, as part of a sentence.
pub(super) fn head_words(head: Option<CommitId>, meaning: &Head, below: Option<&Lease>) -> String {
    let Some(head) = head else { return "it does not exist any more".to_owned() };
    let at = format!("HEAD is {}", head.short());
    match (meaning, below) {
        (Head::Working(lease), _) => format!("{at}, a lease of {}", lease_words(lease)),
        (Head::Ready(event), _) => format!("{at}, which declares the state {}", event.state),
        (Head::Unmanaged | Head::Invalid(_), Some(lease)) => {
            format!("{at}, on top of a lease of {}", lease_words(lease))
        }
        (Head::Unmanaged | Head::Invalid(_), None) => format!("{at}, which declares no state"),
    }
}

/// Whether a branch without a value is merely unborn, and not a symbolic ref.
fn unborn(repo: &Repo, branch: &BranchName) -> bool {
    repo.branches().is_ok_and(|tips| tips.iter().all(|tip| tip.branch != *branch))
}

/// Whether a checkout has the files of its branch at a remote, so that its index says what is to change there.
fn is_on_top(repo: &Repo, authority: &Authority, here: &Workplace, head: &Stored) -> bool {
    // Without a remote the checkout is on the branch itself.
    let Some(place) = authority.follower(Some(here)) else { return true };
    let Some(own) = repo.checked_out(place) else { return false };
    repo.descends(own, head.id) || repo.commit(own).is_ok_and(|own| own.tree == head.tree)
}

/// Whether the index of a checkout differs from its HEAD, or cannot be compared.
fn has_staged(repo: &Repo, here: &Checkout) -> bool {
    let own = repo.checked_out(here).and_then(|own| repo.commit(own).ok());
    own.is_none_or(|own| !repo.index_tree(here).is_ok_and(|tree| tree == own.tree))
}

/// Refuses staged files that were made on top of an older commit than the branch has.
fn stale(branch: &BranchName, head: CommitId, authority: &Authority) -> Error {
    let remote = authority.source().map(ToString::to_string).unwrap_or_default();
    let message = format!(
        "this checkout lacks {} of {branch} at {remote}, and has staged files, which would undo it; nothing was changed",
        head.short()
    );
    Error::new(Kind::Conflict, message)
        .hint("`git stash && git pull && git stash pop --index`, then again")
        .hint(format!("or name the branch, {}: then what is staged here is left out", shell_quote(branch)))
}

/// Whether a checkout is on `branch`, or on a local branch that follows it on the remote.
fn follows(repo: &Repo, authority: &Authority, here: &Checkout, branch: &BranchName) -> bool {
    match (&here.branch, authority.source()) {
        (None, _) => false,
        (Some(local), None) => local == branch,
        (Some(local), Some(remote)) => repo.upstream_on(local, remote).as_ref() == Some(branch),
    }
}
