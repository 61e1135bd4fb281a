//! A process killed between any two effects of publishing: the next call finishes, and nothing is there twice.

use super::super::workspace::runs::assert_whole;
use super::*;

/// The points of a run that this repository decides, and whether all is done at them.
const POINTS: [(&str, bool); 6] = [
    ("publish-noted", false),
    ("publish-pushed", false),
    ("publish-proposed", false),
    ("workspace-unheard", false),
    ("ledger-written", false),
    ("workspace-heard", true),
];

fn killed(field: &Field, options: &[&str], point: &str) {
    let output = field.command(options).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
    assert_eq!(output.status.code(), None, "{point}: {}", told(&output));
}

/// CONTRACT 21.12
#[test]
fn the_next_call_finishes() {
    for options in [&[][..], &["--squash"]] {
        for (point, is_heard) in POINTS {
            let what = format!("{point} {options:?}");
            let field = Field::proposing();
            killed(&field, options, point);
            assert_eq!(field.events().is_empty(), !is_heard, "{what}");
            let arrived = field.there();
            let done = field.published(options);
            assert_eq!(done["pushed"], point == "publish-noted", "{what}");
            assert!(arrived.is_empty() || arrived == field.there(), "{what}");
            assert_eq!(field.actions(), ["create"], "{what}");
            assert_eq!(field.events(), ["publish.pushed", "publish.proposed"], "{what}");
            assert_eq!(field.context()["pr_url"], "https://forge.example/p/1", "{what}");
            assert_whole(&field.repo, field.run);
        }
    }
}

/// CONTRACT 21.4, 21.12
#[test]
fn a_call_after_new_work_knows_what_the_killed_one_pushed() {
    for options in [&[][..], &["--squash"]] {
        for [one, other] in [
            ["publish-noted", "publish-noted"],
            ["publish-noted", "publish-pushed"],
            ["publish-pushed", "publish-noted"],
            ["publish-pushed", "publish-pushed"],
        ] {
            let field = Field::proposing();
            field.published(options);
            for (name, point) in [("two", one), ("three", other)] {
                field.work(name);
                killed(&field, options, point);
            }
            field.work("four");
            field.published(options);
            let shown = field.repo.git(["diff", "--name-only", &field.there(), &field.head()]);
            assert_eq!(shown, "", "{one}, {other} {options:?}");
            assert_eq!(field.actions(), ["create"]);
            assert_whole(&field.repo, field.run);
        }
    }
}

/// CONTRACT 21.12
#[test]
fn what_the_hub_has_heard_is_not_written_again() {
    for point in ["publish-pushed", "ledger-written", "ledger-pushed", "workspace-heard"] {
        let field = Field::of_hub();
        field.repo.workspace_ok(["snapshot", &field.made.slug]);
        killed(&field, &["--squash"], point);
        field.published(&["--squash"]);
        assert_eq!(field.events(), ["publish.pushed"], "{point}");
        let ledger = format!("refs/aynig/runs/{}", field.run);
        assert_eq!(field.hub.head(&ledger), field.repo.head(&ledger), "{point}");
        assert_whole(&field.repo, field.run);
    }
}
