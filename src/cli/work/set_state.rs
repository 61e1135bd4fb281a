//! `aynig set-state`: one commit that declares the next state of a branch.

use aynig::ops::app::App;
use aynig::ops::declare::{self, Content, Onto, StateRequest, Wanted};
use aynig::ops::error::Error;
use aynig::ops::notify;
use aynig::ops::view::declared::WrittenView;

use crate::cli::args::SetState;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::work::by_hand::{advise, content, onto, text, transition, warn};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &SetState) -> Result<Exit, Error> {
    let options = &arguments.commit;
    // Before stdin is read, which may block.
    declare::check(arguments.state.as_ref(), &options.text.trailer)?;
    let content = content(options, &app.process.start)?;
    let reply = text(arguments.reply.as_ref(), arguments.reply_file.as_deref(), &app.process.start)?;
    if reply.as_ref().is_some_and(|reply| reply.trim_ascii().is_empty()) {
        return Err(Error::usage("the reply is empty; nothing was changed")
            .hint("to keep the body as it is: `--keep-body` instead of `--reply`"));
    }
    let repo = app.repo();
    let authority = authority(&repo, options.remote.as_ref())?;
    let wanted = match arguments.state.clone() {
        Some(state) => {
            let keep_body = arguments.keep_body || reply.is_some();
            let (body, lease_seconds) = (reply.or(content.body), arguments.lease_seconds);
            Wanted::State { state, content: Content { keep_body, body, lease_seconds, ..content } }
        }
        None => Wanted::Retry { lease_seconds: arguments.lease_seconds, reply },
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
