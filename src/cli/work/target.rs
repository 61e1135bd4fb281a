//! Which branch is meant, and a state commit by hand on top of it: what `set-state` and `set-working` share.
//!
//! Invariant: a commit made here has the branch's HEAD as its only parent and lands by the same compare-and-swap as
//! the runner's own, expecting the very HEAD that was judged. Inside a command the branch is the command's, and it moves
//! only while the attempt holds it: a straggler of an attempt that is over cannot write over its successor
//! (contract §5, "Working Lease"). What the commit says is left to `contract::manual`.

use std::ffi::OsStr;

use bstr::BString;

use aynig::clock;
use aynig::contract::head::Head;
use aynig::contract::headlog::Origin;
use aynig::contract::ids::{BranchName, CommitId};
use aynig::contract::lease::{Lease, Liveness};
use aynig::contract::message::{Draft, Message};
use aynig::contract::trailers::Trailers;
use aynig::git::objects::commits::{NewCommit, Stored};
use aynig::git::remote::Move;
use aynig::git::{Checkout, Repo, Swap, Unconcluded};
use aynig::ops::missing::{Purpose, missing};
use aynig::ops::outer::{OuterCommand, same_place};
use aynig::ops::settings;
use aynig::ops::target::{branch_name, current_branch, head_of};
use aynig::runner::attempt::files;
use aynig::runner::attempt::ground::{Ground, named};
use aynig::runner::authority::Authority;
use aynig::runner::options::Trust;
use aynig::runner::survey::trust;
use aynig::runner::{error_chain, shell_quote};

use crate::cli::args::CommitOptions;
use crate::cli::error::{CommandError, Kind, unlock};
use crate::cli::ui;

/// How often an attempt that holds the branch tries again when its own runner renewed the lease in between.
const TRIES: u32 = 10;

/// A branch that a commit is to be put on, as it was when it was looked at.
#[derive(Debug)]
pub(crate) struct Target {
    /// The branch.
    pub(crate) branch: BranchName,
    /// Its HEAD; none on an unborn branch.
    pub(crate) head: Option<Stored>,
    /// Whether the surrounding command's branch was taken because no other was named.
    pub(crate) inside: bool,
    /// What HEAD means.
    pub(crate) meaning: Head,
    /// Where HEAD declares no state: the nearest commit below that does, if that is a lease.
    below: Option<Lease>,
    /// Whether HEAD is of the attempt we belong to.
    held: bool,
    /// The checkout whose index is the new tree; else the tree stays HEAD's.
    index: Option<Checkout>,
}

impl Target {
    fn look(repo: &Repo, authority: &Authority, named: Option<&OsStr>) -> Result<Self, CommandError> {
        let around = OuterCommand::of(repo)?;
        let inside = around.as_ref().filter(|_| named.is_none());
        let branch = match (named, inside) {
            (Some(named), _) => branch_name(named)?,
            (None, Some(inside)) => inside.branch.clone(),
            (None, None) => current_branch(repo, authority)?,
        };
        let here = repo.checkout();
        // A remote's branch that was named is moved as it stands there: what lies in this checkout, committed or staged, is this
        // person's until they push it.
        let attached = here
            .as_ref()
            .filter(|_| named.is_none() || authority.attaches())
            .filter(|here| follows(repo, authority, here, &branch))
            .cloned();
        let head = match head_of(repo, authority, &branch)? {
            Some(id) => Some(repo.commit(id).map_err(|error| {
                CommandError::because(&format!("read the newest commit of {branch}"), &error)
            })?),
            None if attached.is_some() && inside.is_none() && unborn(repo, &branch) => None,
            None => return Err(missing(repo, authority, &branch, Purpose::Write)),
        };
        let meaning = head.as_ref().map_or(Head::Unmanaged, |head| Head::read(&head.facts()));
        let below = match (&head, &meaning) {
            (Some(head), Head::Unmanaged | Head::Invalid(_)) => lease_below(repo, head),
            _ => None,
        };
        let index = attached.or_else(|| {
            let (inside, here) = (inside?, here?);
            let own = inside.worktree.as_ref().is_some_and(|worktree| same_place(worktree, &here.path));
            own.then_some(here)
        });
        let mut target = Self { branch, head, inside: inside.is_some(), meaning, below, held: false, index };
        let ours = around.as_ref().and_then(|around| around.run.as_ref());
        target.held = ours.is_some() && target.lease().map(|lease| &lease.run_id) == ours;
        if let (Some(inside), false) = (inside, target.held)
            && let Some(run) = &inside.run
        {
            return Err(target.refusal(run));
        }
        Ok(target)
    }

    /// The lease the branch is under: HEAD, or the one that commits without a state stand on.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match &self.meaning {
            Head::Working(lease) => Some(lease),
            Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => self.below.as_ref(),
        }
    }

    /// The trailers a new commit may take over: HEAD's, or those of the lease below a command's own commits.
    pub(crate) fn trailers(&self) -> Trailers {
        match (&self.below, &self.head) {
            (Some(lease), _) => lease.message.trailers.clone(),
            (None, Some(head)) => Message::parse(&head.message).trailers,
            (None, None) => Trailers::new(),
        }
    }

    /// Somebody else's lease that is still alive.
    pub(crate) fn foreign_lease(&self) -> Option<(&Lease, u64)> {
        let lease = self.lease().filter(|_| !self.held)?;
        match lease.liveness(clock::wall_seconds()) {
            Liveness::Live { left } => Some((lease, left)),
            Liveness::Expired { .. } => None,
        }
    }

    /// What HEAD declared before, in one word.
    pub(crate) fn previous(&self) -> Option<String> {
        self.meaning.state().map(|state| state.to_string())
    }

    /// What the new commit lies on: HEAD; with a remote, the checkout's own commits on top of it.
    fn parent(&self, repo: &Repo, authority: &Authority) -> Option<CommitId> {
        let head = self.head.as_ref()?.id;
        if authority.attaches() || self.index.is_none() {
            return Some(head);
        }
        let own = repo.checkout().and_then(|here| repo.checked_out(&here));
        Some(own.filter(|own| repo.descends(*own, head)).unwrap_or(head))
    }

    /// Commits of the checkout that the remote did not have are pushed with the one made on them.
    fn tell_what_went_along(&self, repo: &Repo, authority: &Authority, parent: Option<CommitId>) {
        let (Some(remote), Some(head), Some(parent)) = (authority.source(), &self.head, parent) else {
            return;
        };
        if parent != head.id {
            let subject = repo
                .commit(parent)
                .map_or_else(|_| String::new(), |stored| Message::parse(&stored.message).subject.to_string());
            ui::narrate(&ui::sanitize(&format!(
                "with it went what {remote} did not have of {}: {}..{} ({subject})",
                self.branch,
                head.id.short(),
                parent.short()
            )));
        }
    }

    /// With a remote the checkout is not the branch: it is taken along, if the commit was made from it.
    fn follow(&self, repo: &Repo, authority: &Authority, parent: Option<CommitId>, new: CommitId) {
        let (Some(parent), Some(here), Some(_)) = (parent, repo.checkout(), &self.index) else { return };
        if authority.attaches() {
            return;
        }
        if let Err(error) = repo.advance(&here, parent, new, "aynig: follow the state") {
            ui::narrate(&format!("warning: this checkout did not follow: {}", error_chain(&error)));
        }
    }

    fn refusal(&self, run: &BString) -> CommandError {
        let holder = head_words(self.head.as_ref().map(|head| head.id), &self.meaning, self.below.as_ref());
        let message = format!("attempt {run} no longer holds {}: {holder}; nothing was changed", self.branch);
        CommandError::new(Kind::Conflict, message).hint(format!(
            "`--branch {}` says that you mean it nevertheless",
            shell_quote(&self.branch.to_string())
        ))
    }

    /// The attempt that we belong to and the log of its checkout, if it is of this host and holds the branch.
    fn ground<'r>(&self, repo: &'r Repo) -> Option<Ground<'r>> {
        let attempt = self.lease().filter(|_| self.held)?.attempt()?;
        let record = files::find(repo, attempt)?;
        let git_dir = match &self.index {
            Some(checkout) => Some(checkout.git_dir.clone()),
            None => {
                let all = repo.linked_worktrees().ok()?;
                let own = all.into_iter().find(|one| one.mark().is_some_and(|mark| mark.attempt == attempt));
                own.map(|own| own.checkout.git_dir.clone())
            }
        };
        Some(Ground::new(repo, attempt, CommitId::parse_hex(&record.lease)?, git_dir.as_deref()))
    }

    /// That our signature vouches for no commit that a runner would refuse, unless the attempt we belong to has made it
    /// (CONTRACT 13.10).
    pub(crate) fn check_signed(
        &self,
        repo: &Repo,
        options: &CommitOptions,
        commit: CommitId,
    ) -> Result<(), CommandError> {
        if options.accept_unsigned || !repo.signs().unwrap_or(true) {
            return Ok(());
        }
        let trust = Trust { require_signed: settings::require_signed(repo)?, ..Trust::default() };
        let Some(why) = trust::refused(repo, &trust, commit) else { return Ok(()) };
        if self.ground(repo).is_some_and(|ground| ground.origin(commit) == Origin::Here) {
            return Ok(());
        }
        let message = format!(
            "nothing was changed, as the signature would vouch for what is below it: {}: {why}",
            self.branch
        );
        Err(CommandError::setup(message)
            .hint(format!("look at what it brings: `git show {}`", commit.short()))
            .hint("if you vouch for its files and its message, the same again with `--accept-unsigned`"))
    }

    /// Somebody else's commit on the branch of the attempt we belong to, which `tree`, the index of its worktree, would undo.
    fn stranger(&self, repo: &Repo, tree: CommitId, parent: Option<CommitId>) -> Option<CommitId> {
        let head = self.head.as_ref()?.id;
        self.index.as_ref()?;
        let ground = self.ground(repo)?;
        let require_signed = settings::require_signed(repo).unwrap_or(true);
        let trust = Trust { require_signed, ..Trust::default() };
        match ground.origin(head) {
            Origin::Elsewhere(commit) if parent == Some(head) && !ground.is_in(&trust, commit, tree) => {
                Some(commit)
            }
            Origin::Elsewhere(_) | Origin::Here | Origin::Unknown => None,
        }
    }

    /// That nothing is under way in the checkout whose index is taken: the commit would drop its other parents.
    fn check_concluded(&self) -> Result<(), CommandError> {
        let Some(checkout) = &self.index else { return Ok(()) };
        let Some(Unconcluded { what, conclude, abort, .. }) = Repo::unconcluded(&checkout.git_dir) else {
            return Ok(());
        };
        let message = format!("{what} is not concluded in {}; nothing was changed", checkout.path.display());
        Err(CommandError::setup(message).hint(format!(
            "conclude it with `{conclude}`, or take it back with `{abort}`; then set the state"
        )))
    }

    fn overtaken(&self, repo: &Repo, stranger: CommitId) -> CommandError {
        CommandError::failed(format!(
            "somebody pushed {} onto {} meanwhile; nothing was changed",
            named(repo, stranger),
            self.branch
        ))
        .hint(
            "end this command: its runner saves the work, and sets the branch to `stalled` with this reason",
        )
    }

    fn tree(&self, repo: &Repo) -> Result<CommitId, CommandError> {
        match (&self.index, &self.head) {
            (Some(checkout), _) => {
                repo.index_tree(checkout).map_err(|error| match repo.conflicts(&checkout.path) {
                    Ok(paths) if !paths.is_empty() => CommandError::setup(format!(
                        "could not take the index of {} as the tree of the commit: it has conflicts in {}",
                        checkout.path.display(),
                        paths.join(", ")
                    ))
                    .hint("resolve them and `git add` the files, or undo with `git merge --abort` (or what else is under way)"),
                    Ok(_) | Err(_) => {
                        let trying = format!("take the index of {} as the tree of the commit", checkout.path.display());
                        let because = CommandError::because(&trying, &error);
                        let lock = checkout.git_dir.join("index.lock");
                        if lock.exists() { because.hint(unlock(&lock)) } else { because }
                    }
                })
            }
            (None, Some(head)) => Ok(head.tree),
            (None, None) => repo.empty_tree().map_err(|error| CommandError::because("write the empty tree", &error)),
        }
    }
}

/// A commit that has landed.
#[derive(Debug)]
pub(crate) struct Written {
    /// The branch as it was before.
    pub(crate) before: Target,
    /// The commit, now its HEAD.
    pub(crate) commit: Stored,
}

/// Puts the commit that `compose` drafts on top of the branch that is meant.
///
/// If the branch moved meanwhile that is an error, except for the attempt that holds it: its runner renews the lease
/// at any moment, which is no reason to lose the state it wants to declare.
pub(crate) fn write(
    repo: &Repo,
    authority: &Authority,
    options: &CommitOptions,
    log: &str,
    compose: impl Fn(&Target) -> Result<Draft, CommandError>,
) -> Result<Written, CommandError> {
    let mut tries = 0;
    loop {
        let before = Target::look(repo, authority, options.branch.as_deref())?;
        let message = compose(&before)?.encode().map_err(|error| {
            CommandError::usage(format!(
                "could not set the state of {}: {}",
                before.branch,
                error_chain(&error)
            ))
        })?;
        let trying = format!("write a commit on {}", before.branch);
        let failed = |error: &dyn std::error::Error| CommandError::because(&trying, error);
        let expected = before.head.as_ref().map(|head| head.id);
        let tree = before.tree(repo)?;
        before.check_concluded()?;
        let parent = before.parent(repo, authority);
        if let Some(stranger) = before.stranger(repo, tree, parent) {
            return Err(before.overtaken(repo, stranger));
        }
        if let Some(parent) = parent {
            before.check_signed(repo, options, parent)?;
        }
        let parents = parent.as_slice();
        // The holder says so, as a server may let nobody else move the branch.
        let attempt =
            before.lease().filter(|_| before.held && !authority.attaches()).and_then(Lease::attempt);
        let new = repo
            .write_commit(&NewCommit { tree, parents, message: &message, attempt })
            .map_err(|e| failed(&e))?;
        let swap = match expected {
            Some(expected) => {
                let wanted = Move { branch: before.branch.clone(), expected, new, within: None };
                authority.swap(repo, wanted, log)
            }
            None => authority.create(repo, &before.branch, new, log),
        };
        tries += 1;
        match swap? {
            Swap::Won => {
                before.tell_what_went_along(repo, authority, parent);
                before.follow(repo, authority, parent, new);
                let commit = repo.commit(new).map_err(|error| failed(&error))?;
                return Ok(Written { before, commit });
            }
            Swap::Lost { .. } if before.held && tries < TRIES => {}
            Swap::Lost { actual } => return Err(lost(repo, &before.branch, actual)),
        }
    }
}

/// The branch moved between our look and our swap.
fn lost(repo: &Repo, branch: &BranchName, actual: Option<CommitId>) -> CommandError {
    let now = actual.and_then(|id| repo.commit(id).ok());
    let meaning = now.as_ref().map_or(Head::Unmanaged, |now| Head::read(&now.facts()));
    let found = head_words(actual, &meaning, None);
    let message =
        format!("{branch} moved while its next commit was being written: {found}; nothing was changed");
    CommandError::new(Kind::Conflict, message).hint(format!(
        "look with `aynig status --branch {}`, then try again",
        shell_quote(&branch.to_string())
    ))
}

/// What a HEAD is, as part of a sentence.
fn head_words(head: Option<CommitId>, meaning: &Head, below: Option<&Lease>) -> String {
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

/// Who holds a lease: runner, attempt and end.
pub(crate) fn lease_words(lease: &Lease) -> String {
    let end = clock::format_utc(lease.expires_at());
    format!("{} (attempt {}, until {end})", runner_words(lease), lease.run_id)
}

/// The runner a lease names.
pub(crate) fn runner_words(lease: &Lease) -> String {
    if lease.runner.is_empty() { "an unnamed runner".to_owned() } else { lease.runner.to_string() }
}

/// The warning before somebody's work is made worthless.
pub(crate) fn warn_of_foreign_lease(repo: &Repo, authority: &Authority, target: &Target) {
    if let Some((lease, left)) = target.foreign_lease() {
        let then = if is_by_hand(repo, authority, lease) {
            "it was taken by hand, so no runner notices; tell whoever works under it"
        } else {
            "its runner will notice, stop its command and save the work"
        };
        warn(&format!(
            "{} was leased to {} for another {}; {then}",
            target.branch,
            lease_words(lease),
            clock::span(left)
        ));
    }
}

/// Whether a lease is known to be of no runner: one in our name on a branch of this repository would have left its record here. Of a
/// remote's branch another clone may have it.
fn is_by_hand(repo: &Repo, authority: &Authority, lease: &Lease) -> bool {
    let ours = authority.source().is_none() && lease.runner == repo.runner_id();
    ours && lease.attempt().is_some_and(|id| files::find(repo, id).is_none())
}

/// Tells what a person should know about what was done all the same.
pub(crate) fn warn(text: &str) {
    ui::narrate(&format!("{} {}", ui::styled(ui::CARE, "warning:"), ui::sanitize(text)));
}

/// The nearest commit below `head` that declares a state, if it is a lease.
fn lease_below(repo: &Repo, head: &Stored) -> Option<Lease> {
    let below = repo.history(*head.parents.first()?).map_while(Result::ok);
    match below.map(|stored| Head::read(&stored.facts())).find(|head| head.state().is_some())? {
        Head::Working(lease) => Some(lease),
        Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
    }
}

/// Whether a branch without a value is merely unborn, and not a symbolic ref.
fn unborn(repo: &Repo, branch: &BranchName) -> bool {
    repo.branches().is_ok_and(|tips| tips.iter().all(|tip| tip.branch != *branch))
}

/// Whether a checkout is on `branch`, or on a local branch that follows it on the remote.
fn follows(repo: &Repo, authority: &Authority, here: &Checkout, branch: &BranchName) -> bool {
    match (&here.branch, authority.source()) {
        (None, _) => false,
        (Some(local), None) => local == branch,
        (Some(local), Some(remote)) => repo.upstream_on(local, remote).as_ref() == Some(branch),
    }
}
