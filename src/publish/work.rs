//! The commits that are published, and the one that they are squashed into (CONTRACT 21.5).

use bstr::{BString, ByteSlice};

use crate::contract::commits::OF_RUN_KEY;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::message::{Draft, Message};
use crate::contract::squash::{Said, squash_draft};
use crate::contract::trailers::Trailer;
use crate::git::Repo;
use crate::git::objects::commits::NewCommit;
use crate::ledger::Masks;
use crate::words::error_chain;
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};

use super::proposal::Texts;

/// The beginning of the keys that only runners may read.
const STATES: &[u8] = b"dwp-";

/// The commits of a work branch that its base has not.
pub(super) struct Work {
    pub(super) head: CommitId,
    /// The newest commit that both have.
    pub(super) common: CommitId,
    /// Their messages without merges, the oldest first.
    pub(super) messages: Vec<Message>,
    /// A commit with a trailer that runners read.
    state: Option<CommitId>,
}

impl Work {
    /// Reads them. `None`: the base has all of it.
    pub(super) fn of(repo: &Repo, head: CommitId, base: CommitId) -> Result<Option<Self>, Refusal> {
        let because =
            |error: &dyn std::error::Error| Refusal::because("read the commits of the work branch", error);
        let new = repo.commits_since(head, base).map_err(|error| because(&error))?;
        if new.is_empty() {
            return Ok(None);
        }
        let common = repo.common_base(head, base).ok_or_else(|| {
            Refusal::new(
                Why::Failed,
                "the work branch and its base have no commit in common; nothing was changed",
            )
            .hint("name the branch that it is to be merged into: `--into BRANCH`")
        })?;
        let message = |id: CommitId| repo.commit(id).map(|stored| Message::parse(&stored.message));
        let has_state = |id: &&CommitId| {
            let message = message(**id);
            message.is_ok_and(|one| {
                one.trailers.iter().any(|one| one.key.to_ascii_lowercase().starts_with(STATES))
            })
        };
        let state = new.iter().find(has_state).copied();
        let listed = repo.commits_between(base, head).map_err(|error| because(&error))?;
        let messages =
            listed.into_iter().map(message).collect::<Result<_, _>>().map_err(|error| because(&error))?;
        Ok(Some(Self { head, common, messages, state }))
    }

    /// Refuses commits that a runner would take for requests.
    pub(super) fn check_trailers(&self, branch: &BranchName) -> Result<(), Refusal> {
        let Some(commit) = self.state else { return Ok(()) };
        let message = format!(
            "{} of {branch} has a dwp-* trailer, by which runners elsewhere would run it; nothing was changed",
            commit.short()
        );
        Err(Refusal::new(Why::Failed, message)
            .hint("`--squash` publishes one commit without such trailers")
            .hint(format!("`git show {}` shows it", commit.short())))
    }

    /// Writes the one commit with all changes; its author is the person who publishes.
    pub(super) fn squash(
        &self,
        repo: &Repo,
        context: &Context,
        texts: &Texts,
        masks: &Masks,
    ) -> Result<CommitId, Refusal> {
        let mut draft = squash_draft(&context.branch(), &self.messages, &Said::default(), Some(&texts.title));
        let masked = |text: &BString| {
            let mut text = text.to_str_lossy().into_owned();
            masks.text(&mut text);
            BString::from(text)
        };
        draft.body = masked(&draft.body);
        let trailers = draft.trailers.iter();
        draft.trailers = trailers.map(|one| Trailer::new(one.key.clone(), masked(&one.value))).collect();
        draft.trailers.push(Trailer::new(OF_RUN_KEY, context.run_id.as_str()));
        // A body that no message can have is left out.
        let bare = || Draft { body: BString::default(), ..draft.clone() }.encode();
        let message = draft.encode().or_else(|_| bare()).map_err(|error| {
            Refusal::new(
                Why::Failed,
                format!("could not squash {}: {}", context.branch_name, error_chain(&error)),
            )
        })?;
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("squash {}", context.branch_name), error)
        };
        let tree = repo.commit(self.head).map_err(|error| because(&error))?.tree;
        let new = NewCommit { tree, parents: &[self.common], message: &message, attempt: None };
        repo.write_commit(&new).map_err(|error| because(&error))
    }
}
