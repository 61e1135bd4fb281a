//! Secrets are masked before anything is written, and what cannot be masked is not written.

use aynig::contract::ids::RemoteName;
use aynig::ledger::operate::{Ledger, here};
use aynig::ledger::{Place, masks, runs};
use aynig::model::approval::{Answer, Resolution, Tool};
use aynig::model::decide::Command;
use aynig::model::ids::OpId;
use aynig::model::run::Replicate;

use super::{Repo, chat, messages, new_run, op, open, run_with_node, writer};

/// All objects of a repository, as text.
fn objects(repo: &Repo) -> String {
    let ids = repo.git(["cat-file", "--batch-check=%(objectname)", "--batch-all-objects"]);
    let all = repo
        .git_command()
        .args(["cat-file", "--batch"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            use std::io::Write;
            child.stdin.take().expect("a pipe").write_all(ids.as_bytes())?;
            child.wait_with_output()
        });
    String::from_utf8_lossy(&all.expect("git runs").stdout).into_owned()
}

/// CONTRACT 16.5
#[test]
fn the_value_of_a_named_variable_is_in_no_object() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    repo.git(["config", "--add", "aynig.secrets", "OTHER_TOKEN"]);
    repo.git(["config", "--add", "aynig.secrets", "MY_TOKEN"]);
    let mut process = writer(&repo.path, run, "hunter2hunter2", 2);
    let output = process.env("MY_TOKEN", "hunter2hunter2").output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(messages(&here(&store.handle(), run).expect("a ledger")), ["*** 0", "*** 1"]);
    assert!(!objects(&repo).contains("hunter2hunter2"));
}

/// CONTRACT 16.5
#[test]
fn expressions_of_the_base_mask_what_is_asked_for() {
    let repo = Repo::new();
    repo.write(".aynig/redact", "# tokens\ntok-[0-9]+\n");
    repo.commit_all("redact");
    let store = open(&repo.path);
    let handle = store.handle();
    let (id, slug) = runs::fresh(&handle).expect("refs");
    let mut new = new_run(&handle, &Place::Here, id, slug);
    (new.base_sha, new.label) = (repo.head("main"), "with tok-1".to_owned());
    let mut ledger =
        Ledger::create(&handle, Place::Here, &new, &op(OpId::random()), &[], &[]).expect("a run");
    assert_eq!(ledger.tip().state.run.label, "with ***");
    let (other, node) = run_with_node(&handle, &Place::Here);
    assert_ne!(other, id);
    let spec = aynig::model::decide::NodeSpec {
        alias: None,
        label: "the tok-2 node".to_owned(),
        role_template: "orchestrator".to_owned(),
        role_text: None,
        provider: aynig::model::ids::ProviderName::parse("custom").expect("a name"),
        model: None,
        capabilities: None,
        permissions: None,
        limits: aynig::model::run::Limits::default(),
        reserve_role: false,
    };
    ledger.operate(&op(OpId::random()), &[Command::AddNode(Box::new(spec))], &[]).expect("a node");
    let node_here = *ledger.tip().state.nodes.keys().next().expect("a node");
    assert_ne!(node, node_here);
    assert_eq!(
        ledger.tip().state.nodes[&node_here].alias.as_str(),
        "the-node",
        "an alias made from the label"
    );
    // The same request again is the same, and so is the same answer.
    let args = serde_json::Map::from_iter([("command".to_owned(), "curl tok-3".into())]);
    let tool = Tool { provider_id: Some("call tok-3".to_owned()), ..Tool::new("1", "shell", args.clone()) };
    let ask = Command::Ask {
        node: node_here,
        tool,
        context: None,
        expires_at: None,
        heard: Vec::new(),
        turn: None,
    };
    let asked = ledger.operate(&op(OpId::random()), std::slice::from_ref(&ask), &[]).expect("a request");
    assert!(asked.commit.is_some());
    assert_eq!(ledger.operate(&op(OpId::random()), &[ask], &[]).expect("known").commit, None);
    let approval = *ledger.tip().state.approvals.keys().next().expect("a request");
    let resolution = Resolution { status: Answer::Modified, modified_args: Some(args), reason: None };
    let answer = Command::Answer { approval, resolution };
    ledger.operate(&op(OpId::random()), std::slice::from_ref(&answer), &[]).expect("an answer");
    assert_eq!(ledger.operate(&op(OpId::random()), &[answer], &[]).expect("known").commit, None);
    let objects = objects(&repo);
    for secret in ["tok-1", "tok-2", "tok-3"] {
        assert!(!objects.contains(secret), "{secret}");
    }
}

/// CONTRACT 16.5
#[test]
fn what_cannot_be_masked_is_not_written() {
    for (content, why) in [(Some("ok\n(unclosed\n"), "(unclosed"), (None, "no plain file")] {
        let repo = Repo::new();
        match content {
            Some(content) => repo.write(".aynig/redact", content),
            None => {
                std::fs::create_dir_all(repo.path.join(".aynig")).expect("a directory");
                std::os::unix::fs::symlink("/etc/hostname", repo.path.join(".aynig/redact")).expect("a link");
            }
        }
        repo.commit_all("redact");
        let store = open(&repo.path);
        let handle = store.handle();
        let (id, slug) = runs::fresh(&handle).expect("refs");
        let mut new = new_run(&handle, &Place::Here, id, slug);
        new.base_sha = repo.head("main");
        let refused =
            Ledger::create(&handle, Place::Here, &new, &op(OpId::random()), &[], &[]).expect_err(why);
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(runs::all(&handle).expect("refs").is_empty());
    }
    // A base that is not here: its expressions are not known.
    let (one, two) = (Repo::new(), Repo::new());
    let store = open(&one.path);
    let handle = store.handle();
    let (run, node) = run_with_node(&handle, &Place::Here);
    Ledger::open(&handle, run)
        .expect("a run")
        .operate(&op(OpId::random()), &[chat(node, "x")], &[])
        .expect("here");
    let there = open(&two.path);
    let handle = there.handle();
    let (id, slug) = runs::fresh(&handle).expect("refs");
    let mut new = new_run(&handle, &Place::Here, id, slug);
    new.base_sha = "1".repeat(40);
    let refused =
        Ledger::create(&handle, Place::Here, &new, &op(OpId::random()), &[], &[]).expect_err("no base");
    assert!(refused.to_string().contains("fetch it"), "{refused}");
}

/// CONTRACT 16.6
#[test]
fn how_much_is_replicated_by_default_and_by_setting() {
    let origin = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let repo = Repo::new();
    let replicate = |place: &Place| {
        let store = open(&repo.path);
        masks::replicate(&store.handle(), place)
    };
    assert_eq!(replicate(&Place::Here).expect("a default"), Replicate::All);
    assert_eq!(replicate(&origin).expect("a default"), Replicate::Summary);
    repo.git(["config", "aynig.replicate", "all"]);
    assert_eq!(replicate(&origin).expect("as it is set"), Replicate::All);
    repo.git(["config", "aynig.replicate", "none"]);
    assert_eq!(replicate(&Place::Here).expect("as it is set"), Replicate::None);
    assert!(replicate(&origin).expect_err("a contradiction").to_string().contains("without a remote"));
    repo.git(["config", "aynig.replicate", "most"]);
    assert!(replicate(&Place::Here).expect_err("no word").to_string().contains("all, summary or none"));
}
