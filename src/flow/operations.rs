//! The operations that a policy can forbid: each can be seen in a change of files.

use super::fault::Notes;
use super::fields::{Words, choose};

/// An operation that a policy can forbid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A file goes. A renamed file goes, too.
    Delete,
    /// A file that stays gets other permissions, or becomes a link, or ceases to be one.
    ChangeMode,
    /// A file becomes executable, or is a new executable one.
    Executable,
    /// A symbolic link is new, or leads elsewhere.
    Symlink,
    /// A submodule is new, at another commit, or gone; or `.gitmodules` changes.
    Submodule,
    /// A list of resolved dependencies changes.
    Lockfile,
    /// What a service for continuous integration runs changes.
    Ci,
}

/// The operations and their words.
pub const OPERATIONS: [(&str, Operation); 7] = [
    ("delete", Operation::Delete),
    ("change_mode", Operation::ChangeMode),
    ("executable", Operation::Executable),
    ("symlink", Operation::Symlink),
    ("submodule", Operation::Submodule),
    ("lockfile", Operation::Lockfile),
    ("ci", Operation::Ci),
];

/// Lists of resolved dependencies, by name, in any directory.
pub const LOCKFILES: [&str; 25] = [
    "Cargo.lock",
    "Gemfile.lock",
    "MODULE.bazel.lock",
    "Package.resolved",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "conan.lock",
    "deno.lock",
    "flake.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "packages.lock.json",
    "pdm.lock",
    "pixi.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

/// Files and directories with what services for continuous integration run.
pub const CI: [&str; 17] = [
    ".buildkite",
    ".circleci",
    ".cirrus.yml",
    ".drone.yml",
    ".forgejo/workflows",
    ".gitea/workflows",
    ".github/actions",
    ".github/workflows",
    ".gitlab-ci.yml",
    ".gitlab/ci",
    ".travis.yml",
    ".woodpecker",
    ".woodpecker.yml",
    "Jenkinsfile",
    "appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
];

/// The operation with this word.
#[must_use]
pub fn operation(word: &str) -> Option<Operation> {
    OPERATIONS.iter().find(|(known, _)| *known == word).map(|(_, operation)| *operation)
}

/// Warns of words that no change of files can be compared with.
pub(crate) fn check(words: &[Words<'_>], notes: &mut Notes) {
    for Words { at, text } in words {
        if operation(text).is_none() {
            let what = format!("the operation {text} is not looked for");
            notes.warn(*at, what, choose(text, OPERATIONS.iter().map(|(word, _)| *word)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 18.16
    #[test]
    fn unknown_operations_are_a_warning() {
        let mut notes = Notes::default();
        let at = crate::flow::fault::Place { line: 2, column: 3 };
        check(
            &[Words { at, text: "delete" }, Words { at, text: "lockfiles" }, Words { at, text: "push" }],
            &mut notes,
        );
        let notes: Vec<String> = notes.sorted().iter().map(ToString::to_string).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!(
            notes[0],
            "2:3: warning: the operation lockfiles is not looked for; did you mean lockfile?"
        );
        assert!(
            notes[1].starts_with("2:3: warning: the operation push is not looked for; write one of: delete"),
            "{notes:?}"
        );
    }
}
