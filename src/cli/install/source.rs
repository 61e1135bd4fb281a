//! Where a pack comes from, out of what a person typed.
//!
//! Invariant: what is shown and recorded has no password in it, and what git is given can start no program of the caller's
//! choosing: no option, no `helper::address`, no scheme but git's own.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The schemes that name a repository, not a program.
const SCHEMES: [&str; 6] = ["https", "http", "ssh", "git", "file", "git+ssh"];

/// Who holds a repository that is given as `owner/name`.
const FORGE: &str = "https://github.com";

/// A repository to copy from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What git is given.
    pub url: OsString,
    /// The same without what is secret in it.
    pub shown: String,
}

impl Source {
    /// Reads REPO: a path that exists (from `start`) wins, then a URL, then `owner/name`.
    ///
    /// # Errors
    /// Why it can be none of them.
    pub fn parse(start: &Path, text: &OsStr) -> Result<Self, String> {
        let name = text.to_string_lossy();
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_control) {
            return Err(format!("{name:?} names no repository"));
        }
        if let Ok(path) = start.join(text).canonicalize() {
            let shown = path.to_str().ok_or_else(|| format!("{}: the path is no UTF-8", path.display()))?;
            return Ok(Self { shown: shown.to_owned(), url: path.clone().into() });
        }
        let plain = |url: String| Self { shown: without_secrets(&url), url: url.into() };
        if let Some((scheme, rest)) = name.split_once("://") {
            if SCHEMES.contains(&scheme) && !rest.is_empty() {
                return Ok(plain(name.into_owned()));
            }
            return Err(format!("{}: {scheme} is no scheme of a repository", without_secrets(&name)));
        }
        if name.contains("::") {
            return Err(format!("{name:?} would start a program to fetch with"));
        }
        // `host:path`, as ssh has it; a slash before the colon makes a path.
        if name
            .split_once(':')
            .is_some_and(|(host, path)| !host.contains('/') && !host.is_empty() && !path.is_empty())
        {
            return Ok(plain(name.into_owned()));
        }
        match name.split('/').collect::<Vec<_>>().as_slice() {
            [owner, name] if is_name(owner) && is_name(name) => Ok(plain(format!("{FORGE}/{owner}/{name}"))),
            _ => Err(format!("{name:?} is no path that exists here, no URL and no OWNER/NAME")),
        }
    }

    /// `text` with nothing secret of the source in it.
    pub fn hide(&self, text: &str) -> String {
        text.replace(&*self.url.to_string_lossy(), &self.shown)
    }
}

fn is_name(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with(['.', '-'])
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A URL without password, without a user name that may be a token, and without a query.
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let host = match host.rsplit_once('@') {
        // For ssh the user is part of the address, and a key is the secret.
        Some((user, host)) if scheme.ends_with("ssh") => {
            format!("{}@{host}", user.split(':').next().unwrap_or_default())
        }
        Some((_, host)) => host.to_owned(),
        None => host.to_owned(),
    };
    format!("{scheme}://{host}{path}")
}

/// REF: a branch, a tag, `HEAD` or the whole id of a commit.
///
/// # Errors
/// Why it is none.
pub fn check_reference(text: &str) -> Result<(), String> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || ":?*[\\^~+".contains(c);
    if text.is_empty()
        || text.starts_with('-')
        || text.contains(odd)
        || text.contains("..")
        || text.contains("@{")
    {
        return Err(format!("{text:?} is no branch, tag or commit id"));
    }
    Ok(())
}

/// SUBFOLDER as names joined by `/`; empty for the top.
///
/// # Errors
/// Why it is no directory of a repository.
pub fn subfolder(text: &str) -> Result<String, String> {
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if text.starts_with('/') || names.contains(&"..") || text.contains(char::is_control) {
        return Err(format!("{text:?} is no directory below the top of the repository"));
    }
    Ok(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        Source::parse(Path::new("/nowhere"), text.as_ref()).map(|source| source.shown)
    }

    #[test]
    fn repositories_in_all_their_spellings() {
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
            "ext::sh -c id",
            "ext://x",
            "x\ny",
            "/a/b",
            "a/-b",
            ":x",
        ] {
            assert!(shown(text).is_err(), "{text}");
        }
        assert!(!shown("foo://me:secret@host/x").unwrap_err().contains("secret"));
    }

    #[test]
    fn a_path_that_exists_wins() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("owner/name")).unwrap();
        let source = Source::parse(room.path(), "owner/name".as_ref()).unwrap();
        assert_eq!(source.url, room.path().canonicalize().unwrap().join("owner/name").into_os_string());
    }

    #[test]
    fn what_git_said_is_shown_without_secrets() {
        let source =
            Source::parse(Path::new("/nowhere"), "https://me:secret@example.com/x".as_ref()).unwrap();
        assert_eq!(
            source.hide("`git fetch https://me:secret@example.com/x`"),
            "`git fetch https://example.com/x`"
        );
    }

    #[test]
    fn refs_and_subfolders() {
        for text in ["HEAD", "main", "v1.0", "feature/x", "refs/tags/v1", &"a".repeat(40)] {
            assert_eq!(check_reference(text), Ok(()), "{text}");
        }
        for text in ["", "-x", "a:b", "+main", "a b", "a..b", "main~1", "HEAD@{1}", "*", "a\0"] {
            assert!(check_reference(text).is_err(), "{text}");
        }
        for (text, expected) in [("", ""), (".", ""), ("a/b/", "a/b"), ("./a//b", "a/b")] {
            assert_eq!(subfolder(text).as_deref(), Ok(expected));
        }
        for text in ["/a", "../a", "a/../b", "a\nb"] {
            assert!(subfolder(text).is_err(), "{text}");
        }
    }
}
