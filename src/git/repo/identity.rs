//! The identity of commits and reflog entries written here (CONTRACT 1.12).

use bstr::{BString, ByteSlice};

/// Author and committer, each as name and email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) author: (BString, BString),
    pub(crate) committer: (BString, BString),
}

impl Identity {
    /// Git's configured identity; without one, `aynig <aynig@RUNNER_ID>`.
    pub(crate) fn configured(gix: &gix::Repository, runner_id: &str) -> Self {
        let host: String = runner_id
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
            .collect();
        let fallback = (BString::from("aynig"), BString::from(format!("aynig@{host}")));
        // Read from the configuration, which includes the environment variables. The identity from
        // gix comes with a local time, for which it opens the time zone database.
        let settings = gix.config_snapshot();
        let first = |keys: &[&str]| keys.iter().find_map(|key| settings.string(*key));
        let person = |who: &str| {
            let name = first(&[&format!("{who}.name"), "user.name", &format!("gitoxide.{who}.nameFallback")]);
            let email = first(&[
                &format!("{who}.email"),
                "user.email",
                "gitoxide.user.emailFallback",
                &format!("gitoxide.{who}.emailFallback"),
            ]);
            match (name, email) {
                (Some(name), Some(email)) if !name.trim().is_empty() || !email.trim().is_empty() => {
                    (plain(&name), plain(&email))
                }
                _ => fallback.clone(),
            }
        };
        Self { author: person("author"), committer: person("committer") }
    }

    /// The signature of a reflog entry.
    pub(crate) fn reflog_signature(&self, time: gix::date::Time) -> gix::actor::Signature {
        gix::actor::Signature { name: self.committer.0.clone(), email: self.committer.1.clone(), time }
    }
}

/// Removes the bytes from a name or address that would break the header line of a commit.
fn plain(text: &[u8]) -> BString {
    text.iter().copied().filter(|byte| !b"<>\n\r\0".contains(byte)).collect::<Vec<u8>>().trim().into()
}
