//! The manual's pages match the program: each shell block of their Markdown runs as it is written, in one scene.
//!
//! A block with the language `sh` is run, one with `text` is not; `src/cli/help/pages.rs` parses the command lines
//! of the latter. The blocks of a page run in order, in one shell.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::generated::{listed, verbs};
use super::programs::{program, shipped};
use super::scene::told;
use super::support::*;

/// The scene of all examples: the repository `project` with the remote `origin`, which is `hub.git`.
///
/// Branches: `task` is ready, `broken` is stalled, `plan` waits for an answer, `finished` rests at `done`. Commands:
/// `build`, `review`, `fail`, `propose`, and `slow`, which takes ten minutes.
const SCENE: &str = r#"
git init --quiet --bare --initial-branch=main hub.git
git init --quiet --initial-branch=main project
cd project
git config user.name Ana
git config user.email ana@example.com
git config maintenance.autoDetach false
git remote add origin ../hub.git
mkdir -p .aynig/command
cat > .aynig/command/build <<'END'
#!/bin/sh
echo "$BODY" > result.txt
git add result.txt
echo "built"
"$AYNIG_BIN" next review --subject "built" --keep-body
END
cat > .aynig/command/review <<'END'
#!/bin/sh
"$AYNIG_BIN" next done --subject "reviewed"
END
cat > .aynig/command/fail <<'END'
#!/bin/sh
echo "no compiler" >&2
exit 1
END
cat > .aynig/command/propose <<'END'
#!/bin/sh
"$AYNIG_BIN" next approval --keep-body --trailer "dwp-waits-for: ana" --trailer "dwp-answers: approved, propose"
END
cat > .aynig/command/slow <<'END'
#!/bin/sh
echo "half of it" > draft.txt
sleep 600
END
chmod +x .aynig/command/*
printf '.aynig/logs/\n.worktrees/\n' > .gitignore
git add --all
git commit --quiet -m "Commands"
git push --quiet origin main
git branch finished && aynig set-state finished --state build --body "The parser, please."
git branch broken && aynig set-state broken --state fail
git branch plan && aynig set-state plan --state propose --body "Move the parser."
aynig run --quiet --drain || [ $? = 1 ]
git branch task && aynig set-state task --state build --body "The lexer, please."
"#;

/// The most words of a sentence.
const MOST_WORDS: usize = 25;

/// The Markdown of all pages: name and text.
fn sources() -> Vec<(String, String)> {
    let files = files_below(&shipped("src/cli/help/pages"));
    let name = |file: &Path| file.file_name().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).expect("text"))).collect()
}

fn source(name: &str) -> String {
    sources().into_iter().find(|(file, _)| file == name).expect(name).1
}

/// The contents of all blocks with the language `sh`.
fn shell_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match &mut open {
            Some((wanted, block)) if line == "```" => {
                blocks.extend(wanted.then(|| std::mem::take(block)));
                open = None;
            }
            Some((_, block)) => block.push_str(&format!("{line}\n")),
            None if line.starts_with("```") => open = Some((line == "```sh", String::new())),
            None => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// Runs the shell blocks of a text in the scene, which is a directory of its own.
fn performed(text: &str) -> (PathBuf, Output, tempfile::TempDir) {
    let room = tempfile::tempdir().expect("a temporary directory");
    let place = room.path().canonicalize().expect("it exists");
    let programs = place.join("programs");
    std::fs::create_dir(&programs).expect("a directory");
    symlink(binary(), programs.join("aynig")).expect("a link");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("a PATH"));
    let script = format!("set -eu\n{SCENE}\n{}", shell_blocks(text).join("\n"));
    let mut shell = Command::new("sh");
    hermetic(&mut shell).args(["-c", &script]).current_dir(&place).env("PATH", path).env("HOME", &place);
    shell.env("XDG_STATE_HOME", place.join("state")).env("AYNIG_BIN", programs.join("aynig"));
    let output = shell.output().expect("sh runs");
    (place.join("project"), output, room)
}

#[test]
fn every_example_works_as_written() {
    let pages = sources();
    let pages: Vec<_> = pages.iter().filter(|(_, text)| !shell_blocks(text).is_empty()).collect();
    assert!(pages.len() > 24, "{}", pages.len());
    // Half of the time of most pages is waiting.
    let mut failed = Vec::new();
    for few in pages.chunks(4) {
        std::thread::scope(|scope| {
            let started: Vec<_> =
                few.iter().map(|(name, text)| (name, scope.spawn(|| performed(text).1))).collect();
            for (name, thread) in started {
                let output = thread.join().expect("it ends");
                if !output.status.success() {
                    failed.push(format!("{name}: {}", told(&output)));
                }
            }
        });
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The state that the newest commit of a branch declares.
fn state(project: &Path, branch: &str) -> String {
    let mut git = Command::new("git");
    hermetic(&mut git).current_dir(project);
    git.args(["log", "-1", "--format=%(trailers:key=dwp-state,valueonly)", branch]);
    out(&git.output().expect("git runs")).trim().to_owned()
}

#[test]
fn the_examples_of_commands_do_what_the_page_says() {
    let (project, output, _room) = performed(&source("commands.7.md"));
    let said = told(&output);
    assert_eq!(state(&project, "words"), "check", "{said}");
    assert_eq!(state(&project, "slow"), "poll", "{said}");
    assert_eq!(state(&project, "idea"), "approved", "{said}");
    assert!(said.contains("\n5\n") && said.contains("parked"), "{said}");
}

#[test]
fn the_examples_of_flows_and_graphs_have_no_fault() {
    let said = told(&performed(&source("flow.5.md")).1);
    assert!(said.contains("fix.yaml: 5 steps, 0 warnings"), "{said}");
    assert!(said.contains("team.yaml: 3 nodes, 4 edges, 0 warnings"), "{said}");
    let said = told(&performed(&source("orch.md")).1);
    assert!(said.contains("pair.yaml: 2 nodes, 1 edge, 0 warnings"), "{said}");
    assert!(said.contains("I have read it.") && said.contains("prompt.full.txt"), "{said}");
}

/// Collects the names that a JSON Schema gives to fields, at any depth, except those without a meaning.
fn fields(schema: &serde_json::Value, names: &mut BTreeSet<String>) {
    let ignored = |field: &serde_json::Value| {
        field["description"].as_str().is_some_and(|text| text.contains("Means nothing"))
    };
    match schema {
        serde_json::Value::Object(entries) => {
            for (name, value) in entries {
                if let (true, Some(fields)) = (name == "properties", value.as_object()) {
                    let known = fields.iter().filter(|(_, field)| !ignored(field));
                    names.extend(known.map(|(name, _)| name.clone()));
                }
                fields(value, names);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| fields(item, names)),
        _ => {}
    }
}

#[test]
fn every_field_of_flow_files_and_graph_files_is_there() {
    let repo = Repo::new();
    let page = source("flow.5.md");
    // Of a validator; `.` is its only value.
    let left_out = "cwd";
    for kind in ["flow", "orch"] {
        let mut names = BTreeSet::new();
        fields(&json(&repo.aynig_ok([kind, "schema"])), &mut names);
        assert!(names.len() > 15, "{names:?}");
        for name in names.iter().filter(|name| *name != left_out) {
            let written = ["`", ".", " "].iter().any(|before| page.contains(&format!("{before}{name}`")));
            assert!(written || page.contains(&format!("`{name}:")), "{kind}: {name}");
        }
    }
}

/// The long options in a help text.
fn options(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split([' ', ',', '=', '[', '.']).take(3));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

/// Asserts that a page has the commands below `words` with their options, at any depth.
fn assert_has_commands(repo: &Repo, words: &[String], page: &str, common: &BTreeSet<String>) {
    let called = words.iter().map(String::as_str).chain(["--help"]);
    let help = out(&repo.aynig_ok(called));
    for option in options(&help).difference(common) {
        assert!(page.contains(&option.replace('-', "\\-")), "{words:?}: {option}");
    }
    if !help.contains("\nCommands:\n") {
        let name = words[1..].join(" ").replace('-', "\\-");
        assert!(words.len() < 2 || page.contains(&format!("\\fB{name}\\fR")), "{words:?}");
        return;
    }
    for name in listed(&help) {
        assert_has_commands(repo, &[words, &[name]].concat(), page, common);
    }
}

#[test]
fn every_command_of_every_subcommand_is_there_with_its_options() {
    let repo = Repo::new();
    let common = options(&out(&repo.aynig_ok(["--help"])));
    for verb in verbs(&repo) {
        let page = out(&repo.aynig_ok(["manual", "1", &verb]));
        assert_has_commands(&repo, &[verb], &page, &common);
    }
}

/// An example is a line that says what it does, and a block.
#[test]
fn every_page_has_examples_and_each_is_introduced() {
    for (name, text) in sources() {
        let (text, _) = text.split_once("\n# SEE ALSO\n").expect("it is the last section");
        let examples = text.split("# EXAMPLES\n").nth(1).unwrap_or_else(|| panic!("{name} has no EXAMPLES"));
        let lines: Vec<&str> = examples.lines().filter(|line| !line.is_empty()).collect();
        let mut blocks = 0;
        let mut open = false;
        for pair in lines.windows(2).filter(|pair| pair[1].starts_with("```")) {
            open = !open;
            blocks += usize::from(open);
            assert!(!open || pair[0].ends_with(':'), "{name}: {:?}", pair[0]);
            assert!(!open || ["```sh", "```text"].contains(&pair[1]), "{name}: {:?}", pair[1]);
        }
        assert!(!open, "{name}");
        assert!((2..=7).contains(&blocks), "{name}: {blocks} examples");
    }
}

/// The paragraphs, items and cells of a page, without headings and examples.
fn prose(text: &str) -> Vec<String> {
    let (text, _) = text.split_once("\n# SEE ALSO\n").expect("it is the last section");
    let mut parts = vec![String::new()];
    let mut open = false;
    for line in text.lines() {
        let fence = line.starts_with("```");
        open ^= fence;
        if fence || open || line.is_empty() || line.starts_with(['#', '-', '|']) {
            parts.push(String::new());
        }
        let is_prose = !fence && !open && !line.starts_with('#');
        for cell in line.split(" | ").filter(|_| is_prose) {
            let part = parts.last_mut().expect("one");
            part.push(' ');
            part.push_str(cell);
            if line.starts_with('|') {
                parts.push(String::new());
            }
        }
    }
    parts
}

#[test]
fn sentences_are_short() {
    let mut violations = Vec::new();
    for (name, text) in sources() {
        for sentence in prose(&text).iter().flat_map(|part| part.split_inclusive(['.', ':', ';'])) {
            let words = sentence.split(' ').filter(|word| word.contains(char::is_alphanumeric)).count();
            if words > MOST_WORDS {
                violations.push(format!("{name}: {words} words: {sentence}"));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Each page by itself; `generated` checks all of them with mandoc.
#[test]
fn a_page_is_rendered_with_its_sections() {
    let Some(man) = program("man") else { return };
    for file in files_below(&shipped("man")) {
        let mut read = Command::new(&man);
        read.arg("-l").arg(&file).env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100");
        let output = read.output().expect("man runs");
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""), "{}", file.display());
        let text = out(&output);
        for section in ["NAME", "EXAMPLES", "SEE ALSO"] {
            assert!(text.contains(&format!("\n{section}\n")), "{}: {section}\n{text}", file.display());
        }
    }
}
