//! Starts a process that outlives its starter and is not supervised.
//!
//! Invariant: it shares only its stdin file with the caller, and runs in its own session. So it
//! survives the end of the caller and of the caller's process group and session. It must limit its
//! own run time.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::session;

/// Starts `program` with exactly this environment in `directory`. It reads `stdin`; its output is
/// discarded.
///
/// # Errors
/// Any error from starting it.
pub fn detach(
    program: &Path,
    args: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: &Path,
    stdin: File,
) -> io::Result<()> {
    duct::cmd(program, args)
        .full_env(environment)
        .dir(directory)
        .stdin_file(stdin)
        .stdout_null()
        .stderr_null()
        .unchecked()
        .before_spawn(|command| {
            session::begin(command);
            Ok(())
        })
        .start()
        .map(drop)
}
