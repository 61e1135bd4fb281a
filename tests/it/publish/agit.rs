//! Proposals by a push to `refs/for/`, on real git servers: one whose `proc-receive` hook takes them, as Gitea does, and
//! ordinary ones.

use super::*;
use crate::programs::program;

/// Takes `refs/for/BASE` for proposal 1: it notes commit and options, moves `refs/pull/1/head`, and makes no ref of that name. (In
/// Python, since the protocol of the hook is binary.)
const HOOK: &str = r#"#!/usr/bin/env python3
import os, subprocess, sys
room = os.environ.get("ROOM") or "@ROOM@"
read, write = sys.stdin.buffer, sys.stdout.buffer
def line():
    size = int(read.read(4), 16)
    return None if size == 0 else read.read(size - 4)
def lines():
    return list(iter(line, None))
def send(text):
    write.write(b"%04x" % (len(text) + 4) + text)
def flush():
    write.write(b"0000"); write.flush()
lines()
send(b"version=1\0push-options atomic\n"); flush()
commands = [one.decode().split() for one in lines()]
options = [one.decode().strip() for one in lines()]
for old, new, name in commands:
    with open(room + "/proposals", "a") as notes:
        notes.write(" ".join([name] + sorted(options)) + "\n")
    subprocess.run(["git", "update-ref", "refs/pull/1/head", new], check=True)
    sys.stderr.write("Visit the existing pull request:\n  http://gitea.example/a/b/pulls/1\n"); sys.stderr.flush()
    send(b"ok " + name.encode() + b"\n")
    send(b"option refname refs/pull/1/head\n")
flush()
"#;

fn field() -> Field {
    let field = Field::new();
    field.repo.git(["config", "aynig.forge", "agit"]);
    field
}

fn taking(field: &Field) {
    let room = field.hub.beside("proposals");
    let room = room.parent().expect("the room").to_str().expect("UTF-8").to_owned();
    field.hub.command("hooks/proc-receive", "");
    std::fs::write(field.hub.path.join("hooks/proc-receive"), HOOK.replace("@ROOM@", &room)).expect("a hook");
    field.hub.git(["config", "receive.procReceiveRefs", "refs/for"]);
    field.hub.git(["config", "receive.advertisePushOptions", "true"]);
}

fn refs(hub: &Repo) -> String {
    hub.git(["for-each-ref", "--format=%(refname)"])
}

/// CONTRACT 21.10
#[test]
fn a_server_takes_the_push_for_a_proposal() {
    if program("python3").is_none() {
        return;
    }
    let field = field();
    taking(&field);
    let done = field.published(&["--draft"]);
    assert_eq!(done["proposal"]["url"], "http://gitea.example/a/b/pulls/1", "{done}");
    assert_eq!(refs(&field.hub), "refs/heads/main\nrefs/pull/1/head");
    assert_eq!(field.published(&[])["pushed"], false);
    field.work("two");
    assert_eq!(field.published(&[])["pushed"], true);
    field.published(&["--squash"]);
    let topic = format!("topic={}", field.made.branch);
    let notes = std::fs::read_to_string(field.hub.beside("proposals")).expect("notes");
    let wanted = [
        format!("refs/for/main title=WIP: a label {topic}"),
        format!("refs/for/main {topic}"),
        format!("refs/for/main force-push=true {topic}"),
    ];
    assert_eq!(notes.lines().collect::<Vec<_>>(), wanted);
    assert_eq!(field.context()["pr_url"], "http://gitea.example/a/b/pulls/1");
    // Somebody else's commit is the proposal's.
    let theirs = field.hub.git(["commit-tree", "-p", "refs/pull/1/head", "-m", "theirs", "main^{tree}"]);
    field.hub.git(["update-ref", "refs/pull/1/head", &theirs]);
    field.work("three");
    assert_refused(&field.publish(&[]), 1, &["not published from here", "git fetch origin refs/pull/1/head"]);
    assert_eq!(field.hub.head("refs/pull/1/head"), theirs);
}

/// CONTRACT 21.10
#[test]
fn an_ordinary_server_keeps_no_junk() {
    // One without push options is recognised before anything is pushed.
    let field = field();
    assert_refused(&field.publish(&[]), 3, &["takes no push options"]);
    assert_eq!(refs(&field.hub), "refs/heads/main");
    // One with them makes a ref, which goes again.
    field.hub.git(["config", "receive.advertisePushOptions", "true"]);
    assert_refused(&field.publish(&[]), 3, &["refs/for/main", "removed again", "aynig.forge none"]);
    assert_eq!(refs(&field.hub), "refs/heads/main");
    assert!(field.events().is_empty());
    // One that has such a ref of somebody else is left alone.
    field.hub.git(["update-ref", "refs/for/dev", "main"]);
    assert_refused(&field.publish(&[]), 3, &["has the ref refs/for/dev", "nothing was changed"]);
    field.hub.git(["update-ref", "refs/for/main", "main"]);
    assert_refused(&field.publish(&[]), 3, &["has the ref refs/for/dev"]);
    assert_eq!(refs(&field.hub), "refs/for/dev\nrefs/for/main\nrefs/heads/main");
}

/// CONTRACT 21.10
#[cfg(debug_assertions)]
#[test]
fn junk_of_a_killed_call_goes_with_the_next() {
    use crate::remote::Wrapper;
    let field = field();
    field.hub.git(["config", "receive.advertisePushOptions", "true"]);
    // It is killed once its push has arrived.
    let wrapper = Wrapper::new(
        &field.hub,
        r#"if [ "$verb" = push ]; then "$GIT" "$@"; kill -9 $(cut -d' ' -f4 /proc/$$/stat); exit 1; fi"#,
    );
    let output = field.command(&[]).env("PATH", wrapper.path()).output().expect("aynig runs");
    assert_eq!(output.status.code(), None, "{}", told(&output));
    wait_until("the junk", || refs(&field.hub).contains("refs/for/main"));
    assert_refused(&field.publish(&[]), 3, &["refs/for/main", "removed again"]);
    assert_eq!(refs(&field.hub), "refs/heads/main");
}
