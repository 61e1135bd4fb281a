//! `cargo bench`: the cost of `aynig` next to plain git doing the same work, as a table; then the goals, and whether they
//! are met.
//!
//! Arguments select the cases by name (`cargo bench -- idle`). Variables set the sizes, see `suite::Sizes`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench starts processes, reads clocks, writes files and prints its table"
)]

mod suite;

fn main() {
    if suite::is_worker() {
        return;
    }
    // Cargo itself adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let sizes = suite::Sizes::from_environment();
    println!("{}", suite::head(&sizes));
    let goals = suite::run(&sizes, &wanted, &mut |line| println!("{line}"));
    if !goals.is_empty() && sizes.beside.is_none() {
        println!("\n{}\n{}", suite::goals::HEAD, goals.join("\n"));
    }
}
