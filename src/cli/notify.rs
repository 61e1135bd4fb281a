//! The separate process that runs `aynig.notify` for a state set inside a command.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use aynig::ops::error::Error;
use aynig::runner::events::hook::Hook;
use aynig::runner::events::payload::{PREFIX, Payload};
use aynig::stop::Stop;

use crate::cli::exit::Exit;
use crate::cli::ui;

/// Runs the notify program `line` in `directory` for at most `limit`, and appends its output to `log`. The
/// notice is on standard input and in the environment.
pub(crate) fn tell(
    line: String,
    limit: Duration,
    log: Option<PathBuf>,
    directory: PathBuf,
) -> Result<Exit, Error> {
    let mut body = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut body)
        .map_err(|error| Error::because("read the notice", &error))?;
    let value = |name: &str| {
        std::env::var_os(format!("{PREFIX}{name}")).unwrap_or_default().to_string_lossy().into_owned()
    };
    let (variables, environment) =
        std::env::vars_os().partition(|(name, _)| name.to_string_lossy().starts_with(PREFIX));
    let about = ui::sanitize(&format!("{} {}", value("EVENT"), value("BRANCH")));
    let hook = Hook { line, limit, directory, environment, watchdog: None };
    if let Err(failure) = hook.call(&Payload { about, body, variables, log }, &Stop::manual()) {
        ui::narrate(&failure.warning);
    }
    Ok(Exit::Done)
}
