//! With a remote: only states that the remote has accepted are announced.

use super::*;

/// Keeps the notice, and whether the remote has the state at that moment.
const LOOK: &str = r#"cat >>"$ROOM/told"
[ "$(git ls-remote origin "refs/heads/$AYNIG_NOTICE_BRANCH" | cut -f1)" = "$AYNIG_NOTICE_COMMIT" ] && echo yes >>"$ROOM/there""#;

fn pair(commands: &[(&str, &str)]) -> (Repo, Repo) {
    let hub = Repo::scene(commands).into_bare();
    let clone = hub.clone_beside("clone");
    clone.git(["config", "aynig.notifyStates", "*"]);
    clone.teller(LOOK);
    (hub, clone)
}

#[test]
fn what_the_remote_has_taken_is_told() {
    let (hub, clone) = pair(&[("work", "next review"), ("fail", "exit 7")]);
    hub.ready("a", "work");
    hub.ready("b", "fail");
    exits(&clone.aynig(["run", "--remote", "origin"]), 1);
    assert_eq!(clone.told_briefly(), [["stalled", "b", "stalled"], ["state", "a", "review"]]);
    assert_eq!(clone.noted_lines("there"), ["yes", "yes"]);
    let notice = clone.told().into_iter().find(|notice| notice["branch"] == "b").expect("it was told");
    assert_eq!(notice["remote"], "origin");
    assert_eq!(notice["next"][1], "aynig set-state --retry --branch b --remote origin");
}

#[test]
fn what_the_remote_refuses_is_not_told() {
    let (hub, clone) = pair(&[("work", "next review")]);
    hub.command(
        "hooks/pre-receive",
        r#"while read -r old new ref; do
            git log -1 --format=%B "$new" | grep -q 'dwp-state: working' || exit 1
        done"#,
    );
    hub.ready("a", "work");
    let output = clone.aynig(["run", "--remote", "origin"]);
    exits(&output, 1);
    assert_eq!(hub.state("a"), "working", "{}", told(&output));
    assert_eq!(clone.told(), Vec::<Value>::new());
}

#[test]
fn an_answer_that_is_lost_is_asked_for_and_then_told_once() {
    let (hub, clone) = pair(&[("work", "next review")]);
    // The result is accepted, and the connection breaks before the answer.
    let wrapper = clone.beside("wrapper");
    fs::create_dir(&wrapper).expect("a directory");
    let script = format!(
        "#!/bin/sh\n{}\nGIT=$(PATH=${{PATH#*:}} command -v git)\ncase \" $* \" in\n*' push '*)\n\
         echo x >>\"$ROOM/pushes\"\n\"$GIT\" \"$@\" >\"$ROOM/answer\" 2>&1; code=$?\n\
         if [ \"$(wc -l <\"$ROOM/pushes\")\" -eq 2 ]; then exit 128; fi\ncat \"$ROOM/answer\"; exit $code;;\n\
         esac\nexec \"$GIT\" \"$@\"\n",
        clone.scripted("")
    );
    fs::write(wrapper.join("git"), script).expect("a file");
    fs::set_permissions(wrapper.join("git"), fs::Permissions::from_mode(0o755)).expect("chmod");
    hub.ready("a", "work");
    let path = format!("{}:{}", wrapper.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = clone.aynig_command();
    let output = command.env("PATH", path).args(["run", "--remote", "origin"]).output().expect("aynig runs");
    exits(&output, 0);
    assert_eq!(clone.noted_lines("pushes").len(), 2, "a claim and a result");
    assert_eq!(clone.told_briefly(), [["state", "a", "review"]]);
    assert_eq!(clone.noted_lines("there"), ["yes"]);
}
