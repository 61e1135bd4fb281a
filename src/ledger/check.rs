//! Compares a ledger with itself: what its events give, and what the tree of its newest commit has.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::error::{BY_A_STEP, LedgerError};
use super::history::{Operation, operations, replay};
use super::tip::{MAX_FILE, MAX_FILES, Tip, is_of_a_step};
use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::objects::digest::sha256;
use crate::git::objects::edit::Blob;
use crate::model::ids::RunId;
use crate::model::state::{Entry, State};

/// The longest value that is shown, in characters.
const SHOWN: usize = 80;

/// The longest content of an artifact that is read, in bytes.
pub const MAX_CONTENT: u64 = 256 * 1024 * 1024;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The commit, or the file.
    pub at: String,
    /// What is wrong.
    pub why: String,
}

/// What a comparison found.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// The operations, oldest first; empty if they cannot be read.
    pub operations: Vec<Operation>,
    /// The differences.
    pub faults: Vec<Fault>,
}

/// Replays the events of a ledger, and compares what they give with the tree of its newest commit. A file that no event
/// makes may be of a later version, and is left out.
///
/// # Errors
/// [`LedgerError`] if the repository cannot be read, or the run is of another version.
pub fn check(repo: &Repo, run: RunId, head: CommitId) -> Result<Checked, LedgerError> {
    let mut checked = Checked::default();
    let mut fault = |at: String, why: String| checked.faults.push(Fault { at, why });
    match Tip::read_run(repo, run, head) {
        // It is found below, as a difference.
        Ok(_) | Err(LedgerError::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    let operations = match operations(repo, run, head, None) {
        Ok(operations) => operations,
        Err(LedgerError::Damaged { commit, why, .. }) => {
            fault(commit.to_string(), why);
            return Ok(checked);
        }
        Err(error) => return Err(error),
    };
    for operation in &operations {
        operation.bad.iter().for_each(|why| fault(operation.commit.to_string(), why.clone()));
    }
    let (state, faults) = replay(None, &operations);
    for (commit, why) in faults {
        fault(commit.to_string(), why.to_string());
    }
    match state {
        None => fault(head.to_string(), "no event makes the run".to_owned()),
        Some(state) => compare(repo, &state, (None, head), &mut fault)?,
    }
    checked.operations = operations;
    Ok(checked)
}

/// Reads what was added to a ledger since `known`. Returns the newest commit up to which all are operations that give
/// what their trees have, and what is wrong with the next one.
pub(super) fn check_since(
    repo: &Repo,
    run: RunId,
    known: CommitId,
    head: CommitId,
) -> Result<(CommitId, Option<String>), LedgerError> {
    let mut good = known;
    let added = match operations(repo, run, head, Some(known)) {
        Ok(added) => added,
        Err(LedgerError::Damaged { why, .. }) => return Ok((good, Some(why))),
        Err(error) => return Err(error),
    };
    let mut state = Tip::read_whole(repo, run, known)?.state;
    for Operation { commit, events, bad, .. } in added {
        let mut faults = bad;
        if is_of_a_step(repo, commit)? {
            faults.push(BY_A_STEP.to_owned());
        }
        faults.extend(events.iter().filter_map(|event| state.apply(event).err()).map(|why| why.to_string()));
        compare(repo, &state, (Some(good), commit), &mut |at, why| faults.push(format!("{at}: {why}")))?;
        if let Some(why) = faults.into_iter().next() {
            return Ok((good, Some(why)));
        }
        good = commit;
    }
    Ok((good, None))
}

/// What was added to a ledger since `known`, `None` for all of it: the commits, and what is wrong with them. Of the trees
/// that of the newest commit alone is compared, since it is what will be read.
pub(super) fn added_since(
    repo: &Repo,
    run: RunId,
    known: Option<CommitId>,
    head: CommitId,
) -> Result<(Vec<CommitId>, Option<String>), LedgerError> {
    let added = match operations(repo, run, head, known) {
        Ok(added) => added,
        Err(LedgerError::Damaged { why, .. }) => return Ok((Vec::new(), Some(why))),
        Err(error) => return Err(error),
    };
    let commits: Vec<CommitId> = added.iter().map(|operation| operation.commit).collect();
    let mut wrong: Vec<String> = added.iter().flat_map(|operation| operation.bad.iter().cloned()).collect();
    for commit in &commits {
        if is_of_a_step(repo, *commit)? {
            wrong.push(BY_A_STEP.to_owned());
        }
    }
    let before = known.map(|known| Tip::read_whole(repo, run, known)).transpose()?.map(|tip| tip.state);
    let (state, faults) = replay(before, &added);
    wrong.extend(faults.into_iter().map(|(_, fault)| fault.to_string()));
    match state {
        None => wrong.push("no event makes the run".to_owned()),
        Some(state) => {
            compare(repo, &state, (known, head), &mut |at, why| wrong.push(format!("{at}: {why}")))?;
        }
    }
    Ok((commits, wrong.into_iter().next()))
}

/// Compares a state with the tree of a commit. Contents that `known` has as well are not read again.
fn compare(
    repo: &Repo,
    state: &State,
    (known, head): (Option<CommitId>, CommitId),
    fault: &mut impl FnMut(String, String),
) -> Result<(), LedgerError> {
    let files = |commit: CommitId| Ok::<_, LedgerError>(repo.blobs_of(repo.commit(commit)?.tree, MAX_FILES));
    let blobs = match files(head)? {
        Ok(blobs) => blobs,
        Err(error) => {
            fault(head.to_string(), error.to_string());
            return Ok(());
        }
    };
    let known = known.map(files).transpose()?.and_then(Result::ok).unwrap_or_default();
    let known: HashSet<(&str, CommitId)> = known.iter().map(|blob| (blob.path.as_str(), blob.id)).collect();
    let mut missing: BTreeSet<Entry> = state.entries().into_iter().collect();
    for blob in &blobs {
        let Some(entry) = Entry::parse(&blob.path) else {
            if !known.contains(&(blob.path.as_str(), blob.id))
                && let Some(why) = wrong_content(repo, blob)
            {
                fault(blob.path.clone(), why);
            }
            continue;
        };
        let why = match (missing.remove(&entry), repo.read_blob(blob, MAX_FILE)) {
            (false, _) => Some("no event makes it".to_owned()),
            (true, Err(error)) => Some(error.to_string()),
            (true, Ok(found)) => difference(&state.content(&entry).unwrap_or_default(), &found),
        };
        if let Some(why) = why {
            fault(blob.path.clone(), why);
        }
    }
    for entry in missing {
        fault(entry.path(), "it is missing".to_owned());
    }
    Ok(())
}

/// What is wrong with a content: a file below `content/` has its digest as its name. `None` for any other file.
fn wrong_content(repo: &Repo, blob: &Blob) -> Option<String> {
    let digest = blob.path.strip_prefix("content/")?.split_once('/')?.1;
    match repo.read_blob(blob, MAX_CONTENT) {
        Err(error) => Some(error.to_string()),
        Ok(content) => {
            let found = sha256(&content);
            (found != digest).then(|| format!("the SHA-256 of its content is {found}"))
        }
    }
}

/// How a JSON object differs from what it should be. `None` if it does not, however it is written.
#[must_use]
pub fn difference(wanted: &[u8], found: &[u8]) -> Option<String> {
    if wanted == found {
        return None;
    }
    let object = |text: &[u8]| serde_json::from_slice(text).ok().filter(Value::is_object);
    let (Some(wanted), Some(found)) = (object(wanted), object(found)) else {
        return Some("it is no JSON object".to_owned());
    };
    let mut words = Vec::new();
    differences("", Some(&wanted), Some(&found), &mut words);
    (!words.is_empty()).then(|| words.join("; "))
}

/// Adds the differences between two values, with the names of their fields from the top.
fn differences(name: &str, wanted: Option<&Value>, found: Option<&Value>, words: &mut Vec<String>) {
    if let (Some(Value::Object(wanted)), Some(Value::Object(found))) = (wanted, found) {
        let keys: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
        let dot = if name.is_empty() { "" } else { "." };
        for key in keys {
            differences(&format!("{name}{dot}{key}"), wanted.get(key), found.get(key), words);
        }
    } else if wanted != found {
        let shown = |value: Option<&Value>| {
            value
                .map_or_else(|| "missing".to_owned(), |value| value.to_string().chars().take(SHOWN).collect())
        };
        words.push(format!("{name} is {} and should be {}", shown(found), shown(wanted)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences() {
        for (wanted, found, words) in [
            ("{\"a\":1}", "{\"a\":1}", None),
            ("{\"a\":1,\"b\":2}", "{ \"b\": 2, \"a\": 1 }\n", None),
            ("{\"a\":1}", "{\"a\":2}", Some("a is 2 and should be 1")),
            ("{\"a\":1}", "{}", Some("a is missing and should be 1")),
            ("{\"a\":{\"b\":1}}", "{\"a\":{\"b\":2}}", Some("a.b is 2 and should be 1")),
            ("{}", "{\"a\":1}", Some("a is 1 and should be missing")),
            ("{}", "[]", Some("it is no JSON object")),
        ] {
            assert_eq!(difference(wanted.as_bytes(), found.as_bytes()).as_deref(), words);
        }
    }
}
