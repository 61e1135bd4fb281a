//! The options of the subcommands that set up and maintain a repository, a machine or a shell.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::args::parse::{count, parse_older_than, parse_remote, seconds};
use aynig::contract::ids::RemoteName;

/// `aynig clean`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --apply nothing is removed: each line says what would go, how old and large it is, and why that is safe. Branches are \
    never removed, but for drivers of runs that ended a day ago, or as long ago as --older-than says; those whose work is in the main branch are listed with the command to type.\n\
    Exit codes: 0 done, nothing to do, or only looked; 1 something could not be removed; 2 usage; 3 set-up."
)]
pub(crate) struct Clean {
    /// Remove; else only tell what would be removed
    #[arg(long)]
    pub(crate) apply: bool,

    /// The age (45s, 30m, 12h, 14d, 2w) from which logs and records go [default: 30d], and rescue refs whose work is in no branch
    /// [default: never]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = parse_older_than)]
    pub(crate) older_than: Option<u64>,

    /// Keep the logs of the newest N attempts on each branch, whatever their age
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub(crate) keep: usize,

    /// The branch that others are merged into [default: HEAD of origin, else main or master]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) into: Option<OsString>,

    /// Only logs, records of attempts and sightings of leases
    #[arg(long)]
    pub(crate) logs: bool,

    /// Only worktrees
    #[arg(long)]
    pub(crate) worktrees: bool,

    /// Only rescue refs
    #[arg(long)]
    pub(crate) rescue: bool,

    /// Only deferred states that cannot be delivered, since their branch is gone or was made anew; with --apply remove them
    #[arg(long)]
    pub(crate) deferred: bool,

    /// Only what workspaces left: old directories, half-made ones, those of ended and deleted runs, and archived branches; with
    /// --apply remove these too if their work is in a branch, or by their age
    #[arg(long)]
    pub(crate) workspaces: bool,

    /// Only what runs left: drivers of ended runs, and events of them that only this host saw; with --apply remove these by their
    /// age, and the files of deleted runs
    #[arg(long)]
    pub(crate) runs: bool,

    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Every line is ok, a warning or an error; what is not ok says what to type. Nothing here is changed: a push is tried as a dry run, and \
    a signature on a commit that is thrown away. But a remote that decides is fetched from, into refs/aynig/remotes/ and .git/aynig/, and is asked to \
    make a ref below refs/aynig/doctor/ (aynig.refNamespace) and to delete it.\n\
    Exit codes: 0 no error, though there may be warnings; 2 usage; 3 an error."
)]
pub(crate) struct Doctor {
    /// Check this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig init`.
#[derive(Debug, Args)]
#[command(after_help = "What is there already is left as it is. Exit codes: 0 done; 2 usage; 3 set-up.")]
pub(crate) struct Init {
    /// Print what was made as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig install`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --apply it only shows what would change, and what of it are programs. Nothing is run, staged or committed. Where it came \
    from is noted in .aynig/installed.json, so that a later install can tell what was changed here since.\n\
    Exit codes: 0 done, nothing to do, or only shown; 1 written, but for files in conflict; 2 usage; 3 refused, or set-up; \
    4 the source cannot be reached."
)]
pub(crate) struct Install {
    /// Where the pack is: a path (a repository, or a plain directory), the name of a pack that comes with aynig, a URL, or
    /// OWNER/NAME, which is https://github.com/OWNER/NAME
    #[arg(value_name = "REPO")]
    pub(crate) repository: OsString,

    /// A branch, a tag or the whole id of a commit there [default: HEAD, its default branch]
    #[arg(value_name = "REF")]
    pub(crate) reference: Option<String>,

    /// The directory there that holds the pack's .aynig/ [default: the top]
    #[arg(value_name = "SUBFOLDER")]
    pub(crate) subfolder: Option<String>,

    /// Write the files; else it is only shown what would change
    #[arg(long)]
    pub(crate) apply: bool,

    /// Overwrite also what was changed here since, or is of another origin
    #[arg(long)]
    pub(crate) force: bool,

    /// Print what would change, or was changed, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig hook`.
#[derive(Debug, Args)]
#[command(
    after_help = "Reads what git tells the hook on standard input. Install it by copying contrib/hooks/pre-receive to the hooks directory of \
    the repository that is pushed to. Exit codes: 0 the push may go on; 1 it breaks a lease, standard error says whose; \
    2 usage; 3 set-up."
)]
pub(crate) struct Hook {
    /// Which hook of git this is called from
    #[arg(value_name = "HOOK", value_enum)]
    pub(crate) hook: HookName,

    /// How far the date of a lease may be off this server's clock
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, default_value = "60", value_parser = seconds(0..=86_400))]
    pub(crate) tolerance_seconds: u64,
}

/// The hooks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookName {
    /// Refuse pushes that break a live lease, and leases that are not made by the contract
    PreReceive,
}

/// `aynig manual`.
#[derive(Debug, Args)]
#[command(
    after_help = "On a terminal `man` shows the page, if it is installed; else the page is printed as roff.\n\
    To install all pages for `man`: aynig manual --into ~/.local/share/man\n\
    Exit codes: 0 done; 2 usage, or there is no such page; 3 a page could not be written."
)]
pub(crate) struct Manual {
    /// The page: a subcommand such as `flow start`, or `commands`, `config`. A section may precede it, as in `5 flow`
    /// [default: the page of aynig itself]
    #[arg(value_name = "PAGE")]
    pub(crate) page: Vec<String>,

    /// Write all pages below DIR, as `man1/aynig-run.1` and so on
    #[arg(long, value_name = "DIR", conflicts_with = "page", value_hint = clap::ValueHint::DirPath)]
    pub(crate) into: Option<PathBuf>,
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
pub(crate) struct Completions {
    /// Which shell it is for
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// The shells that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU bash, from 4.4 on
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

impl Shell {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}
