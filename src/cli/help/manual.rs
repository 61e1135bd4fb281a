//! The manual pages: `aynig(1)`, and `aynig-run(1)` and so on for each subcommand.
//!
//! clap_mangen renders them from the definitions behind `--help`, so options cannot disagree with the program. The
//! sections that clap does not know are in `manual.roff`. `man/` holds the pages, and a test compares them.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use aynig::fsutil;
use aynig::ops::app::Process;
use aynig::ops::error::Error;
use aynig::ops::settings::keys::{Fallback, KEYS, Key};
use aynig::supervise::Pager;

use crate::cli::args::{Arguments, Manual};
use crate::cli::exit::Exit;
use crate::cli::ui;

/// Exit codes, variables and files, for `aynig(1)`.
const REFERENCE: &str = include_str!("manual.roff");
/// The last section of a subcommand's page.
const SEE_ALSO: &str = ".SH \"SEE ALSO\"\n\\fBaynig\\fR(1), \\fBgit\\fR(1)\n";
/// Shows the page on its standard input.
const READER: &str = "man -l -";

/// `aynig manual`.
pub(crate) fn run(process: &Process, arguments: &Manual) -> Result<Exit, Error> {
    let pages = pages();
    if let Some(directory) = &arguments.into {
        let directory = process.start.join(directory);
        write(&pages, &directory)?;
        ui::answer(&format!("{} pages in {}", pages.len(), ui::sanitize(&directory.display().to_string())));
        return Ok(Exit::Done);
    }
    let wanted = page_of(&arguments.page.join("-"));
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let verbs: Vec<&str> = pages.iter().filter_map(|(name, _)| name.strip_prefix("aynig-")).collect();
        return Err(Error::usage(format!("there is no page {wanted}(1)"))
            .hint(format!("there are pages for {}", verbs.join(", "))));
    };
    if !shown(page.as_bytes()) {
        ui::answer_bytes(page.as_bytes());
    }
    Ok(Exit::Done)
}

/// The name of the page that has a subcommand. Those of a subcommand are on its page: `flow-start` on that of `flow`.
fn page_of(wanted: &str) -> String {
    let program = Arguments::command();
    let has = |verb: &str, below: &str| {
        program.find_subcommand(verb).is_some_and(|verb| verb.find_subcommand(below).is_some())
    };
    match wanted.split_once('-') {
        _ if wanted.is_empty() => "aynig".to_owned(),
        Some((verb, below)) if has(verb, below) => format!("aynig-{verb}"),
        _ => format!("aynig-{wanted}"),
    }
}

/// Shows a page through `man`, if stdout is a terminal and `man` is installed. Returns whether it was shown.
fn shown(page: &[u8]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if ui::room().is_none() || fsutil::found_in("man", &path).is_none() {
        return false;
    }
    let reader = Pager::start(READER).inspect_err(|error| tracing::debug!(%error, "man does not start"));
    reader.is_ok_and(|mut reader| {
        // A reader that quits early accepts no more bytes.
        reader.write(page);
        reader.end()
    })
}

fn write(pages: &[(String, String)], directory: &Path) -> Result<(), Error> {
    let failed = |path: &Path, error| Error::because(&format!("write {}", path.display()), &error);
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    for (name, text) in pages {
        let path = directory.join(format!("{name}.1"));
        fsutil::replace(&path, text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// The names and texts of all pages, that of the program first.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut program = Arguments::command().disable_help_subcommand(true).subcommand_help_heading("COMMANDS");
    program.build();
    let verbs = program.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = verbs.map(|verb| (format!("aynig-{}", verb.get_name()), page(verb.clone(), SEE_ALSO)));
    let reference = REFERENCE.replace(".SH FILES\n", &format!("{}.SH FILES\n", configuration()));
    std::iter::once(("aynig".to_owned(), page(program.clone(), &reference))).chain(verbs).collect()
}

/// The settings in git's configuration.
fn configuration() -> String {
    let mut text = ".SH CONFIGURATION\n".to_owned();
    let mut keys: Vec<&Key> = KEYS.iter().collect();
    keys.sort_by_key(|key| key.name);
    for key in keys {
        let default = match key.default {
            Fallback::Value(default) | Fallback::Words(default) => default.replace('`', ""),
        };
        let words = format!("{}; default: {default}.", key.help).replace('-', "\\-").replace('\'', "\\*(Aq");
        text.push_str(&format!(".TP\n\\fIaynig.{}\\fR\n{words}\n", key.name));
    }
    text
}

/// The section about the commands of a subcommand; it has no pages for them.
fn commands(command: &Command) -> String {
    let text = command_entries(command, "");
    if text.is_empty() { text } else { format!(".SH COMMANDS\n{text}") }
}

/// The entries of the commands that have none below them; their names begin with `above`.
fn command_entries(command: &Command, above: &str) -> String {
    let plain = |text: String| text.replace('-', "\\-").replace('\'', "\\*(Aq");
    let mut text = String::new();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let name = format!("{above}{}", verb.get_name());
        if verb.has_subcommands() {
            text.push_str(&command_entries(verb, &format!("{name} ")));
            continue;
        }
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let taken: String = verb.get_positionals().map(|taken| format!(" {taken}")).collect();
        text.push_str(&format!(".TP\n\\fB{name}\\fR{}\n{}.\n", plain(taken), plain(about)));
        let is_own = |option: &&clap::Arg| !option.is_positional() && option.get_id() != "help";
        for option in verb.get_arguments().filter(is_own) {
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!(".RS\n.TP\n{}\n{}\n.RE\n", plain(option.to_string()), plain(help)));
        }
    }
    text
}

/// Renders one page, with `end` as its last sections.
fn page(mut command: Command, end: &str) -> String {
    let usage = command.render_usage().to_string();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_uppercase();
    // aynig(1) documents the options of all subcommands.
    let is_verb = command.get_name() != "aynig";
    let end = if is_verb { format!("{}{end}", commands(&command)) } else { end.to_owned() };
    let command = command
        .mut_subcommands(|verb| {
            let hidden = is_verb || verb.is_hide_set();
            verb.hide(hidden)
        })
        .mut_args(|option| {
            let is_common = option.is_global_set() || option.get_id() == "help";
            let hidden = option.is_hide_set() || is_verb && is_common;
            option.hide(hidden)
        })
        .override_usage(usage.trim_start_matches("Usage: ").to_owned())
        .long_about(format!("{}.\n\n{}", about.trim_end_matches('.'), notes.replace('\n', "\n\n")))
        .after_help(None);
    // Quoted here because clap_mangen writes an empty date as nothing. The version stands for the date.
    let man = Man::new(command).title(name).date("\"\"").manual("aynig manual");
    let mut text = Vec::new();
    let source = concat!("aynig ", env!("CARGO_PKG_VERSION"));
    man.source(source).render(&mut text).expect("memory takes every byte");
    let text = String::from_utf8_lossy(&text);
    // mandoc complains of empty lines and of repeated breaks, both of which clap_mangen writes.
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.dedup();
    format!("{}\n{end}", lines.join("\n"))
}
