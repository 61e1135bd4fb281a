//! `aynig run --dry-run`: what one pass would do now (CONTRACT 11.27).
//!
//! Invariant: branches are judged by the survey and shown in the words of `aynig status`. Nothing is written,
//! but a remote is fetched from, since an older answer could be wrong.

use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::status::{Seen, preview};
use aynig::ops::view::branch::{Act, BranchView};
use aynig::ops::{authority, settings, target};
use aynig::runner::passes::pass::Summary;
use aynig::runner::pluralize;
use serde_json::{Value, json};

use crate::cli::args::Run;
use crate::cli::exit::Exit;
use crate::cli::look::status::table;
use crate::cli::ui;
use crate::cli::ui::columns::cell;
use crate::cli::ui::signals;
use crate::cli::ui::{CARE, FAINT, GOOD, styled};
use crate::cli::work::run::{configured, named, summary_json, warning_json};

/// Shows the plan.
pub(crate) fn run(app: &App, arguments: &Run) -> Result<Exit, Error> {
    let repo = app.repo();
    for text in settings::unknown(&repo) {
        ui::warn(&text);
    }
    let (_, options, authority) = configured(app, arguments)?;
    signals::end_calls(&repo)?;
    signals::say_when_waiting(repo.interrupt(), &authority, ui::remark);
    let named = named(arguments);
    let seen = preview(&repo, &authority, options, !named.is_empty())?;
    target::all_exist(&repo, &authority, &named)?;
    let warning = authority::unset(&repo, &authority).map(|unset| unset.warning());
    if let Some(warning) = &warning {
        ui::warn(&warning.to_string());
    }
    if arguments.json {
        let mut summary = Summary::default();
        summary.branches = seen.rows.len() + seen.unmanaged;
        let warnings = warning.iter().map(|warning| warning_json(None, warning)).collect();
        let plan: Vec<Value> = seen.rows.iter().map(plan_json).collect();
        ui::answer_json(&summary_json(&summary, warnings, &plan));
        return Ok(Exit::Done);
    }
    for (row, line) in seen.rows.iter().zip(table::plain(&seen.rows)) {
        let (word, style) = match row.act {
            Act::Nothing => ("-", FAINT),
            Act::Close => (row.act.word(), CARE),
            Act::Run | Act::Deliver => (row.act.word(), GOOD),
        };
        ui::answer(&format!("{}  {line}", styled(style, cell(word, "deliver".len()))));
    }
    ui::remark(&styled(FAINT, sum(&seen)));
    Ok(Exit::Done)
}

/// The plan in one line: `would run 2 commands; nothing was changed`.
fn sum(seen: &Seen) -> String {
    let count = |act| seen.rows.iter().filter(|row| row.act == act).count();
    let parts = [(Act::Run, "command"), (Act::Close, "expired lease"), (Act::Deliver, "deferred state")];
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(act, what)| (act, count(act), what))
        .filter(|(_, count, _)| *count > 0)
        .map(|(act, count, what)| format!("{} {}", act.word(), pluralize(count, what)))
        .collect();
    let looked = pluralize(seen.rows.len() + seen.unmanaged, "branch");
    if parts.is_empty() {
        return format!("nothing to do on {looked}");
    }
    format!("would {}, of {looked}; nothing was changed", parts.join(", "))
}

fn plan_json(row: &BranchView) -> Value {
    json!({
        "branch": row.branch,
        "commit": row.commit,
        "state": row.state,
        "kind": row.label(),
        "action": row.act.word(),
        "command": row.command,
        "note": row.reason,
        "cause": row.cause,
    })
}
