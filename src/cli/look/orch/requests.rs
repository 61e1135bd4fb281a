//! `aynig orch approvals`: the requests of nodes, and how to answer them.

use serde::Serialize;

use aynig::git::Repo;
use aynig::model::approval::{Answer, Resolution, Tool};
use aynig::model::by::By;
use aynig::model::ids::{ApprovalId, NodeId};
use aynig::model::time::Timestamp;
use aynig::ops::approvals::{self, Asked};
use aynig::ops::error::Error;
use aynig::ops::runs::RunId;

use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::{FAINT, STRONG, styled};

/// The part of an id that people type.
const SHORT: usize = 8;

/// A request in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    run_id: RunId,
    slug: &'a str,
    alias: &'a str,
    node_id: NodeId,
    id: ApprovalId,
    tool: &'a Tool,
    context: Option<&'a str>,
    requested_at: Timestamp,
    resolution: Option<&'a Resolution>,
    resolved_by: Option<&'a By>,
}

fn row(one: &Asked) -> Row<'_> {
    let Asked { run, slug, alias, approval } = one;
    Row {
        run_id: *run,
        slug: slug.as_str(),
        alias,
        node_id: approval.node_id,
        id: approval.id,
        tool: &approval.tool,
        context: approval.context.as_deref(),
        requested_at: approval.requested_at,
        resolution: approval.resolution.as_ref(),
        resolved_by: approval.resolved_by.as_ref(),
    }
}

pub(super) fn requests(repo: &Repo, all: bool, json: bool) -> Result<Exit, Error> {
    let found = approvals::list(repo, all)?;
    if json {
        let rows = found.iter().map(row);
        ui::answer_json(&serde_json::json!({ "approvals": rows.collect::<Vec<_>>() }));
        return Ok(Exit::Done);
    }
    for one in &found {
        show(one);
    }
    if found.is_empty() {
        ui::remark(&styled(FAINT, "no node waits for an answer"));
    }
    Ok(Exit::Done)
}

fn show(one: &Asked) {
    let Asked { slug, alias, approval, .. } = one;
    let id: String = approval.id.to_string().chars().take(SHORT).collect();
    let tool = ui::sanitize(&approval.tool.name);
    ui::answer(&format!("{}  {slug}/{alias}  {tool}", styled(STRONG, &id)));
    for (name, value) in &approval.tool.args {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for (at, line) in text.lines().enumerate() {
            let lead = if at == 0 { format!("{}: ", ui::sanitize(name)) } else { "  ".to_owned() };
            ui::answer(&format!("          {lead}{}", ui::sanitize(line)));
        }
    }
    for line in approval.context.iter().flat_map(|text| text.lines()) {
        ui::answer(&format!("          {}", styled(FAINT, ui::sanitize(line))));
    }
    let words = match approval.resolution.as_ref().map(|given| given.status) {
        None => format!("next  `aynig orch approve {id}`, or `aynig orch deny {id} --reason TEXT`"),
        Some(Answer::Approved) => "approved; its node has not read that".to_owned(),
        Some(Answer::Modified) => "approved with other arguments; its node has not read that".to_owned(),
        Some(Answer::Denied) => "denied; its node has not read that".to_owned(),
        Some(Answer::Expired | Answer::Withdrawn) => "no longer asked".to_owned(),
    };
    ui::answer(&format!("          {words}"));
}
