//! Diagnostics on stderr through `tracing`, separate from the narration of `ui`. They may quote foreign text,
//! so control sequences are made visible.

use std::io::{self, Write};
use std::str::FromStr;

use tracing::level_filters::LevelFilter;

use crate::cli::ui::escapes::shown;

/// The levels of the option, `LOG_LEVEL` and `dwp-log-level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Level {
    /// Nothing.
    Off,
    /// Only errors.
    Error,
    /// Also warnings.
    Warn,
    /// Also progress.
    Info,
    /// Also why branches are passed over.
    Debug,
    /// Also every call of git.
    Trace,
}

impl Level {
    /// The level's name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// Chooses the level: `--log-level`, then `LOG_LEVEL`, then `error`. The second value is an invalid
    /// `LOG_LEVEL`.
    pub(crate) fn choose(flag: Option<Self>, variable: Option<&str>) -> (Self, Option<String>) {
        match (flag, variable) {
            (Some(level), _) => (level, None),
            (None, None | Some("")) => (Self::Error, None),
            (None, Some(text)) => match text.parse() {
                Ok(level) => (level, None),
                Err(()) => (Self::Error, Some(text.to_owned())),
            },
        }
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "off" | "none" => Ok(Self::Off),
            "error" => Ok(Self::Error),
            "warn" | "warning" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(()),
        }
    }
}

/// The subscriber's writer, which takes one event at a time.
struct Events(io::Stderr);

impl Write for Events {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // A failure cannot be reported anywhere; tracing would panic over it.
        drop(self.0.write_all(&shown(event)));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Starts diagnostics at `level`.
pub(crate) fn start(level: Level) {
    let filter = match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let ansi = io::IsTerminal::is_terminal(&io::stderr());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_writer(|| Events(io::stderr()))
        .with_ansi(ansi)
        // The place in the sources is for those who look for progress.
        .with_target(level > Level::Warn)
        .without_time();
    // A second start, in tests, has no effect.
    drop(subscriber.try_init());
}
