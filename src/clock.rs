//! Reads the clocks and formats times.
//!
//! There are three clocks, and they are never mixed:
//!
//! - The wall clock dates commits and is compared with the dates other hosts wrote (CONTRACT 5.4).
//!   It can jump.
//! - The monotonic clock measures waits within this process. It cannot jump.
//! - The clock since boot measures across processes and keeps counting while the host is suspended.
//!
//! Every decision (is the lease over? is the grace period used up?) takes a number read here and is
//! a pure function of it. The caller decides how much clock skew between hosts it tolerates.
//!
//! Invariant: no other file calls `SystemTime::now` or `Instant::now` (clippy's
//! `disallowed-methods`).

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// How far the clock of files may lag behind: more than a tick of any kernel.
const COARSE_MILLIS: i64 = 20;

/// Whole seconds since 1970-01-01T00:00:00Z by the wall clock, negative before it. Commit dates
/// have this resolution.
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

/// Offset added to the wall clock, from `AYNIG_CLOCK_OFFSET_SECONDS`. Debug builds only: tests
/// simulate hosts whose clocks differ.
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

/// The system's wall clock without the test offset, for comparison with file timestamps.
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

/// Time since this host booted, suspended time included (`CLOCK_BOOTTIME`). Uses the monotonic
/// clock on systems without that clock. Returns zero if the clock cannot be read, so that no time
/// appears to pass.
#[must_use]
pub(crate) fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::CLOCK_MONOTONIC;
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// Identifies what [`since_boot`] counts from: the kernel's boot id and the time namespace, which
/// can have its own offset. If the kernel reports no boot id, the result identifies this process,
/// so no time is compared across processes.
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

/// Measures elapsed time on the monotonic clock.
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

/// A moment in this process, to be compared with the times of files whose clock may jump meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    wall: SystemTime,
    watch: Stopwatch,
}

impl Moment {
    /// This moment.
    pub(crate) fn now() -> Self {
        Self { wall: wall(), watch: Stopwatch::start() }
    }

    /// The earliest time that a file can have, in milliseconds since 1970, if it was made after
    /// this moment. Allows for the coarse clock of files, and for a clock that was set back.
    pub(crate) fn earliest(&self) -> i64 {
        let by_the_clock_of_now = wall().checked_sub(self.watch.elapsed()).unwrap_or(UNIX_EPOCH);
        let earlier = self.wall.min(by_the_clock_of_now);
        let since = earlier.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX).saturating_sub(COARSE_MILLIS)
    }
}

/// A point in time as a commit header records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalTime {
    /// Seconds since the epoch.
    pub(crate) seconds: i64,
    /// Seconds east of UTC.
    pub(crate) offset_seconds: i32,
}

impl LocalTime {
    /// That many seconds after the epoch, in this host's time zone.
    pub(crate) fn at(seconds: i64) -> Self {
        let offset = chrono::DateTime::from_timestamp(seconds, 0)
            .map_or(0, |utc| utc.with_timezone(&chrono::Local).offset().local_minus_utc());
        Self { seconds, offset_seconds: offset }
    }

    /// The UTC offset in git's format: `+0200`.
    #[must_use]
    pub(crate) fn offset_text(&self) -> String {
        let minutes = self.offset_seconds.unsigned_abs() / 60;
        let sign = if self.offset_seconds < 0 { '-' } else { '+' };
        format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
    }
}

/// The current wall-clock time, in this host's time zone.
#[must_use]
pub(crate) fn local_time() -> LocalTime {
    LocalTime::at(wall_seconds())
}

/// Formats seconds since the epoch as `2026-01-31T12:00:00Z`; a number out of range as
/// `@<seconds>`.
#[must_use]
pub fn format_utc(seconds: i64) -> String {
    chrono::DateTime::from_timestamp(seconds, 0)
        .map_or_else(|| format!("@{seconds}"), |utc| utc.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
}

/// Formats milliseconds since the epoch as `2026-01-31T12:00:00.000Z`.
#[must_use]
pub fn format_utc_millis(millis: i64) -> String {
    chrono::DateTime::from_timestamp_millis(millis)
        .map_or_else(|| format!("@{millis}"), |utc| utc.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
}

/// Formats whole seconds for people, in at most two units: `42 s`, `2 min 5 s`, `3 d 2 h`.
#[must_use]
pub fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min {} s", seconds / 60, seconds % 60),
        7200..=172_799 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Formats whole seconds like [`span`], but in the largest unit only, for narrow columns.
#[must_use]
pub fn span_in_short(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats a duration like [`span`]; below ten seconds, to a tenth of a second.
#[must_use]
pub fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..=9 => format!("{:.1} s", time.as_secs_f64()),
        seconds => span(seconds),
    }
}

/// Sleeps before a retry.
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
