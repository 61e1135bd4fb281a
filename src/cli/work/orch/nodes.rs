//! `aynig orch node`: a person makes, changes, steers and removes nodes.

use aynig::git::Repo;
use aynig::model::decide::{Decided, Steer};
use aynig::model::node::{CliPermissions, EdgeManagement};
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::graph_new::{near_role, no_text};
use aynig::ops::nodes::{self, Changed, Settings};
use aynig::ops::runs::runners;
use aynig::words::{shell_quote, shows_rescued};

use super::changed;
use crate::cli::args::{Manages, NodeSettings, OneNode, OrchNode, OrchNodeVerb, Permits};
use crate::cli::exit::Exit;
use crate::cli::ui::{self, warn};
use crate::cli::work::flow_runs::{found, opened};

/// Runs the subcommand.
pub(super) fn run(app: &App, repo: &Repo, node: &OrchNode, json: bool) -> Result<Exit, Error> {
    match &node.verb {
        OrchNodeVerb::Add(options) => {
            let run = found(repo, &options.run_name)?;
            let mut settings = settings(&options.settings);
            (settings.role, settings.provider) =
                (Some(options.role.as_str()), Some(options.provider.as_str()));
            settings.reserve_role = options.reserve_role;
            let added = nodes::add(&opened(app, repo)?, run, options.alias.as_deref(), &settings)?;
            if added.is_textless {
                let (run, alias) = (shell_quote(&options.run_name), &added.alias);
                let sets = near_role(&options.role)
                    .map(|near| format!(" `aynig orch node set {run} {alias} --role {near}` sets it"));
                ui::remark(&format!("{}{}", no_text(&options.role), sets.unwrap_or_default()));
            }
            added.lacks.iter().for_each(|words| warn(words));
            changed(&added.decided, &format!("node {} is made", added.alias), json)
        }
        OrchNodeVerb::Set(options) => {
            let run = found(repo, &options.one.run_name)?;
            let mut settings = settings(&options.settings);
            (settings.role, settings.provider) = (options.role.as_deref(), options.provider.as_deref());
            let Changed { decided, lacks, textless } =
                nodes::set(&opened(app, repo)?, run, &options.one.alias, &settings)?;
            textless.iter().for_each(|role| ui::remark(&no_text(role)));
            lacks.iter().for_each(|words| warn(words));
            changed(&decided, &format!("{} has it from its next turn on", options.one.alias), json)
        }
        OrchNodeVerb::Start(one) => {
            let decided = steer(app, repo, one, Steer::Start)?;
            if decided.events.is_empty() && !json {
                let node = decided.state.nodes.values().find(|node| node.alias.as_str() == one.alias);
                let by = runners(node.map(|node| decided.state.reserved_role(node.id)));
                ui::remark(&format!("{} may take turns already; {by} its turns", one.alias));
                return Ok(Exit::Done);
            }
            changed(&decided, &format!("{} may take turns", one.alias), json)
        }
        OrchNodeVerb::Stop(one) => {
            let decided = steer(app, repo, one, Steer::Stop)?;
            rests(&decided, (one, json), "is stopped")
        }
        OrchNodeVerb::Interrupt(one) => {
            let decided = steer(app, repo, one, Steer::Interrupt)?;
            rests(&decided, (one, json), "is interrupted, and rests until a person sends it a message")
        }
        OrchNodeVerb::Reset(one) => {
            let decided = steer(app, repo, one, Steer::Reset)?;
            if json || decided.events.is_empty() {
                return changed(&decided, "", json);
            }
            ui::remark(&format!("the next turn of {} begins a new session", one.alias));
            Ok(Exit::Done)
        }
        OrchNodeVerb::Remove(one) => remove(app, repo, one, json),
    }
}

fn settings(given: &NodeSettings) -> Settings<'_> {
    Settings {
        role: None,
        provider: None,
        label: given.label.as_deref(),
        model: given.model.as_deref(),
        prompt: None,
        permissions: given.permissions.map(|mode| match mode {
            Permits::Skip => CliPermissions::Skip,
            Permits::Gated => CliPermissions::Gated,
        }),
        management_approval: given.management_approval,
        edge_management: given.edge_management.map(|which| match which {
            Manages::None => EdgeManagement::None,
            Manages::Own => EdgeManagement::Own,
            Manages::All => EdgeManagement::All,
        }),
        capabilities: &given.capabilities,
        limits: &given.limits,
        reserve_role: false,
    }
}

fn steer(app: &App, repo: &Repo, one: &OneNode, steer: Steer) -> Result<Decided, Error> {
    let run = found(repo, &one.run_name)?;
    nodes::steer(&opened(app, repo)?, run, &one.alias, steer)
}

/// Prints that a node rests.
fn rests(decided: &Decided, (one, json): (&OneNode, bool), how: &str) -> Result<Exit, Error> {
    if json || decided.events.is_empty() {
        return changed(decided, "", json);
    }
    let (slug, alias) = (&decided.state.run.slug, &one.alias);
    ui::remark(&format!("{alias} {how}; `aynig orch node start {slug} {alias}` lets it go on"));
    Ok(Exit::Done)
}

fn remove(app: &App, repo: &Repo, one: &OneNode, json: bool) -> Result<Exit, Error> {
    let run = found(repo, &one.run_name)?;
    let removed = nodes::remove(&opened(app, repo)?, run, &one.alias)?;
    match removed.workspace {
        Some(Ok(archive)) => ui::remark(&format!("its work is kept: {}", shows_rescued(&archive))),
        Some(Err(error)) => {
            let handle = shell_quote(format!("{}/{}", removed.decided.state.run.slug, one.alias));
            warn(&format!("its workspace stays: {}", error.message));
            ui::remark(&format!("next  `aynig workspace remove --apply {handle}`"));
        }
        None => {
            if let Some(archive) = &removed.archive {
                ui::remark(&format!("its work is kept where the run is decided: {archive}"));
            }
        }
    }
    changed(&removed.decided, &format!("node {} is removed", one.alias), json)
}
