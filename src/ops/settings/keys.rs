//! The table of settings: name, option, parser, default and documentation of each.
//!
//! Invariant: a row holds all facts about its setting. The reader of git's configuration, the options of
//! `aynig run`, and `aynig-config(5)` are made from the rows.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::contract::duration::{FORMS, parse_duration};
use crate::contract::ids::{BranchName, RemoteName, RoleName};
use crate::contract::lease::MAX_LEASE_SECONDS;
use crate::contract::namespace::Namespace;
use crate::publish::Forge;
use crate::runner::options::{CurrentBranch, Takeover};

pub(crate) use super::key::Group;
pub use super::key::{Fallback, Flag, Key, Takes, Value, Word};
pub use super::read::{number, seconds};

const fn value(long: &'static str, name: &'static str) -> Option<Flag> {
    Some(Flag { long, short: None, takes: Takes::Value(name), default: "" })
}

/// The longest pause before another try.
const MAX_PAUSE: Duration = Duration::from_secs(86_400);

/// A row with all rare fields left out.
const PLAIN: Key = Key {
    name: "",
    group: Group::Run,
    option: None,
    environment: "",
    trailer: "",
    value: Value::Line(|_, _| {}),
    default: Fallback::Words("none"),
    help: "",
};

/// All settings, in the order of their options in help texts.
pub static KEYS: [Key; 49] = [
    Key {
        name: "role",
        group: Group::Role,
        option: Some(Flag {
            long: "role",
            short: None,
            takes: Takes::Value("NAME"),
            default: "ROLE, if set",
        }),
        environment: "`ROLE`",
        value: Value::Name(|settings, text| {
            settings.role = Some(RoleName::parse(text).map_err(|error| error.to_string())?);
            Ok(())
        }),
        help: "Prefer the commands in .aynig/roles/NAME/command/",
        ..PLAIN
    },
    Key {
        name: "remote",
        group: Group::Remote,
        option: Some(Flag {
            long: "remote",
            short: None,
            takes: Takes::Value("NAME"),
            default: "what `dwp-source` at HEAD names",
        }),
        environment: "`AYNIG_REMOTE`, inside a command",
        trailer: "`dwp-source` at HEAD of the checkout",
        value: Value::Name(|settings, text| {
            settings.remote = Some(RemoteName::parse(text).map_err(|error| error.to_string())?);
            Ok(())
        }),
        default: Fallback::Words("the repository itself"),
        help: "Work on the branches of this remote, which decides every race",
    },
    Key {
        name: "worktree",
        option: Some(Flag { long: "worktree", short: Some('w'), takes: Takes::Value("DIR"), default: "" }),
        value: Value::Path(|settings, path| settings.worktree = path),
        default: Fallback::Value(".worktrees"),
        help: "Where worktrees are made, relative to the top of the repository",
        ..PLAIN
    },
    Key {
        name: "currentBranch",
        option: value("current-branch", "MODE"),
        value: Value::Word(&[
            Word {
                word: "skip",
                help: "Leave it alone",
                put: |settings| settings.current_branch = CurrentBranch::Skip,
            },
            Word {
                word: "include",
                help: "Run it too, in place; a command can change what is not committed here",
                put: |settings| settings.current_branch = CurrentBranch::Include,
            },
            Word {
                word: "only",
                help: "Run nothing else",
                put: |settings| settings.current_branch = CurrentBranch::Only,
            },
        ]),
        default: Fallback::Value("skip"),
        help: "What to do with the branch that is checked out here",
        ..PLAIN
    },
    Key {
        name: "branch",
        group: Group::Security,
        option: value("branch", "GLOB"),
        value: Value::Glob(|settings, glob| settings.branch.push(glob)),
        default: Fallback::Words("all but the default branch"),
        help: "Only branches whose name matches GLOB (repeatable; `*` also matches `/`); the default branch only by its whole name",
        ..PLAIN
    },
    Key {
        name: "workPrefix",
        value: Value::Name(|settings, prefix| {
            let is_prefix = prefix.ends_with('/') && BranchName::new(format!("{prefix}x").as_str()).is_ok();
            if !is_prefix {
                return Err("write the beginning of branch names, with a / at its end".to_owned());
            }
            settings.work_prefix = prefix.to_owned();
            Ok(())
        }),
        default: Fallback::Value("work/"),
        help: "The beginning of the names of work branches, which are never run",
        ..PLAIN
    },
    Key {
        name: "runPrefix",
        value: Value::Name(|settings, prefix| {
            let is_prefix = prefix.ends_with('/') && BranchName::new(format!("{prefix}x").as_str()).is_ok();
            if !is_prefix {
                return Err("write the beginning of branch names, with a / at its end".to_owned());
            }
            settings.run_prefix = prefix.to_owned();
            Ok(())
        }),
        default: Fallback::Value("run/"),
        help: "The beginning of the names of drivers: branches that carry out the steps of runs",
        ..PLAIN
    },
    Key {
        name: "orchLeaseSeconds",
        group: Group::Workspace,
        value: Value::Seconds(10..=MAX_LEASE_SECONDS, |settings, seconds| {
            settings.orch_lease_seconds = seconds
        }),
        default: Fallback::Value("60"),
        help: "The length of the lease of a driver, which is renewed while its step runs",
        ..PLAIN
    },
    Key {
        name: "approvalWaitSeconds",
        group: Group::Workspace,
        value: Value::Seconds(0..=86_400, |settings, seconds| settings.approval_wait_seconds = seconds),
        default: Fallback::Value("60"),
        help: "How long a turn of a node waits for the answer to a request; then its program is stopped, and the answer begins the turn again",
        ..PLAIN
    },
    Key {
        name: "stallRepeats",
        group: Group::Workspace,
        value: Value::Number(2..=16, |settings, repeats| settings.stall_repeats = repeats),
        default: Fallback::Value("4"),
        help: "How many turns of a node without progress, in a row, pause a graph: equal answers, equal changes, equal failures, or equal hand-offs",
        ..PLAIN
    },
    Key {
        name: "retryPause",
        group: Group::Workspace,
        value: Value::Name(|settings, text| {
            let words = text.split([',', ' ']).filter(|word| !word.is_empty());
            let pauses: Option<Vec<Duration>> =
                words.map(|word| parse_duration(word).map(Duration::from_secs)).collect();
            let fits =
                |pauses: &Vec<Duration>| !pauses.is_empty() && pauses.iter().all(|one| *one <= MAX_PAUSE);
            settings.retry_pause = pauses
                .filter(fits)
                .ok_or_else(|| format!("write durations of at most a day, as in 2s,10s ({FORMS})"))?;
            Ok(())
        }),
        default: Fallback::Value("2s,10s"),
        help: "The pauses before a node tries again: after its first failed turn, after its second one, and so on",
        ..PLAIN
    },
    Key {
        name: "maxUnread",
        group: Group::Workspace,
        // Read by the ledger.
        value: Value::Number(1..=10_000, |_, _| {}),
        default: Fallback::Value("16"),
        help: "The most hand-offs of one node that another one may have unread; a further one is refused",
        ..PLAIN
    },
    Key {
        name: "approvalExpireSeconds",
        group: Group::Workspace,
        value: Value::Seconds(1..=31_536_000, |settings, seconds| {
            settings.approval_expire_seconds = Some(seconds)
        }),
        default: Fallback::Words("never"),
        help: "How long a request of a node that this host records may wait; then its agent gets the answer that nobody decided in time",
        ..PLAIN
    },
    Key {
        name: "requireSignedApprovals",
        group: Group::Workspace,
        value: Value::Flag(|settings, required| settings.require_signed_approvals = required),
        default: Fallback::Value("false"),
        help: "An answer to a request of a node lets its tool run here only if the answer has a good signature",
        ..PLAIN
    },
    Key {
        name: "refNamespace",
        // Read by `git`.
        value: Value::Name(|_, name| Namespace::parse(name).map(drop)),
        default: Fallback::Value("refs/aynig"),
        help: "The beginning of the names that aynig's own refs have on remotes, for hubs that refuse the default",
        ..PLAIN
    },
    Key {
        name: "workspaceRoot",
        group: Group::Workspace,
        value: Value::Path(|settings, path| settings.workspace_root = Some(path)),
        default: Fallback::Words("`$XDG_STATE_HOME/aynig/REPOSITORY-…`, outside of every checkout"),
        help: "Where the worktrees of managed workspaces are made: an absolute path outside of every checkout",
        ..PLAIN
    },
    Key {
        name: "dataDir",
        group: Group::Workspace,
        value: Value::Path(|settings, path| settings.data_dir = Some(path)),
        default: Fallback::Words("`aynig/data` in the git directory that all worktrees share"),
        help: "Where the records of runs and workspaces are kept: an absolute path",
        ..PLAIN
    },
    Key {
        name: "protectedBranches",
        group: Group::Workspace,
        value: Value::Glob(|settings, glob| settings.protected_branches.push(glob)),
        default: Fallback::Words("`main`, `master` and `release/*`"),
        help: "Branches that must not be moved from a workspace (repeatable; `*` also matches `/`)",
        ..PLAIN
    },
    Key {
        name: "forge",
        group: Group::Workspace,
        value: Value::Name(|settings, text| {
            settings.forge = Forge::parse(text)?;
            Ok(())
        }),
        default: Fallback::Words("`none`"),
        help: "Who makes a proposal of published work: none, gh, push-options (GitLab), agit (Gitea, Forgejo), or the \
               absolute path of a program",
        ..PLAIN
    },
    Key {
        name: "rollbackKeepIgnored",
        group: Group::Workspace,
        value: Value::Flag(|settings, keeps| settings.rollback_keep_ignored = keeps),
        default: Fallback::Value("false"),
        help: "Whether a rollback of a workspace keeps the old directory if it has ignored files",
        ..PLAIN
    },
    Key {
        name: "replicate",
        group: Group::Workspace,
        // Read by the ledger, like `secrets`.
        value: Value::Word(&[
            Word { word: "all", help: "Everything", put: |_| {} },
            Word { word: "summary", help: "No prompts, transcripts, logs and context packs", put: |_| {} },
            Word { word: "none", help: "Nothing: the run stays in this repository", put: |_| {} },
        ]),
        default: Fallback::Words("`all` where this repository decides, `summary` where a remote does"),
        help: "Which contents of a new run go into its ledger",
        ..PLAIN
    },
    Key {
        name: "secrets",
        group: Group::Workspace,
        value: Value::Glob(|_, _| {}),
        default: Fallback::Words("nothing is masked but what `.aynig/redact` matches"),
        help: "The name of an environment variable whose value is masked in ledgers and journals (repeatable)",
        ..PLAIN
    },
    Key {
        name: "commandsFrom",
        group: Group::Security,
        option: value("commands-from", "REF"),
        value: Value::Text(|settings, name| settings.commands_from = Some(name)),
        default: Fallback::Words("the branch's own tree"),
        help: "Take all commands from the tree of REF, not from the branch that is run: a branch, REMOTE/BRANCH, \
               `refs/…` or a full commit id",
        ..PLAIN
    },
    Key {
        name: "requireSigned",
        group: Group::Security,
        option: Some(Flag { long: "require-signed", short: None, takes: Takes::True, default: "" }),
        value: Value::Flag(|settings, required| settings.require_signed = required),
        default: Fallback::Value("false"),
        help: "Run only what has a good signature (`%G?` of git is G)",
        ..PLAIN
    },
    Key {
        name: "states",
        group: Group::Security,
        option: value("states", "GLOB"),
        value: Value::Glob(|settings, glob| settings.states.push(glob)),
        default: Fallback::Words("all states"),
        help: "Only states that match GLOB (repeatable; `*` also matches `/`)",
        ..PLAIN
    },
    Key {
        name: "trailerVariables",
        group: Group::Security,
        value: Value::Glob(|settings, glob| settings.trailer_variables.push(glob)),
        default: Fallback::Words("all trailers become variables that are not reserved"),
        help: "Only trailers that match this glob become variables, besides DWP_* (repeatable)",
        ..PLAIN
    },
    Key {
        name: "jobs",
        option: Some(Flag { long: "jobs", short: Some('j'), takes: Takes::Value("N"), default: "" }),
        value: Value::Number(1..=u64::MAX, |settings, jobs| {
            let jobs = usize::try_from(jobs).ok().and_then(NonZeroUsize::new);
            settings.jobs = jobs.unwrap_or(NonZeroUsize::MAX);
        }),
        default: Fallback::Value("1"),
        help: "How many commands may run at once",
        ..PLAIN
    },
    Key {
        name: "leaseSeconds",
        option: value("lease-seconds", "DURATION"),
        value: Value::Seconds(1..=MAX_LEASE_SECONDS, |settings, seconds| settings.lease_seconds = seconds),
        default: Fallback::Value("300"),
        help: "Length of a lease; it is renewed after two thirds of it. That of a driver is aynig.orchLeaseSeconds",
        ..PLAIN
    },
    Key {
        name: "takeover",
        option: value("takeover", "BY"),
        value: Value::Word(&[
            Word {
                word: "clock",
                help: "By its date and the clock of this host",
                put: |settings| settings.takeover = Takeover::Clock,
            },
            Word {
                word: "observed",
                help: "After this host has seen it for its whole length, whatever the clocks of other hosts say",
                put: |settings| settings.takeover = Takeover::Observed,
            },
        ]),
        default: Fallback::Value("clock"),
        help: "How to decide that the lease of another runner has expired",
        ..PLAIN
    },
    Key {
        name: "skewSeconds",
        option: value("skew-seconds", "DURATION"),
        value: Value::Seconds(0..=86_400, |settings, seconds| settings.skew_seconds = seconds),
        default: Fallback::Value("10"),
        help: "With a remote, or --takeover observed: how far clocks may be apart; a lease is taken over only that \
               much after its end",
        ..PLAIN
    },
    Key {
        name: "heartbeat",
        option: Some(Flag {
            long: "no-heartbeat",
            short: None,
            takes: Takes::False("Do not renew leases"),
            default: "",
        }),
        value: Value::Flag(|settings, renewed| settings.heartbeat = renewed),
        default: Fallback::Value("true"),
        help: "Renew leases while their commands run",
        ..PLAIN
    },
    Key {
        name: "graceSeconds",
        option: value("grace-seconds", "DURATION"),
        value: Value::Seconds(0..=u64::MAX, |settings, seconds| settings.grace_seconds = seconds),
        default: Fallback::Value("10"),
        help: "How long a stopped command has between TERM and KILL",
        ..PLAIN
    },
    Key {
        name: "onInterrupt",
        value: Value::Word(&[
            Word {
                word: "requeue",
                help: "Request its state again",
                put: |settings| settings.requeue = true,
            },
            Word {
                word: "stall",
                help: "Set the branch `stalled`",
                put: |settings| settings.requeue = false,
            },
        ]),
        default: Fallback::Value("requeue"),
        help: "What to do with the branch of a command that did not finish because the runner was stopped",
        ..PLAIN
    },
    Key {
        name: "interruptRetries",
        value: Value::Number(0..=u64::MAX, |settings, times| settings.interrupt_retries = times),
        default: Fallback::Value("3"),
        help: "How often in a row the state of an interrupted command is requested again before its branch becomes stalled",
        ..PLAIN
    },
    Key {
        name: "commandTimeout",
        option: value("command-timeout", "DURATION"),
        value: Value::Seconds(1..=u64::MAX, |settings, seconds| settings.command_timeout = Some(seconds)),
        help: "Stop a command that runs longer, and stall its branch",
        ..PLAIN
    },
    Key {
        name: "maxSteps",
        value: Value::Number(0..=u64::MAX, |settings, steps| settings.max_steps = steps),
        default: Fallback::Value("60"),
        help: "The most steps of a branch in an hour; 0 is no bound",
        ..PLAIN
    },
    Key {
        name: "maxRounds",
        value: Value::Number(0..=u64::MAX, |settings, rounds| settings.max_rounds = rounds),
        default: Fallback::Value("5"),
        help: "How many times in a row a state is run with the same files; 0 is no bound",
        ..PLAIN
    },
    Key {
        name: "setup",
        value: Value::Line(|settings, line| settings.setup = Some(line)),
        help: "The command line for `sh` that prepares a worktree before each command",
        ..PLAIN
    },
    Key {
        name: "notify",
        group: Group::Notify,
        value: Value::Line(|settings, line| settings.notify = Some(line)),
        default: Fallback::Words("none"),
        help: "The command line for `sh` that notifies people",
        ..PLAIN
    },
    Key {
        name: "notifySeconds",
        group: Group::Notify,
        // The end of a run waits for it.
        value: Value::Seconds(1..=3_600, |settings, seconds| settings.notify_seconds = seconds),
        default: Fallback::Value("30"),
        help: "Stop the program in aynig.notify when it runs longer",
        ..PLAIN
    },
    Key {
        name: "notifyStates",
        group: Group::Notify,
        value: Value::Glob(|settings, glob| settings.notify_states.push(glob)),
        default: Fallback::Words("none besides `stalled`"),
        help: "Notify of states that match this glob (repeatable)",
        ..PLAIN
    },
    Key {
        name: "pool",
        // `git::worktrees::pool` reads this setting and the next one itself.
        value: Value::Number(0..=u64::MAX, |_, _| {}),
        default: Fallback::Words("2 worktrees kept for later steps, in large repositories only"),
        help: "How many clean worktrees are kept for later steps",
        ..PLAIN
    },
    Key {
        name: "poolKeepIgnored",
        value: Value::Flag(|_, _| {}),
        default: Fallback::Words("`false`: ignored files are removed before a kept worktree is used again"),
        help: "Leave ignored files in worktrees that are kept",
        ..PLAIN
    },
    Key {
        name: "runnerId",
        group: Group::Runner,
        environment: "`AYNIG_RUNNER_ID`",
        // `git::repo` reads it.
        value: Value::Line(|_, _| {}),
        default: Fallback::Words("the host's name"),
        help: "The name of this runner in leases",
        ..PLAIN
    },
    // `lines` reads the next three.
    Key {
        name: "validator.NAME",
        group: Group::Workspace,
        default: Fallback::Words("none (a step that names it is left to other hosts)"),
        help: "The command line for `sh` of the validator NAME in flows (`tests`, `lint` and the like)",
        ..PLAIN
    },
    Key {
        name: "evaluator",
        group: Group::Workspace,
        default: Fallback::Words("none (the agent of the flow judges)"),
        help: "The command line for `sh` of the planner in flows that name none",
        ..PLAIN
    },
    Key {
        name: "evaluator.NAME",
        group: Group::Workspace,
        default: Fallback::Words("none (a step that names it is left to other hosts)"),
        help: "The command line for `sh` of the planner that flows call NAME",
        ..PLAIN
    },
    // `engine` reads it.
    Key {
        name: "approver.LABEL",
        group: Group::Workspace,
        default: Fallback::Words("none (a flow that names it is not started)"),
        help: "The mail addresses of those who may answer gates with the approver LABEL, separated by spaces",
        ..PLAIN
    },
    // `providers` reads it.
    Key {
        name: "provider.NAME.*",
        group: Group::Workspace,
        default: Fallback::Words("none (`claude`, `codex` and `gemini` need none)"),
        help: "The agent that flows call NAME: kind, command, args, model, env, protocol, idleSeconds, turnSeconds",
        ..PLAIN
    },
];
