//! Which command a state means: looked up in the commit that declares it (CONTRACT.md §2).
//!
//! Invariant: what is run is what was committed. Only for a checkout's own branch, run in place, does the file on
//! disk count, and with `--commands-from` nothing but the tree that names. The commonest beginner's mistakes (not committed, not executable) get their own words.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::contract::ids::{CommitId, RoleName, StateName};
use crate::fsutil::is_executable;
use crate::git::commit::Stored;
use crate::git::tree::Executable;
use crate::git::{CommitError, Repo};

use super::trust::CommandsFrom;

/// The command for a state, relative to the top of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// `.aynig/command/<state>` or `.aynig/roles/<role>/command/<state>`.
    pub path: String,
    /// The tree of the `.aynig` it is in, where that is not the branch's own.
    pub tree: Option<CommitId>,
}

/// Why there is no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCommand {
    /// The reason, and how to mend it.
    pub reason: String,
    /// What kind of reason it is.
    pub pause: Pause,
}

/// What kind of reason there is for not running a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It has no command, as the end of a workflow has none: there work rests.
    Rests,
    /// Something is in the way here and now.
    Waits,
    /// Somebody meant it to run: worth a warning.
    Mistake,
}

impl NoCommand {
    fn mistake(reason: String) -> Self {
        Self { reason, pause: Pause::Mistake }
    }

    fn none(reason: String) -> Self {
        Self { reason, pause: Pause::Rests }
    }
}

/// A command, or why there is none.
pub type Resolved = Result<Command, NoCommand>;

/// The paths that are tried, in order.
pub fn candidates(state: &StateName, role: Option<&RoleName>) -> Vec<String> {
    let mut paths = Vec::new();
    if let Some(role) = role {
        paths.push(format!(".aynig/roles/{role}/command/{state}"));
    }
    paths.push(format!(".aynig/command/{state}"));
    paths
}

/// Looks commands up in trees, each of them once: most branches of a repository have the same few.
#[derive(Debug)]
pub struct Resolver<'a> {
    role: Option<&'a RoleName>,
    /// `None`: the tree has nothing for that state.
    known: HashMap<(CommitId, StateName), Option<Resolved>>,
    /// What the tree that all commands come from says of a state, where there is one.
    trusted: HashMap<StateName, Resolved>,
    elsewhere: HashMap<StateName, Option<Elsewhere>>,
}

/// A command that is not in the tree it was looked for in, but in a checkout on disk.
#[derive(Debug, Clone)]
struct Elsewhere {
    path: String,
    checkout: PathBuf,
    committed: bool,
}

impl<'a> Resolver<'a> {
    /// With nothing known yet.
    pub fn new(role: Option<&'a RoleName>) -> Self {
        Self { role, known: HashMap::new(), trusted: HashMap::new(), elsewhere: HashMap::new() }
    }

    /// Looks in the tree of `commit`.
    pub fn in_tree(
        &mut self,
        repo: &Repo,
        commit: &Stored,
        state: &StateName,
    ) -> Result<Resolved, CommitError> {
        let key = (commit.tree, state.clone());
        let found = match self.known.get(&key) {
            Some(found) => found.clone(),
            None => {
                let found = look_up(repo, commit, state, self.role)?;
                self.known.insert(key, found.clone());
                found
            }
        };
        Ok(found.unwrap_or_else(|| Err(self.missing(repo, commit.id, state))))
    }

    /// Looks in the tree that all commands come from, the same for as long as this lives.
    pub fn in_trusted(
        &mut self,
        repo: &Repo,
        from: &CommandsFrom,
        state: &StateName,
    ) -> Result<Resolved, CommitError> {
        if let Some(resolved) = self.trusted.get(state) {
            return Ok(resolved.clone());
        }
        let resolved = look_up_trusted(repo, from, state, self.role)?;
        self.trusted.insert(state.clone(), resolved.clone());
        Ok(resolved)
    }

    /// "Not in the tree", in words that depend on whether it lies on disk, and whether it was ever committed there.
    fn missing(&mut self, repo: &Repo, commit: CommitId, state: &StateName) -> NoCommand {
        let role = self.role;
        let elsewhere =
            self.elsewhere.entry(state.clone()).or_insert_with(|| on_some_disk(repo, state, role));
        let Some(Elsewhere { path, checkout, committed }) = elsewhere else {
            let paths = candidates(state, role).join(" or ");
            let reason = format!("no command for this state: {paths} is not in commit {}", commit.short());
            return NoCommand::none(reason);
        };
        let commit_it = if *committed { String::new() } else { format!("`git add {path}`, commit it, ") };
        let reason = format!(
            "{path} exists in {} but not in commit {}; a branch runs the commands of its own commits, so {commit_it}\
             bring it into this branch (`git merge`), and ask again (`aynig set-state --retry`)",
            checkout.display(),
            commit.short(),
        );
        let pause = if *committed { Pause::Waits } else { Pause::Mistake };
        NoCommand { reason, pause }
    }
}

/// What the tree of `commit` has for a state; `None` if that is nothing.
fn look_up(
    repo: &Repo,
    commit: &Stored,
    state: &StateName,
    role: Option<&RoleName>,
) -> Result<Option<Resolved>, CommitError> {
    for path in &candidates(state, role) {
        let problem = match repo.executable_at(commit.id, commit.tree, path)? {
            Executable::Found => return Ok(Some(Ok(Command { path: path.clone(), tree: None }))),
            Executable::Missing => continue,
            Executable::NotExecutable => format!(
                "{path} is committed without the executable bit; on that branch: `chmod +x {path} && git add --chmod=+x {path} && \
                 aynig set-state --retry`"
            ),
            Executable::Directory => format!("{path} is a directory, not a command"),
            Executable::Submodule => {
                format!("{path} lies in a submodule; commands must be in the branch's own tree")
            }
            Executable::Escapes { target } => {
                format!(
                    "{path} is a link to {target}, which leaves the tree; commands must be in the branch's own tree"
                )
            }
            Executable::Dangling { target } => {
                format!("{path} is a link to {target}, which is not in the tree")
            }
        };
        return Ok(Some(Err(NoCommand::mistake(problem))));
    }
    Ok(None)
}

/// What the tree that all commands come from has for a state.
fn look_up_trusted(
    repo: &Repo,
    from: &CommandsFrom,
    state: &StateName,
    role: Option<&RoleName>,
) -> Result<Resolved, CommitError> {
    let paths = candidates(state, role);
    let (name, commit) = (&from.name, from.commit.short());
    for path in &paths {
        let (Some(tree), Some(below)) = (from.tree, path.strip_prefix(".aynig/")) else { break };
        let problem = match repo.executable_below(tree, below)? {
            Executable::Found => return Ok(Ok(Command { path: path.clone(), tree: Some(tree) })),
            Executable::Missing => continue,
            Executable::NotExecutable => "is committed without the executable bit".to_owned(),
            Executable::Directory => "is a directory, not a command".to_owned(),
            Executable::Submodule => "lies in a submodule; commands must be in the tree itself".to_owned(),
            Executable::Escapes { target } => {
                format!(
                    "is a link to {target}, which leaves .aynig/; with --commands-from it must stay in there"
                )
            }
            Executable::Dangling { target } => format!("is a link to {target}, which is not there"),
        };
        let reason = format!("{path} of {name} (commit {commit}), where commands come from, {problem}");
        return Ok(Err(NoCommand::mistake(reason)));
    }
    Ok(Err(NoCommand::none(format!(
        "no command for this state: {} is not in {name} (commit {commit}), where commands come from (--commands-from, \
         aynig.commandsFrom)",
        paths.join(" or "),
    ))))
}

/// Looks on disk, in the checkout at `top`.
pub fn on_disk(top: &Path, state: &StateName, role: Option<&RoleName>) -> Resolved {
    let paths = candidates(state, role);
    for path in &paths {
        let file = top.join(path);
        let Ok(found) = file.canonicalize() else {
            if file.is_symlink() {
                return Err(NoCommand::mistake(format!("{path} is a link to something that is not there")));
            }
            continue;
        };
        let inside = top
            .canonicalize()
            .is_ok_and(|top| found.starts_with(&top) && !found.starts_with(top.join(".git")));
        if !inside {
            return Err(NoCommand::mistake(format!(
                "{path} is a link to {}, which is outside the checkout",
                found.display()
            )));
        }
        if found.is_dir() {
            return Err(NoCommand::mistake(format!("{path} is a directory, not a command")));
        }
        if !is_executable(&found) {
            return Err(NoCommand::mistake(format!("{path} is not executable; run `chmod +x {path}`")));
        }
        return Ok(Command { path: path.clone(), tree: None });
    }
    Err(NoCommand::none(format!("no command for this state: {} does not exist", paths.join(" and "))))
}

/// Whether a command for `state` lies in the checkout we were started in, or in the main one.
fn on_some_disk(repo: &Repo, state: &StateName, role: Option<&RoleName>) -> Option<Elsewhere> {
    let paths = candidates(state, role);
    repo.checkout().into_iter().chain(repo.main_checkout()).find_map(|checkout| {
        let path = paths.iter().find(|path| checkout.path.join(path).is_file())?;
        let committed = repo.checked_out(&checkout).is_some_and(|head| {
            let found = repo.commit(head).and_then(|stored| repo.executable_at(head, stored.tree, path));
            !matches!(found, Ok(Executable::Missing))
        });
        Some(Elsewhere { path: path.clone(), checkout: checkout.place.path, committed })
    })
}
