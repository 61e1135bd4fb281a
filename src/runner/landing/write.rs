//! Writes the result commits of a landing, with the sentences in them (CONTRACT 6.4).

use std::fs::File;

use bstr::{BStr, ByteSlice};

use crate::clock;
use crate::contract::cancel::mark;
use crate::contract::carried::Ask;
use crate::contract::commits::{advance_draft, stalled_draft};
use crate::contract::ids::{AttemptId, BranchName, CommitId, StateName};
use crate::contract::kept::{Kept, kept_draft};
use crate::contract::landing::Landing;
use crate::contract::message::Draft;
use crate::contract::report::{StalledReport, stalled_body};
use crate::contract::requeue::{Writer, requeued_draft};
use crate::contract::settlement::Settlement;
use crate::fsutil;
use crate::git::contents::rescue::Saved;
use crate::git::objects::commits::NewCommit;
use crate::git::process::cancel::Purpose;
use crate::git::{Repo, Unconcluded};

use super::ask::handed_on;
use super::end::End;
use crate::runner::attempt::finished::Finished;
use crate::runner::survey::words::requests_again;
use crate::runner::{Context, error_chain, shell_quote, shows_rescued};

/// The part of a log's end that is read for a stalled body, in bytes.
const TAIL: u64 = 64 * 1024;

impl End<'_> {
    /// Writes the result of `landing` as a commit on top of `parent`.
    pub(crate) fn write(&self, landing: &Landing, parent: CommitId) -> Result<CommitId, String> {
        let (repo, claim) = (self.repo, &self.finished.claim);
        let named = self.context.authority.credential(claim.attempt);
        match landing.settlement() {
            Settlement::Advance(declaration) => {
                let tree = self.index().unwrap_or_else(|| {
                    repo.commit(parent).map(|stored| stored.tree).map_err(|error| error_chain(&error))
                })?;
                if let Some(Unconcluded { what, conclude, .. }) =
                    self.finished.site.git_dir().and_then(Repo::unconcluded)
                {
                    return Err(format!("{what} is not concluded (`{conclude}`)"));
                }
                let source = self.context.authority.source();
                let ask = if declaration.hands_on() {
                    handed_on(self.context, repo, &claim.branch, &claim.trigger)?
                } else {
                    Ask::default()
                };
                let draft = advance_draft(declaration, &claim.message.trailers, &ask, source);
                self.commit(&draft, tree, parent, named)
            }
            Settlement::KeepWorking => {
                let draft = kept_draft(&claim.message, &Kept::new(self.finished.invalid.as_ref()));
                self.commit(&draft, self.taken(parent).tree(repo)?, parent, None)
            }
            Settlement::Requeue(requeue) => {
                let taken = self.taken(parent);
                if let Some(note) = taken.note(repo) {
                    return Err(note);
                }
                let saved = self.rescued.as_ref().map(|saved| saved.reference.as_bstr());
                let source = self.context.authority.source();
                let writer = Writer { runner: repo.runner_id(), source, now: clock::wall_seconds() };
                let draft = requeued_draft(&claim.trigger, requeue, saved, writer);
                self.commit(&draft, taken.tree(repo)?, parent, named)
            }
            Settlement::Stall => {
                let taken = self.taken(parent);
                let mut notes: Vec<String> = taken.note(repo).into_iter().collect();
                notes.extend(self.rescued.as_ref().map(rescue_sentence));
                notes.extend(
                    self.left
                        .as_ref()
                        .map(|left| format!("Left in place: {} ({}).", left.path.display(), left.why)),
                );
                let failed = claim.trigger.failed();
                notes.push(retry_sentence(self.context, &claim.branch, failed.as_ref()));
                let body = stalled_text(self.finished, landing.why(), notes);
                let run = claim.attempt.to_string();
                let mut draft = stalled_draft(BStr::new(run.as_bytes()), Some(&claim.trigger.state), &body);
                if landing.is_cancelled() {
                    mark(&mut draft);
                }
                self.commit(&draft, taken.tree(repo)?, parent, named)
            }
        }
    }

    fn commit(
        &self,
        draft: &Draft,
        tree: CommitId,
        parent: CommitId,
        attempt: Option<AttemptId>,
    ) -> Result<CommitId, String> {
        let message = draft.encode().map_err(|error| error_chain(&error))?;
        let new = NewCommit { tree, parents: &[parent], message: &message, attempt };
        let written = self.repo.write_commit_for(&new, Purpose::Signature, self.finished.signing_time());
        written.map_err(|error| error_chain(&error))
    }
}

fn stalled_text(finished: &Finished, why: &str, notes: Vec<String>) -> String {
    let tail = |log: Option<&File>| log.and_then(|log| fsutil::tail_of(log, TAIL).ok()).unwrap_or_default();
    let stdout = tail(finished.files.as_ref().map(|files| &files.readers.0));
    let stderr = tail(finished.files.as_ref().map(|files| &files.readers.1));
    stalled_body(&StalledReport {
        headline: vec![format!("{why}.")],
        notes,
        stdout: &stdout,
        stderr: &stderr,
    })
}

/// The sentence with the command that retries the failed state.
pub(crate) fn retry_sentence(
    context: &Context<'_>,
    branch: &BranchName,
    failed: Option<&StateName>,
) -> String {
    let command = requests_again(branch, context.authority.source(), failed);
    format!("To try again, with the same body and trailers: {command}")
}

/// The sentence with the commands that show and apply saved work.
pub(crate) fn rescue_sentence(saved: &Saved) -> String {
    // A merge also takes the commits below it.
    let reference = &saved.reference;
    format!(
        "Unfinished work was saved: {} (or git merge --squash {}).",
        shows_rescued(reference),
        shell_quote(reference)
    )
}
