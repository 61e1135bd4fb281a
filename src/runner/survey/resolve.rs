//! Finds the command for a state in the commit that declares it (CONTRACT 2.1 to 2.7).
//!
//! Invariant: only committed commands run. The file on disk counts only for the current branch, run in place
//! (CONTRACT 2.6). With `--commands-from` only the tree of that ref counts (CONTRACT 13.1). The most common
//! beginner's mistakes (not committed, not executable) are distinguished from a missing command.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bstr::BString;

use super::verdict::{Command, CommandsFrom, Elsewhere, NoCommand, Source, Unreadable};
use crate::contract::ids::{CommitId, RoleName, StateName};
use crate::fsutil::is_executable;
use crate::git::objects::tree::{Executable, Unusable};
use crate::git::{CommitError, Repo};

/// A command, or why there is none.
pub(crate) type Resolved = Result<Arc<Command>, NoCommand>;

/// Looks up commands in trees, with a cache: most branches of a repository share a few commands and trees.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    role: Option<&'a RoleName>,
    states: HashMap<StateName, Known>,
}

/// The cache for one state.
#[derive(Debug)]
struct Known {
    /// The paths to try, in order.
    tried: Arc<[String]>,
    trees: HashMap<CommitId, Found>,
    /// The command in a checkout on disk, if any. `None` until it was looked up.
    elsewhere: Option<Option<Arc<Elsewhere>>>,
}

/// The result for one state in one tree.
#[derive(Debug, Clone)]
enum Found {
    Command(Arc<Command>),
    Unusable(String, Unusable),
    Nothing,
}

impl<'a> Resolver<'a> {
    /// Starts with an empty cache.
    pub(crate) fn new(role: Option<&'a RoleName>) -> Self {
        Self { role, states: HashMap::new() }
    }

    /// Looks up `state` in `tree`, the tree of `commit`.
    pub(crate) fn in_commit(
        &mut self,
        repo: &Repo,
        commit: CommitId,
        tree: CommitId,
        state: &StateName,
    ) -> Resolved {
        let look = |path: &str| repo.executable_at(commit, tree, path);
        match self.known(state).look_up([commit, tree], None, look)? {
            Found::Command(command) => Ok(command),
            Found::Unusable(path, what) => {
                Err(NoCommand::Unusable { path, source: Source::Head(commit), what })
            }
            Found::Nothing => Err(self.missing(repo, commit, state)),
        }
    }

    /// Explains why `state` has no command in `commit`: it may exist in a checkout on disk.
    pub(crate) fn missing(&mut self, repo: &Repo, commit: CommitId, state: &StateName) -> NoCommand {
        let role = self.role;
        let known = self.known(state);
        let elsewhere = known.elsewhere.get_or_insert_with(|| on_some_disk(repo, state, role).map(Arc::new));
        match elsewhere {
            Some(found) => NoCommand::Elsewhere { commit, found: Arc::clone(found) },
            None => NoCommand::Missing { tried: Arc::clone(&known.tried), source: Source::Head(commit) },
        }
    }

    /// Looks up `state` in the tree of `--commands-from`.
    pub(crate) fn in_trusted(
        &mut self,
        repo: &Repo,
        from: &Arc<CommandsFrom>,
        state: &StateName,
    ) -> Resolved {
        let known = self.known(state);
        let source = Source::Trusted(Arc::clone(from));
        let Some(tree) = from.tree else {
            return Err(NoCommand::Missing { tried: Arc::clone(&known.tried), source });
        };
        let look = |path: &str| repo.executable_below(tree, path.strip_prefix(".aynig/").unwrap_or(path));
        match known.look_up([from.commit, tree], Some(tree), look)? {
            Found::Command(command) => Ok(command),
            Found::Unusable(path, what) => Err(NoCommand::Unusable { path, source, what }),
            Found::Nothing => Err(NoCommand::Missing { tried: Arc::clone(&known.tried), source }),
        }
    }

    fn known(&mut self, state: &StateName) -> &mut Known {
        if !self.states.contains_key(state) {
            let tried = candidates(state, self.role).into();
            self.states.insert(state.clone(), Known { tried, trees: HashMap::new(), elsewhere: None });
        }
        self.states.get_mut(state).expect("it was put there")
    }
}

impl Known {
    /// Calls `look` for each path, until one exists in `tree`, the tree of `commit`. A command found there
    /// gets `of` as its [`Command::tree`].
    fn look_up(
        &mut self,
        [commit, tree]: [CommitId; 2],
        of: Option<CommitId>,
        look: impl Fn(&str) -> Result<Executable, CommitError>,
    ) -> Result<Found, NoCommand> {
        if let Some(found) = self.trees.get(&tree) {
            return Ok(found.clone());
        }
        let mut found = Found::Nothing;
        for path in &*self.tried {
            found = match look(path).map_err(|error| unreadable(commit, &error))? {
                Executable::Missing => continue,
                Executable::Found => Found::Command(Arc::new(Command { path: path.clone(), tree: of })),
                Executable::Unusable(what) => Found::Unusable(path.clone(), what),
            };
            break;
        }
        self.trees.insert(tree, found.clone());
        Ok(found)
    }
}

fn unreadable(commit: CommitId, error: &CommitError) -> NoCommand {
    NoCommand::Unreadable(Unreadable { commit, error: error.to_string() })
}

/// The paths to try, in order.
fn candidates(state: &StateName, role: Option<&RoleName>) -> Vec<String> {
    let mut paths = Vec::new();
    if let Some(role) = role {
        paths.push(format!(".aynig/roles/{role}/command/{state}"));
    }
    paths.push(format!(".aynig/command/{state}"));
    paths
}

/// Looks up `state` on disk, in the checkout at `top`.
pub(crate) fn on_disk(top: &Path, state: &StateName, role: Option<&RoleName>) -> Resolved {
    let tried = candidates(state, role);
    for path in &tried {
        let file = top.join(path);
        let what = match file.canonicalize() {
            Err(_) if file.is_symlink() => {
                let target = std::fs::read_link(&file).unwrap_or_default();
                Unusable::Dangling { target: path_text(&target) }
            }
            Err(_) => continue,
            Ok(found) if !is_inside(top, &found) => Unusable::Escapes { target: path_text(&found) },
            Ok(found) if found.is_dir() => Unusable::Directory,
            Ok(found) if !is_executable(&found) => Unusable::NotExecutable,
            Ok(_) => return Ok(Arc::new(Command { path: path.clone(), tree: None })),
        };
        return Err(NoCommand::Unusable { path: path.clone(), source: Source::Disk, what });
    }
    Err(NoCommand::Missing { tried: tried.into(), source: Source::Disk })
}

fn path_text(path: &Path) -> BString {
    path.display().to_string().into()
}

fn is_inside(top: &Path, found: &Path) -> bool {
    top.canonicalize().is_ok_and(|top| found.starts_with(&top) && !found.starts_with(top.join(".git")))
}

/// Looks up `state` on disk, in the checkout that the runner was started in and in the main one.
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
