//! `aynig hook pre-receive`: the guard that a server's git runs before it accepts a push.
//!
//! Invariant: a push is refused as a whole or not at all (git's rule for this hook), and never silently: each
//! branch that breaks a lease is named with its holder and the time left. If the commits cannot be read, the
//! push is refused too. `contract::guard` has the rules.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::Read;

use bstr::{BStr, BString, ByteSlice};

use aynig::clock;
use aynig::contract::deferred::deferred_branch;
use aynig::contract::guard::{Breach, RUN_ID_OPTION, Server, Violation, judge};
use aynig::contract::ids::{BranchName, CommitId};
use aynig::contract::lease::MAX_LEASE_SECONDS;
use aynig::contract::ledger_guard;
use aynig::contract::namespace::Namespace;
use aynig::git::Repo;
use aynig::git::objects::quarantine::Quarantine;
use aynig::git::objects::trusted::refusals;
use aynig::git::process::cancel::Purpose;
use aynig::ops::app::App;
use aynig::ops::error::Error;
use aynig::ops::settings;
use aynig::runner::shell_quote;

use crate::cli::args::{Hook, HookName};
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::sanitize;
use crate::cli::ui::signals;

/// One line of the hook's input.
#[derive(Debug, PartialEq, Eq)]
struct Update {
    branch: BranchName,
    old: Option<CommitId>,
    new: Option<CommitId>,
}

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Hook) -> Result<Exit, Error> {
    match arguments.hook {
        HookName::PreReceive => pre_receive(app, arguments.tolerance_seconds),
    }
}

fn pre_receive(app: &App, tolerance: u64) -> Result<Exit, Error> {
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut text)
        .map_err(|error| Error::because("read what git tells the hook", &error))?;
    let repo = app.repo();
    let names = repo.namespace().map_err(|error| Error::because("read how refs are named here", &error))?;
    // A runners' ref may have the name of a branch.
    let meant = |name: &BStr| {
        let meant = repo.meant(name);
        names.of_runners(meant.as_bstr()).unwrap_or(meant)
    };
    let updates = updates(&text, meant)?;
    let quarantine = Quarantine::new(repo.common_dir(), &app.process.variables.objects);
    let next = mending(&repo);
    let damaged =
        |trying: &str, error: &dyn std::error::Error| Error::because(trying, error).hint(next.as_str());
    let unreadable = |error| damaged("read the commits of this push", &error);
    let head_of = |Update { branch, .. }: &'_ Update| {
        let head = repo.branch_head(branch);
        head.map_err(|error| damaged(&format!("read the branch {branch}"), &error))
    };
    let heads = updates.iter().map(|update| Ok((&update.branch, head_of(update)?)));
    let there: HashMap<&BranchName, Option<CommitId>> = heads.collect::<Result<_, Error>>()?;
    let named = updates.iter().flat_map(|update| [update.old, update.new]).flatten();
    let ids: Vec<CommitId> = named.chain(there.values().copied().flatten()).collect();
    let tips = quarantine.tips(&ids).map_err(unreadable)?;
    // An unreadable lease may be live.
    if let Some((branch, head)) = there
        .iter()
        .filter_map(|(branch, head)| Some((branch, (*head)?)))
        .find(|(_, head)| !tips.contains_key(head))
    {
        let message = format!(
            "could not read the commits of this push: {branch} is at {head}, which is missing or damaged"
        );
        return Err(Error::setup(message).hint(next.as_str()));
    }
    // Git checks the old value that the client claims only if such a commit exists. Otherwise it is unchecked,
    // and even a deletion goes through.
    let old_of = |update: &Update| {
        update.old.filter(|id| tips.contains_key(id)).or(there.get(&update.branch).copied().flatten())
    };
    let leased = |old: Option<CommitId>| {
        let state = old.and_then(|id| tips.get(&id)).and_then(|tip| tip.head.state());
        state.is_some_and(|state| state.is_working())
    };
    // Signatures and ancestry need calls of git, and matter only under a lease.
    let unsigned = if settings::require_signed(&repo)? {
        signals::end_calls(&repo)?;
        let onto_leases = updates.iter().filter(|update| leased(old_of(update)));
        let heads = onto_leases.filter_map(|update| update.new).collect();
        refusals(&repo, &heads, &app.process.variables.objects, Purpose::Scan)
    } else {
        BTreeMap::new()
    };
    let (shown, without) = (shown_run_ids(), unsigned.keys().copied().collect());
    let server = Server { shown: &shown, refused: &without, now: clock::wall_seconds(), tolerance };
    let mut refused = unsigned_slots(&repo, &names, &text, &app.process.variables.objects)?;
    refused += broken_ledgers(&repo, &names, &text, &quarantine)?;
    for update in &updates {
        let (Update { branch, new, .. }, old) = (update, old_of(update));
        let (before, after) = (old.and_then(|id| tips.get(&id)), new.and_then(|id| tips.get(&id)));
        let descends = match (old, new) {
            (Some(old), Some(new)) if leased(Some(old)) => {
                quarantine.descends(*new, old).map_err(unreadable)?
            }
            _ => true,
        };
        if let Err(violation) = judge(before, after, descends, &server) {
            refused += 1;
            let reason = new.and_then(|new| unsigned.get(&new)).map_or("", String::as_str);
            for line in words(branch, &violation, tolerance, reason) {
                ui::narrate(&format!("aynig: {}", sanitize(&line)));
            }
        }
    }
    Ok(if refused == 0 { Exit::Done } else { Exit::Failed })
}

/// What is to be done about damage.
fn mending(repo: &Repo) -> String {
    format!(
        "nothing was taken; whoever keeps the server: `git -C {} fsck` names what is damaged",
        shell_quote(repo.common_dir().display().to_string())
    )
}

/// Refuses what would lose operations of runs (CONTRACT 12.12). Returns how many ledgers there are.
fn broken_ledgers(
    repo: &Repo,
    names: &Namespace,
    text: &[u8],
    quarantine: &Quarantine,
) -> Result<u32, Error> {
    let mut updates = Vec::new();
    for (new, name) in refs(text) {
        let Some(known) = names.of_runners(name) else { continue };
        let old = repo.read_ref(name).map_err(|error| Error::because(&format!("read {name}"), &error))?;
        updates.push(ledger_guard::Update { name: known, old, new });
    }
    let broken = ledger_guard::judge(&updates, |new, old| quarantine.descends(new, old))
        .map_err(|error| Error::because("read the ledgers of this push", &error))?;
    for (name, breach) in &broken {
        let (what, next) = match breach {
            ledger_guard::Breach::Deleted => (
                "this push deletes the record of a run without archiving it",
                "delete the run with aynig, which archives its ledger in the same push",
            ),
            ledger_guard::Breach::Rewound => (
                "this push takes operations away from the record of a run",
                "fetch, and let aynig write on top of what is there now",
            ),
        };
        for line in [format!("{}: {what}", names.there(name.as_bstr())), next.to_owned()] {
            ui::narrate(&format!("aynig: {}", sanitize(&line)));
        }
    }
    Ok(u32::try_from(broken.len()).unwrap_or(u32::MAX))
}

/// The new values and names of all refs of a push.
fn refs(text: &[u8]) -> impl Iterator<Item = (Option<CommitId>, &BStr)> {
    text.lines().filter_map(|line| {
        let mut words = line.splitn(3, |byte| *byte == b' ').skip(1);
        let new = words.next()?;
        let exists = new.iter().any(|byte| *byte != b'0');
        Some((CommitId::parse_hex(new).filter(|_| exists), words.next()?.as_bstr()))
    })
}

/// Refuses deferred states that no runner would deliver (CONTRACT 12.11). Returns how many there are.
fn unsigned_slots(
    repo: &Repo,
    names: &Namespace,
    text: &[u8],
    objects: &[(&'static str, OsString)],
) -> Result<u32, Error> {
    let slot = |name| deferred_branch(names.of_runners(name)?.as_bstr());
    let slots: Vec<(BranchName, CommitId)> =
        refs(text).filter_map(|(new, name)| Some((slot(name)?, new?))).collect();
    if slots.is_empty() || !settings::require_signed(repo)? {
        return Ok(0);
    }
    signals::end_calls(repo)?;
    let heads = slots.iter().map(|(_, new)| *new).collect();
    let unsigned = refusals(repo, &heads, objects, Purpose::Scan);
    let mut refused = 0;
    for (branch, new) in slots {
        if let Some(why) = unsigned.get(&new) {
            refused += 1;
            ui::narrate(&format!(
                "aynig: {}",
                sanitize(&format!("{branch}: its deferred state is refused: {why}"))
            ));
        }
    }
    Ok(refused)
}

/// Parses lines `<old> SP <new> SP <ref> LF`, keeping only branches. Zeros mean "absent". A push to a
/// symbolic ref moves its target, which `meant` finds.
fn updates(text: &[u8], meant: impl Fn(&BStr) -> BString) -> Result<Vec<Update>, Error> {
    let mut updates = Vec::new();
    for line in text.lines() {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err(not_gits(line));
        };
        let id = |word: &[u8]| match CommitId::parse_hex(word) {
            Some(id) => Ok(Some(id).filter(|_| word.iter().any(|byte| *byte != b'0'))),
            None => Err(not_gits(line)),
        };
        let (old, new) = (id(old)?, id(new)?);
        if let Some(branch) = BranchName::from_full_ref(meant(name.as_bstr()).as_bstr()) {
            updates.push(Update { branch, old, new });
        }
    }
    Ok(updates)
}

fn not_gits(line: &[u8]) -> Error {
    Error::usage(format!(
        "standard input is not what git tells a pre-receive hook: {:?} is not `OLD NEW REF`",
        line.to_str_lossy()
    ))
    .hint("this is called by git: copy contrib/hooks/pre-receive to the hooks directory of the repository on the server")
}

/// The run ids named by push options (`git push -o aynig-run-id=ID`).
fn shown_run_ids() -> Vec<BString> {
    let count =
        std::env::var("GIT_PUSH_OPTION_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0_u32);
    (0..count)
        .filter_map(|number| std::env::var(format!("GIT_PUSH_OPTION_{number}")).ok())
        .filter_map(|option| option.strip_prefix(RUN_ID_OPTION).map(BString::from))
        .collect()
}

/// The message for the pusher; `unsigned` says what is wrong with the signature.
fn words(branch: &BranchName, violation: &Violation, tolerance: u64, unsigned: &str) -> Vec<String> {
    match violation {
        Violation::Held { how, runner, run_id, origin, left } => {
            let what = match how {
                Breach::WithoutRunId => "this push does not carry its run id",
                Breach::Rewind => "this push takes commits away from under it",
                Breach::Deletion => "this push deletes it",
                Breach::Unsigned => unsigned,
            };
            let who = if runner.is_empty() { "an unnamed runner".to_owned() } else { runner.to_string() };
            let work = origin.as_ref().map(|state| format!(" for `{state}`")).unwrap_or_default();
            let left = clock::span(*left);
            vec![
                format!("{branch} is leased to {who}{work} (attempt {run_id}) for another {left}; {what}"),
                format!(
                    "`aynig status {0}` in a clone shows the time left, and `aynig cancel {0}` ends it; who holds it pushes with \
                     `git push -o {RUN_ID_OPTION}{run_id}`",
                    shell_quote(branch)
                ),
                format!(
                    "if its runner is known to be dead, in a clone that calls this remote origin: \
                     `AYNIG_REMOTE=origin AYNIG_BRANCH={} AYNIG_RUN_ID={run_id} aynig set-state --retry`",
                    shell_quote(branch)
                ),
            ]
        }
        Violation::NotOnHead { parent, head } => {
            let below = parent.map_or("nothing".to_owned(), |id| id.short());
            let (is, next) = match head {
                Some(head) => (
                    format!("lies on {below}, and the branch is at {} here", head.short()),
                    "fetch, and claim what is there now: a lease has the newest commit as its only parent",
                ),
                None => (
                    "would be the beginning of a branch that does not exist here".to_owned(),
                    "push the commit below it first; a branch is claimed when it is there",
                ),
            };
            vec![format!("{branch}: the lease that was pushed {is}"), next.to_owned()]
        }
        Violation::OffClock { dated, now } => vec![
            format!(
                "{branch}: the lease that was pushed is dated {}, and it is {} here: {} apart, and {} are allowed",
                clock::format_utc(*dated),
                clock::format_utc(*now),
                clock::span(dated.abs_diff(*now)),
                clock::span(tolerance)
            ),
            "set the clock of the host it was made on (`timedatectl` shows whether it is synchronised), and claim again".to_owned(),
        ],
        Violation::TooLong { seconds } => vec![
            format!(
                "{branch}: the lease that was pushed lasts {seconds} s, and {MAX_LEASE_SECONDS} s (a year) are the most"
            ),
            "claim again with a shorter one (`aynig set-working --lease-seconds SECONDS`)".to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_tells_is_read() {
        let (none, one) = ("0".repeat(40), "1".repeat(40));
        let text =
            format!("{none} {one} refs/heads/a b\n{one} {none} refs/heads/c\n{none} {one} refs/tags/t\n");
        let read = updates(text.as_bytes(), BStr::to_owned).expect("three lines");
        let branches: Vec<String> = read.iter().map(|update| update.branch.to_string()).collect();
        assert_eq!(branches.len(), 1, "spaces are not in branch names: {branches:?}");
        assert_eq!((read[0].old.is_some(), read[0].new.is_some()), (true, false));
        for odd in ["x", "a b c", &format!("{one} {one}")] {
            assert!(updates(odd.as_bytes(), BStr::to_owned).is_err(), "{odd}");
        }
    }
}
