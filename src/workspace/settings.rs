//! Settings that execute: compared with those that there were when a workspace was made
//! (CONTRACT 15.12).
//!
//! Invariant: no git call works in a worktree before they were compared. Digests are recorded, since
//! values can be secrets.

use std::collections::BTreeMap;
use std::path::Path;

use uuid::Uuid;

use crate::git::repo::executing::Executing;
use crate::words::shell_quote;

use super::Workspaces;
use super::context::Context;
use super::refusal::{Refusal, Why};

impl Workspaces<'_> {
    /// The digests of the settings that execute, by key.
    pub(super) fn executing(&self) -> Result<BTreeMap<String, String>, Refusal> {
        self.executing_at(self.repo.common_dir()).map(|found| digests(&found))
    }

    /// Refuses to work in a worktree if a setting that executes was added or changed.
    pub(super) fn check_settings(&self, context: &Context) -> Result<(), Refusal> {
        let all =
            self.repo.workspace_worktrees().map_err(|error| Refusal::because("list worktrees", &error))?;
        let is_its = |mark: &crate::git::worktrees::registration::Mark| mark.attempt == context.run();
        let its = all.iter().find(|one| one.workspace().is_some_and(is_its));
        let at = its.map_or(self.repo.common_dir(), |one| one.checkout.place.git_dir.as_path());
        let found = self.executing_at(at)?;
        let now = digests(&found);
        let changed: Vec<&String> = now
            .iter()
            .filter(|(key, digest)| context.settings.get(*key) != Some(digest))
            .map(|(key, _)| key)
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = changed.iter().map(|key| key.as_str()).collect();
        let message = format!(
            "settings that make git run programs were changed after {} was made: {}; nothing was changed",
            context.handle(),
            names.join(", ")
        );
        let mut refusal = Refusal::new(Why::Failed, message);
        let mut seen = Vec::new();
        for Executing { key, file, .. } in found.iter().filter(|one| changed.contains(&&one.key)) {
            let file = shell_quote(&file.to_string_lossy());
            let command = if context.settings.contains_key(key) {
                format!("give it the value that it had: `git config --file {file} --edit` ({key})")
            } else {
                format!("`git config --file {file} --unset-all {}`", shell_quote(key))
            };
            if !seen.contains(&command) {
                refusal = refusal.hint(command.clone());
                seen.push(command);
            }
        }
        Err(refusal
            .hint("a setting that is wanted belongs into your own configuration: `git config --global`"))
    }

    fn executing_at(&self, git_dir: &Path) -> Result<Vec<Executing>, Refusal> {
        let found = self.repo.executing_settings(git_dir);
        found.map_err(|error| Refusal::because("read git's settings", &error))
    }
}

fn digests(found: &[Executing]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    for Executing { key, value, .. } in found {
        let all = values.entry(key).or_default();
        all.push_str(value);
        all.push('\0');
    }
    let digest = |text: &str| Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).to_string();
    values.into_iter().map(|(key, text)| (key.to_owned(), digest(&text))).collect()
}
