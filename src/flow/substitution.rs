//! Inputs of a flow and the id of a run, put into texts (CONTRACT 18.7).

use std::collections::BTreeMap;

/// The place of the id of the run.
const RUN: &str = "${run_id}";

/// The beginning of the place of an input.
const INPUT: &str = "{{inputs.";

/// Puts inputs and the id of the run into a text. What was put in is not looked at again, and anything else stays.
#[must_use]
pub fn fill(text: &str, inputs: &BTreeMap<String, String>, run: &str) -> String {
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['$', '{']) {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let input = from.strip_prefix(INPUT).and_then(|more| more.split_once("}}"));
        if let Some(more) = from.strip_prefix(RUN) {
            filled.push_str(run);
            rest = more;
        } else if let Some((value, more)) = input.and_then(|(name, more)| Some((inputs.get(name)?, more))) {
            filled.push_str(value);
            rest = more;
        } else {
            filled.push_str(from.get(..1).unwrap_or_default());
            rest = from.get(1..).unwrap_or_default();
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 18.7
    #[test]
    fn inputs_are_put_in_once() {
        let inputs = [("issue", "{{inputs.plan}} ${run_id}"), ("plan", "P"), ("empty", "")];
        let inputs = inputs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (text, filled) in [
            ("", ""),
            ("plain ü {x} $HOME ${x}", "plain ü {x} $HOME ${x}"),
            ("{{inputs.plan}}{{inputs.plan}}", "PP"),
            ("a {{inputs.issue}} b", "a {{inputs.plan}} ${run_id} b"),
            ("[{{inputs.empty}}]", "[]"),
            ("{{inputs.other}} {{ inputs.plan }} {{plan}}", "{{inputs.other}} {{ inputs.plan }} {{plan}}"),
            ("{{{inputs.plan}}}", "{P}"),
            ("{{inputs.plan", "{{inputs.plan"),
            (".tnh/run/${run_id}/x.py", ".tnh/run/R/x.py"),
            ("$${run_id}}", "$R}"),
        ] {
            assert_eq!(fill(text, &inputs, "R"), filled, "{text}");
        }
    }
}
