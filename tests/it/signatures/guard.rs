//! A server's guard that requires signatures: the run id alone, which everyone can read in the lease, is not
//! enough (CONTRACT 12.9).

use std::process::Output;

use super::super::remote::guard::install;
use super::*;

/// Pushes `commit` to `task`, with these options.
fn push(clone: &Repo, commit: &str, options: &[&str]) -> Output {
    let mut git = clone.git_command();
    git.env("AYNIG_BIN", binary()).args(["push", "--quiet"]).args(options);
    git.args(["origin", &format!("{commit}:refs/heads/task")]).output().expect("git runs")
}

/// CONTRACT 12.9
#[test]
fn under_a_live_lease_a_guard_takes_only_what_a_trusted_key_signed() {
    let (repo, known, unknown) = signing(&[("work", "next done")]);
    let allowed = repo.git(["config", "gpg.ssh.allowedSignersFile"]);
    let hub = repo.into_bare();
    install(&hub, "pre-receive");
    for (name, value) in [
        ("gpg.format", "ssh"),
        ("gpg.ssh.allowedSignersFile", allowed.as_str()),
        ("aynig.requireSigned", "true"),
        ("receive.advertisePushOptions", "true"),
    ] {
        hub.git(["config", name, value]);
    }
    let trigger = hub.ready("task", "work");
    let mut head = hub.taken_by_other(&trigger, "task", 300);
    let run = hub.trailer("task", "dwp-run-id");
    let clone = hub.clone_beside("clone");
    clone.git(["config", "gpg.format", "ssh"]);
    let commit = |head: &str, key: Option<&Key>, trailer: &str| {
        let sign = key.map(|key| format!("-S{}", key.private.display()));
        let tree = format!("{head}^{{tree}}");
        let message = format!("by hand\n\nno: state{trailer}");
        let arguments = ["commit-tree", "-p", head, "-m", &message, &tree];
        clone.git(arguments[..1].iter().copied().chain(sign.as_deref()).chain(arguments[1..].iter().copied()))
    };
    let (option, trailer) = (format!("-oaynig-run-id={run}"), format!("\ndwp-run-id: {run}"));
    for key in [None, Some(&unknown)] {
        let plain = commit(&head, key, "");
        for (commit, options) in [(&plain, vec![option.as_str()]), (&commit(&head, key, &trailer), vec![])] {
            let output = push(&clone, commit, &options);
            assert_ne!(output.status.code(), Some(0), "{}", told(&output));
            for words in ["task is leased to other-host", "aynig.requireSigned"] {
                assert!(err(&output).contains(words), "{}", told(&output));
            }
            assert_eq!(hub.head("task"), head);
        }
    }
    let output = push(&clone, &commit(&head, Some(&known), ""), &[]);
    assert!(err(&output).contains("does not carry its run id"), "{}", told(&output));
    for trailer in ["", trailer.as_str()] {
        let lease = format!("dwp-state: working\ndwp-run-id: {run}\ndwp-runner-id: other-host");
        let next = commit(&head, Some(&known), &format!("{trailer}\n{lease}"));
        let output = push(&clone, &next, &[&option]);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        head = next;
    }
    // Without a lease, no signature is required.
    hub.git(["update-ref", "refs/heads/task", &trigger]);
    let output = push(&clone, &commit(&trigger, None, ""), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}
