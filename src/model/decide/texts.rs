//! The free texts of commands: what people and agents wrote, apart from names, ids and words of the contract.
//!
//! Invariant: a text that is changed here is changed before the command is decided, so the state, its events and every
//! comparison see the same text.

use serde_json::{Map, Value};

use super::{Command, Finding, NewArtifact, NewRun, RunEdit};
use crate::model::approval::{Resolution, Tool};
use crate::model::event::WorkspaceChanged;
use crate::model::ids::FileName;
use crate::model::message::Payload;
use crate::model::step::Record;
use crate::model::trace::Halted;

/// Replaces a text by another one, in place.
pub type Change<'a> = &'a dyn Fn(&mut String);

/// The longest free text of an event, in bytes as JSON has it.
pub const MAX_TEXT: usize = 64 * 1024;

/// Cuts a text off that has more than `most` bytes as JSON has it.
pub fn cut(text: &mut String, most: usize) {
    const MARK: &str = "…";
    let mut length = 0;
    let mut fits = 0;
    for (at, one) in text.char_indices() {
        if length + MARK.len() <= most {
            fits = at;
        }
        length += match one {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            one if u32::from(one) < 0x20 => 6,
            one => one.len_utf8(),
        };
        if length > most {
            text.truncate(fits);
            text.push_str(MARK);
            return;
        }
    }
}

impl NewRun {
    /// Changes its free texts.
    pub fn change_texts(&mut self, change: Change<'_>) {
        change(&mut self.label);
        self.done_when.iter_mut().for_each(change);
    }
}

impl Command {
    /// Changes its free texts.
    pub fn change_texts(&mut self, change: Change<'_>) {
        match self {
            Self::SetRun(RunEdit { label, done_when, waiting_for, termination, .. }) => {
                label.iter_mut().for_each(change);
                let more = [done_when, waiting_for, termination];
                more.into_iter().flat_map(|text| text.iter_mut().flatten()).for_each(change);
            }
            Self::AddNode(spec) => {
                change(&mut spec.label);
                spec.role_text.iter_mut().for_each(change);
            }
            Self::SetNode(_, edit) => {
                let role = edit.role.iter_mut().flat_map(|(_, text)| text);
                edit.label.iter_mut().chain(&mut edit.summary).chain(role).for_each(change);
            }
            Self::AddEdge(spec) => spec.label.iter_mut().for_each(change),
            Self::Chat { content, .. } => change(content),
            Self::HandOff { payload, .. } => change_payload(payload, change),
            Self::Ask { tool: Tool { args, provider_id, .. }, context, .. } => {
                change_map(args, change);
                provider_id.iter_mut().chain(context).for_each(change);
            }
            Self::Answer { resolution: Resolution { modified_args, reason, .. }, .. } => {
                modified_args.iter_mut().for_each(|args| change_map(args, change));
                reason.iter_mut().for_each(change);
            }
            Self::Approve { reason, .. } => reason.iter_mut().for_each(change),
            Self::Done { message, finding, .. } => {
                message.iter_mut().for_each(change);
                if let Finding::Refused(why) | Finding::Unknown(why) = finding {
                    change(why);
                }
            }
            Self::EndTurn(turn) => {
                let words = turn.last_words.iter_mut().chain(&mut turn.detail);
                let summary = turn.trace.iter_mut().map(|trace| &mut trace.summary);
                words.chain(&mut turn.unsaid).chain(summary).for_each(change);
                for one in &mut turn.answered {
                    change_map(&mut one.tool.args, change);
                    one.tool.provider_id.iter_mut().chain(&mut one.context).for_each(change);
                }
            }
            Self::EndStep(end) => {
                end.evidence.iter_mut().for_each(change);
                change_record(&mut end.record, change);
                end.artifacts.iter_mut().for_each(|(_, artifact)| change_name(artifact, change));
            }
            Self::AddArtifact(artifact) => change_name(artifact, change),
            Self::ChangeWorkspace(_, WorkspaceChanged { patch, detail, .. }) => {
                let urls = patch.published.iter_mut().flatten().filter_map(|one| one.url.as_mut());
                patch.pr_url.iter_mut().flatten().chain(detail).chain(urls).for_each(change);
            }
            Self::Halt { cause, waits_for } => {
                change(waits_for);
                if let Halted::Stalled { evidence } = cause {
                    change_map(evidence, change);
                }
            }
            Self::DeleteRun
            | Self::SteerNode(..)
            | Self::RemoveNode(_)
            | Self::RemoveEdge(_)
            | Self::Overdue(_)
            | Self::Hear { .. }
            | Self::Grant { .. }
            | Self::Revoke(_)
            | Self::Expire(_)
            | Self::StartStep(_)
            | Self::PrepareWorkspace(_) => {}
        }
    }
}

fn change_name(artifact: &mut NewArtifact, change: Change<'_>) {
    let mut name = artifact.name.as_str().to_owned();
    change(&mut name);
    // A text that is no file name any more leaves none of it.
    artifact.name = FileName::parse(&name)
        .or_else(|_| FileName::parse("masked"))
        .unwrap_or_else(|_| artifact.name.clone());
}

fn change_record(record: &mut Record, change: Change<'_>) {
    record.violations.iter_mut().chain(&mut record.flags).for_each(change);
    record.fix_instructions.iter_mut().for_each(|value| change_value(value, change));
    for set in [&mut record.failed_cases, &mut record.blockers, &mut record.goldens] {
        let changed = std::mem::take(set).into_iter().map(|mut text| {
            change(&mut text);
            text
        });
        *set = changed.collect();
    }
}

fn change_payload(payload: &mut Payload, change: Change<'_>) {
    change(&mut payload.message);
    payload.structured.iter_mut().for_each(|data| change_map(data, change));
    for artifact in &mut payload.artifacts {
        change(&mut artifact.kind);
        change(&mut artifact.reference);
    }
    if let Some(status) = &mut payload.status {
        status.reason.iter_mut().for_each(change);
    }
}

/// Changes all texts of an object, its keys included.
pub fn change_map(map: &mut Map<String, Value>, change: Change<'_>) {
    let entries = std::mem::take(map).into_iter();
    *map = entries
        .map(|(mut key, mut value)| {
            change(&mut key);
            change_value(&mut value, change);
            (key, value)
        })
        .collect();
}

/// Changes all texts of a value.
pub fn change_value(value: &mut Value, change: Change<'_>) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| change_value(value, change)),
        Value::Object(map) => change_map(map, change),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 16.4
    #[test]
    fn texts_are_cut_by_their_length_as_json() {
        for (given, most, wanted) in [
            ("", 3, ""),
            ("abcd", 4, "abcd"),
            ("abcde", 4, "a…"),
            ("ab\n\n", 6, "ab\n\n"),
            ("ab\n\n\n", 6, "ab…"),
            ("\u{1}\u{1}", 12, "\u{1}\u{1}"),
            ("\u{1}\u{1}", 11, "\u{1}…"),
            ("éé\"", 5, "é…"),
        ] {
            let mut text = given.to_owned();
            cut(&mut text, most);
            assert_eq!(text, wanted, "{given:?} {most}");
            let json = serde_json::to_string(&text).expect("a text");
            assert!(json.len() - 2 <= most, "{json}");
        }
    }
}
