//! The one reader of time, and how times are said.
//!
//! Three clocks, never mixed: the wall clock dates commits and is compared with other hosts' (CONTRACT.md §5), so
//! it may jump; the monotonic clock measures waits and cannot; the clock since boot measures from one process to the next,
//! and goes on while the host is suspended. Everything that decides (is a
//! lease over? is the grace used up?) takes a number read here and stays a pure function of it; how much skew between
//! hosts is tolerable is decided by whoever compares.
//!
//! Invariant: no other file calls `SystemTime::now` or `Instant::now` (clippy's `disallowed-methods`).

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Whole seconds since 1970-01-01T00:00:00Z by the wall clock, negative before it; the resolution of a commit's date.
#[must_use]
pub fn wall_seconds() -> i64 {
    wall_millis().div_euclid(1000)
}

/// Milliseconds since 1970-01-01T00:00:00Z by the wall clock, negative before it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the wall clock")]
pub fn wall_millis() -> i64 {
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let read = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => millis(after),
        Err(before) => -millis(before.duration()),
    };
    read.saturating_add(offset_millis())
}

/// By how much this process is to believe the wall clock wrong; only a debug build can be told to, for tests of hosts
/// whose clocks differ.
#[cfg(debug_assertions)]
fn offset_millis() -> i64 {
    static OFFSET: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    *OFFSET.get_or_init(|| {
        let told = std::env::var("AYNIG_CLOCK_OFFSET_SECONDS").unwrap_or_else(|_| "0".to_owned());
        told.parse::<i64>().expect("AYNIG_CLOCK_OFFSET_SECONDS is a number of seconds").saturating_mul(1000)
    })
}

#[cfg(not(debug_assertions))]
fn offset_millis() -> i64 {
    0
}

/// The wall clock as the system has it, to be compared with the dates of files.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the wall clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// A point on the monotonic clock, for deadlines within this process only.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one reader of the monotonic clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The clock that counts from the boot of this host, suspended time included, where there is one; else the monotonic clock of the
/// system. Zero if it cannot be read, so that no time seems to pass.
#[must_use]
pub(crate) fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::CLOCK_MONOTONIC;
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// What [`since_boot`] counts from: the kernel's name for this boot, and the time namespace, which may have a count of its own. Where
/// the kernel names no boot, this process stands for it, so that nothing is compared beyond it.
#[must_use]
pub(crate) fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        let name = match kernel.trim() {
            "" => format!("process-{}-{}", std::process::id(), wall_millis()),
            kernel => format!("{kernel}/{}", namespace.display()),
        };
        name.split_whitespace().collect()
    })
}

/// Measures how long something took, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts measuring now.
    #[must_use]
    pub fn start() -> Self {
        Self { started: monotonic() }
    }

    /// Time since the start; never negative.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        monotonic().saturating_duration_since(self.started)
    }
}

/// A moment as a commit header spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalTime {
    /// Seconds since the epoch.
    pub(crate) seconds: i64,
    /// East of UTC, seconds.
    pub(crate) offset_seconds: i32,
}

impl LocalTime {
    /// The offset as git writes it: `+0200`.
    #[must_use]
    pub(crate) fn offset_text(&self) -> String {
        let minutes = self.offset_seconds.unsigned_abs() / 60;
        let sign = if self.offset_seconds < 0 { '-' } else { '+' };
        format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
    }
}

/// Now, by the wall clock, in the zone of this host.
#[must_use]
pub(crate) fn local_time() -> LocalTime {
    let seconds = wall_seconds();
    let offset = chrono::DateTime::from_timestamp(seconds, 0)
        .map_or(0, |utc| utc.with_timezone(&chrono::Local).offset().local_minus_utc());
    LocalTime { seconds, offset_seconds: offset }
}

/// Seconds since the epoch as `2026-01-31T12:00:00Z`.
#[must_use]
pub fn format_utc(seconds: i64) -> String {
    chrono::DateTime::from_timestamp(seconds, 0)
        .map_or_else(|| format!("@{seconds}"), |utc| utc.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
}

/// So many whole seconds, as people say them: `42 s`, `2 min 5 s`, `3 d 2 h`.
#[must_use]
pub fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min {} s", seconds / 60, seconds % 60),
        7200..=172_799 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The same in its largest unit alone, where room is short.
#[must_use]
pub fn span_in_short(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long something took, as people say it: like [`span`], and a short one to a tenth of a second.
#[must_use]
pub fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..=9 => format!("{:.1} s", time.as_secs_f64()),
        seconds => span(seconds),
    }
}

/// Lets some time pass before something is tried again.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_millis_tell_the_same_time() {
        let (before, seconds, after) = (wall_millis(), wall_seconds(), wall_millis());
        assert!(before.div_euclid(1000) <= seconds && seconds <= after.div_euclid(1000));
        assert!(seconds > 1_600_000_000, "the clock of this machine is set");
    }

    #[test]
    fn the_clock_since_boot_counts_and_the_boot_has_one_name() {
        let before = since_boot();
        assert!(before > Duration::ZERO && since_boot() >= before);
        assert!(!boot().is_empty() && !boot().contains(char::is_whitespace));
        assert_eq!(boot(), boot());
    }

    #[test]
    fn durations_read_well() {
        for (millis, text) in [
            (40, "0.0 s"),
            (3_240, "3.2 s"),
            (61_000, "61 s"),
            (125_000, "2 min 5 s"),
            (7_260_000, "2 h 1 min"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn spans_read_well() {
        for (seconds, text) in [
            (0, "0 s"),
            (119, "119 s"),
            (125, "2 min 5 s"),
            (7_260, "2 h 1 min"),
            (172_799, "47 h 59 min"),
            (266_400, "3 d 2 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn a_stopwatch_never_runs_backwards() {
        let watch = Stopwatch::start();
        let first = watch.elapsed();
        assert!(watch.elapsed() >= first);
    }
}
