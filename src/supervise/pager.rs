//! Runs the user's pager on their terminal.
//!
//! Invariant: while the pager runs, this process survives Ctrl-C. Otherwise the pager would be left
//! in the foreground with the terminal in the mode it had set. The caller decides which program to
//! run, and whether to page at all.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;

/// Characters that need a shell; the list is git's.
const SHELL: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', ' ', '\t', '\n', '*', '?', '[', '#', '~',
    '=', '%',
];

/// A running pager, with a pipe to its stdin.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    input: Option<ChildStdin>,
}

impl Pager {
    /// Starts `command`: directly if it is one word, else with `sh -c`. Sets `LESS=FRX` and `LV=-c`
    /// unless they are set, as git does: show colours, exit if all fits on the screen, leave the
    /// screen as it is.
    ///
    /// # Errors
    /// The error from registering the handler or starting the pager.
    pub fn start(command: &str) -> io::Result<Self> {
        let mut pager = if command.contains(SHELL) { shell(command) } else { program(command) };
        for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
            if std::env::var_os(name).is_none() {
                pager.env(name, value);
            }
        }
        signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
        let mut child = pager.stdin(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// Writes to the pager; returns false once it has stopped reading.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.input.as_mut().is_some_and(|input| input.write_all(bytes).is_ok())
    }

    /// Closes the pipe and waits until the pager exits; returns whether it exited with 0.
    pub fn end(mut self) -> bool {
        drop(self.input.take());
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Pager {
    /// Closes the pipe and waits until the user quits the pager.
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.child.wait() {
            tracing::debug!(%error, "the pager could not be waited for");
        }
    }
}

/// A program of the person at the terminal.
#[expect(clippy::disallowed_methods, reason = "a pager is the person's own program, started here alone")]
pub(super) fn program(name: &str) -> Command {
    Command::new(name)
}

fn shell(command: &str) -> Command {
    let mut shell = program("sh");
    shell.args(["-c", command]);
    shell
}
