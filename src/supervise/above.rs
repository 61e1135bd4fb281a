//! The processes above this one. What they began with is still to be read from `/proc`, whatever this one has made of
//! its own environment.

use std::fs;

use nix::unistd::getppid;

use crate::session::Place;

/// The most processes that are looked at: numbers may be used again meanwhile.
const MOST: usize = 1_000;

/// A process above this one. What cannot be read is empty.
#[derive(Debug)]
pub(crate) struct Above {
    /// Its command line, as it was started.
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Its variables, `NAME=VALUE`, as it was started.
    pub(crate) environment: Vec<Vec<u8>>,
}

/// The processes above this one, the nearest first; none where there is no `/proc`.
pub(crate) fn above() -> impl Iterator<Item = Above> {
    from(getppid().as_raw())
}

/// A process and those above it, the nearest first.
pub(crate) fn from(pid: i32) -> impl Iterator<Item = Above> {
    let first = Some(pid);
    let all = std::iter::successors(first, |pid| Place::of(*pid).map(|place| place.parent));
    all.take_while(|pid| *pid > 0).take(MOST).map(|pid| {
        let texts = |file: &str| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
        };
        Above { arguments: texts("cmdline"), environment: texts("environ") }
    })
}
