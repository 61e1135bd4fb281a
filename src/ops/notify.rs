//! The operator's hook (`aynig.notify`), run for the states of a run and for a state set by hand.
//!
//! Invariant: the writer of a state announces it, after it is written. A run does so beside its
//! work, [`announce`] when the state is set. Inside a command a separate process does it: the
//! runner may stop the command as soon as the branch has moved.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use globset::GlobSet;

use crate::contract::environment::trailer_variables;
use crate::contract::head::{Event, Head};
use crate::contract::ids::{CommitId, RemoteName, RoleName};
use crate::contract::message::Message;
use crate::contract::trailers::Trailer;
use crate::contract::waits_for::WaitsFor;
use crate::engine::Moved;
use crate::engine::driver::Driver;
use crate::engine::graph::answers::Requested;
use crate::fsutil;
use crate::git::{Repo, Store};
use crate::model::run::{RunKind, Verdict};
use crate::runner::attempt::environment::own_environment;
use crate::runner::events::hook::{Hook, HookRunner};
use crate::runner::events::notice::Notice;
use crate::runner::events::payload::{Notification, PREFIX};
use crate::runner::events::warning::Warning;
use crate::stop::Stop;
use crate::supervise::{Watchdog, detach};
use crate::words::error_chain;

use super::app::{App, Process};
use super::approvals::{asked, short};
use super::declare::{Written, driven_by};
use super::error::Error;
use super::flows;
use super::flows::standing::Standing;
use super::outer::OuterCommand;
use super::settings;

/// The internal call that runs the hook for the payload on its standard input. [`announce`] starts
/// it inside a command.
pub const NOTIFY: &str = "__notify";

/// The warning of a process that `aynig.notify` started, at any depth. It sends no notices, since they would
/// cause further notices for ever.
const NESTED: &str = "nobody is notified of this: aynig.notify itself started this process (AYNIG_NOTICE_EVENT is set); \
                      `aynig status --all` shows how branches stand";

/// A listener for the hook's own notices, called from any thread.
type Tell = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Runs the hook for the notices of a run.
pub struct HookListener {
    /// `None` in a process that a hook started.
    hook_runner: Option<HookRunner>,
    tell: Tell,
    states: GlobSet,
    remote: Option<RemoteName>,
    role: Option<RoleName>,
}

impl HookListener {
    /// Returns the listener of a run, if there is a hook. `tell` gets the hook's own notices.
    pub fn new(
        app: &App,
        remote: Option<&RemoteName>,
        role: Option<&RoleName>,
        watchdog: &Watchdog,
        tell: Tell,
    ) -> Result<Option<Self>, Error> {
        let settings::Notify { line: Some(line), limit, states, .. } = settings::notify(&app.repo())? else {
            return Ok(None);
        };
        let hook_runner = (!has_notice()).then(|| {
            let repo = app.repo();
            let environment = environment(&repo, &app.process);
            let directory = repo.top().to_owned();
            let hook = Hook { line, limit, directory, environment, watchdog: Some(watchdog.clone()) };
            let tell = Arc::clone(&tell);
            HookRunner::new(hook, Arc::new(move |words| tell(&warning(words))))
        });
        Ok(Some(Self { hook_runner, tell, states, remote: remote.cloned(), role: role.cloned() }))
    }

    /// Queues a notice. The hook runs for it soon.
    pub fn hear(&self, store: &Store, notice: &Notice) {
        let Some(notification) = Notification::of_notice(notice, &self.states) else { return };
        let slug = notification
            .about()
            .and_then(|(branch, commit)| driven_by(&store.handle(), &branch, Some(commit)).ok().flatten())
            .filter(|driven| driven.node.is_none());
        let notification = notification.driving(slug.map(|driven| driven.slug));
        match &self.hook_runner {
            Some(hook_runner) => {
                hook_runner.send(notification.payload(
                    &store.handle(),
                    self.remote.as_ref(),
                    self.role.as_ref(),
                ));
            }
            None => (self.tell)(&warning(NESTED.to_owned())),
        }
    }

    /// Waits until the hook has run for all queued notices. Calls `long` if that takes more than a
    /// moment.
    pub fn close(self, shutdown: &Stop, long: impl FnOnce()) {
        if let Some(hook_runner) = self.hook_runner {
            hook_runner.close(shutdown, long);
        }
    }
}

fn warning(words: String) -> Notice {
    Notice::Warning { branch: None, at: None, warning: Warning::Hook { words } }
}

/// The hook's environment besides the notice: how to call aynig, and no variable of a surrounding
/// command. Those come from trailers, which anyone who can push may choose.
fn environment(repo: &Repo, process: &Process) -> Vec<(OsString, OsString)> {
    let mut variables = own_environment();
    let trigger = std::env::var("COMMIT_HASH").ok().and_then(CommitId::parse_hex);
    if let Some(stored) = trigger.and_then(|trigger| repo.commit(trigger).ok()) {
        // One at a time, so that none is left out by the size limit.
        let trailers = Message::parse(&stored.message).trailers;
        let one = |trailer: Trailer| {
            trailer_variables(&std::iter::once(trailer).collect(), |_| false, |_, _| true).set
        };
        for (name, value) in trailers.into_iter().flat_map(one) {
            let name = OsStr::new(&name);
            if variables.get(name).is_some_and(|found| found.as_bytes() == value.as_slice()) {
                variables.remove(name);
            }
        }
    }
    variables.retain(|name, _| !name.to_string_lossy().starts_with(PREFIX));
    variables.insert("AYNIG_BIN".into(), process.program.clone().into());
    variables.into_iter().collect()
}

/// Runs the hook for a state that was just set by hand, or by a command. Returns a warning if it
/// fails: the state is set nevertheless.
pub fn announce(
    repo: &Repo,
    process: &Process,
    remote: Option<&RemoteName>,
    written: &Written,
) -> Result<(), String> {
    let waits = written.waits.as_ref();
    call(repo, process, remote, |states| {
        let told = Notification::of_state(&written.branch, &written.state, waits, states)?;
        Some(told.after(written.previous.as_ref(), Some(written.commit)))
    })
}

/// The same for a state that this process gave the driver of a run.
pub(super) fn announce_run(repo: &Repo, process: &Process, moved: &Moved<'_>) -> Result<(), String> {
    let stored = repo.commit(moved.commit).map_err(|error| format!("nobody is told: {error}"))?;
    let Head::Ready(event) = Head::read(&stored.facts()) else { return Ok(()) };
    if moved.run.run.kind == RunKind::Graph {
        return announce_node(repo, process, moved, &event);
    }
    let has_ended = moved.previous.as_ref().is_none_or(|previous| *previous != event.state);
    let failed = has_ended && moved.run.run.verdict.is_some_and(|verdict| verdict != Verdict::Succeeded);
    call(repo, process, moved.remote, |states| {
        let Standing { words, next, .. } = flows::rests(repo, moved.run);
        let waits = WaitsFor::of(&event.message.trailers);
        let stands = (words.as_str(), next, failed);
        let told = Notification::of_run((moved.branch, &event.state), waits.as_ref(), states, stands)?;
        Some(told.after(moved.previous.as_ref(), Some(moved.commit)))
    })
}

/// The same for the driver of a node. Its requests were announced when they were made.
fn announce_node(repo: &Repo, process: &Process, moved: &Moved<'_>, event: &Event) -> Result<(), String> {
    let (name, slug) = (moved.branch.to_string(), &moved.run.run.slug);
    let alias = name.rsplit('/').next().unwrap_or_default();
    let node = moved.run.nodes.values().find(|node| node.alias.as_str() == alias);
    let asks = node
        .is_some_and(|node| moved.run.approvals.values().any(|one| one.node_id == node.id && one.is_open()));
    if asks {
        return Ok(());
    }
    let waits = WaitsFor::of(&event.message.trailers);
    let next = ["node start", "show"].map(|verb| match verb {
        "show" => format!("aynig orch show {slug}"),
        verb => format!("aynig orch {verb} {slug} {alias}"),
    });
    call(repo, process, moved.remote, |states| {
        let told =
            Notification::of_node((moved.branch, &event.state), waits.as_ref(), states, next.to_vec())?;
        Some(told.after(moved.previous.as_ref(), Some(moved.commit)))
    })
}

/// Runs the hook for a request of a node that this process recorded.
pub(super) fn announce_request(
    repo: &Repo,
    process: &Process,
    requested: &Requested<'_>,
) -> Result<(), String> {
    let Requested { remote, run, approval } = requested;
    let alias = run.nodes.get(&approval.node_id).map(|node| node.alias.to_string()).unwrap_or_default();
    let prefix = settings::workspace(repo).map_err(|error| error.message)?.run_prefix;
    let branch = Driver::branch_of(&prefix, &run.run.slug, &alias).map_err(|refusal| refusal.message)?;
    let asks = format!("{alias} asks to use {}", asked(&approval.tool));
    let id = short(approval.id);
    let next = ["approve ID", "deny ID --reason TEXT"];
    let next = next.map(|verb| format!("aynig orch {}", verb.replacen("ID", &id, 1)));
    call(repo, process, *remote, |_| Some(Notification::of_request(&branch, &asks, next.to_vec())))
}

/// Runs the hook, if there is one, for what `notice` makes of the states that it is called for.
fn call(
    repo: &Repo,
    process: &Process,
    remote: Option<&RemoteName>,
    notice: impl FnOnce(&GlobSet) -> Option<Notification>,
) -> Result<(), String> {
    let (line, limit, states) = match settings::notify(repo) {
        Err(error) => return Err(format!("nobody is told: {}", error.message)),
        Ok(settings::Notify { line: Some(line), limit, states, .. }) => (line, limit, states),
        Ok(_) => return Ok(()),
    };
    let Some(notification) = notice(&states) else { return Ok(()) };
    if has_notice() {
        return Err(NESTED.to_owned());
    }
    let payload = notification.payload(repo, remote, None);
    let environment = environment(repo, process);
    if matches!(OuterCommand::of(repo), Ok(None)) {
        let hook = Hook { line, limit, directory: repo.top().to_owned(), environment, watchdog: None };
        // A signal ends this process, since all other work is done.
        return hook.call(&payload, &Stop::manual()).map_err(|failure| failure.warning);
    }
    let mut args = vec![NOTIFY.into(), line.into(), limit.as_secs().to_string().into()];
    args.extend(payload.log.map(Into::into));
    let variables = environment.into_iter().chain(payload.variables).collect();
    fsutil::nameless(&payload.body)
        .and_then(|body| detach(&process.program, args, variables, repo.top(), body))
        .map_err(|error| format!("nobody is told, as no process could be started: {}", error_chain(&error)))
}

/// Whether the environment holds a notice: a hook started this process, directly or not.
pub fn has_notice() -> bool {
    std::env::var_os(format!("{PREFIX}EVENT")).is_some()
}
