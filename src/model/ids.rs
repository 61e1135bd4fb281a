//! Ids, slugs and aliases, each checked when it is read.
//!
//! Invariant: none of them contains a slash, a dot or white space, so each can be part of a path or a ref. An id that
//! an operation makes follows from the operation's id: the same operation, decided again on a newer state, makes the
//! same ids.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

/// Declares ids: UUIDs of which each kind has a type of its own.
macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident,)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Reads the hyphenated form in lower case. `None` for anything else, so that an id has one spelling.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
                let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
                (hyphenated && lower).then(|| Uuid::try_parse(text).ok()).flatten().map(Self)
            }

            /// The UUID.
            #[must_use]
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// The id of a run.
    RunId,
    /// The id of a node.
    NodeId,
    /// The id of an edge.
    EdgeId,
    /// The id of a hand-off, a message of a person, or any other item of an inbox.
    MessageId,
    /// The id of an artifact.
    ArtifactId,
    /// The id of a request for approval.
    ApprovalId,
    /// The id of an event.
    EventId,
    /// The id of a turn of a node.
    TurnId,
    /// The id of an operation on a ledger.
    OpId,
}

impl OpId {
    /// A new random id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id of the operation on a run that a client knows by this key. The first half is of the key alone, the second
    /// of the request as well.
    #[must_use]
    pub fn of_key(run: RunId, key: &str, request: &str) -> Self {
        let of_key = Uuid::new_v5(&run.0, key.as_bytes());
        let of_request = Uuid::new_v5(&of_key, request.as_bytes());
        let both = Uuid::from_u64_pair(of_key.as_u64_pair().0, of_request.as_u64_pair().1);
        Self(uuid::Builder::from_custom_bytes(both.into_bytes()).into_uuid())
    }

    /// Whether both are of requests with one key.
    #[must_use]
    pub fn has_key_of(self, other: Self) -> bool {
        let is_of_key = |id: Self| id.0.get_version_num() == 8;
        is_of_key(self) && is_of_key(other) && self.0.as_u64_pair().0 == other.0.as_u64_pair().0
    }

    /// The id for the `number`-th thing of this kind that the operation makes.
    #[must_use]
    pub fn derive<Id: From<Uuid>>(self, kind: &str, number: usize) -> Id {
        Uuid::new_v5(&self.0, format!("{kind} {number}").as_bytes()).into()
    }
}

impl TurnId {
    /// The id of the call of a tool that the provider of the turn knows by this id. Providers number their calls, so equal
    /// ids come again in other turns.
    #[must_use]
    pub fn call(self, theirs: &str) -> Uuid {
        Uuid::new_v5(&self.0, theirs.as_bytes())
    }
}

impl RunId {
    /// A new random id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

/// Why a text is no slug, alias or file name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a legal {what}: {why}")]
pub struct InvalidWord {
    what: &'static str,
    text: String,
    why: &'static str,
}

impl InvalidWord {
    fn new(what: &'static str, text: &str, why: &'static str) -> Self {
        Self { what, text: text.chars().take(80).collect(), why }
    }
}

/// Declares a word that is checked by `$check` when it is read.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident, $what:literal, $check:expr;)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks a text against the rule.
            ///
            /// # Errors
            /// [`InvalidWord`] with the rule that is broken.
            pub fn parse(text: &str) -> Result<Self, InvalidWord> {
                let check: fn(&str) -> Result<(), &'static str> = $check;
                match check(text) {
                    Ok(()) => Ok(Self(text.to_owned())),
                    Err(why) => Err(InvalidWord::new($what, text, why)),
                }
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(D::Error::custom)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

words! {
    /// 8 to 32 hex digits at the beginning of a run's id.
    Slug, "slug", |text| {
        let hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if hex && (8..=32).contains(&text.len()) { Ok(()) } else { Err("a slug is 8 to 32 hex digits") }
    };
    /// The short name of a node: `[a-z0-9][a-z0-9-]{0,31}`.
    Alias, "alias", |text| check_name(text, 32);
    /// The name of a provider's configuration: `[a-z0-9][a-z0-9-]{0,31}`.
    ProviderName, "provider name", |text| check_name(text, 32);
    /// The id of a step of a flow: `[a-z0-9][a-z0-9_-]{0,63}`.
    StepId, "step id", |text| {
        let first = text.bytes().next().ok_or("it is empty")?;
        let rest = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte));
        if text.len() <= 64 && rest && !b"_-".contains(&first) {
            Ok(())
        } else {
            Err("1 to 64 lower-case letters, digits, dashes and underscores, the first a letter or digit")
        }
    };
    /// The name of a file, as one segment of a path: no slash, no control character, not `.` or `..`, at most 255 bytes.
    FileName, "file name", |text| match text {
        "" => Err("it is empty"),
        "." | ".." => Err("it is a directory"),
        _ if text.len() > 255 => Err("it is longer than 255 bytes"),
        _ if text.contains(['/', '\\']) => Err("it contains a slash"),
        _ if text.chars().any(char::is_control) => Err("it contains a control character"),
        _ => Ok(()),
    };
}

fn check_name(text: &str, longest: usize) -> Result<(), &'static str> {
    match text.bytes().next() {
        None => Err("it is empty"),
        Some(b'-') => Err("it begins with a dash"),
        Some(_) if text.len() > longest => Err("it is longer than 32 characters"),
        Some(_)
            if text
                .bytes()
                .any(|byte| !(byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')) =>
        {
            Err("only lower-case letters, digits and dashes are allowed")
        }
        Some(_) => Ok(()),
    }
}

impl Slug {
    /// The slug with the first `digits` hex digits of an id.
    #[must_use]
    pub fn of(run: RunId, digits: usize) -> Self {
        let hex = run.uuid().simple().to_string();
        Self(hex[..digits.clamp(8, hex.len())].to_owned())
    }
}

impl Alias {
    /// The alias that a label suggests: lower case, other characters as dashes. `None` if nothing is left.
    #[must_use]
    pub fn from_label(label: &str) -> Option<Self> {
        let lower = label.to_lowercase();
        let parts = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        let joined = parts.collect::<Vec<_>>().join("-");
        let cut = joined.get(..joined.len().min(32))?.trim_end_matches('-');
        Self::parse(cut).ok()
    }

    /// The alias with a number at its end, at most 32 characters long.
    #[must_use]
    pub fn numbered(&self, number: usize) -> Self {
        let end = format!("-{number}");
        let kept = self.0[..self.0.len().min(32 - end.len())].trim_end_matches('-');
        Self(format!("{kept}{end}"))
    }
}
