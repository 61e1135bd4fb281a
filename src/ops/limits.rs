//! The limits of a graph and of its nodes, in the words of a command line.

use crate::model::run::Limits;

use super::error::Error;

/// Whose limits they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Those of a run.
    Run,
    /// Those of a node.
    Node,
}

impl Of {
    fn names(self) -> &'static [&'static str] {
        const ALL: [&str; 6] = ["turns", "wallSeconds", "costUsd", "tokens", "nodes", "depth"];
        match self {
            Self::Run => &ALL,
            Self::Node => &ALL[..4],
        }
    }
}

/// Limits with those that are given as `NAME=NUMBER`, or as `NAME=none`, which removes one.
pub fn limits(mut known: Limits, of: Of, given: &[String]) -> Result<Limits, Error> {
    for one in given {
        let (name, value) = one.split_once('=').unwrap_or((one, ""));
        let is_none = value == "none";
        let count = value.parse::<u64>().ok();
        let field = match name {
            _ if !of.names().contains(&name) => None,
            "turns" => Some(&mut known.turns),
            "wallSeconds" => Some(&mut known.wall_seconds),
            "tokens" => Some(&mut known.tokens),
            "nodes" => Some(&mut known.nodes),
            "depth" => Some(&mut known.depth),
            _ => {
                let cost = value.parse::<f64>().ok().filter(|cost| cost.is_finite() && *cost > 0.0);
                if cost.is_none() && !is_none {
                    return Err(wrong(one, of));
                }
                known.cost_usd = cost;
                continue;
            }
        };
        // Nobody can work within a limit of nothing. Without levels nodes make no nodes.
        let count = count.filter(|count| *count > 0 || name == "depth");
        match field {
            Some(field) if is_none || count.is_some() => *field = count,
            _ => return Err(wrong(one, of)),
        }
    }
    Ok(known)
}

fn wrong(given: &str, of: Of) -> Error {
    let names = of.names().join(", ");
    Error::usage(format!(
        "--limit {given}: write NAME=NUMBER with a number above 0, or NAME=none, and NAME is {names}; nothing was changed"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_given_by_name() {
        let none = Limits::default();
        let read = |of, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
            limits(Limits { turns: Some(9), ..none }, of, &given).ok()
        };
        let all = ["turns=1", "wallSeconds=2", "costUsd=0.5", "tokens=3", "nodes=4", "depth=0"];
        let expected = Limits {
            turns: Some(1),
            wall_seconds: Some(2),
            cost_usd: Some(0.5),
            tokens: Some(3),
            nodes: Some(4),
            depth: Some(0),
        };
        assert_eq!(read(Of::Run, &all), Some(expected));
        assert_eq!(read(Of::Run, &[]), Some(Limits { turns: Some(9), ..none }));
        assert_eq!(read(Of::Run, &["turns=none", "costUsd=none"]), Some(none));
        for bad in [
            "turns",
            "turns=",
            "turns=0",
            "turns=-1",
            "turns=1.5",
            "costUsd=0",
            "costUsd=NaN",
            "costUsd=inf",
            "x=1",
        ] {
            assert_eq!(read(Of::Run, &[bad]), None, "{bad}");
        }
        assert_eq!(read(Of::Node, &["nodes=3"]), None);
        assert!(read(Of::Node, &["tokens=3"]).is_some());
    }
}
