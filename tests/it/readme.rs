//! The README matches the program: its tour is run word for word, and its tables list every option and exit
//! code.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use super::scene::*;
use super::support::*;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("README.md")
}

/// A section, from its heading to the next heading of the same or a higher rank.
fn section(text: &str, heading: &str) -> String {
    let rank = heading.chars().take_while(|c| *c == '#').count();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading));
    let first = lines.next().unwrap_or_else(|| panic!("README has no section {heading:?}"));
    let mut fenced = false;
    let rest = lines.take_while(|line| {
        fenced ^= line.starts_with("```");
        let hashes = line.chars().take_while(|c| *c == '#').count();
        fenced || hashes == 0 || hashes > rank
    });
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
}

/// The contents of all ```sh blocks.
fn shell_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match &mut open {
            Some(block) if line == "```" => {
                blocks.push(std::mem::take(block));
                open = None;
            }
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
            None if line == "```sh" => open = Some(String::new()),
            None => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

fn help(arguments: &[&str]) -> String {
    let output = Command::new(binary()).args(arguments).arg("--help").output().expect("aynig runs");
    assert!(output.status.success(), "{}", err(&output));
    out(&output)
}

/// The subcommands `--help` shows.
fn subcommands() -> Vec<String> {
    let help = help(&[]);
    let list = help.split("Commands:\n").nth(1).expect("a list of commands");
    let names = list.lines().take_while(|line| !line.trim().is_empty());
    names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The long options that begin lines of a help text.
fn options(help: &str) -> BTreeSet<String> {
    help.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .flat_map(|line| line.split([' ', ',', '=', '[', '.']).map(str::to_owned).take(3).collect::<Vec<_>>())
        .filter(|word| word.starts_with("--"))
        .collect()
}

#[test]
fn the_first_commands_are_the_whole_set_up() {
    let first = shell_blocks(&readme()).remove(0);
    assert_eq!(first, "cargo run --release -- demo\ncargo test\n");
}

/// Runs the shell blocks of a section of the README. They make the repository `name`.
fn performed(heading: &str, name: &str) -> (Repo, Output) {
    performed_text(&section(&readme(), heading), name)
}

/// Runs the shell blocks of a text. They make the repository `name`.
fn performed_text(text: &str, name: &str) -> (Repo, Output) {
    let room = tempfile::tempdir().expect("a temporary directory");
    let place = room.path().canonicalize().expect("it exists");
    let programs = place.join("bin");
    std::fs::create_dir(&programs).expect("a directory");
    symlink(binary(), programs.join("aynig")).expect("a link");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("a PATH"));
    let script = format!("set -eu\n{}", shell_blocks(text).join("\n"));
    let mut shell = Command::new("sh");
    hermetic(&mut shell).args(["-c", &script]).current_dir(&place).env("PATH", path).env("HOME", &place);
    let output = shell.output().expect("sh runs");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    (Repo { path: place.join(name), room }, output)
}

#[test]
fn the_tour_works_as_written() {
    assert!(shell_blocks(&section(&readme(), "## A tour in five minutes")).len() >= 6);
    let (repo, output) = performed("## A tour in five minutes", "tour");
    let told = told(&output);
    assert_eq!(repo.state("monday"), "done", "{told}");
    assert_eq!(repo.git(["show", "monday:answer.txt"]), "How long are the notes? 5 words.");
    assert!(told.contains("monday  count → check") && told.contains("monday  check → done"), "{told}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    repo.assert_tidy();
}

#[test]
fn a_person_in_the_loop_works_as_written() {
    let (repo, output) = performed("### A person in the loop", "approvals");
    assert_eq!(repo.state("plan"), "approved", "{}", told(&output));
    let message = repo.message("plan");
    assert!(message.contains("Move the parser.\n\n[reply from approval by Ana, "), "{message}");
    assert!(out(&output).contains("waits for ana (approved, propose)"), "{}", told(&output));
    assert_eq!(repo.show("plan:plan.txt"), "Move the parser.");
    repo.assert_tidy();
}

#[test]
fn stopping_a_command_works_as_written() {
    let (repo, output) = performed("### Stopping a command", "stops");
    assert_eq!(repo.state("task"), "build", "{}", told(&output));
    let said = out(&output);
    assert!(
        said.contains("stalled: `build` was cancelled by Ana: wrong branch, work saved as "),
        "{}",
        told(&output)
    );
    assert!(said.contains("cancel   asked by Ana: wrong branch"), "{}", told(&output));
    repo.assert_tidy();
}

/// The guide to flows.
fn guide() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/docs/flows.md"))
        .expect("the guide")
}

#[test]
fn the_guide_to_flows_works_as_written() {
    let (repo, output) = performed_text(&guide(), "guide");
    let said = out(&output);
    for words in [
        "fix.yaml: 5 steps, 0 warnings",
        "test error -> judge",
        "judge partial -> implement",
        "judge visit 2 success -> approve",
        "Keep this? Write greeting.txt.",
        "Just right.",
        "succeeded",
        "release approved: Works for me.  Ben <ben@example.com>",
    ] {
        assert!(told(&output).contains(words), "{words}: {}", told(&output));
    }
    assert!(said.contains("Hello, world.\n"), "{said}");
    assert_eq!(repo.show("main:greeting.txt"), "Hello, world.");
    assert_eq!(repo.git(["log", "-1", "--format=%s", "main"]), "Greet the world");
}

#[test]
fn a_graph_works_as_written() {
    let (repo, output) = performed("## Graphs", "pair");
    let said = told(&output);
    for words in [
        "pair.yaml: 2 nodes, 1 edge, 0 warnings",
        "I have read it.",
        "Please look at greeting.txt.",
        "prompt.full.txt",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("Hello, world.\nHello, world."), "{said}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn its_graph_has_no_fault() {
    let about = section(&readme(), "### `aynig orch run create`");
    let rest = about.split_once("```yaml\n").expect("an example").1;
    let repo = Repo::new();
    repo.write("pair.yaml", rest.split_once("```").expect("its end").0);
    let checked = repo.aynig_ok(["orch", "check", "pair.yaml"]);
    assert!(err(&checked).contains("pair.yaml: 2 nodes, 1 edge, 0 warnings"), "{}", told(&checked));
}

#[test]
fn its_flow_has_no_fault() {
    let about = section(&readme(), "### `aynig flow check");
    let rest = about.split_once("```yaml\n").expect("an example").1;
    let repo = Repo::new();
    repo.write("fix.yaml", rest.split_once("```").expect("its end").0);
    let checked = repo.aynig_ok(["flow", "check", "fix.yaml"]);
    assert!(err(&checked).contains("fix.yaml: 4 steps, 0 warnings"), "{}", told(&checked));
}

#[test]
fn every_option_of_every_subcommand_is_there() {
    let readme = readme();
    let everywhere = section(&readme, "## Subcommands").split("\n### ").next().expect("text").to_owned();
    let names = subcommands();
    assert!(names.contains(&"run".to_owned()) && names.contains(&"demo".to_owned()), "{names:?}");
    for option in options(&help(&[])) {
        assert!(everywhere.contains(&option), "README: {option} is missing under Subcommands");
    }
    for name in names {
        let about = section(&readme, &format!("### `aynig {name}"));
        for option in options(&help(&[&name])) {
            assert!(
                about.contains(&option) || everywhere.contains(&option),
                "README: aynig {name} has {option}, which its section does not mention"
            );
        }
    }
}

#[test]
fn its_scripts_for_other_programs_are_sound_and_its_links_lead_somewhere() {
    for (directory, text) in [("", readme()), ("contrib/docs", guide())] {
        links_lead_somewhere(directory, &text);
    }
}

/// Asserts that the links of a document in `directory` lead to files, and those within it to headings.
fn links_lead_somewhere(directory: &str, text: &str) {
    let mark = |c: char| !c.is_alphanumeric() && !" -_".contains(c);
    let headings: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("##"))
        .map(|line| line.replace(mark, "").trim().to_lowercase().replace(' ', "-"))
        .collect();
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        match link.strip_prefix('#') {
            Some(anchor) => assert!(headings.iter().any(|heading| heading == anchor), "{link}"),
            None if link.starts_with("http") => {}
            None => {
                let file = link.split('#').next().expect("a name");
                let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
                assert!(place.join(file).exists(), "{link}");
            }
        }
    }
}
