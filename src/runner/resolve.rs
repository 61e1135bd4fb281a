//! Which command a state means: looked up in the commit that declares it (CONTRACT.md §2).
//!
//! Invariant: what is run is what was committed. Only for a checkout's own branch, run in place, does the file on
//! disk count. The commonest beginner's mistakes (not committed, not executable) get their own words.

use std::path::Path;

use crate::contract::ids::{CommitId, RoleName, StateName};
use crate::git::tree::Executable;
use crate::git::{CommitError, Repo};

/// The command for a state, relative to the top of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// `.aynig/command/<state>` or `.aynig/roles/<role>/command/<state>`.
    pub path: String,
}

/// Why there is no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCommand {
    /// The reason, and how to mend it.
    pub reason: String,
    /// Whether somebody meant there to be one: worth a warning, where the end of a workflow is not.
    pub mistake: bool,
}

impl NoCommand {
    fn mistake(reason: String) -> Self {
        Self { reason, mistake: true }
    }

    fn none(reason: String) -> Self {
        Self { reason, mistake: false }
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
        return Ok(Err(NoCommand::mistake(problem)));
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
        return Ok(Command { path: path.clone() });
    }
    Err(NoCommand::none(format!("no command for this state: {} does not exist", paths.join(" and "))))
}

/// "Not in the tree", in words that depend on whether it lies on disk, and whether it was ever committed there.
fn missing(repo: &Repo, commit: CommitId, paths: &[String]) -> NoCommand {
    let here = repo.checkout().into_iter().chain(repo.main_checkout());
    for checkout in here {
        let Some(path) = paths.iter().find(|path| checkout.path.join(path).is_file()) else { continue };
        let committed = repo
            .checkout_head(&checkout)
            .is_some_and(|head| !matches!(repo.executable_at(head, path), Ok(Executable::Missing)));
        let commit_it = if committed { String::new() } else { format!("`git add {path}`, commit it, ") };
        let reason = format!(
            "{path} exists in {} but not in commit {}; a branch runs the commands of its own commits, so {commit_it}\
             bring it into this branch (`git merge`), and ask again (`aynig set-state --retry`)",
            checkout.path.display(),
            commit.short(),
        );
        return NoCommand { reason, mistake: !committed };
    }
    NoCommand::none(format!(
        "no command for this state: {} is not in commit {}",
        paths.join(" or "),
        commit.short()
    ))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
