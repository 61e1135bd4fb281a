//! Where the worktree of a workspace may be (CONTRACT 15.2).
//!
//! Invariant: never inside a checkout, whoever's it is, nor in the same tree as a run's directory:
//! what an agent does in its worktree then reaches neither. Symbolic links are resolved before.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use std::os::unix::ffi::OsStrExt;

/// A place that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is this directory of runs, in it, or around it.
    Runs(PathBuf),
    /// It is in this checkout.
    Checkout(PathBuf),
    /// It is in this git directory.
    Repository(PathBuf),
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Runs(runs) => {
                write!(f, "the directory of runs, {}, and it contain each other", runs.display())
            }
            Self::Checkout(top) => write!(f, "it is inside the checkout {}", top.display()),
            Self::Repository(git_dir) => write!(f, "it is inside the git directory {}", git_dir.display()),
        }
    }
}

/// Judges the directory `wanted`, which is resolved. `runs` is the directory of all runs,
/// `checkouts` are the tops of known checkouts, `git_dir` the shared git directory.
pub(crate) fn judge(wanted: &Path, runs: &Path, checkouts: &[PathBuf], git_dir: &Path) -> Option<Unfit> {
    if wanted.starts_with(runs) || runs.starts_with(wanted) {
        return Some(Unfit::Runs(runs.to_owned()));
    }
    if wanted.starts_with(git_dir) {
        return Some(Unfit::Repository(git_dir.to_owned()));
    }
    let around = checkouts.iter().find(|top| wanted.starts_with(top));
    around.map(|top| Unfit::Checkout(top.clone()))
}

/// The checkouts of any repository around `wanted`: it and the directories above it
/// that have an entry `.git`.
pub(crate) fn checkouts_around(wanted: &Path) -> Vec<PathBuf> {
    wanted
        .ancestors()
        .filter(|above| above.join(".git").symlink_metadata().is_ok())
        .map(Path::to_owned)
        .collect()
}

/// Resolves the links of a path, of which the end may not exist yet.
pub(crate) fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    let there = path.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(path);
    let there_now = there.canonicalize()?;
    // Joining nothing would add a slash, which only a directory may have.
    Ok(match path.strip_prefix(there) {
        Ok(rest) if rest != Path::new("") => there_now.join(rest),
        _ => there_now,
    })
}

/// The default directory for worktrees of the repository `git_dir`, whose top is `top`, in the
/// directory for states of this user.
pub(crate) fn default_root(states: &Path, top: &Path, git_dir: &Path) -> PathBuf {
    let name = top.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let name: String = name.strip_suffix(".git").unwrap_or(&name).chars().map(plain).collect();
    let name = name.trim_start_matches(['.', '-']);
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, git_dir.as_os_str().as_bytes()).simple().to_string();
    states.join("aynig").join(format!("{name}-{}", digest.get(..8).unwrap_or(&digest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 15.2
    #[test]
    fn places() {
        let checkouts = [PathBuf::from("/p/main"), PathBuf::from("/p/linked")];
        let judged = |wanted: &str| {
            judge(Path::new(wanted), Path::new("/d/runs"), &checkouts, Path::new("/p/main/.git"))
        };
        for fit in ["/s/w", "/p", "/p/mainly", "/d/other", "/"].into_iter().filter(|path| *path != "/") {
            assert_eq!(judged(fit), None, "{fit}");
        }
        for unfit in ["/d/runs", "/d/runs/x/w", "/d", "/"] {
            assert_eq!(judged(unfit), Some(Unfit::Runs("/d/runs".into())), "{unfit}");
        }
        assert_eq!(judged("/p/main/w"), Some(Unfit::Checkout("/p/main".into())));
        assert_eq!(judged("/p/main"), Some(Unfit::Checkout("/p/main".into())));
        assert_eq!(judged("/p/linked/deep/w"), Some(Unfit::Checkout("/p/linked".into())));
        assert_eq!(judged("/p/main/.git/w"), Some(Unfit::Repository("/p/main/.git".into())));
    }

    #[test]
    fn default_places_differ_and_are_plain() {
        let root = |top: &str, git_dir: &str| {
            let root = default_root(Path::new("/s"), Path::new(top), Path::new(git_dir));
            root.file_name().unwrap().to_string_lossy().into_owned()
        };
        let one = root("/p/a b", "/p/a b/.git");
        assert!(one.starts_with("a_b-") && one.len() == 12, "{one}");
        assert_ne!(one, root("/q/a b", "/q/a b/.git"));
        assert!(root("/srv/hub.git", "/srv/hub.git").starts_with("hub-"));
        assert!(!root("/srv/.git", "/srv/.git").starts_with('.'));
    }
}
