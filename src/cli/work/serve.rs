//! `aynig serve`: starts the server, and prints links to it.

use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::inside::persons_only;
use aynig::server::{self, Options};

use crate::cli::args::Serve;
use crate::cli::exit::Exit;
use crate::cli::internal::WATCHDOG;
use crate::cli::ui::signals::{authority, shutdown};
use crate::cli::ui::{self, warn};

/// Runs the subcommand.
pub(crate) fn run(app: App, arguments: &Serve) -> Result<Exit, Error> {
    let repo = app.repo();
    if arguments.url {
        persons_only("printing a link")?;
        ui::answer(&server::link(&repo)?);
        return Ok(Exit::Done);
    }
    let authority = authority(&repo, None)?;
    let top = repo.top().display().to_string();
    let server = server::open(
        app,
        Options {
            listen: arguments.listen,
            allow_remote: arguments.allow_remote,
            remote: authority.source().cloned(),
            watchdog: WATCHDOG,
            stop: shutdown()?,
            tell: warn,
        },
    )?;
    ui::answer(&server.link());
    ui::remark(&format!(
        "serving {top} until Ctrl-C; the link begins one session within a minute, `aynig serve --url` prints another"
    ));
    server.run()?;
    Ok(Exit::Done)
}
