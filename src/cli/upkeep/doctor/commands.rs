//! Checks of commands: executable bits and `#!` lines, as committed and on disk, and states without a
//! command.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use aynig::clock;
use aynig::contract::alike::nearest_command;
use aynig::contract::commits::OF_RUN_KEY;
use aynig::contract::head::Head;
use aynig::contract::ids::{BranchName, CommitId, RemoteName};
use aynig::contract::message::Message;
use aynig::fsutil::{found_in, is_executable};
use aynig::git::objects::commits::Stored;
use aynig::git::objects::revspec::Content;
use aynig::git::{CommitError, Repo};
use aynig::ledger::runs;
use aynig::ops::app::Process;
use aynig::ops::run::{plain_options, survey_options};
use aynig::ops::settings;
use aynig::runner::authority::Authority;
use aynig::runner::options::{Options, Trust};
use aynig::runner::survey::trust;
use aynig::runner::survey::verdict::{NoCommand, Reason, Severity};
use aynig::runner::survey::words::{bounded, if_you_vouch};
use aynig::runner::survey::{Question, Survey, Verdict, survey};
use aynig::runner::{error_chain, shell_quote};

use crate::cli::upkeep::doctor::remote::Looked;
use crate::cli::upkeep::doctor::{Finding, head};

/// Where commands lie.
const AYNIG: &str = ".aynig";

/// Up to this many branches are named one by one.
const MOST_UNSIGNED: usize = 5;

/// How many branches that have reached a bound are named.
const MOST_BOUNDED: usize = 3;

/// The number of bytes read of a file's beginning: more than any valid `#!` line.
const HEAD: usize = 256;

/// A command's file, as committed.
#[derive(Debug)]
struct Known {
    /// From the top of the tree.
    path: PathBuf,
    /// Whether it is executable; `None` for a symlink.
    executable: Option<bool>,
    /// Its first bytes.
    head: Vec<u8>,
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = match head(repo).map(|head| committed(repo, head)) {
        None => Vec::new(),
        Some(Ok(files)) => files,
        Some(Err(error)) => return vec![Finding::error("commands", error_chain(&error), "git fsck")],
    };
    for file in &files {
        let path = file.path.to_string_lossy();
        match file.executable {
            _ if file.path == Path::new(AYNIG).join("command") => findings.push(Finding::error(
                "commands",
                format!("{path} is a file, where the programs of the states have to be files of a directory"),
                format!(
                    "git rm {0} && mkdir {0}, and put a program for each state into it",
                    shell_quote(&*path)
                ),
            )),
            Some(false) => findings.push(Finding::warning(
                "commands",
                format!("{path} is committed without the executable bit"),
                format!("git add --chmod=+x {}, and commit it", shell_quote(&*path)),
            )),
            Some(true) if has_no_interpreter(&file.head) => findings.push(Finding::warning(
                "commands",
                format!("{path} has no `#!` line; it is run by `sh`"),
                "add a `#!` line such as `#!/bin/sh`",
            )),
            Some(true) => findings.extend(trouble(&file.head).map(|(why, next)| {
                Finding::error("commands", format!("{path} cannot be started: {why}"), next)
            })),
            None => {}
        }
    }
    findings.extend(on_disk(repo, &files));
    if findings.is_empty() {
        findings.push(match files.len() {
            0 if runs::all(repo).is_ok_and(|runs| !runs.is_empty()) => Finding::ok(
                "commands",
                "HEAD has no commands in .aynig/command/; runs of flows have their own",
            ),
            0 => {
                let next = if repo.is_bare() { "aynig init (in a clone)" } else { "aynig init" };
                Finding::warning("commands", "HEAD has no commands in .aynig/command/", next)
            }
            count => Finding::ok(
                "commands",
                format!("{count} in HEAD, all executable, their interpreters are there"),
            ),
        });
    }
    findings
}

/// The files in `.aynig/command/`, and in those of roles.
fn committed(repo: &Repo, head: CommitId) -> Result<Vec<Known>, CommitError> {
    let Some(tree) = repo.directory_at(head, AYNIG)? else { return Ok(Vec::new()) };
    let files = repo.files_of(tree)?.into_iter().filter_map(|(path, content)| {
        let below_roles = path.strip_prefix("roles").is_ok_and(|path| {
            path.components().rev().skip(1).any(|directory| directory.as_os_str() == "command")
        });
        if !below_roles && !path.starts_with("command") {
            return None;
        }
        let (executable, mut head) = match content {
            Content::Directory => return None,
            Content::Link(target) => (None, target.into()),
            Content::File { bytes, executable } => (Some(executable), bytes),
        };
        head.truncate(HEAD);
        Some(Known { path: Path::new(AYNIG).join(path), executable, head })
    });
    Ok(files.collect())
}

/// The programs that commands start through `env`.
pub(crate) fn by_env(repo: &Repo, head: CommitId) -> BTreeSet<String> {
    let files = committed(repo, head).unwrap_or_default();
    files.iter().filter_map(|file| interpreter(&file.head)?.1).collect()
}

/// The program in a `#!` line, and if it is `env`, the program that `env` looks up.
fn interpreter(head: &[u8]) -> Option<(String, Option<String>)> {
    let line = head.strip_prefix(b"#!")?.lines().next()?.to_str_lossy().into_owned();
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let program = words.next()?.to_owned();
    let by_env = Path::new(&program).file_name().is_some_and(|name| name == "env");
    let named = words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned);
    Some((program, named.filter(|_| by_env)))
}

/// Whether the file is neither a script with a `#!` line nor a binary with a magic number.
fn has_no_interpreter(head: &[u8]) -> bool {
    let magic: [&[u8]; 3] = [b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];
    interpreter(head).is_none() && !magic.iter().any(|magic| head.starts_with(magic))
}

/// Why a script with this beginning cannot start, and how to fix it.
fn trouble(head: &[u8]) -> Option<(String, String)> {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first.starts_with(b"#!") && first.ends_with(b"\r") {
        let next = "end its lines with a line feed alone, and keep it so: `* text eol=lf` in .gitattributes";
        return Some(("its `#!` line ends with a carriage return".to_owned(), next.to_owned()));
    }
    let (program, named) = interpreter(head)?;
    if !is_executable(Path::new(&program)) {
        return Some((
            format!("{program} is not there"),
            format!("install it, or name another in the `#!` line: ls -l {}", shell_quote(&program)),
        ));
    }
    let name = named?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing =
        if name.contains('/') { !is_executable(Path::new(&name)) } else { found_in(&name, &path).is_none() };
    missing.then(|| {
        (format!("{name} is not in PATH"), format!("install {name}, or put its directory into PATH"))
    })
}

/// Differences between disk and commit.
fn on_disk(repo: &Repo, committed: &[Known]) -> Vec<Finding> {
    let Some(checkout) = repo.checkout() else { return Vec::new() };
    let mut findings = Vec::new();
    let mut ahead: Vec<PathBuf> = vec![checkout.path.join(".aynig/command")];
    let roles = std::fs::read_dir(checkout.path.join(".aynig/roles")).into_iter().flatten().flatten();
    ahead.extend(roles.map(|role| role.path().join("command")));
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let file = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                ahead.push(file);
                continue;
            }
            let Ok(place) = file.strip_prefix(&checkout.path) else { continue };
            let path = place.display().to_string();
            match committed.iter().find(|known| known.path == place) {
                None => findings.push(Finding::warning(
                    "commands",
                    format!("{path} is on disk and not committed; commands run from commits"),
                    match is_executable(&file) {
                        true => format!("git add {}, and commit it", shell_quote(&path)),
                        false => format!("chmod +x {0} && git add {0}, and commit it", shell_quote(&path)),
                    },
                )),
                Some(Known { executable: Some(true), .. }) if !is_executable(&file) => {
                    findings.push(Finding::warning(
                        "commands",
                        format!("{path} is not executable on disk, where `--current-branch include` runs it"),
                        format!("chmod +x {}", shell_quote(&path)),
                    ));
                }
                Some(Known { executable: Some(true), head, .. }) => {
                    let mut now = std::fs::read(&file).unwrap_or_default();
                    now.truncate(HEAD);
                    if trouble(head).is_none()
                        && let Some((why, next)) = trouble(&now)
                    {
                        findings.push(Finding::warning(
                            "commands",
                            format!("{path} as it is on disk cannot be started: {why}"),
                            next,
                        ));
                    }
                }
                Some(_) => {}
            }
        }
    }
    findings
}

/// Reports states of the surveyed branches that no command will run.
pub(crate) fn states(repo: &Repo, process: &Process, looked: &Looked) -> Vec<Finding> {
    let Some(authority) = &looked.authority else {
        return vec![Finding::warning("states", "it cannot be told which branches count", "git remote -v")];
    };
    // Unreadable settings have a finding of their own.
    let options = survey_options(repo, process, None).unwrap_or_else(|_| plain_options(repo, process));
    let question = Question { repo, authority, options: &options, now: clock::wall_seconds(), notes: false };
    let surveyed = match survey(&question) {
        Ok(surveyed) => surveyed,
        Err(error) => return vec![Finding::error("states", error_chain(&error), "git fsck")],
    };
    let (mut there, mut option) = (String::new(), String::new());
    if let Some(remote) = authority.source() {
        if surveyed.branches.is_empty() && !looked.fresh {
            let text =
                format!("no branch of {remote} was ever fetched here, so nothing is known of their states");
            return vec![Finding::warning("states", text, format!("git ls-remote {remote}"))];
        }
        (there, option) = (format!(" on {remote}"), format!(" --remote {}", shell_quote(remote.as_str())));
    }
    let mut found = judge(repo, &surveyed, &there, &option);
    if !looked.fresh {
        found.text.push_str(" (as last fetched)");
    }
    let mut findings = vec![found];
    findings.extend(repo.check_worktree_directory(&options.worktrees).err().map(|error| {
        let next = "make it writable, or name another place: git config aynig.worktree DIRECTORY";
        Finding::error("worktrees", error_chain(&error), next)
    }));
    findings.extend(default_state(repo, authority, &options, &surveyed, &option));
    findings.extend(loops(&surveyed, authority.source(), &option));
    findings.extend(unsigned(repo, &options.trust, &surveyed, authority.source(), &option));
    findings
}

/// Reports the default branch if it declares a state and is not named. Branches created from it would be
/// ready, too.
fn default_state(
    repo: &Repo,
    authority: &Authority,
    options: &Options,
    surveyed: &Survey,
    option: &str,
) -> Option<Finding> {
    let name = repo.default_branch(authority.source())?;
    if options.selection.names(&name, false) {
        return None;
    }
    let branch = surveyed.branches.iter().find(|branch| branch.name == name)?;
    let stored = repo.commit(branch.head?).ok()?;
    let meaning = Head::read(&stored.facts());
    let state = meaning.state()?;
    let text = format!(
        "{name} is the default branch and declares the state {state}: whatever is branched off asks for it too, and a run leaves it \
         alone unless it is named"
    );
    let quoted = shell_quote(&name);
    let message = "-m 'Declare no state here'";
    let next = if matches!(meaning, Head::Working(_)) {
        format!("aynig status --branch {quoted}{option}")
    } else if let Some(remote) = authority.source() {
        format!(
            "git switch {quoted} && git pull && git commit --allow-empty {message} && git push {remote} {quoted}"
        )
    } else if repo.main_checkout().is_none() {
        let full = shell_quote(name.full_ref().to_string());
        format!("git update-ref {full} $(git commit-tree {message} -p {full} {full}^{{tree}})")
    } else {
        format!("git switch {quoted} && git commit --allow-empty {message}")
    };
    Some(Finding::warning("default", text, next))
}

/// Branches that have reached a bound, as one that runs in circles does.
fn loops(surveyed: &Survey, source: Option<&RemoteName>, option: &str) -> Option<Finding> {
    let found = surveyed.branches.iter().filter_map(|branch| match &branch.verdict {
        Verdict::Bounded { bound, .. } => {
            Some(format!("{}: {}", branch.name, bounded(&branch.name, source, bound)))
        }
        _ => None,
    });
    let mut found: Vec<String> = found.collect();
    let more = found.len().saturating_sub(MOST_BOUNDED);
    found.truncate(MOST_BOUNDED);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    let text = Some(found.join("; ")).filter(|text| !text.is_empty())?;
    Some(Finding::warning("bounds", text, format!("aynig status --all{option}")))
}

/// Reports branches that wait for a person because their HEAD has no good signature: the first ones, and the
/// number of others.
fn unsigned(
    repo: &Repo,
    trust: &Trust,
    surveyed: &Survey,
    source: Option<&RemoteName>,
    option: &str,
) -> Vec<Finding> {
    let stalls = trust::unsigned_stalls(repo, trust, &surveyed.branches);
    let mut found = surveyed.branches.iter().filter_map(|branch| {
        let head = branch.head?;
        let (what, why) = match &branch.verdict {
            Verdict::UnsignedLease { why, .. } => ("its lease is over and is not closed: ", why),
            Verdict::Waiting { reason: Reason::Unsigned { why }, .. } => ("", why),
            _ => ("", stalls.get(&head)?),
        };
        let text = format!("{}: {what}{why}", branch.name);
        Some(Finding::warning("signatures", text, if_you_vouch(&branch.name, source, head)))
    });
    let mut findings: Vec<Finding> = found.by_ref().take(MOST_UNSIGNED).collect();
    let more = found.count();
    if more > 0 {
        let text = format!("{more} more are not signed by anybody trusted here");
        findings.push(Finding::warning("signatures", text, format!("aynig status --all{option}")));
    }
    findings
}

/// The names of existing commands: those of all branches, or of the one tree for all commands.
fn known(repo: &Repo, surveyed: &Survey) -> BTreeSet<String> {
    let heads = match &surveyed.commands_from {
        Some(from) => vec![from.commit],
        None => {
            // The lease of a driver does not name its run.
            let (_, prefix) = settings::prefixes(repo).unwrap_or_default();
            let is_driver = |name: &BranchName| !prefix.is_empty() && name.to_string().starts_with(&prefix);
            let all = surveyed.branches.iter().filter(|branch| !is_driver(&branch.name));
            all.filter_map(|branch| branch.head).collect()
        }
    };
    let mut known = BTreeSet::new();
    let mut seen = HashSet::new();
    for head in heads {
        // The driver of a run is no branch to merge.
        let of_run = |stored: &Stored| Message::parse(&stored.message).trailers.last(OF_RUN_KEY).is_some();
        if repo.commit(head).is_ok_and(|stored| !of_run(&stored) && seen.insert(stored.tree)) {
            let files = committed(repo, head).unwrap_or_default();
            known.extend(
                files.iter().filter_map(|file| {
                    Some(file.path.to_string_lossy().split_once("/command/")?.1.to_owned())
                }),
            );
        }
    }
    known
}

/// The finding for these branches. `there` says where they are; `option` makes a command act on them.
fn judge(repo: &Repo, surveyed: &Survey, there: &str, option: &str) -> Finding {
    let mut without: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut mistakes = Vec::new();
    let mut asked = 0_usize;
    for branch in &surveyed.branches {
        asked += usize::from(matches!(branch.verdict, Verdict::WaitsForYou { .. }));
        let (Verdict::Waiting { state, reason }
        | Verdict::Parked { state, trouble: Some(reason), .. }
        | Verdict::WaitsForYou { state, trouble: Some(reason), .. }) = &branch.verdict
        else {
            continue;
        };
        match reason {
            Reason::NoAnswers { why } => mistakes.push(format!("{}: {why}", branch.name)),
            Reason::CommandsNowhere { why } => {
                return Finding::error("states", &**why, "git config aynig.commandsFrom REF");
            }
            Reason::NoCommand(NoCommand::Unreadable(_)) => {}
            Reason::NoCommand(none) if none.severity() == Severity::Misconfigured => {
                mistakes.push(format!("{}: {none}", branch.name));
            }
            Reason::NoCommand(_) => {
                without.entry(state.to_string()).or_default().push(branch.name.to_string());
            }
            _ => {}
        }
    }
    let known = known(repo, surveyed);
    if !mistakes.is_empty() {
        return Finding::warning("states", mistakes.join("; "), format!("aynig status --all{option}"));
    }
    for (state, branches) in &without {
        let branch = shell_quote(branches.first().map_or("", String::as_str));
        if known.contains(state) {
            let ask = if branches.len() == 1 { "asks" } else { "ask" };
            let text =
                format!("{} {ask} for {state}, whose command is only on other branches", branches.join(", "));
            return Finding::warning(
                "states",
                text,
                format!(
                    "git merge into {branch} what has .aynig/command/{state}, then aynig set-state --retry --branch {branch}{option}"
                ),
            );
        }
        if let Some(near) = nearest_command(state, &known) {
            let text = format!(
                "{} asks for {state}, which no branch{there} has a command for; did you mean {near}?",
                branches.join(", ")
            );
            return Finding::warning("states", text, format!("aynig log {branch}{option}"));
        }
    }
    let resting: Vec<String> =
        without.iter().map(|(state, branches)| format!("{state} ({})", branches.len())).collect();
    let asked = match asked {
        0 => String::new(),
        1 => "; 1 branch waits for somebody's answer".to_owned(),
        many => format!("; {many} branches wait for somebody's answer"),
    };
    match resting.len() {
        0 => Finding::ok("states", format!("every state that is asked for{there} has a command{asked}")),
        _ => Finding::ok(
            "states",
            format!(
                "no command{there} for these states, so branches stay there: {}{asked}",
                resting.join(", ")
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        let named = |text: &str| interpreter(text.as_bytes());
        assert_eq!(named("#!/bin/sh -e\nx"), Some(("/bin/sh".into(), None)));
        assert_eq!(
            named("#! /usr/bin/env -S A=b python3 -u\n"),
            Some(("/usr/bin/env".into(), Some("python3".into())))
        );
        assert_eq!(named("echo"), None);
        assert!(trouble(b"#!/bin/sh\n").is_none() && trouble(b"\x7fELF\x02").is_none());
        assert!(has_no_interpreter(b"echo\n") && has_no_interpreter(b""));
        assert!(!has_no_interpreter(b"#!/bin/sh\n") && !has_no_interpreter(b"\x7fELF\x02"));
        for text in ["#!/bin/sh\r\n", "#!/nowhere/sh\n", "#!/usr/bin/env no-such-program\n"] {
            assert!(trouble(text.as_bytes()).is_some(), "{text:?}");
        }
    }
}
