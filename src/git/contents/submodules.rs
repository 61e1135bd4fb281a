//! Fetches the submodules of one of our worktrees before its command starts (CONTRACT 9.10).
//!
//! Invariant: writes only the worktree and its registration. `git submodule init` would register a
//! submodule's URL in the configuration that all worktrees share, where it is never replaced: the first
//! branch to run would choose for all others. So the URLs of a commit's own `.gitmodules` are passed to the
//! one call, overriding any registered URL. A partly fetched submodule is removed again, since later it would
//! look like a user's or command's work.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::contents::nested::gitlinks;
use crate::git::objects::commits::Stored;
use crate::git::process::call::{Git, ProcessError};
use crate::git::process::cancel::Purpose;
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;

const LIST: &str = ".gitmodules";

/// One submodule of a `.gitmodules`.
#[derive(Debug, PartialEq, Eq)]
struct Submodule {
    name: Vec<u8>,
    path: PathBuf,
    url: Vec<u8>,
}

/// A working tree whose submodules are to be fetched, and the directory of their repositories.
struct Level<'a> {
    directory: &'a Path,
    modules: PathBuf,
    /// The base of relative URLs if there is no remote.
    home: &'a Path,
}

impl Repo {
    /// Fetches the submodules, if the worktree has any; returns the problems.
    pub(crate) fn init_submodules(&self, worktree: &Worktree) -> Vec<String> {
        let modules = worktree.git_dir.join("modules");
        let level = Level { directory: &worktree.path, modules, home: self.top() };
        let mut wrong = Vec::new();
        if let Err(error) = self.fill(&level, &mut wrong) {
            wrong.push(error.to_string());
        }
        wrong
    }

    /// The submodules in the index of a worktree, those that were none in `base` only if `.gitmodules` lists them: `git add`
    /// takes any other repository for one.
    pub(super) fn declared_submodules(
        &self,
        worktree: &Worktree,
        base: &Stored,
    ) -> Result<BTreeSet<PathBuf>, ProcessError> {
        let mut declared: BTreeSet<PathBuf> =
            self.gitlinks_of(worktree, base)?.into_iter().map(|(path, _)| path).collect();
        let list = worktree.path.join(LIST);
        // Git does not read a symbolic link here either.
        if list.symlink_metadata().is_ok_and(|found| found.is_file()) {
            let listing =
                worktree.git(["config", "--null", "--list", "--file"]).arg(list.as_os_str()).run()?;
            declared.extend(listed(&listing.stdout).into_iter().map(|one| one.path));
        }
        let links = self.links_of(worktree)?.into_iter().map(|(path, _)| path);
        Ok(links.filter(|path| declared.contains(path)).collect())
    }

    /// Fetches the submodules of one working tree, and theirs. A submodule that fails is removed
    /// and named in `wrong`; the rest stays.
    fn fill(&self, level: &Level<'_>, wrong: &mut Vec<String>) -> Result<(), ProcessError> {
        // Git does not read a symbolic link here either.
        if !level.directory.join(LIST).symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Ok(());
        }
        let git = |arguments: &[&str]| Git::new(level.directory).args(arguments);
        let submodules = listed(&git(&["config", "--file", LIST, "--null", "--list"]).run()?.stdout);
        let chosen = git(&["config", "--get-all", "submodule.active"]).run_unchecked()?.status.success();
        let settings = settings(level, &submodules, !chosen)?;
        // Passed by the environment, since `-c` does not allow `=` in a name.
        let mut update = git(&["submodule", "--quiet", "update"]);
        update = update.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (at, (key, value)) in settings.into_iter().enumerate() {
            update = update.env(&format!("GIT_CONFIG_KEY_{at}"), key);
            update = update.env(&format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        // Cancelling it on a stop loses nothing, and it may take long.
        if let Err(error) = update.for_others(self.interrupt(), Purpose::Scan).run() {
            wrong.push(error.to_string());
        }
        for (path, commit) in gitlinks(git(&["ls-files", "--stage", "-z"]))? {
            if submodules.iter().all(|one| one.path != path) {
                wrong.push(format!("{} has no name and address in {LIST} that git takes", path.display()));
            }
            let inside = level.directory.join(&path);
            if inside.join(".git").symlink_metadata().is_err() {
                continue;
            }
            let found =
                Git::new(&inside).args(["rev-parse", "--absolute-git-dir", "HEAD"]).run_unchecked()?;
            let mut lines = found.stdout.lines();
            let repository = lines.next().map(|line| PathBuf::from(OsStr::from_bytes(line)));
            if let Some(repository) = &repository
                && lines.next().and_then(CommitId::parse_hex) == Some(commit)
            {
                let modules = repository.join("modules");
                self.fill(&Level { directory: &inside, modules, home: &inside }, wrong)?;
            } else {
                clear(&inside, repository.as_deref().filter(|place| is_below(place, &level.modules)));
            }
        }
        Ok(())
    }
}

/// The settings for one call: the URL of each submodule, and, if `all`, that each is active. `all`
/// is false if the user chose some by `submodule.active`.
fn settings(
    level: &Level<'_>,
    submodules: &[Submodule],
    all: bool,
) -> Result<Vec<(OsString, OsString)>, ProcessError> {
    let is_relative = |one: &Submodule| one.url.starts_with(b"./") || one.url.starts_with(b"../");
    let base = if submodules.iter().any(is_relative) { base(level)? } else { Vec::new() };
    let mut settings = Vec::new();
    for one in submodules {
        let key = |field: &str| {
            OsString::from_vec([b"submodule.", one.name.as_slice(), b".", field.as_bytes()].concat())
        };
        let url = if is_relative(one) { resolved(&base, &one.url) } else { one.url.clone() };
        settings.push((key("url"), OsString::from_vec(url)));
        if all {
            settings.push((key("active"), "true".into()));
        }
    }
    Ok(settings)
}

/// Git's base of relative URLs: the remote of the branch, else `origin`, else the repository
/// itself.
fn base(level: &Level<'_>) -> Result<Vec<u8>, ProcessError> {
    let ask = |arguments: &[&str]| {
        let output = Git::new(level.directory).args(arguments).run_unchecked()?;
        Ok::<_, ProcessError>(output.status.success().then(|| output.stdout.trim_end().to_vec()))
    };
    let of = |parts: [&[u8]; 3]| parts.concat();
    let value = |key: Vec<u8>| {
        let output = Git::new(level.directory).args(["config", "--get"]).arg(OsStr::from_bytes(&key));
        let output = output.run_unchecked()?;
        Ok::<_, ProcessError>(output.status.success().then(|| output.stdout.trim_end().to_vec()))
    };
    let remote = match ask(&["symbolic-ref", "--quiet", "--short", "HEAD"])? {
        Some(branch) => value(of([b"branch.", &branch, b".remote"]))?,
        None => None,
    };
    let remote = remote.unwrap_or_else(|| b"origin".to_vec());
    let home = level.home.as_os_str().as_bytes();
    Ok(match value(of([b"remote.", &remote, b".url"]))? {
        None => home.to_vec(),
        Some(url) if is_local(&url) && !url.starts_with(b"/") => of([home, b"/", &url]),
        Some(url) => url,
    })
}

/// Whether git takes a URL for a path.
fn is_local(url: &[u8]) -> bool {
    url.find_byte(b':').is_none_or(|colon| url.find_byte(b'/').is_some_and(|slash| slash < colon))
}

/// Resolves a relative URL (`./…`, `../…`) against `base`, as git does.
fn resolved(base: &[u8], url: &[u8]) -> Vec<u8> {
    let mut base = base.strip_suffix(b"/").unwrap_or(base);
    let (mut rest, mut between) = (url, b'/');
    loop {
        if let Some(more) = rest.strip_prefix(b"../") {
            rest = more;
            if let Some(slash) = base.rfind_byte(b'/') {
                base = &base[..slash];
            } else if let Some(colon) = base.rfind_byte(b':') {
                (base, between) = (&base[..colon], b':');
            } else {
                base = b".";
            }
        } else if let Some(more) = rest.strip_prefix(b"./") {
            rest = more;
        } else {
            break;
        }
    }
    let rest = rest.strip_suffix(b"/").unwrap_or(rest);
    [base, &[between], rest].concat()
}

/// Parses a listing of `.gitmodules` with git's restrictions. The first of several values counts. Values that
/// look like an option are dropped, and so are names that lead out of the directory of the submodules'
/// repositories.
fn listed(listing: &[u8]) -> Vec<Submodule> {
    let mut found: Vec<Submodule> = Vec::new();
    for entry in listing.split(|byte| *byte == 0) {
        let Some((key, value)) = entry.split_once_str("\n") else { continue };
        let Some((name, field)) = key.strip_prefix(b"submodule.").and_then(|key| key.rsplit_once_str("."))
        else {
            continue;
        };
        let leads_out = name.split(|byte| b"/\\".contains(byte)).any(|part| part == b"..");
        if name.is_empty() || leads_out || value.is_empty() || value.starts_with(b"-") {
            continue;
        }
        let at = found.iter().position(|one| one.name == name).unwrap_or_else(|| {
            found.push(Submodule { name: name.to_vec(), path: PathBuf::new(), url: Vec::new() });
            found.len() - 1
        });
        let one = &mut found[at];
        match field {
            b"path" if one.path.as_os_str().is_empty() => one.path = OsStr::from_bytes(value).into(),
            b"url" if one.url.is_empty() => one.url = value.to_vec(),
            _ => {}
        }
    }
    found.retain(|one| !one.url.is_empty());
    found
}

fn is_below(place: &Path, top: &Path) -> bool {
    place.canonicalize().is_ok_and(|place| top.canonicalize().is_ok_and(|top| place.starts_with(top)))
}

/// Removes a submodule that was not fetched completely. Leaves an empty directory, as git does for
/// a submodule that is not initialised.
fn clear(inside: &Path, repository: Option<&Path>) {
    let emptied = fsutil::remove_all(inside).and_then(|()| std::fs::create_dir(inside));
    let removed = repository.map_or(Ok(()), fsutil::remove_all);
    if let Err(error) = emptied.and(removed) {
        tracing::warn!(place = %inside.display(), %error, "a submodule that could not be fetched was left behind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_addresses() {
        for (base, url, whole) in [
            ("/srv/git/hub.git", "../lib.git", "/srv/git/lib.git"),
            ("/srv/git/hub.git/", "./../lib.git/", "/srv/git/lib.git"),
            ("/srv/git/hub", "./lib", "/srv/git/hub/lib"),
            ("/srv/git/hub", "../../a/b", "/srv/a/b"),
            ("ssh://host:22/x/hub", "../lib", "ssh://host:22/x/lib"),
            ("https://host/x/hub.git", "../../y/lib.git", "https://host/y/lib.git"),
            ("user@host:path/to/repo", "../lib", "user@host:path/to/lib"),
            ("user@host:repo", "../lib", "user@host:lib"),
            ("user@host:path/to/repo", "../../x/lib", "user@host:path/x/lib"),
            ("file:///tmp/repo", "../lib", "file:///tmp/lib"),
            ("helper::://host/repo", "../../x", "helper::://x"),
        ] {
            assert_eq!(resolved(base.as_bytes(), url.as_bytes()).as_bstr(), whole, "{base} {url}");
        }
    }

    #[test]
    fn local_addresses() {
        for (url, local) in
            [("/a", true), ("../a", true), ("./a:b", true), ("host:a", false), ("https://h", false)]
        {
            assert_eq!(is_local(url.as_bytes()), local, "{url}");
        }
    }

    #[test]
    fn lists() {
        let text = b"submodule.a.b.path\nx\0submodule.a.b.url\n../y\0submodule.a.b.url\nsecond\0core.bare\ntrue\0\
            submodule.c.url\n--option\0submodule.c.path\nz\0submodule..url\nq\0submodule.d.url\n\0submodule.e.active\0\
            submodule.../x.url\nq\0submodule.f/..\\g.url\nq\0";
        let only = Submodule { name: b"a.b".to_vec(), path: "x".into(), url: b"../y".to_vec() };
        assert_eq!(listed(text), [only]);
    }
}
