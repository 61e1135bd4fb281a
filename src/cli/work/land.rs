//! `aynig land`: a branch becomes one clean commit on another.

use bstr::ByteSlice;
use serde_json::json;

use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::inside::persons_only;
use aynig::ops::land::{self, Landed, Landing, Request, Said, Strategy};
use aynig::ops::target::branch_name;
use aynig::words::shell_quote;

use crate::cli::args::Land;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::ui::{FAINT, STRONG, styled};

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Land) -> Result<Exit, Error> {
    let request = Request {
        branch: branch_name(&arguments.branch)?,
        into: arguments.into.as_deref().map(branch_name).transpose()?,
        strategy: if arguments.merge { Strategy::Merge } else { Strategy::Squash },
        said: Said { subject: arguments.subject.clone(), body: arguments.body.clone() },
        accept_unsigned: arguments.accept_unsigned,
        unsuccessful: arguments.unsuccessful,
    };
    persons_only("landing a branch")?;
    let repo = app.repo();
    let authority = authority(&repo, arguments.remote.as_ref())?;
    let landing = land::land(&repo, &authority, &request)?;
    if arguments.json {
        ui::answer_json(&report(&request, &landing));
    }
    let branch = request.branch.to_string();
    match landing {
        Landing::Landed(landed) => {
            for warning in &landed.warnings {
                ui::warn(warning);
            }
            if !arguments.json {
                tell(&branch, &landed);
            }
        }
        Landing::Nothing { into } => {
            if !arguments.json {
                ui::answer(&ui::sanitize(&format!("nothing to land: {into} has all that {branch} has")));
            }
        }
        Landing::Conflicts { into, paths, worktree, workspace } => {
            let paths: Vec<_> = paths.iter().map(|path| path.to_str_lossy()).collect();
            // Git checks out no branch twice.
            let there =
                worktree.as_ref().map(|path| format!("cd {} && ", shell_quote(path.display().to_string())));
            let (begin, theirs, push) = match (authority.source(), worktree.and(workspace)) {
                (None, _) => {
                    let there = there.unwrap_or_else(|| format!("git switch {} && ", shell_quote(&branch)));
                    (there, into.to_string(), String::new())
                }
                (Some(remote), Some(handle)) => {
                    let there = there.unwrap_or_default();
                    let fetch = format!("git fetch {} && {there}", shell_quote(remote.as_str()));
                    (fetch, format!("{remote}/{into}"), format!(", `aynig publish {handle}`"))
                }
                // The branch of this clone may be an old one.
                (Some(remote), None) => {
                    let named = shell_quote(remote.as_str());
                    let tip = shell_quote(format!("{remote}/{branch}"));
                    let push = format!(", `git push {named} {}`", shell_quote(format!("HEAD:{branch}")));
                    (
                        format!("git fetch {named} && git switch --detach {tip} && "),
                        format!("{remote}/{into}"),
                        push,
                    )
                }
            };
            let message =
                format!("{branch} and {into} both change {}; nothing was changed", paths.join(", "));
            let theirs = shell_quote(&theirs);
            return Err(Error::failed(message)
                .hint(format!("`{begin}git merge {theirs}`, resolve, commit{push}; then land again")));
        }
    }
    Ok(Exit::Done)
}

fn tell(branch: &str, landed: &Landed) {
    ui::answer(&format!(
        "{}  ← {branch}  {}  {}",
        styled(STRONG, ui::sanitize(&landed.into.to_string())),
        ui::sanitize(&landed.subject.to_str_lossy()),
        styled(FAINT, format!("({})", landed.commit.short())),
        branch = ui::sanitize(branch),
    ));
    let went =
        landed.followed.as_ref().map(|place| format!("the checkout in {} went along", place.display()));
    // A question, a pause or a deferred state would be lost with the branch.
    let remove = match &landed.workspace {
        Some(handle) => format!("`aynig workspace remove --apply {handle}` removes the workspace"),
        None => {
            let once = if landed.is_checked_out { " once it is checked out nowhere" } else { "" };
            format!("`git branch -D {}` removes the branch{once}", shell_quote(branch))
        }
    };
    let remove = (!landed.is_open).then_some(remove);
    let next = match &landed.brings {
        Some(command) => format!("`{command}` brings it here"),
        None => went.into_iter().chain(remove).collect::<Vec<_>>().join("; "),
    };
    if !next.is_empty() {
        ui::narrate(&styled(FAINT, ui::sanitize(&next)));
    }
}

fn report(request: &Request, landing: &Landing) -> serde_json::Value {
    let (into, landed, paths) = match landing {
        Landing::Landed(landed) => (&landed.into, Some(landed), &[][..]),
        Landing::Nothing { into } => (into, None, &[][..]),
        Landing::Conflicts { into, paths, .. } => (into, None, &paths[..]),
    };
    json!({
        "branch": request.branch.to_string(),
        "into": into.to_string(),
        "landed": landed.is_some(),
        "commit": landed.map(|landed| landed.commit.to_string()),
        "parent": landed.map(|landed| landed.parent.to_string()),
        "subject": landed.map(|landed| landed.subject.to_str_lossy().into_owned()),
        "conflicts": paths.iter().map(|path| path.to_str_lossy()).collect::<Vec<_>>(),
    })
}
