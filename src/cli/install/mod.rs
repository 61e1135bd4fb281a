//! `aynig install`: the `.aynig/` of another repository, copied into this checkout.
//!
//! Invariant: without `--apply` nothing in the checkout changes; with it, only files below `.aynig/` do that are in HEAD as they
//! lie here, or are nowhere: what is overwritten or removed can be had back from git. Nothing that comes is run, staged or
//! committed. What may be written is `pack`'s, what would change is `plan`'s, the writing is `disk`'s.

mod disk;
mod pack;
mod plan;
mod record;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::clock;
use crate::contract::ids::{RoleName, StateName};
use crate::fsutil::{self, DirLock};
use crate::git::interrupt::Interrupt;
use crate::git::pack::{Fetched, PackError, fetch};
use crate::git::{Checkout, ProcessError, Repo, Store};
use crate::runner::{error_words, typed};
use crate::stop::Cause;

use super::args::Install;
use super::entry::Surroundings;
use super::error::{CommandError, Exit, Kind};
use super::signals;
use super::ui::{self, BAD, CARE, FAINT, GOOD, STRONG, harmless, styled};
use disk::Disk;
use pack::{AYNIG, Item, Mode, Pack, RECORD};
use plan::{Change, Step, plan};
use record::{Installed, Known, Record};
use source::Source;

/// How long to wait for another `aynig install` in this repository.
const TURN: Duration = Duration::from_secs(30);

/// How many names a message lists.
const LISTED: usize = 8;

/// What was asked for.
struct Asked<'a> {
    options: &'a Install,
    source: Source,
    reference: &'a str,
    subfolder: String,
}

/// What would be done.
struct Outcome {
    commit: String,
    pack: Pack,
    steps: Vec<Step>,
    record: Record,
    /// Whether the record has to be written.
    recorded: bool,
}

/// Runs the subcommand.
pub fn run(store: &Store, surroundings: &Surroundings, options: &Install) -> Result<Exit, CommandError> {
    let wrong = |why: String| CommandError::usage(harmless(&why));
    let source = Source::parse(&surroundings.start, &options.repository).map_err(|why| {
        wrong(why).hint("give a path, a URL, or OWNER/NAME: `aynig install OWNER/NAME [REF] [SUBFOLDER]`")
    })?;
    let reference = options.reference.as_deref().unwrap_or("HEAD");
    source::check_reference(reference).map_err(|why| {
        wrong(why).hint("`HEAD` is the default branch: `aynig install REPO HEAD SUBFOLDER`")
    })?;
    let subfolder = source::subfolder(options.subfolder.as_deref().unwrap_or_default()).map_err(wrong)?;
    let asked = Asked { options, source, reference, subfolder };
    let repo = store.handle();
    let Some(checkout) = repo.checkout() else {
        return Err(CommandError::setup(format!(
            "could not install a pack: the repository {} is bare and has no checkout",
            repo.common_dir().display()
        ))
        .hint("install it in a clone, commit, and push that"));
    };
    let disk = Disk::new(&checkout.path);
    let (outcome, _turn) = prepare(&repo, &checkout, &disk, &asked)?;
    let nothing = !outcome.recorded && !outcome.steps.iter().any(|step| step.change.touches());
    if options.apply && !nothing {
        apply(&disk, &outcome)?;
    }
    let conflicts = outcome.steps.iter().filter(|step| step.change == Change::Conflict).count();
    tell(&asked, &outcome, nothing);
    Ok(if options.apply && conflicts > 0 { Exit::Failed } else { Exit::Done })
}

/// Fetches and compares. The lock is to be held until all is written.
fn prepare(
    repo: &Repo,
    checkout: &Checkout,
    disk: &Disk,
    asked: &Asked<'_>,
) -> Result<(Outcome, DirLock), CommandError> {
    let (place, turn) = room(repo)?;
    let fetched = fetched(&place, asked)?;
    let below = [asked.subfolder.as_str(), AYNIG]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/");
    let entries = match fetched.files_below(&below).map_err(|error| no_pack(asked, &error))? {
        Some(entries) if !entries.is_empty() => entries,
        Some(_) | None => return Err(not_there(asked, &fetched, &below)),
    };
    let tracked = repo
        .tracked_below(checkout, AYNIG)
        .map_err(|error| CommandError::because("look at .aynig", &error))?;
    let names = |paths: &[String]| -> Vec<String> {
        paths.iter().filter_map(|path| path.strip_prefix(".aynig/")).map(str::to_owned).collect()
    };
    let (committed, overlooked) = (names(&tracked.files), names(&tracked.overlooked));
    let known: Vec<String> = committed.iter().cloned().chain(names(&tracked.uncommitted)).collect();
    let pack = Pack::check(entries, &known)
        .map_err(|against| refused(asked, "its files may not be written here", &against))?;

    let record = read_record(disk)?;
    let last = record.find(&asked.source.shown, &asked.subfolder);
    let base = last.map(|last| last.files.clone()).unwrap_or_default();
    let leaves = |path: &str| base.contains_key(path) && !pack.0.contains_key(path);
    let gone = |path: &str| match path.strip_suffix('/') {
        Some(_) => base.keys().any(|file| file.starts_with(path) && leaves(file)),
        None => leaves(path),
    };
    let (mut here, mut in_the_way) = (BTreeMap::new(), Vec::new());
    for path in pack.0.keys().chain(base.keys()) {
        match disk.read(path, gone) {
            Ok(Some(item)) => drop(here.insert(path.clone(), item)),
            Ok(None) => {}
            Err(why) => in_the_way.push(why),
        }
    }
    let directories = pack.0.keys().flat_map(|path| pack::prefixes(path).filter(move |part| part != path));
    let modules = directories.filter(|part| committed.iter().any(|path| path == part) && !gone(part));
    in_the_way.extend(modules.map(|part| format!("{AYNIG}/{part} is a submodule here")));
    if in_the_way.is_empty() && tracked.files.iter().any(|path| path == AYNIG) {
        in_the_way.push(format!("{AYNIG} is a submodule here"));
    }
    in_the_way.dedup();
    if !in_the_way.is_empty() {
        return Err(refused(asked, "something is in the way", &in_the_way)
            .hint("move it away, commit that, and install again"));
    }
    let steps = plan(&base, &here, &pack, asked.options.force);
    let files: BTreeMap<String, Known> = pack
        .0
        .iter()
        .map(|(path, item)| {
            (path.clone(), Known { mode: item.mode.digits().to_owned(), id: item.id.clone() })
        })
        .collect();
    let commit = fetched.commit.to_string();
    let recorded = last.is_none_or(|last| last.commit != commit || last.files != files);
    let touched: Vec<&Step> = steps.iter().filter(|step| step.change.touches()).collect();
    if recorded || !touched.is_empty() {
        let lost = touched.iter().filter(|step| {
            here.contains_key(&step.path)
                && (!committed.contains(&step.path) || overlooked.contains(&step.path))
        });
        let mut uncommitted = tracked.uncommitted.clone();
        uncommitted.extend(lost.map(|step| format!("{AYNIG}/{}", step.path)));
        uncommitted.sort();
        uncommitted.dedup();
        if !uncommitted.is_empty() {
            return Err(refused(asked, "what is below .aynig/ here is not what is committed", &uncommitted)
                .hint("commit it, or put it away: `git stash push --include-untracked -- .aynig`; then install again"));
        }
    }
    let taken: Vec<&str> = touched.iter().map(|step| step.path.as_str()).collect();
    let mut record = record.clone();
    if recorded {
        record.put(
            Installed {
                source: asked.source.shown.clone(),
                subfolder: asked.subfolder.clone(),
                reference: asked.reference.to_owned(),
                commit: commit.clone(),
                installed: clock::format_utc(clock::wall_seconds()),
                files,
            },
            &taken,
        );
    }
    Ok((Outcome { commit, pack, steps, record, recorded }, turn))
}

/// Fetches the source. A signal ends that, and not before what was fetched so far is removed; after it, nothing takes long enough to
/// be worth an interruption, and the writing must not be cut in half.
fn fetched(place: &Path, asked: &Asked<'_>) -> Result<Fetched, CommandError> {
    let shutdown = signals::shutdown()?;
    let interrupt = Interrupt::default();
    let stop = interrupt.clone();
    let _heard = shutdown.subscribe(move |_| stop.end_all());
    let fetched = fetch(place, &asked.source.url, asked.reference, &interrupt);
    if let Some(Cause::Signal(signal)) = shutdown.cause() {
        let message = format!("stopped by signal {signal}; nothing was installed");
        return Err(CommandError::failed(message));
    }
    fetched.map_err(|error| no_pack(asked, &error))
}

/// A directory to fetch into, which is ours until the lock ends; what an install that was killed has left there is removed.
fn room(repo: &Repo) -> Result<(PathBuf, DirLock), CommandError> {
    let cannot = |error: std::io::Error| CommandError::because("make a directory to fetch into", &error);
    let place = repo.state_dir().map_err(cannot)?.join("install");
    std::fs::create_dir_all(&place).map_err(cannot)?;
    let turn = DirLock::acquire(&place, TURN).map_err(|error| {
        CommandError::because(&format!("wait for another `aynig install` ({})", place.display()), &error)
    })?;
    for left in std::fs::read_dir(&place).map_err(cannot)?.flatten() {
        if let Err(error) = fsutil::remove_all(&left.path()) {
            tracing::warn!(path = %left.path().display(), %error, "could not remove what another install left");
        }
    }
    Ok((place, turn))
}

fn read_record(disk: &Disk) -> Result<Record, CommandError> {
    let unreadable = |why: String| {
        CommandError::setup(format!("could not read {AYNIG}/{RECORD}, which says what was installed here: {why}"))
            .hint(format!("`git log -p -- {AYNIG}/{RECORD}` shows how it came to that; `git restore` brings an older one back"))
            .hint("or remove it and commit that: then every file that is here counts as yours")
    };
    match disk.read(RECORD, |_| false) {
        Ok(None) => Ok(Record::default()),
        Ok(Some(Item { mode: Mode::Link, .. })) => Err(unreadable("it is a link".to_owned())),
        Ok(Some(item)) => {
            let record = Record::parse(&item.data).map_err(unreadable)?;
            // Files are removed by these names.
            let odd = record
                .packs
                .iter()
                .flat_map(|pack| pack.files.keys())
                .find(|path| pack::odd_path(path).is_some());
            match odd {
                Some(path) => Err(unreadable(format!("{path:?} is no file of a pack"))),
                None => Ok(record),
            }
        }
        Err(why) => Err(unreadable(why)),
    }
}

fn apply(disk: &Disk, outcome: &Outcome) -> Result<(), CommandError> {
    let data = outcome.record.text().map_err(|error| CommandError::because("write the record", &error))?;
    let record = Item { mode: Mode::File, id: String::new(), data };
    let mut paths: Vec<(&str, Option<&Item>)> = outcome
        .steps
        .iter()
        .filter(|step| step.change.touches())
        .map(|step| (step.path.as_str(), outcome.pack.0.get(&step.path)))
        .collect();
    if outcome.recorded {
        paths.push((RECORD, Some(&record)));
    }
    disk.change(&paths).map_err(|why| {
        CommandError::setup(format!("nothing was installed: {why}"))
            .hint("mend that, and install again; `git status -- .aynig` should be silent")
    })
}

/// Why there is nothing to install.
fn no_pack(asked: &Asked<'_>, error: &PackError) -> CommandError {
    let message =
        format!("could not install from {}: {}", asked.source.shown, asked.source.hide(&error_words(error)));
    match error {
        PackError::Unreachable(ProcessError::NotStarted { .. }) => {
            CommandError::setup(message).hint("put the directory of the program `git` into PATH")
        }
        PackError::Unreachable(_) => CommandError::new(Kind::Remote, message)
            .hint(format!("`git ls-remote {}` shows whether it can be reached", typed(&asked.source.shown))),
        PackError::NoRef { .. } => CommandError::setup(message).hint(format!(
            "`git ls-remote {}` lists what it has; of a commit give the whole id",
            typed(&asked.source.shown)
        )),
        PackError::Room { .. } | PackError::Unreadable { .. } | PackError::TooLarge => {
            CommandError::setup(message)
        }
    }
}

fn not_there(asked: &Asked<'_>, fetched: &Fetched, below: &str) -> CommandError {
    let error = CommandError::setup(format!(
        "could not install from {}: there is no directory {below} with files in it at {} ({})",
        asked.source.shown,
        asked.reference,
        fetched.commit.short()
    ));
    let elsewhere = fetched.directories_with(AYNIG, LISTED).unwrap_or_default();
    if elsewhere.is_empty() {
        return error
            .hint("no directory near the top of that repository has one; is it the right repository?");
    }
    elsewhere
        .iter()
        .take(LISTED)
        .fold(error, |error, path| error.hint(format!("there is one here: `{}`", command(asked, path, ""))))
}

fn refused(asked: &Asked<'_>, why: &str, list: &[String]) -> CommandError {
    let mut words = list.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join("; ");
    if list.len() > LISTED {
        words.push_str(&format!("; and {} more", list.len() - LISTED));
    }
    CommandError::setup(format!("nothing was installed from {}: {why}: {words}", asked.source.shown))
}

/// The command that installs from `subfolder`, to be typed.
fn command(asked: &Asked<'_>, subfolder: &str, more: &str) -> String {
    let repository = asked.source.hide(&asked.options.repository.to_string_lossy());
    let mut words = vec!["aynig install".to_owned(), typed(&repository)];
    if asked.options.reference.is_some() || !subfolder.is_empty() {
        words.push(typed(asked.reference));
    }
    if !subfolder.is_empty() {
        words.push(typed(subfolder));
    }
    if asked.options.force {
        words.push("--force".to_owned());
    }
    if !more.is_empty() {
        words.push(more.to_owned());
    }
    words.join(" ")
}

/// The state, and the role, that a file of this name is the command for.
fn serves(path: &str) -> Option<(StateName, Option<RoleName>)> {
    if let Some(state) = path.strip_prefix("command/") {
        return Some((StateName::parse(state).ok()?, None));
    }
    let (role, state) = path.strip_prefix("roles/")?.split_once("/command/")?;
    Some((StateName::parse(state).ok()?, Some(RoleName::parse(role).ok()?)))
}

/// What a file of the pack does, if it does anything.
fn marks(path: &str, item: &Item) -> String {
    let mut words = Vec::new();
    match (item.mode, serves(path)) {
        (Mode::File, _) => {}
        (Mode::Executable | Mode::Link, Some((state, None))) => {
            words.push(format!("runs for the state {state}"))
        }
        (Mode::Executable | Mode::Link, Some((state, Some(role)))) => {
            words.push(format!("runs for the state {state} in the role {role}"));
        }
        (Mode::Executable, None) => words.push("executable".to_owned()),
        (Mode::Link, None) => {}
    }
    if item.mode == Mode::Link {
        words.push(format!("link to {}", String::from_utf8_lossy(&item.data)));
    }
    words.join(", ")
}

fn tell(asked: &Asked<'_>, outcome: &Outcome, nothing: bool) {
    if asked.options.json {
        let files = outcome.steps.iter().map(|step| {
            let item = outcome.pack.0.get(&step.path);
            let (state, role) = item
                .filter(|item| item.mode != Mode::File)
                .and_then(|_| serves(&step.path))
                .map_or((None, None), |(state, role)| (Some(state.to_string()), role.map(|role| role.to_string())));
            json!({
                "path": format!("{AYNIG}/{}", step.path),
                "change": step.change.word(),
                "why": (!step.why.is_empty()).then_some(step.why),
                "executable": item.is_some_and(|item| item.mode == Mode::Executable),
                "link": item.filter(|item| item.mode == Mode::Link).map(|item| String::from_utf8_lossy(&item.data)),
                "state": state,
                "role": role,
            })
        });
        ui::answer_json(&json!({
            "source": asked.source.shown,
            "ref": asked.reference,
            "commit": outcome.commit,
            "subfolder": asked.subfolder,
            "upToDate": nothing,
            "applied": asked.options.apply && !nothing,
            "files": files.collect::<Vec<_>>(),
            "record": format!("{AYNIG}/{RECORD}"),
        }));
        return;
    }
    let place = if asked.subfolder.is_empty() { String::new() } else { format!(", {}", asked.subfolder) };
    let about = format!("({} is {}{place})", asked.reference, outcome.commit);
    ui::answer(&format!(
        "{} {}",
        styled(STRONG, harmless(&asked.source.shown)),
        styled(FAINT, harmless(&about))
    ));
    for step in &outcome.steps {
        let style = match step.change {
            Change::Add | Change::Replace => GOOD,
            Change::Remove | Change::Kept => CARE,
            Change::Unchanged => FAINT,
            Change::Conflict => BAD,
        };
        let marks = outcome.pack.0.get(&step.path).map(|item| marks(&step.path, item)).unwrap_or_default();
        let words: Vec<&str> =
            [marks.as_str(), step.why].into_iter().filter(|words| !words.is_empty()).collect();
        let more = if words.is_empty() { String::new() } else { format!("  ({})", words.join("; ")) };
        let word = format!("{:<9}", step.change.word());
        ui::answer(&format!(
            "  {}  {}",
            styled(style, word),
            harmless(&format!("{AYNIG}/{}{more}", step.path))
        ));
    }
    for line in closing(asked, outcome, nothing) {
        ui::answer(&harmless(&line));
    }
}

/// What it comes to, and what to type next.
fn closing(asked: &Asked<'_>, outcome: &Outcome, nothing: bool) -> Vec<String> {
    let count = |change: Change| outcome.steps.iter().filter(|step| step.change == change).count();
    let mut lines = vec![String::new()];
    let (conflicts, kept) = (count(Change::Conflict), count(Change::Kept));
    let stay = if asked.options.apply || nothing { "stayed" } else { "would stay" };
    let force = |what: &str| {
        format!("{what} {stay} as in this checkout; `--force` takes the pack's version instead.")
    };
    if nothing {
        lines.push("Up to date: there is nothing to write.".to_owned());
        if kept > 0 {
            lines.push(force(&format!("{kept} changed here")));
        }
        return lines;
    }
    let programs = outcome
        .steps
        .iter()
        .filter(|step| step.change.touches())
        .filter_map(|step| outcome.pack.0.get(&step.path))
        .filter(|item| item.mode != Mode::File)
        .count();
    let (added, changed, removed) = (count(Change::Add), count(Change::Replace), count(Change::Remove));
    lines.push(if asked.options.apply {
        format!("Written, not staged: {added} added, {changed} changed, {removed} removed, and {AYNIG}/{RECORD}, which says from where.")
    } else {
        format!("Nothing was written yet: {added} to add, {changed} to change, {removed} to remove.")
    });
    if programs > 0 {
        lines.push(format!(
            "Programs, or links that may lead to some: {programs}. Once committed they run as you when a branch asks for them; read \
             them before."
        ));
    }
    if conflicts + kept > 0 {
        let both = format!("{conflicts} in conflict and {kept} changed here only");
        lines.push(force(&both));
    }
    lines.push(String::new());
    if asked.options.apply {
        lines.push("Next, look at it and commit it:".to_owned());
        lines.push(String::new());
        lines.push("  git status -- .aynig && git diff -- .aynig".to_owned());
        lines.push("  git add .aynig && git commit -m 'Install an aynig pack'".to_owned());
    } else {
        lines.push("To write it into this checkout:".to_owned());
        lines.push(String::new());
        lines.push(format!("  {}", command(asked, &asked.subfolder, "--apply")));
    }
    lines
}
