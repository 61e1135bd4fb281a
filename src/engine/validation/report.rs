//! Reports of validators: the format of tnh-conductor's harnesses.
//!
//! Everything is optional but something must be there. What is there must have the right type. The whole report is
//! kept for the planner.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::flow::is_plain_path;
use crate::flow::members::{list, text};

/// The longest report, in bytes.
pub const MAX_REPORT: u64 = 4 * 1024 * 1024;

/// The longest id of a case, in characters.
const MAX_ID: usize = 200;

/// The most ids of failed cases that are kept. The report has all.
const MAX_FAILED: usize = 500;

/// The most golden files of a report.
const MAX_GOLDENS: usize = 500;

/// The statuses of a case.
const STATUSES: [&str; 4] = ["passed", "failed", "skipped", "flaky"];

/// A report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// All of it.
    pub value: Value,
    /// Whether it says that all is well. `None` if it has no results.
    pub passes: Option<bool>,
    /// The ids of cases that failed.
    pub failed: BTreeSet<String>,
    /// The paths of proposed golden files, from the top of the worktree.
    pub goldens: Vec<String>,
}

impl Report {
    /// Reads a report. The error says what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no JSON: {error}"))?;
        let Value::Object(fields) = &value else { return Err("it is no JSON object".to_owned()) };
        let known = ["suite_id", "cases", "summary", "proposed_goldens"];
        if !known.iter().any(|field| fields.contains_key(*field)) {
            return Err(format!("it has none of: {}", known.join(", ")));
        }
        text(fields, "suite_id")?;
        list(fields, "ux_flags")?;
        let cases = list(fields, "cases")?;
        let (mut failed, mut counted) = (BTreeSet::new(), 0_usize);
        for case in cases {
            let Value::Object(case) = case else { return Err("an entry of `cases` is no object".to_owned()) };
            let id = text(case, "id")?.ok_or("a case has no `id`")?;
            let status = text(case, "status")?.ok_or_else(|| format!("the case {id} has no `status`"))?;
            if !STATUSES.contains(&status) {
                return Err(format!("the status of the case {id} is none of: {}", STATUSES.join(", ")));
            }
            if status == "failed" {
                counted += 1;
                if failed.len() < MAX_FAILED {
                    failed.insert(id.chars().take(MAX_ID).collect());
                }
            }
        }
        let summed = summary(fields)?;
        let is_fine = counted == 0 && summed.unwrap_or(0) == 0;
        let passes = (!cases.is_empty() || summed.is_some()).then_some(is_fine);
        let goldens = goldens(fields)?;
        Ok(Self { passes, failed, goldens, value })
    }
}

/// The number of failed cases by the summary.
fn summary(fields: &Map<String, Value>) -> Result<Option<u64>, String> {
    match fields.get("summary") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(summary)) => match summary.get("failed") {
            None | Some(Value::Null) => Ok(Some(0)),
            Some(failed) => {
                failed.as_u64().map(Some).ok_or_else(|| "`summary.failed` is no number".to_owned())
            }
        },
        Some(_) => Err("`summary` is no object".to_owned()),
    }
}

fn goldens(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut goldens: Vec<String> = Vec::new();
    for golden in list(fields, "proposed_goldens")? {
        let path = golden.as_str().ok_or("an entry of `proposed_goldens` is no text")?;
        if !is_plain_path(path) || path.chars().any(char::is_control) {
            return Err(format!("the golden file {path:?} is no path in the worktree"));
        }
        if goldens.iter().any(|one| one == path) {
            continue;
        }
        if goldens.len() == MAX_GOLDENS {
            return Err(format!("it proposes more than {MAX_GOLDENS} golden files"));
        }
        goldens.push(path.to_owned());
    }
    Ok(goldens)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the published contract.
    const PUBLISHED: &str = r#"{"suite_id":"cli_smoke_tests","version":"1.0.0","generated_at":"2026-02-09T14:30:00Z",
        "cases":[{"id":"help","kind":"cli","status":"passed","repro":"x --help","observations":[],"artifacts":[]},
                 {"id":"flag","kind":"cli","status":"failed","repro":"x --no","observations":["got 0"],"artifacts":["logs/a"]}],
        "ux_flags":[{"severity":"warning","area":"accessibility"}],
        "summary":{"passed":1,"failed":1,"flaky":0,"duration_ms":1250}}"#;

    /// CONTRACT 18.17
    #[test]
    fn reports_are_read_in_full() {
        let report = Report::read(PUBLISHED.as_bytes()).expect("a report");
        assert_eq!((report.passes, report.failed), (Some(false), ["flag".to_owned()].into()));
        assert_eq!(report.value["cases"][1]["observations"][0], "got 0");
        for (text, passes, goldens) in [
            (r#"{"proposed_goldens":[]}"#, None, &[][..]),
            (r#"{"proposed_goldens":["a/x.png","b","b"]}"#, None, &["a/x.png", "b"]),
            (r#"{"suite_id":"s"}"#, None, &[]),
            (r#"{"cases":[]}"#, None, &[]),
            (r#"{"cases":[{"id":"a","status":"passed"},{"id":"b","status":"flaky"}]}"#, Some(true), &[]),
            (r#"{"summary":{}}"#, Some(true), &[]),
            (r#"{"summary":{"failed":0,"passed":3}}"#, Some(true), &[]),
            (r#"{"cases":[{"id":"a","status":"passed"}],"summary":{"failed":1}}"#, Some(false), &[]),
            (r#"{"cases":[{"id":"a","status":"failed"}],"summary":{"failed":0}}"#, Some(false), &[]),
        ] {
            let report = Report::read(text.as_bytes()).expect(text);
            assert_eq!(
                (report.passes, report.goldens),
                (passes, goldens.iter().map(|one| (*one).to_owned()).collect()),
                "{text}"
            );
        }
    }

    /// CONTRACT 18.17
    #[test]
    fn what_is_wrong_with_a_report_is_said() {
        for (text, words) in [
            ("", "it is no JSON"),
            ("[]", "it is no JSON object"),
            ("{}", "it has none of: suite_id, cases"),
            (r#"{"cases":{}}"#, "`cases` is no list"),
            (r#"{"cases":[1]}"#, "an entry of `cases` is no object"),
            (r#"{"cases":[{"status":"passed"}]}"#, "a case has no `id`"),
            (r#"{"cases":[{"id":"a"}]}"#, "the case a has no `status`"),
            (
                r#"{"cases":[{"id":"a","status":"ok"}]}"#,
                "the status of the case a is none of: passed, failed",
            ),
            (r#"{"summary":3}"#, "`summary` is no object"),
            (r#"{"summary":{"failed":"2"}}"#, "`summary.failed` is no number"),
            (r#"{"suite_id":1}"#, "`suite_id` is no text"),
            (r#"{"cases":[],"ux_flags":1}"#, "`ux_flags` is no list"),
            (r#"{"proposed_goldens":[1]}"#, "an entry of `proposed_goldens` is no text"),
            (r#"{"proposed_goldens":["../x"]}"#, "no path in the worktree"),
            (r#"{"proposed_goldens":["/etc/passwd"]}"#, "no path in the worktree"),
            (r#"{"proposed_goldens":[".git/config"]}"#, "no path in the worktree"),
            (r#"{"proposed_goldens":["a\nb"]}"#, "no path in the worktree"),
        ] {
            let error = Report::read(text.as_bytes()).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        let nested = format!(r#"{{"cases":[],"x":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        assert!(Report::read(nested.as_bytes()).is_err());
    }

    #[test]
    fn a_report_with_very_many_failures_is_bounded() {
        let cases: Vec<String> =
            (0..2000).map(|n| format!(r#"{{"id":"{n}{}","status":"failed"}}"#, "x".repeat(1000))).collect();
        let report =
            Report::read(format!(r#"{{"cases":[{}]}}"#, cases.join(",")).as_bytes()).expect("a report");
        assert_eq!(report.failed.len(), MAX_FAILED);
        assert!(report.failed.iter().all(|id| id.chars().count() == MAX_ID));
    }
}
