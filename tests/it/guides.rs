//! README.md, the guides in `contrib/docs/` and the READMEs of packs match the program: their shell blocks are run word
//! for word, their links lead somewhere, and the README stays short.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::programs::program;
use super::scene::*;
use super::support::*;

/// Documents whose shell blocks a test below runs.
const PERFORMED: [&str; 6] = [
    "README.md",
    "contrib/docs/flows.md",
    "contrib/docs/graphs.md",
    "contrib/docs/machines.md",
    "contrib/docs/serving.md",
    "contrib/docs/workflows.md",
];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn document(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All documents for people, by their paths from the top.
fn documents() -> Vec<String> {
    let mut files: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "CONTRACT.md", "CHANGELOG.md"].iter().map(PathBuf::from).collect();
    for below in ["contrib/docs", "contrib/packs"] {
        let here = files_below(&top().join(below)).into_iter();
        let pages = here.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
        files.extend(pages.filter_map(|file| Some(file.strip_prefix(top()).ok()?.to_path_buf())));
    }
    // What a pack installs is no document of this repository.
    let own = files.into_iter().filter(|file| !file.components().any(|part| part.as_os_str() == ".aynig"));
    own.map(|file| file.display().to_string()).collect()
}

/// A section, from its heading to the next heading of the same or a higher rank.
pub(crate) fn section(text: &str, heading: &str) -> String {
    let rank = heading.chars().take_while(|c| *c == '#').count();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading));
    let first = lines.next().unwrap_or_else(|| panic!("there is no section {heading:?}"));
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
                block.push_str(&checked(line));
                block.push('\n');
            }
            None if line == "```sh" => open = Some(String::new()),
            None => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// A line whose comment names another exit code than 0 has to end with that one.
fn checked(line: &str) -> String {
    match line.split_once("# exits with ") {
        Some((call, code)) => format!("{call} && exit 99 || [ $? = {code} ]"),
        None => line.to_owned(),
    }
}

/// Runs the shell blocks of a text. They make the repository `name`.
fn performed(text: &str, name: &str) -> (Repo, Output) {
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

fn assert_says(output: &Output, words: &[&str]) {
    for word in words {
        assert!(told(output).contains(word), "{word}: {}", told(output));
    }
}

#[test]
fn every_shell_block_is_run() {
    let with_blocks = documents().into_iter().filter(|name| !shell_blocks(&document(name)).is_empty());
    assert_eq!(with_blocks.collect::<BTreeSet<_>>(), PERFORMED.map(str::to_owned).into_iter().collect());
}

#[test]
fn one_command_is_the_whole_set_up() {
    let readme = document("README.md");
    assert_eq!(shell_blocks(&section(&readme, "## Install")), ["cargo run --release -- demo\n"]);
    let elsewhere = shell_blocks(&section(&readme, "## Tour")).len();
    assert_eq!(shell_blocks(&readme).len(), 1 + elsewhere, "the tour has all other blocks");
}

#[test]
fn the_readme_is_short() {
    let readme = document("README.md");
    let (lines, words) = (readme.lines().count(), readme.split_whitespace().count());
    assert!(lines <= 200 && words <= 1_800, "{lines} lines, {words} words");
}

#[test]
fn prose_is_wrapped() {
    let own =
        documents().into_iter().filter(|name| !["CONTRACT.md", "CHANGELOG.md"].contains(&name.as_str()));
    for name in own.filter(|name| !name.starts_with("contrib/packs")) {
        let mut fenced = false;
        for line in document(&name).lines() {
            fenced ^= line.trim_start().starts_with("```");
            let free = fenced || line.starts_with('|') || line.trim_start().starts_with('`');
            // An address and a piece of code are not broken.
            let long = line.chars().count() > 100 && line.trim_start().contains(' ');
            assert!(free || !long, "{name}: {line}");
        }
    }
}

#[test]
fn the_tour_works_as_written() {
    let (repo, output) = performed(&section(&document("README.md"), "## Tour"), "tour");
    assert_eq!(repo.state("monday"), "done", "{}", told(&output));
    assert_eq!(repo.git(["show", "monday:answer.txt"]), "How long are they? 5 words.");
    assert_says(&output, &["monday  count → stalled", "note.txt", "monday  count → done"]);
    assert_eq!(repo.git(["log", "-1", "--format=%s", "main"]), "Count the words");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    repo.assert_tidy();
}

#[test]
fn a_person_in_the_loop_works_as_written() {
    let text = section(&document("contrib/docs/workflows.md"), "## A person in the loop");
    let (repo, output) = performed(&text, "approvals");
    assert_eq!(repo.state("plan"), "approved", "{}", told(&output));
    let message = repo.message("plan");
    assert!(message.contains("Move the parser.\n\n[reply from approval by Ana, "), "{message}");
    assert_says(&output, &["waits for ana (approved, propose)"]);
    assert_eq!(repo.show("plan:plan.txt"), "Move the parser.");
    repo.assert_tidy();
}

#[test]
fn stopping_a_command_works_as_written() {
    let text = section(&document("contrib/docs/workflows.md"), "## Stopping a command");
    let (repo, output) = performed(&text, "stops");
    assert_eq!(repo.state("task"), "build", "{}", told(&output));
    assert_says(
        &output,
        &[
            "stalled: `build` was cancelled by Ana: wrong branch, work saved as ",
            "cancel   asked by Ana: wrong branch",
        ],
    );
    repo.assert_tidy();
}

#[test]
fn the_guide_to_workflows_has_no_other_block() {
    let guide = document("contrib/docs/workflows.md");
    assert_eq!(shell_blocks(&guide).len(), 2, "those of the two tests above");
}

#[test]
fn the_guide_to_flows_works_as_written() {
    let (repo, output) = performed(&document("contrib/docs/flows.md"), "guide");
    assert_says(
        &output,
        &[
            "fix.yaml: 5 steps, 0 warnings",
            "test error -> judge",
            "judge partial -> implement",
            "judge visit 2 success -> approve",
            "Keep this? Write greeting.txt.",
            "Just right.",
            "succeeded",
            "release approved: Works for me.  Ben <ben@example.com>",
            "Hello, world.\n",
        ],
    );
    assert_eq!(repo.show("main:greeting.txt"), "Hello, world.");
    assert_eq!(repo.git(["log", "-1", "--format=%s", "main"]), "Greet the world");
}

#[test]
fn the_guide_to_graphs_works_as_written() {
    let (repo, output) = performed(&document("contrib/docs/graphs.md"), "pair");
    assert_says(
        &output,
        &[
            "pair.yaml: 2 nodes, 1 edge, 0 warnings",
            "I have read it.",
            "Please look at greeting.txt.",
            "prompt.full.txt",
            "Hello, world.\nHello, world.",
        ],
    );
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn the_guide_to_machines_works_as_written() {
    let (repo, output) = performed(&document("contrib/docs/machines.md"), "office");
    assert_says(&output, &["monday  build → done"]);
    repo.git(["fetch", "--quiet", "origin"]);
    assert_eq!(repo.trailer("origin/monday", "dwp-state"), "done");
    repo.assert_tidy();
}

#[test]
fn the_guide_to_the_page_works_as_written() {
    if program("curl").is_none() {
        return;
    }
    let (repo, output) = performed(&document("contrib/docs/serving.md"), "served");
    assert_says(&output, &["The parser", "The lexer", "answer to "]);
    let document = std::fs::read_to_string(repo.path.join("openapi.json")).expect("it was written");
    assert!(document.contains("\"openapi\""), "{document}");
}

#[test]
fn all_links_lead_somewhere() {
    for name in documents() {
        links_lead_somewhere(&name);
    }
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mark = |c: char| !c.is_alphanumeric() && !" -_".contains(c);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.replace(mark, "").trim().to_lowercase().replace(' ', "-")).collect()
}

/// Asserts that the links of a document lead to files, and to headings in them.
fn links_lead_somewhere(name: &str) {
    let text = document(name);
    let directory = top().join(name).parent().expect("below the top").to_path_buf();
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        if link.starts_with("http") {
            continue;
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { top().join(name) } else { directory.join(file) };
        assert!(target.exists(), "{name}: {link}");
        if !anchor.is_empty() {
            let there = std::fs::read_to_string(&target).expect("text");
            assert!(anchors(&there).contains(anchor), "{name}: {link}");
        }
    }
}
