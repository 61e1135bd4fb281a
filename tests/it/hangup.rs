//! A terminal that goes away (a closed window, a lost connection) while a program writes to it.

use std::process::{Command, Output};

use super::scene::*;
use super::support::*;

/// Runs its arguments from the fourth on in a terminal, and closes that when the file of the second exists.
/// SIGHUP is ignored if the first is `ignored`. Then creates the file of the third, and exits with the
/// program's status. After a minute it ends by SIGALRM, and the program with it.
const DRIVER: &str = r#"
import ctypes, os, pty, select, signal, sys
signal.alarm(60)
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
pid, terminal = pty.fork()
if pid == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.execvp(sys.argv[4], sys.argv[4:])
shown = b""
while not (shown and os.path.exists(sys.argv[2])):
    if select.select([terminal], [], [], 0.05)[0]:
        shown += os.read(terminal, 65536)
os.close(terminal)
open(sys.argv[3], "w").close()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
"#;

fn hung_up(repo: &Repo, hangup: &str, [before, after]: [&str; 2], arguments: &[&str]) -> Output {
    let mut driver = Command::new("python3");
    hermetic(&mut driver).current_dir(&repo.path).env("TERM", "xterm-256color").env("ROOM", repo.beside(""));
    driver.args(["-c", DRIVER, hangup]).arg(repo.beside(before)).arg(repo.beside(after)).arg(binary());
    driver.args(arguments).output().expect("python3 runs")
}

/// CONTRACT 10.5
#[test]
fn a_run_survives_its_terminal_if_the_hangup_is_ignored() {
    for (hangup, code, state) in [("default", 129, "work"), ("ignored", 3, "done")] {
        let repo = Repo::scene(&[
            ("work", "say ready $$\nawait release\nnext done"),
            ("other", "await ready\nsay both $$\nawait release\nnext done"),
        ]);
        repo.ready("a", "work");
        repo.ready("b", "other");
        // With the default the runner is stopped: nothing releases its commands.
        let after = if hangup == "ignored" { "release" } else { "unused" };
        let options = ["run", "--jobs", "2", "--grace-seconds", "1", "--log-level", "debug"];
        let output = hung_up(&repo, hangup, ["both", after], &options);
        assert_eq!(output.status.code(), Some(code), "{hangup}: {}", told(&output));
        assert_eq!(repo.state("a"), state, "{hangup}");
        assert_eq!(repo.state("b"), if hangup == "ignored" { "done" } else { "other" });
        repo.assert_tidy();
    }
}

/// The kernel first makes writes to a closed terminal fail, and then sends SIGHUP. A watch that writes in between
/// ends by the failure.
#[test]
fn a_watch_ends_with_its_terminal() {
    for (hangup, codes) in [("default", &[129, 3][..]), ("ignored", &[3])] {
        let repo = Repo::scene(&[("work", "next done")]);
        repo.ready("a", "work");
        repo.release("now");
        let output = hung_up(&repo, hangup, ["now", "closed"], &["status", "--all", "--watch"]);
        let code = output.status.code();
        assert!(code.is_some_and(|code| codes.contains(&code)), "{hangup}: {}", told(&output));
    }
}
