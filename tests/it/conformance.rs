//! `contrib/docs/conformance.md` agrees with the tests and with CONTRACT.md: every test that it names exists and is always
//! run, every rule is there, and no cell is empty.

use std::path::{Path, PathBuf};

/// What a row says in place of a test.
const WITHOUT: [&str; 3] = ["nothing to show", "no test", "no test for the rest"];

/// The beginnings of the remarks of a row, which the end of the page repeats.
const REMARKS: [&str; 2] = ["**Met otherwise:** ", "**Not met:** "];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    std::fs::read_to_string(top().join("contrib/docs/conformance.md")).expect("the page")
}

/// A statement of a document.
struct Row {
    key: String,
    clause: String,
    rule: String,
    shown: String,
}

/// The rows of all tables.
fn rows(page: &str) -> Vec<Row> {
    let lines = page
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("| clause |") && !line.starts_with("|---"));
    lines.map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [clause, rule, shown] = cells[..] else { panic!("not three cells: {line}") };
    assert!([clause, rule, shown].iter().all(|cell| !cell.is_empty()), "an empty cell: {line}");
    let (key, clause) = clause.split_once(' ').unwrap_or_else(|| panic!("a key without words: {line}"));
    Row { key: key.to_owned(), clause: clause.to_owned(), rule: rule.to_owned(), shown: shown.to_owned() }
}

/// The names in backticks, and the words between them.
fn citations(shown: &str) -> (Vec<&str>, Vec<&str>) {
    let parts: Vec<&str> = shown.split('`').collect();
    assert!(parts.len() % 2 == 1, "an open backtick: {shown}");
    let (cited, words) = (parts.iter().skip(1).step_by(2), parts.iter().step_by(2));
    let words = words.map(|word| word.trim_matches([',', ' '])).filter(|word| !word.is_empty());
    (cited.copied().collect(), words.collect())
}

/// Whether a source has this test, and it is not ignored.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let head = format!("fn {name}()");
    let Some(at) = lines.iter().position(|line| line.starts_with(&head)) else { return false };
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("///"));
    let attributes: Vec<&str> = above.copied().filter(|line| line.starts_with("#[")).collect();
    attributes.contains(&"#[test]") && !attributes.iter().any(|line| line.starts_with("#[ignore"))
}

/// The files that a module can be in. One with the name `tests` may be in the file of the module above it.
fn files_of(directory: &str, modules: &[&str]) -> Vec<PathBuf> {
    let place = |modules: &[&str]| {
        let place = modules.iter().fold(top().join(directory), |place, module| place.join(module));
        [place.with_extension("rs"), place.join("mod.rs")]
    };
    let above = modules.split_last().filter(|(last, _)| **last == "tests").map(|(_, above)| above);
    place(modules).into_iter().chain(above.map(place).into_iter().flatten()).collect()
}

/// What is wrong with the name of a test.
fn fault(cited: &str) -> Option<String> {
    if let Some((file, title)) = cited.split_once(": ").filter(|(file, _)| file.starts_with("tests/web/")) {
        let Ok(source) = std::fs::read_to_string(top().join(file)) else {
            return Some(format!("there is no {file}"));
        };
        let title = title.trim_matches('"');
        let ends = ['"', '`'].map(|quote| format!("{title}{quote}"));
        let is_titled = |line: &str| {
            let call = line.trim_start();
            (call.starts_with("test(") || call.starts_with("check("))
                && ends.iter().any(|end| call.contains(end))
        };
        return (!source.lines().any(is_titled)).then(|| format!("{file} has no test {title:?}"));
    }
    let (directory, path) = cited.strip_prefix("lib: ").map_or(("tests/it", cited), |path| ("src", path));
    let modules: Vec<&str> = path.split("::").collect();
    let Some((name, modules)) = modules.split_last().filter(|(_, modules)| !modules.is_empty()) else {
        return Some(format!("{cited} has no module"));
    };
    let files = files_of(directory, modules);
    let is_there = |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|source| has_test(&source, name));
    (!files.iter().any(is_there)).then(|| format!("there is no test {cited}"))
}

/// The numbers of rules in a text.
fn rules(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| c.is_whitespace() || "(),;:".contains(c));
    let words = words.map(|word| word.trim_end_matches('.'));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    words.filter(|word| word.split_once('.').is_some_and(|(one, two)| digits(one) && digits(two))).collect()
}

/// Fails with a list of faults, one a line.
fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let page = page();
    let rows = rows(&page);
    assert!(rows.len() > 300, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let (cited, words) = citations(&row.shown);
        wrong.extend(cited.iter().filter_map(|name| fault(name)).map(|why| format!("{}: {why}", row.key)));
        let odd = words.iter().find(|word| !WITHOUT.contains(word));
        wrong.extend(
            odd.map(|word| format!("{}: {word:?} is neither a test nor one of {WITHOUT:?}", row.key)),
        );
        if cited.is_empty() == words.is_empty() && words != ["no test for the rest"] {
            wrong.push(format!("{}: tests, or words in place of them", row.key));
        }
        if cited.len() > 3 {
            wrong.push(format!("{}: more than three tests", row.key));
        }
    }
    assert_none("conformance.md names tests that are not there", &wrong);
}

#[test]
fn every_rule_that_the_page_names_is_there() {
    let contract = std::fs::read_to_string(top().join("CONTRACT.md")).expect("CONTRACT.md");
    let has = |rule: &str| ["", "+"].iter().any(|mark| contract.contains(&format!("\n**{rule}{mark}** ")));
    let mut wrong = Vec::new();
    for row in rows(&page()) {
        let named = rules(&row.rule).into_iter().chain(rules(&row.clause));
        wrong.extend(named.filter(|rule| !has(rule)).map(|rule| format!("{}: {rule}", row.key)));
    }
    assert_none("conformance.md names rules that CONTRACT.md does not have", &wrong);
}

/// The document, the section and the number of a key such as `R1.2`.
fn place(key: &str) -> (char, u32, u32) {
    let document = key.chars().next().filter(|letter| "RSW".contains(*letter));
    let numbers = key.get(1..).and_then(|numbers| numbers.split_once('.'));
    let numbers = numbers.and_then(|(section, number)| section.parse().ok().zip(number.parse().ok()));
    let (document, (section, number)) = document.zip(numbers).unwrap_or_else(|| panic!("{key}: no key"));
    (document, section, number)
}

/// Whether one key comes right after another one.
fn follows(key: &str, before: &str) -> bool {
    let (here, last) = (place(key), place(before));
    match (here.0 == last.0, here.1 == last.1) {
        (true, true) => here.2 == last.2 + 1,
        (true, false) => (here.1, here.2) == (last.1 + 1, 1),
        (false, _) => (here.1, here.2) == (0, 1),
    }
}

#[test]
fn its_statements_are_numbered_and_its_remarks_repeated_at_the_end() {
    let page = page();
    let rows = rows(&page);
    for pair in rows.windows(2) {
        assert!(follows(&pair[1].key, &pair[0].key), "{} follows {}", pair[1].key, pair[0].key);
    }
    let is_remarked = |row: &&Row| REMARKS.iter().any(|remark| row.clause.contains(remark));
    let remarked: Vec<&str> = rows.iter().filter(is_remarked).map(|row| row.key.as_str()).collect();
    let (_, end) = page.split_once("\n## Not met, or met otherwise\n").expect("the last section");
    let listed = end.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**"));
    let listed: Vec<&str> = listed.map(|(key, _)| key).collect();
    assert_eq!(listed, remarked, "the list at the end has the rows with a remark, in their order");
}

#[test]
fn wrong_names_are_noticed() {
    for name in [
        "conformance::no_such_test",
        "no_such_module::wrong_names_are_noticed",
        "wrong_names_are_noticed",
        "conformance::has_test",
        "journal::synchroniser",
        "lib: model::tests::names::no_such_test",
        "lib: no::such::module",
        "tests/web/nothing.mjs: \"a\"",
        "tests/web/units.test.mjs: \"no such title\"",
        "tests/web/units.test.mjs: \"lines are quoted\"",
    ] {
        assert!(fault(name).is_some(), "{name}");
    }
    for name in [
        "conformance::wrong_names_are_noticed",
        "graphs::turns::a_paused_run_begins_no_turn",
        "lib: model::tests::names::a_run_has_the_fields_of_the_contract",
        "tests/web/units.test.mjs: \"command lines are quoted for a shell\"",
    ] {
        assert_eq!(fault(name), None, "{name}");
    }
    assert_eq!(rules("1.5, 22.40 (a name.md); section 15"), ["1.5", "22.40"]);
}
