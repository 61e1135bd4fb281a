//! Sessions and groups of processes: one of its own for a program that is to be started, and where each process is.
//!
//! Invariant: what [`begin`] prepares leads a process group of the same number and has no terminal. What asks a question on the
//! terminal of somebody else's foreground (a passphrase, whether to trust a host) is stopped there until a person notices;
//! without one it fails at once. Looking ([`processes`], [`Place`]) changes nothing and never fails: who cannot be seen is not there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the program begin a session; its group must not be chosen otherwise.
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

/// Every process id of this machine (of this namespace), ascending; `None` where `/proc` does not tell.
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

/// Where a process is, and what it is doing: what `/proc/PID/stat` says (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    state: u8,
    /// The number of its group.
    pub(crate) group: i32,
    /// The number of its session.
    pub(crate) session: i32,
    /// How much of the processor it has used, in ticks of the kernel's clock.
    pub(crate) used: u64,
    /// Whether it is a git, by the name of its program.
    pub(crate) is_git: bool,
}

impl Place {
    /// Reads it; `None` for a process that is gone.
    #[must_use]
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it has not ended. One that its parent does not reap has.
    #[must_use]
    pub(crate) fn lives(self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether it stands still until it is told to go on.
    #[must_use]
    pub(crate) fn is_stopped(self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Whether it runs or would, or waits for a disk.
    #[must_use]
    pub(crate) fn is_at_work(self) -> bool {
        matches!(self.state, b'R' | b'D')
    }

    // The second field is the program's name in parentheses and may itself hold spaces, parentheses and bytes that are no
    // text.
    fn parse(stat: &[u8]) -> Option<Self> {
        let begin_of_name = stat.iter().position(|byte| *byte == b'(')? + 1;
        let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
        let name = stat.get(begin_of_name..end_of_name)?;
        let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let group = fields.nth(1)?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        // Fields 14 and 15, of which 7 to 13 tell the terminal, flags and page faults.
        let in_programs: u64 = fields.nth(7)?.parse().ok()?;
        let in_the_kernel: u64 = fields.next()?.parse().ok()?;
        let is_git = name == b"git" || name.starts_with(b"git-");
        Some(Self { state, group, session, used: in_programs + in_the_kernel, is_git })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let at = |state, group, session, used, is_git| Some(Place { state, group, session, used, is_git });
        let cases: [(&[u8], _); 8] = [
            (b"12 (sh) S 1 77 70 0 -1 4194560 1 2 3 4 500 30 7 8", at(b'S', 77, 70, 530, false)),
            (b"12 (git) T 1 5 5 0 -1 0 0 0 0 0 0 0 0", at(b'T', 5, 5, 0, true)),
            (b"12 (git-receive-pac) D 1 5 5 0 -1 0 0 0 0 0 0 0 0", at(b'D', 5, 5, 0, true)),
            (b"12 (gitk) Z) R 1 42 7 0 -1 0 0 0 0 0 1 2", at(b'R', 42, 7, 3, false)),
            (b"12 (\xff\xfe) Z 1 5 5 0 -1 0 0 0 0 0 0 0 0", at(b'Z', 5, 5, 0, false)),
            (b"12 (sh) S 1", None),
            (b"12 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 500", None),
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
        assert_eq!(place.group, nix::unistd::getpgrp().as_raw());
        assert_eq!(place.session, nix::unistd::getsid(None).unwrap().as_raw());
        // Ends once looking itself has cost enough: a wrong field would not grow.
        while Place::of(pid.as_raw()).unwrap().used < place.used + 2 {}
    }
}
