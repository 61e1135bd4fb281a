//! A person who types lines into a terminal: each line is shown, and run by a shell, word for word.

use std::path::Path;

use aynig::ops::error::Error;
use aynig::stop::Stop;
use aynig::supervise::typed;

use crate::cli::exit::Exit;
use crate::cli::help::demo::scene;
use crate::cli::ui::{self, STRONG, styled};

/// Variables that would lead the lines elsewhere, or make them wait for a key.
const VARIABLES: [(&str, &str); 4] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
];

/// A person who types lines into a terminal.
pub(super) struct Typist<'a> {
    pub(super) program: &'a Path,
    pub(super) directory: &'a Path,
    pub(super) stop: &'a Stop,
}

impl Typist<'_> {
    /// Shows a line, and runs it. An exit code other than the expected one is an error.
    pub(super) fn types(&self, line: &str, expected: Exit) -> Result<(), Error> {
        if self.stop.cause().is_some() {
            return Err(Error::failed("stopped"));
        }
        ui::answer("");
        ui::answer(&format!("$ {}", styled(STRONG, line)));
        let ended = typed(line, ("aynig", self.program), self.directory, &VARIABLES)
            .map_err(|error| Error::because(&format!("run `{line}`"), &error))?;
        if ended.code() == Some(i32::from(expected.code())) {
            return Ok(());
        }
        Err(Error::failed(format!("`{line}` ended with {ended}")))
    }

    /// The slug of the only run, by the name of its driver.
    pub(super) fn slug(&self) -> Result<String, Error> {
        let named = scene::git(self.directory).args([
            "for-each-ref",
            "--format=%(refname:lstrip=3)",
            "refs/heads/run/",
        ]);
        let named = named.run().map_err(|error| Error::because("look for the run", &error))?;
        let named = named.text();
        let slug = named.split('/').next().filter(|slug| !slug.is_empty());
        slug.map(str::to_owned).ok_or_else(|| Error::failed("no run was made"))
    }
}
