//! RUN_VALIDATION as a step of a run: hands the validators what they need, and records what came of them.

use crate::flow::document::Validator;
use crate::model::step::Outcome;
use crate::workspace::refusal::Refusal;

use super::Engine;
use super::agent::record_policy;
use super::attempt::{Scene, interrupted};
use super::course::{Carried, Course};
use super::policy::{Rules, Violation};
use super::program::Bounds;
use super::validation::{End, KeptFile, Validation, validate};

impl Engine<'_> {
    /// Runs validators.
    pub(super) fn run_validation(
        &self,
        scene: &mut Scene<'_, '_>,
        validators: &[Validator],
    ) -> Result<Course, Refusal> {
        let rules = Rules::requested(scene.flow, scene.step);
        let evidence = scene.work.recorder.path().to_owned();
        let environment = self.whole_environment(&scene.work);
        let done = validate(&Validation {
            workspaces: &self.workspaces,
            context: &scene.work.context,
            base: scene.work.context.base(),
            validators,
            inputs: &scene.inputs,
            builtins: &self.validators,
            environment: &environment,
            evidence: &evidence,
            limits: self.bounds(scene),
            policy: &rules,
            stop: &scene.work.stop,
            watchdog: Some(&self.watchdog),
        })?;
        let outcome = match &done.end {
            End::Outcome(outcome) => *outcome,
            End::Stopped => return interrupted(&scene.work.stop),
            End::Unable(_) => return Ok(Course::Unable(done.evidence)),
        };
        keep(scene, &done.kept);
        let mut carried = Carried::new(outcome, done.evidence.clone());
        carried.record.exit_codes = done.exit_codes();
        carried.record.failed_cases = done.failed_cases();
        carried.record.contradicted = done.is_contradicted();
        carried.record.goldens.clone_from(&done.goldens);
        carried.record.violations = done.violations.iter().map(Violation::words).collect();
        // Proposed files stay. The rest was put back, perhaps by making the worktree anew.
        if let Some(context) = done.context {
            scene.work.context = context;
        }
        self.take_work(&mut scene.work, &mut carried, &Rules::default(), true)?;
        if outcome != Outcome::KilledPolicy && carried.outcome == Outcome::KilledPolicy {
            carried.evidence = format!("{}; {}", done.evidence, carried.evidence);
        }
        record_policy(&mut scene.work, (&rules, &rules), &mut carried)?;
        Ok(Course::Ended(Box::new(carried)))
    }

    /// The limits of a step that runs programs.
    pub(super) fn bounds(&self, scene: &Scene<'_, '_>) -> Bounds {
        let (wall, idle) = self.times(scene);
        Bounds { wall, idle, grace: GRACE }
    }
}

/// The time between SIGTERM and SIGKILL.
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);

/// Names the files that a step left.
pub(super) fn keep(scene: &mut Scene<'_, '_>, kept: &[KeptFile]) {
    for KeptFile { role, path, media_type } in kept {
        scene.work.recorder.add(*role, path, media_type, false);
    }
}
