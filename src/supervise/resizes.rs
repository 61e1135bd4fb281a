//! News of the terminal's size.
//!
//! Invariant: the signal is handled, never blocked, as a mask would be inherited (see [`crate::stop`]). What the size is
//! now is asked by whoever hears of it.

use std::io;
use std::thread;

use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::Signals;

/// Calls `told` each time the terminal has another size, from now until the process ends.
///
/// # Errors
/// Whatever registering the handler or starting its thread failed with.
pub fn on_resize(told: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGWINCH])?;
    thread::Builder::new().name("resizes".to_owned()).spawn(move || {
        for _ in signals.forever() {
            told();
        }
    })?;
    Ok(())
}
