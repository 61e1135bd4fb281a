//! Missing programs and settings of this host, found before a step needs them (CONTRACT 18.18).

use std::ffi::OsStr;

use crate::flow::document::{Act, Flow, Step};
use crate::flow::fault::Place;

use crate::provider::Provider;
use crate::runner::attempt::environment::own_environment;

use super::Engine;
use super::evaluation::{Chosen, choose};
use super::program::path_in;
use super::validation;

/// Something that this host lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The position of the step that needs it.
    pub place: Place,
    /// The id of that step.
    pub step: String,
    /// The missing item, and the line to type.
    pub what: String,
}

impl Engine<'_> {
    /// The missing items of this host for the steps of a flow, in their order.
    #[must_use]
    pub fn lacking(&self, flow: &Flow) -> Vec<Lack> {
        let environment: Vec<_> = own_environment().into_iter().collect();
        let of_step = |step: &Step| {
            let words = self.lacks(flow, step, path_in(&environment));
            let lack = |what| Lack { place: step.at, step: step.id.clone(), what };
            words.into_iter().map(lack).collect::<Vec<_>>()
        };
        flow.steps.iter().flat_map(of_step).collect()
    }

    fn lacks(&self, flow: &Flow, step: &Step, path: &OsStr) -> Vec<String> {
        let this = |what: String| format!("this host lacks {what}");
        match &step.act {
            Act::RunAgent(agent) => self.lacks_provider(&agent.agent).into_iter().collect(),
            Act::RunValidation(validators) => {
                validation::lacking(validators, &self.validators, path).into_iter().map(this).collect()
            }
            Act::Evaluate(evaluate) => {
                let agents = flow.steps.iter().filter_map(|step| match &step.act {
                    Act::RunAgent(agent) => Some(agent.agent.as_str()),
                    _ => None,
                });
                let agent = flow.defaults.agent.as_deref().into_iter().chain(agents).next();
                match choose(evaluate, &self.evaluators, agent, path) {
                    Ok(Chosen::Agent(name)) => self.lacks_provider(name).into_iter().collect(),
                    Ok(Chosen::Line(_) | Chosen::Script(_)) => Vec::new(),
                    Err(what) => vec![this(what)],
                }
            }
            Act::Gate(gate) => self.approvers(gate).err().map(|why| why.to_string()).into_iter().collect(),
            Act::Rollback | Act::Stop { .. } => Vec::new(),
        }
    }

    fn lacks_provider(&self, name: &str) -> Option<String> {
        self.provider(name).err()
    }

    /// The provider of this name, or why this host lacks it, with the line to type.
    pub(super) fn provider(&self, name: &str) -> Result<Provider, String> {
        (self.providers)(name).map_err(|why| {
            let says_what_to_type = why.contains('`');
            let more = format!(
                "; install it, or name the program: `git config aynig.provider.{name}.command PROGRAM`"
            );
            if says_what_to_type { why } else { format!("{why}{more}") }
        })
    }
}
