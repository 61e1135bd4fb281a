//! The address of a remote, and those of its pages.

use crate::contract::ids::RemoteName;
use crate::git::Repo;

/// Where a repository is on the web, as far as its address says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The host, with a port if there is one.
    pub(super) host: String,
    /// The path without `.git`: `owner/name`.
    pub(super) path: String,
    scheme: &'static str,
}

/// The address of a remote, without a user's name or password.
pub(super) fn address_of(repo: &Repo, remote: &RemoteName) -> Option<String> {
    let setting = |name: &str| repo.config(&format!("remote.{remote}.{name}"));
    let url = setting("url").or_else(|| setting("pushurl"))?;
    let Some((scheme, rest)) = url.split_once("://") else { return Some(url) };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Some(format!("{scheme}://{host}/{path}"))
}

/// What is recorded of a remote: its host and path, which stay if it is reached in another way, else its address.
pub(super) fn key_of(address: &str) -> String {
    Place::of(address).map_or_else(|| address.to_owned(), |Place { host, path, .. }| format!("{host}/{path}"))
}

impl Place {
    /// Reads an address: `https://HOST/PATH`, `ssh://HOST/PATH` or `HOST:PATH`.
    pub(super) fn of(address: &str) -> Option<Self> {
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
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let without_port = host.split_once(':').map_or(host, |(host, _)| host);
        let (scheme, host) = match scheme {
            "https" => ("https", host),
            "http" => ("http", host),
            // The port is that of ssh.
            "ssh" | "git+ssh" | "git" => ("https", without_port),
            _ => return None,
        };
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let is_plain =
            |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        (is_plain(host) && is_plain(path)).then(|| Self {
            host: host.to_owned(),
            path: path.to_owned(),
            scheme,
        })
    }

    /// The page that compares two branches, of the forges whose hosts have known names.
    pub(super) fn compares(&self, base: &str, branch: &str) -> Option<String> {
        let Self { host, path, scheme } = self;
        let is_any = |names: &[&str]| names.iter().any(|name| host.contains(name));
        let page = if is_any(&["gitlab"]) {
            "-/compare"
        } else if is_any(&["github", "gitea", "forgejo", "codeberg.org"]) {
            "compare"
        } else {
            return None;
        };
        Some(format!("{scheme}://{host}/{path}/{page}/{}...{}", escaped(base), escaped(branch)))
    }
}

/// A branch's name in an address.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 21.4
    #[test]
    fn one_repository_has_one_key() {
        for address in [
            "https://github.com/acme/tool.git",
            "https://someone@github.com/acme/tool",
            "git@github.com:acme/tool.git",
            "ssh://git@github.com:22/acme/tool",
        ] {
            assert_eq!(key_of(address), "github.com/acme/tool");
        }
        assert_eq!(key_of("/srv/tool.git"), "/srv/tool.git");
    }

    /// CONTRACT 21.7
    #[test]
    fn pages_that_compare() {
        for (address, wanted) in [
            (
                "https://github.com/acme/tool.git",
                Some("https://github.com/acme/tool/compare/main...work/1/a%23b"),
            ),
            (
                "git@github.com:acme/tool.git",
                Some("https://github.com/acme/tool/compare/main...work/1/a%23b"),
            ),
            (
                "ssh://git@gitlab.example.org:2222/group/sub/tool.git",
                Some("https://gitlab.example.org/group/sub/tool/-/compare/main...work/1/a%23b"),
            ),
            ("http://gitea.local:3000/a/b", Some("http://gitea.local:3000/a/b/compare/main...work/1/a%23b")),
            ("https://codeberg.org/a/b/", Some("https://codeberg.org/a/b/compare/main...work/1/a%23b")),
            ("https://example.org/a/b", None),
            ("/srv/github/tool.git", None),
            ("../github:tool", None),
            ("file:///github/tool.git", None),
            ("https://github.com/", None),
        ] {
            let page = Place::of(address).and_then(|place| place.compares("main", "work/1/a#b"));
            assert_eq!(page.as_deref(), wanted, "{address}");
        }
    }
}
