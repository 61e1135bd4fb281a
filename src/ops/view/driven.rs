//! A flow run in one line, in the place of its driver.

/// A run whose driver is among the branches that are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrivenView {
    /// Its driver.
    pub branch: String,
    /// Its work branch.
    pub work: Option<String>,
    /// What people type.
    pub slug: String,
    /// The text for people.
    pub label: String,
    /// The verdict, else the place.
    pub word: &'static str,
    /// Where it stands, in a sentence.
    pub words: String,
    /// The command to type next.
    pub next: Option<String>,
    /// Whether it has ended.
    pub is_ended: bool,
}
