//! Flow runs: the record of their steps, and how they are shown. The scenes are made with the library.

mod drawn;
mod record;
mod shown;

use aynig::contract::ids::CommitId;
use aynig::engine::record::{Ended, Recorder};
use aynig::git::Repo as Opened;
use aynig::journal::directory::RunDirectory;
use aynig::ledger::masks::Masks;
use aynig::ledger::operate::Ledger;
use aynig::ledger::{Content, Place, runs};
use aynig::model::decide::{Command, EndedStep, RunEdit, StepStart};
use aynig::model::ids::{Alias, NodeId, OpId, RunId, StepId};
use aynig::model::run::{FrozenFlow, Mode, RunKind, RunStatus, Verdict};
use aynig::model::state::State;
use aynig::model::step::{Opcode, Outcome};
use aynig::model::time::Timestamp;
use aynig::model::workspace::{Workspace, WorkspaceStatus};

use super::ledger::{new_run, op, open};
use super::speed::suite::made::node;
use super::support::*;

const FILE: &str = "workflow_id: fix\nversion: 3\nentry_step: plan\nsteps:\n\
    - {id: plan, opcode: RUN_AGENT, agent: custom, prompt: p, routes: {completed: check, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}}\n\
    - {id: check, opcode: RUN_VALIDATION, run: [tests], routes: {completed: ask, error: STOP, killed_timeout: STOP, killed_idle: STOP, killed_policy: STOP}}\n\
    - {id: ask, opcode: GATE, gate: approval, routes: {gate_approved: STOP, gate_rejected: STOP}}\n";

/// A repository with a run of the flow above.
pub(super) struct Scene {
    pub(super) repo: Repo,
    pub(super) handle: Opened,
    pub(super) run: RunId,
    pub(super) node: NodeId,
    pub(super) slug: String,
    pub(super) directory: RunDirectory,
}

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + millis).expect("a time")
}

pub(super) fn step(id: &str) -> StepId {
    StepId::parse(id).expect("a step id")
}

pub(super) fn masks() -> Masks {
    Masks::new(vec!["s3cret".to_owned()], "").expect("no expression")
}

pub(super) fn ended(start: i64, outcome: Outcome) -> Ended {
    Ended {
        started_at: at(start),
        ended: Some((at(start + 1_000), outcome)),
        evidence: Some("it said s3cret".to_owned()),
        exit: Some(0),
        policy_digest: None,
        provider: None,
    }
}

impl Scene {
    pub(super) fn new() -> Self {
        let repo = Repo::with_commands(&[("flow-step", "exit 1")]);
        let handle = open(&repo.path).handle();
        let (run, slug) = runs::fresh(&handle).expect("refs");
        let mut new = new_run(&handle, &Place::Here, run, slug.clone());
        let file = Content::new(&Masks::default(), FILE.as_bytes());
        new.kind = RunKind::Flow;
        new.mode = Mode::Auto;
        new.label = "fix 412".to_owned();
        new.base_sha = repo.head("main");
        new.flow = Some(FrozenFlow {
            workflow_id: "fix".to_owned(),
            version: 3,
            file: file.sha256().to_owned(),
            inputs: Default::default(),
            forked_from: None,
            begins_at: None,
        });
        let mut ledger = Ledger::create(&handle, Place::Here, &new, &op(OpId::random()), &[], &[file])
            .expect("a new ledger");
        let workspace = Workspace {
            name: Alias::parse("flow").expect("a name"),
            branch_name: format!("work/{slug}/flow"),
            base_ref: "refs/heads/main".to_owned(),
            base_sha: repo.head("main"),
            created_at: at(0),
            status: WorkspaceStatus::Ready,
            head_sha: repo.head("main"),
            generation: 1,
            remote_branch: None,
            pr_url: None,
            rolled_back_after: None,
            published: Vec::new(),
        };
        let commands = [Command::AddNode(Box::new(node("flow"))), Command::PrepareWorkspace(workspace)];
        ledger.operate(&op(OpId::random()), &commands, &[]).expect("a node");
        let node = *ledger.tip().state.nodes.keys().next().expect("a node");
        let directory = RunDirectory::of(&handle, run);
        Self { repo, handle, run, node, slug: slug.to_string(), directory }
    }

    pub(super) fn ledger(&self) -> Ledger<'_> {
        Ledger::open(&self.handle, self.run).expect("a ledger")
    }

    pub(super) fn state(&self) -> State {
        self.ledger().tip().state.clone()
    }

    pub(super) fn perform(&self, commands: &[Command]) {
        self.ledger().operate(&op(OpId::random()), commands, &[]).expect("an operation");
    }

    pub(super) fn begin(&self, id: &str, opcode: Opcode) -> Recorder {
        Recorder::begin(&self.directory, masks(), &self.state(), &step(id), opcode).expect("a recorder")
    }

    /// Carries out a step in one operation, with a file in its record.
    pub(super) fn carry_out(&self, id: &str, opcode: Opcode, outcome: Outcome, route: Option<&str>) {
        use aynig::engine::record::{Role, for_ledger};
        let mut recorder = self.begin(id, opcode);
        let start = i64::try_from(self.state().run.counts.steps).expect("few") * 10_000;
        recorder.write(Role::Prompt, "prompt.md", "text/markdown", true, b"do it").expect("written");
        let files = recorder.end(ended(start, outcome)).expect("a record");
        let mut ledger = self.ledger();
        let number = ledger.tip().state.run.counts.steps + 1;
        let begin = StepStart { id: step(id), opcode, started_at: Some(at(start)) };
        let artifacts = for_ledger(&mut ledger, None, outcome, &files);
        let evidence = Some("as it should".to_owned());
        let end =
            EndedStep { artifacts, ..EndedStep::new(number, outcome, route.map(str::to_owned), evidence) };
        let commands = [Command::StartStep(begin), Command::EndStep(Box::new(end))];
        ledger.operate(&op(OpId::random()), &commands, &[]).expect("an operation");
    }

    pub(super) fn driver(&self) -> String {
        format!("run/{}/flow", self.slug)
    }

    /// Puts the driver into a state, with more trailers.
    pub(super) fn drive(&self, state: &str, trailers: &str) {
        let message = format!("flow: {state}\n\ndwp-state: {state}\n{trailers}");
        self.repo.branch_from("main", &self.driver(), message.as_bytes());
    }

    pub(super) fn finish(&self, status: RunStatus, verdict: Verdict, how: &str) {
        self.perform(&[Command::SetRun(RunEdit {
            status: Some(status),
            termination: Some(Some(how.to_owned())),
            verdict: Some(Some(verdict)),
            waiting_for: Some(None),
            ..RunEdit::default()
        })]);
    }

    pub(super) fn shown(&self) -> serde_json::Value {
        json(&self.repo.aynig_ok(["flow", "show", &self.slug, "--json"]))
    }

    pub(super) fn words(&self) -> String {
        out(&self.repo.aynig_ok(["flow", "show", &self.slug]))
    }

    /// The commit with this tree-ish, as an id.
    pub(super) fn commit(&self, revision: &str) -> CommitId {
        CommitId::parse_hex(self.repo.head(revision)).expect("an id")
    }
}

/// Answers of the subcommands in which every documented field has a value.
pub(super) fn scenes() -> std::collections::BTreeMap<&'static str, Vec<std::process::Output>> {
    use aynig::model::approval::Tool;
    let scene = Scene::new();
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("ask"));
    let mut shown = Vec::new();
    let show = || scene.repo.aynig_ok(["flow", "show", &scene.slug, "--json"]);
    let later = aynig::clock::format_utc(aynig::clock::wall_seconds() + 600);
    scene.drive("flow-step", &format!("aynig-unable: host-b no claude\ndwp-not-before: {later}\n"));
    shown.push(show());
    let list = || scene.repo.aynig_ok(["flow", "list", "--json"]);
    let mut listed = vec![list()];
    scene.repo.dated_lease(&scene.driver(), "host-a", 300, 0);
    shown.push(show());
    let own = scene.directory.path().join("workspaces/flow/workspace-context.json");
    std::fs::create_dir_all(own.parent().expect("a directory")).expect("made");
    let context = format!(r#"{{"run_id": "{}", "branch_name": "b", "worktree_path": "/w"}}"#, scene.run);
    std::fs::write(&own, context).expect("written");
    let start = StepStart { id: step("ask"), opcode: Opcode::Gate, started_at: None };
    let args = serde_json::json!({"step": "ask", "number": 2, "gate": "approval", "approvers": ["ann@example.org"], "required": 2});
    let args = args.as_object().expect("an object").clone();
    let tool = Tool::new("ask 1", "gate", args);
    let (node, context) = (scene.node, Some("Is it right?".to_owned()));
    scene.perform(&[
        Command::StartStep(start),
        Command::Ask {
            node,
            tool,
            context,
            expires_at: Some(at(9_000_000_000)),
            heard: Vec::new(),
            turn: None,
        },
        Command::SetRun(RunEdit { waiting_for: Some(Some("approval".to_owned())), ..RunEdit::default() }),
    ]);
    let approval = *scene.state().approvals.keys().next().expect("a question");
    scene.perform(&[Command::Approve { approval, required: 2, reason: Some("fine".to_owned()) }]);
    shown.push(show());
    let graph = || scene.repo.aynig_ok(["flow", "graph", &scene.slug, "--format", "json"]);
    let mut drawn = vec![graph()];
    listed.push(list());
    let resolution = aynig::model::approval::Resolution {
        status: aynig::model::approval::Answer::Approved,
        modified_args: None,
        reason: None,
    };
    let usage = aynig::model::run::Usage { total_tokens: 7, cost_usd: Some(0.5), ..Default::default() };
    let record = aynig::model::step::Record { usage: Some(usage), ..Default::default() };
    let end = EndedStep {
        record,
        usage_of: Some((scene.node, None)),
        ..EndedStep::new(2, Outcome::GateApproved, Some("STOP".to_owned()), None)
    };
    scene.perform(&[Command::Answer { approval, resolution }, Command::EndStep(Box::new(end))]);
    scene.finish(RunStatus::Completed, Verdict::Succeeded, "completed");
    shown.push(show());
    drawn.push(graph());
    let logged = scene.repo.aynig_ok(["flow", "log", &scene.slug, "--json"]);
    scene.repo.git(["update-ref", "refs/aynig/runs/0a1b2c3d-0000-4000-8000-000000000001", "main"]);
    listed.push(list());
    [("flow graph", drawn), ("flow show", shown), ("flow list", listed), ("flow log", vec![logged])]
        .into_iter()
        .collect()
}
