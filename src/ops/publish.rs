//! Publishing for front ends: which workspace, which remote, and what is not published.

use std::ffi::OsStr;

use crate::contract::ids::{BranchName, RemoteName};
use crate::contract::layout::ARCHIVE;
use crate::git::Repo;
use crate::ledger::{Place, Tip};
use crate::model::ids::RunId;
use crate::model::state::State;
use crate::model::workspace::WorkspaceStatus;
pub use crate::publish::Published;
use crate::publish::Request;
use crate::workspace::Workspaces;
use crate::workspace::context::Context;
use crate::workspace::refusal::Why;

use super::error::{Error, Kind};
use super::inside::persons_only;
use super::{runs, settings, work, workspace};

/// Variables of a command of a runner, and the beginning of those of a step or a turn.
const OF_COMMANDS: (&str, &str) = ("AYNIG_BRANCH", "AYNIG_ORCH_");

/// The workspace that a run's flow works in.
const FLOW: &str = "flow";

/// A request.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The run, or whatever names a workspace.
    pub run: &'a OsStr,
    /// The name of the workspace.
    pub node: Option<&'a str>,
    /// The branch to merge into.
    pub base: Option<BranchName>,
    /// The branch to publish as.
    pub branch: Option<BranchName>,
    /// Whether all changes become one commit.
    pub squash: bool,
    /// Whether a new proposal is a draft.
    pub draft: bool,
    /// Whether work is published that did not succeed.
    pub unsuccessful: bool,
    /// The remote.
    pub remote: Option<&'a RemoteName>,
}

/// Refuses a call by a command, a step or a turn: people publish.
pub fn check_caller() -> Result<(), Error> {
    let (branch, others) = OF_COMMANDS;
    let is_theirs = |name: &OsStr| name == branch || name.to_string_lossy().starts_with(others);
    let mut set = std::env::vars_os().filter(|(name, value)| !value.is_empty() && is_theirs(name));
    let Some((name, _)) = set.next() else { return persons_only("publishing") };
    let name = name.to_string_lossy();
    Err(Error::failed(format!(
        "a command, a step or a turn publishes nothing ({name} is set); nothing was changed"
    ))
    .hint("commit the work, and let a person type `aynig publish`"))
}

/// Publishes a workspace. `fetch` fetches ledgers.
pub fn publish(
    repo: &Repo,
    workspaces: &Workspaces<'_>,
    asked: &Asked<'_>,
    fetch: impl Fn() -> Result<(), Error>,
) -> Result<Published, Error> {
    let context = find(workspaces, asked, &fetch)?;
    let mut state = state_of(repo, &context);
    if decider(repo, state.as_ref()).is_some() {
        fetch()?;
        state = state_of(repo, &context);
    }
    let obstacle = state.as_ref().and_then(work::obstacle);
    if let (Some(why), false) = (&obstacle, asked.unsuccessful) {
        let slug = &context.slug;
        let anyway = format!("or publish the work as it is: `aynig publish {slug} --unsuccessful`");
        return Err(work::unsuccessful(why, slug, "published").hint(anyway));
    }
    let live = state.as_ref().and_then(|state| at_work(repo, state, &context));
    if let (Some(why), false) = (&live, asked.unsuccessful) {
        return Err(Error::failed(format!("{why}; nothing was published"))
            .hint("publish again when it has ended: `aynig status` shows who is at work")
            .hint(format!("or publish the work as it is: `aynig publish {} --unsuccessful`", context.slug)));
    }
    let remote = remote(repo, asked.remote, state.as_ref())?;
    repo.namespace().map_err(|error| Error::setup(format!("{error}; nothing was changed")))?;
    let request = Request {
        remote,
        base: asked.base.clone(),
        branch: asked.branch.clone(),
        squash: asked.squash,
        draft: asked.draft,
        forge: settings::forge(repo)?,
        label: state.as_ref().map(|state| state.run.label.clone()).unwrap_or_default(),
    };
    let mut published = crate::publish::publish(workspaces, &context, &request)?;
    let handle = context.handle();
    let about = obstacle.or(live).or_else(|| work::open_step(state.as_ref()?, &handle, "published"));
    let unchanged = (published.commit.is_some() && published.head == context.base())
        .then(|| format!("{handle} has no change: its newest commit is its base"));
    let dirty = published.is_dirty.then(|| {
        format!("{handle} has changes that are not committed, and not published: `aynig workspace snapshot {handle}` commits them")
    });
    let by_hand = state.as_ref().and_then(|state| work::by_hand(repo, state, published.head));
    published.notes.splice(0..0, by_hand.into_iter().chain(about).chain(unchanged).chain(dirty));
    Ok(published)
}

/// The words for commits of a step or turn that is under way.
fn at_work(repo: &Repo, state: &State, context: &Context) -> Option<String> {
    let its = state.workspaces.values().find(|one| one.name.as_str() == context.name)?;
    let branch = BranchName::new(context.branch_name.as_bytes()).ok()?;
    let now = repo.branch_head(&branch).ok()??;
    let is_new = now.to_string() != its.head_sha && runs::live::is_at_work(repo, state, &context.name);
    is_new.then(|| {
        let handle = context.handle();
        format!("a step or turn of {handle} is under way and has made commits that no policy has judged")
    })
}

/// The workspace that is meant: of several of a run that of its flow, unless one is named.
fn find(
    workspaces: &Workspaces<'_>,
    asked: &Asked<'_>,
    fetch: impl Fn() -> Result<(), Error>,
) -> Result<Context, Error> {
    let below = |name: &str| {
        let mut named = asked.run.to_owned();
        named.push("/");
        named.push(name);
        named
    };
    let only = if asked.node.is_none() { only_one(workspaces.repo, asked.run)? } else { None };
    let named = asked.node.or(only.as_deref()).map_or_else(|| asked.run.to_owned(), below);
    let error = match workspaces.find(&named) {
        Ok(context) => return Ok(context),
        Err(refusal) if refusal.why == Why::NotFound => {
            match workspace::find_or_take(workspaces, &named, fetch) {
                Ok(context) => return Ok(context),
                Err(error) => error,
            }
        }
        Err(refusal) => Error::from(refusal),
    };
    let is_open = asked.node.is_none() && matches!(error.kind, Kind::Usage | Kind::NotFound);
    if !is_open {
        return Err(error);
    }
    // The run may be known since the fetch.
    if only.is_none()
        && let Some(only) = only_one(workspaces.repo, asked.run)?
    {
        return workspace::find_or_take(workspaces, &below(&only), || Ok(()));
    }
    let flow = workspace::find_or_take(workspaces, &below(FLOW), || Ok(()));
    flow.map_err(|_| match error.kind {
        Kind::Usage => error.hint("`--node NAME` says which"),
        _ if workspaces.known_to_a_run(&below(FLOW)).is_some() => error,
        _ => {
            let named = asked.run.to_string_lossy();
            if let Some(removed) = removed(workspaces.repo, &named) {
                return removed;
            }
            if runs::find(workspaces.repo, &named).is_ok() {
                return Error::new(error.kind, format!("run {named} has no work yet; nothing was published"))
                    .hint("its first step or turn makes a workspace");
            }
            let unknown = Error::new(error.kind, format!("no run or workspace is named {named}"))
                .hint("`aynig flow list` lists the runs of flows, `aynig orch run list` all");
            error.hints.into_iter().fold(unknown, Error::hint)
        }
    })
}

/// The workspace of a run that is meant if none is named, as its ledger has them, wherever their worktrees are: the only
/// one, or that of the flow. `None`: no run is named like that, or it has none.
fn only_one(repo: &Repo, run: &OsStr) -> Result<Option<String>, Error> {
    let Some(run) = run.to_str().and_then(|text| runs::find(repo, text).ok()) else { return Ok(None) };
    let Some(head) = runs::head(repo, run)? else { return Ok(None) };
    let state = Tip::read_workspaces(repo, run, head)?.state;
    let there = state.workspaces.values().filter(|one| one.status == WorkspaceStatus::Ready);
    let names: Vec<&str> = there.map(|one| one.name.as_str()).collect();
    match names[..] {
        [] => Ok(None),
        [only] => Ok(Some(only.to_owned())),
        _ if names.contains(&FLOW) => Ok(Some(FLOW.to_owned())),
        _ => {
            let slug = &state.run.slug;
            let handles: Vec<String> = names.iter().map(|name| format!("{slug}/{name}")).collect();
            Err(Error::usage(format!("{slug} can mean {}", handles.join(" or ")))
                .hint("`--node NAME` says which"))
        }
    }
}

/// The error for a run whose workspace was removed. Its work is archived on the host that did it.
fn removed(repo: &Repo, named: &str) -> Option<Error> {
    let run = runs::find(repo, named).ok()?;
    let state = Tip::read_workspaces(repo, run, runs::head(repo, run).ok()??).ok()?.state;
    let gone = state.workspaces.values().find(|one| one.status == WorkspaceStatus::Removed)?;
    let archive = format!("{ARCHIVE}{run}/{}", gone.name);
    let error = Error::failed(format!("the workspace of run {named} was removed; nothing was published"));
    Some(match repo.read_ref(archive.as_str().into()) {
        Ok(Some(_)) => error.hint(format!("its work is here: `git push REMOTE {archive}:refs/heads/NAME`")),
        Ok(None) | Err(_) => error.hint(format!("its work is {archive} on the host that removed it")),
    })
}

/// The state of the run, as it is known here.
fn state_of(repo: &Repo, context: &Context) -> Option<State> {
    let run = RunId::parse(&context.run_id)?;
    let head = runs::head(repo, run).ok()??;
    Some(Tip::read(repo, run, head).ok()?.state)
}

/// The remote that decides the run.
fn decider(repo: &Repo, state: Option<&State>) -> Option<RemoteName> {
    let run = &state?.run;
    match Place::of(repo, run.id, &run.decided_by).ok()? {
        Place::Remote(remote) => Some(remote),
        Place::Here => None,
    }
}

/// The remote to publish on.
fn remote(repo: &Repo, named: Option<&RemoteName>, state: Option<&State>) -> Result<RemoteName, Error> {
    if let Some(named) = named {
        return if repo.has_remote(named) {
            Ok(named.clone())
        } else {
            let message = format!("--remote names {named}, which this repository does not have");
            Err(settings::with_near(repo, named, Error::usage(message)))
        };
    }
    if let Some(remote) = decider(repo, state) {
        return Ok(remote);
    }
    if let Some(remote) = settings::remote(repo)? {
        return Ok(remote);
    }
    let names = repo.remote_names();
    let usual = names.iter().find(|name| *name == "origin").or(if let [only] = &names[..] {
        Some(only)
    } else {
        None
    });
    usual.and_then(|name| RemoteName::parse(name).ok()).ok_or_else(|| {
        if names.is_empty() {
            return Error::setup("this repository has no remote to publish on; nothing was changed")
                .hint("`git remote add origin URL` adds one");
        }
        Error::usage("none of the remotes is called origin; nothing was changed")
            .hint("name one: `--remote NAME`; `git remote -v` lists them")
    })
}
