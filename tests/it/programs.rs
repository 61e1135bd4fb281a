//! System programs that some tests need besides git: shells, systemd, man page readers.
//!
//! If one is missing, the test prints that and passes. With `AYNIG_TESTS_SKIP_NOTHING=1`, as `.ci/run` sets
//! it, the test fails.

use std::path::PathBuf;

/// The path of a program. If it is not installed, prints that the test is skipped.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let found = places.map(|place| PathBuf::from(place).join(name)).find(|file| file.is_file());
    if found.is_none() {
        skipped(&format!("`{name}` is not installed here"));
    }
    found
}

/// Prints why a test is skipped, or fails it if no test may be skipped.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to see it")]
pub(crate) fn skipped(why: &str) {
    let nothing = std::env::var_os("AYNIG_TESTS_SKIP_NOTHING").is_some_and(|value| value == "1");
    assert!(!nothing, "{why}");
    eprintln!("skipped: {why}");
}

/// The path of a file of this repository.
pub(crate) fn shipped(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}
