//! A process of its own: started, and from then on nobody's business.
//!
//! Invariant: it holds nothing of the caller but the file it reads, and is in a session of its own, so that neither the end
//! of the caller nor that of the caller's group or session takes it along. How long it may run is its own to see to.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::session;

/// Starts `program` with these arguments and exactly this environment in `directory`; it reads `stdin`, and what it prints is not kept.
///
/// # Errors
/// Whatever starting it failed with.
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
