//! Renders flow runs in the place of their drivers: a line for each that has not ended.
//!
//! Invariant: that of `table`. The command to type is never cut.

use aynig::ops::view::driven::DrivenView;
use aynig::runner::pluralize;

use crate::cli::look::flow_runs::style;
use crate::cli::ui;
use crate::cli::ui::columns::{cell, cut, width};
use crate::cli::ui::{FAINT, STRONG, styled};

/// The width of the word that says where a run stands.
const WORD: usize = 9;

/// The runs that have not ended.
fn live(runs: &[DrivenView]) -> impl Iterator<Item = &DrivenView> {
    runs.iter().filter(|run| !run.is_ended)
}

/// The lines for a terminal with so many columns, or without a terminal.
pub(super) fn lines(runs: &[DrivenView], columns: Option<usize>) -> Vec<String> {
    let slugs = live(runs).map(|run| width(&run.slug)).max().unwrap_or(0);
    live(runs).flat_map(|run| line(run, slugs, columns)).collect()
}

fn line(run: &DrivenView, slugs: usize, columns: Option<usize>) -> Vec<String> {
    let next = run.next.as_deref().map(ui::sanitize);
    let about = ui::sanitize(&format!("{}: {}", run.label, run.words));
    let begin = |slug: String, word: String, about: String| {
        format!("run {}  {}  {about}", styled(STRONG, slug), styled(style(run.word), word))
    };
    let (slug, word) = (cell(&run.slug, slugs), cell(run.word, WORD));
    match columns {
        None => {
            let next = next.map(|next| format!("  {}", styled(STRONG, next))).unwrap_or_default();
            vec![format!("{}{next}", begin(slug, word, about))]
        }
        Some(columns) => {
            let room = columns.saturating_sub("run ".len() + width(&slug) + 2 + WORD + 2);
            let first = begin(slug, word, cut(&about, room));
            std::iter::once(first).chain(next.map(|next| format!("    {}", styled(FAINT, next)))).collect()
        }
    }
}

/// The summary: `2 runs: 1 gate, 1 due; 3 have ended: ...`. Empty without runs.
pub(super) fn summary(runs: &[DrivenView]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for run in live(runs) {
        match counts.iter_mut().find(|(word, _)| *word == run.word) {
            Some((_, count)) => *count += 1,
            None => counts.push((run.word, 1)),
        }
    }
    let all = live(runs).count();
    let mut parts = Vec::new();
    if all > 0 {
        let counts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        parts.push(format!("{}: {}", pluralize(all, "run"), counts.join(", ")));
    }
    match runs.len() - all {
        0 => {}
        1 => parts.push("1 run has ended: `aynig flow list`".to_owned()),
        many => parts.push(format!("{many} runs have ended: `aynig flow list`")),
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(slug: &str, word: &'static str, next: Option<&str>) -> DrivenView {
        DrivenView {
            branch: format!("run/{slug}/flow"),
            work: None,
            slug: slug.to_owned(),
            label: "fix\u{1b}".to_owned(),
            word,
            words: "waits at ask for an answer".to_owned(),
            next: next.map(str::to_owned),
            is_ended: word == "succeeded",
        }
    }

    fn bare(lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    /// CONTRACT 20.34
    #[test]
    fn a_line_for_each_run_and_the_command_is_never_cut() {
        let runs = [
            run("0a1b2c3d", "gate", Some("aynig flow approve 0a1b2c3d")),
            run("1a1b2c3d", "working", None),
            run("2a1b2c3d", "succeeded", Some("aynig publish 2a1b2c3d")),
        ];
        assert_eq!(
            bare(&lines(&runs, None)),
            [
                "run 0a1b2c3d  gate       fix\u{fffd}: waits at ask for an answer  aynig flow approve 0a1b2c3d",
                "run 1a1b2c3d  working    fix\u{fffd}: waits at ask for an answer",
            ]
        );
        assert_eq!(
            bare(&lines(&runs, Some(40))),
            [
                "run 0a1b2c3d  gate       fix\u{fffd}: waits at…",
                "    aynig flow approve 0a1b2c3d",
                "run 1a1b2c3d  working    fix\u{fffd}: waits at…",
            ]
        );
        assert_eq!(summary(&runs), "2 runs: 1 gate, 1 working; 1 run has ended: `aynig flow list`");
        assert_eq!(summary(&[]), "");
    }
}
