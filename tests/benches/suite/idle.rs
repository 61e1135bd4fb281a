//! A pass that finds nothing to do, compared with the one git command that reads the same commits.

use super::measure::measure;
use super::room::Room;
use super::{Row, Sizes};

/// As many branches as requested. Each HEAD declares `state`, which has no command.
pub(super) fn case(sizes: &Sizes, state: Option<&str>) -> Row {
    let room = Room::new();
    let branches: Vec<String> = (0..sizes.branches).map(|n| format!("b{n}")).collect();
    let repository = room.repository("repository", 0, &branches, state);
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let format = "--format=%(refname) %(objectname) %(trailers:key=dwp-state)";
        let mut listing = room.program("git", &repository);
        listing.args(["for-each-ref", format, "refs/heads"]);
        git.push(measure(&mut room.other(sizes, &repository, &["run"]).unwrap_or(listing)));
        ours.push(measure(&mut room.aynig(&repository, &["run"])));
    }
    let what = match state {
        None => format!("idle pass, {} branches that declare nothing", sizes.branches),
        Some(_) => format!("idle pass, {} branches whose state has no command", sizes.branches),
    };
    Row { what, steps: None, git, ours, other: None }
}
