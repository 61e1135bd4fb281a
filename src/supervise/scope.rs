//! The processes that the end of one command takes along: its group, or all that a leashed one has
//! started.

use nix::sys::signal::Signal;

use super::finished::Leftover;
use super::group;
use super::tree::Tree;

/// Which processes are ended.
#[derive(Debug)]
pub(super) enum Scope {
    /// The group and the session of its leader.
    Group(i32),
    /// Everything that a leashed program has started.
    Tree(Tree),
}

impl Scope {
    /// See [`group::terminate`] and [`Tree::terminate`]. A group names nobody.
    pub(super) fn terminate(&self) -> Vec<Leftover> {
        match self {
            Self::Group(pgid) => group::terminate(*pgid),
            Self::Tree(tree) => return tree.terminate(),
        }
        Vec::new()
    }

    /// See [`group::signal`] and [`Tree::kill`]. A group names nobody.
    pub(super) fn kill(&self) -> Vec<Leftover> {
        match self {
            Self::Group(pgid) => group::signal(*pgid, Signal::SIGKILL),
            Self::Tree(tree) => return tree.kill(),
        }
        Vec::new()
    }

    /// Whether no process lives in it.
    pub(super) fn is_deserted(&self) -> bool {
        match self {
            Self::Group(pgid) => group::is_deserted(*pgid),
            Self::Tree(tree) => tree.is_deserted(),
        }
    }

    /// Whether its numbers may be reused. Stricter than [`Self::is_deserted`] for a group.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Group(pgid) => group::is_gone(*pgid),
            Self::Tree(tree) => tree.is_deserted(),
        }
    }

    /// Who is alive; a group names nobody.
    pub(super) fn living(&self) -> Vec<Leftover> {
        match self {
            Self::Group(_) => Vec::new(),
            Self::Tree(tree) => tree.living(),
        }
    }
}
