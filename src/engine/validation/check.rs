//! Runs one validator.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::artifacts::{capture, copy, plain_file};
use super::report::{MAX_REPORT, Report};
use super::{Check, KeptFile, Kind, Validation};
use crate::engine::program::{Bounds, Fate, Job, Ran, last_words, path_in};
use crate::engine::record::Role;
use crate::engine::script::{Extracted, extract, words};
use crate::flow::document::{Runs, Script, Validator};
use crate::flow::{is_pattern, is_plain_path};
use crate::fsutil::{found_in, is_executable, open_plain};
use crate::git::worktrees::held::Identity;
use crate::model::step::Outcome;
use crate::words::{error_chain, pluralize};

/// The file that a harness writes its report to.
const REPORT: &str = "harness_report.json";

/// The option that names it.
const OPTION: &str = "--report";

/// The interpreter of a harness that is not executable.
pub(super) const PYTHON: &str = "python3";

/// The program of a validator.
struct Prepared {
    program: PathBuf,
    args: Vec<String>,
    /// The report, below the worktree.
    report: Option<String>,
    /// The program that an agent has written.
    written: Option<PathBuf>,
    _place: Option<Extracted>,
}

/// A validator's end, before its report is judged.
struct Judged {
    outcome: Outcome,
    how: String,
}

/// The file of what a validator prints.
pub(super) fn stdout_of(label: &str) -> String {
    format!("validation_stdout-{label}.txt")
}

/// The file of what a validator prints on stderr.
pub(super) fn stderr_of(label: &str) -> String {
    format!("validation_stderr-{label}.txt")
}

/// Runs a validator with at most this much time. `label` begins the names of its files.
pub(super) fn check(
    step: &Validation<'_>,
    validator: &Validator,
    left: Option<Duration>,
    label: &str,
) -> std::io::Result<(Check, Vec<KeptFile>, bool)> {
    let mut kept = Vec::new();
    let mut check = Check {
        name: validator.name.clone(),
        kind: kind(validator),
        outcome: Outcome::Error,
        exit_code: None,
        how: String::new(),
        elapsed: Duration::ZERO,
        report: None,
    };
    let prepared = match prepare(step, validator) {
        Ok(prepared) => prepared,
        Err(why) => {
            check.how = why;
            return Ok((check, kept, false));
        }
    };
    let top = &step.context.worktree_path;
    if let Some(written) = &prepared.written {
        keep_program(step, written, label, &mut kept)?;
    }
    let before = prepared.report.as_ref().and_then(|path| identity(top, path));
    let ran = start(step, validator, &prepared, left, label)?;
    kept.push(KeptFile::new(Role::ValidationStdout, stdout_of(label), "text/plain"));
    kept.push(KeptFile::new(Role::ValidationStderr, stderr_of(label), "text/plain"));
    check.elapsed = ran.elapsed;
    check.exit_code = if let Fate::Exited(code) = ran.fate { Some(code) } else { None };
    let mut judged = Judged { outcome: outcome(&ran.fate), how: ran.fate.words() };
    if ran.fate == Fate::Stopped {
        check.how = judged.how;
        return Ok((check, kept, true));
    }
    judged.also(ran.unkept);
    if let Some(path) = &prepared.report {
        match read_report(step, path, before, label, &mut kept)? {
            Ok(report) => check.report = Some(report),
            Err(why) => judged.fails(&format!("its report {path} {why}")),
        }
    }
    let fixtures = format!("harness_fixture-{label}");
    let values = step.values();
    let (patterns, outside): (Vec<String>, Vec<String>) =
        validator.artifacts.iter().map(|text| values.fill(text)).partition(|pattern| is_pattern(pattern));
    if !outside.is_empty() {
        judged.fails(&format!("{} is no pattern of paths in the worktree", outside.join(", ")));
    }
    let captured = capture(top, &patterns, &step.evidence.join(&fixtures))?;
    for path in captured.files {
        let path = Path::new(&fixtures).join(path);
        kept.push(KeptFile { role: Role::HarnessFixture, media_type: media_type(&path), path });
    }
    if captured.left_out > 0 {
        judged.also(Some(format!(
            "{} left out, since there is too much",
            pluralize(captured.left_out, "file")
        )));
    }
    if !captured.missing.is_empty() {
        judged.fails(&format!("{} is missing", captured.missing.join(", ")));
    }
    if judged.outcome != Outcome::Completed {
        judged.also(last_words(&step.evidence.join(stderr_of(label)), &step.evidence.join(stdout_of(label))));
    }
    (check.outcome, check.how) = (judged.outcome, judged.how);
    Ok((check, kept, false))
}

impl Judged {
    fn also(&mut self, words: Option<String>) {
        if let Some(words) = words {
            self.how = format!("{}; {words}", self.how);
        }
    }

    fn fails(&mut self, why: &str) {
        if self.outcome == Outcome::Completed {
            (self.outcome, self.how) = (Outcome::Error, format!("exited with 0, but {why}"));
        } else {
            self.also(Some(why.to_owned()));
        }
    }
}

/// The kind of a validator.
pub(super) fn kind(validator: &Validator) -> Kind {
    match validator.runs {
        Runs::Builtin => Kind::Builtin,
        Runs::Script(_) => Kind::Script,
        Runs::Harness { .. } => Kind::Harness,
    }
}

fn outcome(fate: &Fate) -> Outcome {
    match fate {
        Fate::Exited(0) => Outcome::Completed,
        Fate::TimedOut(_) => Outcome::KilledTimeout,
        Fate::Idle(_) => Outcome::KilledIdle,
        Fate::Exited(_) | Fate::Signalled(_) | Fate::NotStarted(_) | Fate::Stopped | Fate::Lost(_) => {
            Outcome::Error
        }
    }
}

fn prepare(step: &Validation<'_>, validator: &Validator) -> Result<Prepared, String> {
    let values = step.values();
    match &validator.runs {
        Runs::Builtin => {
            let line = step.line_of(&validator.name).ok_or("it is not configured on this host")?;
            let (program, args) = (PathBuf::from("/bin/sh"), vec!["-c".to_owned(), line.to_owned()]);
            Ok(Prepared { program, args, report: None, written: None, _place: None })
        }
        Runs::Script(script) => {
            let path = values.entrypoint(script)?;
            let place = extract(step.workspaces.repo, step.base, &path, step.evidence)?;
            let args = values.args(script);
            let report = report_of(&args)?;
            Ok(Prepared { program: place.program.clone(), args, report, written: None, _place: Some(place) })
        }
        Runs::Harness { script, .. } => harness(step, &validator.name, script.as_ref()),
    }
}

/// `<name>` if it can be executed, else `<name>.py`; or what the file names.
fn harness(step: &Validation<'_>, name: &str, script: Option<&Script>) -> Result<Prepared, String> {
    let (values, top) = (step.values(), &step.context.worktree_path);
    let (path, mut args) = match script {
        Some(script) => (values.entrypoint(script)?, values.args(script)),
        None => (name.to_owned(), Vec::new()),
    };
    let mut report = report_of(&args)?;
    if report.is_none() {
        args.extend([OPTION.to_owned(), REPORT.to_owned()]);
        report = Some(REPORT.to_owned());
    }
    let (program, written) = match find_harness(top, &path) {
        Found::Program(program) => (program.clone(), program),
        Found::Python(program) => {
            let python = step.python().ok_or_else(|| format!("{PYTHON} is not on this host"))?;
            args.insert(0, program.display().to_string());
            (python, program)
        }
        Found::Nothing => return Err(format!("the worktree has neither an executable {path} nor {path}.py")),
    };
    Ok(Prepared { program, args, report, written: Some(written), _place: None })
}

/// A harness in a worktree.
pub(super) enum Found {
    /// It can be executed.
    Program(PathBuf),
    /// The interpreter can execute it.
    Python(PathBuf),
    /// There is none.
    Nothing,
}

/// Looks for a harness.
pub(super) fn find_harness(top: &Path, path: &str) -> Found {
    let (program, python) = (top.join(path), top.join(format!("{path}.py")));
    if is_executable(&program) {
        Found::Program(program)
    } else if path.ends_with(".py") && program.is_file() {
        Found::Python(program)
    } else if python.is_file() {
        Found::Python(python)
    } else {
        Found::Nothing
    }
}

/// The path after `--report`.
fn report_of(args: &[String]) -> Result<Option<String>, String> {
    let joined = format!("{OPTION}=");
    let path = args.iter().enumerate().find_map(|(index, arg)| match arg.strip_prefix(&joined) {
        Some(path) => Some(path),
        None if arg == OPTION => args.get(index + 1).map(String::as_str),
        None => None,
    });
    match path {
        Some(path) if !is_plain_path(path) => Err(format!("its report {path:?} is no path in the worktree")),
        path => Ok(path.map(str::to_owned)),
    }
}

fn start(
    step: &Validation<'_>,
    validator: &Validator,
    prepared: &Prepared,
    left: Option<Duration>,
    label: &str,
) -> std::io::Result<Ran> {
    let script = match &validator.runs {
        Runs::Script(script) | Runs::Harness { script: Some(script), .. } => script.timeout_seconds,
        Runs::Builtin | Runs::Harness { script: None, .. } => None,
    };
    let own = validator.timeout_seconds.or(script).map(Duration::from_secs);
    let job = Job {
        program: prepared.program.clone(),
        args: words(prepared.args.iter().cloned()),
        directory: &step.context.worktree_path,
        environment: step.environment,
        stdin: &[],
        stdout: &step.evidence.join(stdout_of(label)),
        stderr: &step.evidence.join(stderr_of(label)),
        bounds: Bounds { wall: own.into_iter().chain(left).min(), ..step.limits },
        stop: step.stop,
        watchdog: step.watchdog,
    };
    job.run()
}

/// Keeps the program that an agent has written, unless it is very long.
fn keep_program(
    step: &Validation<'_>,
    program: &Path,
    label: &str,
    kept: &mut Vec<KeptFile>,
) -> std::io::Result<()> {
    let Ok(found) = program.symlink_metadata() else { return Ok(()) };
    if found.is_file() && found.len() <= MAX_REPORT {
        let name = format!("harness_fixture-{label}.program");
        copy(program, &step.evidence.join(&name))?;
        kept.push(KeptFile::new(Role::HarnessFixture, name, "text/plain"));
    }
    Ok(())
}

fn identity(top: &Path, path: &str) -> Option<Identity> {
    top.join(path).symlink_metadata().ok().map(|found| Identity::of(&found))
}

/// Reads a report that is newer than its validator, and keeps it whatever is in it.
fn read_report(
    step: &Validation<'_>,
    path: &str,
    before: Option<Identity>,
    label: &str,
    kept: &mut Vec<KeptFile>,
) -> std::io::Result<Result<Report, String>> {
    let top = &step.context.worktree_path;
    let now = identity(top, path);
    let Some(found) = plain_file(top, Path::new(path)) else {
        return Ok(Err(if now.is_none() { "is missing" } else { "is no regular file" }.to_owned()));
    };
    if now == before {
        return Ok(Err("is older than the step".to_owned()));
    }
    if found.len() > MAX_REPORT {
        return Ok(Err(format!("is longer than {} MiB", MAX_REPORT / 1024 / 1024)));
    }
    let name = format!("validation_report-{label}.json");
    copy(&top.join(path), &step.evidence.join(&name))?;
    let mut bytes = Vec::new();
    let read = open_plain(&step.evidence.join(&name))?.take(MAX_REPORT).read_to_end(&mut bytes);
    kept.push(KeptFile::new(Role::ValidationReport, name, "application/json"));
    Ok(match read {
        Ok(_) => Report::read(&bytes).map_err(|why| format!("cannot be used: {why}")),
        Err(error) => Err(format!("could not be read: {}", error_chain(&error))),
    })
}

fn media_type(path: &Path) -> &'static str {
    let known = [
        ("css", "text/css"),
        ("csv", "text/csv"),
        ("gif", "image/gif"),
        ("html", "text/html"),
        ("jpeg", "image/jpeg"),
        ("jpg", "image/jpeg"),
        ("json", "application/json"),
        ("log", "text/plain"),
        ("md", "text/markdown"),
        ("pdf", "application/pdf"),
        ("png", "image/png"),
        ("svg", "image/svg+xml"),
        ("txt", "text/plain"),
        ("webp", "image/webp"),
        ("xml", "application/xml"),
        ("zip", "application/zip"),
    ];
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    known.iter().find(|(one, _)| *one == end).map_or("application/octet-stream", |(_, kind)| kind)
}

impl Validation<'_> {
    /// The interpreter of harnesses.
    pub(super) fn python(&self) -> Option<PathBuf> {
        found_in(PYTHON, self.path())
    }

    /// The directories in which validators find programs.
    pub(super) fn path(&self) -> &OsStr {
        path_in(self.environment)
    }
}
