//! A person's pager, between us and their terminal.
//!
//! Invariant: while it runs a Ctrl-C is its own: it would be left behind in the foreground if we died of it, with the
//! terminal as it has set it. Which program it is, and whether one is wanted, is left to `git` and `cli`.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;

/// What makes a shell necessary.
const SHELL: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', ' ', '\t', '\n', '*', '?', '[', '#', '~',
    '=', '%',
];

/// A pager that reads what is written to it.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    input: Option<ChildStdin>,
}

impl Pager {
    /// Starts `command`, a command line for `sh` unless it is one word. As git does, it tells `less` to show colours, to end by itself
    /// when all fits on the screen, and to leave that as it is, unless `LESS` says something else.
    ///
    /// # Errors
    /// What kept it from being started.
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

    /// Writes to it; says whether it still reads.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.input.as_mut().is_some_and(|input| input.write_all(bytes).is_ok())
    }

    /// Nothing more will come: waits for its end, and says whether it ended well.
    pub fn end(mut self) -> bool {
        drop(self.input.take());
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Pager {
    /// Nothing more will come: waits until the person has seen enough.
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.child.wait() {
            tracing::debug!(%error, "the pager could not be waited for");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a pager is the person's own program, started here alone")]
fn program(name: &str) -> Command {
    Command::new(name)
}

fn shell(command: &str) -> Command {
    let mut shell = program("sh");
    shell.args(["-c", command]);
    shell
}
