//! The manual page, out of the same definitions as `--help`.
//!
//! Invariant: options are never written down here, so the page cannot disagree with the program; only what clap does
//! not know (exit codes, variables, files) is. `man/aynig.1` is this page, and a test compares the two.

use std::io::BufRead;

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::args::Arguments;

const EXITS: [(&str, &str); 7] = [
    ("0", "Done. Also: there was nothing to do, or another runner was faster."),
    ("1", "A command of this pass ended stalled, or a state could not be set because the branch moved."),
    ("2", "The command line is wrong."),
    ("3", "The surroundings are wrong: no repository, a format that cannot be read, a broken configuration."),
    ("4", "The remote cannot be reached, or refuses."),
    ("70", "A bug in aynig."),
    ("128+n", "Stopped by signal n."),
];

const VARIABLES: [(&str, &str); 7] = [
    ("AYNIG_RUNNER_ID", "Who this runner is in leases; the host's name if unset."),
    ("ROLE", "The role, unless --role gives one."),
    ("LOG_LEVEL", "The level of diagnosis, unless --log-level gives one."),
    ("NO_COLOR", "No colours if set."),
    (
        "AYNIG_BRANCH, AYNIG_RUN_ID, AYNIG_GIT_DIR, WORKTREE_PATH",
        "Set for a command. set-state and set-working act on that branch unless --branch names another, and only \
         while that attempt holds it.",
    ),
    (
        "BODY, BODY_PATH, COMMIT_HASH, STDOUT_LOG_PATH, STDERR_LOG_PATH, AYNIG_BIN, AYNIG_LEASE_SECONDS",
        "Set for a command: what it was asked, by which commit, where its output goes, and how to call aynig.",
    ),
    (
        "AYNIG_NOTICE_EVENT, AYNIG_NOTICE_BRANCH and the like",
        "Set for the program in aynig.notify: what happened. The same as JSON is on its standard input.",
    ),
];

const FILES: [(&str, &str); 8] = [
    (".aynig/command/STATE", "The command for a state, an executable in the branch's newest commit."),
    (".aynig/roles/ROLE/command/STATE", "The same for a role, which goes first."),
    (".aynig/installed.json", "Which packs aynig install has put here, and from where."),
    (".aynig/CONTRACT.md", "The rules between commits, runners and commands, as aynig init writes them."),
    (
        ".aynig/logs/COMMIT.stdout.log, .aynig/logs/COMMIT.stderr.log",
        "What the command for a commit printed.",
    ),
    (".aynig/logs/notify.log", "What the program in aynig.notify was told, and printed."),
    (".worktrees/", "Where commands run."),
    ("refs/aynig/rescue/BRANCH/ATTEMPT", "Work that could not be landed."),
];

/// The whole page, in roff.
pub fn page() -> Vec<u8> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let mut page = Vec::new();
    let version = format!("aynig {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(program.clone()).section("1").source(version).manual("AYNIG");
    let written = man
        .render_title(&mut page)
        .and_then(|()| man.render_name_section(&mut page))
        .and_then(|()| man.render_synopsis_section(&mut page))
        .and_then(|()| man.render_description_section(&mut page))
        .and_then(|()| man.render_options_section(&mut page));
    written.expect("memory takes every byte");
    page.extend(plain(&extra(&program)));
    let mut heading = Roff::new();
    heading.control("SH", ["SUBCOMMANDS"]);
    page.extend(plain(&heading));
    for verb in program.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        page.extend(subcommand(verb.clone()));
    }
    for (title, rows) in [
        ("EXIT STATUS", EXITS.as_slice()),
        ("ENVIRONMENT", VARIABLES.as_slice()),
        ("FILES", FILES.as_slice()),
    ] {
        page.extend(plain(&table(title, rows)));
    }
    let mut also = Roff::new();
    also.control("SH", ["SEE ALSO"]);
    also.text([
        bold("git"),
        roman("(1), "),
        bold("git-worktree"),
        roman("(1), "),
        bold("git-interpret-trailers"),
        roman("(1)"),
    ]);
    page.extend(plain(&also));
    with_one_preamble(&page)
}

/// Every section clap renders brings the definition of the apostrophe; once is enough.
fn with_one_preamble(page: &[u8]) -> Vec<u8> {
    let is_preamble = |line: &&[u8]| line.starts_with(b".ie ") || line.starts_with(b".el ");
    let lines = || page.split_inclusive(|byte| *byte == b'\n');
    lines()
        .filter(is_preamble)
        .take(2)
        .chain(lines().filter(|line| !is_preamble(line)))
        .flatten()
        .copied()
        .collect()
}

/// What `--help` says below the options.
fn extra(program: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(text) = program.get_after_help() {
        for line in text.to_string().lines() {
            roff.control("PP", []);
            roff.text([roman(line)]);
        }
    }
    roff
}

/// One subcommand: clap's own sections, as subsections.
fn subcommand(verb: clap::Command) -> Vec<u8> {
    let name = verb.get_name().to_owned();
    // What every subcommand takes is told once, for the program.
    let common: Vec<clap::Id> = verb
        .get_arguments()
        .filter(|argument| argument.is_global_set() || argument.get_id() == "help")
        .map(|argument| argument.get_id().clone())
        .collect();
    let verb = common.into_iter().fold(verb, |verb, id| verb.mut_arg(id, |argument| argument.hide(true)));
    let mut heading = Roff::new();
    heading.control("SS", [format!("aynig {name}").as_str()]);
    if let Some(about) = verb.get_about() {
        heading.text([roman(format!("{about}."))]);
    }
    let mut section = plain(&heading);
    let after = extra(&verb);
    let man = Man::new(verb);
    let mut body = Vec::new();
    man.render_synopsis_section(&mut body)
        .and_then(|()| man.render_options_section(&mut body))
        .expect("memory takes every byte");
    for line in body.lines().map_while(Result::ok) {
        let line = if matches!(line.as_str(), ".SH SYNOPSIS" | ".SH OPTIONS") { ".PP" } else { &line };
        section.extend_from_slice(line.as_bytes());
        section.push(b'\n');
    }
    section.extend(plain(&after));
    section
}

fn table(title: &str, rows: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (name, text) in rows {
        roff.control("TP", []);
        roff.text([italic(*name)]);
        roff.text([roman(*text)]);
    }
    roff
}

/// Roff without the preamble that the title already brought.
fn plain(roff: &Roff) -> Vec<u8> {
    roff.to_roff().into_bytes()
}
