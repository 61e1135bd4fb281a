//! `aynig publish`: the work of a run becomes a branch of a remote, and a proposal.

use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::publish::{self, Asked, Published};
use aynig::ops::target::branch_name;
use aynig::ops::view::published::PublishedView;
use aynig::ops::{runs, workspace};
use aynig::publish::{Fate, Proposal};

use crate::cli::args::Publish;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::{authority, end_calls, shutdown};
use crate::cli::ui::{FAINT, STRONG, styled, warn};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Publish) -> Result<Exit, Error> {
    publish::check_caller()?;
    let repo = app.repo();
    let (workspaces, undone) = workspace::open(&repo, &app.process, shutdown()?, true, warn)?;
    undone.iter().for_each(|words| warn(words));
    end_calls(&repo)?;
    let asked = Asked {
        run: &arguments.run_name,
        node: arguments.node.as_deref(),
        base: arguments.into.as_deref().map(branch_name).transpose()?,
        branch: arguments.branch.as_deref().map(branch_name).transpose()?,
        squash: arguments.squash,
        draft: arguments.draft,
        unsuccessful: arguments.unsuccessful,
        remote: arguments.remote.as_ref(),
    };
    let fetch = || -> Result<(), Error> {
        let authority = authority(&repo, None)?;
        runs::update(&repo, authority.source()).iter().for_each(|trouble| warn(trouble));
        Ok(())
    };
    let published = publish::publish(&repo, &workspaces, &asked, fetch)?;
    published.notes.iter().for_each(|words| warn(words));
    if arguments.json {
        ui::answer_json(&PublishedView::of(&published));
    } else {
        answer(&published);
    }
    Ok(Exit::Done)
}

fn answer(published: &Published) {
    let Published { context, remote, branch, base, commit, .. } = published;
    let Some(commit) = commit else {
        let words = format!("nothing to publish: {base} of {remote} has all of {}", context.branch_name);
        ui::answer(&ui::sanitize(&words));
        return;
    };
    let word = if published.is_pushed { "pushed" } else { "up to date" };
    ui::answer(&format!(
        "{}  {word}  {}",
        styled(STRONG, ui::sanitize(&branch.to_string())),
        styled(FAINT, ui::sanitize(&format!("{remote}, {}; to be merged into {base}", commit.short())))
    ));
    match &published.proposal {
        Some((Proposal { url, .. }, fate)) => {
            let word = match fate {
                Fate::Created => "created",
                Fate::Updated => "updated",
                Fate::Found => "open",
            };
            ui::answer(&format!("{}  {word}", ui::sanitize(url)));
        }
        None => {
            if let Some(page) = &published.compares {
                ui::answer(&ui::sanitize(page));
            }
        }
    }
}
