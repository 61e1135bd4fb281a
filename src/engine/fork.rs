//! Lets a new run begin in the middle of another one (CONTRACT 20.30).
//!
//! Invariant: the other run is only read. The new one has the same flow, inputs and base, the files that the step began
//! with, and counts from zero.

use std::collections::BTreeMap;

use crate::contract::ids::CommitId;
use crate::ledger::Place;
use crate::model::ids::RunId;
use crate::model::step::Step;
use crate::workspace::refusal::{Refusal, Why};

use super::start::{Fork, Order, Started};
use super::{Engine, frozen_file, open};

impl Engine<'_> {
    /// Makes a run that begins with the step `at` of another one.
    pub fn fork_run(
        &self,
        run: RunId,
        at: &str,
        label: Option<String>,
        place: Place,
    ) -> Result<Started, Refusal> {
        let ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
        let file = frozen_file(self.repo, &ledger)?;
        let state = &ledger.tip().state;
        let slug = &state.run.slug;
        let refused = |why: Why, words: String| Refusal::new(why, format!("{words}; nothing was started"));
        let here =
            |id: &str| CommitId::parse_hex(id.as_bytes()).filter(|commit| self.repo.commit(*commit).is_ok());
        if flow.step(at).is_none() {
            let steps: Vec<&str> = flow.steps.iter().map(|step| step.id.as_str()).collect();
            let words = format!("the flow of run {slug} has no step {at}");
            return Err(refused(Why::Usage, words).hint(format!("it has {}", steps.join(", "))));
        }
        let before = before(&state.steps, at).ok_or_else(|| {
            refused(
                Why::Failed,
                format!("{at} has not begun in run {slug}, or its first attempt has not ended"),
            )
            .hint(format!("`aynig flow show {slug}` lists the steps that it can begin with"))
        })?;
        let base = here(&state.run.base_sha).ok_or_else(|| {
            refused(
                Why::Setup,
                format!("the base {} of run {slug} is not in this repository", state.run.base_sha),
            )
            .hint("`git fetch --all` brings it if a remote has it")
        })?;
        let head = match &before.head {
            None => base,
            Some(head) => here(head).ok_or_else(|| {
                let whose = before.host.as_deref().unwrap_or("the host that carried it out");
                let words = format!("the commit {head} that {at} began with is not in this repository");
                refused(Why::Setup, words).hint(format!(
                    "{whose} has it, under a rescue ref if the work was put back: fork the run there"
                ))
            })?,
        };
        let inputs = self.inputs(&ledger)?;
        self.start(&Order {
            flow: &flow,
            file: &file,
            base: (state.run.base_ref.clone(), base),
            inputs,
            label: label.unwrap_or_else(|| state.run.label.clone()),
            fork: Some(Fork { run, step: at.to_owned(), head }),
            place,
        })
    }
}

/// The commit before the latest visit of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Before {
    /// The commit of the work branch. `None`: the base.
    head: Option<String>,
    host: Option<String>,
}

fn before(steps: &BTreeMap<u64, Step>, at: &str) -> Option<Before> {
    let visit = steps.values().rev().find(|step| step.id.as_str() == at)?.visit;
    let first = steps.values().find(|step| step.id.as_str() == at && step.visit == visit)?;
    let of = |step: &Step| step.record.as_ref().and_then(|record| record.before.clone());
    let own = steps.values().filter(|step| step.id.as_str() == at && step.visit == visit).find_map(of);
    let left = |step: &Step| step.record.as_ref().and_then(|record| record.head.clone());
    let earlier = || steps.range(..first.number).rev().find_map(|(_, step)| left(step));
    Some(Before { head: own.or_else(earlier), host: first.host.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::StepId;
    use crate::model::step::{Opcode, Record};
    use crate::model::time::Timestamp;

    /// CONTRACT 20.30
    #[test]
    fn a_fork_begins_with_what_the_latest_visit_began_with() {
        let step = |number, id: &str, visit, attempt, before: Option<&str>, head: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let record = Record { before: text(before), head: text(head), ..Record::default() };
            let step = Step {
                number,
                id: StepId::parse(id).expect("an id"),
                opcode: Opcode::RunAgent,
                visit,
                attempt,
                started_at: Timestamp::from_millis(0).expect("a time"),
                ended_at: None,
                outcome: None,
                route: None,
                evidence: None,
                host: Some(format!("host-{number}")),
                record: Some(Box::new(record)),
                artifacts: BTreeMap::new(),
            };
            (number, step)
        };
        let steps = BTreeMap::from([
            step(1, "a", 1, 1, Some("base"), Some("one")),
            step(2, "ask", 1, 1, None, None),
            step(3, "a", 2, 1, None, None),
            step(4, "a", 2, 2, Some("by-hand"), Some("two")),
            step(5, "b", 1, 1, None, None),
        ]);
        let head = |at| before(&steps, at).map(|before| before.head.unwrap_or_default());
        for (at, wanted) in [("a", Some("by-hand")), ("ask", Some("one")), ("b", Some("two")), ("c", None)] {
            assert_eq!(head(at).as_deref(), wanted, "{at}");
        }
        let first = BTreeMap::from([step(1, "ask", 1, 1, None, None)]);
        assert_eq!(before(&first, "ask"), Some(Before { head: None, host: Some("host-1".to_owned()) }));
    }
}
