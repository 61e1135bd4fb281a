//! A person's verbs about one node: make, set, start, stop, interrupt, reset, remove.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::engine::graph::gate::cannot_ask;
use crate::engine::graph::steer::RemovedNode;
use crate::model::decide::{Command, Decided, NodeEdit, NodeSpec, Steer};
use crate::model::event::Body;
use crate::model::ids::{Alias, ProviderName, RunId};
use crate::model::node::{Capabilities, CliPermissions, EdgeManagement, Permissions};
use crate::model::run::Limits;
use crate::workspace::refusal::Why;

use super::error::Error;
use super::graphs::{alias, node, operate, role_text};
use super::inside::persons_only;
use super::limits::{Of, limits};
use super::trust;

/// Settings of a node, in the words of a command line. `None` is the default of a new node, and leaves a known one as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// Its role.
    pub role: Option<&'a str>,
    /// Its provider.
    pub provider: Option<&'a str>,
    /// A text for people.
    pub label: Option<&'a str>,
    /// The model. An empty one is the provider's own.
    pub model: Option<&'a str>,
    /// The text of its role, instead of the one that its role has.
    pub prompt: Option<&'a str>,
    /// Whether requests of its program are granted, or asked.
    pub permissions: Option<CliPermissions>,
    /// Whether a person is asked before it makes nodes or edges.
    pub management_approval: Option<bool>,
    /// The edges that it may change.
    pub edge_management: Option<EdgeManagement>,
    /// What it may do, as `NAME=true` or `NAME=false`.
    pub capabilities: &'a [String],
    /// Its bounds, as `NAME=NUMBER` or `NAME=none`.
    pub limits: &'a [String],
    /// Whether only runners of its role take its turns. Of a known node this stays as it is.
    pub reserve_role: bool,
}

/// A node that was made.
#[derive(Debug)]
pub struct Added {
    /// The run with it.
    pub decided: Decided,
    /// Its alias.
    pub alias: Alias,
    /// What this host lacks for it, in words.
    pub lacks: Option<String>,
    /// Whether its role has no text.
    pub is_textless: bool,
}

/// A node that was changed.
#[derive(Debug)]
pub struct Changed {
    /// The run with it.
    pub decided: Decided,
    /// The words about a provider that this host lacks.
    pub lacks: Option<String>,
    /// Its new role, if that has no text.
    pub textless: Option<String>,
}

/// Makes a node. Without a name its alias is made from the label.
pub fn add(
    engine: &Engine<'_>,
    run: RunId,
    named: Option<&str>,
    settings: &Settings<'_>,
) -> Result<Added, Error> {
    persons_only("making a node")?;
    let mut ledger = engine.graph(run)?;
    let Some(label) = settings.label.or(named) else {
        return Err(Error::usage("a node has an alias, or a label that makes one; nothing was changed")
            .hint("`aynig orch node add RUN ALIAS …`, or `… --label TEXT`"));
    };
    let alias = named.map(alias).transpose()?;
    let role = settings.role.unwrap_or_default();
    let permissions = permissions(Permissions::default(), settings);
    let named = settings.provider.unwrap_or_default();
    can_ask(engine, permissions.cli_permissions_mode, named)?;
    let state = &ledger.tip().state;
    let role_text = match settings.prompt {
        Some(prompt) => Some(prompt.to_owned()),
        None => role_text(engine.repo, &state.run.base_sha, role)?,
    };
    let reserved = settings.reserve_role || state.run.reserve_role;
    trust::check_graph(engine.repo, None, &BTreeSet::from([reserved.then_some(role)]))?;
    let is_textless = role_text.is_none();
    let spec = NodeSpec {
        label: label.to_owned(),
        alias,
        role_text,
        role_template: role.to_owned(),
        provider: provider(named)?,
        model: settings.model.filter(|model| !model.is_empty()).map(str::to_owned),
        capabilities: Some(capabilities(Capabilities::of_role(role), settings)?),
        permissions: Some(permissions),
        limits: limits(Limits::default(), Of::Node, settings.limits)?,
        reserve_role: settings.reserve_role,
    };
    let decided = operate(engine, &mut ledger, Command::AddNode(Box::new(spec)))?;
    let made = decided.events.iter().find_map(|event| match &event.body {
        Body::NodeCreated(created) => Some(created.patch.alias.clone()),
        _ => None,
    });
    // Without events it had landed before: it is the newest one.
    let newest = || decided.state.nodes.values().max_by_key(|node| node.number);
    let alias = made.or_else(|| newest().map(|node| node.alias.clone()));
    let alias = alias.ok_or_else(|| Error::failed("the node was made and removed at once"))?;
    let another = format!("`aynig orch node set {} {alias} --provider NAME`", decided.state.run.slug);
    let lacks = of_host(engine, named).map(|why| format!("{why}; to name another one: {another}"));
    Ok(Added { decided, alias, lacks, is_textless })
}

/// What this host lacks to run a provider. Another host may have it.
pub(super) fn of_host(engine: &Engine<'_>, provider: &str) -> Option<String> {
    let why = (engine.providers)(provider).err()?;
    Some(format!("{why}; its turns are left to other hosts"))
}

/// Refuses a gated node whose program on this host cannot ask. Another host may have another program of that name, so one
/// that is not known here is taken.
pub(super) fn can_ask(engine: &Engine<'_>, mode: CliPermissions, provider: &str) -> Result<(), Error> {
    match (engine.providers)(provider) {
        Ok(here) if mode == CliPermissions::Gated && !here.can_ask() => {
            Err(Error::usage(format!("{}; nothing was changed", cannot_ask(provider))))
        }
        _ => Ok(()),
    }
}

/// Changes a node. Its next turn has the new settings. Returns what this host lacks for a new provider, too, in words.
pub fn set(engine: &Engine<'_>, run: RunId, named: &str, settings: &Settings<'_>) -> Result<Changed, Error> {
    persons_only("changing a node")?;
    let mut ledger = engine.graph(run)?;
    let state = &ledger.tip().state;
    let id = node(state, named)?;
    let known = &state.nodes[&id];
    let role = |role: &str| match settings.prompt {
        Some(prompt) => Ok((role.to_owned(), Some(prompt.to_owned()))),
        None => role_text(engine.repo, &state.run.base_sha, role).map(|text| (role.to_owned(), text)),
    };
    let permissions = permissions(known.permissions, settings);
    if settings.provider.is_some() || settings.permissions.is_some() {
        let now = state.configs.get(&id).map_or("", |config| config.provider_name.as_str());
        let name = settings.provider.unwrap_or(now);
        can_ask(engine, permissions.cli_permissions_mode, name)?;
    }
    let role_of = settings.role.or(settings.prompt.map(|_| known.role_template.as_str()));
    let role = role_of.map(role).transpose()?;
    let textless = role.as_ref().filter(|(_, text)| text.is_none()).map(|(name, _)| name.clone());
    let edit = NodeEdit {
        label: settings.label.map(str::to_owned),
        capabilities: Some(capabilities(known.capabilities, settings)?),
        permissions: Some(permissions),
        limits: Some(limits(known.limits, Of::Node, settings.limits)?),
        role,
        provider: settings.provider.map(provider).transpose()?,
        model: settings.model.map(|model| (!model.is_empty()).then(|| model.to_owned())),
        ..NodeEdit::default()
    };
    let decided = operate(engine, &mut ledger, Command::SetNode(id, edit))?;
    Ok(Changed { decided, lacks: settings.provider.and_then(|name| of_host(engine, name)), textless })
}

/// Starts, stops, interrupts or resets a node.
pub fn steer(engine: &Engine<'_>, run: RunId, named: &str, steer: Steer) -> Result<Decided, Error> {
    persons_only(match steer {
        Steer::Start => "starting a node",
        Steer::Stop => "stopping a node",
        Steer::Interrupt => "interrupting a node",
        Steer::Reset => "resetting a node",
    })?;
    let mut ledger = engine.graph(run)?;
    let id = node(&ledger.tip().state, named)?;
    let by = &engine.workspaces.options.by;
    Ok(match steer {
        Steer::Interrupt => engine.interrupt_node(&mut ledger, id, by),
        Steer::Reset => engine.reset_node(&mut ledger, id, by),
        Steer::Start | Steer::Stop => engine.operate(&mut ledger, &[Command::SteerNode(id, steer)], by),
    }?)
}

/// A node that was removed.
#[derive(Debug)]
pub struct Removed {
    /// The run without it.
    pub decided: Decided,
    /// The ref that has its work, where the run is decided. `None` if it has none.
    pub archive: Option<String>,
    /// The ref that has its work, if its workspace is removed from this host; or why it stays. `None`: it has none here.
    pub workspace: Option<Result<String, Error>>,
}

/// Removes a node, and its workspace on this host.
pub fn remove(engine: &Engine<'_>, run: RunId, named: &str) -> Result<Removed, Error> {
    persons_only("removing a node")?;
    let mut ledger = engine.graph(run)?;
    let state = &ledger.tip().state;
    let id = node(state, named)?;
    let handle = format!("{}/{}", state.run.slug, state.nodes[&id].alias);
    let RemovedNode { decided, archive } =
        engine.remove_node(&mut ledger, id, &engine.workspaces.options.by)?;
    let workspace = match engine.workspaces.find(handle.as_ref()) {
        Err(refusal) if refusal.why == Why::NotFound => None,
        found => {
            let removal = found.and_then(|context| engine.workspaces.remove(&context));
            Some(removal.map(|removal| removal.archive.unwrap_or_default()).map_err(Error::from))
        }
    };
    Ok(Removed { decided, archive, workspace })
}

fn provider(name: &str) -> Result<ProviderName, Error> {
    ProviderName::parse(name)
        .map_err(|error| Error::usage(format!("--provider {name}: {error}; nothing was changed")))
}

fn permissions(known: Permissions, settings: &Settings<'_>) -> Permissions {
    Permissions {
        cli_permissions_mode: settings.permissions.unwrap_or(known.cli_permissions_mode),
        agent_management_requires_approval: settings
            .management_approval
            .unwrap_or(known.agent_management_requires_approval),
    }
}

/// The names of capabilities.
const CAPABILITIES: [&str; 4] = ["writeCode", "writeDocs", "runCommands", "delegateOnly"];

fn capabilities(mut known: Capabilities, settings: &Settings<'_>) -> Result<Capabilities, Error> {
    for given in settings.capabilities {
        let field = match given.split_once('=').map(|(name, _)| name) {
            Some("writeCode") => Some(&mut known.write_code),
            Some("writeDocs") => Some(&mut known.write_docs),
            Some("runCommands") => Some(&mut known.run_commands),
            Some("delegateOnly") => Some(&mut known.delegate_only),
            _ => None,
        };
        let value = given.split_once('=').and_then(|(_, value)| value.parse().ok());
        let (Some(field), Some(value)) = (field, value) else {
            let message = format!(
                "--capability {given}: write NAME=true or NAME=false, and NAME is {}; nothing was changed",
                CAPABILITIES.join(", ")
            );
            return Err(Error::usage(message));
        };
        *field = value;
    }
    known.edge_management = settings.edge_management.unwrap_or(known.edge_management);
    Ok(known)
}
