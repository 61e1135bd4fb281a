//! The binary: hands everything to [`aynig::cli`] and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    aynig::cli::entry::main()
}
