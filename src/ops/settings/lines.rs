//! Command lines that a host configures by name: `aynig.validator.<name>`, `aynig.evaluator` and `aynig.evaluator.<name>`.

use std::collections::BTreeMap;

use super::wrong;
use crate::engine::validation::setting_name;
use crate::git::Repo;
use crate::ops::error::Error;

/// The command lines of validators, by the names of their settings.
pub fn validators(repo: &Repo) -> Result<BTreeMap<String, String>, Error> {
    lines(repo, "validator")
}

/// The command lines of planners, by the names of their settings. That of `aynig.evaluator` has no name.
pub fn evaluators(repo: &Repo) -> Result<BTreeMap<String, String>, Error> {
    lines(repo, "evaluator")
}

/// The last value of a name counts. A blank one takes the line back.
fn lines(repo: &Repo, family: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut found = BTreeMap::new();
    for entry in repo.settings("aynig") {
        let Some(name) = name_in(&entry.name, family) else { continue };
        let Some(line) = &entry.value else { return Err(wrong(&entry, "a value is required")) };
        if line.trim().is_empty() {
            found.remove(&name);
        } else {
            found.insert(name, line.clone());
        }
    }
    Ok(found)
}

/// The name in a setting of the family; empty if it is the family's own.
fn name_in(setting: &str, family: &str) -> Option<String> {
    let (head, name) = setting.split_once('.').unwrap_or((setting, ""));
    head.eq_ignore_ascii_case(family).then(|| setting_name(name))
}
