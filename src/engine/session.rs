//! Sessions of agents that a step (`session: continue`, CONTRACT 20.28) or a node (CONTRACT 22.26) continues.
//!
//! Invariant: a session is continued only on its host, by its program in its version, in its worktree, on the commit
//! that its last turn left, and if that turn completed. Else the agent gets a new one, with a replay of the earlier turns.
//! The provider's id of a session stays on this host.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::flow::document::word_of;
use crate::fsutil;
use crate::model::ids::RunId;
use crate::model::step::Step;
use crate::provider::{self, Provider};
use crate::words::{error_chain, pluralize};
use crate::workspace::refusal::Refusal;

use super::Engine;
use super::attempt::{Scene, Work, unrecorded};
use super::graph::terms::Terms;
use super::record::Role;

/// The longest replay, in bytes.
pub(super) const MAX_REPLAY: usize = 64 * 1024;

/// The file of a replay.
pub(super) const REPLAY: &str = "contextpack.md";

/// The reason for a new session if the program does not have the recorded one.
pub(super) const FORGOTTEN: &str = "the program does not have the last session any more";

/// The circumstances of a session. They stay on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    host: String,
    /// Name, kind and command of the provider.
    provider: String,
    kind: String,
    command: PathBuf,
    /// The version as the program prints it. `None` for a custom program.
    version: Option<String>,
    worktree: PathBuf,
    /// The commit of the work branch.
    head: String,
}

/// A session, and where it was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    /// The provider's own id.
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) place: Place,
    /// Of a node: what else it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) terms: Option<Terms>,
}

/// The session of a turn.
#[derive(Debug)]
pub(super) enum Begun {
    /// It is a first one, or the step does not continue any.
    New,
    /// The one with this id is continued.
    Continued(String),
    /// The recorded one does not fit, for this reason.
    Renewed(String),
}

impl Begun {
    /// The id of a session that is continued.
    pub(super) fn id(&self) -> Option<&str> {
        if let Self::Continued(id) = self { Some(id) } else { None }
    }

    /// The word in the record.
    pub(super) fn word(&self) -> &'static str {
        if self.id().is_some() { "continued" } else { "new" }
    }

    /// The reason for a new session.
    pub(super) fn reason(&self) -> Option<&str> {
        if let Self::Renewed(why) = self { Some(why) } else { None }
    }
}

impl Place {
    /// The reason why a session that was left at `self` is not continued at `now`.
    pub(super) fn differs(&self, now: &Self) -> Option<String> {
        let version = |one: &Self| one.version.clone().unwrap_or_else(|| "unknown".to_owned());
        let program = |one: &Self| (one.provider.clone(), one.kind.clone(), one.command.clone());
        if self.host != now.host {
            Some(format!("another host has the last session ({})", self.host))
        } else if program(self) != program(now) {
            let name = &self.provider;
            Some(format!("another program had the last session ({name}: {})", self.command.display()))
        } else if self.version != now.version {
            Some(format!("the last session is of version {}, the program is {}", version(self), version(now)))
        } else if self.worktree != now.worktree {
            Some(format!("the last session was in {}", self.worktree.display()))
        } else if self.head != now.head {
            Some("the work branch has moved since the last session".to_owned())
        } else {
            None
        }
    }
}

impl Engine<'_> {
    fn session_file(&self, run: RunId, name: &str) -> PathBuf {
        self.directory(run).path().join("sessions").join(format!("{name}.json"))
    }

    /// The place of a turn that is about to begin, with the work branch at `head`. It asks the program for its version.
    pub(super) fn session_place(&self, work: &Work<'_, '_>, provider: &Provider, head: &str) -> Place {
        let program = provider::find(provider).ok();
        let version = program.and_then(|program| provider::version(provider, &program, &work.stop));
        Place {
            host: host(),
            provider: provider.name.as_str().to_owned(),
            kind: provider.kind.protocol().unwrap_or(provider.kind.word()).to_owned(),
            command: provider.command.clone(),
            version,
            worktree: work.context.worktree_path.clone(),
            head: head.to_owned(),
        }
    }

    /// The session that the last turn of this step or node left on this host.
    pub(super) fn last_session(&self, run: RunId, name: &str) -> Option<Session> {
        let text = fsutil::read_plain(self.session_file(run, name)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The session of the next turn at this place.
    pub(super) fn session(&self, scene: &Scene<'_, '_>, place: &Place) -> Begun {
        if earlier(scene).next().is_none() {
            return Begun::New;
        }
        match self.last_session(scene.work.ledger.tip().state.run.id, &scene.step.id) {
            None => Begun::Renewed("the last visit left no session on this host".to_owned()),
            Some(session) => {
                session.place.differs(place).map_or(Begun::Continued(session.id), Begun::Renewed)
            }
        }
    }

    /// Keeps the session of a turn that completed, whose work is on the branch by now; removes it otherwise.
    pub(super) fn keep_session(&self, work: &Work<'_, '_>, name: &str, session: Option<Session>) {
        let file = self.session_file(work.ledger.tip().state.run.id, name);
        let Some(session) = session else {
            let _none = std::fs::remove_file(file);
            return;
        };
        let place = Place { head: work.context.head_sha.clone(), ..session.place };
        let text = serde_json::to_vec(&Session { place, ..session }).unwrap_or_default();
        let kept = file.parent().map_or(Ok(()), fsutil::create_private_dir_all);
        if let Err(error) = kept.and_then(|()| fsutil::replace_private(&file, &text)) {
            tracing::warn!(
                error = error_chain(&error),
                "the session is not kept; the next turn begins a new one"
            );
        }
    }

    /// Writes the replay for a new session: whole turns of earlier visits, the newest that fit. Adds its path to the prompt.
    pub(super) fn replay(&self, scene: &mut Scene<'_, '_>, prompt: &mut String) -> Result<(), Refusal> {
        let turns: Vec<String> = earlier(scene).map(|step| self.turn_text(scene, step)).collect();
        let Some(pack) = packed(&turns) else { return Ok(()) };
        let written =
            scene.work.recorder.write(Role::Contextpack, REPLAY, "text/markdown", true, pack.as_bytes());
        written.map_err(|error| unrecorded(&error))?;
        let path = scene.work.recorder.path().join(REPLAY);
        let _infallible = write!(
            prompt,
            "\n\nThis is a new session. The earlier turns of this step are in a file:\n- {}\n",
            path.display()
        );
        Ok(())
    }

    /// One turn as text. What this host and the ledger do not have is named.
    fn turn_text(&self, scene: &Scene<'_, '_>, step: &Step) -> String {
        let part = |role: &str| {
            let known = step.record.as_ref().and_then(|record| record.artifact(role));
            match (known, self.kept(scene, step, role)) {
                (_, Some(content)) => String::from_utf8_lossy(&content).trim_end().to_owned(),
                (Some(_), None) => "(not on this host)".to_owned(),
                (None, None) => "(none)".to_owned(),
            }
        };
        let (prompt, answer) = (part(Role::Prompt.word()), part(Role::RunnerFinalResponse.word()));
        let outcome = step.outcome.map(|outcome| format!(" ({})", word_of(outcome))).unwrap_or_default();
        format!("# Turn {}{outcome}\n\n## Prompt\n\n{prompt}\n\n## Answer\n\n{answer}\n", step.visit)
    }
}

/// The earlier visits of a step whose turns came to an end, the oldest first.
fn earlier<'s>(scene: &'s Scene<'_, '_>) -> impl Iterator<Item = &'s Step> {
    let ended = scene.work.ledger.tip().state.steps.values().filter(|step| step.ended_at.is_some());
    let is_turn = |step: &&Step| step.record.as_ref().is_some_and(|record| !record.cut_off);
    ended.filter(is_turn).filter(|step| step.id.as_str() == scene.step.id)
}

/// The newest turns that fit into a replay, the oldest of them first.
pub(super) fn packed(turns: &[String]) -> Option<String> {
    let note = |left: usize| match left {
        0 => String::new(),
        left => format!("{} left out here.\n\n", pluralize(left, "earlier turn")),
    };
    let fits = |from: &usize| {
        let length: usize = turns[*from..].iter().map(|turn| turn.len() + 1).sum();
        note(*from).len() + length <= MAX_REPLAY
    };
    let from = (0..turns.len()).find(fits)?;
    Some(note(from) + &turns[from..].join("\n"))
}

/// The name of this host.
fn host() -> String {
    hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
