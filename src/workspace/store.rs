//! The contexts of a repository's workspaces: finds, locks and writes them.
//!
//! Invariant: a context is changed only while the lock beside it is held, and read again after the
//! lock was taken. It is replaced as a whole.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::layout::WORKSPACES;
use crate::fsutil::{self, DirLock, FileLock, process_with};
use crate::git::contents::ignored::{Ignored, IgnoredUse};
use crate::git::contents::snapshot::Inside;

use super::Workspaces;
use super::context::{Context, FILE, MOST_BYTES, State};
use super::moved::moved;
use super::place::{checkouts_around, default_root, judge, resolved};
use super::refusal::{Refusal, Why};

/// The lock of a workspace, beside its context.
pub(super) const LOCK: &str = "workspace.lock";

/// How long to wait for another process that changes the workspace. One that fills a large worktree takes a
/// while.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Between a name and a number, in the archive. It is in no name.
const AGAIN: char = '@';

/// How long to wait for it before that is said.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// The way out if no worktree can be where it would be.
const ELSEWHERE: &str = "name a directory outside of every checkout: `git config aynig.workspaceRoot DIR`";

/// The fewest characters that name a run.
const FEWEST: usize = 4;

/// A workspace that was found.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its directory.
    pub directory: PathBuf,
    /// Its context, or why that cannot be used.
    pub context: Result<Context, Fault>,
}

/// A context that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// The reason.
    pub why: String,
}

/// What is in a worktree, to look again once it is renamed.
pub(super) struct Seen {
    /// Files and index.
    pub(super) inside: Inside,
    /// The ignored contents.
    pub(super) ignored: Ignored,
    /// Its number and size.
    pub(super) used: IgnoredUse,
}

/// A workspace that this process has locked.
pub(super) struct Held {
    pub(super) directory: PathBuf,
    pub(super) context: Context,
    /// What was in its worktree when that was saved.
    pub(super) seen: Option<Seen>,
    /// What was set right when it was locked, in words.
    pub(super) mended: Vec<String>,
    pub(super) _lock: DirLock,
}

impl Held {
    /// Writes the context.
    pub(super) fn save(&self) -> Result<(), Refusal> {
        let file = self.directory.join(FILE);
        let text = serde_json::to_vec_pretty(&self.context)
            .map_err(|error| Refusal::because(&format!("write {}", file.display()), &error))?;
        fsutil::replace(&file, &[&text[..], b"\n"].concat())
            .map_err(|error| Refusal::because(&format!("write {}", file.display()), &error))
    }
}

impl Workspaces<'_> {
    /// The directory of all runs.
    pub(super) fn runs(&self) -> PathBuf {
        self.options.data.join("runs")
    }

    /// The directory of a workspace.
    pub(super) fn directory(&self, context: &Context) -> PathBuf {
        self.directory_of(&context.run_id, &context.name)
    }

    /// The directory of the workspace `name` of a run.
    pub(super) fn directory_of(&self, run: &str, name: &str) -> PathBuf {
        self.runs().join(run).join(WORKSPACES).join(name)
    }

    /// All workspaces of this repository, by the time they were made.
    pub fn all(&self) -> Result<Vec<Entry>, Refusal> {
        let mut found = self.entries()?;
        found.retain(|entry| {
            entry.context.as_ref().map_or(true, |context| self.foreign_owner(context).is_none())
        });
        Ok(found)
    }

    /// The same, with those of other repositories that keep their records in the same place.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, Refusal> {
        let mut found = entries_in(&self.runs())?;
        let key = |entry: &Entry| {
            let made = entry.context.as_ref().map(|context| context.created_at.clone());
            (made.unwrap_or_default(), entry.directory.clone())
        };
        found.sort_by_key(key);
        Ok(found)
    }

    /// Those that were removed.
    pub(super) fn removed(&self) -> Result<Vec<Entry>, Refusal> {
        entries_in(&self.archived())
    }

    /// The directory of the records of removed workspaces, and of deleted runs.
    fn archived(&self) -> PathBuf {
        self.options.data.join("archive")
    }

    /// Moves the directory of a workspace that was removed to the archive.
    pub(super) fn retire(&self, held: &Held) -> std::io::Result<()> {
        let above = self.archived().join(&held.context.run_id).join(WORKSPACES);
        fsutil::create_private_dir_all(&above)?;
        let name = &held.context.name;
        let names = (2..u32::MAX).map(|number| format!("{name}{AGAIN}{number}"));
        let mut places = std::iter::once(name.clone()).chain(names).map(|name| above.join(name));
        let Some(free) = places.find(|place| place.symlink_metadata().is_err()) else { return Ok(()) };
        std::fs::rename(&held.directory, free)?;
        leave(&held.directory);
        Ok(())
    }

    /// Finds a workspace by its slug or the beginning of its run's id, by its name, `slug/name`, branch or path.
    pub fn find(&self, named: &OsStr) -> Result<Context, Refusal> {
        let entries = self.all()?;
        let contexts: Vec<&Context> =
            entries.iter().filter_map(|entry| entry.context.as_ref().ok()).collect();
        let meant: Vec<&Context> =
            contexts.iter().copied().filter(|context| is_named(context, named)).collect();
        let shown = named.to_string_lossy();
        match meant[..] {
            [context] => Ok(context.clone()),
            [] => {
                let others = self.entries()?.into_iter().filter_map(|entry| entry.context.ok());
                for context in others.filter(|context| is_named(context, named)) {
                    if let Some(owner) = self.foreign_owner(&context) {
                        return Err(self.foreign(&context, &owner));
                    }
                }
                let mut refusal = Refusal::new(Why::NotFound, format!("there is no workspace {shown}")).hint(
                    "`aynig workspace list` lists them; one is named by its slug, name, slug/name, branch or path",
                );
                if let Some((run, name)) = self.known_to_a_run(named) {
                    refusal = refusal.hint(format!(
                        "its run has it: `aynig workspace create {name} --run {run}` makes it on this host"
                    ));
                }
                let faults = entries.iter().filter_map(|entry| entry.context.as_ref().err());
                for Fault { file, why } in faults {
                    refusal = refusal.hint(format!("{} cannot be used: {why}", file.display()));
                }
                Err(refusal)
            }
            _ => {
                let names: Vec<String> = meant.iter().map(|context| context.handle()).collect();
                let refusal = Refusal::new(Why::Usage, format!("{shown} can mean {}", names.join(" or ")));
                Err(refusal.hint("give the one that is meant in full; `aynig workspace list` shows them"))
            }
        }
    }

    /// Locks a workspace, and reads its context again. Its settings must be those of its beginning.
    pub(super) fn hold(&self, context: &Context) -> Result<Held, Refusal> {
        let mut held = self.hold_as_it_is(context)?;
        self.make_sound(&mut held)?;
        if held.context.state != State::Preparing {
            self.check_settings(&held.context)?;
        }
        let trying = format!("look at {}", held.context.handle());
        let registered = self.repo.worktrees_of(&held.context.mark());
        let registered = registered.map_err(|error| Refusal::because(&trying, &error))?;
        if let Some((what, next)) = moved(&held.context, &registered) {
            let message = format!("{}: {what}; nothing was changed", held.context.handle());
            return Err(Refusal::new(Why::Conflict, message).hint(format!("{next}; then again")));
        }
        Ok(held)
    }

    /// The same, whatever its settings are: no git call may work in its worktree.
    pub(super) fn hold_as_it_is(&self, context: &Context) -> Result<Held, Refusal> {
        let directory = self.directory(context);
        let lock = directory.join(LOCK);
        let trying = format!("lock {}", context.handle());
        let because = |error| Refusal::because(&trying, &error);
        let gone = || Refusal::new(Why::NotFound, format!("{} was removed meanwhile", context.handle()));
        // People remove lock files.
        if directory.join(FILE).symlink_metadata().is_ok() {
            make_lock(&lock).map_err(because)?;
        }
        let held = match DirLock::acquire(&lock, QUIET) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone()),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                let holder = process_with(&lock)
                    .map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                (self.options.tell)(&format!("waiting for {holder}, which changes {}", context.handle()));
                DirLock::acquire(&lock, PATIENCE).map_err(because)?
            }
            held => held.map_err(because)?,
        };
        // The lock moves with the directory, and another workspace of the same name has its own.
        let entry = entry_at(directory).filter(|_| held.is_at(&lock)).ok_or_else(gone)?;
        match entry.context {
            Ok(context) => {
                if let Some(owner) = self.foreign_owner(&context) {
                    return Err(self.foreign(&context, &owner));
                }
                self.check_path(&context)?;
                Ok(Held { directory: entry.directory, context, seen: None, mended: Vec::new(), _lock: held })
            }
            Err(Fault { file, why }) => {
                Err(Refusal::new(Why::Setup, format!("{} cannot be used: {why}", file.display())))
            }
        }
    }

    /// Whether no process changes the workspace now.
    pub(super) fn is_free(&self, context: &Context) -> bool {
        let lock = self.directory(context).join(LOCK);
        match FileLock::try_acquire(&lock) {
            Ok(lock) => lock.is_some(),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }

    /// The directory of all worktrees.
    pub(super) fn root(&self) -> Result<PathBuf, Refusal> {
        if let Some(root) = &self.options.root {
            return Ok(root.clone());
        }
        let variable =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let states = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
        let states = states.ok_or_else(|| {
            Refusal::new(Why::Setup, "nothing says where worktrees are to be: HOME is not set")
                .hint(ELSEWHERE)
        })?;
        Ok(default_root(&states, self.repo.top(), self.repo.common_dir()))
    }

    /// Resolves a directory for worktrees and judges it.
    pub(super) fn fit(&self, wanted: &Path) -> Result<PathBuf, Refusal> {
        let trying = format!("use {}", wanted.display());
        let real = resolved(wanted).map_err(|error| Refusal::because(&trying, &error))?;
        if let Err(error) = fsutil::check_place(&real)
            && error.kind() == ErrorKind::NotADirectory
        {
            let why = format!("a worktree cannot be at {}: {error}; nothing was changed", wanted.display());
            return Err(Refusal::new(Why::Setup, why).hint(ELSEWHERE));
        }
        let runs = resolved(&self.runs()).map_err(|error| Refusal::because(&trying, &error))?;
        let linked = self.repo.worktree_paths().map_err(|error| Refusal::because(&trying, &error))?;
        let mut checkouts = checkouts_around(&real);
        checkouts.extend(self.repo.main_checkout().map(|main| main.path.clone()));
        checkouts.extend(linked);
        match judge(&real, &runs, &checkouts, self.repo.common_dir()) {
            None => Ok(real),
            Some(unfit) => Err(Refusal::new(
                Why::Setup,
                format!("a worktree cannot be at {}: {unfit}; nothing was changed", wanted.display()),
            )
            .hint(ELSEWHERE)),
        }
    }

    /// Refuses a context whose path is not one that a workspace can have.
    fn check_path(&self, context: &Context) -> Result<(), Refusal> {
        let path = &context.worktree_path;
        let computed = self.root().map(|root| root.join(&context.slug).join(&context.name));
        let is_ours = || {
            let its = self.repo.worktrees_of(&context.mark()).unwrap_or_default();
            its.iter().any(|one| one.checkout.place.path == *path)
        };
        let parent = path.parent().unwrap_or(path);
        let is_real = resolved(parent).is_ok_and(|real| real == parent);
        if is_real
            && (computed.is_ok_and(|computed| resolved(&computed).is_ok_and(|one| one == *path)) || is_ours())
        {
            return self.fit(parent.parent().unwrap_or(parent)).map(drop);
        }
        let file = self.directory(context).join(FILE);
        Err(Refusal::new(
            Why::Setup,
            format!(
                "{} names {}, which is not the worktree of {}; nothing was changed",
                file.display(),
                path.display(),
                context.handle()
            ),
        )
        .hint("if aynig.workspaceRoot was changed, set it back to what it was"))
    }
}

/// Creates the lock of a workspace if it is missing.
pub(super) fn make_lock(lock: &Path) -> std::io::Result<()> {
    match fsutil::create(lock, b"") {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// The number of records of workspaces in the directory `data`, whatever is in them.
pub fn count(data: &Path) -> usize {
    let directories = std::fs::read_dir(data.join("runs")).map(directories_in).unwrap_or_default();
    directories.iter().filter(|directory| directory.join(FILE).symlink_metadata().is_ok()).count()
}

/// Reads the workspaces in a directory of runs.
fn entries_in(directory: &Path) -> Result<Vec<Entry>, Refusal> {
    match std::fs::read_dir(directory) {
        Ok(runs) => Ok(directories_in(runs).into_iter().filter_map(entry_at).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Refusal::because(&format!("list {}", directory.display()), &error)),
    }
}

/// The directories of workspaces in those of runs.
fn directories_in(runs: std::fs::ReadDir) -> Vec<PathBuf> {
    let all = runs.flatten().map(|run| std::fs::read_dir(run.path().join(WORKSPACES)));
    all.flatten().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The run and the name of the workspace that has this directory.
pub(super) fn whose(directory: &Path) -> Option<(String, String)> {
    let text = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    let name = text(directory)?;
    let name = name.split_once(AGAIN).map_or(name.as_str(), |(name, _)| name);
    Some((text(directory.parent()?.parent()?)?, name.to_owned()))
}

/// Removes the directories above that of a workspace if they are empty. A run keeps its other files there.
pub(super) fn leave(directory: &Path) {
    for above in directory.ancestors().skip(1).take(2) {
        if std::fs::remove_dir(above).is_err() {
            return;
        }
    }
}

/// Reads the workspace in a directory; `None` if there is none.
fn entry_at(directory: PathBuf) -> Option<Entry> {
    let file = directory.join(FILE);
    file.symlink_metadata().ok()?;
    let (run, name) = whose(&directory)?;
    let context = read(&file, &run, &name);
    Some(Entry { directory, context: context.map_err(|why| Fault { file, why }) })
}

fn read(file: &Path, run: &str, name: &str) -> Result<Context, String> {
    let opened = fsutil::open_plain(file).map_err(|error| error.to_string())?;
    if opened.metadata().is_ok_and(|found| found.len() > MOST_BYTES) {
        return Err(format!("it is longer than {MOST_BYTES} bytes"));
    }
    let text = fsutil::tail_of(&opened, MOST_BYTES).map_err(|error| error.to_string())?;
    Context::read(&text, run, name)
}

/// Whether a text names the workspace.
pub(super) fn is_named(context: &Context, named: &OsStr) -> bool {
    let path = Path::new(named);
    // No name, and no branch, begins with a dot.
    if path.is_absolute() || named.as_bytes().starts_with(b".") {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let real = resolved(&path).unwrap_or(path);
        return real.starts_with(&context.worktree_path);
    }
    let Ok(text) = named.as_bytes().to_str() else { return false };
    let text = text.strip_prefix("refs/heads/").unwrap_or(text);
    let is_run = |text: &str| {
        let id = context.run_id.replace('-', "");
        let text = text.replace('-', "");
        text.len() >= FEWEST && id.starts_with(&text.to_lowercase())
    };
    text == context.branch_name
        || text == context.name
        || is_run(text)
        || text.rsplit_once('/').is_some_and(|(run, name)| name == context.name && is_run(run))
}
