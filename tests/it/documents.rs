//! CONTRACT.md agrees with the sources and with itself; no document mentions anything but the product.

use std::path::{Path, PathBuf};

use aynig::contract::environment::{PLAIN_WORDS, RESERVED_NAMES};
use aynig::contract::trailers::RUNNER_MANAGED;

use super::support::{files_below, hermetic, out};

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn contract() -> String {
    std::fs::read_to_string(top().join("CONTRACT.md")).expect("CONTRACT.md")
}

/// CONTRACT 3.9
#[test]
fn every_reserved_name_is_in_the_contract() {
    let text = contract();
    for family in RESERVED_NAMES {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| {} |", family.reason)))
            .unwrap_or_else(|| panic!("CONTRACT.md has no row for {:?}", family.reason));
        let listed: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert_eq!(listed, family.patterns().collect::<Vec<_>>(), "{}", family.reason);
    }
    for key in RUNNER_MANAGED.iter().chain(&PLAIN_WORDS) {
        assert!(text.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn its_clauses_are_numbered_without_gaps() {
    let mut section = 0;
    let mut clause = 0;
    for line in contract().lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            assert!(section == 0 || clause > 0, "section {section} is empty");
            let number: i32 =
                heading.split('.').next().and_then(|number| number.parse().ok()).expect(heading);
            // The sections from 19 on are written one by one.
            assert!(number == section + 1 || (number > section && section >= 18), "{heading}");
            section = number;
            clause = 0;
        } else if let Some(number) = line.strip_prefix("**").and_then(|rest| rest.split("**").next())
            && number.starts_with(|c: char| c.is_ascii_digit())
        {
            clause += 1;
            let added = number.ends_with('+');
            assert_eq!(number.trim_end_matches('+'), format!("{section}.{clause}"));
            assert!(added || section <= 8, "{number}: sections from 9 on are all added");
        }
    }
    assert_eq!(section, 23);
}

#[test]
fn its_references_lead_somewhere() {
    let text = contract();
    let has =
        |number: &str| text.contains(&format!("**{number}**")) || text.contains(&format!("**{number}+**"));
    for mention in text.split(|c: char| c.is_whitespace() || "(),;:".contains(c)) {
        let number = mention.trim_end_matches('.');
        let Some((section, clause)) = number.split_once('.') else { continue };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits(section) && digits(clause) {
            assert!(has(number), "there is no clause {number}");
        }
    }
}

/// Sources cite only existing sections of the contract, and the README.
#[test]
fn the_sources_cite_sections_that_exist() {
    let text = contract();
    for file in files_below(&top().join("src")) {
        let source = std::fs::read_to_string(&file).expect("text");
        for citation in source.split(concat!("CONTRACT.md", " §")).skip(1) {
            let number: String = citation.chars().take_while(char::is_ascii_digit).collect();
            assert!(text.contains(&format!("\n## {number}. ")), "{}: §{number}", file.display());
        }
    }
}

#[test]
fn documents_speak_of_the_product_alone() {
    let mut documents: Vec<PathBuf> =
        ["README.md", "CONTRACT.md", "CHANGELOG.md"].iter().map(|name| top().join(name)).collect();
    documents.push(top().join(".aynig/COMMANDS.md"));
    documents.extend(files_below(&top().join("src/cli/help/pages")));
    for document in documents {
        let text = std::fs::read_to_string(&document).expect("text");
        for word in ["/work/", "/root/", "/home/", "localhost", "TODO", "FIXME", "runner-spec", "blazing"] {
            assert!(!text.contains(word), "{}: {word}", document.display());
        }
        assert_eq!(text.matches("\n```").count() % 2, 0, "{}: an open block", document.display());
    }
}

/// A dependency's origin is its name and its lock entry, never the address of a registry.
#[test]
fn no_file_names_the_host_of_a_registry() {
    // Assembled here, so that this file does not match itself.
    let hosts = [
        ("crates", "io"),
        ("docs", "rs"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("rubygems", "org"),
        ("packagist", "org"),
        ("proxy.golang", "org"),
    ]
    .map(|(name, end)| format!("{name}.{end}"));
    let mut git = std::process::Command::new("git");
    let listed = hermetic(&mut git).args(["ls-files", "-z"]).current_dir(top()).output().expect("git runs");
    // Without a repository, the sources are all files except build output.
    let files = match out(&listed).split_terminator('\0').map(|name| top().join(name)).collect::<Vec<_>>() {
        tracked if !tracked.is_empty() => tracked,
        _ => files_below(top()).into_iter().filter(|file| !file.starts_with(top().join("target"))).collect(),
    };
    for file in files {
        let Ok(text) = std::fs::read(&file) else { continue };
        let lock = file.ends_with("Cargo.lock");
        for (at, line) in String::from_utf8_lossy(&text).lines().enumerate() {
            // The form in which cargo itself writes it.
            if lock && line.starts_with("source = ") {
                continue;
            }
            let named = hosts.iter().find(|host| line.contains(host.as_str()));
            assert_eq!(named, None, "{}:{}: {line}", file.display(), at + 1);
        }
    }
}
