//! `aynig install`: copies the `.aynig/` of another repository into this checkout.
//!
//! Invariant: without `--apply` nothing in the checkout changes. With it only files below `.aynig/` change,
//! and HEAD contains each file that is overwritten or removed. Nothing from the pack is run, staged or
//! committed.

mod ours;
mod pack;
mod plan;
mod record;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use aynig::clock;
use aynig::contract::ids::{RoleName, StateName};
use aynig::git::objects::bundle::{Blob, Fetched, Files, PackError, is_refname};
use aynig::git::{Checkout, ProcessError, Repo};
use aynig::ops::app::App;
use aynig::ops::error::{Error, Kind};
use aynig::words::{error_chain, shell_quote};

use crate::cli::args::Install;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{BAD, CARE, FAINT, GOOD, STRONG, sanitize, styled};
use crate::cli::upkeep::install::pack::{AYNIG, RECORD, objections};
use crate::cli::upkeep::install::plan::{Change, Step, plan};
use crate::cli::upkeep::install::record::{Installed, Record};
use crate::cli::upkeep::install::source::Source;

/// How many names a message lists.
const LISTED: usize = 8;

/// The parsed arguments.
struct Asked<'a> {
    options: &'a Install,
    source: Source,
    reference: &'a str,
    subfolder: String,
}

/// The changes that would be made, or were made.
struct Outcome {
    commit: String,
    steps: Vec<Step>,
    /// The targets of the pack's symlinks.
    targets: BTreeMap<String, String>,
    /// The text of the record, if it must be written.
    record: Option<Vec<u8>>,
}

impl Outcome {
    fn touched(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.change.touches())
    }

    fn is_nothing(&self) -> bool {
        self.record.is_none() && self.touched().next().is_none()
    }
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, options: &Install) -> Result<Exit, Error> {
    let wrong = |why: String| Error::usage(sanitize(&why));
    let source = Source::parse(&app.process.start, &options.repository).map_err(|why| {
        wrong(why).hint("give a path, a URL, or OWNER/NAME: `aynig install OWNER/NAME [REF] [SUBFOLDER]`")
    })?;
    let reference = options.reference.as_deref().unwrap_or("HEAD");
    if !is_refname(reference) {
        return Err(wrong(format!("{reference:?} is no branch, tag or commit id"))
            .hint("`HEAD` is the default branch: `aynig install REPO HEAD SUBFOLDER`"));
    }
    let subfolder = source::subfolder(options.subfolder.as_deref().unwrap_or_default()).map_err(wrong)?;
    let asked = Asked { options, source, reference, subfolder };
    let repo = app.repo();
    let Some(checkout) = repo.checkout() else {
        return Err(Error::setup(format!(
            "could not install a pack: the repository {} is bare and has no checkout",
            repo.common_dir().display()
        ))
        .hint("install it in a clone, commit, and push that"));
    };
    let outcome = install(&repo, &checkout, &asked)?;
    tell(&asked, &outcome);
    let conflicts = outcome.steps.iter().any(|step| step.change == Change::Conflict);
    Ok(if options.apply && conflicts { Exit::Failed } else { Exit::Done })
}

/// Fetches, compares, and writes if requested.
fn install(repo: &Repo, checkout: &Checkout, asked: &Asked<'_>) -> Result<Outcome, Error> {
    let cannot = |error: ProcessError| Error::because("look at .aynig", &error);
    let uncommitted = repo.uncommitted_below(checkout, AYNIG).map_err(cannot)?;
    if !uncommitted.is_empty() {
        let refused = not_committed(asked, &uncommitted);
        // Git puts nothing away before the first commit.
        return Err(match repo.checked_out(checkout) {
            Some(_) => refused,
            None => Error {
                hints: vec!["commit it: `git add --all && git commit`; then install again".into()],
                ..refused
            },
        });
    }
    let here = repo.files_at_head(checkout, AYNIG).map_err(cannot)?;
    let record = read_record(repo, checkout, &here)?;
    // A signal stops the fetch, but not the writing.
    signals::end_calls(repo)?;
    let room =
        tempfile::tempdir().map_err(|error| Error::because("make a directory to fetch into", &error))?;
    let failed = |error| no_pack(asked, &error);
    let unpacked = room.path().join("pack");
    if let Some(name) = asked.source.ours {
        ours::unpack(name, &unpacked).map_err(|error| Error::because("unpack the pack", &error))?;
    }
    let directory = match asked.source.ours {
        Some(_) => Some(unpacked.as_path()),
        None => Some(Path::new(&asked.source.url)).filter(|path| Repo::is_plain_directory(path)),
    };
    let fetched = match directory {
        None => repo.fetch_pack(room.path(), &asked.source.url, asked.reference),
        Some(_) if asked.options.reference.as_deref().is_some_and(|named| named != "HEAD") => {
            return Err(Error::usage(format!(
                "{} is a plain directory, which has no branches and tags such as {}",
                asked.source.shown, asked.reference
            )));
        }
        Some(directory) => repo.take_directory(room.path(), directory, &below(asked)),
    };
    let mut fetched = fetched.map_err(failed)?;
    let (files, targets) = files(repo, asked, &mut fetched)?;
    let against = objections(&files, &targets, &here);
    if !against.is_empty() {
        return Err(refused(asked, "its files may not be written here", &against));
    }
    let last = record.find(&asked.source.shown, &asked.subfolder);
    let base = last.map(|last| last.files.clone()).unwrap_or_default();
    let commit = fetched.commit.to_string();
    let is_new = last.is_none_or(|last| last.commit != commit || last.files != files);
    let steps = plan(&base, &here, &files, asked.options.force);
    let mut outcome = Outcome { commit, steps, targets, record: None };
    if is_new {
        let text = recorded(asked, record, files, &outcome);
        outcome.record = Some(text.map_err(|error| Error::because("write the record", &error))?);
    }
    if outcome.is_nothing() {
        return Ok(outcome);
    }
    let changes: Vec<(&str, Option<&Blob>)> =
        outcome.touched().map(|step| (step.path.as_str(), step.new.as_ref())).collect();
    in_the_way(asked, &here, &changes)?;
    let head = repo.checked_out(checkout).and_then(|head| repo.commit(head).ok());
    let tree = head.and_then(|head| repo.directory_in(head.tree, AYNIG).ok()?);
    let record = outcome.record.as_deref().map(|text| (RECORD, text));
    let patch = fetched.patch(repo, tree, &changes, record).map_err(failed)?;
    repo.apply_below(checkout, AYNIG, &patch, Some("--check"))
        .map_err(|error| not_committed(asked, &[error_chain(&error)]))?;
    if asked.options.apply {
        repo.apply_below(checkout, AYNIG, &patch, None).map_err(|error| {
            Error::because("write the files of the pack", &error)
                .hint("`git status -- .aynig` shows what was written; put it away, and install again")
        })?;
    }
    Ok(outcome)
}

/// The pack's directory in its source.
fn below(asked: &Asked<'_>) -> String {
    format!("{}/{AYNIG}", asked.subfolder).trim_start_matches('/').to_owned()
}

/// The files of the pack, and the targets of its symlinks.
fn files(
    repo: &Repo,
    asked: &Asked<'_>,
    fetched: &mut Fetched,
) -> Result<(Files, BTreeMap<String, String>), Error> {
    let failed = |error| no_pack(asked, &error);
    let below = below(asked);
    let mut files = fetched.files(repo, &below).map_err(failed)?;
    // The record of the pack's own repository is not part of the pack.
    files.remove(RECORD);
    if files.is_empty() {
        return Err(not_there(asked, fetched, &below));
    }
    let mut targets = BTreeMap::new();
    for (path, blob) in files.iter().filter(|(_, blob)| blob.mode == "120000") {
        targets.insert(path.clone(), fetched.target(blob).map_err(failed)?);
    }
    Ok((files, targets))
}

/// The text of the record with this pack in it.
fn recorded(
    asked: &Asked<'_>,
    mut record: Record,
    files: Files,
    outcome: &Outcome,
) -> Result<Vec<u8>, serde_json::Error> {
    let installed = Installed {
        source: asked.source.shown.clone(),
        subfolder: asked.subfolder.clone(),
        reference: asked.reference.to_owned(),
        commit: outcome.commit.clone(),
        installed: clock::format_utc(clock::wall_seconds()),
        files,
    };
    record.put(installed, &outcome.touched().map(|step| step.path.as_str()).collect::<Vec<_>>());
    record.text()
}

/// Refuses changes that would turn an unchanged file into a directory, or the reverse.
fn in_the_way(asked: &Asked<'_>, here: &Files, changes: &[(&str, Option<&Blob>)]) -> Result<(), Error> {
    // A file in place of `.aynig/` has the empty name.
    let holds = |one: &str, other: &str| {
        one.is_empty() || other.strip_prefix(one).is_some_and(|rest| rest.starts_with('/'))
    };
    let stays = |path: &str| changes.iter().all(|(changed, _)| *changed != path);
    let meets = |path: &str| {
        changes.iter().any(|(new, blob)| blob.is_some() && (holds(path, new) || holds(new, path)))
    };
    let blocked = here.iter().filter(|(path, _)| stays(path) && meets(path)).map(|(path, blob)| {
        let kind = match blob.mode.as_str() {
            "120000" => "a symbolic link",
            "160000" => "a submodule",
            _ => "a file",
        };
        format!("{} is {kind} here", format!("{AYNIG}/{path}").trim_end_matches('/'))
    });
    let blocked: Vec<String> = blocked.collect();
    if blocked.is_empty() {
        return Ok(());
    }
    Err(refused(asked, "something is in the way", &blocked)
        .hint("move it away, commit that, and install again"))
}

fn read_record(repo: &Repo, checkout: &Checkout, here: &Files) -> Result<Record, Error> {
    let Some(blob) = here.get(RECORD) else { return Ok(Record::default()) };
    let text = repo.content(checkout, blob).map_err(|error| error_chain(&error));
    text.and_then(|text| Record::parse(&text)).map_err(|why| {
        Error::setup(format!("could not read {AYNIG}/{RECORD}, which says what was installed here: {why}"))
            .hint(format!("`git log -p -- {AYNIG}/{RECORD}` shows how it came to that; `git restore` brings an older one back"))
            .hint("or remove it and commit that: then every file that is here counts as yours")
    })
}

/// The reason why there is nothing to install.
fn no_pack(asked: &Asked<'_>, error: &PackError) -> Error {
    let error_chain = asked.source.hide(&error_chain(error));
    let shown = &asked.source.shown;
    let message = format!("nothing was installed from {shown}: {error_chain}");
    let refusal = Error::setup(&message);
    match error {
        PackError::Unreachable(ProcessError::NotStarted { .. }) => {
            refusal.hint("put the directory of the program `git` into PATH")
        }
        PackError::Unreachable(_) => {
            let hint = format!("`git ls-remote {}` shows whether it can be reached", shell_quote(shown));
            Error::new(Kind::Remote, message).hint(hint)
        }
        PackError::NoRef(_) => refusal.hint(format!(
            "`git ls-remote {}` lists what it has; of a commit give the whole id",
            shell_quote(shown)
        )),
        PackError::Hostile(_) | PackError::Unreadable(_) | PackError::TooLarge => refusal,
    }
}

fn not_there(asked: &Asked<'_>, fetched: &Fetched, below: &str) -> Error {
    let (shown, at) = (&asked.source.shown, fetched.commit.short());
    let error = Error::setup(format!(
        "nothing was installed from {shown}: there is no directory {below} with files in it at {} ({at})",
        asked.reference
    ));
    let elsewhere = fetched.directories_with(AYNIG);
    if elsewhere.is_empty() {
        return error.hint("no directory there has one; is it the right source?");
    }
    let hint = |path: &String| format!("there is one here: `{}`", command(asked, path, ""));
    elsewhere.iter().take(LISTED).fold(error, |error, path| error.hint(hint(path)))
}

fn not_committed(asked: &Asked<'_>, list: &[String]) -> Error {
    refused(asked, "what is below .aynig/ here is not what is committed", list)
        .hint("commit it, or put it away: `git stash push --include-untracked -- .aynig`; then install again")
}

fn refused(asked: &Asked<'_>, why: &str, list: &[String]) -> Error {
    let mut words = list.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join("; ");
    if list.len() > LISTED {
        words.push_str(&format!("; and {} more", list.len() - LISTED));
    }
    Error::setup(format!("nothing was installed from {}: {why}: {words}", asked.source.shown))
}

/// The command that installs from `subfolder`.
fn command(asked: &Asked<'_>, subfolder: &str, more: &str) -> String {
    let mut words = vec![shell_quote(asked.source.hide(&asked.options.repository.to_string_lossy()))];
    if asked.options.reference.is_some() || !subfolder.is_empty() {
        words.push(shell_quote(asked.reference));
    }
    if !subfolder.is_empty() {
        words.push(shell_quote(subfolder));
    }
    words.extend([if asked.options.force { "--force" } else { "" }, more].map(str::to_owned));
    words.retain(|word| !word.is_empty());
    format!("aynig install {}", words.join(" "))
}

/// The state and the role that a file is the command of.
fn serves(step: &Step) -> Option<(StateName, Option<RoleName>)> {
    let (role, state) = match step.path.strip_prefix("roles/") {
        Some(rest) => {
            let (role, state) = rest.split_once("/command/")?;
            (Some(RoleName::parse(role).ok()?), state)
        }
        None => (None, step.path.strip_prefix("command/")?),
    };
    step.new.as_ref().filter(|blob| blob.may_run())?;
    Some((StateName::parse(state).ok()?, role))
}

/// The purpose of a pack's file, if it has one, and why it changes or stays.
fn remarks(step: &Step, target: Option<&String>) -> String {
    let runs = match serves(step) {
        Some((state, Some(role))) => Some(format!("runs for the state {state} in the role {role}")),
        Some((state, None)) => Some(format!("runs for the state {state}")),
        None => is_executable(step).then(|| "executable".to_owned()),
    };
    let link = target.map(|target| format!("link to {target}"));
    let marks = [runs, link].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let words: Vec<&str> = [&marks, step.why].into_iter().filter(|words| !words.is_empty()).collect();
    if words.is_empty() { String::new() } else { format!("  ({})", words.join("; ")) }
}

fn is_executable(step: &Step) -> bool {
    step.new.as_ref().is_some_and(|blob| blob.mode == "100755")
}

fn tell(asked: &Asked<'_>, outcome: &Outcome) {
    if asked.options.json {
        ui::answer_json(&answer(asked, outcome));
        return;
    }
    let place = if asked.subfolder.is_empty() { String::new() } else { format!(", {}", asked.subfolder) };
    let about = format!("({} is {}{place})", asked.reference, outcome.commit);
    ui::answer(&format!(
        "{} {}",
        styled(STRONG, sanitize(&asked.source.shown)),
        styled(FAINT, sanitize(&about))
    ));
    for step in &outcome.steps {
        let style = match step.change {
            Change::Add | Change::Replace => GOOD,
            Change::Remove | Change::Kept => CARE,
            Change::Unchanged => FAINT,
            Change::Conflict => BAD,
        };
        let word = styled(style, format!("{:<9}", step.change.word()));
        let remarks = remarks(step, outcome.targets.get(&step.path));
        ui::answer(&format!("  {word}  {}", sanitize(&format!("{AYNIG}/{}{remarks}", step.path))));
    }
    for line in closing(asked, outcome) {
        ui::answer(&sanitize(&line));
    }
}

/// The answer as JSON. Its keys are stable.
fn answer(asked: &Asked<'_>, outcome: &Outcome) -> serde_json::Value {
    let files = outcome.steps.iter().map(|step| {
        let (state, role) = serves(step).unzip();
        json!({
            "path": format!("{AYNIG}/{}", step.path),
            "change": step.change.word(),
            "reason": (!step.why.is_empty()).then_some(step.why),
            "executable": is_executable(step),
            "link": outcome.targets.get(&step.path),
            "state": state.map(|state| state.to_string()),
            "role": role.flatten().map(|role| role.to_string()),
        })
    });
    json!({
        "source": asked.source.shown,
        "ref": asked.reference,
        "commit": outcome.commit,
        "subfolder": asked.subfolder,
        "upToDate": outcome.is_nothing(),
        "applied": asked.options.apply && !outcome.is_nothing(),
        "files": files.collect::<Vec<_>>(),
        "record": format!("{AYNIG}/{RECORD}"),
    })
}

/// Why executable files are counted.
const REVIEW: &str = "Review before you commit: once committed, they run as you when a branch requests them.";

/// The summary, and the next commands.
fn closing(asked: &Asked<'_>, outcome: &Outcome) -> Vec<String> {
    let count = |change: Change| outcome.steps.iter().filter(|step| step.change == change).count();
    let (added, changed, removed) = (count(Change::Add), count(Change::Replace), count(Change::Remove));
    let (conflicts, kept) = (count(Change::Conflict), count(Change::Kept));
    let (applied, nothing) = (asked.options.apply, outcome.is_nothing());
    let mut lines = vec![String::new()];
    lines.push(if nothing {
        "Up to date: there is nothing to write.".to_owned()
    } else if applied {
        format!("Written, not staged: {added} added, {changed} changed, {removed} removed, and {AYNIG}/{RECORD}, which says from where.")
    } else {
        format!("Nothing was written yet: {added} to add, {changed} to change, {removed} to remove.")
    });
    let programs = outcome.touched().filter_map(|step| step.new.as_ref()).filter(|blob| blob.may_run());
    match programs.count() {
        0 => {}
        1 => lines.push(format!("1 file is executable, or a link to one. {REVIEW}")),
        count => lines.push(format!("{count} files are executable, or links to one. {REVIEW}")),
    }
    if conflicts + kept > 0 {
        let stay = if applied || nothing { "stayed" } else { "would stay" };
        // Nothing is written while files are uncommitted.
        let when = if applied && !nothing { "once this is committed, " } else { "" };
        lines.push(format!(
            "{conflicts} in conflict and {kept} changed here only {stay} as in this checkout; {when}`--force` takes the pack's version \
             instead."
        ));
    }
    if applied && !nothing {
        lines.extend(
            ["", "Next, look at it and commit it:", "", "  git add -N .aynig && git diff -- .aynig"]
                .map(str::to_owned),
        );
        lines.push("  git add .aynig && git commit -m 'Install an aynig pack'".to_owned());
    } else if !nothing {
        lines.extend(["", "To write it into this checkout:", ""].map(str::to_owned));
        lines.push(format!("  {}", command(asked, &asked.subfolder, "--apply")));
    }
    lines
}
