//! The demo's repository: a few text tools to write, and the commands that write, check and review them.
//!
//! Invariant: the user's configuration has no influence. Format, branch name and identity are fixed here,
//! signatures are off, and the user's templates and ignore lists are not used. So it also works without any
//! configuration.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bstr::{BString, ByteSlice};

use aynig::contract::ids::{BranchName, CommitId, StateName};
use aynig::contract::manual::{ManualState, set_state_draft};
use aynig::contract::message::Draft;
use aynig::contract::trailers::Trailer;
use aynig::fsutil;
use aynig::git::objects::commits::NewCommit;
use aynig::git::repo::open::GitVariables;
use aynig::git::{Git, ProcessError, Repo, Swap};
use aynig::ops::app::{App, Process};
use aynig::ops::error::Error;

/// One tool to write, on a branch of its own.
#[derive(Debug)]
pub(crate) struct Feature {
    /// The program's name; its branch is `feature/<name>`.
    pub(crate) name: &'static str,
    /// The request.
    pub(crate) wish: &'static str,
    input: &'static str,
    wanted: &'static str,
}

/// All features.
pub(crate) const FEATURES: [Feature; 3] = [
    Feature { name: "shout", wish: "Print the text in capitals.", input: "hello\n", wanted: "HELLO\n" },
    Feature {
        name: "count",
        wish: "Print how many there are.",
        input: "three little\nwords\n",
        wanted: "3\n",
    },
    Feature {
        name: "reverse",
        wish: "Print the last line first.",
        input: "one\ntwo\nthree\n",
        wanted: "three\ntwo\none\n",
    },
];

impl Feature {
    /// The feature's branch.
    pub(crate) fn branch(&self) -> BranchName {
        BranchName::new(format!("feature/{}", self.name)).expect("the names above make branch names")
    }
}

/// The files of the first commit: path, text, executable.
const FILES: [(&str, &str, bool); 6] = [
    ("README.md", include_str!("files/README.md"), false),
    ("tests/run", include_str!("files/run"), true),
    (".aynig/command/implement", include_str!("commands/implement"), true),
    (".aynig/command/check", include_str!("commands/check"), true),
    (".aynig/command/review", include_str!("commands/review"), true),
    (".aynig/command/stalled", include_str!("commands/stalled"), true),
];

/// Calls git without the user's configuration.
pub(crate) fn git(place: &Path) -> Git {
    Git::new(place)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_DEFAULT_HASH", "sha1")
        .env("GIT_DEFAULT_REF_FORMAT", "files")
        .env("GIT_CEILING_DIRECTORIES", place.parent().unwrap_or(place))
}

fn failed(error: ProcessError) -> Error {
    Error::because("make the repository of the demo", &error)
}

/// Makes an empty repository.
pub(crate) fn init(place: &Path) -> Result<(), Error> {
    git(place)
        .args(["init", "--quiet", "--initial-branch=main", "--template=", "."])
        .run()
        .map_err(failed)?;
    // Signing could ask for a passphrase a dozen times; the other two would change the committed files.
    configure(
        place,
        &[("commit.gpgSign", "false"), ("core.autocrlf", "false"), ("core.excludesFile", "/dev/null")],
    )
}

/// Sets what is in the repository's own configuration.
pub(crate) fn configure(place: &Path, settings: &[(&str, &str)]) -> Result<(), Error> {
    for (key, value) in settings {
        git(place).args(["config", key, value]).run().map_err(failed)?;
    }
    Ok(())
}

/// Commits all files of the checkout.
pub(crate) fn commit_all(place: &Path, subject: &str) -> Result<(), Error> {
    git(place).args(["add", "--all"]).run().map_err(failed)?;
    git(place).args(["commit", "--quiet", "--message", subject]).run().map_err(failed).map(drop)
}

/// Creates the repository in the empty directory `place`, with a branch per feature that is ready for
/// `implement`.
pub(crate) fn build(place: &Path, process: &Process) -> Result<App, Error> {
    init(place)?;
    for (path, text, program) in FILES {
        write(place, path, text, program)?;
    }
    for feature in &FEATURES {
        write(place, &format!("tests/{}/input", feature.name), feature.input, false)?;
        write(place, &format!("tests/{}/wanted", feature.name), feature.wanted, false)?;
    }
    git(place).args(["add", "--all"]).run().map_err(failed)?;

    let app = App::open(Process {
        start: place.to_owned(),
        variables: GitVariables::default(),
        ..process.clone()
    })?;
    let repo = app.repo();
    let checkout = repo.checkout().expect("a repository made with a checkout");
    let tree = repo.index_tree(&checkout).map_err(failed)?;
    let start = Draft { subject: BString::from("start: tests, and the commands"), ..Draft::default() };
    let main = BranchName::new("main").expect("a branch name");
    let first = commit(&repo, &main, tree, None, &start)?;
    for feature in &FEATURES {
        commit(&repo, &feature.branch(), tree, Some(first), &wish(feature)?)?;
    }
    Ok(app)
}

/// The commit that `aynig set-state --state implement …` would make.
fn wish(feature: &Feature) -> Result<Draft, Error> {
    let asked = ManualState {
        state: StateName::parse("implement").expect("a state name"),
        subject: Some(format!("{}: wanted", feature.name)),
        body: Some(feature.wish.into()),
        lease_seconds: None,
        trailers: vec![Trailer::new("dwp-feature", feature.name), Trailer::new("dwp-attempt", "1")],
        source: None,
        overrides: None,
        from_attempt: None,
    };
    set_state_draft(&asked).map_err(|error| Error::because("ask for a feature", &error))
}

/// Writes a commit and creates `branch` at it.
fn commit(
    repo: &Repo,
    branch: &BranchName,
    tree: CommitId,
    parent: Option<CommitId>,
    draft: &Draft,
) -> Result<CommitId, Error> {
    let trying = format!("make the branch {branch}");
    let message = draft.encode().map_err(|error| Error::because(&trying, &error))?;
    let parents: Vec<CommitId> = parent.into_iter().collect();
    let new = repo
        .write_commit(&NewCommit { tree, parents: &parents, message: &message, attempt: None })
        .map_err(|error| Error::because(&trying, &error))?;
    match repo.swap(branch.full_ref().as_bstr(), None, new, "aynig demo") {
        Ok(Swap::Won) => Ok(new),
        Ok(Swap::Lost { .. }) => Err(Error::setup(format!("could not {trying}: somebody else made it"))),
        Err(error) => Err(Error::because(&trying, &error)),
    }
}

/// Writes a file below `place`.
pub(crate) fn write(place: &Path, path: &str, text: &str, program: bool) -> Result<(), Error> {
    let file = place.join(path);
    let written = std::fs::create_dir_all(file.parent().unwrap_or(place))
        .and_then(|()| fsutil::replace(&file, text.as_bytes()))
        .and_then(|()| match program {
            true => std::fs::set_permissions(&file, Permissions::from_mode(0o755)),
            false => Ok(()),
        });
    written.map_err(|error| Error::because(&format!("write {}", file.display()), &error))
}
