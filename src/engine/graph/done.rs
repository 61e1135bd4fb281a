//! Whether a run is done that an agent calls so: a validator of the host judges it (CONTRACT 22.24).
//!
//! Invariant: the validator sees the work as it was taken onto the work branch, and what it writes is put back. A host
//! that cannot judge it does not end the run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::attempt::{Work, interrupted};
use crate::engine::course::Carried;
use crate::engine::policy::Rules;
use crate::engine::program::Bounds;
use crate::engine::record::Role;
use crate::engine::validation::{End, KeptFile, Validation, validate};
use crate::flow::document::{Runs, Validator};
use crate::flow::fault::Place;
use crate::fsutil;
use crate::model::decide::Finding;
use crate::model::run::DoneWhen;
use crate::model::step::Outcome;
use crate::workspace::refusal::Refusal;

use super::staged::Act;

/// The longest time of the validator, and what it has between SIGTERM and SIGKILL.
const WALL: Duration = Duration::from_secs(3_600);
const GRACE: Duration = Duration::from_secs(5);

/// The most bytes of each of its outputs that the agent reads.
const MOST: usize = 8 * 1024;

impl Engine<'_> {
    /// Judges the end that a turn declared, after its work was taken.
    pub(super) fn judge_done(
        &self,
        work: &mut Work<'_, '_>,
        carried: &mut Carried,
        acts: &mut [Act],
    ) -> Result<(), Refusal> {
        let declared = acts.iter_mut().find_map(|act| match act {
            Act::Done { finding, .. } => Some(finding),
            Act::Handoff { .. } | Act::Spawn { .. } | Act::Edge { .. } | Act::Artifact { .. } => None,
        });
        let done_when = work.ledger.tip().state.run.done_when.clone().unwrap_or_default();
        let (Some(finding), Some(DoneWhen::Validator(name)), Outcome::Completed) =
            (declared, DoneWhen::parse(&done_when), carried.outcome)
        else {
            return Ok(());
        };
        let validators = [Validator {
            at: Place::default(),
            name: name.to_owned(),
            runs: Runs::Builtin,
            artifacts: Vec::new(),
            timeout_seconds: None,
        }];
        let (environment, evidence) = (self.whole_environment(work), work.recorder.path().to_owned());
        let judged = validate(&Validation {
            workspaces: &self.workspaces,
            context: &work.context,
            base: work.context.base(),
            validators: &validators,
            inputs: &BTreeMap::new(),
            builtins: &self.validators,
            environment: &environment,
            evidence: &evidence,
            limits: Bounds { wall: Some(WALL), idle: None, grace: GRACE },
            policy: &Rules::default(),
            stop: &work.stop,
            watchdog: Some(&self.watchdog),
        })?;
        let mut said = judged.evidence.clone();
        for KeptFile { role, path, media_type } in &judged.kept {
            work.recorder.add(*role, path, media_type, false);
            if matches!(role, Role::ValidationStdout | Role::ValidationStderr) {
                said += &last_lines(&fsutil::read_plain(evidence.join(path)).unwrap_or_default());
            }
        }
        *finding = match judged.end {
            End::Outcome(Outcome::Completed) => Finding::Accepted,
            End::Outcome(_) => Finding::Refused(said),
            End::Unable(_) => Finding::Unknown(judged.evidence),
            End::Stopped => {
                interrupted(&work.stop)?;
                Finding::Refused(format!("the validator {name} was interrupted. Call it done again."))
            }
        };
        // Tests run what agents wrote.
        self.judge_outside(work, carried)?;
        Ok(())
    }
}

/// The end of an output, on lines of its own.
fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let text = text.trim();
    let from = text.ceil_char_boundary(text.len().saturating_sub(MOST));
    match (&text[from..], from) {
        ("", _) => String::new(),
        (text, 0) => format!("\n{text}"),
        (text, _) => format!("\n…{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An end that is kept until the remote takes it has the finding of its validator.
    /// CONTRACT 22.24
    #[test]
    fn a_finding_is_kept_with_its_act() {
        for finding in [Finding::Accepted, Finding::Refused("a".to_owned()), Finding::Unknown("b".to_owned())]
        {
            let act = Act::Done { message: None, finding };
            let text = serde_json::to_string(&act).expect("JSON");
            assert_eq!(serde_json::from_str::<Act>(&text).expect("an act"), act);
        }
    }

    /// CONTRACT 22.24
    #[test]
    fn the_end_of_an_output_is_shown() {
        for (output, wanted) in [("", String::new()), (" \n", String::new()), ("a\nb\n", "\na\nb".to_owned())]
        {
            assert_eq!(last_lines(output.as_bytes()), wanted);
        }
        let long = last_lines("é".repeat(MOST).as_bytes());
        assert!(long.starts_with("\n…é") && long.len() <= MOST + 4, "{}", long.len());
    }
}
