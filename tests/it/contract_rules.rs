//! Each rule of CONTRACT.md is cited by a test, and each citation names an existing rule.
//!
//! A citation is a line `/// CONTRACT 5.4, 9.2` in the doc comment of a test. Elsewhere a comment may name a
//! rule as `CONTRACT 5.4`.

use std::collections::BTreeMap;
use std::path::Path;

use super::support::files_below;

/// The beginning of every citation. In two parts, so that this file cites nothing by accident.
const WORD: &str = concat!("CONTRACT", " ");

/// Section and number.
type Rule = (u32, u32);

/// A line of a source.
struct Line {
    place: String,
    text: String,
}

/// Every line of the sources and the tests, file by file.
fn sources() -> Vec<Vec<Line>> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = ["src", "tests"].iter().flat_map(|below| files_below(&top.join(below))).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let name = file.strip_prefix(top).expect("below the top").display().to_string();
        let text = std::fs::read_to_string(file).expect("text");
        let lines = text.lines().enumerate();
        lines
            .map(|(at, line)| Line { place: format!("{name}:{}", at + 1), text: line.trim().to_owned() })
            .collect()
    };
    files.iter().map(read).collect()
}

/// The rules, from lines that begin `**5.4**` or `**5.4+**`.
fn rules() -> Vec<Rule> {
    let text = include_str!("../../CONTRACT.md");
    let numbers = text.lines().filter_map(|line| line.strip_prefix("**")?.split_once("**"));
    numbers.filter_map(|(number, _)| rule(number.trim_end_matches('+'))).collect()
}

fn rule(number: &str) -> Option<Rule> {
    let (section, clause) = number.split_once('.')?;
    Some((section.parse().ok()?, clause.parse().ok()?))
}

/// The rules that a line names, as `CONTRACT 5.4`, `CONTRACT 5.4, 9.2` or `CONTRACT 8.1 to 8.4`.
fn named(line: &str) -> Vec<Rule> {
    let mut found = Vec::new();
    for after in line.split(WORD).skip(1) {
        let words = after.split([',', ' ', ')', ';', ':']).filter(|word| !word.is_empty() && *word != "to");
        found.extend(words.map_while(|word| rule(word.trim_end_matches('.'))));
    }
    found
}

/// Whether this line is in the doc comment of a test that is not ignored.
fn is_of_a_test(lines: &[Line]) -> bool {
    let mut above = lines.iter().map(|line| line.text.as_str());
    let mut attributes = above.by_ref().skip_while(|text| text.starts_with("///"));
    let attributes: Vec<&str> = attributes.by_ref().take_while(|text| text.starts_with("#[")).collect();
    attributes.contains(&"#[test]") && !attributes.iter().any(|text| text.starts_with("#[ignore"))
}

/// Fails with a list of violations, one a line.
fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_cited_by_a_test() {
    let mut cited: BTreeMap<Rule, usize> = rules().into_iter().map(|rule| (rule, 0)).collect();
    assert!(cited.len() > 100, "CONTRACT.md has {} rules only: they are not found any more", cited.len());
    for lines in sources() {
        for (at, line) in lines.iter().enumerate() {
            if line.text.starts_with(&format!("/// {WORD}")) && is_of_a_test(&lines[at..]) {
                named(&line.text).into_iter().for_each(|rule| *cited.entry(rule).or_default() += 1);
            }
        }
    }
    let without = cited.iter().filter(|(_, times)| **times == 0);
    let without: Vec<String> = without.map(|((section, clause), _)| format!("{section}.{clause}")).collect();
    assert_none("no test cites these rules (`/// CONTRACT …` above a test that shows them)", &without);
}

#[test]
fn every_citation_names_a_rule() {
    let rules = rules();
    let mut wrong = Vec::new();
    for lines in sources() {
        for (at, line) in lines.iter().enumerate() {
            for (section, clause) in named(&line.text).into_iter().filter(|rule| !rules.contains(rule)) {
                wrong.push(format!("{}: there is no rule {section}.{clause}", line.place));
            }
            if !line.text.starts_with(&format!("/// {WORD}")) {
                continue;
            }
            let list = line.text.split(WORD).nth(1).unwrap_or_default();
            let read: Option<Vec<Rule>> = list.split(", ").map(rule).collect();
            match read {
                None => wrong.push(format!("{}: not a list of rules: {list}", line.place)),
                Some(read) if !read.is_sorted_by(|one, other| one < other) => {
                    wrong.push(format!("{}: not in order, or twice: {list}", line.place));
                }
                Some(_) if !is_of_a_test(&lines[at..]) => {
                    wrong.push(format!("{}: not above a test that is always run", line.place));
                }
                Some(_) => {}
            }
        }
    }
    assert_none("citations that lead nowhere", &wrong);
}

#[test]
fn tests_cite_in_one_form() {
    // Assembled here, so that this file does not match itself.
    let forms = [format!("{}.md §", WORD.trim_end()), format!("ontract{}§", ' '), format!("spec{}§", ' ')];
    let in_tests =
        |line: &Line| line.place.starts_with("tests/") || line.place.starts_with("src/supervise/tests");
    let old = |line: &Line| in_tests(line) && forms.iter().any(|form| line.text.contains(form));
    let all = sources();
    let found = all.iter().flatten().filter(|line| old(line));
    let wrong: Vec<String> = found.map(|line| format!("{}: {}", line.place, line.text)).collect();
    assert_none("a rule is cited by its number, as `CONTRACT 5.4`", &wrong);
}

#[test]
fn what_a_line_names() {
    let cited = |words: &str| named(&words.replace("RULE ", WORD));
    for (line, expected) in [
        ("nothing of 5.4", vec![]),
        ("/// RULE 5.4", vec![(5, 4)]),
        ("/// RULE 5.4, 9.2", vec![(5, 4), (9, 2)]),
        ("as it says (RULE 5.10, 6.12): no 1.1", vec![(5, 10), (6, 12)]),
        ("RULE 8.1 to 8.4. And RULE 1.2.", vec![(8, 1), (8, 4), (1, 2)]),
    ] {
        assert_eq!(cited(line), expected, "{line}");
    }
}
