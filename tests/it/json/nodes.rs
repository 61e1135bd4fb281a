//! The scene with the verbs of graphs.

use super::*;

/// A graph of two nodes, of which one hands work on.
pub(super) fn graphs(scenes: &mut Scenes) {
    let script = r#"
case $prompt in
*"> wait"*) : >../../begun; exec sleep 600 ;;
*"> end"*) "$AYNIG_BIN" orch done >done.json; echo done; exit ;;
esac
"$AYNIG_BIN" orch handoff --to b --message x >staged.json 2>/dev/null; echo done"#;
    let graph = super::super::graphs::Graph::new(script, &[]);
    let run = graph.slug.as_str();
    let mut stage = Stage { repo: &graph.repo, scenes };
    stage.ask("orch run create", &[]);
    let agent = ["--role", "implementer", "--provider", "scripted", "--permissions", "skip"];
    for alias in ["a", "b"] {
        stage.ask("orch node add", &[&[run, alias], &agent[..]].concat());
    }
    stage.ask("orch edge add", &[run, "a", "b"]);
    stage.ask("orch chat", &[run, "a", "x"]);
    graph.drain();
    graph.ok(&["chat", "RUN", "b", "end"]);
    graph.drain();
    let printed = |verb, file: &str| {
        (verb, graph.repo.git(["show", &format!("work/{}/{file}", graph.slug)]).into_bytes())
    };
    let staged = [printed("orch handoff", "a:staged.json"), printed("orch done", "b:done.json")];
    stage.ask("orch run resume", &[run]);
    stage.ask("orch node set", &[run, "a", "--label", "Ann"]);
    super::super::graphs::approvals::scenes(stage.scenes);
    super::super::graphs::hand::scenes(stage.scenes);
    super::super::graphs::made::scenes(stage.scenes);
    super::super::graphs::grants::scenes(stage.scenes);
    stage.ask("orch node stop", &[run, "a"]);
    stage.ask("orch node start", &[run, "a"]);
    stage.ask("orch node reset", &[run, "a"]);
    graph.ok(&["chat", "RUN", "a", "wait"]);
    let mut runner = super::super::graphs::people::live(&graph.repo);
    stage.ask("orch node interrupt", &[run, "a"]);
    runner.wait().expect("it ends");
    let state = graph.state();
    let edge = state["edges"].as_object().expect("edges").keys().next().expect("an edge");
    stage.ask("orch edge remove", &[run, edge]);
    stage.ask("orch node remove", &[run, "b"]);
    stage.ask("orch run pause", &[run]);
    stage.ask("orch run resume", &[run]);
    stage.ask("orch run complete", &[run]);
    stage.ask("orch run resume", &[run]);
    stage.ask("orch run set", &[run, "--label", "New", "--limit", "wallSeconds=1"]);
    graph.ok(&["chat", "RUN", "a", "again"]);
    graph.drain();
    stage.ask("orch run list", &[]);
    stage.ask("orch run stop", &[run]);
    let output = graph.repo.aynig_ok(["orch", "run", "list"]);
    stage.ask("orch run delete", &[run]);
    let hub = graph.repo.beside("hub.git");
    let hub = hub.to_str().expect("UTF-8");
    graph.repo.git(["clone", "-q", "--bare", ".", hub]);
    graph.repo.git(["remote", "add", "origin", hub]);
    graph.repo.git(["config", "aynig.remote", "origin"]);
    stage.ask("orch run create", &[]);
    for (verb, stdout) in staged {
        stage.scenes.entry(verb).or_default().push(Output { stdout, ..output.clone() });
    }
}
