//! The words for each verdict, by a table.

use std::sync::Arc;

use super::*;
use crate::contract::ids::{BranchName, StateName};
use crate::runner::survey::verdict::Severity;
use crate::runner::survey::verdict::Severity::{Blocked, Misconfigured, Terminal};

#[test]
fn what_asks_again_table() {
    for (branch, failed, command) in [
        ("run/0a1b2c3d/flow", "flow-step", "aynig flow resume 0a1b2c3d"),
        ("run/0a1b2c3d/flow", "stalled", "aynig flow resume 0a1b2c3d"),
        ("run/0a1b2c3d/ada", "orch-turn", "aynig run run/0a1b2c3d/ada --remote hub"),
        ("run/0a1b2c3d/ada", "stalled", "aynig run run/0a1b2c3d/ada --remote hub"),
        ("run/0a1b2c3d/ada", "build", "aynig set-state --retry --branch run/0a1b2c3d/ada --remote hub"),
        ("feature/flow", "stalled", "aynig set-state --retry --branch feature/flow --remote hub"),
        ("feature/ada", "stalled", "aynig set-state --retry --branch feature/ada --remote hub"),
    ] {
        let name = BranchName::new(branch).expect("a name");
        let hub = RemoteName::parse("hub").expect("a name");
        let failed = StateName::parse(failed).expect("a name");
        assert_eq!(requests_again(&name, Some(&hub), Some(&failed)), command, "{branch}");
    }
}

fn id(byte: u8) -> CommitId {
    CommitId::from_bytes(&[byte; 20]).expect("20 bytes")
}

fn trusted() -> Source {
    Source::Trusted(Arc::new(CommandsFrom { name: "main".into(), commit: id(2), tree: None }))
}

fn missing(source: Source) -> NoCommand {
    NoCommand::Missing { tried: ["roles/r/command/a", "command/a"].map(String::from).into(), source }
}

fn unusable(source: Source, what: Unusable) -> NoCommand {
    NoCommand::Unusable { path: "command/a".into(), source, what }
}

fn elsewhere(committed: bool) -> NoCommand {
    let found = Elsewhere { path: "command/a".into(), checkout: "/repo".into(), committed };
    NoCommand::Elsewhere { commit: id(1), found: Arc::new(found) }
}

#[test]
fn no_command_table() {
    let escapes = || Unusable::Escapes { target: "/bin".into() };
    let dangling = || Unusable::Dangling { target: "x".into() };
    let rows: Vec<(NoCommand, Severity, &str)> = vec![
        (
            missing(Source::Head(id(1))),
            Terminal,
            "no command for this state: roles/r/command/a or command/a is not in commit 0101010101",
        ),
        (
            missing(trusted()),
            Terminal,
            "no command for this state: roles/r/command/a or command/a is not in main (commit 0202020202), where \
             commands come from (--commands-from, aynig.commandsFrom)",
        ),
        (
            missing(Source::Disk),
            Terminal,
            "no command for this state: roles/r/command/a and command/a does not exist",
        ),
        (
            elsewhere(true),
            Blocked,
            "command/a exists in /repo but not in commit 0101010101; a branch runs the commands of its own commits, so \
             merge it on this branch (`git merge`), push that if a remote decides, and ask again there (`aynig set-state --retry`)",
        ),
        (
            elsewhere(false),
            Misconfigured,
            "command/a exists in /repo but not in commit 0101010101; a branch runs the commands of its own commits, so \
             `git add command/a`, commit it, merge it on this branch (`git merge`), push that if a remote decides, and ask again there (`aynig set-state --retry`)",
        ),
        (
            unusable(Source::Head(id(1)), Unusable::NotExecutable),
            Misconfigured,
            "command/a is committed without the executable bit; on that branch: `chmod +x command/a && git add --chmod=+x \
             command/a && aynig set-state --retry`",
        ),
        (
            unusable(Source::Head(id(1)), Unusable::Directory),
            Misconfigured,
            "command/a is a directory, not a command",
        ),
        (
            unusable(Source::Head(id(1)), Unusable::Submodule),
            Misconfigured,
            "command/a lies in a submodule; commands must be in the branch's own tree",
        ),
        (
            unusable(Source::Head(id(1)), escapes()),
            Misconfigured,
            "command/a is a link to /bin, which leaves the tree; commands must be in the branch's own tree",
        ),
        (
            unusable(Source::Head(id(1)), dangling()),
            Misconfigured,
            "command/a is a link to x, which is not in the tree",
        ),
        (
            unusable(trusted(), Unusable::NotExecutable),
            Misconfigured,
            "command/a of main (commit 0202020202), where commands come from, is committed without the executable bit",
        ),
        (
            unusable(trusted(), escapes()),
            Misconfigured,
            "command/a of main (commit 0202020202), where commands come from, is a link to /bin, which leaves .aynig/; with \
             --commands-from it must stay in there",
        ),
        (
            unusable(trusted(), dangling()),
            Misconfigured,
            "command/a of main (commit 0202020202), where commands come from, is a link to x, which is not there",
        ),
        (
            unusable(Source::Disk, Unusable::NotExecutable),
            Misconfigured,
            "command/a is not executable; run `chmod +x command/a`",
        ),
        (
            unusable(Source::Disk, escapes()),
            Misconfigured,
            "command/a is a link to /bin, which is outside the checkout",
        ),
        (
            unusable(Source::Disk, dangling()),
            Misconfigured,
            "command/a is a link to something that is not there",
        ),
    ];
    for (none, severity, words) in rows {
        assert_eq!(none.to_string(), words);
        assert_eq!((none.severity(), Reason::NoCommand(none).severity()), (severity, severity), "{words}");
    }
}

#[test]
fn reasons_table() {
    let path = || "/w".into();
    let rows: Vec<(Reason, Severity, &str)> = vec![
        (
            Reason::ForeignBranch,
            Blocked,
            "it is not one of the branches this runner runs (`git config --get-all aynig.branch`)",
        ),
        (
            Reason::ForeignState { state: StateName::parse("a").expect("a name") },
            Blocked,
            "a is not one of the states this runner runs (--states, `git config --get-all aynig.states`)",
        ),
        (
            Reason::DefaultBranch {
                branch: BranchName::new("a&b").expect("a name"),
                remote: Some(RemoteName::parse("hub").expect("a name")),
                here: false,
                elsewhere: None,
            },
            Misconfigured,
            "it is the default branch, which is run only if it is named (`aynig run 'a&b' --remote hub`); `aynig doctor` \
             says what undoes the state",
        ),
        (
            Reason::DefaultBranch {
                branch: BranchName::new("main").expect("a name"),
                remote: None,
                here: true,
                elsewhere: None,
            },
            Misconfigured,
            "it is the default branch, which is run only if it is named (`aynig run main --current-branch include`); \
             `aynig doctor` says what undoes the state",
        ),
        (
            Reason::DefaultBranch {
                branch: BranchName::new("main").expect("a name"),
                remote: None,
                here: false,
                elsewhere: Some("/a b".into()),
            },
            Misconfigured,
            "it is the default branch, which is run only if it is named (`aynig -C '/a b' run main --current-branch \
             include`); `aynig doctor` says what undoes the state",
        ),
        (
            Reason::Preferred { runner: "laptop".into(), until: 100 },
            Blocked,
            "it is left to the runner laptop until 1970-01-01T00:01:40Z; then any runner may run it",
        ),
        (
            Reason::InUse(Arc::new(InUse::Gone { path: path() })),
            Blocked,
            "is checked out in /w, which is not there; `git worktree prune` frees it if that is gone for good",
        ),
        (Reason::InUse(Arc::new(InUse::CheckedOut { path: path() })), Blocked, "is checked out in /w"),
        (
            Reason::InUse(Arc::new(InUse::Kept { path: path() })),
            Misconfigured,
            "is checked out in /w, which was kept after an attempt; `git -C /w switch --detach` frees it and changes no file",
        ),
        (
            Reason::InUse(Arc::new(InUse::InProgress { path: path() })),
            Blocked,
            "a rebase or bisect of it is under way in /w; `git -C /w status` shows how to conclude it",
        ),
        (
            Reason::CheckoutBehind { local: BranchName::new("b").expect("a name") },
            Misconfigured,
            "b in this checkout is not at the same commit; pull (or push) first",
        ),
        (
            Reason::IndexLocked { lock: path() },
            Misconfigured,
            "/w is there; wait for the git that is at work, or remove it if there is none",
        ),
        (
            Reason::StagedChanges,
            Misconfigured,
            "has staged changes in this checkout; commit or unstage them first (`git restore --staged :/`)",
        ),
        (
            Reason::IndexUnreadable { index: path(), error: "bad".into() },
            Misconfigured,
            "the index cannot be compared with HEAD: bad; `git status` should say the same, and where the index is damaged \
             `rm /w && git reset` makes it anew",
        ),
    ];
    for (reason, severity, words) in rows {
        assert_eq!((reason.to_string().as_str(), reason.severity()), (words, severity));
    }
}
