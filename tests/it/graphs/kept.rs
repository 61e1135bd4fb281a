//! Ends of turns that the hub did not take: they are recorded later, and no agent runs a second time.

use super::super::flow_engine::kept_end::refuses_at;
use super::*;

/// A hub, and two hosts with clones of it.
struct Field {
    hub: String,
    /// Has the hub beside it.
    _base: Repo,
    graph: Graph,
    other: Graph,
}

impl Field {
    /// With the nodes `a` and `b`, after a first turn of `a`, and a second message for it. The agent counts its starts in the
    /// clone, and runs `once` in its second turn. The hub refuses pushes of refs that begin like this as often as
    /// `HUB.refusals` says.
    fn new(once: &str, beginning: &str) -> Self {
        let base = Repo::new();
        let bare = base.beside("hub.git");
        let hub = bare.to_str().expect("UTF-8").to_owned();
        base.git(["clone", "-q", "--bare", ".", &hub]);
        refuses_at(&hub, beginning);
        let once = once.replace("HUB", &hub);
        let script = format!(
            r#"common=$(git rev-parse --git-common-dir)
case $prompt in
*"the agent a "*)
    echo a >>"$common/starts"; echo a >>work
    "$AYNIG_BIN" orch handoff --to b --message "look at it" >/dev/null || exit 9
    [ $(wc -l <"$common/starts") -ne 2 ] || {{ {once}; }} ;;
esac
echo done"#
        );
        let [first, second] = ["first", "second"].map(|name| hosts::host(&hub, name, &script));
        let graph = Graph::of(first, &["a", "b"]);
        graph.ok(&["edge", "add", "RUN", "a", "b"]);
        graph.ok(&["chat", "RUN", "a", "First."]);
        graph.drain();
        assert_eq!(graph.turns(), ["a completed", "b completed"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let other = Graph { repo: second, slug: graph.slug.clone() };
        Self { hub, _base: base, graph, other }
    }

    fn kept(&self) -> bool {
        let id = self.graph.state()["id"].as_str().expect("an id").to_owned();
        self.graph.repo.path.join(".git/aynig/data/runs").join(id).join("ends/a").exists()
    }

    fn starts(graph: &Graph) -> usize {
        let text = std::fs::read_to_string(graph.repo.path.join(".git/starts")).unwrap_or_default();
        text.lines().count()
    }

    /// The second turn was recorded once, with its work, its hand-off and its files.
    fn assert_recorded(&self, what: &str) {
        let graph = &self.graph;
        let turns = graph.turns();
        assert_eq!(turns.iter().filter(|turn| *turn == "a completed").count(), 2, "{what}: {turns:?}");
        assert_eq!(Self::starts(graph), 2, "{what}");
        assert_eq!(graph.events(&["handoff.sent"]).len(), 2, "{what}");
        graph.assert_read_once(0);
        let id = graph.state()["id"].as_str().expect("an id").to_owned();
        let published = format!("refs/aynig/work/{id}/a");
        graph.repo.git(["fetch", "-q", "origin", &format!("+{published}:{published}")]);
        assert_eq!(graph.repo.git(["show", &format!("{published}:work")]), "a\na", "{what}");
        let made = graph.events(&["artifact.created"]);
        assert!(made.iter().any(|one| one["artifact"]["name"] == "diff.patch"), "{what}: {made:?}");
        graph.ok(&["doctor", "RUN"]);
    }
}

fn pass(graph: &Graph, seconds: u64) -> String {
    pass_as("test-host", graph, seconds)
}

/// A pass of the host with this name.
fn pass_as(name: &str, graph: &Graph, seconds: u64) -> String {
    let mut command = graph.repo.aynig_command();
    command.env("AYNIG_RUNNER_ID", name);
    command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds.to_string());
    err(&command.output().expect("it runs"))
}

/// CONTRACT 22.30
#[test]
fn a_hub_that_refuses_the_end_of_a_turn_gets_it_later() {
    for beginning in ["refs/aynig/work", "refs/aynig/runs"] {
        let field = Field::new("echo 2 >HUB.refusals", beginning);
        for seconds in [0, 100] {
            let said = pass(&field.graph, seconds);
            assert_eq!(field.graph.turns().len(), 2, "{beginning}: {said}");
            assert!(field.kept(), "{beginning}: it is kept: {said}");
        }
        let said = pass(&field.graph, 400);
        field.assert_recorded(&format!("{beginning}: {said}"));
        assert!(!field.kept(), "{beginning}");
        let end = field.graph.events(&["turn.status"]).into_iter().find(|end| end["detail"].is_string());
        let end = end.expect("a late end");
        assert!(end["spent"]["wallMillis"].as_u64().is_some_and(|wall| wall < 100_000), "{end}");
        let detail = end["detail"].to_string();
        assert!(detail.contains("recorded late") && detail.contains("closed for now"), "{detail}");
    }
}

/// CONTRACT 22.30
#[test]
fn a_turn_that_is_killed_before_the_hub_answers_does_not_run_again() {
    for point in ["step-decided", "ledger-written", "ledger-pushed", "step-ended"] {
        let field = Field::new("true", "refs/none");
        let mut command = field.graph.repo.aynig_command();
        command.arg("run").env("AYNIG_CRASH_AT", format!("{point}:kill:1"));
        command.output().expect("it runs");
        field.graph.repo.deserted();
        let said = pass(&field.graph, 3_600) + &pass(&field.graph, 3_700);
        field.assert_recorded(&format!("{point}: {said}"));
    }
}

/// CONTRACT 22.30
#[test]
fn a_hub_that_is_away_until_the_lease_ends_gets_the_end_later() {
    for other_was_first in [false, true] {
        let field = Field::new("mv HUB HUB.away", "refs/none");
        let hub = &field.hub;
        field.graph.repo.git(["config", "aynig.orchLeaseSeconds", "15"]);
        let said = pass(&field.graph, 0);
        assert!(!std::path::Path::new(hub).exists(), "{said}");
        std::fs::rename(format!("{hub}.away"), hub).expect("it is back");
        if other_was_first {
            // The other host notes that the attempt was cut off, and cannot carry out the next one.
            field.other.repo.git(["config", "--unset", "aynig.provider.scripted.command"]);
            let said = pass_as("second", &field.other, 3_600);
            assert_eq!(field.other.turns()[2..], ["a failed"], "{said}");
        }
        let said = pass(&field.graph, 3_700) + &pass(&field.graph, 3_800);
        field.assert_recorded(&format!("{other_was_first}: {said}"));
        let ends = field.graph.events(&["turn.status"]);
        let again = |end: &&Value| end["detail"].to_string().contains("was recorded as cut off");
        let names_it = ends.iter().find(again).map(|end| end["detail"].to_string());
        let cut_off = ends.iter().find(|end| end["status"] == "failed").map(|end| end["turnId"].clone());
        assert_eq!(names_it.is_some(), other_was_first, "{ends:?}");
        if let (Some(detail), Some(id)) = (names_it, cut_off) {
            assert!(detail.contains(id.as_str().expect("an id")), "{detail}");
        }
    }
}

/// CONTRACT 22.5, 22.30
#[test]
fn a_turn_of_another_host_that_was_killed_is_recorded_beside_a_kept_end() {
    let field = Field::new("echo 1 >HUB.refusals", "refs/aynig/work");
    let said = pass(&field.graph, 0);
    assert!(field.kept() && field.graph.turns().len() == 2, "{said}");
    // The pause binds the first host alone.
    let mut killed = field.other.repo.aynig_command();
    killed.env("AYNIG_RUNNER_ID", "second").arg("run").env("AYNIG_CRASH_AT", "agent-ended:kill:1");
    killed.output().expect("it runs");
    let said = pass(&field.graph, 3_600) + &pass(&field.graph, 3_700);
    let turns = field.graph.turns();
    assert_eq!(turns[2..], ["a failed", "a completed", "b completed"], "{said}");
    assert_eq!((Field::starts(&field.graph), Field::starts(&field.other)), (2, 1), "{said}");
    field.graph.assert_read_once(0);
    field.graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.30
#[test]
fn an_end_is_dropped_if_another_host_went_on_or_the_worktree_changed() {
    for what in ["other", "changed"] {
        let field = Field::new("echo mine >mine; echo 1 >HUB.refusals", "refs/aynig/work");
        let said = pass(&field.graph, 0);
        assert!(field.kept() && field.graph.turns().len() == 2, "{what}: {said}");
        if what == "other" {
            // The pause binds the first host alone.
            let said = pass_as("second", &field.other, 0);
            assert_eq!(field.other.turns()[2..], ["a completed", "b completed"], "{said}");
            field.graph.ok(&["chat", "RUN", "a", "Once more."]);
        } else {
            let worktree = field.graph.repo.beside("worktrees").join(&field.graph.slug).join("a");
            std::fs::write(worktree.join("later"), "mine").expect("a file");
        }
        let said = pass(&field.graph, 400);
        let events = field.graph.ok(&["events", "RUN", "--json"]);
        assert!(events.contains("kept is dropped"), "{what}: {said}");
        assert!(!field.kept(), "{what}");
        field.graph.assert_read_once(0);
        let dropped = field.graph.events(&["turn.status"]);
        let dropped = dropped.iter().find(|end| end["status"] == "interrupted").expect("it is recorded");
        assert!(dropped["detail"].to_string().contains("and dropped"), "{what}: {dropped}");
        let repo = &field.graph.repo;
        let rescued = repo.rescues();
        let has = |name: &String| {
            let mut command = repo.git_command();
            command.args(["show", &format!("{name}:mine")]).output().is_ok_and(|shown| shown.status.success())
        };
        assert!(rescued.iter().any(has), "{what}: {rescued:?} {said}");
    }
}
