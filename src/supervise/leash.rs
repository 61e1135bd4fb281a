//! The leash of a program that must leave nothing running (CONTRACT 10.9).

use uuid::Uuid;

/// Ends everything that a program started, after every end of it: exit 0, time limit, stop, panic.
///
/// Without a leash the processes that moved to a session of their own (`setsid`, daemons, the tools
/// of agents) live on. On Linux a leashed program is the child of a *keeper* process, which its
/// orphans become children of. So every descendant is found, and it is known when none is left. A
/// variable in the environment finds processes that left the keeper's tree. Not found is a
/// process that a service of the system started on request (systemd-run, docker, atd), unless it
/// has the variable. Elsewhere than on Linux only the group is ended.
///
/// A leashed program never keeps the terminal.
#[derive(Clone, Debug)]
pub struct Leash {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl Leash {
    /// The variable `name` in the environment of the program, which need not contain it yet. `value`
    /// belongs to this one start: every process of this user that has the pair is ended.
    #[must_use]
    pub fn new(name: &'static str, value: Uuid) -> Self {
        Self { name, value: value.to_string() }
    }

    /// The variable as the system shows it.
    pub(super) fn marker(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}
