//! Asks a planner once.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::answer::last_object;
use super::{Envelope, Evaluated, Evaluation, Planner, Verdict};
use crate::engine::program::{Bounds, Fate, Job};
use crate::engine::record::Role;
use crate::engine::script::{extract, words};
use crate::engine::stirred::Stirred;
use crate::engine::validation::KeptFile;
use crate::flow::document::Script;
use crate::fsutil;
use crate::provider::turn::files;
use crate::provider::{Ended, How, Ids, Posture, Provider, Turn};

/// One question to a planner.
pub(super) struct Question<'a> {
    /// Its number, from 1.
    pub(super) number: usize,
    /// The fault of the last answer.
    pub(super) error: Option<&'a str>,
    /// The time that is left.
    pub(super) left: Option<Duration>,
}

/// The answer of a planner.
pub(super) enum Heard {
    /// A JSON object, or so it should be.
    Answer(Vec<u8>),
    /// Nothing that can be read, for this reason.
    Nothing(String),
    /// It is not asked again.
    Early(Verdict),
}

/// The instructions for an agent's answer.
const FORM: &str = "Answer with one JSON object and nothing else. Its fields: `status` (success, partial, blocked, unsafe or \
needs_human), `next_step` (one of `allowed_next_steps`, or null), `fix_instructions` (a text or an object for the next agent, or null), \
`blockers` (a list of objects with `code` and `summary`), `risk_flags` (a list of texts). Do not change any file.";

/// Asks the planner.
pub(super) fn ask(step: &Evaluation<'_>, question: &Question<'_>, done: &mut Evaluated) -> io::Result<Heard> {
    if step.stop.cause().is_some() {
        return Ok(Heard::Early(Verdict::Stopped));
    }
    match step.planner {
        Planner::Line(line) => {
            let args = words(["-c".to_owned(), line.to_owned()]);
            command(step, question, (Path::new("/bin/sh"), args, None), done)
        }
        Planner::Script(script) => by_script(step, question, script, done),
        Planner::Agent { provider, posture, environment, ids } => {
            by_agent(step, question, (provider, posture, environment, ids), done)
        }
    }
}

fn by_script(
    step: &Evaluation<'_>,
    question: &Question<'_>,
    script: &Script,
    done: &mut Evaluated,
) -> io::Result<Heard> {
    let values = step.values();
    let place = values
        .entrypoint(script)
        .and_then(|path| extract(step.workspaces.repo, step.base, &path, step.evidence));
    match place {
        Err(why) => Ok(Heard::Nothing(why)),
        Ok(place) => {
            let limit = script.timeout_seconds.map(Duration::from_secs);
            command(step, question, (&place.program, words(values.args(script)), limit), done)
        }
    }
}

/// Runs a command with the envelope on its standard input.
fn command(
    step: &Evaluation<'_>,
    question: &Question<'_>,
    (program, args, limit): (&Path, Vec<OsString>, Option<Duration>),
    done: &mut Evaluated,
) -> io::Result<Heard> {
    let number = question.number;
    let mut envelope = serde_json::to_value(&step.envelope).map_err(io::Error::other)?;
    if let (Some(error), Some(fields)) = (question.error, envelope.as_object_mut()) {
        fields.insert("last_answer_error".to_owned(), error.into());
    }
    let text = serde_json::to_vec_pretty(&envelope).map_err(io::Error::other)?;
    keep_prompt(step, number, "json", &text, done)?;
    let (stdout, stderr) = (format!("runner_transcript-{number}.txt"), format!("runner_stderr-{number}.txt"));
    let job = Job {
        program: program.to_owned(),
        args,
        directory: &step.context.worktree_path,
        environment: step.environment,
        stdin: &text,
        stdout: &step.file(&stdout),
        stderr: &step.file(&stderr),
        bounds: Bounds { wall: limit.into_iter().chain(question.left).min(), ..step.limits },
        stop: step.stop,
        watchdog: step.watchdog,
    };
    let ran = job.run()?;
    let (answer, said) = (step.file(&stdout), stderr.clone());
    done.kept.push(KeptFile::new(Role::RunnerTranscript, stdout, "text/plain"));
    done.kept.push(KeptFile::new(Role::RunnerStderr, stderr, "text/plain"));
    Ok(match ran.fate {
        Fate::Stopped => Heard::Early(Verdict::Stopped),
        // `Decision::read` refuses one that is too long; a log has a bounded size.
        Fate::Exited(0) => Heard::Answer(fsutil::read_plain(answer)?),
        fate => {
            let last =
                fsutil::last_line(&step.file(&said)).map(|line| format!("; its last line on stderr: {line}"));
            Heard::Nothing(format!("it {}{}", fate.words(), last.unwrap_or_default()))
        }
    })
}

type Agent<'a> = (&'a Provider, Posture, &'a [(OsString, OsString)], Ids<'a>);

/// Runs a turn of an agent.
fn by_agent(
    step: &Evaluation<'_>,
    question: &Question<'_>,
    (provider, posture, environment, ids): Agent<'_>,
    done: &mut Evaluated,
) -> io::Result<Heard> {
    let number = question.number;
    let text = prompt(&step.envelope, question.error)?;
    keep_prompt(step, number, "txt", text.as_bytes(), done)?;
    let place = format!("turn-{number}");
    let evidence = step.file(&place);
    fsutil::create_private_dir_all(&evidence)?;
    let stirred = Stirred::new(&step.context.worktree_path);
    let ended = crate::provider::run(&Turn {
        provider,
        directory: &step.context.worktree_path,
        prompt: text.as_bytes(),
        posture,
        model: None,
        session: None,
        is_delta: false,
        listener: None,
        wall: question.left,
        idle: step.limits.idle,
        environment,
        ids,
        evidence: &evidence,
        changed: &|| stirred.has_changed(),
        stop: step.stop,
        watchdog: step.watchdog,
        gate: None,
        tools: None,
    });
    for (role, name) in [
        (Role::RunnerTranscript, files::TRANSCRIPT),
        (Role::RunnerStderr, files::STDERR),
        (Role::RunnerFinalResponse, files::FINAL),
    ] {
        if evidence.join(name).is_file() {
            done.kept.push(KeptFile::new(role, PathBuf::from(&place).join(name), "text/plain"));
        }
    }
    let heard = hear(&ended);
    done.turns.push(ended);
    Ok(heard)
}

fn hear(ended: &Ended) -> Heard {
    match &ended.how {
        How::Completed => match ended.final_text.as_deref().map(last_object) {
            Some(Ok(object)) => Heard::Answer(object.as_bytes().to_vec()),
            Some(Err(why)) => Heard::Nothing(why.to_owned()),
            None => Heard::Nothing("there is no answer".to_owned()),
        },
        How::Stopped(_) => Heard::Early(Verdict::Stopped),
        How::Unavailable(why) => Heard::Early(Verdict::Unable(why.clone())),
        How::Limited { until, message } => {
            Heard::Early(Verdict::Later { until: *until, why: message.clone() })
        }
        How::Later => Heard::Early(Verdict::Later { until: None, why: ended.evidence.clone() }),
        _ if ended.outage => Heard::Early(Verdict::Later { until: None, why: ended.evidence.clone() }),
        How::Failed | How::TimedOut(_) | How::Idle(_) | How::Asked(_) | How::Parked { .. } => {
            Heard::Nothing(ended.evidence.clone())
        }
    }
}

/// The prompt of an agent that judges.
fn prompt(envelope: &Envelope<'_>, error: Option<&str>) -> io::Result<String> {
    let record = serde_json::to_string_pretty(envelope).map_err(io::Error::other)?;
    let again = error.map(|error| format!("\n\nYour last answer could not be used: {error}"));
    let prompt = envelope.evaluate_prompt.trim_end();
    Ok(format!("{prompt}\n\nJudge by this record:\n\n{record}\n\n{FORM}{}\n", again.unwrap_or_default()))
}

fn keep_prompt(
    step: &Evaluation<'_>,
    number: usize,
    end: &str,
    text: &[u8],
    done: &mut Evaluated,
) -> io::Result<()> {
    let name = format!("prompt-{number}.{end}");
    fsutil::replace_private(&step.file(&name), text)?;
    let media_type = if end == "json" { "application/json" } else { "text/plain" };
    done.kept.push(KeptFile::new(Role::Prompt, name, media_type));
    Ok(())
}
