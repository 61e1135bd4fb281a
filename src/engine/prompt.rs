//! The text that an agent is given: the flow's, with its inputs, and files from earlier steps (CONTRACT 20.4).
//!
//! Invariant: what earlier steps left is handed over as files beside the prompt, never as a part of it, so no agent's words
//! pass for the flow's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::contract::ids::CommitId;
use crate::flow::document::{Artifact, Prompt, PromptKind};
use crate::flow::due::was_cut_off;
use crate::flow::rounds::period;
use crate::flow::substitution::fill;
use crate::fsutil;
use crate::git::objects::revspec::Content;
use crate::journal::artifacts;
use crate::ledger::content;
use crate::model::approval::{Answer, Consent};
use crate::model::artifact::Artifact as Stored;
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::words::error_chain;
use crate::workspace::refusal::{Refusal, Why};

use super::Engine;
use super::attempt::Scene;
use super::limits::rounds;
use super::question::request;
use super::record::Recorded;

/// The longest prompt file, in bytes.
const MAX_PROMPT: u64 = 1024 * 1024;

/// The most that is handed over of each log of a validator, in bytes. It is the end of the log.
const MAX_LOG: usize = 64 * 1024;

/// The roles of the output of validators.
const LOGS: [&str; 2] = ["validation_stdout", "validation_stderr"];

impl Engine<'_> {
    /// The text of a prompt, with inputs.
    pub(super) fn prompt_text(&self, scene: &Scene<'_, '_>, prompt: &Prompt) -> Result<String, Refusal> {
        let path = match prompt.kind {
            PromptKind::Text => None,
            PromptKind::File => Some(prompt.text.clone()),
            PromptKind::Named => Some(format!(".aynig/prompts/{}.md", prompt.text)),
        };
        let found = path.as_ref().map(|path| self.base_file(scene, path)).transpose()?.flatten();
        let text = match (found, prompt.kind == PromptKind::File) {
            (Some(bytes), _) => String::from_utf8_lossy(&bytes).into_owned(),
            (None, true) => {
                let message = format!("the base commit has no file {}", prompt.text);
                return Err(Refusal::new(Why::Failed, message));
            }
            (None, false) => prompt.text.clone(),
        };
        let run = scene.work.ledger.tip().state.run.id.to_string();
        Ok(fill(&text, &scene.inputs, &run))
    }

    /// A file of the base commit.
    pub(super) fn base_file(&self, scene: &Scene<'_, '_>, path: &str) -> Result<Option<Vec<u8>>, Refusal> {
        let found = self.repo.content_at(scene.work.context.base(), path, MAX_PROMPT);
        match found.map_err(|error| Refusal::because(&format!("read {path} of the base commit"), &error))? {
            Some(Content::File { bytes, .. }) => Ok(Some(bytes)),
            Some(Content::Directory | Content::Link(_)) | None => Ok(None),
        }
    }

    /// The whole prompt: the text, and the files from earlier steps, which are written below `directory`.
    pub(super) fn whole_prompt(
        &self,
        scene: &Scene<'_, '_>,
        text: String,
        wanted: &[Artifact],
        directory: &Path,
    ) -> Result<String, Refusal> {
        let mut whole = text;
        let mut lines = String::new();
        for artifact in wanted {
            crate::fsutil::create_private_dir_all(directory)
                .map_err(|error| Refusal::because(&format!("make {}", directory.display()), &error))?;
            let (name, path) = self.handed_over(scene, artifact, directory)?;
            let shown =
                path.map_or_else(|| "there is none yet".to_owned(), |path| path.display().to_string());
            let _infallible = write!(lines, "\n- {name}: {shown}");
            if matches!(artifact, Artifact::ValidationReport)
                && let Some(output) = self.failed_output(scene)
            {
                let path = written(directory, "validation_output.txt", output.as_bytes())?;
                let _infallible = write!(lines, "\n- validation_output: {}", path.display());
            }
        }
        if !lines.is_empty() {
            let _infallible = write!(whole, "\n\nFiles from earlier steps:{lines}\n");
        }
        let rounds = rounds(&scene.work.ledger.tip().state);
        if let (Some(_), Some(last)) = (period(&rounds), rounds.last()) {
            let _infallible = write!(
                whole,
                "\n\nThe last rounds of the flow, up to its step {}, left the same files and the same result, again and \
                 again. Do something else than before, or say what is in the way.\n",
                last.step
            );
        }
        Ok(whole)
    }

    /// Writes what an earlier step left into a directory. Returns its name, and the file if there is one.
    fn handed_over(
        &self,
        scene: &Scene<'_, '_>,
        artifact: &Artifact,
        directory: &Path,
    ) -> Result<(String, Option<PathBuf>), Refusal> {
        let state = &scene.work.ledger.tip().state;
        let newest = || state.steps.values().rev().filter(|step| !was_cut_off(step));
        let last = |is: &dyn Fn(&&Step) -> bool| newest().find(is);
        let (name, file, content) = match artifact {
            Artifact::Diff => {
                let path = directory.join("diff.patch");
                let head = CommitId::parse_hex(scene.work.context.head_sha.as_bytes());
                let base = scene.work.context.base();
                self.repo
                    .write_patch(base, head.unwrap_or(base), &path)
                    .map_err(|error| Refusal::because("make a patch", &error))?;
                let is_there = path.metadata().is_ok_and(|found| found.len() > 0);
                return Ok(("diff".to_owned(), is_there.then_some(path)));
            }
            Artifact::ValidationReport => {
                let step = last(&|step| step.opcode == Opcode::RunValidation);
                let content = step.and_then(|step| self.kept(scene, step, "validation_report"));
                ("validation_report".to_owned(), "validation_report.json".to_owned(), content)
            }
            Artifact::FixInstructions => {
                let step = last(&|step| step.opcode == Opcode::Evaluate);
                let wanted = step.and_then(|step| step.record.as_ref()?.fix_instructions.clone());
                let text = wanted.map(|value| match value {
                    serde_json::Value::String(text) => text,
                    value => value.to_string(),
                });
                let content = text.map(String::into_bytes);
                ("fix_instructions".to_owned(), "fix_instructions.md".to_owned(), content)
            }
            Artifact::Response(name) => {
                let step = last(&|step| step.id.as_str() == name.name);
                let content = step.and_then(|step| match step.opcode {
                    Opcode::Gate => commented(state, step.number),
                    _ => self.kept(scene, step, "runner_final_response"),
                });
                (format!("{}.response", name.name), format!("{}.response.md", name.name), content)
            }
        };
        let Some(content) = content else { return Ok((name, None)) };
        Ok((name, Some(written(directory, &file, &content)?)))
    }

    /// The output of the last validation, if that failed.
    pub(super) fn failed_output(&self, scene: &Scene<'_, '_>) -> Option<String> {
        let state = &scene.work.ledger.tip().state;
        let validations = |step: &&Step| step.opcode == Opcode::RunValidation && !was_cut_off(step);
        let step = state.steps.values().rev().find(validations)?;
        if step.outcome == Some(Outcome::Completed) {
            return None;
        }
        let mut output = String::new();
        for kept in &step.record.as_ref()?.artifacts {
            let log = step.artifacts.get(&kept.artifact).filter(|_| LOGS.contains(&kept.role.as_str()));
            let content = log.and_then(|artifact| self.content(scene, step, artifact));
            if let (Some(artifact), Some(content)) = (log, content.filter(|content| !content.is_empty())) {
                let text = String::from_utf8_lossy(&content);
                let _infallible =
                    writeln!(output, "== {}\n{}", artifact.name, end_of(&text, MAX_LOG).trim_end());
            }
        }
        (!output.is_empty()).then_some(output)
    }

    /// The content of an artifact of a step, if this host or the ledger has it.
    pub(super) fn kept(&self, scene: &Scene<'_, '_>, step: &Step, role: &str) -> Option<Vec<u8>> {
        let id = step.record.as_ref()?.artifact(role)?;
        self.content(scene, step, step.artifacts.get(&id)?)
    }

    fn content(&self, scene: &Scene<'_, '_>, step: &Step, artifact: &Stored) -> Option<Vec<u8>> {
        let id = artifact.id;
        let found = content::read(self.repo, scene.work.ledger.tip(), &artifact.sha256);
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%id, error = error_chain(&error), "an artifact cannot be read");
            None
        });
        let directory = self.directory(scene.work.ledger.tip().state.run.id);
        let found = found.or_else(|| fsutil::read_plain(artifacts::place(&directory, id)).ok());
        found.or_else(|| Recorded::of(&directory, Some(step.id.as_str())).content(&artifact.sha256))
    }
}

/// The comments of the people who approved a gate, or the comment of its rejection alone. `None` if there is no comment, or
/// if the gate ended without an answer.
fn commented(state: &State, number: u64) -> Option<Vec<u8>> {
    let asked = request(state, number)?;
    let given = asked.resolution.as_ref()?;
    let consents: &[Consent] = match given.status {
        Answer::Approved => &asked.consents,
        Answer::Denied => &[],
        Answer::Modified | Answer::Expired | Answer::Withdrawn => return None,
    };
    let reasons = consents.iter().map(|one| &one.reason).chain([&given.reason]).flatten();
    let mut texts: Vec<&str> = reasons.map(|text| text.trim_end()).filter(|text| !text.is_empty()).collect();
    texts.dedup();
    (!texts.is_empty()).then(|| (texts.join("\n\n") + "\n").into_bytes())
}

fn written(directory: &Path, name: &str, content: &[u8]) -> Result<PathBuf, Refusal> {
    let path = directory.join(name);
    crate::fsutil::replace_private(&path, content)
        .map_err(|error| Refusal::because(&format!("write {}", path.display()), &error))?;
    Ok(path)
}

/// The last bytes of a text, from the beginning of a character on.
pub(super) fn end_of(text: &str, bytes: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    text.get(from..).unwrap_or_default()
}
