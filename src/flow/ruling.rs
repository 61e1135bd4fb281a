//! The outcome of an EVALUATE step: the planner's answer, and the facts that override it. The commands that run flows
//! call this.
//!
//! Invariant: a fact can only make the outcome worse, in the order success, partial, blocked, `needs_human`, unsafe.

use std::collections::BTreeSet;
use std::fmt::Formatter;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::document::{STOP, outcomes_of, word};
use super::fields::listed;
use super::members::{list, text};
use crate::model::step::{Opcode, Outcome};

/// The longest answer of a planner, in bytes.
pub const MAX_ANSWER: usize = 1024 * 1024;

/// How many `partial` in a row become `needs_human`.
const PARTIALS: usize = 3;

/// The risk flag of an answer that could not be read.
pub const EVALUATOR_FAILED: &str = "evaluator_failed";

/// A planner's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Its outcome.
    pub status: Outcome,
    /// The step that it proposes.
    pub next_step: Option<String>,
    /// The instructions for the next agent.
    pub fix_instructions: Option<Value>,
    /// The blockers.
    pub blockers: Vec<Blocker>,
    /// The warnings.
    pub risk_flags: Vec<String>,
}

/// Something that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Its code. For a blocker that is a plain text, the text.
    pub code: String,
    /// A sentence about it.
    pub summary: Option<String>,
}

impl Decision {
    /// Reads an answer: one JSON object. The error says what is wrong, for the planner's second try.
    pub fn read(answer: &[u8]) -> Result<Self, String> {
        if answer.len() > MAX_ANSWER {
            return Err("the answer is longer than 1 MiB".to_owned());
        }
        let value: Value =
            serde_json::from_slice(answer).map_err(|error| format!("this is no JSON: {error}"))?;
        let Value::Object(_) = value else { return Err("the answer is no JSON object".to_owned()) };
        let Once(fields) = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
        let fields = &fields;
        let statuses = outcomes_of(Opcode::Evaluate);
        let status = text(fields, "status")?.ok_or("`status` is missing")?;
        let status = statuses.iter().find(|(word, _)| *word == status).map(|(_, status)| *status);
        let words = listed(statuses.iter().map(|(word, _)| *word));
        let status = status.ok_or_else(|| format!("`status` is none of: {words}"))?;
        let fix_instructions = fields.get("fix_instructions").filter(|value| !value.is_null()).cloned();
        if !fix_instructions.iter().all(|value| value.is_string() || value.is_object()) {
            return Err("`fix_instructions` is neither text nor an object".to_owned());
        }
        Ok(Self {
            status,
            next_step: text(fields, "next_step")?.map(str::to_owned),
            fix_instructions,
            blockers: list(fields, "blockers")?.iter().map(blocker).collect::<Result<_, _>>()?,
            risk_flags: list(fields, "risk_flags")?.iter().map(flag).collect::<Result<_, _>>()?,
        })
    }

    /// The codes of the blockers.
    #[must_use]
    pub fn codes(&self) -> BTreeSet<&str> {
        self.blockers.iter().map(|blocker| blocker.code.as_str()).collect()
    }
}

/// The fields of an object that has none of them twice.
struct Once(Map<String, Value>);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Once;

            fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Once, A::Error> {
                let mut fields = Map::new();
                while let Some((name, value)) = entries.next_entry::<String, Value>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    fields.insert(name, value);
                }
                Ok(Once(fields))
            }
        }

        from.deserialize_map(Fields)
    }
}

fn flag(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "an entry of `risk_flags` is no text".to_owned())
}

fn blocker(value: &Value) -> Result<Blocker, String> {
    match value {
        Value::String(code) => Ok(Blocker { code: code.clone(), summary: None }),
        Value::Object(fields) => {
            let code = text(fields, "code")?.ok_or("a blocker has no `code`")?.to_owned();
            Ok(Blocker { code, summary: text(fields, "summary")?.map(str::to_owned) })
        }
        _ => Err("an entry of `blockers` is neither text nor an object".to_owned()),
    }
}

/// The facts about a run when a planner has answered.
#[derive(Debug, Clone, Default)]
pub struct Facts<'a> {
    /// `allowed_next_steps` of the step.
    pub allowed: Vec<&'a str>,
    /// A step since the last EVALUATE broke its policy.
    pub policy_violated: bool,
    /// The planner changed the worktree, which was taken back.
    pub planner_changed_files: bool,
    /// A report says that all is well, and its validator failed.
    pub report_contradicted: bool,
    /// Proposed golden files wait for an approval.
    pub goldens_open: bool,
    /// An agent without `allow_empty` ran since the last EVALUATE, and the difference to the base is empty.
    pub nothing_changed: bool,
    /// How many times in a row the outcome was `partial`, until now.
    pub partials: usize,
    /// The codes of the last answer's blockers, if the worktree is as it was then.
    pub stuck_on: BTreeSet<&'a str>,
}

/// The ruling on an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The outcome of the step.
    pub outcome: Outcome,
    /// The proposed step, if it is allowed and the planner was not overridden.
    pub next_step: Option<String>,
    /// The facts that override the planner, and what is wrong with its answer.
    pub flags: Vec<&'static str>,
}

impl Ruling {
    /// Judges an answer by the facts. `None` is an answer that could not be read twice.
    #[must_use]
    pub fn of(decision: Option<&Decision>, facts: &Facts<'_>) -> Self {
        let said = decision.map_or(Outcome::Blocked, |decision| decision.status);
        let mut ruling = Self { outcome: said, next_step: None, flags: Vec::new() };
        if decision.is_none() {
            ruling.flags.push(EVALUATOR_FAILED);
        }
        for (is_so, least, flag) in [
            (facts.policy_violated, Outcome::Unsafe, "policy_violation"),
            (facts.planner_changed_files, Outcome::Unsafe, "evaluator_changed_files"),
            (facts.report_contradicted, Outcome::Unsafe, "report_execution_mismatch"),
            (facts.goldens_open, Outcome::NeedsHuman, "proposed_goldens_present"),
            (facts.nothing_changed, Outcome::Partial, "transcript_workspace_mismatch"),
        ] {
            if is_so {
                ruling.worsen(least, flag);
            }
        }
        let repeats = decision.is_some_and(|decision| !decision.codes().is_disjoint(&facts.stuck_on));
        if repeats {
            ruling.worsen(Outcome::NeedsHuman, "repeated_blocker");
        }
        if ruling.outcome == Outcome::Partial && facts.partials + 1 >= PARTIALS {
            ruling.worsen(Outcome::NeedsHuman, "repeated_partial_loop");
        }
        if let Some(step) = decision.and_then(|decision| decision.next_step.as_deref()) {
            if step != STOP && !facts.allowed.contains(&step) {
                ruling.flags.push("next_step_not_allowed");
            } else if ruling.outcome == said {
                ruling.next_step = Some(step.to_owned());
            }
        }
        ruling
    }

    fn worsen(&mut self, least: Outcome, flag: &'static str) {
        if rank(least) > rank(self.outcome) {
            self.outcome = least;
        }
        self.flags.push(flag);
    }

    /// The word of the outcome.
    #[must_use]
    pub fn word(&self) -> &'static str {
        word(outcomes_of(Opcode::Evaluate), &self.outcome)
    }
}

/// A flag as the end of a sentence.
#[must_use]
pub fn flag_words(flag: &'static str) -> &'static str {
    match flag {
        EVALUATOR_FAILED => "there is no answer to follow",
        "policy_violation" => "a step broke its policy",
        "evaluator_changed_files" => "the planner changed files, which were put back",
        "report_execution_mismatch" => "a report says that all is well, and its validator failed",
        "proposed_goldens_present" => "proposed golden files wait for an approval",
        "transcript_workspace_mismatch" => "the agent left the files as they are in the base",
        "repeated_blocker" => "the same blocker was named before, and no file has changed",
        "repeated_partial_loop" => "this is the third partial in a row",
        "next_step_not_allowed" => "the proposed next step is not allowed",
        other => other,
    }
}

/// The order of a planner's outcomes, the best first.
fn rank(outcome: Outcome) -> usize {
    let order = [Outcome::Success, Outcome::Partial, Outcome::Blocked, Outcome::NeedsHuman, Outcome::Unsafe];
    order.iter().position(|one| *one == outcome).unwrap_or(order.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(text: &str) -> Decision {
        Decision::read(text.as_bytes()).expect("an answer")
    }

    fn facts(change: impl FnOnce(&mut Facts<'static>)) -> Facts<'static> {
        let mut facts = Facts { allowed: vec!["fix", "ask"], ..Facts::default() };
        change(&mut facts);
        facts
    }

    /// CONTRACT 18.12
    #[test]
    fn facts_override_the_planner() {
        let clean = || facts(|_| {});
        let stuck = || facts(|facts| facts.stuck_on = ["E1"].into());
        let mismatch = "transcript_workspace_mismatch";
        for (said, facts, outcome, flags) in [
            (r#"{"status":"success"}"#, clean(), "success", &[][..]),
            (r#"{"status":"partial","next_step":"fix"}"#, clean(), "partial", &[]),
            (r#"{"status":"blocked"}"#, clean(), "blocked", &[]),
            (r#"{"status":"unsafe"}"#, clean(), "unsafe", &[]),
            (r#"{"status":"needs_human"}"#, clean(), "needs_human", &[]),
            (
                r#"{"status":"success"}"#,
                facts(|facts| facts.policy_violated = true),
                "unsafe",
                &["policy_violation"],
            ),
            (
                r#"{"status":"success"}"#,
                facts(|facts| facts.planner_changed_files = true),
                "unsafe",
                &["evaluator_changed_files"],
            ),
            (
                r#"{"status":"success"}"#,
                facts(|facts| facts.report_contradicted = true),
                "unsafe",
                &["report_execution_mismatch"],
            ),
            (
                r#"{"status":"success"}"#,
                facts(|facts| facts.goldens_open = true),
                "needs_human",
                &["proposed_goldens_present"],
            ),
            (
                r#"{"status":"blocked"}"#,
                facts(|facts| facts.goldens_open = true),
                "needs_human",
                &["proposed_goldens_present"],
            ),
            (
                r#"{"status":"unsafe"}"#,
                facts(|facts| facts.goldens_open = true),
                "unsafe",
                &["proposed_goldens_present"],
            ),
            (r#"{"status":"success"}"#, facts(|facts| facts.nothing_changed = true), "partial", &[mismatch]),
            (r#"{"status":"blocked"}"#, facts(|facts| facts.nothing_changed = true), "blocked", &[mismatch]),
            (r#"{"status":"partial"}"#, facts(|facts| facts.partials = 1), "partial", &[]),
            (
                r#"{"status":"partial"}"#,
                facts(|facts| facts.partials = 2),
                "needs_human",
                &["repeated_partial_loop"],
            ),
            (r#"{"status":"success"}"#, facts(|facts| facts.partials = 2), "success", &[]),
            (
                r#"{"status":"success"}"#,
                facts(|facts| (facts.partials, facts.nothing_changed) = (2, true)),
                "needs_human",
                &[mismatch, "repeated_partial_loop"],
            ),
            (r#"{"status":"partial","blockers":["E1"]}"#, stuck(), "needs_human", &["repeated_blocker"]),
            (
                r#"{"status":"blocked","blockers":[{"code":"E1","summary":"x"},"E2"]}"#,
                stuck(),
                "needs_human",
                &["repeated_blocker"],
            ),
            (r#"{"status":"partial","blockers":["E2"]}"#, stuck(), "partial", &[]),
            (r#"{"status":"partial","next_step":"deploy"}"#, clean(), "partial", &["next_step_not_allowed"]),
            (
                r#"{"status":"success"}"#,
                facts(|facts| (facts.policy_violated, facts.goldens_open) = (true, true)),
                "unsafe",
                &["policy_violation", "proposed_goldens_present"],
            ),
        ] {
            let ruling = Ruling::of(Some(&answer(said)), &facts);
            assert_eq!((ruling.word(), ruling.flags.as_slice()), (outcome, flags), "{said} {facts:?}");
        }
        let failed = Ruling::of(None, &facts(|facts| facts.goldens_open = true));
        assert_eq!(
            (failed.word(), failed.flags.as_slice()),
            ("needs_human", &["evaluator_failed", "proposed_goldens_present"][..])
        );
        assert_eq!(Ruling::of(None, &clean()).word(), "blocked");
    }

    #[test]
    fn a_proposed_step_is_kept_if_it_is_allowed_and_the_outcome_stays() {
        let next = |said: &str, facts: Facts<'_>| Ruling::of(Some(&answer(said)), &facts).next_step;
        assert_eq!(next(r#"{"status":"partial","next_step":"fix"}"#, facts(|_| {})).as_deref(), Some("fix"));
        assert_eq!(
            next(r#"{"status":"success","next_step":"STOP"}"#, facts(|_| {})).as_deref(),
            Some("STOP")
        );
        assert_eq!(
            next(r#"{"status":"success","next_step":"fix"}"#, facts(|facts| facts.goldens_open = true)),
            None
        );
    }

    #[test]
    fn answers_are_read_or_refused() {
        let full = answer(
            r#"{"status":"partial","next_step":null,"fix_instructions":{"objective":"x"},"blockers":[{"code":"a"},"b"],"risk_flags":["r"],"more":1}"#,
        );
        assert_eq!(
            (full.codes().len(), full.risk_flags.len(), full.fix_instructions.is_some()),
            (2, 1, true)
        );
        for (said, words) in [
            ("", "this is no JSON"),
            ("[]", "no JSON object"),
            ("{}", "`status` is missing"),
            (
                r#"{"status":"completed"}"#,
                "`status` is none of: success, partial, blocked, unsafe, needs_human",
            ),
            (r#"{"status":1}"#, "`status` is no text"),
            (r#"{"status":"success","next_step":[]}"#, "`next_step` is no text"),
            (r#"{"status":"success","fix_instructions":[]}"#, "`fix_instructions` is neither"),
            (r#"{"status":"success","blockers":"x"}"#, "`blockers` is no list"),
            (r#"{"status":"success","blockers":[{}]}"#, "a blocker has no `code`"),
            (r#"{"status":"success","blockers":[1]}"#, "an entry of `blockers`"),
            (r#"{"status":"success","risk_flags":[1]}"#, "an entry of `risk_flags`"),
        ] {
            let error = Decision::read(said.as_bytes()).expect_err(said);
            assert!(error.contains(words), "{said}: {error}");
        }
        assert!(Decision::read(&vec![b' '; MAX_ANSWER + 1]).is_err());
    }

    proptest! {
        #[test]
        fn no_fact_makes_it_better(status in 0_usize..5, bits in 0_u8..32, partials in 0_usize..4) {
            let (word, said) = outcomes_of(Opcode::Evaluate)[status];
            let decision = answer(&format!(r#"{{"status":"{word}"}}"#));
            let facts = facts(|facts| {
                facts.policy_violated = bits & 1 > 0;
                facts.planner_changed_files = bits & 2 > 0;
                facts.report_contradicted = bits & 4 > 0;
                facts.goldens_open = bits & 8 > 0;
                facts.nothing_changed = bits & 16 > 0;
                facts.partials = partials;
            });
            let ruling = Ruling::of(Some(&decision), &facts);
            prop_assert!(rank(ruling.outcome) >= rank(said));
            prop_assert_eq!(ruling.outcome != said, ruling.outcome != said && !ruling.flags.is_empty());
        }
    }
}
