//! `aynig.notify`: who is told what beyond this terminal, by `run` and by `set-state`.
//!
//! Invariant: who writes a state tells it, once it is written. `run` does so beside its work, `set-state` when it is done. Inside a
//! command `set-state` leaves it to a process of its own: its runner may stop the command as soon as the branch has moved on.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aynig::contract::environment::trailer_variables;
use aynig::contract::ids::{CommitId, RemoteName, RoleName, StateName};
use aynig::contract::message::Message;
use aynig::contract::trailers::Trailer;
use aynig::fsutil;
use aynig::git::{Repo, Store};
use aynig::ops::app::{App, Process};
use aynig::ops::outer::OuterCommand;
use aynig::ops::settings;
use aynig::runner::attempt::environment::own_environment;
use aynig::runner::error_chain;
use aynig::runner::events::hook::{Hook, HookRunner};
use aynig::runner::events::notice::Notice;
use aynig::runner::events::payload::{Notification, PREFIX, Payload};
use aynig::runner::events::warning::Warning;
use aynig::stop::Stop;
use aynig::supervise::{Watchdog, detach};

use super::error::{CommandError, Exit};
use crate::cli::ui;
use crate::cli::ui::narrator::Narrator;
use crate::cli::work::target::{Written, warn};

/// Tells people of a state that a command set. Started by `set-state`, with the notice.
pub(crate) const NOTIFY: &str = "__notify";

/// The warning of a process that `aynig.notify` started itself, at any depth: it notifies nobody, lest notices cause notices for ever.
const NESTED: &str = "nobody is notified of this: aynig.notify itself started this process (AYNIG_NOTICE_EVENT is set); \
                      `aynig status --all` shows how branches stand";

/// Tells people what becomes of a run.
#[derive(Debug)]
pub(crate) struct HookListener {
    /// None in a process that a notifier started.
    hook_runner: Option<HookRunner>,
    narrator: Arc<Narrator>,
    states: globset::GlobSet,
    remote: Option<RemoteName>,
    role: Option<RoleName>,
}

impl HookListener {
    /// One for a run, if anybody is to be told.
    pub(crate) fn new(
        app: &App,
        remote: Option<&RemoteName>,
        role: Option<&RoleName>,
        watchdog: &Watchdog,
        narrator: &Arc<Narrator>,
    ) -> Result<Option<Self>, CommandError> {
        let settings::Notify { line: Some(line), limit, states, .. } = settings::notify(&app.repo())? else {
            return Ok(None);
        };
        let hook_runner = (!has_notice()).then(|| {
            let repo = app.repo();
            let environment = environment(&repo, &app.process);
            let directory = repo.top().to_owned();
            let hook = Hook { line, limit, directory, environment, watchdog: Some(watchdog.clone()) };
            let narrator = Arc::clone(narrator);
            HookRunner::new(hook, Arc::new(move |words| warn_of_hook(&narrator, words)))
        });
        let narrator = Arc::clone(narrator);
        Ok(Some(Self { hook_runner, narrator, states, remote: remote.cloned(), role: role.cloned() }))
    }

    /// Takes note of what the runner has to say; people are told some time soon.
    pub(crate) fn hear(&self, store: &Store, notice: &Notice) {
        let Some(told) = Notification::of_notice(notice, &self.states) else { return };
        match &self.hook_runner {
            Some(hook_runner) => {
                hook_runner.send(told.letter(&store.handle(), self.remote.as_ref(), self.role.as_ref()));
            }
            None => warn_of_hook(&self.narrator, NESTED.to_owned()),
        }
    }

    /// Waits for what is still to be told.
    pub(crate) fn close(self, shutdown: &Stop) {
        let Some(hook_runner) = self.hook_runner else { return };
        hook_runner.close(shutdown, || {
            self.narrator.aside("telling what is still to be told (aynig.notify); ^C ends it");
        });
    }
}

fn warn_of_hook(narrator: &Narrator, words: String) {
    narrator.tell(&Notice::Warning { branch: None, warning: Warning::Hook { words } });
}

/// What the program finds in its environment besides the notice: the way back to us, and nothing of any command around us. That has
/// variables of its commit's trailers, which are the choice of whoever can push.
fn environment(repo: &Repo, process: &Process) -> Vec<(OsString, OsString)> {
    let mut variables = own_environment();
    let trigger = std::env::var("COMMIT_HASH").ok().and_then(CommitId::parse_hex);
    if let Some(stored) = trigger.and_then(|trigger| repo.commit(trigger).ok()) {
        // One by one, so that none is left out for want of room.
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

/// Tells a state that was just set by hand, or by a command. What goes wrong is a warning: the state is set.
pub(crate) fn state_was_set(
    repo: &Repo,
    process: &Process,
    remote: Option<&RemoteName>,
    written: &Written,
    state: &StateName,
) {
    let (line, limit, states) = match settings::notify(repo) {
        Err(error) => return warn(&format!("nobody is told: {}", error.message)),
        Ok(settings::Notify { line: Some(line), limit, states, .. }) => (line, limit, states),
        Ok(_) => return,
    };
    let Some(told) = Notification::of_state(&written.before.branch, state, &states) else { return };
    if has_notice() {
        return warn(NESTED);
    }
    let told = told.after(written.before.meaning.state().as_ref(), Some(written.commit.id));
    let letter = told.letter(repo, remote, None);
    let environment = environment(repo, process);
    if matches!(OuterCommand::of(repo), Ok(None)) {
        let hook = Hook { line, limit, directory: repo.top().to_owned(), environment, watchdog: None };
        // A signal ends this process, as everything that is to be done is done.
        if let Err(failure) = hook.tell(&letter, &Stop::manual()) {
            warn(&failure.warning);
        }
        return;
    }
    let mut args = vec![NOTIFY.into(), line.into(), limit.as_secs().to_string().into()];
    args.extend(letter.log.map(Into::into));
    let variables = environment.into_iter().chain(letter.variables).collect();
    let started = fsutil::nameless(&letter.body)
        .and_then(|body| detach(&process.program, args, variables, repo.top(), body));
    if let Err(error) = started {
        warn(&format!("nobody is told, as no process could be started: {}", error_chain(&error)));
    }
}

/// Whether the environment holds a notice: this process was started by a notifier, or by one that a notifier started.
pub(crate) fn has_notice() -> bool {
    std::env::var_os(format!("{PREFIX}EVENT")).is_some()
}

/// The body of the call to ourselves: tells what standard input and the environment hold, by `line`, which may take `limit`, in
/// `directory`; what it prints goes to `log`.
pub(crate) fn tell(
    line: String,
    limit: Duration,
    log: Option<PathBuf>,
    directory: PathBuf,
) -> Result<Exit, CommandError> {
    let mut body = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut body)
        .map_err(|error| CommandError::because("read the notice", &error))?;
    let value = |name: &str| {
        std::env::var_os(format!("{PREFIX}{name}")).unwrap_or_default().to_string_lossy().into_owned()
    };
    let (variables, environment) =
        std::env::vars_os().partition(|(name, _)| name.to_string_lossy().starts_with(PREFIX));
    let about = ui::sanitize(&format!("{} {}", value("EVENT"), value("BRANCH")));
    let hook = Hook { line, limit, directory, environment, watchdog: None };
    if let Err(failure) = hook.tell(&Payload { about, body, variables, log }, &Stop::manual()) {
        ui::narrate(&failure.warning);
    }
    Ok(Exit::Done)
}
