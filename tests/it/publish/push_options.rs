//! Proposals by options of the push, on a real git server whose hook shows what arrived.

use super::*;

/// Notes the push options, and answers as GitLab does.
const HOOK: &str = r#"n=0; while [ "$n" -lt "${GIT_PUSH_OPTION_COUNT:-0}" ]; do
    eval "echo \"\$GIT_PUSH_OPTION_$n\"" >>"$ROOM/options"; n=$((n+1)); done
echo "View merge request for x:"; echo "  https://gitlab.example/a/b/-/merge_requests/5""#;

fn field(options: bool) -> Field {
    let field = Field::new();
    field.repo.git(["config", "aynig.forge", "push-options"]);
    if options {
        field.hub.git(["config", "receive.advertisePushOptions", "true"]);
    }
    field.hub.command("hooks/post-receive", &field.hub.scripted(HOOK));
    field
}

fn options(field: &Field) -> Vec<String> {
    let file = field.hub.beside("options");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    if file.exists() {
        std::fs::remove_file(file).expect("it was there");
    }
    text.lines().map(str::to_owned).collect()
}

/// CONTRACT 21.9
#[test]
fn a_merge_request_is_asked_for_by_options_of_the_push() {
    let field = field(true);
    let done = field.published(&["--draft"]);
    assert_eq!(done["proposal"]["url"], "https://gitlab.example/a/b/-/merge_requests/5");
    assert_eq!((&done["proposal"]["number"], &done["proposal"]["created"]), (&5.into(), &true.into()));
    let wanted = [
        "merge_request.create",
        "merge_request.target=main",
        "merge_request.title=a label",
        "merge_request.draft",
    ];
    assert_eq!(options(&field), wanted);
    assert_eq!(field.there(), field.head());
    // Without a push nothing is asked, and the title is the proposal's own from now on.
    let again = field.published(&[]);
    assert_eq!((&again["pushed"], &again["proposal"]["created"]), (&false.into(), &false.into()));
    assert!(options(&field).is_empty());
    field.work("two");
    field.published(&[]);
    assert_eq!(options(&field), wanted[..2]);
    assert_eq!(field.events(), ["publish.pushed", "publish.proposed", "publish.pushed"]);
    field.foreign();
    assert_refused(&field.publish(&[]), 1, &["not published from here"]);
}

/// CONTRACT 21.9
#[test]
fn a_server_that_takes_no_options_is_named() {
    let field = field(false);
    assert_refused(&field.publish(&[]), 3, &["takes no push options", "aynig.forge none"]);
    assert_eq!(field.there(), "");
    field.repo.git(["config", "aynig.forge", "none"]);
    field.published(&[]);
    field.hub.git(["config", "receive.advertisePushOptions", "true"]);
    // All is there, and only a push can ask.
    field.repo.git(["config", "aynig.forge", "push-options"]);
    let output = field.publish(&[]);
    assert!(output.status.success() && err(&output).contains("only by a push"), "{}", told(&output));
}
