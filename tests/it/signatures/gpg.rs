//! Signatures by gpg keys: the key's trust level counts as it does in git.

use super::super::programs::program;
use super::*;

/// A gpg key in a home directory of its own.
struct Gpg {
    home: PathBuf,
    fingerprint: String,
}

impl Gpg {
    /// Creates the key; `None` if gpg is missing.
    fn new(repo: &Repo) -> Option<Self> {
        program("gpg")?;
        let home = repo.beside("gnupg");
        fs::create_dir(&home).expect("a directory");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("chmod");
        // A key's trust is its owner trust, without a web of trust.
        fs::write(home.join("gpg.conf"), "trust-model direct\n").expect("a file");
        let mut gpg = Self { home, fingerprint: String::new() };
        let who = "Test Person <person@example.com>";
        let output =
            gpg.run(&["--passphrase", "", "--quick-gen-key", who, "default", "default", "never"], "");
        assert!(output.status.success(), "{}", told(&output));
        let listed = out(&gpg.run(&["--with-colons", "--list-keys"], ""));
        let line = listed.lines().find(|line| line.starts_with("fpr:")).expect("a fingerprint");
        line.split(':').nth(9).expect("a field").clone_into(&mut gpg.fingerprint);
        for (name, value) in [("gpg.format", "openpgp"), ("user.signingKey", &gpg.fingerprint)] {
            repo.git(["config", name, value]);
        }
        Some(gpg)
    }

    fn run(&self, arguments: &[&str], input: &str) -> std::process::Output {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(&self.home).args(["--batch", "--quiet"]).args(arguments);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("gpg starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input.as_bytes())
            .expect("it reads");
        child.wait_with_output().expect("gpg ends")
    }

    /// Sets the owner trust: 2 is none, 6 ultimate.
    fn trust(&self, level: u8) {
        let output = self.run(&["--import-ownertrust"], &format!("{}:{level}:\n", self.fingerprint));
        assert!(output.status.success(), "{}", told(&output));
    }

    fn knowing<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("GNUPGHOME", &self.home)
    }

    /// Moves `branch` to a new commit that is ready for `work`, signed by the key.
    fn sign(&self, repo: &Repo, branch: &str) {
        let message = format!("please\n\ndwp-state: work\nn: {branch}");
        let mut git = repo.git_command();
        let output =
            self.knowing(&mut git).args(["commit-tree", "-S", "-p", "main", "-m", &message, "main^{tree}"]);
        let output = output.output().expect("git runs");
        assert!(output.status.success(), "{}", told(&output));
        repo.git(["update-ref", &format!("refs/heads/{branch}"), out(&output).trim_end()]);
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let mut end = Command::new("gpgconf");
        end.arg("--homedir").arg(&self.home).args(["--kill", "all"]).output().ok();
    }
}

#[test]
fn the_least_trust_that_git_asks_for_is_asked_for() {
    let (repo, known, _) = signing(&[("work", "next done")]);
    signed(&repo, "ssh", &known);
    let Some(gpg) = Gpg::new(&repo) else { return };
    gpg.sign(&repo, "task");
    let ready = |branch: &str| {
        let mut status = repo.aynig_command();
        let output = gpg.knowing(&mut status).args(["status", "--json", "--branch", branch]).output();
        listed(&output.expect("aynig runs"))[0]["kind"] == "ready"
    };
    let gits = |branch: &str| {
        let (mut verify, mut log) = (repo.git_command(), repo.git_command());
        let verify = gpg.knowing(&mut verify).args(["verify-commit", branch]).output().expect("git runs");
        let log = gpg.knowing(&mut log).args(["log", "-1", "--no-show-signature", "--format=%G?", branch]);
        let log = log.output().expect("git runs");
        verify.status.success() && out(&log) == "G\n"
    };
    let (mut good, mut refused) = (0, 0);
    for level in ["", "undefined", "never", "marginal", "FULLY", "ultimate", "bogus"] {
        match level {
            "" => {}
            level => drop(repo.git(["config", "gpg.minTrustLevel", level])),
        }
        assert_eq!(ready("ssh"), gits("ssh"), "{level}");
        for trust in [2, 3, 4, 5, 6] {
            gpg.trust(trust);
            let expected = gits("task");
            assert_eq!(ready("task"), expected, "{level} {trust}");
            if expected { good += 1 } else { refused += 1 }
        }
    }
    assert!(good >= 8 && refused >= 15, "{good} {refused}");
    repo.git(["config", "gpg.minTrustLevel", "ultimate"]);
    gpg.trust(5);
    let mut run = repo.aynig_command();
    let run = gpg.knowing(&mut run).args(["run", "--log-level", "info"]).output().expect("aynig runs");
    assert!(err(&run).contains("gpg.minTrustLevel"), "{}", told(&run));
    assert_eq!(repo.state("task"), "work");
}
