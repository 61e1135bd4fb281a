//! Files that are generated and committed equal their freshly generated contents: the pages below `man/`, the scripts in
//! `contrib/completions/`, and the document of the API.
//!
//! `AYNIG_UPDATE=1 cargo test --test it generated` rewrites them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::programs::{program, shipped};
use super::support::*;

/// The name under which packages install each shell's script.
pub(crate) const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "aynig.bash"), ("zsh", "_aynig"), ("fish", "aynig.fish")];

fn updating() -> bool {
    std::env::var_os("AYNIG_UPDATE").is_some_and(|value| value == "1")
}

fn assert_current(file: &Path, wanted: &[u8]) {
    if updating() {
        fs::create_dir_all(file.parent().expect("below the top")).expect("directories");
        fs::write(file, wanted).expect("written");
    }
    assert!(
        fs::read(file).unwrap_or_default() == wanted,
        "{} is out of date; write all of them anew: AYNIG_UPDATE=1 cargo test --test it generated",
        file.display()
    );
}

/// All subcommands that `--help` shows.
pub(crate) fn verbs(repo: &Repo) -> Vec<String> {
    listed(&out(&repo.aynig_ok(["--help"])))
}

/// The subcommands that a help text lists.
pub(crate) fn listed(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).expect("a list");
    let names = list.lines().take_while(|line| !line.trim().is_empty());
    names
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The paths of all pages below `place`: `man1/aynig-run.1` and so on.
fn pages(place: &Path) -> BTreeSet<String> {
    let files = files_below(place).into_iter();
    files.map(|file| file.strip_prefix(place).expect("below").to_string_lossy().into_owned()).collect()
}

#[test]
fn the_manual_pages_are_current() {
    let repo = Repo::new();
    repo.aynig_ok(["manual", "--into", "pages"]);
    let made = repo.path.join("pages");
    let others = ["man1/aynig.1", "man5/aynig-config.5", "man5/aynig-flow.5", "man7/aynig-commands.7"];
    let wanted: BTreeSet<String> = verbs(&repo)
        .iter()
        .map(|verb| format!("man1/aynig-{verb}.1"))
        .chain(others.map(str::to_owned))
        .collect();
    assert_eq!(pages(&made), wanted, "one page for each subcommand, one for all, and four others");
    for name in &wanted {
        assert_current(&shipped("man").join(name), &fs::read(made.join(name)).expect("a page"));
    }
    assert_eq!(pages(&shipped("man")), wanted, "and no other");
}

#[test]
fn the_document_of_the_api_is_current() {
    let text = serde_json::to_string_pretty(&aynig::server::document()).expect("JSON");
    assert_current(&shipped("contrib/api").join("openapi.json"), format!("{text}\n").as_bytes());
}

#[test]
fn the_completions_are_current() {
    let repo = Repo::new();
    for (shell, file) in COMPLETIONS {
        let script = repo.aynig_ok(["completions", shell]).stdout;
        assert_current(&shipped("contrib/completions").join(file), &script);
    }
}

#[test]
fn a_page_tells_of_every_option_of_its_subcommand() {
    let repo = Repo::new();
    let overview = out(&repo.aynig_ok(["manual"]));
    for verb in verbs(&repo) {
        let page = out(&repo.aynig_ok(["manual", &verb]));
        assert!(overview.contains(&format!("aynig\\-{}(1)", verb.replace('-', "\\-"))), "{verb}: {overview}");
        let help = out(&repo.aynig_ok([&verb, "--help"]));
        let usage = help.split("Usage: aynig ").nth(1).and_then(|usage| usage.lines().next());
        let synopsis = format!(".SH SYNOPSIS\n\\fBaynig {}", usage.expect("a usage").replace('-', "\\-"));
        assert!(page.replace("\\fR", "").contains(&synopsis), "{synopsis}: {page}");
        for word in help.split_whitespace().filter(|word| word.starts_with("--")) {
            let option: String =
                word.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            let spelt = option.replace('-', "\\-");
            assert!(page.contains(&spelt) || overview.contains(&spelt), "{verb} {option}");
        }
        assert_sections(&page, &["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "\"SEE ALSO\""]);
    }
    assert_sections(
        &overview,
        &[
            "NAME",
            "SYNOPSIS",
            "OPTIONS",
            "COMMANDS",
            "\"EXIT STATUS\"",
            "ENVIRONMENT",
            "CONFIGURATION",
            "FILES",
            "NOTES",
            "EXAMPLES",
        ],
    );
    assert!(!overview.contains("__"), "hidden subcommands stay hidden");
}

/// `flow` is a page of two sections; without a number the first one is shown.
#[test]
fn a_page_is_found_by_its_name_and_its_section() {
    let repo = Repo::new();
    for (words, title) in [
        (&["flow"][..], "AYNIG-FLOW 1"),
        (&["flow", "start"], "AYNIG-FLOW 1"),
        (&["1", "flow"], "AYNIG-FLOW 1"),
        (&["5", "flow"], "AYNIG\\-FLOW 5"),
        (&["config"], "AYNIG\\-CONFIG 5"),
        (&["7", "commands"], "AYNIG\\-COMMANDS 7"),
        (&["aynig-commands"], "AYNIG\\-COMMANDS 7"),
        (&["1", "aynig"], "AYNIG 1"),
        (&["set", "state"], "AYNIG-SET-STATE 1"),
    ] {
        let page = out(&repo.aynig_ok([&["manual"], words].concat()));
        assert!(page.contains(&format!(".TH {title} ")), "{words:?}: {page}");
    }
    for words in [&["nonsense"][..], &["7", "flow"], &["5", "run"]] {
        let output = repo.aynig([&["manual"], words].concat());
        assert_refused(&output, 2, &[&words.join(" "), "set-state", "config, flow, commands"]);
    }
}

fn assert_sections(page: &str, sections: &[&str]) {
    for section in sections {
        assert_eq!(page.matches(&format!("\n.SH {section}\n")).count(), 1, "{section}");
    }
}

/// Checked by mandoc, the stricter reader, and by man.
#[test]
fn readers_of_manual_pages_find_nothing_to_complain_of() {
    let pages = || files_below(&shipped("man"));
    if let Some(mandoc) = program("mandoc") {
        let output = Command::new(mandoc).args(["-T", "lint", "-W", "warning"]).args(pages()).output();
        let said = out(&output.expect("mandoc runs"));
        // Pages carry a version instead of a date.
        let complaints: Vec<&str> = said.lines().filter(|line| !line.contains("missing date")).collect();
        assert_eq!(complaints, Vec::<&str>::new());
    }
    if let Some(man) = program("man") {
        let mut read = Command::new(man);
        let output = read
            .args(["--warnings", "-l"])
            .args(pages())
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("man runs");
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
        assert!(out(&output).contains("SEE ALSO"), "{}", out(&output));
    }
}
