//! Faults and warnings of a flow file, each with its position.

use std::fmt;

/// A position in a file, counted from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file is refused.
    Fault,
    /// The file is taken.
    Warning,
}

impl Severity {
    /// The word in messages and in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
        }
    }
}

/// A fault or a warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// Its position.
    pub place: Place,
    /// How bad it is.
    pub severity: Severity,
    /// The fault.
    pub what: String,
    /// The advice for another text.
    pub instead: String,
}

impl Note {
    /// Whether it is more than a warning.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        self.severity == Severity::Fault
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: Place { line, column }, severity, what, instead } = self;
        write!(f, "{line}:{column}: {}: {what}; {instead}", severity.word())
    }
}

/// The notes about a file, collected.
#[derive(Debug, Default)]
pub struct Notes(Vec<Note>);

impl Notes {
    /// Adds a fault.
    pub(crate) fn fault(&mut self, place: Place, what: impl Into<String>, instead: impl Into<String>) {
        self.0.push(Note { place, severity: Severity::Fault, what: what.into(), instead: instead.into() });
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, place: Place, what: impl Into<String>, instead: impl Into<String>) {
        self.0.push(Note { place, severity: Severity::Warning, what: what.into(), instead: instead.into() });
    }

    /// All of them, by position.
    pub(crate) fn sorted(mut self) -> Vec<Note> {
        self.0.sort();
        self.0.dedup();
        self.0
    }
}
