//! `aynig status` on a terminal: the table, its width and colours, and `--watch`.

use nix::sys::signal::Signal;
use unicode_width::UnicodeWidthStr;

use super::support::*;
use super::terminal::{Terminal, plain};

const ALL: &[&str] = &["status", "--all"];
const WATCH: &[&str] = &["status", "--all", "--watch"];

/// A branch of each kind with something to report.
fn zoo() -> Repo {
    let repo = Repo::with_commands(&[("build", "exit 0"), ("bad", "exit 1")]);
    repo.ready("ready", "build");
    repo.ready("rests", "done");
    repo.ready("held", "build");
    repo.foreign_lease("held", "11111111-2222-4333-8444-555555555555", "other", 300, 0);
    repo.branch_with_message("asleep", b"later\n\ndwp-state: build\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.ready("broke", "bad");
    assert_eq!(repo.aynig(["run", "--branch", "broke"]).status.code(), Some(1));
    repo
}

fn lines(shown: &str) -> Vec<String> {
    plain(shown).lines().map(|line| line.trim_end().to_owned()).collect()
}

fn of<'a>(lines: &'a [String], branch: &str) -> &'a str {
    lines.iter().find(|line| line.starts_with(branch)).unwrap_or_else(|| panic!("{branch}: {lines:#?}"))
}

#[test]
fn a_terminal_gets_a_table_that_begins_with_what_needs_a_person() {
    let (shown, code) = zoo().in_terminal((30, 110), &[], ALL).finish();
    assert_eq!(code, 0);
    let lines = lines(&shown);
    let first: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(first, ["BRANCH", "broke", "", "held", "ready", "asleep", "rests", "5"], "{lines:#?}");
    let column = |word| lines[0].find(word).unwrap_or_else(|| panic!("{word}: {lines:#?}"));
    let held = of(&lines, "held");
    assert!(held[column("STATE")..].starts_with("working (build)  working"), "{held}");
    assert!(held[column("HOLDER")..].starts_with("other"), "{held}");
    let time = &held[column("TIME")..];
    assert!(time.starts_with("4 min ") || time.starts_with("5 min "), "{held}");
    assert!(time.contains(" s left"), "{held}");
    assert!(of(&lines, "asleep")[column("TIME")..].starts_with("wakes in "), "{lines:#?}");
    assert!(of(&lines, "ready")[column("ABOUT")..].starts_with("please build  (.aynig/comm"), "{lines:#?}");
    assert!(of(&lines, "broke")[column("ABOUT")..].starts_with("`bad` exited with 1."), "{lines:#?}");
    assert!(lines[2].contains("`aynig set-state --retry --branch broke` asks again"), "{lines:#?}");
    assert_eq!(
        lines.last().unwrap(),
        "5 branches: 1 stalled, 1 working, 1 ready, 1 parked, 1 rests; 1 branch declares no state"
    );
}

#[test]
fn it_is_as_wide_as_the_terminal_and_cuts_between_characters() {
    let repo = zoo();
    repo.branch_with_message(
        "漢字漢字漢字漢字",
        "漢字の長い題名漢字の長い題名漢字の長い題名\n\ndwp-state: build\n".as_bytes(),
    );
    repo.branch_with_message("e\u{301}e\u{301}", "👩‍👩‍👧👩‍👩‍👧 combined\n\ndwp-state: build\n".as_bytes());
    for columns in [200, 80, 45, 20, 7, 1] {
        let (shown, _) = repo.in_terminal((30, columns), &[], ALL).finish();
        let table: Vec<String> = lines(&shown);
        // The next steps have their own lines and are not cut; the summary is on standard error.
        let table = table
            .iter()
            .take_while(|line| !line.starts_with("7 branches"))
            .filter(|line| !line.starts_with("    "));
        for line in table {
            assert!(line.width() <= usize::from(columns), "{columns}: {line:?} is {} wide", line.width());
        }
    }
    let (shown, _) = repo.in_terminal((30, 76), &[], ALL).finish();
    let lines = lines(&shown);
    let column =
        |line: &str, word: &str| line[..line.find(word).unwrap_or_else(|| panic!("{lines:#?}"))].width();
    let state = column(&lines[0], "STATE");
    assert_eq!(column(of(&lines, "漢字"), "build"), state, "{lines:#?}");
    assert_eq!(column(of(&lines, "e\u{301}"), "build"), state, "{lines:#?}");
    assert!(of(&lines, "漢字").contains('…'), "{lines:#?}");
    assert!(!shown.contains('\u{fffd}'), "{shown:?}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let repo = zoo();
    let (shown, _) = repo.in_terminal((30, 100), &[], ALL).finish();
    assert!(shown.contains("\x1b[32m"), "{shown:?}");
    // A terminal is judged by its own settings, also in CI.
    for place in [("CI", ""), ("CI", "true"), ("CLICOLOR", "1")] {
        for variable in [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "")] {
            let (shown, _) = repo.in_terminal((30, 100), &[place, variable], ALL).finish();
            assert!(!shown.contains('\x1b'), "{place:?}, {variable:?}: {shown:?}");
            assert!(shown.contains("BRANCH"), "{shown:?}");
            let (shown, _) =
                repo.in_terminal((30, 100), &[place, variable], &["status", "--nonsense"]).finish();
            assert!(!shown.contains('\x1b'), "{place:?}, {variable:?}: {shown:?}");
        }
    }
    let forced = [("TERM", "dumb"), ("CLICOLOR_FORCE", "1")];
    let (shown, _) = repo.in_terminal((30, 100), &forced, ALL).finish();
    assert!(shown.contains("\x1b[32m"), "{shown:?}");
}

#[test]
fn without_a_terminal_nothing_is_cut_and_a_branch_is_a_line() {
    let repo = zoo();
    let long = "x".repeat(300);
    repo.branch_with_message("long", format!("{long}\n\ndwp-state: build\n").as_bytes());
    let output = repo.aynig_ok(ALL.iter().copied());
    let said = out(&output);
    assert_eq!(said.lines().count(), 6, "{said}");
    assert!(said.contains(&format!("\"{long}\"")) && !said.contains('…'), "{said}");
    assert!(said.starts_with("broke "), "the same order: {said}");
    assert!(err(&output).contains("6 branches: 1 stalled, 1 working, 2 ready"), "{}", err(&output));
}

#[test]
fn no_git_is_started() {
    let repo = zoo();
    let mut command = repo.aynig_command();
    let output = command.env("PATH", "/nowhere").args(ALL).output().expect("aynig runs");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output).lines().count(), 5);
}

/// Asserts that no terminal mode was changed and that the last picture is still there.
fn assert_untouched(shown: &str, words: &str) {
    for mode in ["\x1b[?", "\x1b=", "\x1b>"] {
        assert!(!shown.contains(mode), "{shown:?}");
    }
    let last = shown.rsplit("\x1b[H").next().expect("text");
    assert!(last.trim_end_matches("^C").ends_with("\r\n\x1b[J"), "below the picture: {last:?}");
    assert!(plain(last).contains(words), "{last:?}");
}

fn has(picture: &[String], branch: &str) -> bool {
    picture.iter().any(|line| line.starts_with(branch))
}

#[test]
fn it_is_painted_anew_when_a_branch_moves_and_when_the_terminal_does() {
    let repo = zoo();
    let mut terminal = repo.in_terminal((30, 100), &[], &["status", "--all", "--watch=3600"]);
    let picture = terminal.wait_for_picture("the table", |picture| has(picture, "held"));
    assert!(picture.last().unwrap().contains("5 branches: 1 stalled"), "{picture:#?}");
    repo.ready("newcomer", "build");
    terminal.wait_for_picture("the new branch", |picture| has(picture, "newcomer"));
    repo.git(["branch", "-D", "newcomer"]);
    terminal.wait_for_picture("it to go", |picture| !has(picture, "newcomer"));
    terminal.resize(6, 40);
    let picture = terminal.wait_for_picture("the small picture", |picture| picture.len() == 5);
    assert!(picture.iter().all(|line| line.width() <= 40), "{picture:#?}");
    assert!(picture.iter().any(|line| line.starts_with("… ") && line.ends_with("more")), "{picture:#?}");
    terminal.resize(40, 120);
    terminal.wait_for_picture("the large picture", |picture| {
        picture.iter().any(|line| line.contains("asks again"))
    });
    terminal.press(b"\x03");
    let (shown, code) = terminal.finish();
    assert_eq!(code, 130);
    assert_untouched(&shown, "held");
}

#[test]
fn the_terminal_is_as_it_was_after_any_end() {
    for (signal, code) in
        [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGKILL, 256 - 9)]
    {
        let repo = zoo();
        let mut terminal: Terminal = repo.in_terminal((30, 100), &[("NO_COLOR", "1")], WATCH);
        terminal.wait_for_picture("the table", |picture| has(picture, "ready"));
        terminal.wait_for_echo(true);
        terminal.signal(signal);
        let (shown, exit) = terminal.finish();
        assert_eq!(exit, code, "{signal}");
        assert!(!shown.contains("\x1b[32m"), "{shown:?}");
        assert_untouched(&shown.replace("<echo on>", ""), "ready");
    }
}

#[test]
fn what_was_on_the_screen_is_scrolled_and_not_painted_over() {
    let repo = zoo();
    let terminal = repo.in_terminal((30, 100), &[], WATCH);
    terminal.wait_for_picture("the table", |picture| has(picture, "ready"));
    let shown = terminal.shown();
    let before = shown.split("\x1b[H").next().expect("text");
    assert_eq!(before.matches('\n').count(), 30, "{before:?}");
}

#[test]
fn the_clock_of_a_lease_goes_on_without_a_look() {
    let repo = zoo();
    let mut terminal = repo.in_terminal((30, 100), &[], &["status", "--branch", "held", "--watch=3600"]);
    let left = |picture: &[String]| of(picture, "held").to_owned();
    let first = left(&terminal.wait_for_picture("the table", |picture| has(picture, "held")));
    terminal.wait_for_picture("the clock", |picture| left(picture) != first);
    terminal.press(b"\x03");
    assert_eq!(terminal.finish().1, 130);
}

#[test]
fn the_end_of_a_lease_is_seen_when_it_comes() {
    let repo = zoo();
    repo.ready("brief", "build");
    repo.foreign_lease("brief", "21111111-2222-4333-8444-555555555555", "other", 3, 0);
    let soon = aynig::clock::format_utc(i64::try_from(now()).expect("a date") + 3);
    let parked = format!("later\n\ndwp-state: build\ndwp-not-before: {soon}\n");
    repo.branch_with_message("wakes", parked.as_bytes());
    let mut terminal = repo.in_terminal((30, 100), &[], &["status", "--all", "--watch=3600"]);
    terminal.wait_for_picture("the end of a lease", |picture| of(picture, "brief").contains(" expired "));
    terminal.wait_for_picture("the waking", |picture| of(picture, "wakes").contains(" ready "));
    terminal.press(b"\x03");
    assert_eq!(terminal.finish().1, 130);
}

#[test]
fn one_branch_is_watched_as_well() {
    let repo = zoo();
    repo.git(["checkout", "--quiet", "held"]);
    let mut terminal = repo.in_terminal((30, 100), &[], &["status", "--watch"]);
    terminal.wait_for_picture("the branch", |picture| {
        picture.iter().any(|line| line.contains("attempt 11111111"))
    });
    terminal.press(b"\x03");
    assert_untouched(&terminal.finish().0, "attempt 11111111");
}

#[test]
fn what_is_no_terminal_gets_a_table_for_each_change() {
    let repo = zoo();
    let mut watching = repo.aynig_start(["status", "--all", "--watch=1"]);
    let date = watching.next_line();
    assert!(date.starts_with("20") && date.ends_with('Z'), "{date}");
    for _ in 0..5 {
        assert_ne!(watching.next_line(), "");
    }
    repo.ready("newcomer", "build");
    assert_eq!(watching.next_line(), "");
    assert!(watching.next_line().ends_with('Z'));
    let table: Vec<String> = (0..6).map(|_| watching.next_line()).collect();
    assert!(table.iter().any(|line| line.starts_with("newcomer")), "{table:#?}");
    watching.signal(Signal::SIGTERM);
    let output = watching.finish();
    assert_eq!(output.status.code(), Some(143), "{}", err(&output));
    assert_eq!(out(&output), "");
}

#[test]
fn json_is_a_line_for_each_change() {
    let repo = zoo();
    let mut watching = repo.aynig_start(["status", "--all", "--json", "--watch"]);
    let rows = |line: &str| {
        let answer = serde_json::from_str::<serde_json::Value>(line).expect("an object");
        answer["branches"].as_array().expect("a list").len()
    };
    assert_eq!(rows(&watching.next_line()), 5);
    repo.ready("newcomer", "build");
    assert_eq!(rows(&watching.next_line()), 6);
    watching.signal(Signal::SIGINT);
    assert_eq!(watching.finish().status.code(), Some(130));
}

#[test]
fn a_pass_without_work_says_so_to_a_person_only() {
    let repo = zoo();
    repo.aynig_ok(["run"]);
    let (shown, code) = repo.in_terminal((30, 100), &[], &["run"]).finish();
    assert_eq!(code, 0);
    let zoo = "nothing to do on 6 branches, one is due in 355";
    assert!(shown.contains(zoo) && shown.contains(" d; `aynig status --all` says why"), "{shown:?}");
    let output = repo.aynig_ok(["run"]);
    assert_eq!((out(&output), err(&output)), (String::new(), String::new()), "cron sends what is said");
    repo.ready("more", "build");
    let (shown, _) = repo.in_terminal((30, 100), &[], &["run"]).finish();
    assert!(!shown.contains("nothing to do"), "{shown:?}");
    let later =
        ["set-state", "more", "--state", "build", "--trailer", "dwp-not-before: 2100-01-01T00:00:00Z"];
    repo.aynig_ok(later);
    let (shown, _) = repo.in_terminal((30, 100), &[], &["run"]).finish();
    assert!(shown.contains("nothing to do on 7 branches, one is due in 2"), "{shown:?}");
    let named = err(&repo.aynig_ok(["run", "more"]));
    assert!(named.contains("nothing to do on more, one is due in 2") && named.contains(" d; `"), "{named}");
}
