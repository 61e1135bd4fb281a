//! A program of the operator's that makes proposals.

use std::fs;

use super::*;

/// Notes each request, finds what is in the file `open`, and creates proposal 1.
const FORGE: &str = r#"read -r line; printf '%s\n' "$line" >>"$ROOM/asked"
case $line in
*'"action":"find"'*) cat "$ROOM/open" 2>/dev/null || exit 0;;
*'"action":"create"'*) [ -e "$ROOM/refuses" ] && { echo 'no rights' >&2; exit 7; }
    echo '{"url":"https://forge.example/p/1"}' >"$ROOM/open"; cat "$ROOM/open";;
esac"#;

impl Field {
    /// Lets this script make proposals.
    pub(super) fn with_forge(self, script: &str) -> Self {
        let script = self.repo.scripted(script);
        let file = self.repo.beside("forge");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
        self.repo.git(["config", "aynig.forge", file.to_str().expect("UTF-8")]);
        self
    }

    /// One that makes proposals.
    pub(super) fn proposing() -> Self {
        Self::new().with_forge(FORGE)
    }

    /// The requests to it.
    pub(super) fn asked(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.repo.beside("asked")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The actions among them that change something.
    pub(super) fn actions(&self) -> Vec<String> {
        let all = self.asked().into_iter().map(|one| one["action"].as_str().expect("text").to_owned());
        all.filter(|action| action != "find").collect()
    }

    /// What it finds from now on.
    fn finds(&self, answer: &Value) {
        fs::write(self.repo.beside("open"), answer.to_string()).expect("a file");
    }
}

/// CONTRACT 21.11, 21.12
#[test]
fn a_proposal_is_made_once_and_recorded() {
    let field = Field::proposing();
    let done = field.published(&["--draft"]);
    assert_eq!(done["proposal"]["url"], "https://forge.example/p/1");
    assert_eq!((&done["proposal"]["number"], &done["proposal"]["created"]), (&1.into(), &true.into()));
    let asked = field.asked();
    let create = asked.iter().find(|one| one["action"] == "create").expect("it was asked");
    for (name, wanted) in [
        ("version", Value::from(1)),
        ("remote", "origin".into()),
        ("url", field.repo.git(["config", "remote.origin.url"]).into()),
        ("head", field.made.branch.as_str().into()),
        ("base", "main".into()),
        ("commit", field.head().into()),
        ("title", "a label".into()),
        ("body", format!("aynig-run: {}\n", field.made.slug).into()),
        ("draft", true.into()),
        ("previous", Value::Null),
    ] {
        assert_eq!(create[name], wanted, "{name}");
    }
    assert_eq!(field.events(), ["publish.pushed", "publish.proposed"]);
    assert_eq!(field.context()["pr_url"], "https://forge.example/p/1");
    // Once more, and after new work.
    assert_eq!(field.published(&[])["proposal"]["created"], false);
    field.work("two");
    let done = field.published(&[]);
    assert_eq!((&done["pushed"], &done["proposal"]["created"]), (&true.into(), &false.into()));
    assert_eq!(field.actions(), ["create"]);
    assert_eq!(field.asked().last().expect("one")["previous"]["url"], "https://forge.example/p/1");
    assert_eq!(field.events(), ["publish.pushed", "publish.proposed", "publish.pushed"]);
    assert!(
        out(&field.repo.aynig_ok(["orch", "show", &field.made.slug])).contains("https://forge.example/p/1")
    );
}

/// What follows on the first milestone: local commits on the managed branch, its push, a proposal that is opened and
/// updated.
///
/// CONTRACT 15.6, 21.1, 21.8
#[test]
fn local_commits_are_pushed_and_a_proposal_is_opened_and_updated() {
    let field = Field::proposing();
    for name in ["two", "three"] {
        fs::write(field.made.path.join(name), name).expect("a file");
        field.repo.workspace_ok(["snapshot", &field.made.slug]);
        let done = field.published(&[]);
        assert_eq!((&done["pushed"], &done["proposal"]["number"]), (&true.into(), &1.into()));
        assert_eq!(field.there(), field.head());
        // The forge shows what it was given.
        let last = field.asked().into_iter().rfind(|one| one["action"] != "find").expect("one");
        let url = "https://forge.example/p/1";
        field.finds(&serde_json::json!({ "url": url, "title": last["title"], "body": last["body"] }));
    }
    assert_eq!(field.actions(), ["create", "update"]);
    assert_eq!(field.hub.linear(&format!("main..{}", field.made.branch)).len(), 3);
}

/// CONTRACT 21.8
#[test]
fn a_proposal_that_was_closed_stops_everything() {
    let field = Field::proposing();
    field.published(&[]);
    let first = field.there();
    field.work("two");
    for (state, words) in [("closed", "open it again there"), ("merged", "--branch NAME")] {
        field.finds(&serde_json::json!({ "url": "https://forge.example/p/1", "state": state }));
        assert_refused(&field.publish(&[]), 1, &[state, "https://forge.example/p/1", words]);
        assert_eq!(field.there(), first);
    }
    fs::remove_file(field.repo.beside("open")).expect("it was there");
    field.published(&["--branch", "again"]);
    assert_eq!(field.actions(), ["create", "create"]);
}

/// CONTRACT 21.8
#[test]
fn only_texts_that_we_wrote_are_replaced() {
    let field = Field::proposing();
    field.published(&[]);
    let create = field.asked().into_iter().find(|one| one["action"] == "create").expect("one");
    let url = "https://forge.example/p/1";
    let ours = serde_json::json!({ "url": url, "title": create["title"], "body": create["body"] });
    field.work("two");
    field.finds(&ours);
    assert_eq!(field.published(&[])["proposal"]["updated"], true);
    let update = field.asked().into_iter().find(|one| one["action"] == "update").expect("one");
    assert_eq!(update["body"], format!("- Add one\n- Add two\n\naynig-run: {}\n", field.made.slug));
    assert_eq!(update["previous"]["number"], 1);
    // The same texts, with other ends of lines.
    let body = update["body"].as_str().expect("text").trim().replace('\n', "\r\n");
    field.finds(&serde_json::json!({ "url": url, "title": "a label", "body": body }));
    assert_eq!(field.published(&[])["proposal"]["updated"], false);
    field.finds(&serde_json::json!({ "url": url, "title": "a better one", "body": body }));
    field.work("three");
    assert_eq!(field.published(&[])["proposal"]["updated"], false);
    assert_eq!(field.actions(), ["create", "update"]);
}

/// CONTRACT 21.11
#[test]
fn programs_that_fail_are_named_and_what_was_pushed_is_recorded() {
    let field = Field::proposing();
    field.repo.release("refuses");
    assert_refused(&field.publish(&[]), 4, &["exited with 7", "no rights"]);
    assert_eq!((field.there(), field.events()), (field.head(), vec!["publish.pushed".to_owned()]));
    fs::remove_file(field.repo.beside("refuses")).expect("it was there");
    let done = field.published(&[]);
    assert_eq!((&done["pushed"], &done["proposal"]["created"]), (&false.into(), &true.into()));
    assert_eq!(field.events(), ["publish.pushed", "publish.proposed"]);
    for (script, code, words) in [
        ("echo nonsense", 4, "no answer that can be read"),
        (r#"echo '{"url":"https://x/1","state":"odd"}'"#, 4, "odd"),
        (r#"printf '{"url":"a\\u0007b"}'"#, 4, "no address"),
        ("yes", 4, "more than 1048576 bytes"),
        ("kill -9 $$", 4, "killed by signal 9"),
    ] {
        let field = Field::new().with_forge(script);
        assert_refused(&field.publish(&[]), code, &[words]);
        assert_eq!(field.there(), "", "{script}");
    }
    let field = Field::new().with_forge("");
    fs::remove_file(field.repo.beside("forge")).expect("it was there");
    assert_refused(&field.publish(&[]), 3, &["could not start", "forge"]);
    // One that makes no proposals.
    let field = Field::new().with_forge("exit 0");
    let output = field.publish(&[]);
    assert!(output.status.success() && err(&output).contains("made no proposal"), "{}", told(&output));
}

/// CONTRACT 21.11
#[test]
fn a_program_ends_with_its_caller() {
    let field = Field::new().with_forge("say at $$; await never");
    let mut command = field.command(&[]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let running = Running::start(&mut command);
    let pid = field.repo.said_pid("at");
    running.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(running.finish().status.code(), Some(130));
    pid.gone();
    assert_eq!(field.there(), "");
}
