//! The source of a pack, as the user gives it.
//!
//! Invariant: the shown and recorded form contains no password. `git::objects::bundle` keeps git from
//! starting programs of the source's choosing.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::cli::upkeep::install::ours;

/// The host of a repository given as `owner/name`.
const FORGE: &str = "https://github.com";

/// The beginning of the shown form of the program's own packs.
const OURS: &str = "aynig:";

/// A repository to copy from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The argument for git.
    pub(crate) url: OsString,
    /// Its form without secrets.
    pub(crate) shown: String,
    /// The pack of the program itself, which has no URL.
    pub(crate) ours: Option<&'static str>,
}

impl Source {
    /// Reads REPO: a path that exists (from `start`) wins, then a pack of the program's own, then a URL or `host:path`,
    /// then `owner/name`.
    pub(crate) fn parse(start: &Path, text: &OsStr) -> Result<Self, String> {
        let name = text.to_string_lossy();
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_control) {
            return Err(format!("{name:?} names no repository"));
        }
        if let Ok(path) = start.join(text).canonicalize() {
            let shown = path.to_str().ok_or_else(|| format!("{}: the path is no UTF-8", path.display()))?;
            return Ok(Self { shown: shown.to_owned(), url: path.clone().into(), ours: None });
        }
        let packs = ours::names();
        if let Some(pack) = packs.get(&*name) {
            return Ok(Self { shown: format!("{OURS}{pack}"), url: OsString::new(), ours: Some(pack) });
        }
        if name.contains("::") {
            return Err(format!("{name:?} would start a program to fetch with"));
        }
        // A slash before the colon makes it a path.
        let is_url = name.split_once(':').is_some_and(|(before, after)| {
            !before.is_empty() && !before.contains('/') && !after.trim_matches('/').is_empty()
        });
        let url = match name.split('/').collect::<Vec<_>>()[..] {
            _ if is_url => name.into_owned(),
            [owner, name] if is_name(owner) && is_name(name) => format!("{FORGE}/{owner}/{name}"),
            _ => {
                let packs: Vec<&str> = packs.into_iter().collect();
                return Err(format!(
                    "{name:?} is no path that exists here, no pack of aynig ({}), no URL and no OWNER/NAME",
                    packs.join(", ")
                ));
            }
        };
        Ok(Self { shown: without_secrets(&url), url: url.into(), ours: None })
    }

    /// `text` without the secrets of the source.
    pub(crate) fn hide(&self, text: &str) -> String {
        if self.ours.is_some() {
            return text.to_owned();
        }
        text.replace(&*self.url.to_string_lossy(), &self.shown)
    }
}

fn is_name(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with(['.', '-'])
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A URL without password, query, and user name (which may be a token).
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = match host.rsplit_once('@') {
        // For ssh the user is part of the address, and the secret is a key.
        Some((user, host)) if scheme.ends_with("ssh") => {
            format!("{}@{host}", user.split(':').next().unwrap_or_default())
        }
        Some((_, host)) => host.to_owned(),
        None => host.to_owned(),
    };
    format!("{scheme}://{host}{path}")
}

/// Parses SUBFOLDER into names joined by `/`; empty for the top.
pub(crate) fn subfolder(text: &str) -> Result<String, String> {
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if text.starts_with('/') || names.contains(&"..") || text.contains(char::is_control) {
        return Err(format!("{text:?} is no directory below the top of the repository"));
    }
    Ok(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_in_all_their_spellings() {
        let shown =
            |text: &str| Source::parse(Path::new("/nowhere"), text.as_ref()).map(|source| source.shown);
        for (text, expected) in [
            ("owner/name", "https://github.com/owner/name"),
            ("o.w-n_er2/name.git", "https://github.com/o.w-n_er2/name.git"),
            ("https://example.com/x.git", "https://example.com/x.git"),
            ("https://me:secret@example.com:8443/x.git", "https://example.com:8443/x.git"),
            ("https://token@example.com/x?private_token=t", "https://example.com/x"),
            ("https://token@example.com", "https://example.com"),
            ("ssh://git:secret@example.com:22/x", "ssh://git@example.com:22/x"),
            ("git@example.com:x/y.git", "git@example.com:x/y.git"),
            ("https://example.com/a@b", "https://example.com/a@b"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "-u",
            "--upload-pack=touch x",
            "name",
            "a/b/c",
            "./a",
            "../b",
            "x\ny",
            "/a/b",
            "a/-b",
            ":x",
            "https://",
        ] {
            assert!(shown(text).is_err(), "{text}");
        }
        let url = "https://me:secret@example.com/x";
        let source = Source::parse(Path::new("/nowhere"), url.as_ref()).unwrap();
        assert_eq!(source.hide(&format!("`git fetch {url}`")), "`git fetch https://example.com/x`");
    }

    #[test]
    fn subfolders() {
        for (text, expected) in [("", ""), (".", ""), ("a/b/", "a/b"), ("./a//b", "a/b")] {
            assert_eq!(subfolder(text).as_deref(), Ok(expected));
        }
        for text in ["/a", "../a", "a/../b", "a\nb"] {
            assert!(subfolder(text).is_err(), "{text}");
        }
    }
}
