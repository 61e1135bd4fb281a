//! The output of a call that is only waited for.

use std::fs::File;
use std::io::{ErrorKind, Read, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How much is read at once, in bytes.
const PART: usize = 64 * 1024;

/// stdout and stderr of a child.
#[derive(Debug)]
pub(super) struct Outputs([(Option<File>, Vec<u8>); 2]);

impl Outputs {
    /// Takes the pipes of a child.
    pub(super) fn of(child: &mut Child) -> Self {
        let stdout = child.stdout.take().map(|end| File::from(OwnedFd::from(end)));
        let stderr = child.stderr.take().map(|end| File::from(OwnedFd::from(end)));
        Self([(stdout, Vec::new()), (stderr, Vec::new())])
    }

    /// Reads until both have ended, or until nothing came for `slice`. Returns whether both have ended.
    pub(super) fn read(&mut self, slice: Duration) -> Result<bool> {
        let slice = PollTimeout::try_from(slice).unwrap_or(PollTimeout::MAX);
        let mut part = [0; PART];
        loop {
            let open: Vec<&File> = self.0.iter().filter_map(|(end, _)| end.as_ref()).collect();
            if open.is_empty() {
                return Ok(true);
            }
            let mut ends: Vec<PollFd<'_>> =
                open.iter().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN)).collect();
            match poll(&mut ends, slice) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut is_ready =
                ends.iter().map(|end| end.any().unwrap_or(true)).collect::<Vec<_>>().into_iter();
            for (end, bytes) in &mut self.0 {
                let Some(file) = end else { continue };
                if is_ready.next() != Some(true) {
                    continue;
                }
                match file.read(&mut part) {
                    Ok(0) => *end = None,
                    Ok(count) => bytes.extend_from_slice(part.get(..count).unwrap_or_default()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// What was read.
    pub(super) fn taken(self) -> [Vec<u8>; 2] {
        self.0.map(|(_, bytes)| bytes)
    }
}
