//! Finds the process that has a file open.

use std::fs;
use std::path::Path;

/// The id of a process that has the file open, other than this one.
pub fn process_with(path: &Path) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        *pid != std::process::id()
            && open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|target| target == path)
    })
}
