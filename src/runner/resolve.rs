//! Which command a state means: looked up in the commit that declares it (CONTRACT.md §2).
//!
//! Invariant: what is run is what was committed. Only for a checkout's own branch, run in place, does the file on
//! disk count. The commonest beginner's mistakes (not committed, not executable) get their own words.

use std::path::{Path, PathBuf};

use crate::contract::ids::{CommitId, RoleName, StateName};
use crate::git::tree::Executable;
use crate::git::{CommitError, Repo};

/// The command for a state, relative to the top of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// `.aynig/command/<state>` or `.aynig/roles/<role>/command/<state>`.
    pub path: String,
}

/// A command, or why there is none.
pub type Resolved = Result<Command, String>;

/// The paths that are tried, in order.
pub fn candidates(state: &StateName, role: Option<&RoleName>) -> Vec<String> {
    let mut paths = Vec::new();
    if let Some(role) = role {
        paths.push(format!(".aynig/roles/{role}/command/{state}"));
    }
    paths.push(format!(".aynig/command/{state}"));
    paths
}

/// Looks in the tree of `commit`.
pub fn in_tree(
    repo: &Repo,
    commit: CommitId,
    state: &StateName,
    role: Option<&RoleName>,
) -> Result<Resolved, CommitError> {
    let paths = candidates(state, role);
    for path in &paths {
        let problem = match repo.executable_at(commit, path)? {
            Executable::Found => return Ok(Ok(Command { path: path.clone() })),
            Executable::Missing => continue,
            Executable::NotExecutable => format!(
                "{path} is committed without the executable bit; run `git update-index --chmod=+x {path}` and commit"
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
        return Ok(Err(problem));
    }
    Ok(Err(missing(repo, commit, &paths)))
}

/// Looks on disk, in the checkout at `top`.
pub fn on_disk(top: &Path, state: &StateName, role: Option<&RoleName>) -> Resolved {
    let paths = candidates(state, role);
    for path in &paths {
        let file = top.join(path);
        let Ok(found) = file.canonicalize() else {
            if file.is_symlink() {
                return Err(format!("{path} is a link to something that is not there"));
            }
            continue;
        };
        let inside = top
            .canonicalize()
            .is_ok_and(|top| found.starts_with(&top) && !found.starts_with(top.join(".git")));
        if !inside {
            return Err(format!("{path} is a link to {}, which is outside the checkout", found.display()));
        }
        if found.is_dir() {
            return Err(format!("{path} is a directory, not a command"));
        }
        if !is_executable(&found) {
            return Err(format!("{path} is not executable; run `chmod +x {path}`"));
        }
        return Ok(Command { path: path.clone() });
    }
    Err(format!("no command for this state: {} does not exist", paths.join(" and ")))
}

/// The words for "not in the tree", which depend on whether it lies on disk.
fn missing(repo: &Repo, commit: CommitId, paths: &[String]) -> String {
    let checkouts: Vec<PathBuf> = repo
        .checkout()
        .map(|here| here.path)
        .into_iter()
        .chain((!repo.is_bare()).then(|| repo.top().to_owned()))
        .collect();
    for path in paths {
        if let Some(top) = checkouts.iter().find(|top| top.join(path).is_file()) {
            return format!(
                "{path} exists in {} but not in commit {}; commands run from the branch's own commits, so \
                 `git add {path}`, commit it, and bring that commit into this branch",
                top.display(),
                commit.short(),
            );
        }
    }
    format!("no command for this state: {} is not in commit {}", paths.join(" or "), commit.short())
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
