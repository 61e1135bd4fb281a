//! Compares what a step changed with its policy.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bstr::ByteSlice;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};

use super::Rules;
use crate::flow::document::Execution;
use crate::flow::operations::{CI, LOCKFILES, Operation, operation};
use crate::git::objects::differences::{Difference, EXECUTABLE, LINK, SUBMODULE};
use crate::words::first_of;

/// How many violations a sentence names.
const NAMED: usize = 3;

/// A change that the policy forbids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path, with what is not UTF-8 replaced.
    pub path: String,
    /// The rule: a field of the policy, and its value.
    pub rule: String,
}

impl Violation {
    /// For a record.
    #[must_use]
    pub fn json(&self) -> Value {
        let is_path = self.rule.starts_with("allowed_paths") || self.rule.starts_with("forbidden_paths");
        let class = if is_path { "forbidden_path" } else { "forbidden_operation" };
        json!({ "violation_class": class, "path": self.path, "rule": self.rule })
    }

    /// For people.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} ({})", self.path, self.rule)
    }
}

/// A sentence about violations.
#[must_use]
pub fn sentence(violations: &[Violation]) -> String {
    let named = first_of(violations.iter().map(Violation::words), NAMED);
    format!("the policy forbids this change: {named}")
}

/// A glob of the file, with what it matches. A path that matches a directory matches all in it.
struct Paths {
    globs: GlobSet,
    names: Vec<String>,
}

impl Paths {
    fn new(patterns: &[String]) -> Self {
        let (mut builder, mut names) = (GlobSetBuilder::new(), Vec::new());
        for pattern in patterns {
            let inside = pattern.strip_suffix('/').unwrap_or(pattern);
            let itself = (inside == pattern).then(|| inside.to_owned());
            for text in itself.into_iter().chain([format!("{inside}/**")]) {
                // Patterns were checked when the file was read.
                if let Ok(glob) = GlobBuilder::new(&text).literal_separator(true).build() {
                    builder.add(glob);
                    names.push(pattern.clone());
                }
            }
        }
        Self { globs: builder.build().unwrap_or_default(), names }
    }

    fn matching(&self, path: &Path) -> Option<&str> {
        let first = self.globs.matches(path).into_iter().next()?;
        self.names.get(first).map(String::as_str)
    }
}

impl Rules {
    /// The violations of a change, by path.
    #[must_use]
    pub fn violations(&self, changes: &[Difference]) -> Vec<Violation> {
        let allowed: Vec<Paths> = self.allowed_paths.iter().map(|globs| Paths::new(globs)).collect();
        let forbidden = Paths::new(&self.forbidden_paths);
        let mut found = Vec::new();
        for change in changes {
            let path = Path::new(OsStr::from_bytes(&change.path));
            let mut broken = |rule: String| {
                found.push(Violation { path: change.path.to_str_lossy().into_owned(), rule });
            };
            if self.execution == Execution::ReadOnly {
                broken("execution_posture: read_only".to_owned());
            }
            if let Some(index) = allowed.iter().position(|paths| paths.matching(path).is_none()) {
                let globs = self.allowed_paths.get(index).map(|globs| globs.join(", ")).unwrap_or_default();
                broken(format!("allowed_paths: {globs}"));
            }
            if let Some(pattern) = forbidden.matching(path) {
                broken(format!("forbidden_paths: {pattern}"));
            }
            for word in &self.forbidden_operations {
                if operation(word).is_some_and(|operation| is_such(change, operation)) {
                    broken(format!("forbidden_operations: {word}"));
                }
            }
        }
        found
    }
}

/// Whether a change is such an operation.
fn is_such(change: &Difference, operation: Operation) -> bool {
    let mode = |side: Option<(u16, _)>| side.map(|(mode, _)| mode);
    let (old, new) = (mode(change.old), mode(change.new));
    match operation {
        Operation::Delete => new.is_none(),
        Operation::ChangeMode => old.is_some() && new.is_some() && old != new,
        Operation::Executable => new == Some(EXECUTABLE) && old != new,
        Operation::Symlink => new == Some(LINK),
        Operation::Submodule => {
            old == Some(SUBMODULE) || new == Some(SUBMODULE) || change.path == ".gitmodules"
        }
        Operation::Lockfile => {
            let name = change.path.rsplit_once_str("/").map_or(change.path.as_bytes(), |(_, name)| name);
            LOCKFILES.iter().any(|lockfile| name == lockfile.as_bytes())
        }
        Operation::Ci => CI.iter().any(|place| {
            let rest = change.path.strip_prefix(place.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ids::CommitId;
    use crate::flow::operations::OPERATIONS;

    const FILE: u16 = 0o100_644;

    fn change(path: &str, old: Option<u16>, new: Option<u16>) -> Difference {
        let id = |digit: &str| CommitId::parse_hex(digit.repeat(40)).expect("an id");
        Difference {
            path: path.into(),
            old: old.map(|mode| (mode, id("1"))),
            new: new.map(|mode| (mode, id("2"))),
        }
    }

    fn rules_of(rules: &Rules, path: &str) -> Vec<String> {
        let found = rules.violations(&[change(path, Some(FILE), Some(FILE))]);
        found.into_iter().map(|violation| violation.rule).collect()
    }

    /// CONTRACT 18.15
    #[test]
    fn paths_are_compared_with_globs() {
        let globs = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let forbidden = Rules {
            forbidden_paths: globs(&["secret", "docs/", "*.md", "**/*.pem", "src/*.rs"]),
            ..Rules::default()
        };
        for (path, pattern) in [
            ("secret", Some("secret")),
            ("secret/deep/x", Some("secret")),
            ("secrets", None),
            ("a/secret", None),
            ("docs", None),
            ("docs/a/b", Some("docs/")),
            ("README.md", Some("*.md")),
            ("a/README.md", None),
            ("x.pem", Some("**/*.pem")),
            ("a/b/x.pem", Some("**/*.pem")),
            ("src/a.rs", Some("src/*.rs")),
            ("src/a/b.rs", None),
        ] {
            let wanted: Vec<String> = pattern.iter().map(|one| format!("forbidden_paths: {one}")).collect();
            assert_eq!(rules_of(&forbidden, path), wanted, "{path}");
        }
        let allowed =
            Rules { allowed_paths: vec![globs(&["src", "docs/"]), globs(&["**/*.rs"])], ..Rules::default() };
        for (path, rule) in [
            ("src/a.rs", None),
            ("docs/a.rs", None),
            ("src/a.c", Some("allowed_paths: **/*.rs")),
            ("a.rs", Some("allowed_paths: src, docs/")),
        ] {
            let wanted: Vec<String> = rule.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(rules_of(&allowed, path), wanted, "{path}");
        }
        assert_eq!(rules_of(&Rules::default().read_only(), "a"), ["execution_posture: read_only"]);
        assert!(Rules::default().read_only().violations(&[]).is_empty());
    }

    /// CONTRACT 18.15
    #[test]
    fn operations_are_told_by_the_change() {
        let (file, executable) = (Some(FILE), Some(EXECUTABLE));
        for (path, old, new, words) in [
            ("a", file, file, &[][..]),
            ("a", None, file, &[]),
            ("a", file, None, &["delete"]),
            ("a", file, executable, &["change_mode", "executable"]),
            ("a", executable, executable, &[]),
            ("a", None, executable, &["executable"]),
            ("a", executable, file, &["change_mode"]),
            ("a", None, Some(LINK), &["symlink"]),
            ("a", Some(LINK), Some(LINK), &["symlink"]),
            ("a", file, Some(LINK), &["change_mode", "symlink"]),
            ("a", None, Some(SUBMODULE), &["submodule"]),
            ("a", Some(SUBMODULE), None, &["delete", "submodule"]),
            (".gitmodules", file, file, &["submodule"]),
            ("Cargo.lock", file, file, &["lockfile"]),
            ("web/package-lock.json", None, file, &["lockfile"]),
            ("my.Cargo.lock", file, file, &[]),
            (".github/workflows/x.yml", file, file, &["ci"]),
            (".github/CODEOWNERS", file, file, &[]),
            (".gitlab-ci.yml", file, None, &["delete", "ci"]),
            (".gitlab-ci.yml.md", file, file, &[]),
        ] {
            let all = OPERATIONS.map(|(word, _)| word.to_owned()).to_vec();
            let rules = Rules { forbidden_operations: all, ..Rules::default() };
            let found = rules.violations(&[change(path, old, new)]);
            let found: Vec<&str> =
                found.iter().filter_map(|one| one.rule.strip_prefix("forbidden_operations: ")).collect();
            assert_eq!(found, words, "{path} {old:?} {new:?}");
        }
        let unknown = Rules { forbidden_operations: vec!["push".to_owned()], ..Rules::default() };
        assert!(rules_of(&unknown, "a").is_empty());
    }

    #[test]
    fn a_sentence_names_three() {
        let violation = |path: &str| Violation { path: path.to_owned(), rule: "r".to_owned() };
        let all: Vec<Violation> = ["a", "b", "c", "d", "e"].into_iter().map(violation).collect();
        assert_eq!(sentence(&all[..1]), "the policy forbids this change: a (r)");
        assert_eq!(sentence(&all), "the policy forbids this change: a (r), b (r), c (r) and 2 more");
    }
}
