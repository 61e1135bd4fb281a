//! Sessions that a step continues, and the replay for a new session.

use super::hosts::Field;
use super::played::CLAUDE;
use super::workshop::*;
use super::*;

const AGAIN: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    session: continue
    allow_empty: true
    routes: {completed: ask, error: ask}
  - id: ask
    opcode: GATE
    gate: more
    routes: {gate_approved: implement, gate_rejected: STOP}
";

/// Notes each prompt's line in `.git/asked`, begins the session `abc`, and fails if `.git/fail` is there.
const REMEMBERS: &str = r#"git=$(git rev-parse --git-common-dir); printf '%s\n' "$line" >>"$git/asked"
echo '{"type":"session","sessionId":"abc"}'; echo more >>work
if [ -e "$git/fail" ]; then echo '{"type":"turn.status","status":"failed","message":"no"}'; else say "answer $(wc -l <work)"; fi"#;

/// Whether each visit on this host continued the session.
fn continued(repo: &Repo) -> Vec<bool> {
    noted(repo, "asked").lines().map(|line| line.contains(r#""sessionId":"abc""#)).collect()
}

/// Approves the gate and carries out the next visit.
fn visit_again(repo: &Repo, run: &Started) {
    visit_again_with(repo, run, &[]);
}

/// The same with more arguments for the approval.
fn visit_again_with(repo: &Repo, run: &Started, more: &[&str]) {
    repo.aynig_ok([&["flow", "approve", &run.slug], more].concat());
    repo.aynig_ok(["run", "--drain"]);
}

/// Asserts that the newest visit began a new session for this reason, with a replay of these texts.
fn assert_replayed(repo: &Repo, run: &Started, why: &str, texts: &[&str]) {
    let evidence = ended(repo, run).last().expect("a step")["evidence"].as_str().expect("words").to_owned();
    assert!(evidence.contains("a new session") && evidence.contains(why), "{why}: {evidence}");
    let metadata = kept_json(run, "implement", "runner_metadata.json");
    assert_eq!(metadata["session"], "new", "{metadata}");
    assert!(metadata["session_reason"].as_str().expect("words").contains(why), "{metadata}");
    assert!(roles(run, "implement").iter().any(|role| role == "contextpack"), "{why}");
    let pack = kept(run, "implement", "contextpack.md");
    for text in texts {
        assert!(pack.contains(text), "{why}: {text}: {pack}");
    }
    let prompt = kept(run, "implement", "prompt.md");
    assert!(prompt.contains("contextpack.md"), "{why}: {prompt}");
}

/// CONTRACT 20.28
#[test]
fn a_session_is_continued_where_its_work_is() {
    let repo = Repo::new();
    speaker(&repo, "scripted", REMEMBERS);
    let run = start(&repo, &flow("implement", AGAIN));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(kept_json(&run, "implement", "runner_metadata.json")["session"], "new");
    visit_again(&repo, &run);
    assert_eq!(continued(&repo), [false, true]);
    assert_eq!(kept_json(&run, "implement", "runner_metadata.json")["session"], "continued");
    assert!(!roles(&run, "implement").iter().any(|role| role == "contextpack"));
    assert_eq!(kept(&run, "implement", "prompt.md"), "do it");
}

/// CONTRACT 20.28
#[test]
fn a_new_session_begins_with_a_replay_if_the_recorded_one_does_not_fit() {
    for (name, why) in [
        ("failed", "left no session"),
        ("moved", "the work branch has moved"),
        ("program", "another program"),
        ("kind", "another program"),
        ("host", "another host"),
    ] {
        let repo = Repo::new();
        speaker(&repo, "scripted", REMEMBERS);
        let run = start(&repo, &flow("implement", AGAIN));
        repo.aynig_ok(["run", "--drain"]);
        if name == "failed" {
            std::fs::write(repo.path.join(".git/fail"), "").expect("a file");
            visit_again(&repo, &run);
            std::fs::remove_file(repo.path.join(".git/fail")).expect("it is there");
        }
        match name {
            "moved" => std::fs::write(run.worktree.join("mine"), "a person's").expect("a file"),
            "program" => {
                speaker(&repo, "other", REMEMBERS);
                let other = repo.git(["config", "aynig.provider.other.command"]);
                repo.git(["config", "aynig.provider.scripted.command", &other]);
            }
            "kind" => {
                repo.git(["config", "aynig.provider.scripted.protocol", "text"]);
            }
            "host" => {
                let file = run.directory.join("sessions/implement.json");
                let mut session: Value =
                    serde_json::from_slice(&std::fs::read(&file).expect("a session")).expect("JSON");
                session["host"] = "elsewhere".into();
                std::fs::write(&file, session.to_string()).expect("a file");
            }
            _ => {}
        }
        visit_again_with(&repo, &run, &["--for", &repo.head(&run.work)]);
        assert_eq!(continued(&repo).last(), Some(&false), "{name}");
        assert_replayed(&repo, &run, why, &["do it", "answer 1"]);
    }
}

/// CONTRACT 20.28
#[test]
fn a_program_that_forgot_its_session_begins_a_new_one_in_the_same_visit() {
    let repo = Repo::new();
    let forgets = format!(
        "git=$(git rev-parse --git-common-dir); case $line in *sessionId*) [ ! -e \"$git/forgot\" ] || {{ rm \"$git/forgot\"; \
         printf '%s\\n' \"$line\" >>\"$git/asked\"; echo '{{\"type\":\"session.unknown\"}}'; exit; }} ;; esac\n{REMEMBERS}"
    );
    speaker(&repo, "scripted", &forgets);
    let run = start(&repo, &flow("implement", AGAIN));
    repo.aynig_ok(["run", "--drain"]);
    std::fs::write(repo.path.join(".git/forgot"), "").expect("a file");
    visit_again(&repo, &run);
    assert_eq!(continued(&repo), [false, true, false]);
    assert_replayed(&repo, &run, "does not have the last session", &["do it", "answer 1"]);
    assert!(
        ended(&repo, &run)
            .iter()
            .filter(|step| step["id"] == "implement")
            .all(|step| { step["outcome"] == "completed" })
    );
}

/// CONTRACT 20.28
#[test]
fn another_version_of_the_provider_begins_a_new_session() {
    let repo = Repo::new();
    player(&repo, ("scripted", "claude"), "claude-gated-approved", &CLAUDE, ("", ""));
    let plays = repo.git(["config", "aynig.provider.scripted.command"]);
    let versioned = repo.beside("claude");
    let version = repo.beside("version");
    let script =
        format!("#!/bin/sh\n[ \"$1\" = --version ] && exec cat {}\nexec {plays} \"$@\"\n", version.display());
    std::fs::write(&versioned, script).expect("a script");
    std::fs::set_permissions(&versioned, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    repo.git(["config", "aynig.provider.scripted.command", versioned.to_str().expect("UTF-8")]);
    std::fs::write(&version, "2.1.330 (Claude Code)\n").expect("a file");
    let text = AGAIN.replace("    session", "    policy: step.review_assist\n    session");
    let run = start(&repo, &flow("implement", &text));
    let resumes = || noted(&repo, "scripted.argv").contains("--resume");
    repo.aynig_ok(["run", "--drain"]);
    assert!(!resumes());
    visit_again(&repo, &run);
    assert!(resumes(), "the same version");
    std::fs::write(&version, "2.1.331 (Claude Code)\n").expect("a file");
    visit_again(&repo, &run);
    assert!(!resumes());
    assert_replayed(&repo, &run, "2.1.331 (Claude Code)", &["do it", "Turn 1", "Turn 2"]);
}

/// CONTRACT 20.28
#[test]
fn a_replay_has_whole_turns_of_the_newest_64_kib() {
    let repo = Repo::new();
    let long = "say \"$(wc -l <work) $(head -c 30000 /dev/zero | tr '\\0' x) end\"";
    speaker(&repo, "scripted", &REMEMBERS.replace("say \"answer $(wc -l <work)\"", long));
    let run = start(&repo, &flow("implement", AGAIN));
    repo.aynig_ok(["run", "--drain"]);
    visit_again(&repo, &run);
    visit_again(&repo, &run);
    std::fs::write(run.worktree.join("mine"), "a person's").expect("a file");
    visit_again_with(&repo, &run, &["--for", &repo.head(&run.work)]);
    let pack = kept(&run, "implement", "contextpack.md");
    assert!(pack.len() <= 64 * 1024, "{}", pack.len());
    assert!(!pack.contains("Turn 1") && pack.contains("1 earlier turn left out"), "{}", &pack[..200]);
    assert!(pack.contains("\n2 x") && pack.contains("\n3 x") && pack.matches("x end").count() == 2);
}

/// CONTRACT 20.28
#[test]
fn a_session_stays_on_its_host() {
    let field = Field::furnished("cat >/dev/null", |_| {});
    let [first, second] = &field.hosts;
    for host in [first, second] {
        speaker(host, "scripted", REMEMBERS);
    }
    let run = start(first, &flow("implement", AGAIN));
    first.aynig_ok(["run", "--drain"]);
    second.aynig_ok(["flow", "approve", &run.slug]);
    second.aynig_ok(["run", "--drain"]);
    assert_eq!((continued(first), continued(second)), (vec![false], vec![false]));
    let evidence = ended(second, &run).pop().expect("a step")["evidence"].to_string();
    assert!(evidence.contains("left no session on this host"), "{evidence}");
    // The first host has a session, but the other one moved the work branch.
    visit_again(first, &run);
    assert_eq!(continued(first), [false, false]);
    // The final answers are in the ledger. The prompts stay on their hosts.
    assert_replayed(first, &run, "the work branch has moved", &["answer 1", "answer 2", "not on this host"]);
}
