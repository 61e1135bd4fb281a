//! The context of a workspace: the format of `workspace-context.json`, and the rules of its values
//! (CONTRACT 15.3).
//!
//! Invariant: a value that was read obeys all rules, and none of its texts leads out of the place
//! that the rules give it. Whether its path is a workspace's is [`super::place`]'s question.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::layout::WORKSPACE_DOMAIN;
use crate::git::worktrees::registration::Mark;
use crate::model::workspace::Publication;

/// The version of the format.
pub const VERSION: u32 = 1;

/// The name of the file in the workspace's directory.
pub(crate) const FILE: &str = "workspace-context.json";

/// A longer file is no context.
pub(crate) const MOST_BYTES: u64 = 64 * 1024;

/// The shortest slug, in digits.
pub(crate) const SHORTEST_SLUG: usize = 8;

/// The longest name of a workspace.
const LONGEST_NAME: usize = 50;

/// A workspace as recorded on its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// [`VERSION`].
    pub version: u32,
    /// The main worktree, or the bare repository.
    pub repo_root: PathBuf,
    /// The worktree's top directory.
    pub worktree_path: PathBuf,
    /// The work branch.
    pub branch_name: String,
    /// The full name of the ref that the work began from, or a commit.
    pub base_ref: String,
    /// The commit that it led to.
    pub base_sha: String,
    /// The newest commit of the work branch that was seen.
    pub head_sha: String,
    /// The branch that the work is published as.
    pub remote_branch: Option<String>,
    /// Its proposal.
    pub pr_url: Option<String>,
    /// All publications, one for each remote, branch and base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Publication>,
    /// The push that is under way, or was when its process died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publishing: Option<Intent>,
    /// The run that it belongs to.
    pub run_id: String,
    /// When it was made: RFC 3339, UTC.
    pub created_at: String,
    /// How often its worktree was made.
    pub generation: u32,
    /// The runner that made it.
    pub host: String,
    /// The short id that people type.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// The stage of its life.
    pub state: State,
    /// Digests of the git settings that execute and were there when it was made, by key.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// How its worktree is being made anew.
    pub pending: Option<Pending>,
    /// The work that the last rollback discarded.
    pub undo: Option<Restore>,
    /// How its worktree was made anew the last times, the oldest first: the ledger of a run may not have heard of it.
    #[serde(default)]
    pub remade: Vec<Remaking>,
}

/// A push of the work that may or may not have arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The remote, as a publication names it.
    pub remote: String,
    /// The ref there.
    pub target: String,
    /// The commit that is pushed.
    pub commit: String,
    /// The commit of the work branch that it shows.
    pub head: String,
    /// Whether it is one commit with all changes.
    pub squashed: bool,
}

/// A worktree that was made anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remaking {
    /// The worktree's number.
    pub(super) generation: u32,
    /// Whether it was rolled back, and not mended.
    pub(super) is_rollback: bool,
    /// Whether that brought back what another rollback had discarded.
    pub(super) is_undone: bool,
    /// The commit of the branch.
    pub(super) head: String,
    /// The ref that what was there is saved under.
    pub(super) rescue: Option<String>,
}

impl Remaking {
    fn is_legal(&self) -> bool {
        CommitId::parse_hex(&self.head).is_some()
            && self.rescue.as_ref().is_none_or(|name| !name.chars().any(char::is_control))
    }
}

/// A worktree that is being made anew: all that is needed to carry on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The commit that the branch was at; `None`: it was gone.
    pub(super) from: Option<String>,
    /// The commit that it goes to.
    pub(super) to: String,
    /// The tree of the files; `None`: those of `to`.
    pub(super) files: Option<String>,
    /// The tree of the index.
    pub(super) index: Option<String>,
    /// The name of the old directory, beside the worktree.
    pub(super) aside: String,
    /// Why the old directory stays.
    pub(super) keep: Option<String>,
    /// Whether it stays only for ignored files, which the new worktree can take.
    #[serde(default)]
    pub(super) ignored: bool,
    /// The commit that its files were based on.
    pub(super) head: String,
    /// The name of its registration.
    pub(super) registration: Option<String>,
    /// The ref that what was there is saved under.
    #[serde(default)]
    pub(super) rescue: Option<String>,
    /// The way back, after a rollback.
    pub(super) undo: Option<Restore>,
    /// Whether it is made as another host has it, so that it counts as no worktree of its own.
    #[serde(default)]
    pub(super) follows: bool,
}

/// The contents of a workspace that were discarded, and are saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// The commit of the branch.
    pub(super) branch: String,
    /// The tree of the files.
    pub(super) files: String,
    /// The tree of the index.
    pub(super) index: String,
    /// The ref that they are saved under; `None` if the branch has all of it.
    pub(super) rescue: Option<String>,
    /// The old directory, if only that has its files and its index, since they could not be saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<PathBuf>,
}

impl Restore {
    fn is_legal(&self) -> bool {
        self.kept.as_deref().is_none_or(is_plain)
            && [&self.branch, &self.files, &self.index]
                .into_iter()
                .all(|id| CommitId::parse_hex(id).is_some())
            && self.rescue.as_ref().is_none_or(|name| !name.chars().any(char::is_control))
    }
}

impl Pending {
    fn is_legal(&self, name: &str) -> bool {
        let optional = [&self.from, &self.files, &self.index].into_iter().flatten();
        let is_name = |text: &str| !text.contains('/') && !text.starts_with('.') && !text.is_empty();
        let mut ids = optional.chain([&self.to, &self.head]);
        ids.all(|id| CommitId::parse_hex(id).is_some())
            && is_name(&self.aside)
            && self.aside.strip_prefix(name).is_some_and(is_left)
            && self.registration.as_deref().is_none_or(is_name)
            && self.rescue.as_ref().is_none_or(|name| !name.chars().any(char::is_control))
            && self.undo.as_ref().is_none_or(Restore::is_legal)
    }

    /// A worktree that is made as another host has it. Nothing is there yet.
    pub(super) fn follow(from: Option<CommitId>, to: CommitId, aside: &Path) -> Self {
        Self {
            from: from.map(|from| from.to_string()),
            to: to.to_string(),
            files: None,
            index: None,
            aside: aside.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            keep: None,
            ignored: false,
            head: to.to_string(),
            registration: None,
            rescue: None,
            undo: None,
            follows: true,
        }
    }

    /// The commit that the branch goes to.
    pub(super) fn to(&self) -> CommitId {
        CommitId::parse_hex(&self.to).expect("checked when it was read or made")
    }

    /// The commit that the old files were based on.
    pub(super) fn head(&self) -> CommitId {
        CommitId::parse_hex(&self.head).expect("checked when it was read or made")
    }

    /// The commit that the branch was at.
    pub(super) fn from(&self) -> Option<CommitId> {
        CommitId::parse_hex(self.from.as_ref()?)
    }

    /// The trees of files and index, if they are not those of the commit.
    pub(super) fn trees(&self) -> Option<(CommitId, CommitId)> {
        Some((CommitId::parse_hex(self.files.as_ref()?)?, CommitId::parse_hex(self.index.as_ref()?)?))
    }
}

/// The state of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being made.
    Preparing,
    /// It is complete.
    Ready,
    /// It is being removed.
    Removing,
    /// It was removed.
    Removed,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Ready => "ready",
            Self::Removing => "removing",
            Self::Removed => "removed",
        }
    }
}

impl Context {
    /// Reads the context of the workspace `name` of the run `run`. An error is the reason why it is
    /// none.
    pub(crate) fn read(text: &[u8], run: &str, name: &str) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(format!("it has version {version}; this aynig knows {VERSION}")),
            None => return Err("it has no version".to_owned()),
        }
        let context: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        context.check(run, name).map(|()| context)
    }

    pub(super) fn check(&self, run: &str, name: &str) -> Result<(), String> {
        let wrong = |field: &str| Err(format!("{field} has no legal value"));
        let id = AttemptId::parse(self.run_id.as_bytes());
        if self.run_id != run || id.is_none_or(|id| id.to_string() != run) {
            return wrong("run_id");
        }
        if !is_slug_of(&self.slug, &self.run_id) {
            return wrong("slug");
        }
        if self.name != name || check_name(name).is_err() {
            return wrong("name");
        }
        let below = format!("{}/{}", self.slug, self.name);
        let branch = BranchName::new(self.branch_name.as_bytes());
        if branch.is_err() || !self.branch_name.ends_with(&format!("/{below}")) {
            return wrong("branch_name");
        }
        if !is_plain(&self.worktree_path) || !self.worktree_path.ends_with(&below) {
            return wrong("worktree_path");
        }
        if !is_plain(&self.repo_root) {
            return wrong("repo_root");
        }
        for (field, id) in [("base_sha", &self.base_sha), ("head_sha", &self.head_sha)] {
            if CommitId::parse_hex(id).is_none() {
                return wrong(field);
            }
        }
        if self.pending.as_ref().is_some_and(|pending| !pending.is_legal(&self.name)) {
            return wrong("pending");
        }
        if self.undo.as_ref().is_some_and(|undo| !undo.is_legal()) {
            return wrong("undo");
        }
        if !self.remade.iter().all(Remaking::is_legal) {
            return wrong("remade");
        }
        let published = self.published.iter().map(|one| (&one.commit, &one.head));
        let intended = self.publishing.iter().map(|one| (&one.commit, &one.head));
        let mut ids = published.chain(intended).flat_map(|(commit, head)| [commit, head]);
        if ids.any(|id| CommitId::parse_hex(id).is_none()) {
            return wrong("published");
        }
        if self.generation == 0 {
            return wrong("generation");
        }
        let optional = [self.remote_branch.as_ref(), self.pr_url.as_ref()].into_iter().flatten();
        let published = self.published.iter().flat_map(|one| [&one.remote, &one.branch, &one.base]);
        let optional = optional.chain(published);
        let texts = [&self.base_ref, &self.created_at, &self.host].into_iter().chain(optional);
        if texts.into_iter().any(|text| text.is_empty() || text.chars().any(char::is_control)) {
            return Err("a text in it is empty, or holds a control character".to_owned());
        }
        Ok(())
    }

    /// The work branch.
    pub fn branch(&self) -> BranchName {
        BranchName::new(self.branch_name.as_bytes()).expect("checked when it was read or made")
    }

    /// The run.
    pub(crate) fn run(&self) -> AttemptId {
        AttemptId::parse(self.run_id.as_bytes()).expect("checked when it was read or made")
    }

    /// The mark of its worktree.
    pub(super) fn mark(&self) -> Mark {
        Mark { attempt: self.run(), branch: self.branch(), remote: None }
    }

    /// The commit that the work began from.
    pub(crate) fn base(&self) -> CommitId {
        CommitId::parse_hex(&self.base_sha).expect("checked when it was read or made")
    }

    /// The newest commit that it is known to have.
    pub(crate) fn head(&self) -> CommitId {
        CommitId::parse_hex(&self.head_sha).unwrap_or_else(|| self.base())
    }

    /// The address of the commits that are made in it.
    pub fn address(&self) -> String {
        format!("{}+{}@{WORKSPACE_DOMAIN}", self.name, self.slug)
    }

    /// The directory with the files and the index that the last rollback could not save.
    pub fn unsaved(&self) -> Option<&Path> {
        self.undo.as_ref()?.kept.as_deref()
    }

    /// What people type: `slug/name`.
    pub fn handle(&self) -> String {
        format!("{}/{}", self.slug, self.name)
    }
}

/// The commands that show what was changed, and take it.
pub fn settles(context: &Context) -> String {
    let handle = context.handle();
    format!(
        "`aynig workspace show {handle}` shows how to undo it, `aynig workspace snapshot --accept {handle}` takes it as it is"
    )
}

/// Whether `slug` is the beginning of the run's id.
fn is_slug_of(slug: &str, run: &str) -> bool {
    slug.len() >= SHORTEST_SLUG && run.replace('-', "").starts_with(slug)
}

/// Whether a path is absolute, without `.` and `..`.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Checks the name of a workspace: it is one part of a path and of a branch name.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        Err("it is empty")
    } else if name.len() > LONGEST_NAME {
        Err("it is longer than 50 bytes")
    } else if !name.bytes().all(allowed) {
        Err("only letters, digits, dots, underscores and dashes are allowed")
    } else if name.starts_with(['.', '-']) {
        Err("it begins with a dot or a dash")
    } else if LEFT.iter().any(|mark| name.split(mark).skip(1).any(|rest| rest.starts_with(is_digit))) {
        Err("directories that a rollback leaves have such names")
    } else if BranchName::new(format!("x/{name}").as_bytes()).is_err() {
        Err("no branch can be named so")
    } else {
        Ok(())
    }
}

/// The marks of directories that a rollback leaves beside a worktree: `NAME.kept-1`, `NAME.gone-1` while it is being
/// removed, or `NAME.new-1` while it is being made. A second one of a worktree is `NAME.kept-1-2`.
const LEFT: [&str; 3] = [".kept-", ".gone-", ".new-"];

/// Whether this follows a worktree's name in the name of a directory that a rollback leaves beside it.
pub(super) fn is_left(end: &str) -> bool {
    LEFT.iter().any(|mark| end.strip_prefix(mark).is_some_and(is_numbered))
}

/// Whether a directory with this after the mark in its name is one that a rollback leaves.
pub(super) fn is_numbered(end: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(is_digit);
    end.split_once('-').map_or(is_number(end), |(generation, more)| is_number(generation) && is_number(more))
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

/// A context for tests.
#[cfg(test)]
pub(super) fn sample() -> Context {
    let sha = "1".repeat(40);
    Context {
        version: VERSION,
        repo_root: "/r".into(),
        worktree_path: "/w/0a1b2c3d/fix".into(),
        branch_name: "work/0a1b2c3d/fix".into(),
        base_ref: "refs/heads/main".into(),
        base_sha: sha.clone(),
        head_sha: sha,
        remote_branch: None,
        pr_url: None,
        published: Vec::new(),
        publishing: None,
        run_id: "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d".into(),
        created_at: "2026-01-31T12:00:00.000Z".into(),
        generation: 1,
        host: "h".into(),
        slug: "0a1b2c3d".into(),
        name: "fix".into(),
        state: State::Ready,
        settings: BTreeMap::new(),
        pending: None,
        undo: None,
        remade: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d";

    /// CONTRACT 15.3
    #[test]
    fn what_is_written_reads_back_and_nothing_else_does() {
        let text = serde_json::to_vec(&sample()).unwrap();
        assert_eq!(Context::read(&text, RUN, "fix"), Ok(sample()));
        assert!(Context::read(&text, "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4e", "fix").is_err());
        assert!(Context::read(&text, RUN, "fix2").is_err());
        for (field, value) in [
            ("version", "2"),
            ("version", "\"1\""),
            ("run_id", "\"../../x\""),
            ("slug", "\"0a1b2c3\""),
            ("slug", "\"0a1b2c3e\""),
            ("name", "\"..\""),
            ("name", "\"other\""),
            ("branch_name", "\"main\""),
            ("branch_name", "\"work/0a1b2c3d/../fix\""),
            ("worktree_path", "\"/home/me/project\""),
            ("worktree_path", "\"w/0a1b2c3d/fix\""),
            ("worktree_path", "\"/w/../0a1b2c3d/fix\""),
            ("repo_root", "\"-x\""),
            ("base_sha", "\"HEAD\""),
            ("head_sha", "7"),
            ("generation", "0"),
            ("host", "\"a\\u001b[2J\""),
            ("state", "\"done\""),
            ("extra", "1"),
            ("undo", "{\"branch\":\"main\",\"files\":\"\",\"index\":\"\",\"rescue\":null}"),
        ] {
            let mut value_of = serde_json::to_value(sample()).unwrap();
            value_of[field] = serde_json::from_str(value).unwrap();
            let text = serde_json::to_vec(&value_of).unwrap();
            assert!(Context::read(&text, RUN, "fix").is_err(), "{field} {value}");
        }
        for text in ["", "[]", "{", "null"] {
            assert!(Context::read(text.as_bytes(), RUN, "fix").is_err(), "{text}");
        }
    }

    /// CONTRACT 15.1
    #[test]
    fn names() {
        for name in ["a", "fix-1", "A.b_c", "x.kept", "y.kept-z", "z.kept-.gone-"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(51);
        for name in [
            "",
            ".",
            "..",
            "-a",
            ".a",
            "a/b",
            "a b",
            "ä",
            "a.lock",
            "a..b",
            "a.",
            "a.kept-1",
            "a.gone-2",
            "a.new-1",
            "a.gone-1.gone-x",
            "a.kept-1x",
            "a.gone-x.kept-1",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    /// CONTRACT 15.7
    #[test]
    fn names_of_leftovers() {
        for end in [".kept-1", ".gone-12", ".gone-1-2", ".kept-10-23", ".new-2"] {
            assert!(is_left(end), "{end}");
        }
        for end in [
            "",
            ".kept-",
            ".gone-x",
            ".gone-1-",
            ".gone-1-notes",
            ".gone-1.bak",
            ".gone--1",
            ".gone-1-2-3",
            "1",
        ] {
            assert!(!is_left(end), "{end}");
        }
    }
}
