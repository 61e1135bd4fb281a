//! A session of its own for a program that is to be started.
//!
//! Invariant: such a program leads a process group of the same number and has no terminal. What asks a question on the
//! terminal of somebody else's foreground (a passphrase, whether to trust a host) is stopped there until a person notices;
//! without one it fails at once.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the program begin a session; its group must not be chosen otherwise.
#[expect(
    unsafe_code,
    reason = "pre_exec runs between fork and exec; its hook takes no lock or memory and makes one async-signal-safe call"
)]
pub fn begin(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe, and an error is made from a number.
    unsafe {
        command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into));
    }
}
