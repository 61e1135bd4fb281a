//! Reading commits, and writing them from objects.
//!
//! Invariant: a state commit is written from a tree, parents and a message that were chosen explicitly; no hook
//! runs, no clean-up of the message happens, and where signing is asked for an unsigned commit is never written
//! (CONTRACT.md §1). Which ref will point at it is [`crate::git::refs::cas`]'s business: an object nobody points at harms nobody.

use std::path::Path;
use std::time::Duration;

use bstr::{BString, ByteSlice};

use crate::clock;
use crate::contract::guard::RUN_ID_HEADER;
use crate::contract::head::CommitFacts;
use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::story::Told;
use crate::fsutil::free_space_text;
use crate::git::objects::signatures::{SIGNING, headers, is_signed};
use crate::git::process::call::ProcessError;
use crate::git::process::cancel::Purpose;
use crate::git::repo::config::ConfigError;
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// How often an object is written before that counts as failed.
const OBJECT_TRIES: u32 = 5;

/// Why a commit could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The object is missing, damaged, or not a commit.
    #[error("could not read commit {id}: {why}")]
    Unreadable {
        /// Which.
        id: CommitId,
        /// What was found.
        why: String,
    },
    /// The object could not be stored.
    #[error("could not write a commit into {objects}: {why}")]
    Unwritable {
        /// The object directory.
        objects: String,
        /// What stood in the way.
        why: String,
    },
    /// `commit.gpgSign` is set and the signature could not be made.
    #[error(
        "could not sign the commit with {program} (commit.gpgSign is set; nobody is asked for a passphrase, so an agent must hold the \
         key; `aynig doctor` tries it)"
    )]
    Unsigned {
        /// What signs, and the setting that names it.
        program: String,
        /// What went wrong.
        #[source]
        source: Box<ProcessError>,
    },
    /// What the program wrote is no signature. Git stores it all the same, and nobody would take the commit for signed.
    #[error(
        "could not sign the commit with {program}: it ended well, and what it wrote is no signature (commit.gpgSign is set; \
         `aynig doctor` tries it)"
    )]
    NoSignature {
        /// What signs, and the setting that names it.
        program: String,
    },
    /// Whether it is to be signed, and how, cannot be told.
    #[error("could not tell whether the commit is to be signed (commit.gpgSign)")]
    NotSettled(#[source] Box<ConfigError>),
}

/// A commit as read: what a decision needs, owned.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its id.
    pub id: CommitId,
    /// Its tree.
    pub tree: CommitId,
    /// Its parents in order.
    pub parents: Vec<CommitId>,
    /// Committer date, seconds since the epoch.
    pub committed_at: i64,
    /// The message, raw bytes.
    pub message: BString,
}

impl Stored {
    /// What [`crate::contract::head::Head::read`] wants to know.
    pub fn facts(&self) -> CommitFacts<'_> {
        CommitFacts { id: self.id, committed_at: self.committed_at, message: &self.message }
    }
}

/// A commit to be written.
#[derive(Debug, Clone)]
pub struct NewCommit<'a> {
    /// The tree, chosen by the caller.
    pub tree: CommitId,
    /// Parents in order; empty for the first commit of an unborn branch.
    pub parents: &'a [CommitId],
    /// The whole message, already encoded and checked.
    pub message: &'a [u8],
    /// The attempt whose result it is, for a server that lets nobody else move the branch (CONTRACT.md §12).
    pub attempt: Option<AttemptId>,
}

/// A commit as read for people, who want to know whose it is.
#[derive(Debug, Clone)]
pub struct Signed {
    /// The commit.
    pub stored: Stored,
    /// The name of its author; empty if that cannot be read.
    pub(crate) author: BString,
}

impl Signed {
    /// What a story is told from.
    pub fn told(&self) -> Told<'_> {
        let merge = self.stored.parents.len() > 1;
        Told { facts: self.stored.facts(), author: self.author.as_bstr(), merge }
    }
}

impl Repo {
    /// Reads one commit.
    pub fn commit(&self, id: CommitId) -> Result<Stored, CommitError> {
        self.decoded(id, |stored, _| stored)
    }

    /// The name of a commit's author; empty if there is none.
    pub(crate) fn author(&self, id: CommitId) -> Result<BString, CommitError> {
        self.signed(id).map(|signed| signed.author)
    }

    /// Reads one commit, with its author.
    fn signed(&self, id: CommitId) -> Result<Signed, CommitError> {
        self.decoded(id, |stored, commit| {
            let author = commit.author().map(|author| author.name.trim().into()).unwrap_or_default();
            Signed { stored, author }
        })
    }

    fn decoded<T>(
        &self,
        id: CommitId,
        take: impl FnOnce(Stored, &gix::objs::CommitRef<'_>) -> T,
    ) -> Result<T, CommitError> {
        let unreadable = |why: String| CommitError::Unreadable { id, why };
        let commit = self.gix.find_commit(gits(id)).map_err(|error| unreadable(gix_chain(&error)))?;
        let decoded = commit.decode().map_err(|error| unreadable(error.to_string()))?;
        let committed_at = decoded
            .committer()
            .map_err(|error| unreadable(error.to_string()))?
            .time()
            .map_or(0, |t| t.seconds);
        let stored = Stored {
            id,
            tree: ours(&decoded.tree()),
            parents: decoded.parents().map(|parent| ours(&parent)).collect(),
            committed_at,
            message: decoded.message.into(),
        };
        Ok(take(stored, &decoded))
    }

    /// Writes one commit, dated now; nothing points at it yet.
    pub fn write_commit(&self, new: &NewCommit<'_>) -> Result<CommitId, CommitError> {
        self.write_commit_for(new, Purpose::Signature, SIGNING)
    }

    /// The same where its signature is of no use after `within`, and a stop ends what is made for `purpose`.
    pub(crate) fn write_commit_for(
        &self,
        new: &NewCommit<'_>,
        purpose: Purpose,
        within: Duration,
    ) -> Result<CommitId, CommitError> {
        let unsettled = |error| CommitError::NotSettled(Box::new(error));
        if self.signs().map_err(unsettled)? {
            // A signature vouches for what it is put on: not before it is known what may be.
            self.check_settings().map_err(unsettled)?;
            return self.write_signed(new, purpose, within, None);
        }
        let time = clock::local_time();
        let signature = |(name, email): &(BString, BString)| gix::actor::Signature {
            name: name.clone(),
            email: email.clone(),
            time: gix::date::Time { seconds: time.seconds, offset: time.offset_seconds },
        };
        let identity = self.identity();
        let commit = gix::objs::Commit {
            tree: gits(new.tree),
            parents: new.parents.iter().map(|parent| gits(*parent)).collect(),
            author: signature(&identity.author),
            committer: signature(&identity.committer),
            encoding: None,
            message: new.message.into(),
            extra_headers: new
                .attempt
                .map(|attempt| (RUN_ID_HEADER.into(), attempt.to_string().into()))
                .into_iter()
                .collect(),
        };
        let mut tries = 0;
        loop {
            tries += 1;
            match self.gix.write_object(&commit) {
                Ok(id) => return Ok(ours(&id)),
                // A `git gc` removes the directories it has emptied, also the one an object is just being moved
                // into. Writing an object again is harmless.
                Err(error) if tries < OBJECT_TRIES => {
                    tracing::debug!(error = gix_chain(&error), tries, "again")
                }
                Err(error) => return Err(self.unwritten(&error)),
            }
        }
    }

    /// Git signs: it knows `user.signingKey`, `gpg.format` and the programs behind them. With `elsewhere` the commit goes into that
    /// directory, and the repository is left as it is.
    pub(crate) fn write_signed(
        &self,
        new: &NewCommit<'_>,
        purpose: Purpose,
        within: Duration,
        elsewhere: Option<&Path>,
    ) -> Result<CommitId, CommitError> {
        let time = clock::local_time();
        let date = format!("{} {}", time.seconds, time.offset_text());
        let identity = self.identity();
        let text = |bytes: &BString| bytes.to_os_str_lossy().into_owned();
        let mut message = new.message.to_vec();
        if let Some(attempt) = new.attempt {
            // Git signs no header of ours, so the last paragraph of the message, which is its trailers, has to say it.
            message.extend_from_slice(format!("dwp-run-id: {attempt}\n").as_bytes());
        }
        let mut git = self.git_here().args(["commit-tree", "-S"]);
        for parent in new.parents {
            git = git.args(["-p", &parent.to_string()]);
        }
        if let Some(objects) = elsewhere {
            git = git.env("GIT_OBJECT_DIRECTORY", objects);
        }
        let signed = git
            .args(["-F", "-", &new.tree.to_string()])
            .env("GIT_AUTHOR_NAME", text(&identity.author.0))
            .env("GIT_AUTHOR_EMAIL", text(&identity.author.1))
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_NAME", text(&identity.committer.0))
            .env("GIT_COMMITTER_EMAIL", text(&identity.committer.1))
            .env("GIT_COMMITTER_DATE", &date)
            .stdin(message)
            .for_signatures(self.interrupt(), purpose, self.signing_limit(within))
            .known_as("commit-tree -S")
            .run();
        self.interrupt()
            .note_hung(matches!(signed, Err(ProcessError::TooSlow { .. } | ProcessError::Stopped { .. })));
        let output = signed
            .map_err(|error| CommitError::Unsigned { program: self.signer(), source: Box::new(error) })?;
        let id = CommitId::parse_hex(output.text().as_bytes()).ok_or_else(|| CommitError::Unwritable {
            objects: self.common_dir().display().to_string(),
            why: format!("git commit-tree answered {:?}", output.text()),
        })?;
        let written = match elsewhere {
            None => self.head_of(id),
            Some(objects) => {
                let git = self.git_here().env("GIT_OBJECT_DIRECTORY", objects);
                let output = git.args(["cat-file", "commit", &id.to_string()]).run().ok();
                output.map(|output| headers(&output.stdout).to_vec())
            }
        };
        match written {
            Some(head) if is_signed(&head) => Ok(id),
            Some(_) => Err(CommitError::NoSignature { program: self.signer() }),
            None => Err(CommitError::Unreadable { id, why: "it was written a moment ago".to_owned() }),
        }
    }

    /// Rewrites the commits from `tip` down to (not including) `old` so that they lie on `new`, which has the tree of `old`; returns
    /// the new tip. Trees, authors, dates and messages stay; signatures cannot.
    pub(crate) fn replant(
        &self,
        tip: CommitId,
        old: CommitId,
        new: CommitId,
    ) -> Result<CommitId, CommitError> {
        let mut chain = Vec::new();
        let mut next = tip;
        while next != old {
            let stored = self.commit(next)?;
            let Some(parent) = stored.parents.first().copied() else {
                return Err(CommitError::Unreadable {
                    id: tip,
                    why: format!("it does not descend from {old}"),
                });
            };
            chain.push(next);
            next = parent;
        }
        let mut below = new;
        for id in chain.into_iter().rev() {
            let unreadable = |why: String| CommitError::Unreadable { id, why };
            let commit = self.gix.find_commit(gits(id)).map_err(|error| unreadable(gix_chain(&error)))?;
            let decoded = commit.decode().map_err(|error| unreadable(error.to_string()))?;
            let mut owned: gix::objs::Commit =
                decoded.to_owned().map_err(|error| unreadable(error.to_string()))?;
            if let Some(first) = owned.parents.first_mut() {
                *first = gits(below);
            }
            owned.extra_headers.retain(|(name, _)| !name.starts_with(b"gpgsig"));
            let written = self.gix.write_object(&owned).map_err(|error| self.unwritten(&error))?;
            below = ours(&written);
        }
        Ok(below)
    }

    /// Whether `ancestor` is reachable from `commit` (a commit reaches itself).
    ///
    /// Judged by the graph, not by dates: a command may date its commits as it likes.
    pub fn descends(&self, commit: CommitId, ancestor: CommitId) -> bool {
        if commit == ancestor {
            return true;
        }
        match self.gix.merge_base(gits(commit), gits(ancestor)) {
            Ok(base) => base.is_some_and(|base| ours(&base) == ancestor),
            Err(_) => false,
        }
    }

    /// The name of the empty tree, which need not be stored.
    pub(crate) fn no_files(&self) -> CommitId {
        ours(&gix::ObjectId::empty_tree(self.gix.object_hash()))
    }

    /// The empty tree, written if the repository does not have it yet.
    pub(crate) fn empty_tree(&self) -> Result<CommitId, CommitError> {
        let written = self.gix.write_object(gix::objs::Tree::empty());
        written.map(|id| ours(&id)).map_err(|error| self.unwritten(&error))
    }

    /// That an object could not be stored; if there was no room for it, how much there is.
    fn unwritten(&self, error: &gix::Error) -> CommitError {
        let objects = self.common_dir().join("objects");
        let room = free_space_text(error, &objects).map(|room| format!("; {room}")).unwrap_or_default();
        CommitError::Unwritable {
            objects: objects.display().to_string(),
            why: format!("{}{room}", gix_chain(error)),
        }
    }

    /// Stores the empty tree if `tree` is it.
    pub(crate) fn empty_tree_if(&self, tree: CommitId) -> Result<(), CommitError> {
        if gits(tree).is_empty_tree() { self.empty_tree().map(drop) } else { Ok(()) }
    }

    /// What the user may type for a commit (a hash, a prefix, a ref), resolved.
    pub fn parse_commit(&self, text: &str) -> Option<CommitId> {
        let id = self.gix.rev_parse_single(text.as_bytes().as_bstr()).ok()?;
        let commit = id.object().ok()?.peel_to_kind(gix::object::Kind::Commit).ok()?;
        Some(ours(&commit.id))
    }

    /// First-parent history from `tip`, newest first; ends silently at the edge of a shallow clone.
    pub fn history(&self, tip: CommitId) -> impl Iterator<Item = Result<Stored, CommitError>> + '_ {
        walk(tip, |id| self.commit(id), |stored| stored)
    }

    /// The same with authors. Where the last commit names a parent, the history goes on outside of this clone.
    pub fn signed_history(&self, tip: CommitId) -> impl Iterator<Item = Result<Signed, CommitError>> + '_ {
        walk(tip, |id| self.signed(id), |signed| &signed.stored)
    }
}

fn walk<T>(
    tip: CommitId,
    read: impl Fn(CommitId) -> Result<T, CommitError>,
    stored: impl Fn(&T) -> &Stored,
) -> impl Iterator<Item = Result<T, CommitError>> {
    let mut next = Some(tip);
    let mut first = true;
    std::iter::from_fn(move || {
        match read(next.take()?) {
            Ok(found) => {
                first = false;
                next = stored(&found).parents.first().copied();
                Some(Ok(found))
            }
            Err(error) if first => Some(Err(error)),
            // The parent of a shallow boundary is named but not there: the story ends here.
            Err(_) => None,
        }
    })
}
