//! `aynig set-state`: one commit that declares the next state of a branch.

use aynig::ops::app::App;
use aynig::ops::declare::{self, Onto, StateRequest, Wanted};
use aynig::ops::error::Error;
use aynig::ops::notify;
use aynig::ops::view::declared::WrittenView;

use crate::cli::args::SetState;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::work::by_hand::{advise, content, onto, transition, warn};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &SetState) -> Result<Exit, Error> {
    let options = &arguments.commit;
    // Before stdin is waited for.
    declare::check(arguments.state.as_ref(), &options.trailer)?;
    let content = content(options, &app.process.start)?;
    let repo = app.repo();
    let authority = authority(&repo, options.remote.as_ref())?;
    let wanted = match arguments.state.clone() {
        Some(state) => Wanted::State { state, content },
        None => Wanted::Retry,
    };
    let request = StateRequest { onto: Onto { force: arguments.force, ..onto(options)? }, wanted };
    let written = declare::state(&repo, &authority, &request)?;
    advise(&written.advice);
    if options.json {
        ui::answer_json(&WrittenView::from(&written));
    } else {
        ui::answer(&transition(&written, ""));
    }
    if let Err(warning) = notify::announce(&repo, &app.process, authority.source(), &written) {
        warn(&warning);
    }
    Ok(Exit::Done)
}
