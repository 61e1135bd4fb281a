//! The JSON Schema of graph files (draft 2020-12), for editors. It describes the fields; what holds of nodes and edges
//! together only `check` knows.

use serde_json::{Value, json};

use super::read::{GLOBAL_MODES, MANAGES, MAX_EDGES, MODES, PERMISSIONS, TYPES};
use crate::flow::schema::{duration, filled, flag, object, seconds, text_of, words};
use crate::model::run::Limits;

/// The schema, as indented JSON.
#[must_use]
pub fn text() -> String {
    format!("{:#}", value())
}

/// A text of one line.
fn label(what: &str) -> Value {
    json!({ "description": what, "type": "string", "pattern": r"^[^\x00-\x1f]{1,200}$" })
}

/// A whole number from `least` on.
fn number(what: &str, least: u64) -> Value {
    json!({ "description": what, "type": "integer", "minimum": least })
}

fn name(what: &str) -> Value {
    json!({ "description": what, "type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,31}$" })
}

fn limits(what: &str, of_run: bool) -> Value {
    let cost = json!({ "description": "US dollars.", "type": "number", "exclusiveMinimum": 0 });
    let mut fields = vec![
        ("turns", number("Turns.", 1)),
        ("wall_seconds", seconds("The time in which a turn is live.")),
        ("cost_usd", cost),
        ("tokens", number("Tokens.", 1)),
    ];
    if of_run {
        fields.push(("nodes", number(&format!("Nodes ({}).", Limits::NODES), 1)));
        fields.push(("depth", number(&format!("Levels of nodes that nodes make ({}).", Limits::DEPTH), 0)));
    }
    object(what, &fields)
}

fn node() -> Value {
    let capabilities = object(
        "What it may do; by its role if left out.",
        &[
            ("write_code", flag("Whether it may change files other than documents.")),
            ("write_docs", flag("Whether it may change documents.")),
            ("run_commands", flag("Whether its tools may run commands.")),
            ("delegate_only", flag("Whether it only hands work on.")),
        ],
    );
    let role = json!({ "description": "Its role.", "type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$" });
    let mut node = object(
        "A node: an agent.",
        &[
            ("alias", name("Its short name; from the label if left out.")),
            ("label", label("A text for people.")),
            ("role!", role),
            ("provider!", name("Its provider: a name of `aynig provider list`.")),
            ("model", text_of("The model, as the provider names it.")),
            ("permissions", words("Whether its program asks before it uses a tool (gated).", &PERMISSIONS)),
            ("edge_management", words("The edges that it may change; by its role if left out.", &MANAGES)),
            ("capabilities", capabilities),
            ("limits", limits("Its bounds.", false)),
            ("prompt", filled("Its first message.")),
        ],
    );
    node["anyOf"] = json!([{ "required": ["alias"] }, { "required": ["label"] }]);
    node
}

fn value() -> Value {
    let edge = object(
        "An edge: one node may hand work to another one.",
        &[
            ("from!", name("The alias of the sender.")),
            ("to!", name("The alias of the receiver.")),
            ("type", words("What is handed over.", &TYPES)),
            ("label", label("A text for people.")),
            ("bidirectional", flag("Whether the receiver may send as well.")),
        ],
    );
    let edges = json!({ "description": "The edges.", "type": "array", "maxItems": MAX_EDGES, "items": edge });
    let nodes = json!({ "description": "The nodes.", "type": "array", "items": node() });
    let mut schema = object(
        "A graph of aynig: agents that hand work to each other.",
        &[
            ("label", label("A text for people.")),
            ("mode", words("Whether the orchestrator goes on by itself.", &MODES)),
            ("global_mode", words("What the nodes may change.", &GLOBAL_MODES)),
            ("done_when", filled("When the run is done: `validator:NAME`, or a text for the orchestrator.")),
            ("limits", limits("Bounds of the run.", true)),
            (
                "reserve_role",
                flag("Whether only `aynig run --role ROLE` takes the turns of a node of that role."),
            ),
            ("nodes!", nodes),
            ("edges", edges),
        ],
    );
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("aynig graph");
    schema["$defs"] = json!({ "duration": duration() });
    schema
}
