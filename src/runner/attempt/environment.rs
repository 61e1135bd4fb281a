//! The environment of a command (CONTRACT 3.2 to 3.10).
//!
//! Invariant: it is the runner's own environment, without variables that would point git at another
//! repository, plus the contract's variables and the trailers that CONTRACT 3.8 admits.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::contract::carried::is_of_one_commit;
use crate::contract::environment::{BODY_INLINE_LIMIT, SkipReason, TrailerVariables, trailer_variables};
use crate::contract::lease::requested_seconds;
use crate::contract::trailers::LOG_LEVEL_KEY;
use crate::git::Repo;
use crate::git::process::call::LOCAL_VARIABLES;
use crate::git::repo::config::{COMMANDS_FROM, REQUIRE_SIGNED};
use crate::runner::events::warning::Warning;

use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::files::Files;
use crate::runner::authority::Authority;
use crate::runner::options::Options;
use crate::runner::survey::past::Past;

/// Variables set by the runner. Values inherited from an enclosing aynig command are removed.
const OURS: [&str; 17] = [
    "AYNIG_BIN",
    "AYNIG_BRANCH",
    COMMANDS_FROM,
    "AYNIG_GIT_DIR",
    "AYNIG_LEASE_SECONDS",
    "AYNIG_REMOTE",
    REQUIRE_SIGNED,
    "AYNIG_RUN_ID",
    "AYNIG_VISITS",
    "BODY",
    "BODY_PATH",
    "COMMIT_HASH",
    "LOG_LEVEL",
    "ROLE",
    "STDERR_LOG_PATH",
    "STDOUT_LOG_PATH",
    "WORKTREE_PATH",
];

/// The most omitted trailers that are named one by one. A commit may have any number.
const MOST_SKIPPED_NAMED: usize = 20;

/// The complete environment of a command, with warnings about it.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Values that are left out.
    pub(crate) warnings: Vec<Warning>,
}

/// The log level of a command: the trigger's `dwp-log-level`, unless the command line sets one
/// (CONTRACT 3.12).
pub(crate) fn log_level(claim: &Claim, options: &Options) -> String {
    claim
        .trigger
        .message
        .trailers
        .last(LOG_LEVEL_KEY)
        .map(ToString::to_string)
        .filter(|level| is_log_level(level) && !options.log_level_fixed)
        .unwrap_or_else(|| options.log_level.clone())
}

fn is_log_level(text: &str) -> bool {
    ["error", "warn", "info", "debug", "trace", "off"].contains(&text)
}

/// This process's environment, without git's hook variables and without variables set by an enclosing aynig
/// command.
pub(crate) fn own_environment() -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for name in LOCAL_VARIABLES.iter().chain(&OURS) {
        variables.remove(OsStr::new(name));
    }
    variables
}

/// Builds the environment of `claim`'s command, which will run in `directory`.
pub(crate) fn environment(
    repo: &Repo,
    authority: &Authority,
    options: &Options,
    claim: &Claim,
    files: &Files,
    directory: &Path,
) -> Environment {
    let mut variables = own_environment();
    let mut warnings = Vec::new();
    let exists = |name: &str| variables.contains_key(OsStr::new(name));
    let listed = |key: &BString, name: &str| options.trust.lists(&key.to_str_lossy(), name);
    let TrailerVariables { set, mut skipped } =
        trailer_variables(&claim.trigger.message.trailers, exists, listed);
    // An operator who lists some trailers needs no warning about the others (CONTRACT 3.13).
    skipped.retain(|(key, reason)| *reason != SkipReason::NotListed && !is_of_one_commit(key));
    for (key, reason) in skipped.iter().take(MOST_SKIPPED_NAMED) {
        warnings.push(Warning::TrailerNotPassed { key: key.clone(), reason: *reason });
    }
    match skipped.len().saturating_sub(MOST_SKIPPED_NAMED) {
        0 => {}
        count => warnings.push(Warning::MoreTrailersNotPassed { count }),
    }
    for (name, value) in set {
        variables.insert(name.into(), OsString::from_vec(value.into()));
    }

    if let Err(why) = requested_seconds(&claim.trigger.message.trailers) {
        warnings.push(Warning::LeaseLengthIgnored { why, seconds: claim.seconds });
    }
    let mut give = |name: &str, value: OsString| variables.insert(name.into(), value);
    let body = &claim.trigger.message.body;
    if body.len() > BODY_INLINE_LIMIT {
        warnings.push(Warning::BodyTooLong { bytes: body.len() });
    } else {
        give("BODY", OsStr::from_bytes(body).to_owned());
    }
    give("BODY_PATH", files.body.clone().into());
    give("COMMIT_HASH", claim.trigger.commit.to_string().into());
    give("WORKTREE_PATH", directory.into());
    give("STDOUT_LOG_PATH", files.stdout.clone().into());
    give("STDERR_LOG_PATH", files.stderr.clone().into());
    give("LOG_LEVEL", log_level(claim, options).into());
    if let Some(role) = &options.role {
        give("ROLE", role.as_str().into());
    }
    give("AYNIG_BIN", options.program.clone().into());
    give("AYNIG_BRANCH", OsStr::from_bytes(claim.branch.as_bstr()).to_owned());
    give("AYNIG_GIT_DIR", repo.common_dir().into());
    if let Some(remote) = authority.source() {
        give("AYNIG_REMOTE", remote.as_str().into());
    }
    give("AYNIG_RUN_ID", claim.attempt.to_string().into());
    give("AYNIG_VISITS", Past::default().visits(repo, claim.trigger.commit).to_string().into());
    give("AYNIG_LEASE_SECONDS", claim.seconds.to_string().into());
    for (name, value) in options.trust.variables() {
        give(name, value.into());
    }
    let ceilings = ceilings(directory, variables.get(OsStr::new("GIT_CEILING_DIRECTORIES")));
    variables.insert("GIT_CEILING_DIRECTORIES".into(), ceilings);
    Environment { variables: variables.into_iter().collect(), warnings }
}

/// The value of `GIT_CEILING_DIRECTORIES`. Git must not look above the worktree: if its `.git` file is gone,
/// the repository around it is the wrong one.
fn ceilings(directory: &Path, inherited: Option<&OsString>) -> OsString {
    let mut paths: Vec<PathBuf> = directory.parent().map(Path::to_owned).into_iter().collect();
    if let Some(inherited) = inherited {
        paths.extend(std::env::split_paths(inherited).filter(|path| !path.as_os_str().is_empty()));
    }
    std::env::join_paths(paths).unwrap_or_default()
}
