//! Calls of the binary by itself, for processes that outlive a command or the runner.
//!
//! Invariant: they are not subcommands, so help, completion and hints never show them. A call that this
//! program did not make (typed by a user) reports that and does nothing.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::stat::{SFlag, fstat};

use aynig::ops::error::Error;
use aynig::ops::notify::{NOTIFY, has_notice};
use aynig::stop::survive_size_limit;
use aynig::supervise::watchdog;
use aynig::workspace::{DISCARD, discard};

use super::notify;
use crate::cli::exit::Exit;
use crate::cli::ui::logging;
use crate::cli::ui::logging::Level;

/// The watchdog, which stops the commands of a killed runner. `run` starts it, with a pipe on which it
/// reports them.
pub(crate) const WATCHDOG: &str = "__watchdog";

/// Longer than any path, in bytes.
const LONGEST_PATH: u64 = 65_536;

/// Makes the internal call that this process was started for, if any.
pub(crate) fn call() -> Option<Result<Exit, Error>> {
    let mut words = std::env::args_os().skip(1);
    let name = words.next()?;
    if name == WATCHDOG {
        Some(guard(words.next()))
    } else if name == NOTIFY {
        Some(tell(words.collect()))
    } else if name == DISCARD {
        Some(remove(words.next()))
    } else {
        None
    }
}

fn guard(more: Option<OsString>) -> Result<Exit, Error> {
    let piped = fstat(std::io::stdin())
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO);
    if more.is_some() || !piped {
        return Err(by_hand(
            WATCHDOG,
            "`aynig run` starts it, to end the commands of a runner that is killed",
        ));
    }
    let served = watchdog::serve(std::io::stdin().lock());
    Ok(if served.is_ok() { Exit::Done } else { Exit::Bug })
}

fn remove(more: Option<OsString>) -> Result<Exit, Error> {
    let mut path = Vec::new();
    let read = std::io::stdin().take(LONGEST_PATH).read_to_end(&mut path);
    if more.is_none() && read.is_ok() && discard(Path::new(OsStr::from_bytes(&path))) {
        return Ok(Exit::Done);
    }
    Err(by_hand(DISCARD, "`aynig workspace rollback` starts it, to remove what was saved"))
}

fn tell(words: Vec<OsString>) -> Result<Exit, Error> {
    let refused = || by_hand(NOTIFY, "`aynig set-state` inside a command starts it, to run aynig.notify");
    let told = words.len() <= 3 && has_notice();
    let mut words = words.into_iter();
    let line = words.next().and_then(|word| word.into_string().ok());
    let seconds = words.next().and_then(|word| word.to_str()?.parse().ok());
    let (true, Some(line), Some(seconds)) = (told, line, seconds) else { return Err(refused()) };
    let (level, _) = Level::choose(None, std::env::var("LOG_LEVEL").ok().as_deref());
    logging::start(level);
    survive_size_limit().map_err(|error| Error::because("listen for signals", &error))?;
    let directory =
        std::env::current_dir().map_err(|error| Error::because("find the working directory", &error))?;
    notify::tell(line, Duration::from_secs(seconds), words.next().map(PathBuf::from), directory)
}

fn by_hand(name: &str, whose: &str) -> Error {
    Error::usage(format!("{name} is not for people: {whose}; nothing was done"))
        .hint("`aynig --help` lists the subcommands there are")
}
