//! `aynig set-state`: one commit that declares the next state of a branch.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use aynig::contract::ids::BranchName;
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::declare::{self, Content, Left, Onto, Placed, StateRequest, Wanted, Written};
use aynig::ops::error::Error;
use aynig::ops::notify;
use aynig::ops::patience::Patience;
use aynig::ops::status::{parked, unnamed_default};
use aynig::ops::target::{Selected, branch_name, is_stalled, selected};
use aynig::ops::view::declared::SetView;
use aynig::ops::view::lease::lease_words;
use aynig::runner::authority::Authority;
use aynig::runner::options::is_glob;
use aynig::runner::{pluralize, shell_quote};

use crate::cli::args::SetState;
use crate::cli::exit::{Exit, render};
use crate::cli::ui;
use crate::cli::ui::signals::authority;
use crate::cli::ui::{FAINT, GOOD, STRONG, styled};
use crate::cli::work::by_hand::{advise, conditions, content, text, transition};

/// The most branches that a suggested command names.
const MOST_NAMED: usize = 10;

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &SetState) -> Result<Exit, Error> {
    let options = &arguments.commit;
    // Before stdin is read, which may block.
    declare::check(arguments.state.as_ref(), &options.text.trailer)?;
    let content = content(options, &app.process.start)?;
    let reply = text(arguments.reply.as_ref(), arguments.reply_file.as_deref(), &app.process.start)?;
    if reply.as_ref().is_some_and(|reply| reply.trim_ascii().is_empty()) {
        return Err(Error::usage("the reply is empty; nothing was changed")
            .hint("to keep the body as it is: `--keep-body` instead of `--reply`"));
    }
    let repo = app.repo();
    let authority = authority(&repo, options.remote.as_ref())?;
    let wanted = match arguments.state.clone() {
        Some(state) => {
            let keep_body = arguments.keep_body || reply.is_some();
            let (body, lease_seconds) = (reply.or(content.body), arguments.lease_seconds);
            Wanted::State { state, content: Content { keep_body, body, lease_seconds, ..content } }
        }
        None => Wanted::Retry { lease_seconds: arguments.lease_seconds, reply, trailers: content.trailers },
    };
    let named: Vec<OsString> = arguments.name.iter().chain(&options.branch).cloned().collect();
    if arguments.withdraw && named.len() < 2 {
        let branch = named.first().map(|one| branch_name(one)).transpose()?;
        let removed = declare::withdraw(&repo, &authority, &Onto { branch, ..conditions(options) })?;
        if options.json {
            print_json(&[SetView::withdrawn(&repo, &removed)]);
        } else {
            let name = styled(STRONG, ui::sanitize(&removed.branch.to_string()));
            let still = format!("(`git show {}` still shows it)", removed.slot.short());
            ui::answer(&format!(
                "{name}  {} was withdrawn  {}",
                ui::sanitize(&removed.words),
                styled(FAINT, still)
            ));
        }
        return Ok(Exit::Done);
    }
    if named.len() > 1 && !arguments.retry {
        return Err(Error::usage(
            "one state is set on one branch, and several are named; nothing was changed",
        )
        .hint("name one branch a call; only `--retry` takes several"));
    }
    if named.len() > 1 || (arguments.retry && named.iter().any(|one| is_glob(one.as_bytes()))) {
        let onto = Onto { force: arguments.force, ..conditions(options) };
        let request = StateRequest { onto, wanted };
        return retry_all(app, &authority, &repo, arguments, &named, &request);
    }
    let branch = named.first().map(|one| branch_name(one)).transpose()?;
    let request =
        StateRequest { onto: Onto { force: arguments.force, branch, ..conditions(options) }, wanted };
    let written = if arguments.when_free {
        let timeout = arguments.timeout.map(Duration::from_secs);
        let waits = arguments.wait;
        let mut patience = waits.then(|| Patience::of(&repo, &authority, timeout, ui::warn, ui::remark));
        match declare::when_free(&repo, &authority, &request, arguments.wake, patience.as_mut())? {
            Placed::Set(written) => *written,
            Placed::Left(left) => {
                advise(&left.advice);
                if options.json {
                    print_json(&[SetView::left(&repo, &left)]);
                } else {
                    ui::answer(&words(&left));
                }
                return Ok(Exit::Done);
            }
        }
    } else {
        declare::state(&repo, &authority, &request)?
    };
    report(app, &authority, &repo, &written);
    if options.json {
        print_json(&[SetView::set(&written)]);
    } else {
        ui::answer(&transition(&written, ""));
    }
    Ok(Exit::Done)
}

fn print_json(branches: &[SetView]) {
    ui::answer_json(&serde_json::json!({ "branches": branches }));
}

/// Prints advice, and notifies.
fn report(app: &App, authority: &Authority, repo: &Repo, written: &Written) {
    advise(&written.advice);
    warn_of_default(app, authority, repo, &written.branch);
    if let Err(warning) = notify::announce(repo, &app.process, authority.source(), written) {
        ui::warn(&warning);
    }
}

/// Warns of a state on the default branch that no plain run takes.
fn warn_of_default(app: &App, authority: &Authority, repo: &Repo, branch: &BranchName) {
    if let Some(why) = unnamed_default(repo, authority, &app.process, branch) {
        ui::warn(&ui::sanitize(&format!("{branch}: {why}")));
    }
}

/// Retries the branches that names and globs select, each by itself; of a glob, those that are stalled.
fn retry_all(
    app: &App,
    authority: &Authority,
    repo: &Repo,
    arguments: &SetState,
    named: &[OsString],
    request: &StateRequest,
) -> Result<Exit, Error> {
    let (chosen, others): (Vec<Selected>, Vec<Selected>) = selected(repo, authority, named)?
        .into_iter()
        .partition(|one| !one.by_glob || is_stalled(repo, authority, &one.branch));
    let others: Vec<BranchName> = others.into_iter().map(|one| one.branch).collect();
    let parked = left_parked(authority, &parked(repo, authority, &app.process, &others)?);
    if chosen.is_empty() {
        let error = Error::failed("no stalled branch matches; nothing was changed")
            .hint("`aynig status --all` shows the state of each branch");
        return Err(parked.into_iter().fold(error, Error::hint));
    }
    let options = &arguments.commit;
    let (mut all, mut exit) = (Vec::new(), Exit::Done);
    for Selected { branch, .. } in chosen {
        let onto = Onto { branch: Some(branch.clone()), ..request.onto.clone() };
        match declare::state(repo, authority, &StateRequest { onto, wanted: request.wanted.clone() }) {
            Err(error) => {
                ui::narrate(&render(&error, false));
                all.push(SetView::failed(&branch, &error));
                exit = Exit::Failed;
            }
            Ok(written) => {
                report(app, authority, repo, &written);
                if !options.json {
                    ui::answer(&transition(&written, ""));
                }
                all.push(SetView::set(&written));
            }
        }
    }
    if let Some(words) = parked {
        ui::remark(&ui::sanitize(&words));
    }
    if options.json {
        print_json(&all);
    }
    Ok(exit)
}

/// The sentence about parked branches that a glob matches, and that are not retried.
fn left_parked(authority: &Authority, parked: &[BranchName]) -> Option<String> {
    let (match_, them) = match parked.len() {
        0 => return None,
        1 => ("matches and stays", "it"),
        2.. => ("match and stay", "them"),
    };
    let remote = authority.source().map_or_else(String::new, |remote| format!(" --remote {remote}"));
    let names: String = match parked.len() {
        ..=MOST_NAMED => parked.iter().map(|one| format!(" {}", shell_quote(one))).collect(),
        _ => " BRANCH…".to_owned(),
    };
    let count = pluralize(parked.len(), "parked branch");
    Some(format!("{count} {match_} parked; `aynig set-state --retry{names}{remote}` requests {them} now"))
}

/// One line for a state that was left beside its branch.
fn words(left: &Left) -> String {
    let what = match left {
        Left { delivered: true, .. } => "was delivered",
        Left { again: true, .. } => "waits already until the branch rests",
        Left { .. } => "waits until the branch rests",
    };
    let lease = left.lease.as_ref().filter(|_| !left.delivered);
    let held = lease.map(|lease| format!(", held by {}", lease_words(lease))).unwrap_or_default();
    let replaced = left.replaced.as_ref().map(|before| {
        format!(
            "; {} could not be delivered ({}), and was replaced (`git show {}` still shows it)",
            before.words,
            before.stuck.as_deref().unwrap_or("the branch has moved"),
            before.slot.short()
        )
    });
    format!(
        "{}  {} {what}{}{}  {}",
        styled(STRONG, ui::sanitize(&left.branch.to_string())),
        styled(GOOD, &left.state),
        ui::sanitize(&held),
        ui::sanitize(&replaced.unwrap_or_default()),
        styled(FAINT, format!("({})", left.commit.short()))
    )
}
