//! Git's configuration, all layers and includes of it, as git itself would read it.
//!
//! Invariant: it is read, never written: any write takes a lock that parallel runners would fight over. What the
//! values mean is left to whoever asks.

use std::path::PathBuf;

use bstr::ByteSlice;

use super::process::Git;
use super::repo::Repo;

/// One entry of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name below the section, as written; with the subsection before it, if there is one.
    pub name: String,
    /// The value; `true` for a name that stands alone, as git takes it.
    pub value: String,
    /// The file it was read from, if it was one.
    pub file: Option<PathBuf>,
}

impl Repo {
    /// The pager that git itself would use on a terminal: `GIT_PAGER`, `core.pager`, `PAGER`, else what git was built with; `None`
    /// if there is to be none.
    pub fn pager(&self) -> Option<String> {
        let asked = Git::shared(self.common_dir()).args(["var", "GIT_PAGER"]).run();
        asked.ok().map(|output| output.text()).filter(|pager| !pager.is_empty() && pager != "cat")
    }

    /// A string from git's configuration, the last value winning; `None` when unset.
    pub fn config(&self, key: &str) -> Option<String> {
        self.gix.config_snapshot().string(key).map(|value| value.to_str_lossy().into_owned())
    }

    /// A boolean from git's configuration.
    pub fn config_flag(&self, key: &str) -> bool {
        self.gix.config_snapshot().boolean(key).unwrap_or(false)
    }

    /// The names of all remotes that are configured.
    pub fn remote_names(&self) -> Vec<String> {
        self.gix.remote_names().iter().map(|name| name.to_str_lossy().into_owned()).collect()
    }

    /// All entries of a section, the widest layer (the system's) first.
    pub fn settings(&self, section: &str) -> Vec<Setting> {
        let snapshot = self.gix.config_snapshot();
        let mut settings = Vec::new();
        for part in snapshot.plumbing().sections_by_name(section).into_iter().flatten() {
            let prefix = part.header().subsection_name().map(|name| format!("{name}.")).unwrap_or_default();
            let mut seen: Vec<String> = Vec::new();
            for name in part.value_names() {
                let lower = name.to_ascii_lowercase();
                if seen.contains(&lower) {
                    continue;
                }
                seen.push(lower);
                let mut values = part.values(&name);
                if values.is_empty() {
                    values.push("true".into());
                }
                settings.extend(values.into_iter().map(|value| Setting {
                    name: format!("{prefix}{name}"),
                    value: value.to_str_lossy().into_owned(),
                    file: part.meta().path.clone(),
                }));
            }
        }
        settings
    }
}
