//! Checks of git, the repository, identity, ignored files, settings, disk space and PATH.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aynig::fsutil::{FreeSpace, found_in};
use aynig::git::Repo;
use aynig::git::probe::git_version;
use aynig::git::repo::config::ConfigError;
use aynig::ops::settings;
use aynig::publish::Forge;
use aynig::runner::attempt::files;
use aynig::runner::{error_chain, pluralize, shell_quote};

use crate::cli::upkeep::doctor::{Finding, commands, head};

/// The oldest supported git.
const OLDEST: (u64, u64) = (2, 34);

/// The PATH that cron sets.
const CRON: &str = "/usr/bin:/bin";

/// With less free space than this (bytes) an attempt can hardly succeed.
const LITTLE: u64 = 64 << 20;

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
        Err(error) => Finding::error("signing", error_chain(&error), "df -h . && git fsck"),
    });
    findings.extend(unsigned(repo, signs));
    findings.extend(ssh_files(repo));
    findings.extend(ignored(repo));
    findings.extend(settings(repo));
    findings.push(match FreeSpace::at(repo.common_dir()) {
        Ok(room) => disk(room),
        Err(error) => Finding::warning("disk", format!("its room could not be read: {error}"), "df -h ."),
    });
    findings
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
        match repo.ignores(&checkout.path, &format!("{path}x")) {
            Ok(true) => {}
            Ok(false) => open.push(path),
            Err(error) => return Some(Finding::warning("ignored", error_chain(&error), "git status")),
        }
    }
    Some(if open.is_empty() {
        Finding::ok("ignored", "git ignores .worktrees/ and .aynig/logs/")
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
        .map(|text| Finding::warning("settings", text, "git config --show-origin --get-regexp '^aynig\\.'"))
        .collect();
    findings.extend(settings::mistakes(repo).into_iter().map(|error| Finding::of("settings", error)));
    if findings.is_empty() {
        findings.push(Finding::ok(
            "settings",
            match repo.settings("aynig").len() {
                0 => "no settings".to_owned(),
                count => format!("{}, valid", pluralize(count, "setting")),
            },
        ));
    }
    findings
}

/// Checks `aynig.notify`, and whether its program is found.
pub(crate) fn notify(repo: &Repo) -> Option<Finding> {
    const CHECK: &str = "notify";
    // Unreadable settings have a finding of their own.
    let settings::Notify { line, globs, .. } = settings::notify(repo).ok()?;
    let Some(line) = line else {
        return (globs > 0).then(|| {
            Finding::warning(
                CHECK,
                "aynig.notifyStates names states, but there is no aynig.notify to tell anybody",
                "git config aynig.notify COMMAND, or git config --unset-all aynig.notifyStates",
            )
        });
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = program_of(&line).and_then(|word| match path_of(word, repo.top()) {
        Some(file) if aynig::fsutil::is_executable(&file) => None,
        Some(file) if file.exists() => Some((
            format!("{} of aynig.notify is not executable", file.display()),
            format!("chmod +x {}", shell_quote(file.as_os_str().as_encoded_bytes())),
        )),
        Some(file) => Some((
            format!("{} of aynig.notify is not there", file.display()),
            "git config --show-origin aynig.notify; a path in it begins at the repository's main directory"
                .to_owned(),
        )),
        None => found_in(word, &path).is_none().then(|| {
            (
                format!("{word} of aynig.notify is not in PATH"),
                format!("install {word}, or write its whole path into aynig.notify"),
            )
        }),
    });
    Some(match missing {
        Some((text, next)) => Finding::error(CHECK, text, next),
        None => Finding::ok(
            CHECK,
            format!(
                "`{line}` is run for what is stalled or lost{}",
                if globs == 0 {
                    String::new()
                } else {
                    format!(", and for states that match {}", pluralize(globs, "glob"))
                }
            ),
        ),
    })
}

/// Checks whether the program in `aynig.forge` is found.
pub(crate) fn forge(repo: &Repo) -> Option<Finding> {
    let (text, next) = match settings::forge(repo).ok()? {
        Forge::Gh if found_in("gh", &std::env::var_os("PATH").unwrap_or_default()).is_none() => {
            let next = "install it and `gh auth login`, or git config aynig.forge none";
            ("gh of aynig.forge is not in PATH".to_owned(), next)
        }
        Forge::Program(file) if !aynig::fsutil::is_executable(&file) => {
            let next = "git config --show-origin aynig.forge; it names a program by its absolute path";
            (format!("{} of aynig.forge is no executable file", file.display()), next)
        }
        Forge::Gh | Forge::Program(_) | Forge::None | Forge::PushOptions | Forge::Agit => return None,
    };
    Some(Finding::error("forge", text, next))
}

/// Checks whether git and the interpreters of the commands are found, by our PATH and by cron's.
pub(crate) fn path(repo: &Repo) -> Vec<Finding> {
    let Some(path) = std::env::var_os("PATH").filter(|path| !path.is_empty()) else {
        return vec![Finding::error("PATH", "PATH is not set", format!("PATH={CRON}; export PATH"))];
    };
    let mut programs = BTreeSet::from(["git".to_owned()]);
    programs.extend(head(repo).map(|head| commands::by_env(repo, head)).unwrap_or_default());
    let told = settings::notify(repo).ok().and_then(|notify| notify.line);
    programs
        .extend(told.as_deref().and_then(program_of).filter(|word| !word.contains('/')).map(str::to_owned));
    let missing: BTreeSet<PathBuf> = programs
        .iter()
        .filter(|name| found_in(name, std::ffi::OsStr::new(CRON)).is_none())
        .filter_map(|name| found_in(name, &path)?.parent().map(Path::to_owned))
        .collect();
    if missing.is_empty() {
        return vec![Finding::ok("PATH", "all interpreters are found, also with cron's PATH")];
    }
    let dirs: Vec<String> = missing.iter().map(|dir| dir.display().to_string()).collect();
    let line = format!("PATH={}:{CRON}", dirs.join(":"));
    vec![Finding::warning(
        "PATH",
        format!("cron's PATH ({CRON}) lacks {}", dirs.join(" and ")),
        format!("in a crontab or a unit: {line}"),
    )]
}

/// The program at the beginning of an `sh` line, unless it starts with a variable, a quote or another shell
/// metacharacter.
fn program_of(line: &str) -> Option<&str> {
    const BUILT_IN: [&str; 18] = [
        ".", ":", "[", "case", "cd", "command", "echo", "eval", "exec", "export", "for", "if", "printf",
        "set", "test", "true", "umask", "while",
    ];
    let word = line.split_ascii_whitespace().next()?;
    let plain = word.chars().all(|c| c.is_alphanumeric() || "-_./@%+,:[~".contains(c));
    (plain && !BUILT_IN.contains(&word)).then_some(word)
}

/// The file of a program that is a path, and so is not looked up in `PATH`.
fn path_of(word: &str, directory: &Path) -> Option<PathBuf> {
    if let Some(rest) = word.strip_prefix("~/") {
        return std::env::var_os("HOME").map(|home| PathBuf::from(home).join(rest));
    }
    word.contains('/').then(|| directory.join(word))
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

    #[test]
    fn programs_in_lines() {
        for (line, program) in [
            ("notify-send \"$AYNIG_NOTICE_BRANCH\"", Some("notify-send")),
            ("  contrib/notify/webhook https://example.com/x?y", Some("contrib/notify/webhook")),
            ("~/bin/tell", Some("~/bin/tell")),
            ("URL=x tell", None),
            ("\"$HOME/bin/tell\"", None),
            ("cat >>log", Some("cat")),
            ("(tell)", None),
            ("exec tell", None),
            ("cat>log", None),
            ("", None),
        ] {
            assert_eq!(program_of(line), program, "{line:?}");
        }
        let top = Path::new("/srv/project");
        assert_eq!(path_of("contrib/tell", top), Some("/srv/project/contrib/tell".into()));
        assert_eq!(path_of("/bin/tell", top), Some("/bin/tell".into()));
        assert_eq!(path_of("tell", top), None);
    }
}
