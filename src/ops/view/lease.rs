//! Words for leases.

use crate::clock;
use crate::contract::lease::Lease;

/// Describes the holder of a lease: runner, attempt and end.
pub fn lease_words(lease: &Lease) -> String {
    let end = clock::format_utc(lease.expires_at());
    format!("{} (attempt {}, until {end})", runner_words(lease), lease.run_id)
}

/// Stands for the name of a runner that has none.
pub const UNNAMED: &str = "an unnamed runner";

/// Returns the name of a lease's runner.
pub fn runner_words(lease: &Lease) -> String {
    if lease.runner.is_empty() { UNNAMED.to_owned() } else { lease.runner.to_string() }
}
