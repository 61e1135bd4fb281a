//! Operations: what a command line and a server do with a repository.
//!
//! A caller parses a request, calls an operation and shows what it returns. Operations print nothing, and know neither
//! options, terminals nor exit codes. What a caller should show besides the result is returned as data.

pub mod app;
pub mod approvals;
pub mod artifacts;
pub mod authority;
pub mod board;
pub mod cancel;
pub mod changes;
pub mod declare;
pub mod engine;
pub mod error;
pub mod feed;
pub mod flow;
pub mod flow_new;
pub mod flows;
pub mod graph_new;
pub mod graph_runs;
pub mod graphs;
pub mod hand;
pub mod history;
pub mod inside;
pub mod land;
pub mod layout;
pub mod limits;
pub mod mcp;
pub mod missing;
pub mod nodes;
pub mod notify;
pub mod outer;
pub mod patience;
pub mod provider;
pub mod publish;
pub mod run;
pub mod runs;
pub mod settings;
pub mod status;
pub mod target;
pub mod templates;
pub mod trust;
pub mod view;
pub mod wait;
mod work;
pub mod workspace;
