//! Sessions and process groups: starts programs in sessions of their own, and reads process state
//! from `/proc`.
//!
//! Invariant: a program prepared by [`begin`] leads its own session and process group and has no
//! controlling terminal. A program that prompts on a terminal whose foreground group is another
//! (for a passphrase, or to trust a host key) would be stopped by SIGTTIN until a user notices.
//! Without a terminal it fails at once.
//!
//! [`processes`] and [`Place`] change nothing and never fail: a process that cannot be read counts
//! as gone.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the program call `setsid` before exec. The caller must not set a process group for it.
#[expect(
    unsafe_code,
    reason = "pre_exec runs between fork and exec; its hook takes no lock or memory and makes one async-signal-safe call"
)]
pub(crate) fn begin(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe, and an error is made from a number.
    unsafe {
        command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into));
    }
}

/// All process ids of this pid namespace, ascending; `None` where there is no readable `/proc`.
#[must_use]
pub(crate) fn processes() -> Option<Vec<i32>> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut all: Vec<i32> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    all.sort_unstable();
    if all.is_empty() { None } else { Some(all) }
}

/// State and group membership of a process, from `/proc/PID/stat` (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    state: u8,
    /// Process id of the parent.
    pub(crate) parent: i32,
    /// Process group id.
    pub(crate) group: i32,
    /// Session id.
    pub(crate) session: i32,
    /// CPU time used, user and system together, in clock ticks.
    pub(crate) used: u64,
    /// Start time, in clock ticks since the system booted.
    pub(crate) began: u64,
    /// Whether the program's name is `git` or begins with `git-`.
    pub(crate) is_git: bool,
}

impl Place {
    /// Reads the state of `pid`; `None` for a process that is gone.
    #[must_use]
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it has not exited. A zombie has.
    #[must_use]
    pub(crate) fn lives(self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether it is stopped (SIGSTOP, SIGTSTP) or traced.
    #[must_use]
    pub(crate) fn is_stopped(self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Whether it is runnable or in uninterruptible sleep (disk).
    #[must_use]
    pub(crate) fn is_at_work(self) -> bool {
        matches!(self.state, b'R' | b'D')
    }

    // The second field is the program's name in parentheses. The name may contain spaces,
    // parentheses and bytes that are not UTF-8, so the last `)` ends it.
    fn parse(stat: &[u8]) -> Option<Self> {
        let begin_of_name = stat.iter().position(|byte| *byte == b'(')? + 1;
        let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
        let name = stat.get(begin_of_name..end_of_name)?;
        let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        // utime and stime are fields 14 and 15; the fields from 7 to 13 (terminal, flags, page
        // faults) are skipped.
        let in_programs: u64 = fields.nth(7)?.parse().ok()?;
        let in_the_kernel: u64 = fields.next()?.parse().ok()?;
        // starttime is field 22; between them are the times of children, priorities and threads.
        let began = fields.nth(6)?.parse().ok()?;
        let is_git = name == b"git" || name.starts_with(b"git-");
        Some(Self { state, parent, group, session, used: in_programs + in_the_kernel, began, is_git })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let at = |state, parent, group, session, used, began, is_git| {
            Some(Place { state, parent, group, session, used, began, is_git })
        };
        let cases: [(&[u8], _); 8] = [
            (
                b"12 (sh) S 1 77 70 0 -1 4194560 1 2 3 4 500 30 7 8 20 0 1 0 9123 55",
                at(b'S', 1, 77, 70, 530, 9123, false),
            ),
            (b"12 (git) T 9 5 5 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 7", at(b'T', 9, 5, 5, 0, 7, true)),
            (b"12 (git-receive-pac) D 1 5 5 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 7", at(b'D', 1, 5, 5, 0, 7, true)),
            (b"12 (gitk) Z) R 1 42 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 7", at(b'R', 1, 42, 7, 3, 7, false)),
            (b"12 (\xff\xfe) Z 1 5 5 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 7", at(b'Z', 1, 5, 5, 0, 7, false)),
            (b"12 (sh) S 1", None),
            (b"12 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 500 30 7 8", None),
            (b"", None),
        ];
        for (line, expected) in cases {
            assert_eq!(Place::parse(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn this_process_is_where_the_system_says() {
        let Some(all) = processes() else { return };
        let pid = nix::unistd::getpid();
        assert!(all.contains(&pid.as_raw()));
        let place = Place::of(pid.as_raw()).unwrap();
        assert!(place.lives());
        assert_eq!(place.parent, nix::unistd::getppid().as_raw());
        assert_eq!(place.group, nix::unistd::getpgrp().as_raw());
        assert_eq!(place.session, nix::unistd::getsid(None).unwrap().as_raw());
        // Loops until these reads themselves have used two ticks. With a wrong field the value
        // would not grow.
        while Place::of(pid.as_raw()).unwrap().used < place.used + 2 {}
    }
}
