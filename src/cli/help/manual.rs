//! The manual pages: `aynig(1)`, `aynig-run(1)` and so on for each subcommand, `aynig-config(5)` and others.
//!
//! clap_mangen renders options from the definitions behind `--help`, so they cannot disagree with the program. Their
//! exit codes come from `--help`, too. All other sections are the Markdown of `pages`. `man/` holds the pages, and a
//! test compares them.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use aynig::fsutil;
use aynig::ops::app::Process;
use aynig::ops::error::Error;
use aynig::supervise::Pager;

use crate::cli::args::{Arguments, Manual};
use crate::cli::exit::Exit;
use crate::cli::help::pages::{SOURCES, Source};
use crate::cli::help::roff::{escape, render};
use crate::cli::help::settings;
use crate::cli::ui;

/// Shows the page on its standard input.
const READER: &str = "man -l -";
/// The footer of a page: program and version.
const VERSION: &str = concat!("aynig ", env!("CARGO_PKG_VERSION"));
/// The words before the exit codes in a help text.
const EXIT_CODES: &str = "Exit codes: ";

/// A page.
struct Page {
    /// Its name: `aynig-run`.
    name: &'static str,
    /// The section of the manual.
    section: u8,
    /// The roff.
    text: String,
}

/// `aynig manual`.
pub(crate) fn run(process: &Process, arguments: &Manual) -> Result<Exit, Error> {
    if let Some(directory) = &arguments.into {
        let directory = process.start.join(directory);
        let pages: Vec<Page> = SOURCES.iter().map(page_of).collect();
        write(&pages, &directory)?;
        ui::answer(&format!("{} pages in {}", pages.len(), ui::sanitize(&directory.display().to_string())));
        return Ok(Exit::Done);
    }
    let page = page_of(wanted(&arguments.page).ok_or_else(|| unknown(&arguments.page))?);
    if !shown(page.text.as_bytes()) {
        ui::answer_bytes(page.text.as_bytes());
    }
    Ok(Exit::Done)
}

/// The page that a user names: `flow start`, `config`, `5 flow`. Without a section the first one that has it.
fn wanted(words: &[String]) -> Option<&'static Source> {
    let section = words.first().filter(|_| words.len() > 1).and_then(|word| word.parse::<u8>().ok());
    let name = words.get(usize::from(section.is_some())..).unwrap_or_default().join("-");
    let name = name_of(name.strip_prefix("aynig-").unwrap_or(&name));
    SOURCES.iter().find(|page| page.name == name && section.is_none_or(|section| section == page.section))
}

/// The name of the page that has a subcommand. Those of a subcommand are on its page: `flow-start` on that of `flow`.
fn name_of(wanted: &str) -> String {
    let program = Arguments::command();
    let has = |verb: &str, below: &str| {
        program.find_subcommand(verb).is_some_and(|verb| verb.find_subcommand(below).is_some())
    };
    match wanted.split_once('-') {
        _ if wanted.is_empty() || wanted == "aynig" => "aynig".to_owned(),
        Some((verb, below)) if has(verb, below) => format!("aynig-{verb}"),
        _ => format!("aynig-{wanted}"),
    }
}

fn unknown(words: &[String]) -> Error {
    let known = |section: u8| {
        let named = SOURCES.iter().filter(|page| page.section == section);
        let names: Vec<&str> = named.filter_map(|page| page.name.strip_prefix("aynig-")).collect();
        names.join(", ")
    };
    Error::usage(format!("there is no page {}", words.join(" ")))
        .hint(format!("the pages are {}", known(1)))
        .hint(format!("and, in sections 5 and 7: {}, {}", known(5), known(7)))
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

/// Writes the pages into the directories that `man` reads: `man1` and so on.
fn write(pages: &[Page], directory: &Path) -> Result<(), Error> {
    let failed = |path: &Path, error| Error::because(&format!("write {}", path.display()), &error);
    for page in pages {
        let directory = directory.join(format!("man{}", page.section));
        std::fs::create_dir_all(&directory).map_err(|error| failed(&directory, error))?;
        let path = directory.join(format!("{}.{}", page.name, page.section));
        fsutil::replace(&path, page.text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn page_of(source: &Source) -> Page {
    let text = source.text.replace("{settings}", &settings::entries());
    let written = render(&text).expect("a test renders all pages");
    let text = match source.section {
        1 => generated(source.name) + &written,
        section => {
            let title = source.name.to_uppercase().replace('-', "\\-");
            format!(".TH {title} {section} \"\" \"{VERSION}\" \"aynig manual\"\n{written}")
        }
    };
    Page { name: source.name, section: source.section, text }
}

/// The sections that come from the definitions of a subcommand, or of the program.
fn generated(name: &str) -> String {
    let mut program = Arguments::command().disable_help_subcommand(true).subcommand_help_heading("COMMANDS");
    program.build();
    match name.strip_prefix("aynig-") {
        None => options(program),
        Some(verb) => {
            let verb = program.find_subcommand(verb).expect("a test compares the pages with the subcommands");
            options(verb.clone()) + &commands(verb) + &exit_status(verb)
        }
    }
}

/// The section about the commands of a subcommand; they have no pages of their own.
fn commands(command: &Command) -> String {
    let text = command_entries(command, "");
    if text.is_empty() { text } else { format!(".SH COMMANDS\n{text}") }
}

/// The entries of the commands that have none below them; their names begin with `above`.
fn command_entries(command: &Command, above: &str) -> String {
    let mut text = String::new();
    let shown = |verb: &&Command| verb.get_name() != "help" && !verb.is_hide_set();
    for verb in command.get_subcommands().filter(shown) {
        let name = format!("{above}{}", verb.get_name());
        if verb.has_subcommands() {
            text.push_str(&command_entries(verb, &format!("{name} ")));
            continue;
        }
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let taken: String = verb.get_positionals().map(|taken| format!(" {taken}")).collect();
        text.push_str(&format!(".TP\n\\fB{}\\fR{}\n{}.\n", escape(&name), escape(&taken), escape(&about)));
        let is_own = |option: &&clap::Arg| {
            !option.is_positional() && !option.is_global_set() && option.get_id() != "help"
        };
        for option in verb.get_arguments().filter(is_own) {
            text.push_str(&format!(
                ".RS\n.TP\n{}\n{}\n.RE\n",
                escape(&option.to_string()),
                escape(&help(option))
            ));
        }
    }
    text
}

/// The help of an option, with its values and its default.
fn help(option: &clap::Arg) -> String {
    let mut text = option.get_help().map(ToString::to_string).unwrap_or_default();
    if !option.get_action().takes_values() {
        return text;
    }
    let values: Vec<String> =
        option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !values.is_empty() {
        text.push_str(&format!(" [values: {}]", values.join(", ")));
    }
    if let [default] = option.get_default_values()
        && !option.is_hide_default_value_set()
    {
        text.push_str(&format!(" [default: {}]", default.display()));
    }
    text
}

/// The exit codes that the help text of a subcommand lists: `0 done; 1 refused; …`, and the lines below them.
fn exit_status(command: &Command) -> String {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Some((_, listed)) = notes.split_once(EXIT_CODES) else { return String::new() };
    let (codes, rest) = listed.split_once('\n').unwrap_or((listed, ""));
    let mut entries: Vec<(String, String)> = Vec::new();
    for part in codes.trim_end_matches('.').split("; ") {
        match (part.split_once(' '), entries.last_mut()) {
            (Some((code, what)), _) if code.starts_with(|first: char| first.is_ascii_digit()) => {
                let what = match what {
                    "usage" => "the command line is wrong",
                    "set-up" => "the environment is wrong: no repository, or a broken configuration",
                    other => other,
                };
                entries.push((code.to_owned(), what.to_owned()));
            }
            (_, Some((_, what))) => what.push_str(&format!("; {part}")),
            (_, None) => {}
        }
    }
    let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
    for (code, what) in entries {
        let what: String =
            what.chars().take(1).flat_map(char::to_uppercase).chain(what.chars().skip(1)).collect();
        text.push_str(&format!(".TP\n\\fB{code}\\fR\n{}.\n", escape(&what)));
    }
    for line in rest.lines() {
        text.push_str(&format!(".PP\n{}\n", escape(line)));
    }
    text
}

/// Name, synopsis, description and options, rendered by clap_mangen.
fn options(mut command: Command) -> String {
    let usage = command.render_usage().to_string();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let notes = notes.split(EXIT_CODES).next().unwrap_or_default().trim_end().to_owned();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_uppercase();
    // aynig(1) documents the options of all subcommands.
    let is_verb = command.get_name() != "aynig";
    let command = command
        .mut_subcommands(|verb| {
            let hidden = is_verb || verb.is_hide_set();
            verb.hide(hidden)
        })
        .mut_args(|option| {
            let is_common = option.is_global_set() && option.get_id() != "json" || option.get_id() == "help";
            let hidden = option.is_hide_set() || is_verb && is_common;
            option.hide(hidden)
        })
        .override_usage(usage.trim_start_matches("Usage: ").to_owned())
        .long_about(
            format!("{}.\n\n{}", about.trim_end_matches('.'), notes.replace('\n', "\n\n"))
                .trim_end()
                .to_owned(),
        )
        .after_help(None);
    // Quoted here because clap_mangen writes an empty date as nothing. The version stands for the date.
    let man = Man::new(command).title(name).date("\"\"").manual("aynig manual");
    let mut text = Vec::new();
    man.source(VERSION).render(&mut text).expect("memory takes every byte");
    let text = String::from_utf8_lossy(&text);
    // mandoc complains of empty lines and of repeated breaks, both of which clap_mangen writes.
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.dedup();
    format!("{}\n", lines.join("\n"))
}
