//! A terminal for tests: python's `pty` between the test and the program, with a size that can change.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use super::support::*;

/// Runs its arguments from the third on in a terminal with the size of the first two. Prints their output,
/// and obeys lines on its standard input: `size LINES COLUMNS`, `type HEX`, `signal NAME`, `echo` (prints
/// whether input is echoed). It exits with the program's status. The program is killed with it
/// (PR_SET_PDEATHSIG).
const DRIVER: &str = r#"
import ctypes, fcntl, os, pty, select, signal, struct, sys, termios
def resize(fd, lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", int(lines), int(columns), 0, 0))
pid, terminal = pty.fork()
if pid == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    resize(0, sys.argv[1], sys.argv[2])
    os.execvp(sys.argv[3], sys.argv[3:])
listen, pending = [0, terminal], b""
while terminal in listen:
    for ready in select.select(listen, [], [])[0]:
        try:
            data = os.read(ready, 65536)
        except OSError:
            data = b""
        if not data:
            listen.remove(ready)
        elif ready == terminal:
            os.write(1, data)
        else:
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                verb, *words = line.decode().split()
                if verb == "size":
                    resize(terminal, *words)
                elif verb == "echo":
                    shown = termios.tcgetattr(terminal)[3] & termios.ECHO
                    os.write(1, b"<echo on>" if shown else b"<echo off>")
                elif verb == "type":
                    os.write(terminal, bytes.fromhex(words[0]))
                else:
                    os.kill(pid, getattr(signal, words[0]))
status = os.waitpid(pid, 0)[1]
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"#;

/// A program in a terminal.
pub(crate) struct Terminal {
    child: Child,
    orders: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Repo {
    /// `aynig` in a terminal with colours, unless `variables` turn them off.
    pub(crate) fn in_terminal(
        &self,
        size: (u16, u16),
        variables: &[(&str, &str)],
        arguments: &[&str],
    ) -> Terminal {
        let mut driver = Command::new("python3");
        hermetic(&mut driver).current_dir(&self.path).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        for name in
            ["GIT_PAGER", "PAGER", "LESS", "LV", "COLUMNS", "LINES", "CLICOLOR", "CLICOLOR_FORCE", "CI"]
        {
            driver.env_remove(name);
        }
        driver.envs(variables.iter().copied());
        driver.args(["-c", DRIVER, &size.0.to_string(), &size.1.to_string()]).arg(binary()).args(arguments);
        driver.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = driver.spawn().expect("python3 runs");
        let orders = child.stdin.take().expect("piped");
        let mut out = child.stdout.take().expect("piped");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut chunk) {
                sink.lock().expect("no panic in there").extend_from_slice(&chunk[..count]);
            }
        });
        Terminal { child, orders, shown, reader: Some(reader) }
    }
}

impl Terminal {
    fn order(&mut self, line: &str) {
        writeln!(self.orders, "{line}").expect("the driver listens");
    }

    /// Resizes it.
    pub(crate) fn resize(&mut self, lines: u16, columns: u16) {
        self.order(&format!("size {lines} {columns}"));
    }

    /// Types bytes.
    pub(crate) fn press(&mut self, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.order(&format!("type {hex}"));
    }

    /// Waits until the terminal's echo is on or off.
    pub(crate) fn wait_for_echo(&mut self, on: bool) {
        let words = if on { "<echo on>" } else { "<echo off>" };
        let asked = self.shown().len();
        wait_until("the terminal's echo", || {
            self.order("echo");
            self.shown()[asked..].contains(words)
        });
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&mut self, signal: nix::sys::signal::Signal) {
        self.order(&format!("signal {}", signal.as_str()));
    }

    /// All output so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("no panic in there")).into_owned()
    }

    /// The last completely painted picture, as plain lines.
    pub(crate) fn picture(&self) -> Vec<String> {
        let shown = self.shown();
        let end = shown.rfind("\x1b[J").unwrap_or(0);
        let start = shown[..end].rfind("\x1b[H").unwrap_or(end);
        plain(&shown[start..end]).lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits for a picture.
    pub(crate) fn wait_for_picture(&self, what: &str, is: impl Fn(&[String]) -> bool) -> Vec<String> {
        wait_for(what, || Some(self.picture()).filter(|picture| !picture.is_empty() && is(picture)))
    }

    /// Waits for its end. Returns all output and the exit code.
    pub(crate) fn finish(mut self) -> (String, i32) {
        let status: ExitStatus =
            wait_for("the program in the terminal to end", || self.child.try_wait().expect("it is ours"));
        self.reader.take().expect("once").join().expect("no panic in there");
        (self.shown(), status.code().expect("the driver exits"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Text without escape sequences, with plain line ends.
pub(crate) fn plain(text: &str) -> String {
    let mut bare = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next == '\x1b' {
            rest.next();
            rest.find(char::is_ascii_alphabetic);
        } else {
            bare.push(next);
        }
    }
    bare.replace("\r\n", "\n")
}
