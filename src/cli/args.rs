//! The command line, all of it. `--help`, the man page and the README's tables come from here.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::logging::Level;
use crate::contract::ids::RoleName;

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
    /// Ends the commands of a runner that was killed; started by `run`
    #[command(name = "__watchdog", hide = true)]
    Watchdog,
}

/// `aynig run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done, nothing to do, or another runner was faster; 1 a command ended stalled; \
    2 usage; 3 set-up; 70 a bug; 128+n stopped by signal n."
)]
pub struct Run {
    /// Prefer the commands in .aynig/roles/NAME/command/ [default: ROLE, if set]
    #[arg(long, value_name = "NAME", value_parser = parse_role)]
    pub role: Option<RoleName>,

    /// Where worktrees are made, relative to the top of the repository
    #[arg(short = 'w', long, value_name = "DIR", default_value = ".worktrees")]
    pub worktree: PathBuf,

    /// What to do with the branch that is checked out here
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Current::Skip)]
    pub current_branch: Current,

    /// Only branches whose name matches GLOB (repeatable; `*` also matches `/`)
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub branch: Vec<String>,

    /// How many commands may run at once
    #[arg(short = 'j', long, value_name = "N", default_value = "1")]
    pub jobs: NonZeroUsize,

    /// Length of a lease; it is renewed after two thirds of it
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub lease_seconds: u64,

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

fn parse_role(text: &str) -> Result<RoleName, String> {
    RoleName::parse(text).map_err(|error| error.to_string())
}
