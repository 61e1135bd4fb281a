//! The command line, all of it. `--help`, the man page and the README's tables come from here.
//!
//! Invariant: what is wrong in itself (a state that is no name, a trailer only the runner may write) is refused here,
//! before a repository is opened. What is wrong only in its surroundings is left to the subcommands.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::logging::Level;
use crate::contract::ids::{RemoteName, RoleName, StateName};
use crate::contract::protocol::parse_trailer_arg;
use crate::contract::retention::parse_age;
use crate::contract::trailers::Trailer;

/// All you need is git: run a workflow of states with nothing but a Git repository between the runners.
#[derive(Debug, Parser)]
#[command(
    name = "aynig",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "The newest commit of a branch says what is to be done, in a trailer: `dwp-state: review`.\n\
    `aynig run` claims such a branch, runs .aynig/command/review in a worktree, and commits the next state.\n\
    See it at work: aynig demo"
)]
pub struct Arguments {
    /// Act as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub directory: Option<PathBuf>,

    /// How much diagnosis goes to stderr [default: LOG_LEVEL, else error]
    #[arg(long, value_name = "LEVEL", global = true)]
    pub log_level: Option<Level>,

    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Look at every branch once and run what is ready
    Run(Run),
    /// Make a small repository, run it to its end, and tell what happened
    Demo(Demo),
    /// Declare the next state of a branch: one commit
    SetState(SetState),
    /// Claim a branch by hand, or renew the lease it is under
    SetWorking(SetWorking),
    /// Show what a branch is, who holds it, and what would be run
    Status(Status),
    /// Tell the life of a branch: attempts, how long they took, what failed and what followed
    Log(Log),
    /// Show the newest state event of a branch, or all of them
    Events(Events),
    /// Show what a command printed
    Logs(Logs),
    /// Remove what finished attempts left and nobody needs any more: worktrees, logs, rescue refs
    Clean(Clean),
    /// Check whether git, the repository, its commands and its remote are as a runner needs them
    Doctor(Doctor),
    /// Prepare this checkout for commands: directories, documents, an example
    Init(Init),
    /// Copy a workflow pack, the .aynig/ of another repository, into this checkout
    Install(Install),
    /// Guard the branches of a server: what its git hooks call
    Hook(Hook),
    /// Print a manual page, or write all of them
    Manual(Manual),
    /// Print what a shell needs to complete command lines
    Completions(Completions),
    /// Ends the commands of a runner that was killed; started by `run`
    #[command(name = "__watchdog", hide = true)]
    Watchdog,
    /// Tells people of a state that a command set; started by `set-state`
    #[command(name = "__notify", hide = true)]
    Notify(Notify),
}

/// Options of `__notify`.
#[derive(Debug, Args)]
pub struct Notify {
    /// The command line
    pub line: String,
    /// The longest it may take
    pub seconds: u64,
    /// Where what it prints goes
    pub log: Option<PathBuf>,
}

/// `aynig run`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 done, nothing to do, or another runner was faster; 1 a command ended stalled; \
    2 usage; 3 set-up; 4 the remote cannot be reached or refuses; 70 a bug; 128+n stopped by signal n."
)]
pub struct Run {
    /// Prefer the commands in .aynig/roles/NAME/command/ [default: ROLE, if set]
    #[arg(long, value_name = "NAME", value_parser = parse_role)]
    pub role: Option<RoleName>,

    /// Work on the branches of this remote, which decides every race [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub remote: Option<RemoteName>,

    /// Where worktrees are made, relative to the top of the repository
    #[arg(short = 'w', long, value_name = "DIR", default_value = ".worktrees")]
    pub worktree: PathBuf,

    /// What to do with the branch that is checked out here
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Current::Skip)]
    pub current_branch: Current,

    /// Only branches whose name matches GLOB (repeatable; `*` also matches `/`)
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub branch: Vec<String>,

    /// Take all commands from the tree of REF, not from the branch that is run: a branch, REMOTE/BRANCH, `refs/…` or a full
    /// commit id
    #[arg(long, value_name = "REF", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub commands_from: Option<String>,

    /// Run only what has a good signature (`%G?` of git is G)
    #[arg(long)]
    pub require_signed: bool,

    /// Only states that match GLOB (repeatable; `*` also matches `/`)
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub states: Vec<String>,

    /// How many commands may run at once
    #[arg(short = 'j', long, value_name = "N", default_value = "1")]
    pub jobs: NonZeroUsize,

    /// Length of a lease; it is renewed after two thirds of it
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub lease_seconds: u64,

    /// What tells that a lease of others is over: its date, or that this host has seen it for as long as it lasts, which holds
    /// whatever other hosts' clocks say
    #[arg(long, value_name = "BY", value_enum, default_value_t = TakeoverBy::Clock)]
    pub takeover: TakeoverBy,

    /// With a remote, or --takeover observed: how far clocks may be apart; a lease is taken over only that much after its end
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub skew_seconds: u64,

    /// Do not renew leases
    #[arg(long)]
    pub no_heartbeat: bool,

    /// How long a stopped command has between TERM and KILL
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub grace_seconds: u64,

    /// Stop a command that runs longer, and stall its branch
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub command_timeout: Option<u64>,

    /// Repeat until a pass finds nothing to do
    #[arg(long, conflicts_with = "watch")]
    pub drain: bool,

    /// Stay: look again on every change of a local branch, and every SECONDS
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "10",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watch: Option<u64>,

    /// Print a summary as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// `aynig demo`.
#[derive(Debug, Args)]
#[command(after_help = "Needs git; no network, no configuration. What it made stays, to be looked into.")]
pub struct Demo {
    /// Where to make the repository: a directory that is empty or does not exist [default: a temporary one]
    #[arg(value_name = "DIR")]
    pub place: Option<PathBuf>,
}

/// `--current-branch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Current {
    /// Leave it alone
    Skip,
    /// Run it too, in place
    Include,
    /// Run nothing else
    Only,
}

/// `--takeover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TakeoverBy {
    /// Its date, by the wall clock of this host
    Clock,
    /// What passes on this host have seen
    Observed,
}

/// `aynig set-state`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --branch it acts on the branch that is checked out here, with the index as its tree; inside a command, on the \
    branch the command was started for, as long as its attempt holds it. With --branch it moves a branch without a checkout.\n\
    Exit codes: 0 done; 1 the branch moved meanwhile, or the attempt no longer holds it; 2 usage; 3 set-up."
)]
pub struct SetState {
    /// The state to declare; the command .aynig/command/STATE does what it asks for
    #[arg(long, value_name = "STATE", alias = "dwp-state", value_parser = parse_state, required_unless_present = "retry")]
    pub state: Option<StateName>,

    /// Ask again what was asked last: state, subject, body and trailers (dwp-not-before left out, so at once) of the newest commit
    /// below that is neither a lease nor stalled
    #[arg(long, conflicts_with_all = ["state", "subject", "body", "body_file", "body_stdin", "trailer", "keep_trailers"])]
    pub retry: bool,

    /// What to write, and where
    #[command(flatten)]
    pub commit: CommitOptions,
}

/// `aynig set-working`.
#[derive(Debug, Args)]
#[command(
    after_help = "A renewal keeps the attempt, the runner, the length and the trailers of the lease it follows. For a process that a command \
    left behind: it keeps the branch while the work goes on, and ends it with set-state.\n\
    Exit codes: 0 done; 1 the branch moved meanwhile, or the attempt no longer holds it; 2 usage; 3 set-up."
)]
pub struct SetWorking {
    /// Length of the lease from now [default: as before, else 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub lease_seconds: Option<u64>,

    /// What to write, and where
    #[command(flatten)]
    pub commit: CommitOptions,
}

/// What a commit by hand may hold.
#[derive(Debug, Args)]
pub struct CommitOptions {
    /// Put the commit on the branch of this remote [default: AYNIG_REMOTE inside a command, else what
    /// `dwp-source` at HEAD names]
    #[arg(long, alias = "dwp-remote", value_name = "NAME", value_parser = parse_remote)]
    pub remote: Option<RemoteName>,

    /// The commit's subject [default: chore: set STATE]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub subject: Option<String>,

    /// The commit's body, which the command gets as BODY
    #[arg(long, value_name = "TEXT", alias = "prompt", allow_hyphen_values = true, group = "body_source")]
    pub body: Option<OsString>,

    /// Read the body from FILE (`-`: from stdin)
    #[arg(long, value_name = "FILE", alias = "prompt-file", group = "body_source")]
    pub body_file: Option<PathBuf>,

    /// Read the body from stdin
    #[arg(long, alias = "prompt-stdin", group = "body_source")]
    pub body_stdin: bool,

    /// Add a trailer (repeatable); commands get it as a variable
    #[arg(long, value_name = "KEY: VALUE", action = ArgAction::Append, value_parser = parse_trailer)]
    pub trailer: Vec<Trailer>,

    /// Carry over the dwp-* trailers of the commit before, but for the runner's own
    #[arg(long)]
    pub keep_trailers: bool,

    /// Act on branch B, whatever is checked out
    #[arg(long, value_name = "B")]
    pub branch: Option<OsString>,

    /// Print what was set as JSON
    #[arg(long)]
    pub json: bool,
}

/// `aynig status`.
#[derive(Debug, Args)]
#[command(
    after_help = "On a terminal --all and --branch draw a table, cut to its width, what needs a person first; elsewhere each branch is one line \
    with nothing cut.\n\
    Exit codes: 0 done; 2 usage; 3 set-up; 4 the remote cannot be reached; 128+n --watch was stopped by signal n."
)]
pub struct Status {
    /// Show the branches of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub remote: Option<RemoteName>,

    /// All branches; those without a state are only counted
    #[arg(long)]
    pub all: bool,

    /// The branches whose name matches GLOB (repeatable; `*` also matches `/`)
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub branch: Vec<String>,

    /// Prefer the commands in .aynig/roles/NAME/command/ [default: ROLE, if set]
    #[arg(long, value_name = "NAME", value_parser = parse_role)]
    pub role: Option<RoleName>,

    /// Stay: show it anew on every change of a local branch, and every SECONDS (a remote is asked every 5 at most)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "10",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watch: Option<u64>,

    /// Print JSON: one object, or an array with --all or --branch; with --watch a line of it for each change
    #[arg(long)]
    pub json: bool,
}

/// `aynig log`.
#[derive(Debug, Args)]
#[command(
    after_help = "Told from the commits alone, newest first, along first parents; times are the dates of commits, so hosts whose clocks disagree \
    make them wrong. On a terminal it goes through git's pager (GIT_PAGER, core.pager, PAGER).\n\
    Exit codes: 0 done; 2 usage; 3 set-up; 4 the remote cannot be reached."
)]
pub struct Log {
    /// The branch to tell of [default: the one checked out here]
    #[arg(value_name = "BRANCH", conflicts_with = "branch")]
    pub name: Option<OsString>,

    /// The same, as for the other subcommands
    #[arg(long, value_name = "B")]
    pub branch: Option<OsString>,

    /// Read the branch of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub remote: Option<RemoteName>,

    /// No more than N entries, the newest
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    pub max_count: Option<usize>,

    /// Oldest first
    #[arg(long)]
    pub reverse: bool,

    /// Show every lease of an attempt, not only how many there were
    #[arg(long)]
    pub leases: bool,

    /// Do not use a pager
    #[arg(long)]
    pub no_pager: bool,

    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

/// `aynig events`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done; 2 usage; 3 set-up.")]
pub struct Events {
    /// Read the branch of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub remote: Option<RemoteName>,

    /// All state events of the branch's first-parent history, newest first
    #[arg(long)]
    pub history: bool,

    /// No more than N of them
    #[arg(short = 'n', long = "max-count", value_name = "N", requires = "history")]
    pub max_count: Option<usize>,

    /// Look at branch B [default: the one checked out here]
    #[arg(long, value_name = "B")]
    pub branch: Option<OsString>,

    /// Print JSON: one object, or an array with --history
    #[arg(long)]
    pub json: bool,
}

/// `aynig logs`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done; 1 there is no such log on this host; 2 usage; 3 set-up.")]
pub struct Logs {
    /// The newest attempt at or before this commit
    #[arg(value_name = "COMMIT", conflicts_with_all = ["branch", "attempt", "remote"])]
    pub commit: Option<String>,

    /// Read the history of the branch of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote, conflicts_with = "attempt")]
    pub remote: Option<RemoteName>,

    /// The newest attempt on branch B [default: the one checked out here]
    #[arg(long, value_name = "B", conflicts_with = "attempt")]
    pub branch: Option<OsString>,

    /// This attempt: its dwp-run-id, or the beginning of it
    #[arg(long, value_name = "ID")]
    pub attempt: Option<String>,

    /// Its stderr instead of its stdout
    #[arg(long)]
    pub stderr: bool,

    /// Go on printing until the attempt is over
    #[arg(short = 'f', long)]
    pub follow: bool,
}

/// `aynig clean`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --apply nothing is removed: each line says what would go, how old and large it is, and why that is safe. Branches are \
    never removed; those whose work is in the main branch are listed with the command to type.\n\
    Exit codes: 0 done, nothing to do, or only looked; 1 something could not be removed; 2 usage; 3 set-up."
)]
pub struct Clean {
    /// Remove; else only tell what would be removed
    #[arg(long)]
    pub apply: bool,

    /// The age (45s, 30m, 12h, 14d, 2w) from which logs and records go [default: 30d], and rescue refs whose work is in no branch
    /// [default: never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub older_than: Option<u64>,

    /// Keep the logs of the newest N attempts on each branch, whatever their age
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub keep: usize,

    /// The branch that others are merged into [default: HEAD of origin, else main or master]
    #[arg(long, value_name = "BRANCH")]
    pub into: Option<OsString>,

    /// Only logs, records of attempts and sightings of leases
    #[arg(long)]
    pub logs: bool,

    /// Only worktrees
    #[arg(long)]
    pub worktrees: bool,

    /// Only rescue refs
    #[arg(long)]
    pub rescue: bool,

    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}

/// `aynig doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Every line is ok, a warning or an error; what is not ok says what to type. Nothing is changed: a push is tried as a dry run, and \
    where commits are signed one is written that no ref names.\n\
    Exit codes: 0 no error, though there may be warnings; 2 usage; 3 an error."
)]
pub struct Doctor {
    /// Check this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub remote: Option<RemoteName>,

    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// `aynig init`.
#[derive(Debug, Args)]
#[command(after_help = "What is there already is left as it is. Exit codes: 0 done; 2 usage; 3 set-up.")]
pub struct Init {
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `aynig install`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --apply it only shows what would change, and what of it are programs. Nothing is run, staged or committed. Where it came \
    from is noted in .aynig/installed.json, so that a later install can tell what was changed here since.\n\
    Exit codes: 0 done, nothing to do, or only shown; 1 written, but for files in conflict; 2 usage; 3 refused, or set-up; \
    4 the source cannot be reached."
)]
pub struct Install {
    /// Where the pack is: a path, a URL, or OWNER/NAME, which is https://github.com/OWNER/NAME
    #[arg(value_name = "REPO")]
    pub repository: OsString,

    /// A branch, a tag or the whole id of a commit there [default: HEAD, its default branch]
    #[arg(value_name = "REF")]
    pub reference: Option<String>,

    /// The directory there that holds the pack's .aynig/ [default: the top]
    #[arg(value_name = "SUBFOLDER")]
    pub subfolder: Option<String>,

    /// Write the files; else it is only shown what would change
    #[arg(long)]
    pub apply: bool,

    /// Overwrite also what was changed here since, or is of another origin
    #[arg(long)]
    pub force: bool,

    /// Print what would change, or was changed, as JSON
    #[arg(long)]
    pub json: bool,
}

/// `aynig hook`.
#[derive(Debug, Args)]
#[command(
    after_help = "Reads what git tells the hook on standard input. Install it by copying contrib/hooks/pre-receive to the hooks directory of \
    the repository that is pushed to. Exit codes: 0 the push may go on; 1 it breaks a lease, standard error says whose; \
    2 usage; 3 set-up."
)]
pub struct Hook {
    /// Which hook of git this is called from
    #[arg(value_name = "HOOK", value_enum)]
    pub hook: HookName,

    /// How far the date of a lease may be off this server's clock
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub tolerance_seconds: u64,
}

/// The hooks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HookName {
    /// Refuse pushes that break a live lease, and leases that are not made by the contract
    PreReceive,
}

/// `aynig manual`.
#[derive(Debug, Args)]
#[command(after_help = "The pages are those that packages bring. To read one: aynig manual run | man -l -\n\
    To have them all found by `man`: aynig manual --into ~/.local/share/man/man1\n\
    Exit codes: 0 done; 2 usage, or there is no such page; 3 a page could not be written.")]
pub struct Manual {
    /// The subcommand whose page it is to be [default: the page of aynig itself]
    #[arg(value_name = "SUBCOMMAND")]
    pub page: Option<String>,

    /// Write all pages to DIR, which is made if it is not there
    #[arg(long, value_name = "DIR", conflicts_with = "page", value_hint = clap::ValueHint::DirPath)]
    pub into: Option<PathBuf>,
}

/// `aynig completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "What it prints makes the shell ask this program at each press of the key, so that branches, remotes, roles and states are \
    those of the repository at hand. It belongs to this version: let the shell read it when it starts.\n\
    bash, in ~/.bashrc: source <(aynig completions bash)\n\
    zsh, in ~/.zshrc, below compinit: source <(aynig completions zsh)\n\
    fish, in ~/.config/fish/config.fish: aynig completions fish | source\n\
    Exit codes: 0 done; 2 usage."
)]
pub struct Completions {
    /// Which shell it is for
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// The shells that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash, from 4.4 on
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

impl Shell {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

fn parse_state(text: &str) -> Result<StateName, String> {
    StateName::parse(text).map_err(|error| error.to_string())
}

fn parse_trailer(text: &str) -> Result<Trailer, String> {
    parse_trailer_arg(text).map_err(|error| error.to_string())
}

fn parse_remote(text: &str) -> Result<RemoteName, String> {
    RemoteName::parse(text).map_err(|error| error.to_string())
}

fn parse_duration(text: &str) -> Result<u64, String> {
    parse_age(text).map_err(|error| error.to_string())
}

fn parse_role(text: &str) -> Result<RoleName, String> {
    RoleName::parse(text).map_err(|error| error.to_string())
}
