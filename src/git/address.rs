//! Addresses of remotes, and whether two of them lead to one repository.
//!
//! Invariant: host and path name a repository, however it is reached. A path of this host names what git opens there.

use std::path::{Component, Path, PathBuf};

use crate::contract::ids::RemoteName;
use crate::git::Repo;

/// A repository on a host, as far as its address says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hosted {
    /// How its pages are reached.
    pub(crate) scheme: &'static str,
    /// The host, with a port if that is not the usual one of its pages.
    pub(crate) host: String,
    /// The path without `.git`: `owner/name`.
    pub(crate) path: String,
    /// The port of ssh or git, if the address has one. It may be another one than that of the pages.
    port: Option<String>,
}

impl Hosted {
    /// Reads an address: `https://HOST/PATH`, `ssh://HOST/PATH` or `HOST:PATH`.
    pub(crate) fn of(address: &str) -> Option<Self> {
        let (scheme, host, path) = match address.split_once("://") {
            Some((scheme, rest)) => {
                let (host, path) = rest.split_once('/')?;
                (scheme, host, path)
            }
            None => {
                let (host, path) = address.split_once(':')?;
                // A path of this host may have a colon.
                (!host.contains('/')).then_some(("ssh", host, path))?
            }
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_ascii_lowercase();
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
            Some(_) | None => (host.as_str(), None),
        };
        let (scheme, host, port) = match (scheme, port) {
            ("https", Some("443")) => ("https", name, None),
            ("http", Some("80")) => ("http", name, None),
            ("https", _) => ("https", host.as_str(), None),
            ("http", _) => ("http", host.as_str(), None),
            ("ssh" | "git+ssh" | "git", port) => ("https", name, port),
            _ => return None,
        };
        let path = without_dots(Path::new(path)).to_str()?.trim_matches('/').to_owned();
        let path = path.strip_suffix(".git").unwrap_or(&path);
        let is_plain =
            |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        (is_plain(host) && is_plain(path)).then(|| Self {
            scheme,
            host: host.to_owned(),
            path: path.to_owned(),
            port: port.map(str::to_owned),
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_other_server = self.port.is_some() && other.port.is_some() && self.port != other.port;
        (&self.host, &self.path) == (&other.host, &other.path) && !is_other_server
    }
}

/// What is recorded of a remote: its host and path, which stay if it is reached in another way, else its address.
pub(crate) fn key_of(address: &str) -> String {
    Hosted::of(address)
        .map_or_else(|| address.to_owned(), |Hosted { host, path, .. }| format!("{host}/{path}"))
}

impl Repo {
    /// The address of a remote, without a user's name or password. `None` if it has none.
    pub(crate) fn address_of(&self, remote: &RemoteName) -> Option<String> {
        let setting = |name: &str| self.config(&format!("remote.{remote}.{name}"));
        let url = setting("url").or_else(|| setting("pushurl"))?;
        let Some((scheme, rest)) = url.split_once("://") else { return Some(url) };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Some(format!("{scheme}://{host}/{path}"))
    }

    /// An address that means the same everywhere on this host: a path is a whole one.
    pub(crate) fn whole_address(&self, address: String) -> String {
        let is_whole = address.starts_with('/') || address.contains("://");
        match self.path_of(&address).filter(|_| !is_whole).map(|path| without_dots(&path)) {
            Some(path) => path.to_str().map(str::to_owned).unwrap_or(address),
            None => address,
        }
    }

    /// Whether two addresses lead to one repository.
    pub(crate) fn is_one_repository(&self, one: &str, other: &str) -> bool {
        if one == other {
            return true;
        }
        match (self.path_of(one), self.path_of(other)) {
            (Some(one), Some(other)) => opened(&one) == opened(&other),
            (None, None) => {
                Hosted::of(one).zip(Hosted::of(other)).is_some_and(|(one, other)| one.is_same(&other))
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The path of this host that an address is.
    fn path_of(&self, address: &str) -> Option<PathBuf> {
        let path = match address.strip_prefix("file://") {
            Some(path) => path,
            None => {
                let first = address.split('/').next().unwrap_or_default();
                (!first.contains(':')).then_some(address)?
            }
        };
        Some(self.top().join(path))
    }
}

/// The git directory that git opens for a path; the path itself if there is none.
fn opened(path: &Path) -> PathBuf {
    let text = path.as_os_str();
    let with = |end: &str| {
        let mut whole = text.to_owned();
        whole.push(end);
        PathBuf::from(whole)
    };
    let tried = ["/.git", "", ".git/.git", ".git"].map(with);
    let found = tried.iter().find(|found| found.join("HEAD").is_file() && found.join("objects").is_dir());
    found.and_then(|found| found.canonicalize().ok()).unwrap_or_else(|| without_dots(path))
}

/// A path without `.` and `..`.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 16.4, 21.4
    #[test]
    fn one_repository_has_one_key() {
        for address in [
            "https://github.com/acme/tool.git",
            "https://someone@github.com/acme/tool",
            "https://GitHub.com:443/acme/tool/",
            "git@github.com:acme/tool.git",
            "github.com:/acme/./tool.git/",
            "ssh://git@github.com:22/acme/tool",
            "ssh://git@github.com/acme/x/../tool.git",
        ] {
            assert_eq!(key_of(address), "github.com/acme/tool", "{address}");
        }
        assert_eq!(key_of("/srv/tool.git"), "/srv/tool.git");
    }

    /// CONTRACT 16.4
    #[test]
    fn servers_on_other_ports_are_others() {
        let same = |one: &str, other: &str| {
            Hosted::of(one).zip(Hosted::of(other)).is_some_and(|(one, other)| one.is_same(&other))
        };
        assert!(same("ssh://hub:2222/a/b", "git@hub:a/b"), "the port may be configured for ssh");
        assert!(same("ssh://hub:2222/a/b", "https://hub/a/b.git"));
        for (one, other) in [
            ("ssh://hub:2222/a/b", "ssh://hub:2223/a/b"),
            ("http://hub:3000/a/b", "http://hub:3001/a/b"),
            ("https://hub/a/b", "https://hub/a/c"),
            ("https://hub/a/b", "https://pub/a/b"),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }
}
