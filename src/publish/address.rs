//! The pages of a remote, by its address.

use crate::git::address::Hosted;

/// The page that compares two branches, of the forges whose hosts have known names.
pub(super) fn compares(address: &str, base: &str, branch: &str) -> Option<String> {
    let Hosted { host, path, scheme, .. } = Hosted::of(address)?;
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
            let page = compares(address, "main", "work/1/a#b");
            assert_eq!(page.as_deref(), wanted, "{address}");
        }
    }
}
