//! Finds a worktree that somebody moved (CONTRACT 15.22).

use std::path::{Path, PathBuf};

use crate::git::worktrees::registration::{Registered, Workplace};
use crate::words::shell_quote;

use super::context::{Context, is_left};

/// Whether the worktree of a workspace was moved: the fault, and the command that mends it. Anything that makes the
/// worktree anew would take it off git's list, and its files would be neither saved nor found again.
pub(super) fn moved(context: &Context, registered: &[Registered]) -> Option<(String, String)> {
    let (path, mark) = (&context.worktree_path, context.mark());
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_leftover = |at: &Path| name(at).strip_prefix(&name(path)).is_some_and(is_left);
    // Git knows nothing of a plain `mv`.
    let beside = path.parent().filter(|_| !is_directory).and_then(|above| above.read_dir().ok());
    let beside: Vec<PathBuf> = beside.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let mut all = registered.iter().filter(|one| one.workspace() == Some(&mark));
    let there = all.find_map(|one| {
        let Workplace { path: listed, git_dir } = &one.checkout.place;
        let is_its =
            |at: &Path| Workplace { path: at.to_owned(), git_dir: git_dir.clone() }.names_its_registration();
        if is_directory && is_its(path) {
            return None;
        }
        let link = path.read_link().ok().and_then(|_| path.canonicalize().ok());
        let mut places = [Some(listed), link.as_ref()].into_iter().flatten().chain(&beside);
        places.find(|at| *at != path && !is_leftover(at) && is_its(at)).cloned()
    })?;
    let shown = |path: &Path| shell_quote(path.display().to_string());
    let (from, to) = (shown(&there), shown(path));
    let clear = match path.symlink_metadata() {
        Ok(_) => format!("take {to} out of the way; then "),
        Err(_) => String::new(),
    };
    let next = format!("{clear}`mv -T {from} {to} && git worktree repair {to}` puts it back");
    Some((format!("its worktree was moved to {}", there.display()), next))
}
