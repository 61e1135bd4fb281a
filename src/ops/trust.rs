//! What must come from the ref that commands are taken from (`aynig.commandsFrom`; CONTRACT 20.27, 22.31).
//!
//! Invariant: without that setting everything is taken. With it, a file that decides what an agent is told or what is run
//! is the one of that ref, byte for byte.

use std::collections::BTreeSet;
use std::path::Path;

use crate::contract::ids::{CommitId, RemoteName};
use crate::flow::base::{MAX_FILE, paths, script_directories};
use crate::flow::document::Flow;
use crate::git::Repo;
use crate::git::objects::revspec::Content;

use super::error::Error;
use super::settings;

/// The commands of the driver of a flow.
const OF_FLOW: [&str; 2] = ["flow-step", "stalled"];

/// The commands of the driver of a node.
const OF_NODE: [&str; 2] = ["orch-turn", "stalled"];

/// The directory of the commands that all runners take.
const COMMANDS: &str = ".aynig/command";

/// The ref that commands are taken from.
struct Trusted<'r> {
    repo: &'r Repo,
    name: String,
    commit: CommitId,
    /// The end of each refusal, and the advice after it.
    words: [&'static str; 2],
}

impl<'r> Trusted<'r> {
    /// `None`: commands are taken from each branch itself.
    fn of(
        repo: &'r Repo,
        remote: Option<&RemoteName>,
        words: [&'static str; 2],
    ) -> Result<Option<Self>, Error> {
        let Some(name) = settings::trust(repo)?.commands_from else { return Ok(None) };
        let commit = repo.commit_named(&name, remote);
        let commit = commit.map_err(|error| {
            let error = Error::setup(format!("aynig.commandsFrom: {error}; {}", words[0]));
            match remote {
                Some(remote) => error
                    .hint(format!("if {remote} has it, `aynig run --dry-run` fetches it; then try again")),
                None => error,
            }
        })?;
        Ok(Some(Self { repo, name, commit, words }))
    }

    fn at(&self, commit: CommitId, path: &str) -> Result<Option<Content>, Error> {
        let found = self.repo.content_at(commit, path, MAX_FILE);
        found.map_err(|error| Error::because(&format!("read {path}"), &error))
    }

    fn refused(&self, what: &str) -> Error {
        let (name, [refused, instead]) = (&self.name, self.words);
        Error::setup(format!("{what}, and aynig.commandsFrom is {name}: {refused}"))
            .hint(format!("commit it there, or {instead} where commands are not taken from {name}"))
    }

    /// Refuses a ref without these programs.
    fn check_programs<'a>(
        &self,
        directory: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Error> {
        for name in names {
            let path = format!("{directory}/{name}");
            if !matches!(self.at(self.commit, &path)?, Some(Content::File { executable: true, .. })) {
                return Err(self.refused(&format!("{} has no program {path}", self.name)));
            }
        }
        Ok(())
    }

    /// Refuses a file that is not in the ref as it is.
    fn check_file(&self, file: &Path, bytes: &[u8]) -> Result<(), Error> {
        let inside = file.canonicalize().ok();
        let inside = inside.as_deref().and_then(|file| file.strip_prefix(self.repo.top()).ok());
        let same = match inside.and_then(Path::to_str) {
            Some(path) => {
                matches!(self.at(self.commit, path)?, Some(Content::File { bytes: found, .. }) if found == bytes)
            }
            None => false,
        };
        if same {
            Ok(())
        } else {
            Err(self.refused(&format!("{} is not a file of {}", file.display(), self.name)))
        }
    }

    /// Refuses a base in which a prompt, a script or a file beside a script is another one.
    fn check_base(&self, flow: &Flow, base: CommitId) -> Result<(), Error> {
        for path in paths(flow) {
            self.check_same(&path, base)?;
        }
        let Some(path) = beside_scripts(self.repo, flow, [self.commit, base])? else { return Ok(()) };
        let name = &self.name;
        let what =
            format!("{path} of the base differs from the one of {name}, and is beside a script of the flow");
        Err(self.refused(&what))
    }

    /// Refuses a path that is something else in the base.
    fn check_same(&self, path: &str, base: CommitId) -> Result<(), Error> {
        if self.at(self.commit, path)? == self.at(base, path)? {
            return Ok(());
        }
        Err(self.refused(&format!("{path} of the base differs from the one of {}", self.name)))
    }
}

/// Refuses to carry out a step of a flow that does not come from the ref: its frozen file `bytes` must be a file of the ref,
/// and what it names the same there and in the base. A run whose base was the newest commit of the ref once, and has the
/// file, goes on when the ref has moved.
pub fn check_step(
    repo: &Repo,
    remote: Option<&RemoteName>,
    (flow, bytes): (&Flow, &[u8]),
    base: CommitId,
) -> Result<(), Error> {
    let Some(trusted) = Trusted::of(repo, remote, ["its steps are not carried out here", "run it"])? else {
        return Ok(());
    };
    let has_file = |commit: CommitId| {
        let because = |error: &dyn std::error::Error| Error::because("read the files of a commit", error);
        let tree = repo.commit(commit).map_err(|error| because(&error))?.tree;
        repo.has_file_with(tree, bytes).map_err(|error| because(&error))
    };
    let was_ref = || repo.history(trusted.commit).map_while(Result::ok).any(|one| one.id == base);
    if has_file(base)? && was_ref() {
        return Ok(());
    }
    if !has_file(trusted.commit)? {
        return Err(trusted.refused(&format!("the flow of this run is no file of {}", trusted.name)));
    }
    trusted.check_base(flow, base)
}

/// Refuses a flow that does not come from the ref: the file, the prompts and scripts that it names, and the commands of the
/// driver must be there.
pub fn check_flow(
    repo: &Repo,
    remote: Option<&RemoteName>,
    (file, bytes): (&Path, &[u8]),
    flow: &Flow,
    base: CommitId,
) -> Result<(), Error> {
    let Some(trusted) = Trusted::of(repo, remote, ["nothing was started", "start the flow"])? else {
        return Ok(());
    };
    trusted.check_programs(COMMANDS, OF_FLOW)?;
    trusted.check_file(file, bytes)?;
    trusted.check_base(flow, base)
}

/// The first file that differs between two commits and comes along with a script of a flow (CONTRACT 20.17).
fn beside_scripts(repo: &Repo, flow: &Flow, commits: [CommitId; 2]) -> Result<Option<String>, Error> {
    let directories = script_directories(flow);
    if directories.is_empty() {
        return Ok(None);
    }
    let because =
        |error: &dyn std::error::Error| Error::because("compare the base with the trusted ref", error);
    let tree = |commit| repo.commit(commit).map(|commit| commit.tree).map_err(|error| because(&error));
    let differing =
        repo.differences(tree(commits[0])?, tree(commits[1])?).map_err(|error| because(&error))?;
    let comes_along = |path: &str| {
        directories.iter().any(|directory| match directory.as_str() {
            "" => !path.contains('/'),
            above => path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')),
        })
    };
    let mut paths = differing.iter().map(|one| one.path.to_string());
    Ok(paths.find(|path| comes_along(path)))
}

/// The words of refusals about graphs.
const OF_GRAPH: [&str; 2] = ["nothing was changed", "do it"];

/// Refuses a graph whose file, if it has one, is not of the ref, or whose nodes the ref has no commands for. A node is
/// reserved to the role that is named; `None` stands for a node that is not.
pub(super) fn check_graph(
    repo: &Repo,
    file: Option<(&Path, &[u8])>,
    nodes: &BTreeSet<Option<&str>>,
) -> Result<(), Error> {
    let remote = settings::remote(repo)?;
    let Some(trusted) = Trusted::of(repo, remote.as_ref(), OF_GRAPH)? else { return Ok(()) };
    for reserved in nodes {
        let of_role = reserved.map(|role| format!(".aynig/roles/{role}/command"));
        trusted.check_programs(of_role.as_deref().unwrap_or(COMMANDS), OF_NODE)?;
    }
    file.map_or(Ok(()), |(file, bytes)| trusted.check_file(file, bytes))
}

/// Refuses the text of a role that is not the one of the ref.
pub(super) fn check_template(repo: &Repo, path: &str, base: CommitId) -> Result<(), Error> {
    let remote = settings::remote(repo)?;
    let trusted = Trusted::of(repo, remote.as_ref(), OF_GRAPH)?;
    trusted.map_or(Ok(()), |trusted| trusted.check_same(path, base))
}
