//! The program of a node that a node makes.

use super::{Bench, spec};
use crate::model::decide::{Command, NodeSpec, Refusal};
use crate::model::ids::ProviderName;

/// CONTRACT 22.15
#[test]
fn a_node_gives_a_provider_that_the_run_has_and_a_model_that_is_no_option() {
    let mut bench = Bench::new();
    let top = bench.node("top", "orchestrator");
    let add = |provider: &str, model: Option<&str>| {
        let provider = ProviderName::parse(provider).unwrap();
        let model = model.map(str::to_owned);
        Command::AddNode(Box::new(NodeSpec { alias: None, provider, model, ..spec("z", "r") }))
    };
    assert!(matches!(bench.run_as(top, add("codex", None)), Err(Refusal::OtherProvider { .. })));
    for model in ["-x", "", "a\nb", &"x".repeat(129)] {
        assert!(matches!(bench.run_as(top, add("claude", Some(model))), Err(Refusal::BadModel(_))));
    }
    // A person gives any.
    bench.run(add("codex", Some("m[1]"))).unwrap();
    bench.run_as(top, add("codex", None)).unwrap();
}
