//! The cost of a command: wall clock, CPU time with all children, and the peak of its own memory.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// One run of one command.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// From its start to its end.
    pub wall_ms: f64,
    /// User and system time, its children's included.
    pub cpu_ms: f64,
    /// Peak memory of the process itself (`VmHWM`, sampled every few milliseconds).
    pub peak_kib: u64,
    /// Connections to a remote, if there is one.
    pub connections: Option<usize>,
}

/// Runs a command that must succeed.
pub(super) fn measure(command: &mut Command) -> Sample {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let before = children_cpu_ms();
    let start = Instant::now();
    let child = command.spawn().expect("it starts");
    let pid = child.id();
    let over = AtomicBool::new(false);
    let (output, peak_kib, wall) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak = 0;
            while !over.load(Ordering::Relaxed) {
                peak = peak.max(high_water_kib(pid));
                std::thread::park_timeout(Duration::from_millis(3));
            }
            peak
        });
        let output = child.wait_with_output().expect("it is ours");
        let wall = start.elapsed();
        over.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        (output, watcher.join().expect("it only reads"), wall)
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let cpu_ms = children_cpu_ms() - before;
    Sample { wall_ms: wall.as_secs_f64() * 1000.0, cpu_ms, peak_kib, connections: None }
}

/// The middle value, or the mean of the two in the middle.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => f64::NAN,
        0 => (values[half - 1] + values[half]) / 2.0,
        _ => values[half],
    }
}

fn children_cpu_ms() -> f64 {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).expect("always allowed");
    let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).expect("time goes forward")).as_secs_f64() * 1000.0
}

fn high_water_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
