//! One commit with all changes, and trailers that do not leave.

use super::*;

/// CONTRACT 21.5
#[test]
fn one_commit_has_all_changes_and_the_person_as_its_author() {
    let field = Field::new();
    field.repo.write(".aynig/x", "x");
    field.made.sh(&field.repo, "echo loose >loose");
    field.repo.workspace_ok(["snapshot", &field.made.slug]);
    let done = field.published(&["--squash"]);
    let commit = field.there();
    assert_eq!(done["commit"], commit.as_str());
    assert_eq!(field.hub.head(&format!("{commit}^")), field.hub.head("main"));
    assert_eq!(field.repo.git(["diff", "--name-only", &commit, &field.head()]), "");
    let shown = field.hub.git(["log", "-1", "--format=%an <%ae>%n%B", &commit]);
    let wanted =
        format!("Test Person <person@example.com>\na label\n\n- Add one\n\naynig-run: {}", field.run);
    assert_eq!(shown, wanted);
    // The same commit again; a new one after new work, and for each way to publish.
    assert_eq!(field.published(&["--squash"])["pushed"], false);
    field.work("two");
    field.published(&["--squash"]);
    assert_ne!(field.there(), commit);
    assert_eq!(field.hub.linear(&format!("main..{}", field.made.branch)).len(), 1);
    field.published(&[]);
    assert_eq!(field.there(), field.head());
    field.published(&["--squash"]);
    assert_eq!(field.hub.linear(&format!("main..{}", field.made.branch)).len(), 1);
}

/// CONTRACT 21.5
#[test]
fn trailers_that_runners_read_do_not_leave() {
    let field = Field::new();
    for message in ["go\n\ndwp-state: review", "go\n\nDWP-Limit: 3\nFixes: 7"] {
        let field = Field::new();
        field.made.git(&field.repo, &["commit", "-q", "--allow-empty", "-m", message]);
        field.work("two");
        assert_refused(&field.publish(&[]), 1, &["dwp-*", "--squash"]);
        assert_eq!(field.there(), "");
        field.published(&["--squash"]);
        assert!(!field.hub.message(&field.there()).to_lowercase().contains("dwp-"));
    }
    field.published(&[]);
}

/// CONTRACT 21.6
#[test]
fn secrets_are_masked_in_what_is_written() {
    let field = Field::new();
    field.repo.git(["config", "aynig.secrets", "TOKEN"]);
    field.made.git(
        &field.repo,
        &["commit", "-q", "--allow-empty", "-m", "use s3cret\n\nand s3cret\n\nNote: s3cret"],
    );
    field.work("two");
    let output = field.command(&["--squash"]).env("TOKEN", "s3cret").output().expect("aynig runs");
    assert!(output.status.success(), "{}", told(&output));
    let message = field.hub.message(&field.there());
    assert!(
        !message.contains("s3cret") && message.contains("- use ***") && message.contains("Note: ***"),
        "{message}"
    );
}
