//! `aynig set-working`: takes or renews a lease by hand.

use aynig::clock;
use aynig::ops::app::App;
use aynig::ops::declare::{self, LeaseRequest, WrittenLease};
use aynig::ops::error::Error;
use aynig::ops::view::declared::WrittenLeaseView;
use aynig::ops::view::lease::runner_words;
use aynig::words::shell_quote;

use crate::cli::args::SetWorking;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::ui::{FAINT, styled};
use crate::cli::work::by_hand::{advise, content, onto, transition};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &SetWorking) -> Result<Exit, Error> {
    let options = &arguments.commit;
    let content = content(options, &app.process.start)?;
    let repo = app.repo();
    let authority = authority(&repo, options.remote.as_ref())?;
    let request = LeaseRequest {
        onto: onto(arguments.name.as_deref(), options)?,
        seconds: arguments.lease_seconds,
        content,
    };
    let landed = declare::lease(&repo, &authority, &request)?;
    let WrittenLease { written, lease, fresh } = &landed;
    advise(&written.advice);
    let until = clock::format_utc(lease.expires_at());
    if options.json {
        ui::answer_json(&WrittenLeaseView::from(&landed));
    } else {
        let more = format!(", attempt {} of {} until {until}", lease.run_id, runner_words(lease));
        ui::answer(&transition(written, &more));
        if *fresh {
            // As the lease's holder, whom a guarded server lets push.
            let branch = shell_quote(&written.branch);
            let remote =
                authority.source().map(|remote| format!("AYNIG_REMOTE={} ", shell_quote(remote.as_str())));
            let remote = remote.unwrap_or_default();
            let line = format!(
                "end it with `AYNIG_BRANCH={branch} {remote}AYNIG_RUN_ID={} aynig set-state --state STATE`",
                lease.run_id
            );
            ui::narrate(&styled(FAINT, ui::sanitize(&line)));
        }
    }
    Ok(Exit::Done)
}
