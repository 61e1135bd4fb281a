//! A remote that is away, refuses, or whose answer is lost.

use super::super::remote::Wrapper;
use super::super::workspace::runs::assert_whole;
use super::*;

/// CONTRACT 21.12
#[test]
fn a_remote_that_is_away_changes_nothing() {
    let field = Field::new();
    let away = field.hub.path.with_file_name("away");
    std::fs::rename(&field.hub.path, &away).expect("moved");
    assert_refused(&field.publish(&[]), 4, &["git ls-remote origin"]);
    assert!(field.events().is_empty() && field.context()["remote_branch"].is_null());
    std::fs::rename(&away, &field.hub.path).expect("moved");
    assert_eq!(field.published(&[])["pushed"], true);
}

/// CONTRACT 21.12
#[test]
fn a_push_whose_answer_is_lost_is_looked_up() {
    for script in [
        // It arrived.
        r#"if [ "$verb" = push ]; then "$GIT" "$@" >/dev/null 2>&1; exit 1; fi"#,
        r#"if [ "$verb" = push ]; then "$GIT" "$@" >/dev/null 2>&1; kill -9 $$; fi"#,
    ] {
        let field = Field::new();
        let wrapper = Wrapper::new(&field.hub, script);
        let output = field.command(&[]).env("PATH", wrapper.path()).output().expect("aynig runs");
        assert!(output.status.success(), "{}", told(&output));
        assert_eq!((field.there(), field.events()), (field.head(), vec!["publish.pushed".to_owned()]));
    }
    // It did not, and the next call pushes.
    let field = Field::new();
    let wrapper = Wrapper::new(&field.hub, r#"if [ "$verb" = push ]; then exit 1; fi"#);
    let output = field.command(&[]).env("PATH", wrapper.path()).output().expect("aynig runs");
    assert_refused(&output, 4, &["nothing was pushed"]);
    assert!(field.events().is_empty());
    assert_eq!(field.published(&[])["pushed"], true);
    assert_eq!(field.events(), ["publish.pushed"]);
    assert_whole(&field.repo, field.run);
}

/// CONTRACT 21.4
#[test]
fn a_branch_that_moves_between_question_and_push_is_not_pushed_over() {
    let field = Field::new();
    field.published(&[]);
    field.work("two");
    let script = format!(
        r#"if [ "$verb" = push ]; then "$GIT" --git-dir='{hub}' update-ref refs/heads/{branch} \
           "$("$GIT" --git-dir='{hub}' commit-tree -p {branch} -m theirs {branch}^{{tree}})"; fi"#,
        hub = field.hub.path.display(),
        branch = field.made.branch
    );
    let wrapper = Wrapper::new(&field.hub, &script);
    let output = field.command(&[]).env("PATH", wrapper.path()).output().expect("aynig runs");
    assert_refused(&output, 1, &["moved on origin meanwhile"]);
    assert_eq!(field.hub.message(&field.made.branch), "theirs");
    assert_refused(&field.publish(&[]), 1, &["not published from here"]);
}

/// CONTRACT 21.12
#[test]
fn a_server_that_refuses_is_quoted() {
    let field = Field::new();
    field.hub.command("hooks/update", "echo 'ask Ann first' >&2; exit 1");
    assert_refused(&field.publish(&[]), 4, &["ask Ann first", "nothing was pushed"]);
    assert!(field.events().is_empty());
}

/// CONTRACT 21.12
#[test]
fn a_ledger_that_cannot_be_reached_hears_of_it_later() {
    let field = Field::of_hub();
    field.repo.workspace_ok(["snapshot", &field.made.slug]);
    let mut command = field.command(&[]);
    // Its ledger is on the hub, which takes branches only.
    field.hub.command("hooks/update", "case $1 in refs/heads/*) ;; *) exit 1;; esac");
    let output = command.output().expect("aynig runs");
    assert!(output.status.success() && err(&output).contains("has not heard"), "{}", told(&output));
    assert!(field.events().is_empty());
    std::fs::remove_file(field.hub.path.join("hooks/update")).expect("it was there");
    field.repo.workspace_ok(["snapshot", &field.made.slug]);
    assert_eq!(field.events(), ["publish.pushed"]);
    assert_whole(&field.repo, field.run);
}
