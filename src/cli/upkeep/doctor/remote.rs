//! Checks of the remote: whether it answers, accepts pushes, guards its branches, and whether its commit
//! dates are plausible.

use std::path::Path;

use bstr::ByteSlice;

use aynig::clock;
use aynig::contract::ids::{CommitId, RemoteName};
use aynig::contract::retention::age_words;
use aynig::fsutil::{check_place, found_in, is_executable};
use aynig::git::Repo;
use aynig::git::remote::QUESTION;
use aynig::ops::authority::{Unset, elsewhere, unset};
use aynig::runner::authority::Authority;
use aynig::runner::{error_chain, pluralize, shell_quote};

use crate::cli::ui::signals;
use crate::cli::upkeep::doctor::{Finding, head};

/// The allowed distance of a commit's date ahead of this host's clock, in seconds.
const SKEW: i64 = 10;

/// The findings, and which branches count.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) findings: Vec<Finding>,
    /// The authority over them; `None` if it is unknown.
    pub(crate) authority: Option<Authority>,
    /// Whether the fetched branches are current.
    pub(crate) fresh: bool,
}

pub(crate) fn check(repo: &Repo, named: Option<&RemoteName>) -> Looked {
    let authority = match signals::authority(repo, named) {
        Ok(authority) => authority,
        Err(error) => {
            return Looked { findings: vec![Finding::of("remote", error)], authority: None, fresh: false };
        }
    };
    let (findings, fresh) = match authority.source() {
        Some(remote) => deciding(repo, &authority, remote),
        None => {
            let tips = repo.branches().unwrap_or_default().into_iter().filter_map(|tip| tip.target.ok());
            let none = match unset(repo, &authority) {
                Some(Unset { remote, there, .. }) => {
                    let name = shell_quote(remote.as_str());
                    Finding::warning(
                        "remote",
                        format!(
                            "{there} of {remote} declares a state, but aynig.remote is not set, so only local branches count"
                        ),
                        format!("git config aynig.remote {name}; to stay local: git config aynig.remote ''"),
                    )
                }
                None => {
                    let line =
                        elsewhere(repo, &authority).map(|line| format!("; {line}")).unwrap_or_default();
                    Finding::ok("remote", format!("no remote is set; this repository is authoritative{line}"))
                }
            };
            (vec![none, dates(repo, tips)], true)
        }
    };
    Looked { findings, authority: Some(authority), fresh }
}

/// Returns also whether its branches could be fetched.
fn deciding(repo: &Repo, authority: &Authority, remote: &RemoteName) -> (Vec<Finding>, bool) {
    let mut findings = Vec::new();
    if let Err(error) = repo.ask_remote(remote, &[], QUESTION) {
        findings.push(Finding::error("remote", error_chain(&error), format!("git ls-remote {remote}")));
        return (findings, false);
    }
    findings.push(Finding::ok("remote", format!("{remote} answers")));
    let here = repo.remote_directory(remote);
    findings.push(push(repo, remote, here.as_deref()));
    findings.push(match &here {
        Some(git_dir) => guard(git_dir),
        None => Finding::ok(
            "guard",
            format!(
                "{remote} is not on this host, so whether it guards its branches cannot be told from here"
            ),
        ),
    });
    let refreshed = authority.refresh(repo);
    let fresh = refreshed.is_ok();
    findings.extend(refs(repo, remote, here.as_deref()));
    findings.push(match refreshed {
        Err(error) => Finding::error("clock", error_chain(&error), format!("git fetch {remote}")),
        Ok(()) => {
            let tips = repo.fetched_branches(remote).unwrap_or_default();
            dates(repo, tips.into_iter().filter_map(|tip| tip.target.ok()))
        }
    });
    (findings, fresh)
}

fn push(repo: &Repo, remote: &RemoteName, here: Option<&Path>) -> Finding {
    let Some(commit) = head(repo) else {
        return Finding::warning("push", "there is no commit yet to try a push with", "git commit");
    };
    let names = repo.namespace().unwrap_or_default();
    let next = format!("git push --dry-run {remote} HEAD:{}doctor/try", names.as_str());
    if let Err(error) = repo.try_push(remote, commit) {
        return Finding::error("push", error_chain(&error), next);
    }
    // A dry run does not check that objects can be written.
    if let Some(Err(error)) = here.map(|git_dir| check_place(&git_dir.join("objects"))) {
        return Finding::error("push", format!("{remote} cannot be written: {error}"), next);
    }
    Finding::ok("push", format!("{remote} takes pushes, as far as a dry run tells"))
}

/// Tries a runners' ref, and looks whether others name them differently.
fn refs(repo: &Repo, remote: &RemoteName, here: Option<&Path>) -> Vec<Finding> {
    let Ok(names) = repo.namespace() else { return Vec::new() };
    let (prefix, value) = (names.as_str(), names.as_str().trim_end_matches('/'));
    let mut findings = Vec::new();
    // A commit that the remote has already, so that nothing is published.
    let known = repo.fetched_branches(remote).unwrap_or_default().into_iter().find_map(|tip| tip.target.ok());
    if let Some(commit) = known {
        findings.push(match repo.try_ref(remote, commit) {
            Ok(()) => Finding::ok("refs", format!("{remote} takes refs below {prefix}")),
            Err(error) => {
                let next = if names.is_default() {
                    "in every clone of it, and in its repository if `aynig hook pre-receive` guards it: \
                     git config aynig.refNamespace refs/heads/aynig"
                } else {
                    "git config aynig.refNamespace refs/… with a prefix below which it takes and deletes refs"
                };
                Finding::warning(
                    "refs",
                    format!(
                        "{remote} does not take refs below {prefix}, so there can be no deferred states and no runs: {}",
                        error_chain(&error)
                    ),
                    next,
                )
            }
        });
    }
    if let Ok(count @ 1..) = repo.misplaced_refs(remote) {
        findings.push(Finding::warning(
            "refs",
            format!(
                "{remote} has {} below refs/aynig/, where aynig.refNamespace ({value}) does not look",
                pluralize(count, "ref")
            ),
            format!(
                "in the clones that made them: git config aynig.refNamespace {value} (git ls-remote {remote} 'refs/aynig/*' lists them)"
            ),
        ));
    }
    if let Some(git_dir) = here
        && Repo::namespace_of(git_dir).as_ref() != Some(&names)
    {
        let at = shell_quote(git_dir.display().to_string());
        findings.push(Finding::warning(
            "refs",
            format!("aynig.refNamespace is {value} here and something else in {at}, which its guard reads"),
            format!("git -C {at} config aynig.refNamespace {value}"),
        ));
    }
    findings
}

fn guard(git_dir: &Path) -> Finding {
    let hook = Repo::hooks_of(git_dir).join("pre-receive");
    let at = shell_quote(hook.display().to_string());
    let Ok(text) = std::fs::read(&hook) else {
        let text =
            format!("{} does not guard its branches: whoever may push can break a lease", git_dir.display());
        let next = format!(
            "if others push there: cp contrib/hooks/pre-receive {at} && git -C {} config receive.advertisePushOptions true \
             (the file is in aynig's repository; of the package in /usr/share/doc/aynig/examples/hooks/)",
            shell_quote(git_dir.display().to_string())
        );
        return Finding::warning("guard", text, next);
    };
    if !is_executable(&hook) {
        return Finding::warning(
            "guard",
            format!("{at} is not executable, so git does not run it"),
            format!("chmod +x {at}"),
        );
    }
    if text.contains_str("hook pre-receive") {
        // A push to a directory on this host runs the hook with the pusher's PATH.
        return match program(&text).filter(|program| !is_found(program)) {
            None => Finding::ok("guard", format!("{at} calls aynig")),
            Some(missing) => Finding::warning(
                "guard",
                format!("{at} calls {missing}, which is not found here, so it refuses every push from here"),
                format!("install aynig where PATH leads, or write its whole path into {at}: AYNIG=/…/aynig"),
            ),
        };
    }
    let text = format!("{at} is there and does not call `aynig hook pre-receive`");
    Finding::warning(
        "guard",
        text,
        format!("let {at} call `aynig hook pre-receive`, with its standard input"),
    )
}

/// The program that a copy of our hook calls, according to its text.
fn program(hook: &[u8]) -> Option<String> {
    let value = hook.lines().find_map(|line| line.strip_prefix(b"AYNIG="))?.to_str().ok()?;
    let value = match value.strip_prefix("${AYNIG_BIN:-").and_then(|rest| rest.strip_suffix('}')) {
        None => value.to_owned(),
        Some(otherwise) => {
            std::env::var("AYNIG_BIN").ok().filter(|named| !named.is_empty()).unwrap_or(otherwise.to_owned())
        }
    };
    (!value.is_empty() && !value.contains(['$', '`', '"', '\'', ' '])).then_some(value)
}

fn is_found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if program.contains('/') { is_executable(Path::new(program)) } else { found_in(program, &path).is_some() }
}

/// Compares the newest of these commits with our clock: a date in the future shows that two clocks disagree.
fn dates(repo: &Repo, tips: impl Iterator<Item = CommitId>) -> Finding {
    let newest = tips.filter_map(|tip| repo.commit(tip).ok()).max_by_key(|stored| stored.committed_at);
    let Some(newest) = newest else { return Finding::ok("clock", "there are no commits to compare it with") };
    let age = clock::wall_seconds().saturating_sub(newest.committed_at);
    if age < -SKEW {
        let text = format!(
            "commit {} is dated {} ahead of this host's clock: one of two clocks is wrong",
            newest.id.short(),
            age_words(age.unsigned_abs())
        );
        return Finding::warning(
            "clock",
            text,
            "timedatectl; or aynig run --takeover observed, which trusts no other clock",
        );
    }
    Finding::ok("clock", format!("the newest commit is {} old", age_words(age.max(0).unsigned_abs())))
}
