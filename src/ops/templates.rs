//! Texts of roles: those of a base commit, and those that come with the program (CONTRACT 22.32).

use crate::contract::ids::CommitId;
use crate::flow::base::MAX_FILE;
use crate::git::Repo;
use crate::git::objects::revspec::Content;
use crate::model::decide::texts::MAX_TEXT;
use crate::orch::templates::{SHIPPED, is_role, shipped};

use super::error::Error;
use super::trust;

/// The directory of a commit that has texts of roles.
const ABOVE: &str = ".aynig";
const DIRECTORY: &str = "templates";

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The base commit.
    Base,
    /// The program.
    Shipped,
}

impl Source {
    /// The word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Shipped => "shipped",
        }
    }
}

/// The text of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The role.
    pub role: String,
    /// The text.
    pub text: String,
    /// Where it comes from.
    pub source: Source,
}

/// The path of a role's text in a commit.
#[must_use]
pub fn path(role: &str) -> String {
    format!("{ABOVE}/{DIRECTORY}/{role}.md")
}

/// The text of a role. `None`: neither the base commit nor the program has one.
pub fn find(repo: &Repo, base: CommitId, role: &str) -> Result<Option<Template>, Error> {
    if !is_role(role) {
        let shown: String = role.chars().take(80).collect();
        return Err(Error::usage(format!(
            "{shown:?} is no role: write 1 to 64 letters, digits, - and _; nothing was changed"
        )));
    }
    let path = path(role);
    let found = repo.content_at(base, &path, MAX_FILE);
    let found = found.map_err(|error| Error::because(&format!("read {path}"), &error))?;
    let of_base = match found {
        Some(Content::File { bytes, .. }) => Some(bytes),
        Some(Content::Directory | Content::Link(_)) | None => None,
    };
    let Some(bytes) = of_base else {
        let text = shipped(role).map(str::to_owned);
        return Ok(text.map(|text| Template { role: role.to_owned(), text, source: Source::Shipped }));
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if text.len() > MAX_TEXT {
        let message = format!("{path} of {} has {} bytes; nothing was changed", base.short(), text.len());
        return Err(Error::failed(message).hint(format!("the text of a role has at most {MAX_TEXT} bytes")));
    }
    Ok(Some(Template { role: role.to_owned(), text, source: Source::Base }))
}

/// The text of a role for a node of a run with this base. Where commands are taken from another ref, that has to have the
/// same one (CONTRACT 22.31).
pub fn for_node(repo: &Repo, base: CommitId, role: &str) -> Result<Option<String>, Error> {
    let found = find(repo, base, role)?;
    trust::check_template(repo, &path(role), base)?;
    Ok(found.map(|template| template.text))
}

/// All texts for a base commit, by role.
pub fn list(repo: &Repo, base: CommitId) -> Result<Vec<Template>, Error> {
    let because = |error: &dyn std::error::Error| Error::because("list the texts of roles", error);
    let above = repo.directory_at(base, ABOVE).map_err(|error| because(&error))?;
    let tree = match above {
        Some(above) => repo.directory_in(above, DIRECTORY).map_err(|error| because(&error))?,
        None => None,
    };
    let paths = tree.map_or_else(|| Ok(Vec::new()), |tree| repo.paths_in(tree));
    let paths = paths.map_err(|error| because(&error))?;
    let own = paths.iter().filter_map(|path| path.strip_suffix(".md"));
    let mut roles: Vec<&str> = own.chain(SHIPPED.iter().map(|(role, _)| *role)).collect();
    roles.retain(|role| is_role(role));
    roles.sort_unstable();
    roles.dedup();
    let found = roles.into_iter().map(|role| find(repo, base, role)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().collect())
}
