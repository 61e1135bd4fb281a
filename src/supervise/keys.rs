//! The keyboard of a terminal, while a picture is shown on it.
//!
//! Invariant: what is typed is not shown and comes key by key until this is dropped; then the terminal is as it was. The keys that send
//! signals go on doing so, but for Ctrl-\. A process in the background leaves the terminal alone: it is somebody else's. What a key means is
//! left to `cli`.

use std::io::{self, IsTerminal, Read};
use std::thread;

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use signal_hook::consts::SIGTSTP;
use signal_hook::iterator::Signals;

/// Which of the special characters is the one that sends SIGQUIT.
#[expect(clippy::as_conversions, reason = "nix has no other way to index with it")]
const QUIT: usize = SpecialCharacterIndices::VQUIT as usize;

/// What a special character is that no key stands for.
const DISABLED: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

/// What Ctrl-\ is as a key.
pub const CONTROL_BACKSLASH: u8 = 0x1c;

/// A terminal whose keys come one by one.
pub struct Keyboard {
    before: Termios,
}

impl Keyboard {
    /// Takes the terminal on standard input; none if that is no terminal, or not ours now.
    #[must_use]
    pub fn take() -> Option<Self> {
        let input = io::stdin();
        if !is_ours() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON);
        // Ctrl-\ would end us with a core dump and the picture still up: it comes as a key.
        silent.control_chars[QUIT] = DISABLED;
        tcsetattr(&input, SetArg::TCSADRAIN, &silent).ok()?;
        Some(Self { before })
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.before) {
            tracing::debug!(%error, "the terminal could not be given back");
        }
    }
}

/// Whether standard input is a terminal, and this process in front of it.
fn is_ours() -> bool {
    let input = io::stdin();
    input.is_terminal() && tcgetpgrp(&input) == Ok(getpgrp())
}

/// Calls `told` for each byte that is typed, until it returns false or there is no more; never, where the terminal is not ours now: to read
/// from it would stop us.
///
/// # Errors
/// Whatever starting its thread failed with.
pub fn on_key(told: impl Fn(u8) -> bool + Send + 'static) -> io::Result<()> {
    if !is_ours() {
        return Ok(());
    }
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        for byte in io::stdin().lock().bytes() {
            if !byte.is_ok_and(&told) {
                return;
            }
        }
    })?;
    Ok(())
}

/// Calls `told` when the process is asked to stop for a while (Ctrl-Z), which it then no longer does by itself: [`suspend`] does.
///
/// # Errors
/// Whatever registering the handler or starting its thread failed with.
pub fn on_suspend(told: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGTSTP])?;
    thread::Builder::new().name("suspends".to_owned()).spawn(move || {
        for _ in signals.forever() {
            told();
        }
    })?;
    Ok(())
}

/// Stops this process until it is told to go on.
pub fn suspend() {
    if let Err(error) = signal_hook::low_level::emulate_default_handler(SIGTSTP) {
        tracing::debug!(%error, "could not stop for a while");
    }
}
