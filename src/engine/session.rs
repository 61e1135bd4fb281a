//! Sessions of agents that a step continues (`session: continue`).
//!
//! Invariant: a session is continued only where it was begun, by the same provider, in the same worktree, on the very
//! commit that its last turn left, and if that turn completed. Else the agent begins afresh.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fsutil;
use crate::words::error_chain;

use super::Engine;
use super::attempt::Scene;

/// A session, and what it goes with. It stays on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    /// The provider's own id.
    id: String,
    provider: String,
    worktree: PathBuf,
    /// The commit of the work branch after its last turn.
    head: String,
}

impl Engine<'_> {
    fn session_file(&self, scene: &Scene<'_, '_>) -> PathBuf {
        let run = scene.ledger.tip().state.run.id;
        self.directory(run).path().join("sessions").join(format!("{}.json", scene.step.id))
    }

    /// The session that a turn continues, if there is one that it may.
    pub(super) fn session(&self, scene: &Scene<'_, '_>, provider: &str) -> Option<String> {
        let known: Session = serde_json::from_slice(&std::fs::read(self.session_file(scene)).ok()?).ok()?;
        let context = &scene.context;
        let fits = known.provider == provider
            && known.worktree == context.worktree_path
            && known.head == context.head_sha;
        fits.then_some(known.id)
    }

    /// Keeps the session of a turn that completed, whose work is on the branch by now; forgets it otherwise.
    pub(super) fn keep_session(&self, scene: &Scene<'_, '_>, provider: &str, session: Option<&str>) {
        let file = self.session_file(scene);
        let Some(id) = session else {
            let _none = std::fs::remove_file(file);
            return;
        };
        let session = Session {
            id: id.to_owned(),
            provider: provider.to_owned(),
            worktree: scene.context.worktree_path.clone(),
            head: scene.context.head_sha.clone(),
        };
        let text = serde_json::to_vec(&session).unwrap_or_default();
        let kept = file.parent().map_or(Ok(()), fsutil::create_private_dir_all);
        if let Err(error) = kept.and_then(|()| fsutil::replace_private(&file, &text)) {
            tracing::warn!(
                error = error_chain(&error),
                "the session is not kept, so the next visit begins afresh"
            );
        }
    }
}
