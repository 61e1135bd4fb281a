//! All processes of a leashed program: those below its keeper, and those that have its marker in
//! their environment.
//!
//! Invariants: only processes of the tree are signalled, never this process or one that is older
//! than the keeper. That nothing is left below a keeper is known by the keeper's exit, not by a
//! list, which a process that forks may escape.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::getpid;

use super::finished::Leftover;
use super::group;
use crate::clock::Stopwatch;
use crate::session::{Place, processes};

/// How long one call of [`Tree::kill`] goes after processes that come while it kills. A process
/// that forks and exits over and over is only hit within microseconds after it was seen.
const CHASE: Duration = Duration::from_millis(10);

/// The processes of one leashed program.
#[derive(Debug)]
pub(super) struct Tree {
    keeper: i32,
    /// The start of the keeper; 0 if it is gone already.
    began: u64,
    marker: String,
    /// Whether a process outside of the keeper's tree was ever found.
    has_escaped: AtomicBool,
}

/// What one look found.
struct Found {
    below: Vec<(i32, Place)>,
    /// Processes with the marker that are not below the keeper.
    escaped: Vec<(i32, Place)>,
}

impl Found {
    fn all(self) -> Vec<(i32, Place)> {
        self.below.into_iter().chain(self.escaped).collect()
    }
}

impl Tree {
    pub(super) fn of(keeper: i32, marker: String) -> Self {
        let began = Place::of(keeper).map_or(0, |place| place.began);
        Self { keeper, began, marker, has_escaped: AtomicBool::new(false) }
    }

    /// Whether no process of the tree lives. Lists all processes only once the keeper has exited.
    pub(super) fn is_deserted(&self) -> bool {
        // A process forked while the list is read, whose parent then exits, is missing from that
        // list.
        let is_empty = || self.look().escaped.is_empty();
        !self.is_kept() && is_empty() && (!self.has_escaped.load(Ordering::Relaxed) || is_empty())
    }

    /// Sends SIGTERM, then SIGCONT so that a stopped process acts on it; gits at work end first.
    /// Returns who was alive then.
    pub(super) fn terminate(&self) -> Vec<Leftover> {
        group::let_gits_end(|| self.look().all());
        let all = self.look().all();
        let named = named(&all);
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            all.iter().for_each(|(pid, _)| group::signal_one(*pid, signal));
        }
        named
    }

    /// Sends SIGKILL, and again for a moment to what appears meanwhile. Returns who was alive.
    pub(super) fn kill(&self) -> Vec<Leftover> {
        let Found { below, escaped } = self.look();
        let mut named = named(&below);
        named.extend(self::named(&escaped));
        // The program began a session of its own, so these groups have no other members. A fork
        // cannot escape from a signal to its group.
        let groups: BTreeSet<i32> = below.iter().map(|(_, place)| place.group).collect();
        groups.into_iter().for_each(|pgid| group::signal(pgid, Signal::SIGKILL));
        below.iter().chain(&escaped).for_each(|(pid, _)| group::signal_one(*pid, Signal::SIGKILL));
        if self.is_kept() {
            // A keeper that somebody stopped reaps nothing.
            group::signal_one(self.keeper, Signal::SIGCONT);
            self.chase();
        }
        named
    }

    /// Kills the keeper's children until it has none: what they leave becomes the keeper's.
    fn chase(&self) {
        let (watch, keeper) = (Stopwatch::start(), self.keeper);
        while watch.elapsed() < CHASE {
            let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"));
            let children = children.unwrap_or_default();
            if children.is_empty() {
                return;
            }
            for pid in children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
                group::signal_one(pid, Signal::SIGKILL);
            }
            std::thread::yield_now();
        }
    }

    /// Who is alive.
    pub(super) fn living(&self) -> Vec<Leftover> {
        named(&self.look().all())
    }

    fn is_kept(&self) -> bool {
        Place::of(self.keeper).is_some_and(|place| place.lives() && place.began == self.began)
    }

    fn look(&self) -> Found {
        let keeper = self.is_kept().then_some(self.keeper);
        let all: BTreeMap<i32, Place> = processes()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|pid| Place::of(pid).map(|place| (pid, place)))
            .collect();
        let (own, user) = (getpid().as_raw(), owner("self"));
        let (mut below, mut escaped) = (Vec::new(), Vec::new());
        for (pid, place) in &all {
            if !place.lives() || *pid == own || place.began < self.began {
                continue;
            }
            if keeper.is_some_and(|keeper| descends(*pid, keeper, &all)) {
                below.push((*pid, *place));
            } else if owner(&pid.to_string()) == user && has(*pid, self.marker.as_bytes()) {
                escaped.push((*pid, *place));
            }
        }
        if !escaped.is_empty() {
            self.has_escaped.store(true, Ordering::Relaxed);
        }
        Found { below, escaped }
    }
}

/// Whether `ancestor` is above `pid`. The list is not of one moment, so its parents may form a
/// circle.
fn descends(pid: i32, ancestor: i32, all: &BTreeMap<i32, Place>) -> bool {
    let mut at = pid;
    for _ in 0..all.len() {
        match all.get(&at).map(|place| place.parent) {
            Some(parent) if parent == ancestor => return true,
            Some(parent) => at = parent,
            None => return false,
        }
    }
    false
}

/// The user that a process belongs to.
fn owner(pid: &str) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid())
}

/// The living processes of this user that began with the variable `marker` in their environment.
pub(super) fn marked(marker: &str) -> Vec<(i32, Place)> {
    let user = owner("self");
    let all = processes().unwrap_or_default().into_iter();
    let living = all.filter_map(|pid| Place::of(pid).filter(|place| place.lives()).map(|place| (pid, place)));
    living.filter(|(pid, _)| owner(&pid.to_string()) == user && has(*pid, marker.as_bytes())).collect()
}

/// Whether a process began with the variable `marker` in its environment.
fn has(pid: i32, marker: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|pair| pair == marker))
}

fn named(all: &[(i32, Place)]) -> Vec<Leftover> {
    all.iter().map(|(pid, _)| Leftover { pid: *pid, name: name(*pid) }).collect()
}

/// The name by which the program was called; the kernel's name for it if that cannot be read.
fn name(pid: i32) -> String {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = read("cmdline");
    let called =
        String::from_utf8_lossy(line.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    match Path::new(&called).file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => String::from_utf8_lossy(&read("comm")).trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descent_follows_parents_and_survives_circles() {
        let place = Place::of(getpid().as_raw());
        let Some(place) = place else { return };
        let parents = [(2, 1), (5, 2), (6, 5), (9, 1), (11, 12), (12, 11)];
        let all = parents.into_iter().map(|(pid, parent)| {
            let mut place = place;
            place.parent = parent;
            (pid, place)
        });
        let all = all.collect();
        let below: Vec<i32> =
            [2, 5, 6, 9, 11, 12, 77].into_iter().filter(|pid| descends(*pid, 2, &all)).collect();
        assert_eq!(below, [5, 6]);
    }
}
