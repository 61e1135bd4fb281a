//! The trigger's trailers as environment variables of its command (CONTRACT 3.3, 3.8).
//!
//! Invariant: a trailer never changes an existing variable and never sets a reserved one. All of
//! them together fit into an environment the kernel accepts. `runner` sets the contract's own
//! variables after these.

use std::collections::{HashMap, HashSet};

use bstr::BString;

use super::trailers::{RUNNER_MANAGED, Trailers, is_runner_managed};

mod reserved;

use reserved::OWN;
pub use reserved::{PLAIN_WORDS, RESERVED_NAMES, ReservedFamily, is_reserved_name};

/// The longest body passed in `BODY`, in bytes. Linux accepts 128 KiB for the name and value of one
/// variable. A longer body is only in the file `BODY_PATH`.
pub(crate) const BODY_INLINE_LIMIT: usize = 100 * 1024;

/// The longest trailer value that becomes a variable, in bytes.
pub(crate) const MAX_VALUE_BYTES: usize = 100 * 1024;

/// The total size of all trailer variables, in bytes of names and values.
pub(crate) const MAX_TOTAL_BYTES: usize = 256 * 1024;

/// Why a trailer does not become a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// The name made from the key does not match `[A-Z_][A-Z0-9_]*`.
    #[error("its key does not make a variable name")]
    IllegalName,
    /// The operator's list of trailers that become variables does not contain it (CONTRACT 3.13).
    #[error("aynig.trailerVariables does not name it")]
    NotListed,
    /// The runner's environment already has that variable.
    #[error("the variable exists in the runner's environment")]
    Exists,
    /// The variable is in [`RESERVED_NAMES`].
    #[error("the variable is reserved")]
    Reserved,
    /// The key is a runner-managed one in another case and could be mistaken for it.
    #[error("its key imitates one of the runner's")]
    Imitation,
    /// The value is longer than [`MAX_VALUE_BYTES`].
    #[error("its value is longer than 100 KiB")]
    TooLong,
    /// The trailers before it have used up [`MAX_TOTAL_BYTES`].
    #[error("the trailers together are longer than 256 KiB")]
    NoRoom,
    /// The value contains a NUL byte, which no variable can.
    #[error("its value holds a NUL byte")]
    Nul,
}

/// The result for all trailers of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrailerVariables {
    /// Names and values to set, each name once, in the order of first appearance.
    pub set: Vec<(String, BString)>,
    /// The keys left out, as written, each once.
    pub(crate) skipped: Vec<(BString, SkipReason)>,
}

/// Turns trailers into variables: the key in upper case with `_` for `-`; the last value of a name
/// wins. `exists` returns whether the runner's own environment has a variable. `listed` returns
/// whether the operator admits a trailer, by its key and name.
///
/// Genuine `dwp-*` keys are included, `DWP_STATE` among them. They use up [`MAX_TOTAL_BYTES`]
/// first, then the others in their order.
pub(crate) fn trailer_variables<'t>(
    trailers: &'t Trailers,
    exists: impl Fn(&str) -> bool,
    listed: impl Fn(&BString, &str) -> bool,
) -> TrailerVariables {
    // A commit may have any number of trailers, so that each is looked up once.
    let mut wanted: Vec<(String, &BString, &BString)> = Vec::new();
    let (mut places, mut skipped) = (HashMap::new(), HashSet::new());
    let mut out = TrailerVariables::default();
    let mut skip = |out: &mut TrailerVariables, key: &'t BString, reason| {
        if skipped.insert(key) {
            out.skipped.push((key.clone(), reason));
        }
    };
    for trailer in trailers {
        match variable_name(&trailer.key, &exists, &listed) {
            Ok(name) => {
                let place = *places.entry(name.clone()).or_insert(wanted.len());
                match wanted.get_mut(place) {
                    Some(known) => (known.1, known.2) = (&trailer.key, &trailer.value),
                    None => wanted.push((name, &trailer.key, &trailer.value)),
                }
            }
            Err(reason) => skip(&mut out, &trailer.key, reason),
        }
    }
    // The workflow's own trailers come first, so that other trailers cannot crowd them out.
    wanted.sort_by_key(|(name, _, _)| !name.starts_with(OWN));
    let mut left = MAX_TOTAL_BYTES;
    for (name, key, value) in wanted {
        let size = name.len() + value.len();
        if value.contains(&0) {
            skip(&mut out, key, SkipReason::Nul);
        } else if value.len() > MAX_VALUE_BYTES {
            skip(&mut out, key, SkipReason::TooLong);
        } else if size > left {
            skip(&mut out, key, SkipReason::NoRoom);
        } else {
            left -= size;
            out.set.push((name, value.clone()));
        }
    }
    out
}

fn variable_name(
    key: &BString,
    exists: &impl Fn(&str) -> bool,
    listed: &impl Fn(&BString, &str) -> bool,
) -> Result<String, SkipReason> {
    let upper = |byte: &u8| if *byte == b'-' { '_' } else { char::from(byte.to_ascii_uppercase()) };
    let name: String = key.iter().map(upper).collect();
    let legal = |c: char| matches!(c, 'A'..='Z' | '0'..='9' | '_');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(legal) {
        Err(SkipReason::IllegalName)
    } else if is_runner_managed(key) && !RUNNER_MANAGED.iter().any(|managed| *key == *managed) {
        Err(SkipReason::Imitation)
    } else if !name.starts_with(OWN) && !listed(key, &name) {
        Err(SkipReason::NotListed)
    } else if is_reserved_name(&name) {
        Err(SkipReason::Reserved)
    } else if exists(&name) {
        Err(SkipReason::Exists)
    } else {
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::trailers::Trailer;
    use super::super::trailers::locate;
    use super::super::trailers::tests as git;
    use super::*;

    fn variables(list: &[(&str, &str)]) -> TrailerVariables {
        let trailers = list.iter().map(|(key, value)| Trailer::new(*key, *value)).collect();
        trailer_variables(&trailers, |name| name == "TAKEN", |_, _| true)
    }

    fn set(list: &[(&str, &str)]) -> Vec<(String, BString)> {
        list.iter().map(|(name, value)| (String::from(*name), BString::from(*value))).collect()
    }

    /// CONTRACT 3.8
    #[test]
    fn names_and_last_values() {
        let got = variables(&[
            ("dwp-state", "build"),
            ("a-b", "1"),
            ("Issue", "7"),
            ("A-b", "2"),
            ("-x", ""),
            ("-", "d"),
        ]);
        assert_eq!(
            got.set,
            set(&[("DWP_STATE", "build"), ("A_B", "2"), ("ISSUE", "7"), ("_X", ""), ("_", "d")])
        );
        assert_eq!(got.skipped, []);
    }

    /// CONTRACT 3.8
    #[test]
    fn skipped() {
        let got = variables(&[
            ("9a", "x"),
            ("", "x"),
            ("Taken", "x"),
            ("path", "x"),
            ("ld-preload", "x"),
            ("aynig-bin", "x"),
            ("body", "x"),
            ("Dwp-State", "x"),
            ("nul", "a\0b"),
            ("path", "again"),
        ]);
        let expected = [
            ("9a", SkipReason::IllegalName),
            ("", SkipReason::IllegalName),
            ("Taken", SkipReason::Exists),
            ("path", SkipReason::Reserved),
            ("ld-preload", SkipReason::Reserved),
            ("aynig-bin", SkipReason::Reserved),
            ("body", SkipReason::Reserved),
            ("Dwp-State", SkipReason::Imitation),
            ("nul", SkipReason::Nul),
        ];
        assert_eq!(got.set, []);
        assert_eq!(got.skipped, expected.map(|(key, reason)| (BString::from(key), reason)));
    }

    #[test]
    fn what_is_not_listed_is_left_out_but_for_the_workflows_own() {
        let list = [
            ("dwp-pr", "1"),
            ("issue", "2"),
            ("Issue", "3"),
            ("other", "4"),
            ("home", "5"),
            ("Dwp-State", "6"),
        ];
        let trailers = list.iter().map(|(key, value)| Trailer::new(*key, *value)).collect();
        let got = trailer_variables(&trailers, |_| false, |key, name| key == "home" || name == "ISSUE");
        assert_eq!(got.set, set(&[("DWP_PR", "1"), ("ISSUE", "3")]));
        let skipped = [
            ("other", SkipReason::NotListed),
            ("home", SkipReason::Reserved),
            ("Dwp-State", SkipReason::Imitation),
        ];
        assert_eq!(got.skipped, skipped.map(|(key, reason)| (BString::from(key), reason)));
    }

    #[test]
    fn an_imitation_does_not_hide_the_real_key() {
        let got = variables(&[("dwp-state", "build"), ("Dwp-State", "forged")]);
        assert_eq!(got.set, set(&[("DWP_STATE", "build")]));
    }

    /// CONTRACT 3.8
    #[test]
    fn sizes() {
        let (most, over) = ("x".repeat(MAX_VALUE_BYTES), "x".repeat(MAX_VALUE_BYTES + 1));
        let got = variables(&[("a", &most), ("b", &over), ("c", &most), ("d", &most), ("e", "1")]);
        assert_eq!(got.set.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["A", "C", "E"]);
        assert_eq!(got.skipped, [("b".into(), SkipReason::TooLong), ("d".into(), SkipReason::NoRoom)]);
        let got = variables(&[("a", &most), ("b", &most), ("dwp-c", &most)]);
        assert_eq!(got.set.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["DWP_C", "A"]);
    }

    proptest! {
        #[test]
        fn what_is_set_is_harmless(message in git::message()) {
            let got = trailer_variables(&locate(&message).trailers, |name| name.len() == 1, |_, _| true);
            for (name, value) in &got.set {
                prop_assert!(!is_reserved_name(name) && name.len() > 1 && !value.contains(&0));
                prop_assert_eq!(got.set.iter().filter(|(other, _)| other == name).count(), 1);
            }
        }
    }
}
