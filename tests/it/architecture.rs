//! The house rules, checked against the sources: the arrows between rooms, the only places that may spawn,
//! print or call `gix`, and the shape of a file. `src/lib.rs` draws the rooms.

use std::path::Path;

use super::support::{binary, files_below};

/// Rooms, and the rooms each may use besides itself.
const ARROWS: [(&str, &[&str]); 22] = [
    ("contract", &[]),
    ("model", &[]),
    ("flow", &["model", "contract"]),
    ("orch", &["flow", "model", "contract"]),
    ("clock", &[]),
    ("crashpoint", &[]),
    ("session", &[]),
    ("words", &[]),
    ("stop", &["clock"]),
    ("fsutil", &["crashpoint", "words"]),
    ("git", &["contract", "fsutil", "clock", "crashpoint", "session", "words"]),
    ("ledger", &["model", "git", "contract", "clock", "fsutil", "crashpoint", "words"]),
    ("journal", &["ledger", "model", "git", "contract", "clock", "fsutil", "crashpoint"]),
    ("supervise", &["clock", "fsutil", "session", "stop", "crashpoint"]),
    ("runner", &["git", "contract", "supervise", "clock", "fsutil", "crashpoint", "stop", "words"]),
    (
        "workspace",
        &[
            "runner",
            "ledger",
            "model",
            "git",
            "contract",
            "supervise",
            "clock",
            "fsutil",
            "crashpoint",
            "stop",
            "words",
        ],
    ),
    (
        "provider",
        &[
            "flow",
            "model",
            "contract",
            "git",
            "supervise",
            "clock",
            "fsutil",
            "session",
            "crashpoint",
            "stop",
            "words",
        ],
    ),
    (
        "publish",
        &[
            "workspace",
            "ledger",
            "model",
            "git",
            "contract",
            "supervise",
            "clock",
            "fsutil",
            "crashpoint",
            "stop",
            "words",
        ],
    ),
    (
        "engine",
        &[
            "flow",
            "orch",
            "provider",
            "publish",
            "workspace",
            "journal",
            "ledger",
            "model",
            "runner",
            "git",
            "contract",
            "supervise",
            "clock",
            "fsutil",
            "session",
            "crashpoint",
            "stop",
            "words",
        ],
    ),
    (
        "ops",
        &[
            "flow",
            "orch",
            "engine",
            "provider",
            "publish",
            "workspace",
            "journal",
            "ledger",
            "model",
            "runner",
            "git",
            "contract",
            "supervise",
            "clock",
            "fsutil",
            "stop",
            "words",
        ],
    ),
    ("server", &["ops", "engine", "journal", "model", "git", "contract", "clock", "fsutil", "stop"]),
    (
        "cli",
        &[
            "server",
            "ops",
            "flow",
            "orch",
            "engine",
            "provider",
            "publish",
            "workspace",
            "journal",
            "ledger",
            "model",
            "runner",
            "git",
            "contract",
            "supervise",
            "clock",
            "fsutil",
            "stop",
            "words",
        ],
    ),
];

/// Files besides `cli/ui/mod.rs` that may use the standard streams, with the reason.
const STREAMS: [(&str, &str); 2] = [
    ("cli/ui/live.rs", "draws the lines at the foot of a terminal, and asks whether there is one"),
    ("cli/ui/logging.rs", "hands stderr to tracing, which writes the diagnosis"),
];

const MAX_LINES: usize = 600;

struct Source {
    /// Relative to `src/` or `tests/`, with slashes.
    name: String,
    text: String,
}

impl Source {
    /// The code without comments. Without `with_tests` it also leaves out the unit tests at the end of the
    /// file.
    fn code(&self, with_tests: bool) -> impl Iterator<Item = (usize, &str)> {
        let only_tests = self.name.ends_with("/tests.rs");
        let own_file = self.text.contains("mod tests;\n");
        let mut in_tests = false;
        self.text.lines().enumerate().filter_map(move |(at, line)| {
            in_tests |= line.trim() == "#[cfg(test)]" && !own_file;
            let hidden = (in_tests || only_tests) && !with_tests;
            (!hidden && !line.trim_start().starts_with("//")).then_some((at + 1, line))
        })
    }

    fn room(&self) -> &str {
        self.name.split(['/', '.']).next().expect("a name")
    }
}

fn sources(below: &str) -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join(below);
    let mut found: Vec<Source> = files_below(&top)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| Source {
            name: path.strip_prefix(&top).expect("below").to_string_lossy().into_owned(),
            text: std::fs::read_to_string(&path).expect("UTF-8"),
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!found.is_empty(), "{below}");
    found
}

fn assert_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n{}", violations.join("\n"));
}

/// The identifier at the beginning of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Counts the consecutive `super::` at the beginning of `text`.
fn climbs(text: &str) -> usize {
    let mut rest = text;
    let mut steps = 0;
    while let Some(next) = rest.strip_prefix("super::") {
        steps += 1;
        rest = next;
    }
    steps
}

#[test]
fn paths_follow_the_arrows() {
    let mut violations = Vec::new();
    for source in sources("src") {
        if ["lib", "main"].contains(&source.room()) {
            continue;
        }
        let room = source.room();
        let allowed = ARROWS.iter().find(|(name, _)| *name == room);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("src/{} is in no known room", source.name));
        // `mod.rs` is the module of its directory; any other file is a module of its own.
        let depth = source.name.trim_end_matches(".rs").trim_end_matches("/mod").split('/').count();
        let mut nested = 0;
        for (at, line) in source.code(true) {
            if line.trim() == "mod tests {" {
                nested = 1;
            }
            let place = format!("src/{}:{at}: {}", source.name, line.trim());
            for path in line.split("crate::").skip(1).chain(line.split("aynig::").skip(1)) {
                let used = word(path);
                if path.starts_with('{') || (used != room && !allowed.contains(&used)) {
                    violations.push(place.clone());
                }
            }
            // Enough `super::` to leave the room.
            if let Some(start) = line.find("super::")
                && climbs(&line[start..]) >= depth + nested
            {
                violations.push(place);
            }
        }
    }
    assert_none("a path against the arrows (name the room: `use crate::room::…`)", &violations);
}

#[test]
fn only_git_speaks_to_gix() {
    let mut violations = Vec::new();
    for source in sources("src").iter().filter(|source| source.room() != "git") {
        for (at, line) in source.code(true) {
            let named = line.match_indices("gix").any(|(start, _)| {
                let before = line[..start].chars().next_back();
                word(&line[start..]) == "gix"
                    && !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
            });
            if named {
                violations.push(format!("src/{}:{at}: {}", source.name, line.trim()));
            }
        }
    }
    assert_none("gix outside of src/git", &violations);
}

#[test]
fn only_two_places_start_processes() {
    let mut violations = Vec::new();
    for source in sources("src") {
        if source.name == "git/process/call.rs" || source.room() == "supervise" {
            continue;
        }
        for (at, line) in source.code(false) {
            if line.contains("duct::") || line.contains("Command::new(") || line.contains("fork(") {
                violations.push(format!("src/{}:{at}: {}", source.name, line.trim()));
            }
        }
    }
    assert_none(
        "git is started by src/git/process/call.rs, commands by src/supervise, nothing else",
        &violations,
    );
}

#[test]
fn only_the_ui_prints() {
    const WORDS: [&str; 6] = ["println!", "eprintln!", "print!(", "eprint!(", "stdout()", "stderr()"];
    let mut violations = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    for source in sources("src") {
        if source.name == "cli/ui/mod.rs" {
            continue;
        }
        let excuse = STREAMS.iter().find(|(name, _)| *name == source.name);
        for (at, line) in source.code(false) {
            let line = line.replace("use_stderr()", "");
            if !WORDS.iter().any(|word| line.contains(word)) {
                continue;
            }
            match excuse {
                Some((name, _)) if !line.contains("print") => used.push(name),
                Some(_) | None => violations.push(format!("src/{}:{at}: {}", source.name, line.trim())),
            }
        }
    }
    assert_none("only src/cli/ui/mod.rs prints", &violations);
    for (name, why) in STREAMS {
        assert!(used.contains(&name), "{name} is excused ({why}) and no longer needs it");
    }
}

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    let mut violations = Vec::new();
    for (below, source) in ["src", "tests"]
        .into_iter()
        .flat_map(|below| sources(below).into_iter().map(move |source| (below, source)))
    {
        if !source.text.starts_with("//! ") {
            violations.push(format!("{below}/{}: line 1 is no `//!` header", source.name));
        }
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            violations.push(format!("{below}/{}: {lines} lines, more than {MAX_LINES}", source.name));
        }
    }
    assert_none("the look of files", &violations);
}

#[test]
fn nothing_is_allowed_silently() {
    let mut violations = Vec::new();
    for below in ["src", "tests"] {
        for source in sources(below) {
            for (at, line) in source.code(true) {
                if line.trim_start().starts_with("#[allow(") || line.trim_start().starts_with("#![allow(") {
                    violations.push(format!("{below}/{}:{at}: {}", source.name, line.trim()));
                }
            }
        }
    }
    assert_none("use #[expect(…, reason = \"…\")]", &violations);
}

#[test]
fn comments_cite_what_a_reader_has() {
    // Assembled here, so that this file does not match itself.
    let words = [format!("spec{}§", ' '), format!("runner{}spec", '-'), format!("design{}md", '.')];
    let mut violations = Vec::new();
    for source in sources("src") {
        for (at, line) in source.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word.as_str())) {
                violations.push(format!("src/{}:{}: {}", source.name, at + 1, line.trim()));
            }
        }
    }
    assert_none("cite CONTRACT.md or the README", &violations);
}

#[test]
fn a_release_build_has_no_crash_points() {
    let manifest = include_str!("../../Cargo.toml");
    for profile in ["[profile.release]", "[profile.dist]"] {
        let text = manifest.split(profile).nth(1).expect("a profile");
        let text = text.split("\n[").next().expect("its text");
        assert!(!text.contains("debug-assertions"), "the crash points depend on them: {profile}");
    }
    let program = std::fs::read(binary()).expect("the program");
    let found = |words: &str| program.windows(words.len()).any(|window| window == words.as_bytes());
    for words in ["AYNIG_CRASH_AT", "AYNIG_CLOCK_OFFSET_SECONDS", "worktree-filled"] {
        assert_eq!(found(words), cfg!(debug_assertions), "{words}");
    }
}
