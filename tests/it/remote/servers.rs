//! Servers on loopback, each with its own configuration and port, stopped with the test.

use std::net::{TcpListener, TcpStream};
use std::process::Child;

use super::*;

/// A server, and how to reach the hub through it.
pub(crate) struct Server {
    child: Child,
    /// The hub's URL.
    pub url: String,
    /// Environment that a runner needs for it.
    pub environment: Vec<(&'static str, String)>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts a server on a free port; `None` if it repeatedly exits at once.
fn listening(mut start: impl FnMut(u16) -> Child) -> Option<(Child, u16)> {
    // Another process may take the port before the server listens; then another port is tried.
    for _ in 0..10 {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let mut child = start(free.port());
        let listens = wait_for("the server to listen or end", || {
            if child.try_wait().expect("it is ours").is_some() {
                return Some(false);
            }
            TcpStream::connect(free).ok().map(|_| true)
        });
        if listens {
            return Some((child, free.port()));
        }
    }
    None
}

/// Starts `git daemon`, or returns why it is missing.
pub(super) fn git_daemon(hub: &Repo) -> Result<Server, String> {
    let program = PathBuf::from(hub.git(["--exec-path"])).join("git-daemon");
    if !program.exists() {
        return Err("`git daemon` is not installed here".to_owned());
    }
    let base = hub.path.parent().expect("the room").display().to_string();
    let (child, port) = listening(|port| {
        let mut command = Command::new(&program);
        hermetic(&mut command)
            .args(["--listen=127.0.0.1", "--export-all", "--enable=receive-pack", "--reuseaddr"])
            .arg("--max-connections=0")
            .args([format!("--port={port}"), format!("--base-path={base}"), base.clone()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("git daemon starts")
    })
    .expect("git daemon does not listen");
    Ok(Server { child, url: format!("git://127.0.0.1:{port}/bare.git"), environment: Vec::new() })
}

/// Starts `sshd`, which accepts the current user with a fresh key, or returns why it is missing.
pub(crate) fn sshd(hub: &Repo) -> Result<Server, String> {
    let path = std::env::var("PATH").expect("a PATH");
    let places = path.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    // It re-executes itself for each connection, so it needs an absolute path.
    let Some(program) = places.map(|place| PathBuf::from(place).join("sshd")).find(|file| file.is_file())
    else {
        return Err("`sshd` is not installed here".to_owned());
    };
    // As root it insists on this directory, which is missing where sshd never ran as a service.
    fs::create_dir_all("/run/sshd").ok();
    let room = hub.beside("sshd");
    fs::create_dir(&room).expect("a fresh directory");
    for key in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        hermetic(&mut keygen).args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(room.join(key));
        assert!(keygen.status().expect("ssh-keygen runs").success());
    }
    let room = room.display().to_string();
    fs::rename(format!("{room}/user.pub"), format!("{room}/authorized")).expect("renamed");
    fs::write(
        format!("{room}/config"),
        format!(
            "ListenAddress 127.0.0.1\nHostKey {room}/host\nPidFile none\nAuthorizedKeysFile {room}/authorized\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nUseDNS no\nMaxStartups 1000\nLogLevel VERBOSE\n\
             SetEnv \"PATH={path}\" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 LC_ALL=C\n"
        ),
    )
    .expect("a file");
    let log = format!("{room}/log");
    let started = listening(|port| {
        let mut command = Command::new(&program);
        hermetic(&mut command).args(["-D", "-f", &format!("{room}/config"), "-E", &log, "-p"]);
        command.arg(port.to_string()).spawn().expect("sshd starts")
    });
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let Some((child, port)) = started else { panic!("sshd does not listen: {}", said()) };
    let host = fs::read_to_string(format!("{room}/host.pub")).expect("written");
    fs::write(format!("{room}/known"), format!("[127.0.0.1]:{port} {host}")).expect("a file");
    let ssh = format!(
        "ssh -F /dev/null -i {room}/user -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes \
         -o UserKnownHostsFile={room}/known -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes \
         -o LogLevel=ERROR -p {port}"
    );
    let user = out(&Command::new("id").arg("-un").output().expect("id runs")).trim().to_owned();
    let server = Server {
        child,
        url: format!("ssh://{user}@127.0.0.1{}", hub.path.display()),
        environment: vec![("GIT_SSH_COMMAND", ssh)],
    };
    let mut ask = hub.git_command();
    let answer =
        ask.envs(server.environment.clone()).args(["ls-remote", &server.url]).output().expect("git runs");
    if !answer.status.success() && said().contains("account is locked") {
        return Err(format!("`sshd` lets nobody into the account {user}, which is locked"));
    }
    assert!(answer.status.success(), "{}\nsshd: {}", told(&answer), said());
    Ok(server)
}
