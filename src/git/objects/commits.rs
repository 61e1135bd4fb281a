//! Reads commits, and writes them from objects.
//!
//! Invariant: a state commit is written from an explicit tree, parents and message. No hook runs,
//! and the message is not cleaned up (CONTRACT 1.12). If signing is configured, an unsigned commit
//! is never written (CONTRACT 1.13). A commit that no ref points to is harmless.

use std::path::Path;
use std::time::Duration;

use bstr::{BString, ByteSlice};

use crate::clock::{self, LocalTime};
use crate::contract::guard::RUN_ID_HEADER;
use crate::contract::head::CommitFacts;
use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::story::Told;
use crate::fsutil::free_space_text;
use crate::git::objects::access::again;
use crate::git::objects::signatures::{SIGNING, headers, is_signed};
use crate::git::process::call::ProcessError;
use crate::git::process::cancel::Purpose;
use crate::git::repo::config::ConfigError;
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// Why a commit could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The object is missing, damaged, or not a commit.
    #[error("could not read commit {id}: {why}")]
    Unreadable {
        /// Its id.
        id: CommitId,
        /// The reason.
        why: String,
    },
    /// The object could not be stored.
    #[error("could not write a commit into {objects}: {why}")]
    Unwritable {
        /// The object directory.
        objects: String,
        /// The obstacle.
        why: String,
    },
    /// `commit.gpgSign` is set and the signature could not be made.
    #[error(
        "could not sign the commit with {program} (commit.gpgSign is set; nobody is asked for a passphrase, so an agent must hold the \
         key; `aynig doctor` tries it)"
    )]
    Unsigned {
        /// The signing program, and the setting that names it.
        program: String,
        /// The failure of the call.
        #[source]
        source: Box<ProcessError>,
    },
    /// The program's output is not a signature. Git stores it all the same, but readers take the
    /// commit for unsigned.
    #[error(
        "could not sign the commit with {program}: it ended well, and what it wrote is no signature (commit.gpgSign is set; \
         `aynig doctor` tries it)"
    )]
    NoSignature {
        /// The signing program, and the setting that names it.
        program: String,
    },
    /// The setting `commit.gpgSign` cannot be read.
    #[error("could not tell whether the commit is to be signed (commit.gpgSign)")]
    NotSettled(#[source] Box<ConfigError>),
}

/// An owned copy of a commit's fields.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its id.
    pub id: CommitId,
    /// Its tree.
    pub tree: CommitId,
    /// Its parents in order.
    pub parents: Vec<CommitId>,
    /// The committer date, seconds since the epoch.
    pub committed_at: i64,
    /// The message, raw bytes.
    pub message: BString,
}

impl Stored {
    /// The facts for [`crate::contract::head::Head::read`].
    pub fn facts(&self) -> CommitFacts<'_> {
        CommitFacts { id: self.id, committed_at: self.committed_at, message: &self.message }
    }
}

/// A commit to be written.
#[derive(Debug, Clone)]
pub struct NewCommit<'a> {
    /// The tree, chosen by the caller.
    pub tree: CommitId,
    /// Its parents in order; empty for the first commit of an unborn branch.
    pub parents: &'a [CommitId],
    /// The whole message, already encoded and checked.
    pub message: &'a [u8],
    /// The attempt whose result it is, for a server that lets no other attempt move the branch
    /// (CONTRACT 12.3).
    pub attempt: Option<AttemptId>,
}

/// The author of a commit, with the date of authorship.
#[derive(Debug, Clone)]
pub struct Authored {
    /// The name.
    pub name: BString,
    pub(crate) email: BString,
    pub(crate) time: gix::date::Time,
}

/// A commit with its author's name, for display.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    /// The commit.
    pub stored: Stored,
    /// The author's name; empty if it cannot be read.
    pub(crate) author: BString,
}

impl Authored {
    /// An author, now.
    pub(crate) fn now(name: &str, address: &str) -> Self {
        let time = clock::local_time();
        let time = gix::date::Time { seconds: time.seconds, offset: time.offset_seconds };
        Self { name: name.into(), email: address.into(), time }
    }

    /// The address.
    pub(crate) fn address(&self) -> &[u8] {
        &self.email
    }

    fn signature(&self) -> gix::actor::Signature {
        gix::actor::Signature { name: self.name.clone(), email: self.email.clone(), time: self.time }
    }

    /// Name, address and date, as git takes them.
    fn written(&self) -> ((BString, BString), String) {
        let (sign, minutes) = (if self.time.offset < 0 { '-' } else { '+' }, self.time.offset.abs() / 60);
        let date = format!("{} {sign}{:02}{:02}", self.time.seconds, minutes / 60, minutes % 60);
        ((self.name.clone(), self.email.clone()), date)
    }
}

impl Signed {
    /// The commit as input of a [`crate::contract::story::Story`].
    pub(crate) fn told(&self) -> Told<'_> {
        let merge = self.stored.parents.len() > 1;
        Told { facts: self.stored.facts(), author: self.author.as_bstr(), merge }
    }
}

impl Repo {
    /// Reads one commit.
    pub fn commit(&self, id: CommitId) -> Result<Stored, CommitError> {
        self.decoded(id, |stored, _| stored)
    }

    /// Whether there is a tree with this id.
    pub(crate) fn has_tree(&self, id: CommitId) -> bool {
        self.tree(gits(id)).is_ok()
    }

    /// Whether there is an object with this id, of any kind.
    pub(crate) fn has_object(&self, id: CommitId) -> bool {
        self.gix.has_object(gits(id))
    }

    /// The author of a commit.
    pub(crate) fn authored(&self, id: CommitId) -> Result<Authored, CommitError> {
        let found = self.decoded(id, |_, commit| {
            let author = commit.author().ok()?;
            let (name, email) = (author.name.trim().into(), author.email.trim().into());
            Some(Authored { name, email, time: author.time().ok()? })
        })?;
        found.ok_or_else(|| CommitError::Unreadable { id, why: "its author cannot be read".to_owned() })
    }

    /// The address of a commit's committer.
    pub(crate) fn committer(&self, id: CommitId) -> Result<BString, CommitError> {
        self.committed(id).map(|(address, _)| address)
    }

    /// The address of a commit's committer, and its tree.
    pub(crate) fn committed(&self, id: CommitId) -> Result<(BString, CommitId), CommitError> {
        self.decoded(id, |stored, commit| {
            (commit.committer().map(|who| who.email.trim().into()).unwrap_or_default(), stored.tree)
        })
    }

    /// The name of a commit's author; empty if there is none.
    pub(crate) fn author(&self, id: CommitId) -> Result<BString, CommitError> {
        self.signed(id).map(|signed| signed.author)
    }

    /// Reads one commit with its author.
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
        let commit = self
            .object(gits(id))
            .and_then(gix::Object::try_into_commit)
            .map_err(|error| unreadable(gix_chain(&error)))?;
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

    /// Writes one commit, dated now. No ref points to it yet.
    pub fn write_commit(&self, new: &NewCommit<'_>) -> Result<CommitId, CommitError> {
        self.write_commit_for(new, Purpose::Signature, SIGNING)
    }

    /// Writes one commit like [`Repo::write_commit`]. The signing program may take `within` at
    /// most; `purpose` decides when a stop ends it.
    pub(crate) fn write_commit_for(
        &self,
        new: &NewCommit<'_>,
        purpose: Purpose,
        within: Duration,
    ) -> Result<CommitId, CommitError> {
        self.write_by(new, None, clock::local_time(), (purpose, within))
    }

    /// Writes one commit like [`Repo::write_commit`], dated that many seconds after the epoch.
    pub(crate) fn write_commit_dated(
        &self,
        new: &NewCommit<'_>,
        seconds: i64,
    ) -> Result<CommitId, CommitError> {
        self.write_by(new, None, LocalTime::at(seconds), (Purpose::Signature, SIGNING))
    }

    /// Writes one commit like [`Repo::write_commit`], with another author.
    pub(crate) fn write_commit_of(
        &self,
        new: &NewCommit<'_>,
        author: &Authored,
        purpose: Purpose,
    ) -> Result<CommitId, CommitError> {
        self.write_by(new, Some(author), clock::local_time(), (purpose, SIGNING))
    }

    fn write_by(
        &self,
        new: &NewCommit<'_>,
        author: Option<&Authored>,
        time: LocalTime,
        limits: (Purpose, Duration),
    ) -> Result<CommitId, CommitError> {
        let unsettled = |error| CommitError::NotSettled(Box::new(error));
        if self.signs().map_err(unsettled)? {
            // Before anything is signed, check that git reads the same settings.
            self.check_settings().map_err(unsettled)?;
            return self.write_signed(new, author, time, limits, None);
        }
        let signature = |(name, email): &(BString, BString)| gix::actor::Signature {
            name: name.clone(),
            email: email.clone(),
            time: gix::date::Time { seconds: time.seconds, offset: time.offset_seconds },
        };
        let identity = self.identity();
        let commit = gix::objs::Commit {
            tree: gits(new.tree),
            parents: new.parents.iter().map(|parent| gits(*parent)).collect(),
            author: author.map_or_else(|| signature(&identity.author), Authored::signature),
            committer: signature(&identity.committer),
            encoding: None,
            message: new.message.into(),
            extra_headers: new
                .attempt
                .map(|attempt| (RUN_ID_HEADER.into(), attempt.to_string().into()))
                .into_iter()
                .collect(),
        };
        self.write(&commit).map(|id| ours(&id)).map_err(|error| self.unwritten(&error))
    }

    /// Lets git sign: it knows `user.signingKey`, `gpg.format` and the programs behind them. With
    /// `elsewhere` the commit is written into that object directory, and the repository stays
    /// unchanged.
    pub(crate) fn write_signed(
        &self,
        new: &NewCommit<'_>,
        author: Option<&Authored>,
        time: LocalTime,
        (purpose, within): (Purpose, Duration),
        elsewhere: Option<&Path>,
    ) -> Result<CommitId, CommitError> {
        let date = format!("{} {}", time.seconds, time.offset_text());
        let identity = self.identity();
        let own = || (identity.author.clone(), date.clone());
        let ((name, email), authored_at) = author.map_or_else(own, Authored::written);
        let text = |bytes: &BString| bytes.to_os_str_lossy().into_owned();
        let mut message = new.message.to_vec();
        if let Some(attempt) = new.attempt {
            // Git does not sign extra headers of ours, so the run id goes into the last paragraph
            // of the message, its trailers (CONTRACT 12.4).
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
            .env("GIT_AUTHOR_NAME", text(&name))
            .env("GIT_AUTHOR_EMAIL", text(&email))
            .env("GIT_AUTHOR_DATE", &authored_at)
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

    /// Rewrites the commits from `tip` down to `old` (exclusive) onto `new`, which has the tree of
    /// `old`; returns the new tip. Trees, authors, dates and messages stay; signatures are dropped.
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
            let commit = self
                .object(gits(id))
                .and_then(gix::Object::try_into_commit)
                .map_err(|error| unreadable(gix_chain(&error)))?;
            let decoded = commit.decode().map_err(|error| unreadable(error.to_string()))?;
            let mut owned: gix::objs::Commit =
                decoded.to_owned().map_err(|error| unreadable(error.to_string()))?;
            if let Some(first) = owned.parents.first_mut() {
                *first = gits(below);
            }
            owned.extra_headers.retain(|(name, _)| !name.starts_with(b"gpgsig"));
            let written = self.write(&owned).map_err(|error| self.unwritten(&error))?;
            below = ours(&written);
        }
        Ok(below)
    }

    /// Whether `ancestor` is reachable from `commit` (a commit reaches itself).
    ///
    /// Uses the commit graph, not dates, since a command may date its commits as it likes.
    pub fn descends(&self, commit: CommitId, ancestor: CommitId) -> bool {
        if commit == ancestor {
            return true;
        }
        self.merge_bases(commit, ancestor).is_ok_and(|bases| bases.contains(&ancestor))
    }

    /// Whether the parents of a commit are left out on purpose, since this clone is shallow.
    pub(crate) fn is_boundary(&self, id: CommitId) -> bool {
        let boundaries = self.gix.shallow_commits().ok().flatten();
        boundaries.is_some_and(|all| all.contains(&gits(id)))
    }

    /// Whether the history of this clone is cut off, or may be.
    pub(crate) fn is_shallow(&self) -> bool {
        self.gix.is_shallow().unwrap_or(true)
    }

    /// The id of the empty tree, which need not be stored.
    pub(crate) fn no_files(&self) -> CommitId {
        ours(&gix::ObjectId::empty_tree(self.gix.object_hash()))
    }

    /// Writes the empty tree.
    pub(crate) fn empty_tree(&self) -> Result<CommitId, CommitError> {
        let written = self.write(&gix::objs::Tree::empty());
        written.map(|id| ours(&id)).map_err(|error| self.unwritten(&error))
    }

    /// The error for an object that could not be stored; on a full disk, with the free space.
    pub(super) fn unwritten(&self, error: &gix::Error) -> CommitError {
        let objects = self.common_dir().join("objects");
        let space = free_space_text(error, &objects).map(|space| format!("; {space}")).unwrap_or_default();
        CommitError::Unwritable {
            objects: objects.display().to_string(),
            why: format!("{}{space}", gix_chain(error)),
        }
    }

    /// Stores the empty tree if `tree` is its id.
    pub(crate) fn empty_tree_if(&self, tree: CommitId) -> Result<(), CommitError> {
        if gits(tree).is_empty_tree() { self.empty_tree().map(drop) } else { Ok(()) }
    }

    /// Resolves a revision typed by a user (a hash, a prefix, a ref) to a commit.
    pub fn parse_commit(&self, text: &str) -> Option<CommitId> {
        let commit = || self.gix.rev_parse_single(text.as_bytes().as_bstr())?.object()?.peel_to_commit();
        again(commit).ok().map(|commit| ours(&commit.id))
    }

    /// First-parent history from `tip`, newest first; ends silently at the edge of a shallow clone.
    pub fn history(&self, tip: CommitId) -> impl Iterator<Item = Result<Stored, CommitError>> + '_ {
        walk(tip, |id| self.commit(id), |stored| stored)
    }

    /// Whether one of the commits fits that `tip` reaches, over all parents, and `seen` does not. Searches the
    /// nearest `most` of them, and passes over those that cannot be read.
    pub(crate) fn any_above(
        &self,
        tip: CommitId,
        seen: Option<CommitId>,
        most: usize,
        fits: impl Fn(&Stored) -> bool,
    ) -> bool {
        let hidden = seen.filter(|seen| self.commit(*seen).is_ok()).map(gits);
        let search = |whole: bool| {
            for found in self.gix.rev_walk([gits(tip)]).with_hidden(hidden).all()?.take(most) {
                match found {
                    Ok(found) if self.commit(ours(&found.id)).is_ok_and(|stored| fits(&stored)) => {
                        return Ok(true);
                    }
                    Err(error) if whole => return Err(error),
                    Ok(_) | Err(_) => {}
                }
            }
            gix::Result::Ok(false)
        };
        again(|| search(true)).or_else(|_| search(false)).unwrap_or(false)
    }

    /// First-parent history with authors. If its last commit names a parent, the history continues
    /// outside this clone.
    pub(crate) fn signed_history(
        &self,
        tip: CommitId,
    ) -> impl Iterator<Item = Result<Signed, CommitError>> + '_ {
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
            // A shallow boundary names a parent that is not there: the history ends here.
            Err(_) => None,
        }
    })
}
