//! The binary: the command line over the library.

mod cli;

use std::process::ExitCode;

/// Returns freed memory to the system. The one of glibc keeps the peak of each thread, which adds up in a server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::entry::main()
}
