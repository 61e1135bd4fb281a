//! `aynig orch approvals`: the requests of nodes, and how to answer them.

use serde::Serialize;

use aynig::git::Repo;
use aynig::model::approval::{Always, Answer, Approval, Resolution, Tool};
use aynig::model::by::{By, Signature, Signed};
use aynig::model::ids::{ApprovalId, NodeId};
use aynig::model::time::Timestamp;
use aynig::ops::approvals::{self, Asked, Which, short};
use aynig::ops::error::Error;
use aynig::ops::runs::RunId;

use crate::cli::args::OrchApprovals;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::{FAINT, STRONG, styled};

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
    expires_at: Option<Timestamp>,
    resolution: Option<&'a Resolution>,
    resolved_by: Option<&'a By>,
    signature: Option<&'a Signature>,
    always: Option<Always>,
}

fn row(one: &Asked) -> Row<'_> {
    let Asked { run, slug, alias, approval, signature, .. } = one;
    Row {
        run_id: *run,
        slug: slug.as_str(),
        alias,
        node_id: approval.node_id,
        id: approval.id,
        tool: &approval.tool,
        context: approval.context.as_deref(),
        requested_at: approval.requested_at,
        expires_at: approval.expires_at,
        resolution: approval.resolution.as_ref(),
        resolved_by: approval.resolved_by.as_ref(),
        signature: signature.as_ref(),
        always: approval.always,
    }
}

pub(super) fn requests(repo: &Repo, options: &OrchApprovals, json: bool) -> Result<Exit, Error> {
    let which = match (options.all, options.grants) {
        (true, _) => Which::All,
        (false, true) => Which::Grants,
        (false, false) => Which::Open,
    };
    let found = approvals::list(repo, which)?;
    let waits = options.exit_code && found.iter().any(|one| one.approval.is_open());
    let exit = if waits { Exit::Person } else { Exit::Done };
    if json {
        let rows = found.iter().map(row);
        ui::answer_json(&serde_json::json!({ "approvals": rows.collect::<Vec<_>>() }));
        return Ok(exit);
    }
    for one in &found {
        show(one);
    }
    if found.is_empty() {
        let nothing =
            if options.grants { "no node may do something for good" } else { "no node waits for an answer" };
        ui::remark(&styled(FAINT, nothing));
    }
    Ok(exit)
}

fn show(one: &Asked) {
    let Asked { slug, alias, approval, signature, .. } = one;
    let id = short(approval.id);
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
    if let Some(at) = approval.expires_at.filter(|_| approval.is_open()) {
        ui::answer(&format!("          expires at {at}"));
    }
    ui::answer(&format!("          {}", standing(approval, signature.as_ref(), &id)));
}

/// Where a request stands, with the line to type.
fn standing(approval: &Approval, signature: Option<&Signature>, id: &str) -> String {
    let by = approval.resolved_by.as_ref().map(|who| by(who, signature)).unwrap_or_default();
    let read =
        if approval.heard_by.is_some() { "a turn has read that" } else { "its node has not read that" };
    let revoke = format!("next  `aynig orch revoke {id}`");
    match (approval.resolution.as_ref().map(|given| given.status), approval.always) {
        (None, _) => format!("next  `aynig orch approve {id}`, or `aynig orch deny {id} --reason TEXT`"),
        (Some(_), Some(Always::Call)) => format!("allowed for good{by}, with these arguments; {revoke}"),
        (Some(_), Some(Always::Tool)) => format!("allowed for good{by}, with any arguments; {revoke}"),
        (Some(Answer::Approved), None) => format!("approved{by}; {read}"),
        (Some(Answer::Modified), None) => format!("approved with other arguments{by}; {read}"),
        (Some(Answer::Denied), None) => format!("denied{by}; {read}"),
        (Some(Answer::Expired), None) => "nobody answered in time".to_owned(),
        (Some(Answer::Withdrawn), None) => "no longer asked".to_owned(),
    }
}

/// The author of an answer, and how sure that is.
fn by(by: &By, signature: Option<&Signature>) -> String {
    let By::Person { name, email, runner, .. } = by else { return String::new() };
    let how = match signature.map(|signature| signature.state) {
        Some(Signed::Good) => "signed",
        Some(Signed::Bad) => "badly signed",
        Some(Signed::Unknown) => "signed, which could not be checked",
        None => "says it is; not signed",
    };
    ui::sanitize(&format!(" by {name} <{email}> at {runner} ({how})"))
}
