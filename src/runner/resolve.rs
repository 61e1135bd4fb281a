//! Which command a state means: looked up in the commit that declares it (CONTRACT.md §2).
//!
//! Invariant: what is run is what was committed. Only for a checkout's own branch, run in place, does the file on
//! disk count, and with `--commands-from` nothing but the tree that names. The commonest beginner's mistakes (not committed, not executable) get their own words.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::contract::alike::slip_of;
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
    /// A command that the tree does have, whose name is so near that it may have been meant.
    pub alike: Option<String>,
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
        Self { reason, pause: Pause::Mistake, alike: None }
    }

    fn none(reason: String, alike: Option<String>) -> Self {
        let reason = match &alike {
            None => reason,
            Some(alike) => format!("{reason}; did you mean {alike}?"),
        };
        Self { reason, pause: Pause::Rests, alike }
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
    known: HashMap<(CommitId, StateName), Lookup>,
    /// What the tree that all commands come from says of a state, where there is one.
    trusted: HashMap<StateName, Resolved>,
    /// What a state may be a slip for, by the tree of an `.aynig`, which far more branches share than a whole tree.
    near: HashMap<(CommitId, StateName), Option<String>>,
    elsewhere: HashMap<StateName, Option<Elsewhere>>,
}

/// What was found in a tree.
#[derive(Debug, Clone)]
enum Lookup {
    Resolved(Resolved),
    Missing { alike: Option<String> },
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
        Self {
            role,
            known: HashMap::new(),
            trusted: HashMap::new(),
            near: HashMap::new(),
            elsewhere: HashMap::new(),
        }
    }

    /// Looks in the tree of `commit`.
    pub fn in_tree(
        &mut self,
        repo: &Repo,
        commit: &Stored,
        state: &StateName,
    ) -> Result<Resolved, CommitError> {
        let key = (commit.tree, state.clone());
        let lookup = match self.known.get(&key) {
            Some(lookup) => lookup.clone(),
            None => {
                let lookup = match look_up(repo, commit, state, self.role)? {
                    Some(resolved) => Lookup::Resolved(resolved),
                    None => {
                        let directory = repo.directory_in(commit.tree, ".aynig")?;
                        Lookup::Missing { alike: directory.and_then(|tree| self.alike_in(repo, tree, state)) }
                    }
                };
                self.known.insert(key, lookup.clone());
                lookup
            }
        };
        match lookup {
            Lookup::Resolved(resolved) => Ok(resolved),
            Lookup::Missing { alike } => Ok(Err(self.missing(repo, commit.id, state, alike))),
        }
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
        let resolved = match look_up_trusted(repo, from, state, self.role)? {
            Ok(resolved) => resolved,
            Err(missing) => {
                let alike = from.tree.and_then(|tree| self.alike_in(repo, tree, state));
                Err(NoCommand::none(missing, alike))
            }
        };
        self.trusted.insert(state.clone(), resolved.clone());
        Ok(resolved)
    }

    fn alike_in(&mut self, repo: &Repo, aynig: CommitId, state: &StateName) -> Option<String> {
        let near = self.near.entry((aynig, state.clone()));
        near.or_insert_with(|| slip_of(&names(repo, aynig), state.as_str())).clone()
    }

    /// "Not in the tree", in words that depend on whether it lies on disk, and whether it was ever committed there.
    fn missing(
        &mut self,
        repo: &Repo,
        commit: CommitId,
        state: &StateName,
        alike: Option<String>,
    ) -> NoCommand {
        let role = self.role;
        let elsewhere =
            self.elsewhere.entry(state.clone()).or_insert_with(|| on_some_disk(repo, state, role));
        let Some(Elsewhere { path, checkout, committed }) = elsewhere else {
            let paths = candidates(state, role).join(" or ");
            let reason = format!("no command for this state: {paths} is not in commit {}", commit.short());
            return NoCommand::none(reason, alike);
        };
        let commit_it = if *committed { String::new() } else { format!("`git add {path}`, commit it, ") };
        let reason = format!(
            "{path} exists in {} but not in commit {}; a branch runs the commands of its own commits, so {commit_it}\
             bring it into this branch (`git merge`), and ask again (`aynig set-state --retry`)",
            checkout.display(),
            commit.short(),
        );
        let pause = if *committed { Pause::Waits } else { Pause::Mistake };
        NoCommand { reason, pause, alike: None }
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

/// What the tree that all commands come from has for a state; that it has nothing comes as the words for that.
fn look_up_trusted(
    repo: &Repo,
    from: &CommandsFrom,
    state: &StateName,
    role: Option<&RoleName>,
) -> Result<Result<Resolved, String>, CommitError> {
    let paths = candidates(state, role);
    let (name, commit) = (&from.name, from.commit.short());
    for path in &paths {
        let (Some(tree), Some(below)) = (from.tree, path.strip_prefix(".aynig/")) else { break };
        let problem = match repo.executable_below(tree, below)? {
            Executable::Found => return Ok(Ok(Ok(Command { path: path.clone(), tree: Some(tree) }))),
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
        return Ok(Ok(Err(NoCommand::mistake(reason))));
    }
    Ok(Err(format!(
        "no command for this state: {} is not in {name} (commit {commit}), where commands come from (--commands-from, \
         aynig.commandsFrom)",
        paths.join(" or "),
    )))
}

/// The names of all commands in the tree of an `.aynig`, whatever role they are for; none if it cannot be read.
fn names(repo: &Repo, aynig: CommitId) -> Vec<String> {
    let paths = repo.paths_in(aynig).unwrap_or_default();
    paths.iter().filter_map(|path| Some(format!("/{path}").split_once("/command/")?.1.to_owned())).collect()
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
    let here = std::fs::read_dir(top.join(".aynig/command")).into_iter().flatten().flatten();
    let here: Vec<String> = here.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let reason = format!("no command for this state: {} does not exist", paths.join(" and "));
    Err(NoCommand::none(reason, slip_of(&here, state.as_str())))
}

/// Whether a command for `state` lies in the checkout we were started in, or in the main one.
fn on_some_disk(repo: &Repo, state: &StateName, role: Option<&RoleName>) -> Option<Elsewhere> {
    let paths = candidates(state, role);
    repo.checkout().into_iter().chain(repo.main_checkout()).find_map(|checkout| {
        let path = paths.iter().find(|path| checkout.path.join(path).is_file())?;
        let committed = repo.checkout_head(&checkout).is_some_and(|head| {
            let found = repo.commit(head).and_then(|stored| repo.executable_at(head, stored.tree, path));
            !matches!(found, Ok(Executable::Missing))
        });
        Some(Elsewhere { path: path.clone(), checkout: checkout.path, committed })
    })
}
