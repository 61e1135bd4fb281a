//! The manual pages, out of the same definitions as `--help`: `aynig(1)`, and `aynig-run(1)` and so on for each subcommand.
//!
//! Invariant: options are never written down here, so no page can disagree with the program; only what clap does
//! not know (exit codes, variables, files) is. `man/` holds these pages, and a test compares the two.

use std::io::BufRead;
use std::path::Path;

use bstr::ByteSlice;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::fsutil;
use crate::supervise::Pager;

use super::args::{Arguments, Manual};
use super::entry::Surroundings;
use super::error::{CommandError, Exit};
use super::ui;

const EXITS: [(&str, &str); 7] = [
    ("0", "Done. Also: there was nothing to do, or another runner was faster."),
    ("1", "A command of this pass ended stalled, or a state could not be set because the branch moved."),
    ("2", "The command line is wrong."),
    ("3", "The surroundings are wrong: no repository, a format that cannot be read, a broken configuration."),
    ("4", "The remote cannot be reached, or refuses."),
    ("70", "A bug in aynig."),
    ("128+n", "Stopped by signal n."),
];

const VARIABLES: [(&str, &str); 8] = [
    ("AYNIG_RUNNER_ID", "Who this runner is in leases; the host's name if unset."),
    ("ROLE", "The role, unless --role gives one."),
    ("LOG_LEVEL", "The level of diagnosis, unless --log-level gives one."),
    (
        "NO_COLOR, CLICOLOR_FORCE, TERM",
        "No colours if NO_COLOR is set; colours although there is no terminal, or a dumb one, if CLICOLOR_FORCE is.",
    ),
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
    (
        "GIT_PAGER, PAGER",
        "What aynig log shows its story through on a terminal, as git does; core.pager too.",
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

/// Shows the page on its standard input.
const READER: &str = "man -l -";

/// What ends the part of `--help` below the options that is about something else.
const CODES: &str = "Exit codes: ";

/// One page.
pub struct Page {
    /// Its name without the section: `aynig-run`.
    pub name: String,
    /// Its text, in roff.
    pub text: Vec<u8>,
}

impl Page {
    /// The name of its file: `aynig-run.1`.
    pub fn file(&self) -> String {
        format!("{}.1", self.name)
    }
}

/// `aynig manual`.
pub fn run(surroundings: &Surroundings, arguments: &Manual) -> Result<Exit, CommandError> {
    let pages = pages();
    if let Some(directory) = &arguments.into {
        let directory = surroundings.start.join(directory);
        write(&pages, &directory)?;
        ui::answer(&format!("{} pages in {}", pages.len(), ui::harmless(&directory.display().to_string())));
        return Ok(Exit::Done);
    }
    let name = arguments.page.as_deref().map(|verb| format!("aynig-{verb}"));
    let wanted = name.as_deref().unwrap_or("aynig");
    let Some(page) = pages.iter().find(|page| page.name == wanted) else {
        let verbs: Vec<&str> = pages.iter().filter_map(|page| page.name.strip_prefix("aynig-")).collect();
        return Err(CommandError::usage(format!("there is no page {wanted}(1)"))
            .hint(format!("there are pages for {}", verbs.join(", "))));
    };
    if !shown(&page.text) {
        ui::answer_bytes(&page.text);
    }
    Ok(Exit::Done)
}

/// Shows a page on a terminal as `man` does, if there is one; says whether it was shown.
fn shown(page: &[u8]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if ui::room().is_none() || fsutil::found_in("man", &path).is_none() {
        return false;
    }
    match Pager::start(READER) {
        Ok(mut reader) => {
            // One that somebody has seen enough of takes no more.
            reader.write(page);
            reader.end()
        }
        Err(error) => {
            tracing::debug!(%error, "no reader of manual pages");
            false
        }
    }
}

fn write(pages: &[Page], directory: &Path) -> Result<(), CommandError> {
    let failed = |path: &Path, error| CommandError::because(&format!("write {}", path.display()), &error);
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    for page in pages {
        let path = directory.join(page.file());
        fsutil::replace(&path, &page.text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// All pages, that of the program first, then those of its subcommands as `--help` lists them.
pub fn pages() -> Vec<Page> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let verbs: Vec<Command> = program.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let names: Vec<String> = verbs.iter().map(|verb| format!("aynig-{}", verb.get_name())).collect();
    let first = Page { name: "aynig".to_owned(), text: overview(&program, &verbs, &names) };
    let others = verbs.into_iter().zip(&names);
    std::iter::once(first)
        .chain(others.map(|(verb, name)| Page { name: name.clone(), text: subcommand(verb, name) }))
        .collect()
}

/// The page of the program.
fn overview(program: &Command, verbs: &[Command], names: &[String]) -> Vec<u8> {
    let mut page = Sheet::begin(program, "aynig");
    page.heading("DESCRIPTION");
    page.paragraphs(&split_help(program).0);
    page.rendered(program, Man::render_options_section);
    let mut list = Roff::new();
    list.control("SH", ["COMMANDS"]);
    for (verb, name) in verbs.iter().zip(names) {
        list.control("TP", []);
        list.text([bold(name), roman("(1)")]);
        list.text([roman(format!("{}.", about(verb)))]);
    }
    page.add(&list);
    page.table("EXIT STATUS", &EXITS);
    page.table("ENVIRONMENT", &VARIABLES);
    page.table("FILES", &FILES);
    let others = names.iter().map(String::as_str);
    page.end(others.chain(["git", "git-worktree", "git-interpret-trailers"]))
}

/// The page of a subcommand.
fn subcommand(verb: Command, name: &str) -> Vec<u8> {
    let (notes, codes) = split_help(&verb);
    // What every subcommand takes is told once, in aynig(1).
    let common: Vec<clap::Id> = verb
        .get_arguments()
        .filter(|argument| argument.is_global_set() || argument.get_id() == "help")
        .map(|argument| argument.get_id().clone())
        .collect();
    let verb = common.into_iter().fold(verb, |verb, id| verb.mut_arg(id, |argument| argument.hide(true)));
    let mut page = Sheet::begin(&verb, name);
    page.heading("DESCRIPTION");
    page.paragraphs(&[format!("{}.", about(&verb))]);
    page.paragraphs(&notes);
    let is_shown = |argument: &&clap::Arg| !argument.is_hide_set();
    if verb.get_arguments().any(|argument| is_shown(&argument)) {
        page.rendered(&verb, Man::render_options_section);
    }
    let codes: Vec<(&str, &str)> =
        codes.iter().flat_map(|codes| codes.split("; ")).filter_map(|code| code.split_once(' ')).collect();
    if !codes.is_empty() {
        page.table("EXIT STATUS", &codes);
    }
    page.end(["aynig", "git"].into_iter())
}

fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default()
}

/// A synopsis in which each option that takes a value shows it, which clap's own does not.
fn with_values(command: &Command, synopsis: &str) -> String {
    let taking = command.get_opts().filter(|option| option.get_action().takes_values());
    taking.fold(synopsis.to_owned(), |synopsis, option| {
        let long = option.get_long().map(|name| format!("--{name}"));
        let short = option.get_short().map(|name| format!("-{name}"));
        let values: Vec<&str> =
            option.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
        let (Some(name), false) = (long.or(short), values.is_empty()) else { return synopsis };
        let value = format!("\\fI{}\\fR", values.join(" "));
        let value = if option.is_require_equals_set() { format!("[={value}]") } else { format!(" {value}") };
        let bare = format!("\\fB{}\\fR]", name.replace('-', "\\-"));
        synopsis.replace(&bare, &format!("{}{value}]", &bare[..bare.len() - 1]))
    })
}

/// What `--help` says below the options: paragraphs, and the exit codes if it ends with them.
fn split_help(command: &Command) -> (Vec<String>, Option<String>) {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, codes) = match text.split_once(CODES) {
        Some((notes, codes)) => (notes, Some(codes.trim_end_matches('.').replace('\n', " "))),
        None => (text.as_str(), None),
    };
    (notes.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect(), codes)
}

/// A page in the making.
struct Sheet {
    roff: Vec<u8>,
    /// Whether a heading has just been written.
    headed: bool,
}

impl Sheet {
    /// Title, name and synopsis.
    fn begin(command: &Command, name: &str) -> Self {
        let mut sheet = Self { roff: Vec::new(), headed: false };
        // How an apostrophe is written, for clap's sections.
        sheet.roff.extend_from_slice(b".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n");
        // No date: what the pages say changes with the version, which is there. An empty argument is more than `Roff` can write.
        let (title, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
        let title = format!(".TH {title} 1 \"\" \"aynig {version}\" \"aynig manual\"\n");
        sheet.roff.extend(title.into_bytes());
        sheet.heading("NAME");
        let mut line = Roff::new();
        line.text([roman(format!("{name} \u{2d} {}", about(command)))]);
        sheet.add(&line);
        let start = sheet.roff.len();
        sheet.rendered(command, Man::render_synopsis_section);
        let synopsis = with_values(command, &sheet.roff.split_off(start).to_str_lossy());
        sheet.roff.extend(synopsis.into_bytes());
        sheet
    }

    fn heading(&mut self, title: &str) {
        let mut roff = Roff::new();
        roff.control("SH", [title]);
        self.add(&roff);
        self.headed = true;
    }

    fn paragraphs(&mut self, lines: &[String]) {
        let mut roff = Roff::new();
        for line in lines {
            // A heading begins a paragraph by itself.
            if !std::mem::take(&mut self.headed) {
                roff.control("PP", []);
            }
            roff.text([roman(line)]);
        }
        self.add(&roff);
    }

    fn table(&mut self, title: &str, rows: &[(&str, &str)]) {
        self.heading(title);
        let mut roff = Roff::new();
        for (name, text) in rows {
            roff.control("TP", []);
            roff.text([italic(*name)]);
            roff.text([roman(*text)]);
        }
        self.add(&roff);
    }

    /// One of clap's own sections, without what it repeats of the preamble.
    fn rendered(
        &mut self,
        command: &Command,
        render: impl Fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>,
    ) {
        let mut section = Vec::new();
        render(&Man::new(command.clone()), &mut section).expect("memory takes every byte");
        for line in BufRead::lines(section.as_slice()).map_while(Result::ok) {
            let is_preamble = line.starts_with(".ie ") || line.starts_with(".el ");
            // An empty line is a paragraph of its own to roff, and two breaks in a row are one.
            let is_second_break = line == ".br" && self.roff.ends_with(b"\n.br\n");
            if !is_preamble && !is_second_break && !line.is_empty() {
                // An option without a long form is followed by a space of its own.
                self.roff.extend_from_slice(line.trim_end().replace(" \\fR]", "\\fR]").as_bytes());
                self.roff.push(b'\n');
            }
        }
    }

    /// Roff without the preamble that the title already brought.
    fn add(&mut self, roff: &Roff) {
        self.roff.extend(roff.to_roff().into_bytes());
    }

    /// The end of the page, and the page.
    fn end<'a>(mut self, others: impl Iterator<Item = &'a str>) -> Vec<u8> {
        self.heading("SEE ALSO");
        let mut parts = Vec::new();
        for other in others {
            if !parts.is_empty() {
                parts.push(roman(", "));
            }
            parts.extend([bold(other), roman("(1)")]);
        }
        let mut roff = Roff::new();
        roff.text(parts);
        self.add(&roff);
        // Not every roff reads UTF-8; all know characters by number.
        let text = self.roff.to_str_lossy();
        let spelt = text.chars().map(|c| match c {
            c if c.is_ascii() => c.to_string(),
            c => format!("\\[u{:04X}]", u32::from(c)),
        });
        spelt.collect::<String>().into_bytes()
    }
}
