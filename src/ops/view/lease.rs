//! Words for leases.

use crate::clock;
use crate::contract::lease::Lease;

/// Who holds a lease: runner, attempt and end.
pub fn lease_words(lease: &Lease) -> String {
    let end = clock::format_utc(lease.expires_at());
    format!("{} (attempt {}, until {end})", runner_words(lease), lease.run_id)
}

/// The runner a lease names.
pub fn runner_words(lease: &Lease) -> String {
    if lease.runner.is_empty() { "an unnamed runner".to_owned() } else { lease.runner.to_string() }
}
