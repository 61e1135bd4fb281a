//! Finds and opens the repository, and knows its directories.
//!
//! Invariant: the repository is chosen once, at the start, from `-C`, `GIT_DIR` or the working
//! directory. All paths are absolute from then on; nothing later depends on the environment or the
//! current directory. A format that cannot be read is reported before anything is touched.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use bstr::{BString, ByteSlice};

use crate::clock::Stopwatch;
use crate::contract::ids::CommitId;
use crate::contract::layout::own_directory;
use crate::fsutil;
use crate::git::process::cancel::Interrupt;
use crate::git::refs::intent_log::IntentLog;
use crate::git::repo::identity::Identity;
use crate::git::repo::listing;
use crate::git::worktrees::held::{self, Spares};
use crate::git::worktrees::registration::{Checkout, Workplace, head_branch, named_by, shared_by};

/// Why no repository could be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no repository.
    #[error("no git repository at or above {}", start.display())]
    NotFound {
        /// Where the search began.
        start: PathBuf,
    },
    /// `GIT_DIR` does not name a repository.
    #[error("GIT_DIR names {}, which is no git repository", path.display())]
    Misnamed {
        /// Its value.
        path: PathBuf,
    },
    /// The repository has a format that this build cannot read.
    #[error("the repository {} uses {format}, which aynig cannot read yet", path.display())]
    Unsupported {
        /// The git directory.
        path: PathBuf,
        /// The extension and its value, as git spells them.
        format: String,
    },
    /// The repository belongs to another user, and git would refuse it as well.
    #[error("the repository {} belongs to another user, and commands from it would run as you", path.display())]
    Untrusted {
        /// The git directory.
        path: PathBuf,
    },
    /// There is a `.git` file that does not lead to a repository.
    #[error("{} does not lead to a git repository: {why}", file.display())]
    Dangling {
        /// The `.git` file.
        file: PathBuf,
        /// The problem.
        why: String,
    },
    /// A named pipe or the like is in the place of a file: whoever opens it waits.
    #[error("{} is no file: every git that reads it would wait", file.display())]
    Piped {
        /// Its path.
        file: PathBuf,
    },
    /// `core.worktree` names no directory.
    #[error("core.worktree names {}, which is no directory", named.display())]
    NoWorkTree {
        /// The file with the setting.
        file: PathBuf,
        /// Its value.
        named: PathBuf,
    },
    /// Any other reason.
    #[error("could not open the repository {}: {why}", path.display())]
    Broken {
        /// The git directory, or where it was expected.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

#[derive(Debug)]
struct Place {
    common_dir: PathBuf,
    git_dir: PathBuf,
    top: PathBuf,
    checkout: Option<PathBuf>,
    identity: Identity,
    runner_id: String,
    intent_log: IntentLog,
    /// Serialises the threads of this process that change the registry of worktrees.
    registry: Mutex<()>,
    /// Worktrees that this process passes from step to step.
    spares: Mutex<Spares>,
    interrupt: Interrupt,
    /// The variables of git's configuration that this process was started with.
    config: Vec<(&'static str, OsString)>,
    /// The settings of ours that they contain.
    given: Vec<BString>,
    /// Set once git was found to read our settings as this process does.
    checked: OnceLock<()>,
    /// When git was last found to accept this repository.
    accepted: Mutex<Option<Stopwatch>>,
    /// Settings that execute, as they were last read.
    executing: Mutex<Option<listing::Known>>,
    /// The damaged refs that were reported.
    damaged: Mutex<BTreeSet<BString>>,
    /// The file of packed refs whose lines were last found sound.
    sound_packed: Mutex<Option<held::Identity>>,
}

/// The opened repository. Threads share it, and each takes its own [`Repo`].
#[derive(Debug, Clone)]
pub struct Store {
    shared: gix::ThreadSafeRepository,
    place: Arc<Place>,
}

/// One thread's handle on the repository.
#[derive(Debug)]
pub struct Repo {
    pub(crate) gix: gix::Repository,
    place: Arc<Place>,
    interrupt: Interrupt,
}

/// Git's location variables, captured before they were removed from the environment.
#[derive(Debug, Clone, Default)]
pub struct GitVariables {
    /// `GIT_DIR`.
    pub git_dir: Option<PathBuf>,
    /// `GIT_WORK_TREE`.
    pub work_tree: Option<PathBuf>,
    /// The object directories of a push that a hook judges ([`crate::git::objects::quarantine`]).
    pub objects: Vec<(&'static str, OsString)>,
    /// Configuration variables ([`crate::git::repo::config::CONFIG_VARIABLES`]).
    pub config: Vec<(&'static str, OsString)>,
}

impl Store {
    /// Opens the repository that git would act on in `start`: the one `GIT_DIR` names, else the
    /// nearest above. The runner's id is `runner_id`, else `aynig.runnerId`, else the host's name.
    pub fn open(start: &Path, variables: &GitVariables, runner_id: Option<&str>) -> Result<Self, OpenError> {
        let start = std::path::absolute(start).unwrap_or_else(|_| start.to_owned());
        let git_dir = match &variables.git_dir {
            Some(git_dir) => start.join(git_dir),
            None => {
                refuse_pipes(&nearest(&start))?;
                discover(&start)?
            }
        };
        let git_dir = git_dir.canonicalize().map_err(|_| match &variables.git_dir {
            Some(_) => OpenError::Misnamed { path: git_dir },
            None => OpenError::NotFound { start: start.clone() },
        })?;
        let broken = |why: String| OpenError::Broken { path: git_dir.clone(), why };

        // Checked before gix opens the repository, so that the error names the format and nothing
        // is touched.
        refuse_pipes(&git_dir)?;
        refuse_unreadable_format(&git_dir)?;

        let mut gix = opened(&git_dir).map_err(|error| {
            let words = gix_chain(&error);
            if let Some(missing) = missing_work_tree(&git_dir) {
                missing
            } else if words.contains("safe.directory")
                || words.contains("not owned by")
                || words.contains("unsafe")
            {
                OpenError::Untrusted { path: git_dir.clone() }
            } else {
                broken(words)
            }
        })?;
        let config = variables.config.clone();
        let given = listing::of_environment(&git_dir, &config).map_err(|error| broken(error.to_string()))?;
        set(&mut gix, &given).map_err(|error| broken(gix_chain(&error)))?;
        // Git itself regards GIT_NAMESPACE only when it serves a repository.
        gix.clear_namespace();
        if let Some(work_tree) = &variables.work_tree {
            gix.set_workdir(start.join(work_tree)).map_err(|error| broken(gix_chain(&error)))?;
        }
        let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let common_dir = absolute(gix.common_dir());
        let own_git_dir = absolute(gix.git_dir());
        let checkout = gix.workdir().map(absolute);
        let main = gix.main_repo().map_err(|error| broken(gix_chain(&error)))?;
        let top = if own_git_dir == common_dir { checkout.clone() } else { main.workdir().map(absolute) }
            .unwrap_or_else(|| common_dir.clone());
        let runner_id = runner_id
            .map(str::to_owned)
            .or_else(|| {
                gix.config_snapshot().string("aynig.runnerId").map(|id| id.to_str_lossy().into_owned())
            })
            .filter(|id| !id.trim().is_empty())
            .or_else(|| hostname::get().ok().map(|name| name.to_string_lossy().into_owned()))
            .unwrap_or_else(|| "unknown-host".to_owned());
        let identity = Identity::configured(&gix, &runner_id);
        let intent_log = IntentLog::new(&common_dir);
        let registry = Mutex::default();
        let interrupt = Interrupt::default();
        let place = Place {
            common_dir,
            git_dir: own_git_dir,
            top,
            checkout,
            identity,
            runner_id,
            intent_log,
            registry,
            spares: Mutex::default(),
            interrupt,
            config,
            given,
            checked: OnceLock::new(),
            accepted: Mutex::default(),
            executing: Mutex::default(),
            damaged: Mutex::default(),
            sound_packed: Mutex::default(),
        };
        Ok(Self { shared: gix.into_sync(), place: Arc::new(place) })
    }

    /// A handle for this thread.
    pub fn handle(&self) -> Repo {
        let mut gix = self.shared.to_thread_local();
        gix.object_cache_size_if_unset(1024 * 1024);
        // Anyone who may push `refs/replace/` could substitute other content for signed or trusted
        // commits (CONTRACT 13.7).
        gix.objects.ignore_replacements = true;
        Repo { gix, place: Arc::clone(&self.place), interrupt: self.place.interrupt.clone() }
    }
}

impl Repo {
    /// The directory all worktrees share (`.git` of the main worktree, or the bare repository).
    pub fn common_dir(&self) -> &Path {
        &self.place.common_dir
    }

    /// The main worktree's top directory, or the bare repository: where logs and worktrees are by
    /// default.
    pub fn top(&self) -> &Path {
        &self.place.top
    }

    /// Whether the repository no longer exists. Git requires a HEAD in a git directory.
    pub fn is_gone(&self) -> bool {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let head = self.place.common_dir.join("HEAD").symlink_metadata();
        head.is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
    }

    /// Whether the repository has no main worktree.
    pub fn is_bare(&self) -> bool {
        self.place.top == self.place.common_dir
    }

    /// This runner's id, as written into leases.
    pub fn runner_id(&self) -> &str {
        &self.place.runner_id
    }

    /// The repository, for other threads.
    pub(crate) fn store(&self) -> Store {
        Store { shared: self.gix.clone().into_sync(), place: Arc::clone(&self.place) }
    }

    /// The switch that ends calls waiting for others, shared by the handles of this store.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// A handle whose calls waiting for others end by `interrupt` instead.
    pub(crate) fn ended_by(self, interrupt: Interrupt) -> Self {
        Self { interrupt, ..self }
    }

    /// The lock that serialises this process's threads at the registry of worktrees.
    pub(crate) fn registry_turns(&self) -> &Mutex<()> {
        &self.place.registry
    }

    /// The worktrees that this process passes from step to step.
    pub(crate) fn spares(&self) -> &Mutex<Spares> {
        &self.place.spares
    }

    /// The identity of commits written here.
    pub(crate) fn identity(&self) -> &Identity {
        &self.place.identity
    }

    /// The top of the checkout we were started in; `None` in a bare repository.
    pub(crate) fn checkout_top(&self) -> Option<&Path> {
        self.place.checkout.as_deref()
    }

    /// The git directory of the checkout we were started in.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.place.git_dir
    }

    /// The variables of git's configuration that this process was started with.
    pub(crate) fn told_config(&self) -> &[(&'static str, OsString)] {
        &self.place.config
    }

    /// Set once git was found to read our settings as this process does.
    pub(crate) fn settings_checked(&self) -> &OnceLock<()> {
        &self.place.checked
    }

    /// When git was last found to accept this repository.
    pub(crate) fn accepted(&self) -> &Mutex<Option<Stopwatch>> {
        &self.place.accepted
    }

    /// Settings that execute, as they were last read.
    pub(crate) fn known_settings(&self) -> &Mutex<Option<listing::Known>> {
        &self.place.executing
    }

    /// The file of packed refs whose lines were last found sound.
    pub(crate) fn sound_packed(&self) -> &Mutex<Option<held::Identity>> {
        &self.place.sound_packed
    }

    /// The damaged refs that were reported.
    pub(crate) fn reported_damage(&self) -> &Mutex<BTreeSet<BString>> {
        &self.place.damaged
    }

    /// Opens the repository again, with its current configuration.
    pub(crate) fn reread(&self) -> gix::Result<gix::Repository> {
        let mut gix = opened(&self.place.git_dir)?;
        set(&mut gix, &self.place.given)?;
        Ok(gix)
    }

    pub(crate) fn intent_log(&self) -> &IntentLog {
        &self.place.intent_log
    }

    /// The checkout we were started in, with its current branch; `None` in a bare repository.
    pub fn checkout(&self) -> Option<Checkout> {
        let path = self.place.checkout.clone()?;
        let branch = head_branch(&self.place.git_dir);
        let place = Workplace { path, git_dir: self.place.git_dir.clone() };
        Some(Checkout { place, branch })
    }

    /// Our own directory below the common one (attempt records, the registry lock); created if missing. Fails
    /// if the repository is gone.
    pub(crate) fn state_dir(&self) -> std::io::Result<PathBuf> {
        let path = own_directory(&self.place.common_dir);
        fsutil::create_dir(&path)?;
        Ok(path)
    }
}

/// Converts a gix object id.
pub(crate) fn ours(id: &gix::oid) -> CommitId {
    CommitId::from_bytes(id.as_bytes()).expect("an object id has 20 or 32 bytes")
}

/// Converts to a gix object id.
pub(crate) fn gits(id: CommitId) -> gix::ObjectId {
    gix::ObjectId::try_from(id.as_bytes()).expect("a commit id has 20 or 32 bytes")
}

/// Formats an error and all its causes on one line.
pub(crate) fn gix_chain(error: &gix::Error) -> String {
    let mut words = Vec::new();
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if words.last() != Some(&text) {
            words.push(text);
        }
        next = error.source();
    }
    words.join(": ")
}

/// The packs that a process can know of, for each there is when it starts, and at least. gix keeps the places of
/// removed packs for a while, fails if it needs another one, and may panic if it reuses one. Each fetch and each
/// `git gc` makes a pack, and a runner may live for months.
const PACKS: gix::odb::store::init::Slots =
    gix::odb::store::init::Slots::AsNeededByDiskState { multiplier: 2.0, minimum: 1024 };

/// Opens a git directory, if it belongs to this user or to a trusted one.
fn opened(git_dir: &Path) -> gix::Result<gix::Repository> {
    let options = gix::open::Options::default()
        .bail_if_untrusted(true)
        .open_path_as_is(git_dir.ends_with(".git"))
        .object_store_slots(PACKS);
    gix::ThreadSafeRepository::open_opts(git_dir, options).map(|shared| shared.to_thread_local())
}

/// Overrides all other settings with those of the environment.
fn set(gix: &mut gix::Repository, given: &[BString]) -> gix::Result<()> {
    let mut config = gix.config_snapshot_mut();
    config.append_config(given, gix::config::Source::Cli)?;
    config.commit().map(drop)
}

fn discover(start: &Path) -> Result<PathBuf, OpenError> {
    let options = gix::discover::upwards::Options { match_ceiling_dir_or_error: false, ..Default::default() };
    let (path, _trust) = gix::discover::upwards_opts(start, options.apply_environment())
        .map_err(|_| dangling(start).unwrap_or_else(|| OpenError::NotFound { start: start.to_owned() }))?;
    let (git_dir, _work_tree) = path.into_repository_and_work_tree_directories();
    Ok(start.join(git_dir))
}

/// The error for the nearest `.git` at or above `start`, if it leads nowhere or cannot be read.
fn dangling(start: &Path) -> Option<OpenError> {
    let path = start.ancestors().map(|above| above.join(".git")).find(|path| path.exists())?;
    if path.is_dir() {
        let error = fsutil::read_plain(path.join("HEAD")).err()?;
        let why = format!("HEAD cannot be read: {error}");
        return Some(OpenError::Broken { path, why });
    }
    let text = fsutil::read_plain(&path).ok()?;
    let why = match text.strip_prefix(b"gitdir:") {
        Some(target) => format!("it names {}, which is none", target.trim().to_str_lossy()),
        None => "it is no link to one (`gitdir: …`)".to_owned(),
    };
    Some(OpenError::Dangling { file: path, why })
}

/// The error for a `core.worktree` that names no directory. Its owner is then unknown, which gix reports as untrusted.
fn missing_work_tree(git_dir: &Path) -> Option<OpenError> {
    ["config", "config.worktree"].map(|name| git_dir.join(name)).into_iter().find_map(|file| {
        let config =
            gix::config::File::from_path_no_includes(file.clone(), gix::config::Source::Local).ok()?;
        let named = git_dir.join(&*config.string("core.worktree")?.to_path_lossy());
        (!named.is_dir()).then_some(OpenError::NoWorkTree { file, named })
    })
}

/// The `.git` directory at or above `start`, as far as its names say.
fn nearest(start: &Path) -> PathBuf {
    let links = start.ancestors().map(|above| above.join(".git"));
    let link = links.into_iter().find(|link| link.symlink_metadata().is_ok());
    let named = link.as_deref().and_then(named_by);
    named.or(link).unwrap_or_else(|| start.to_owned())
}

/// Files that are opened with each repository.
const OPENED: [&str; 6] =
    ["HEAD", "config", "config.worktree", "packed-refs", "shallow", "objects/info/alternates"];

/// Refuses a repository with a named pipe in the place of a file that is opened with it.
fn refuse_pipes(git_dir: &Path) -> Result<(), OpenError> {
    let places = [git_dir.to_owned(), shared_by(git_dir)];
    let files = places.iter().flat_map(|place| OPENED.map(|name| place.join(name)));
    match files.into_iter().find(|file| fsutil::check_no_pipe(file).is_err()) {
        Some(file) => Err(OpenError::Piped { file }),
        None => Ok(()),
    }
}

/// Refuses formats that gix cannot read, using the repository's own configuration file alone.
fn refuse_unreadable_format(git_dir: &Path) -> Result<(), OpenError> {
    let common = shared_by(git_dir);
    let Ok(config) =
        gix::config::File::from_path_no_includes(common.join("config"), gix::config::Source::Local)
    else {
        return Ok(());
    };
    let value = |key: &str| config.string(key).map(|value| value.to_str_lossy().to_lowercase());
    let unsupported = |format: String| {
        Err(OpenError::Unsupported { path: common.canonicalize().unwrap_or(common.clone()), format })
    };
    if let Some(storage) = value("extensions.refStorage")
        && storage != "files"
    {
        return unsupported(format!("the ref storage \"{storage}\" (extensions.refStorage)"));
    }
    if let Some(hash) = value("extensions.objectFormat")
        && hash != "sha1"
        && hash != "sha256"
    {
        return unsupported(format!("the object format \"{hash}\" (extensions.objectFormat)"));
    }
    Ok(())
}
