//! Programs of the system that some tests need besides git: shells, systemd, readers of manual pages.
//!
//! A bare machine may lack them, and the tests say so and pass there. With `AYNIG_TESTS_SKIP_NOTHING=1`, as `.ci/run` has it,
//! a program that is missing fails its test.

use std::path::PathBuf;

/// Where a program is, if it is installed; else says that the test is skipped.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let found = places.map(|place| PathBuf::from(place).join(name)).find(|file| file.is_file());
    if found.is_none() {
        skipped(&format!("`{name}` is not installed here"));
    }
    found
}

/// Says why a test is skipped, or fails it where nothing may be.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to see it")]
pub(crate) fn skipped(why: &str) {
    let nothing = std::env::var_os("AYNIG_TESTS_SKIP_NOTHING").is_some_and(|value| value == "1");
    assert!(!nothing, "{why}");
    eprintln!("skipped: {why}");
}

/// A file that is committed here.
pub(crate) fn shipped(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}
