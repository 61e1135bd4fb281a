//! The names of the contract, each checked when it is read, so that no unchecked string is passed
//! around.
//!
//! Invariant: a value of one of these types obeys its rule, and cannot be changed. Whether the
//! thing named exists is not checked. Sources: CONTRACT 1.9 (states, roles), 5.2 (remote), 5.7 (run
//! id).

use std::fmt;

use bstr::{BStr, BString, ByteSlice};
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// A text that breaks the rule of the name it was meant to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a legal {what}: {why}")]
pub struct InvalidName {
    /// The kind of name, such as "state name".
    pub(crate) what: &'static str,
    /// The text, lossily decoded and cut at 120 characters.
    pub(crate) text: String,
    /// The rule it breaks.
    pub(crate) why: &'static str,
}

impl InvalidName {
    fn new(what: &'static str, text: &[u8], why: &'static str) -> Self {
        Self { what, text: text.to_str_lossy().chars().take(120).collect(), why }
    }
}

/// The longest state or role name, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 100;

/// Checks the rule of state and role names. Both become a path below `.aynig/`, so neither may
/// leave it or hide in it.
fn check_path_name(what: &'static str, text: &[u8]) -> Result<String, InvalidName> {
    let refuse = |why| Err(InvalidName::new(what, text, why));
    if text.is_empty() {
        return refuse("it is empty");
    }
    if text.len() > MAX_NAME_BYTES {
        return refuse("it is longer than 100 bytes");
    }
    for segment in text.split(|byte| *byte == b'/') {
        match segment.first() {
            None => return refuse("a part between slashes is empty"),
            Some(b'.' | b'-') => return refuse("a part between slashes begins with a dot or a dash"),
            Some(_) => {}
        }
        if !segment.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
            return refuse("only letters, digits, dots, underscores, dashes and slashes are allowed");
        }
    }
    Ok(text.to_str_lossy().into_owned())
}

/// The value of `dwp-state`: 1 to 100 bytes of `[A-Za-z0-9._-]` in `/`-separated segments, none of
/// them empty or beginning with `.` or `-` (CONTRACT 1.9).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct StateName(String);

const WORKING: &str = "working";
const STALLED: &str = "stalled";

impl StateName {
    /// Checks a text against the rule.
    ///
    /// # Errors
    /// [`InvalidName`] with the first rule broken.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidName> {
        check_path_name("state name", text.as_ref()).map(Self)
    }

    /// The state of a leased branch (CONTRACT 5.1).
    pub(crate) fn working() -> Self {
        Self(String::from(WORKING))
    }

    /// The state of a branch whose attempt failed or was abandoned (CONTRACT 5.5, 6.2).
    pub(crate) fn stalled() -> Self {
        Self(String::from(STALLED))
    }

    /// Whether this is `working`.
    pub fn is_working(&self) -> bool {
        self.0 == WORKING
    }

    /// Whether this is `stalled`.
    pub fn is_stalled(&self) -> bool {
        self.0 == STALLED
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A role (CONTRACT 2.2), under the rule of [`StateName`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RoleName(String);

impl RoleName {
    /// Checks a text against the rule.
    ///
    /// # Errors
    /// [`InvalidName`] with the first rule broken.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidName> {
        check_path_name("role name", text.as_ref()).map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A branch by its name below `refs/heads/`, as bytes; a legal branch name for git.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchName(BString);

/// The prefix of local branches ([`super::layout`] has the other ref prefixes).
pub(crate) const HEADS: &str = "refs/heads/";

impl BranchName {
    /// Checks a short name against the rules of `git check-ref-format --branch`.
    ///
    /// # Errors
    /// [`InvalidName`] with the first rule broken.
    pub fn new(name: impl Into<BString>) -> Result<Self, InvalidName> {
        let name = name.into();
        match broken_branch_rule(&name) {
            Some(why) => Err(InvalidName::new("branch name", &name, why)),
            None => Ok(Self(name)),
        }
    }

    /// The branch that a full ref name stands for; `None` outside `refs/heads/` or for an illegal
    /// name.
    pub fn from_full_ref(name: &BStr) -> Option<Self> {
        Self::new(name.strip_prefix(HEADS.as_bytes())?).ok()
    }

    pub(crate) fn as_bstr(&self) -> &BStr {
        self.0.as_bstr()
    }

    /// `refs/heads/<name>`.
    pub fn full_ref(&self) -> BString {
        BString::from([HEADS.as_bytes(), &self.0].concat())
    }

    /// The name of this branch's worktree directory: readable, and different for different branches
    /// (CONTRACT 9.1).
    ///
    /// `[A-Za-z0-9._-]` stay, `/` becomes `+`, any other byte and a leading `.` or `-` become `%`
    /// and two hex digits. A name longer than 150 bytes is cut to at most 100 bytes, followed by
    /// `%-` and a digest of the whole. No escape produces `%-`.
    pub(crate) fn directory_name(&self) -> String {
        let pieces: Vec<String> = self.0.iter().enumerate().map(|(at, byte)| escaped(at, *byte)).collect();
        let whole = pieces.concat();
        if whole.len() <= MAX_DIRECTORY_BYTES {
            return whole;
        }
        let mut short = String::new();
        for piece in pieces {
            if short.len() + piece.len() > KEPT_DIRECTORY_BYTES {
                break;
            }
            short.push_str(&piece);
        }
        let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, &self.0);
        format!("{short}%-{}", digest.simple())
    }
}

impl AsRef<[u8]> for BranchName {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

const MAX_DIRECTORY_BYTES: usize = 150;
const KEPT_DIRECTORY_BYTES: usize = 100;

fn escaped(at: usize, byte: u8) -> String {
    match byte {
        b'/' => String::from("+"),
        b'.' | b'-' if at == 0 => format!("%{byte:02x}"),
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    }
}

fn broken_branch_rule(name: &[u8]) -> Option<&'static str> {
    let refused =
        |byte: &u8| matches!(byte, 0..=b' ' | 0x7f | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\');
    // Names are checked by the thousand, and a search for a text is costly to set up.
    let has = |pair: &[u8; 2]| name.windows(2).any(|two| two == pair);
    if name.is_empty() {
        Some("it is empty")
    } else if name.iter().any(refused) {
        Some("it holds a space, a control character or one of ~ ^ : ? * [ \\")
    } else if name.starts_with(b"-") {
        Some("it begins with a dash")
    } else if name == b"HEAD" {
        Some("HEAD means the current commit")
    } else if has(b"..") || has(b"@{") {
        Some("it holds \"..\" or \"@{\"")
    } else if name.ends_with(b".") {
        Some("it ends with a dot")
    } else if name.split(|byte| *byte == b'/').any(<[u8]>::is_empty) {
        Some("a part between slashes is empty")
    } else if name.split(|byte| *byte == b'/').any(|part| part.starts_with(b".") || part.ends_with(b".lock"))
    {
        Some("a part between slashes begins with a dot or ends with \".lock\"")
    } else {
        None
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_str_lossy())
    }
}

impl Serialize for BranchName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A configured remote's name, or its URL. Not empty, no white space or control character, no
/// leading dash (git would read that as an option).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RemoteName(String);

/// The prefix of a remote's name in `dwp-source` (CONTRACT 5.2).
const SOURCE_PREFIX: &str = "git:";

/// Characters that are refused in the name of a remote. A commit can name one (`dwp-source`), and commands that people copy
/// contain it.
const FOR_SHELLS: [char; 22] = [
    ';', '&', '|', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', ']', '#', '~', '!', '{',
    '}', '^',
];

impl RemoteName {
    /// Checks a text against the rule.
    ///
    /// # Errors
    /// [`InvalidName`] with the first rule broken.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidName> {
        let bytes = text.as_ref();
        let refuse = |why| Err(InvalidName::new("remote name", bytes, why));
        let Ok(name) = bytes.to_str() else { return refuse("it is not UTF-8") };
        if name.is_empty() {
            refuse("it is empty")
        } else if name.starts_with('-') {
            refuse("it begins with a dash")
        } else if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            refuse("it holds white space or a control character")
        } else if name.contains(FOR_SHELLS) {
            refuse("it holds a character that shells interpret")
        } else {
            Ok(Self(String::from(name)))
        }
    }

    /// The remote that a `dwp-source` value names, such as `git:origin`; `None` for any other kind
    /// of source.
    pub fn from_source(value: &BStr) -> Option<Self> {
        Self::parse(value.strip_prefix(SOURCE_PREFIX.as_bytes())?).ok()
    }

    /// The `dwp-source` value of this remote.
    pub(crate) fn to_source(&self) -> BString {
        BString::from(format!("{SOURCE_PREFIX}{}", self.0))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RemoteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One leased execution, written as `dwp-run-id`. Random, so that no two runners can make the same
/// lease commit (CONTRACT 5.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(Uuid);

impl AttemptId {
    /// A new random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Reads the value of `dwp-run-id`; `None` unless it is a UUID.
    pub fn parse(text: &[u8]) -> Option<Self> {
        Uuid::try_parse_ascii(text).ok().map(Self)
    }

    /// The first eight hex digits, for display.
    pub fn short(self) -> String {
        self.0.simple().to_string().chars().take(8).collect()
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.hyphenated().to_string())
    }
}

impl Serialize for AttemptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The object id of a commit: 20 bytes (SHA-1) or 32 (SHA-256).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId {
    /// Unused bytes stay zero, so that the derived comparisons hold.
    bytes: [u8; 32],
    length: u8,
}

impl CommitId {
    pub(crate) fn from_bytes(raw: &[u8]) -> Option<Self> {
        let length = u8::try_from(raw.len()).ok().filter(|length| matches!(length, 20 | 32))?;
        let mut bytes = [0; 32];
        bytes[..raw.len()].copy_from_slice(raw);
        Some(Self { bytes, length })
    }

    /// Parses 40 or 64 hex digits of either case.
    pub fn parse_hex(text: impl AsRef<[u8]>) -> Option<Self> {
        let (pairs, rest) = text.as_ref().as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        let raw: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect();
        Self::from_bytes(&raw?)
    }

    /// Whether it is the id of nothing, as in the first entry of a reflog.
    pub(crate) fn is_null(&self) -> bool {
        self.as_bytes().iter().all(|byte| *byte == 0)
    }

    /// The raw bytes, 20 or 32.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The first ten hex digits, for display.
    pub fn short(&self) -> String {
        self.as_bytes().iter().take(5).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommitId({self})")
    }
}

impl Serialize for CommitId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
