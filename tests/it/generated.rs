//! Files that are generated and committed are what they would be if generated now.

use std::fs;
use std::path::Path;

use super::support::*;

#[test]
fn the_manual_page_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/aynig.1");
    let page = Repo::new().aynig_ok(["__man"]).stdout;
    if std::env::var_os("AYNIG_UPDATE").is_some_and(|value| value == "1") {
        fs::write(&file, &page).unwrap();
    }
    assert!(
        fs::read(&file).unwrap_or_default() == page,
        "man/aynig.1 is out of date; write it anew: cargo run -- __man > man/aynig.1"
    );
}

#[test]
fn the_manual_page_tells_of_every_subcommand_and_option() {
    let repo = Repo::new();
    let page = out(&repo.aynig_ok(["__man"]));
    for verb in [
        "run",
        "set-state",
        "set-working",
        "status",
        "log",
        "events",
        "logs",
        "clean",
        "doctor",
        "init",
        "install",
        "hook",
    ] {
        assert!(page.contains(&format!(".SS \"aynig {verb}\"")), "{verb}");
        let help = out(&repo.aynig_ok([verb, "--help"]));
        for word in help.split_whitespace().filter(|word| word.starts_with("--")) {
            let option: String =
                word.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            assert!(page.contains(&option.replace('-', "\\-")), "{verb} {option}");
        }
    }
    for section in ["NAME", "SYNOPSIS", "OPTIONS", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "\"SEE ALSO\""]
    {
        assert_eq!(page.matches(&format!("\n.SH {section}\n")).count(), 1, "{section}");
    }
    assert!(!page.contains("__"), "hidden subcommands stay hidden");
}
