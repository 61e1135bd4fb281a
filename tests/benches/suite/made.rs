//! A new run and its nodes, for tests and benchmarks.

use aynig::git::Repo;
use aynig::ledger::Place;
use aynig::model::decide::{NewRun, NodeSpec};
use aynig::model::ids::{Alias, ProviderName, RunId, Slug};
use aynig::model::run::{GlobalMode, Limits, Mode, Replicate, RunKind, RunStatus};

pub(crate) fn new_run(repo: &Repo, place: &Place, id: RunId, slug: Slug) -> NewRun {
    NewRun {
        id,
        slug,
        kind: RunKind::Graph,
        label: String::new(),
        mode: Mode::Interactive,
        global_mode: GlobalMode::Implementation,
        base_ref: "refs/heads/main".to_owned(),
        base_sha: "0".repeat(40),
        decided_by: place.named(repo).expect("a place"),
        done_when: None,
        limits: Limits::default(),
        replicate: Replicate::All,
        status: RunStatus::Running,
        flow: None,
        reserve_role: false,
    }
}

pub(crate) fn node(alias: &str) -> NodeSpec {
    NodeSpec {
        alias: Some(Alias::parse(alias).expect("an alias")),
        label: alias.to_owned(),
        role_template: "orchestrator".to_owned(),
        role_text: None,
        provider: ProviderName::parse("custom").expect("a name"),
        model: None,
        capabilities: None,
        permissions: None,
        limits: Limits::default(),
        reserve_role: false,
    }
}
