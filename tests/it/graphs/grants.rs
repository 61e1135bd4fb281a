//! Approvals for good, time limits, signatures, notices, and what a crash leaves of an answer.

use std::process::Output;

use serde_json::Value;

use super::super::flow_engine::place_worktrees;
use super::super::support::*;
use super::approvals::{SCRIPT, files, gated, last_words, requests};
use super::{Graph, asking_agent, driver_state};
use crate::signatures::{Key, key};

/// Carries out what is due, with the clock so many seconds ahead.
fn later(graph: &Graph, seconds: &str) -> Output {
    let mut later = graph.repo.aynig_command();
    later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds);
    later.output().expect("it runs")
}

fn id(request: &Value) -> String {
    request["id"].as_str().expect("an id").to_owned()
}

fn listed(graph: &Graph, option: &str) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&graph.ok(&["approvals", option, "--json"])).expect("JSON");
    listed["approvals"].as_array().expect("a list").clone()
}

/// The authors of answers: `person`, or the rule.
fn authors(graph: &Graph) -> Vec<String> {
    let answers = graph.events(&["approval.resolved"]);
    let author = |event: &Value| {
        let by = event["by"].as_object().expect("an author");
        let grant = by.get("policy").and_then(|policy| policy["grant"].as_str()).map(|_| " grant");
        format!("{}{}", by.keys().next().expect("a kind"), grant.unwrap_or_default())
    };
    answers.iter().map(author).collect()
}

/// CONTRACT 22.36
#[test]
fn what_is_approved_for_good_runs_at_once() {
    for (always, other_runs) in [("--always", false), ("--always=tool", true)] {
        let graph = gated(SCRIPT, "0");
        graph.drain();
        let grant = id(&requests(&graph)[0]);
        graph.ok(&["approve", &grant, always]);
        graph.drain();
        assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
        let kept = listed(&graph, "--grants");
        assert_eq!((kept.len(), kept[0]["id"].as_str()), (1, Some(grant.as_str())));
        let shown = graph.ok(&["approvals", "--grants"]);
        assert!(shown.contains("orch revoke") && shown.contains("says it is"), "{shown}");
        assert!(graph.ok(&["show", "RUN"]).contains("without asking"));
        graph.ok(&["chat", "RUN", "a", "again"]);
        graph.drain();
        assert_eq!(graph.turns().len(), 3);
        assert_eq!(graph.turns()[2], "a completed", "nobody was asked");
        assert!(last_words(&graph).contains("status:approved"));
        assert_eq!(authors(&graph), ["person", "policy grant"]);
        let by = graph.events(&["approval.resolved"])[1]["resolution"]["reason"].to_string();
        assert!(by.contains("person@example.com"), "{by}");
        // Other arguments.
        asking_agent(&graph.repo, &SCRIPT.replace("touch one", "touch three"));
        graph.ok(&["chat", "RUN", "a", "another one"]);
        graph.drain();
        assert_eq!(requests(&graph).is_empty(), other_runs, "{always}");
        if !other_runs {
            graph.ok(&["deny", &id(&requests(&graph)[0]), "--reason", "no"]);
            graph.drain();
        }
        asking_agent(&graph.repo, SCRIPT);
        graph.ok(&["revoke", &grant[..8]]);
        assert!(listed(&graph, "--grants").is_empty());
        let again = graph.orch(&["revoke", &grant]);
        assert_eq!(again.status.code(), Some(1), "{}", err(&again));
        graph.ok(&["chat", "RUN", "a", "once more"]);
        graph.drain();
        assert_eq!(requests(&graph).len(), 1, "it asks again");
        graph.ok(&["doctor", "RUN"]);
    }
}

/// Carries the answer out where the test sees it, and in its first run then waits.
const RUNS_ONCE: &str = r#": >../../begun
printf '%s\n' '{"type":"approval.requested","approvalId":"q","tool":{"id":"t","name":"command","args":{"command":"pay"}}}'
IFS= read -r answer
case $answer in
*'"approved"'*)
    echo paid >>../../paid
    if [ ! -e ../../first ]; then : >../../first; IFS= read -r never; fi ;;
esac
echo '{"type":"message.assistant.final","content":"done"}'
exec cat >/dev/null"#;

/// CONTRACT 22.35
#[test]
fn a_tool_runs_once_by_one_approval_whoever_is_killed() {
    let graph = gated(RUNS_ONCE, "600");
    let place = graph.repo.beside("worktrees");
    let mut runner = super::people::live(&graph.repo);
    wait_until("the request is there", || !requests(&graph).is_empty());
    let first = id(&requests(&graph)[0]);
    graph.ok(&["approve", &first]);
    wait_until("the tool has run", || place.join("first").exists());
    runner.kill().expect("a signal");
    runner.wait().expect("it ends");
    graph.repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    graph.repo.aynig_ok(["workspace", "snapshot", "--accept", &format!("{}/a", graph.slug)]);
    for offset in ["600", "1200", "1800"] {
        later(&graph, offset);
    }
    let asked = requests(&graph);
    assert_eq!(asked.len(), 1, "it is asked again: {:?}", graph.turns());
    assert_ne!(id(&asked[0]), first);
    assert_eq!(std::fs::read_to_string(place.join("paid")).expect("a file"), "paid\n");
    graph.ok(&["approve", &id(&asked[0])]);
    later(&graph, "2400");
    assert_eq!(graph.turns().last().map(String::as_str), Some("a completed"));
    assert_eq!(std::fs::read_to_string(place.join("paid")).expect("a file"), "paid\npaid\n");
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.35
#[test]
fn an_answer_that_a_killed_turn_got_is_asked_for_again() {
    let graph = gated(SCRIPT, "0");
    graph.drain();
    graph.ok(&["approve", &id(&requests(&graph)[0])]);
    let mut killed = graph.repo.aynig_command();
    killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", "answer-heard:kill:1");
    killed.output().expect("it runs");
    assert!(!files(&graph).contains("one"));
    for offset in ["600", "1200"] {
        later(&graph, offset);
    }
    assert_eq!(requests(&graph).len(), 1, "{:?}", graph.turns());
    assert!(!files(&graph).contains("one"));
    graph.ok(&["approve", &id(&requests(&graph)[0])]);
    later(&graph, "1800");
    assert!(files(&graph).contains("one"), "{:?}", graph.turns());
}

/// Asks for two calls at once, and says the answers in their order. Of calls that are allowed it makes a file.
fn two(first: &str, second: &str) -> String {
    let ask = |id: &str, command: &str| {
        format!(
            r#"printf '%s\n' '{{"type":"approval.requested","approvalId":"{id}","tool":{{"id":"{id}","name":"command","args":{{"command":"{command}"}}}}}}'"#
        )
    };
    format!(
        r#": >../../begun
{}
{}
said=
for each in 1 2; do
    IFS= read -r answer
    which=$(printf %s "$answer" | sed 's/.*"approvalId":"\([^"]*\)".*/\1/')
    case $answer in *'"approved"'*) : >"file-$which"; said="$said $which:yes" ;; *) said="$said $which:no" ;; esac
done
printf '{{"type":"message.assistant.final","content":"heard%s"}}\n' "$said"
exec cat >/dev/null"#,
        ask("q", first),
        ask("r", second)
    )
}

/// CONTRACT 22.12, 22.35
#[test]
fn two_requests_of_a_turn_are_answered_in_any_order() {
    for (second, ids) in [("two", 2), ("one", 2)] {
        let graph = gated(&two("one", second), "600");
        let mut runner = super::people::live(&graph.repo);
        wait_until("both are there", || requests(&graph).len() == ids);
        let asked = requests(&graph);
        assert_ne!(id(&asked[0]), id(&asked[1]));
        graph.ok(&["approve", &id(&asked[1])]);
        wait_until("one is answered", || requests(&graph).len() == 1);
        graph.ok(&["deny", &id(&asked[0]), "--reason", "not that"]);
        assert!(runner.wait().expect("it ends").success());
        assert_eq!(graph.turns(), ["a completed"]);
        let made = files(&graph).lines().filter(|line| line.starts_with("file-")).count();
        assert_eq!(made, 1, "one approval is for one call: {}", last_words(&graph));
        if second == "two" {
            assert_eq!(last_words(&graph), "heard r:yes q:no");
        }
    }
}

/// CONTRACT 22.37
#[test]
fn a_request_expires() {
    let graph = gated(SCRIPT, "0");
    graph.repo.git(["config", "aynig.approvalExpireSeconds", "300"]);
    graph.drain();
    let open = requests(&graph);
    assert!(open[0]["expiresAt"].is_string(), "{open:?}");
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-turn");
    let status = out(&graph.repo.aynig_ok(["status", &format!("run/{}/a", graph.slug)]));
    assert!(status.contains("aynig orch approvals"), "{status}");
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted"], "it has time left");
    let mut late = graph.repo.aynig_command();
    late.args(["orch", "approve", &id(&open[0])]).env("AYNIG_CLOCK_OFFSET_SECONDS", "400");
    let late = late.output().expect("it runs");
    assert_eq!(late.status.code(), Some(1));
    assert!(err(&late).contains("time limit"), "{}", err(&late));
    later(&graph, "400");
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    assert!(last_words(&graph).contains("nobody answered in time"), "{}", last_words(&graph));
    assert!(!files(&graph).contains("one"));
    let answers = graph.events(&["approval.resolved"]);
    assert_eq!(answers[0]["resolution"]["status"], "expired");
    assert_eq!(authors(&graph), ["policy"]);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
}

/// CONTRACT 22.37
#[test]
fn a_turn_that_waits_hears_that_its_request_expired() {
    let graph = gated(SCRIPT, "600");
    graph.repo.git(["config", "aynig.approvalExpireSeconds", "1"]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed"]);
    assert!(last_words(&graph).contains("nobody answered in time"), "{}", last_words(&graph));
}

/// CONTRACT 22.36
#[test]
fn a_node_that_need_not_ask_is_answered_at_once_and_that_is_recorded() {
    let graph = gated(SCRIPT, "600");
    graph.ok(&["node", "set", "RUN", "a", "--permissions", "skip"]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed"]);
    assert!(files(&graph).contains("one"));
    let asked = graph.events(&["approval.requested"]);
    assert_eq!((asked.len(), &asked[0]["tool"]["args"]["command"]), (1, &"touch one".into()));
    assert_eq!(graph.events(&["approval.resolved"])[0]["resolution"]["status"], "approved");
    assert_eq!(authors(&graph), ["policy"]);
    assert!(listed(&graph, "--all").is_empty());
    graph.ok(&["doctor", "RUN"]);
}

fn notices(graph: &Graph) -> Vec<Value> {
    let text = std::fs::read_to_string(graph.repo.beside("notices")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// CONTRACT 22.38
#[test]
fn people_are_notified_once_of_each_request() {
    let graph = gated(SCRIPT, "0");
    let place = graph.repo.beside("notices");
    graph.repo.git(["config", "aynig.notify", &format!("cat >>'{}'", place.display())]);
    graph.drain();
    let open = id(&requests(&graph)[0]);
    wait_until("a notice", || !notices(&graph).is_empty());
    let [notice] = <[Value; 1]>::try_from(notices(&graph)).expect("one notice");
    assert_eq!(notice["event"], "waits-for-you");
    assert_eq!(notice["branch"], format!("run/{}/a", graph.slug));
    assert!(
        notice["reason"].as_str().expect("a text").contains("a asks to use command: touch one"),
        "{notice}"
    );
    assert_eq!(notice["next"][0], format!("aynig orch approve {}", &open[..8]));
    let waits = graph.orch(&["approvals", "--exit-code"]);
    assert_eq!(waits.status.code(), Some(5), "{}", err(&waits));
    assert!(graph.ok(&["run", "list"]).contains("aynig orch approvals"));
    // The turn that asks again takes the request over.
    graph.ok(&["approve", &open]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    assert_eq!(graph.orch(&["approvals", "--exit-code"]).status.code(), Some(0));
    assert!(!graph.ok(&["run", "list"]).contains("aynig orch approvals"));
    // A second request, whose notice would come after a second one for the first.
    asking_agent(&graph.repo, &SCRIPT.replace("touch one", "touch three"));
    graph.ok(&["chat", "RUN", "a", "again"]);
    graph.drain();
    wait_until("its notice", || {
        notices(&graph).iter().any(|notice| notice.to_string().contains("touch three"))
    });
    assert_eq!(notices(&graph).len(), 2, "{:?}", notices(&graph));
}

fn trusts(repo: &Repo, key: &Key) {
    let allowed = repo.beside("allowed");
    std::fs::write(&allowed, format!("person@example.com {}", key.public)).expect("a file");
    repo.git(["config", "gpg.format", "ssh"]);
    repo.git(["config", "user.signingKey", key.private.to_str().expect("text")]);
    repo.git(["config", "gpg.ssh.allowedSignersFile", allowed.to_str().expect("text")]);
}

/// CONTRACT 22.38
#[test]
fn where_signatures_are_required_only_signed_answers_count() {
    let graph = gated(SCRIPT, "0");
    let own = key(&graph.repo, "own");
    trusts(&graph.repo, &own);
    let ask = |text: &str| {
        asking_agent(&graph.repo, &SCRIPT.replace("touch one", text));
        graph.ok(&["chat", "RUN", "a", "go"]);
        graph.drain();
        id(&requests(&graph)[0])
    };
    graph.drain();
    let open = id(&requests(&graph)[0]);
    // Whoever answers where it is not required does not sign.
    graph.ok(&["approve", &open]);
    assert!(graph.ok(&["approvals", "--all"]).contains("not signed"));
    let required = |yes: &str| graph.repo.git(["config", "aynig.requireSignedApprovals", yes]);
    required("true");
    graph.drain();
    assert!(last_words(&graph).contains("is not signed"), "{}", last_words(&graph));
    assert!(!files(&graph).contains("one"));

    let open = ask("touch one");
    graph.repo.git(["config", "user.signingKey", "/nowhere/key"]);
    let refused = graph.orch(&["approve", &open]);
    assert_eq!(refused.status.code(), Some(3), "{}", err(&refused));
    assert!(err(&refused).contains("the answer was not signed"), "{}", err(&refused));
    assert_eq!(requests(&graph).len(), 1, "it waits");
    trusts(&graph.repo, &own);
    graph.ok(&["approve", &open, "--always"]);
    let shown = listed(&graph, "--all");
    assert_eq!(shown[0]["signature"]["state"], "good", "{shown:?}");
    graph.drain();
    assert!(last_words(&graph).contains("status:approved"), "{}", last_words(&graph));
    assert!(files(&graph).contains("one"));
    // What it covers counts as signed, too.
    graph.ok(&["chat", "RUN", "a", "again"]);
    graph.drain();
    assert!(last_words(&graph).contains("status:approved"), "{}", last_words(&graph));
    assert_eq!(graph.events(&["approval.requested"]).len(), 3);

    // A key that is not trusted here.
    let open = ask("touch three");
    let other = key(&graph.repo, "other");
    graph.repo.git(["config", "user.signingKey", other.private.to_str().expect("text")]);
    graph.ok(&["approve", &open]);
    graph.drain();
    assert!(last_words(&graph).contains("signed answers alone count here"), "{}", last_words(&graph));
}

/// CONTRACT 22.12, 22.38
#[test]
fn a_request_outlives_pauses_and_stops_and_ends_with_its_node() {
    let graph = gated(SCRIPT, "600");
    let runner = super::people::live(&graph.repo);
    wait_until("the request is there", || !requests(&graph).is_empty());
    let open = id(&requests(&graph)[0]);
    graph.ok(&["run", "pause", "RUN"]);
    let mut runner = runner;
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.turns(), ["a interrupted"]);
    assert_eq!(id(&requests(&graph)[0]), open, "it waits while the run is paused");
    graph.ok(&["run", "stop", "RUN"]);
    assert!(requests(&graph).is_empty(), "a run that has ended waits for nobody");
    assert_eq!(listed(&graph, "--all").len(), 1);
    graph.ok(&["run", "resume", "RUN"]);
    assert_eq!(id(&requests(&graph)[0]), open);
    graph.repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    graph.drain();
    assert_eq!(graph.turns().len(), 1, "no turn begins before the answer");
    graph.ok(&["run", "pause", "RUN"]);
    graph.ok(&["approve", &open]);
    graph.ok(&["run", "resume", "RUN"]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    assert!(files(&graph).contains("one"));

    asking_agent(&graph.repo, &SCRIPT.replace("touch one", "touch three"));
    graph.ok(&["chat", "RUN", "a", "again"]);
    graph.drain();
    assert_eq!(requests(&graph).len(), 1);
    graph.ok(&["node", "remove", "RUN", "a"]);
    assert!(listed(&graph, "--all").is_empty());
    let answers = graph.events(&["approval.resolved"]);
    let last = answers.last().expect("an answer");
    assert_eq!(last["resolution"]["status"], "denied");
    assert!(!graph.ok(&["run", "list"]).contains("aynig orch approvals"));
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.12
#[test]
fn long_arguments_are_asked_about_up_to_64_kib() {
    for (bytes, is_asked) in [(60_000, true), (70_000, false)] {
        let repo = Repo::new();
        place_worktrees(&repo);
        let script = format!(
            r#"text=$(head -c {bytes} /dev/zero | tr '\0' x)
printf '{{"type":"approval.requested","approvalId":"q","tool":{{"id":"t","name":"command","args":{{"command":"%s"}}}}}}\n' "$text"
IFS= read -r answer
answer=$(printf %s "$answer" | tr -d '"\\')
printf '{{"type":"message.assistant.final","content":"heard %s"}}\n' "$answer"
exec cat >/dev/null"#
        );
        asking_agent(&repo, &script);
        repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
        let graph = Graph::of(repo, &[]);
        graph.ok(&["node", "add", "RUN", "a", "--role", "implementer", "--provider", "scripted"]);
        graph.ok(&["chat", "RUN", "a", "go"]);
        graph.drain();
        assert_eq!(requests(&graph).len(), usize::from(is_asked), "{bytes}");
        if is_asked {
            graph.ok(&["approve", &id(&requests(&graph)[0])]);
            graph.drain();
            assert!(last_words(&graph).contains("status:approved"));
        } else {
            assert!(last_words(&graph).contains("are longer than"), "{}", last_words(&graph));
        }
    }
}

/// The verbs about approvals for good, for the documents.
pub(crate) fn scenes(scenes: &mut std::collections::BTreeMap<&'static str, Vec<Output>>) {
    let graph = gated(SCRIPT, "0");
    graph.repo.git(["config", "aynig.approvalExpireSeconds", "3600"]);
    graph.repo.git(["config", "aynig.requireSignedApprovals", "true"]);
    trusts(&graph.repo, &key(&graph.repo, "own"));
    graph.drain();
    scenes.entry("orch approvals").or_default().push(graph.orch(&["approvals", "--json"]));
    let open = id(&requests(&graph)[0]);
    graph.ok(&["approve", &open, "--always"]);
    let kept = graph.orch(&["approvals", "--grants", "--json"]);
    scenes.entry("orch approvals").or_default().push(kept);
    scenes.entry("orch revoke").or_default().push(graph.orch(&["revoke", &open, "--json"]));
}
