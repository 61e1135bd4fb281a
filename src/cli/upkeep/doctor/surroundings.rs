//! Checks of git, the repository, identity, ignored files, settings and disk space.

use std::path::Path;

use aynig::fsutil::FreeSpace;
use aynig::git::Repo;
use aynig::git::probe::git_version;
use aynig::git::repo::config::ConfigError;
use aynig::ops::settings;
use aynig::runner::attempt::files;
use aynig::runner::{error_chain, pluralize, shell_quote};

use crate::cli::upkeep::doctor::{Finding, SETTINGS};

/// The oldest supported git.
const OLDEST: (u64, u64) = (2, 34);

/// With less free space than this (bytes) an attempt can hardly succeed.
const LITTLE: u64 = 64 << 20;

/// Objects have to stay this long (seconds) until a branch names them. A push takes minutes.
const YOUNGEST: i64 = 3_600;

/// Less free space than this (bytes) is a warning.
const LOW: u64 = 1 << 30;

pub(crate) fn program(start: &Path) -> Vec<Finding> {
    let upgrade = "install git 2.34 or newer, and put its directory into PATH";
    vec![match git_version(start) {
        Err(error) => Finding::error("git", error_chain(&error), upgrade),
        Ok(text) => match version(&text) {
            None => Finding::warning("git", format!("{text:?} names no version"), "git version"),
            Some(found) if found < OLDEST => {
                Finding::error("git", format!("{text} is older than {}.{}", OLDEST.0, OLDEST.1), upgrade)
            }
            Some(_) => Finding::ok("git", text),
        },
    }]
}

/// `git version 2.47.1` as (2, 47).
fn version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.split_whitespace().nth(2)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(crate) fn repository(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.push(match repo.check_git() {
        Ok(()) => Finding::ok("repository", format!("{} can be read", repo.common_dir().display())),
        Err(error @ ConfigError::Git(_)) => Finding::error("repository", error_chain(&error), "git status"),
        Err(error) => Finding::error("repository", error_chain(&error), "git config --list --show-origin"),
    });
    // Commits in it count as missing in other findings.
    let unread = repo.unread_objects();
    findings.extend(unread.map(|unread| Finding::error("objects", unread.to_string(), unread.next())));
    findings.push(if repo.has_identity() {
        Finding::ok("identity", "git knows who commits here")
    } else {
        Finding::warning(
            "identity",
            format!("git does not know who commits here; commits will be by aynig@{}", repo.runner_id()),
            "git config user.name NAME && git config user.email ADDRESS",
        )
    });
    let signs = repo.signs().unwrap_or(true);
    findings.push(match repo.try_commit() {
        Ok(()) if signs => Finding::ok("signing", "commits are signed (commit.gpgSign), and that works"),
        Ok(()) => Finding::ok("signing", "commits are not signed (commit.gpgSign is not set)"),
        Err(error) if signs => Finding::error(
            "signing",
            error_chain(&error),
            "git commit-tree -S -m try 'HEAD^{tree}'; then mend user.signingKey, gpg.format or the agent",
        ),
        Err(error) => {
            let words = error_chain(&error);
            let next = if words.contains("ermission denied") {
                let objects = repo.common_dir().join("objects").display().to_string();
                format!("id && ls -ld {}; then let this user write there", shell_quote(objects))
            } else {
                "df -h . && git fsck".to_owned()
            };
            Finding::error("signing", words, next)
        }
    });
    findings.extend(unsigned(repo, signs));
    findings.extend(ssh_files(repo));
    findings.extend(ignored(repo));
    findings.extend(settings(repo));
    findings.extend(pruning(repo));
    findings.push(match FreeSpace::at(repo.common_dir()) {
        Ok(room) => disk(room),
        Err(error) => Finding::warning("disk", format!("its room could not be read: {error}"), "df -h ."),
    });
    findings
}

/// The finding if `git gc`, which git starts by itself, deletes commits that no branch names yet.
fn pruning(repo: &Repo) -> Option<Finding> {
    let value = repo.prunes_within(YOUNGEST)?;
    let text = format!(
        "gc.pruneExpire is {value}: `git gc` deletes what was just written, before a branch names it"
    );
    Some(Finding::warning("pruning", text, "git config gc.pruneExpire 2.weeks.ago"))
}

/// The finding if commits must be signed and good signatures can be neither made nor checked.
fn unsigned(repo: &Repo, signs: bool) -> Option<Finding> {
    let required = settings::trust(repo).is_ok_and(|trust| trust.require_signed);
    if !required {
        return None;
    }
    let by_ssh = repo.config("gpg.format").as_deref() == Some("ssh");
    let has_signers = !matches!(repo.config_file("gpg.ssh.allowedSignersFile"), Ok(None));
    if by_ssh && !has_signers {
        return Some(Finding::error(
            "signing",
            "aynig.requireSigned is set, and no gpg.ssh.allowedSignersFile says whose ssh keys are good: nothing will be run",
            "git config gpg.ssh.allowedSignersFile FILE",
        ));
    }
    (!signs).then(|| {
        Finding::warning(
            "signing",
            "aynig.requireSigned is set, but what is committed here, by aynig too, is not signed, and so is not run any further",
            "git config commit.gpgSign true",
        )
    })
}

/// The findings about unreadable files of allowed or revoked ssh keys, if commits must be signed.
fn ssh_files(repo: &Repo) -> Vec<Finding> {
    if !settings::require_signed(repo).unwrap_or(true) {
        return Vec::new();
    }
    let files = [
        ("gpg.ssh.allowedSignersFile", "what ssh keys signed is not run"),
        (
            "gpg.ssh.revocationFile",
            "nobody can tell which ssh keys were revoked, so what ssh keys signed is not run",
        ),
    ];
    let finding = |(key, follows): (&str, &str)| {
        let why = match repo.config_file(key) {
            Ok(None) => return None,
            Ok(Some(file)) => match std::fs::File::open(&file) {
                Ok(_) => return None,
                Err(error) => format!("{} cannot be read ({error})", file.display()),
            },
            Err(error) => error_chain(&error),
        };
        let next = format!("git config --show-origin {key}");
        Some(Finding::error("signing", format!("{key}: {why}; {follows}"), next))
    };
    files.into_iter().filter_map(finding).collect()
}

/// The finding for this much free space.
fn disk(room: FreeSpace) -> Finding {
    let text = format!("{} MiB are free", room.bytes >> 20);
    let next = "aynig clean && df -h .";
    if let Some(files) = room.files.filter(|files| *files < 1_000) {
        return Finding::error(
            "disk",
            format!("only {files} more files can be made"),
            "aynig clean && df -i .",
        );
    }
    match room.bytes {
        0..LITTLE => Finding::error("disk", text, next),
        LITTLE..LOW => Finding::warning("disk", text, next),
        _ => Finding::ok("disk", text),
    }
}

fn ignored(repo: &Repo) -> Option<Finding> {
    let checkout = repo.main_checkout()?;
    if let Err(error) = files::check_log_directory(repo) {
        let next = format!("ls -ld {}", places_above(repo, error.path()).join(" "));
        return Some(Finding::error("ignored", error_chain(&error), next));
    }
    let mut open = Vec::new();
    for path in [".worktrees/", ".aynig/logs/"] {
        // A runner hides what it makes. An existing directory can have files of the user, which prevent that.
        if !checkout.path.join(path).exists() {
            continue;
        }
        match repo.ignores(&checkout.path, &format!("{path}x")) {
            Ok(true) => {}
            Ok(false) => open.push(path),
            Err(error) => return Some(Finding::warning("ignored", error_chain(&error), "git status")),
        }
    }
    Some(if open.is_empty() {
        Finding::ok("ignored", "no worktree and no log can get into a commit")
    } else {
        Finding::warning(
            "ignored",
            format!("git does not ignore {}", open.join(" and ")),
            "aynig init, and commit .gitignore",
        )
    })
}

/// A path in the repository and its parent directories, as typed at the top.
fn places_above(repo: &Repo, place: &Path) -> Vec<String> {
    let inside = |path: &&Path| path.starts_with(repo.top()) || path.starts_with(repo.common_dir());
    let mut places: Vec<String> = place
        .ancestors()
        .take_while(inside)
        .map(|path| path.strip_prefix(repo.top()).unwrap_or(path))
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| shell_quote(path.as_os_str().as_encoded_bytes()))
        .collect();
    places.reverse();
    places
}

fn settings(repo: &Repo) -> Vec<Finding> {
    let mut findings: Vec<Finding> = settings::unknown(repo)
        .into_iter()
        .map(|text| Finding::warning(SETTINGS, text, "git config --show-origin --get-regexp '^aynig\\.'"))
        .collect();
    findings.extend(settings::mistakes(repo).into_iter().map(|error| Finding::of(SETTINGS, error)));
    if findings.is_empty() {
        findings.push(Finding::ok(
            SETTINGS,
            match repo.settings("aynig").len() {
                0 => "no settings".to_owned(),
                count => format!("{}, valid", pluralize(count, "setting")),
            },
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::upkeep::doctor::Level;

    #[test]
    fn versions_are_read() {
        for (text, expected) in [
            ("git version 2.47.1", Some((2, 47))),
            ("git version 2.39.3 (Apple Git-146)", Some((2, 39))),
            ("git", None),
        ] {
            assert_eq!(version(text), expected);
        }
        assert!(version("git version 2.9.0").expect("one") < OLDEST);
    }

    #[test]
    fn room_on_the_disk() {
        for (bytes, files, level) in [
            (LITTLE - 1, None, Level::Error),
            (LITTLE, None, Level::Warning),
            (LOW, None, Level::Ok),
            (LOW, Some(999), Level::Error),
            (LOW, Some(1_000), Level::Ok),
        ] {
            assert_eq!(disk(FreeSpace { bytes, files }).level, level, "{bytes} {files:?}");
        }
    }
}
