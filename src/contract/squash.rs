//! The message of a landed branch: its request or its changes, without the workflow's notes (CONTRACT.md
//! §14).
//!
//! Invariant: no draft made here has a trailer whose key begins with `dwp-` or `aynig-`, whatever the commits contain.

use bstr::{BStr, BString, ByteSlice};

use super::head::STATE_KEY;
use super::ids::{BranchName, StateName};
use super::message::{Draft, Message};
use super::titles::repeats_state;
use super::trailers::Trailers;

/// The text given by the user.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The subject.
    pub subject: Option<String>,
    /// The body.
    pub body: Option<String>,
}

/// The beginning of the subjects of snapshots of workspaces, which say nothing of the work.
pub(crate) const SNAPSHOT: &str = "snapshot: ";

/// The single commit for `commits` (oldest first) of `branch`.
///
/// Its text comes from the only commit without a state, snapshots aside. Otherwise it comes from the first requested
/// state, or of the `label` of a run, followed by the subjects of the commits without a state.
pub(crate) fn squash_draft(
    branch: &BranchName,
    commits: &[Message],
    said: &Said,
    label: Option<&str>,
) -> Draft {
    let says_something = |message: &Message| !message.subject.starts_with(SNAPSHOT.as_bytes());
    let own: Vec<&Message> =
        commits.iter().filter(|message| state(message).is_none() && says_something(message)).collect();
    let (subject, body) = match own[..] {
        [only] if !only.subject.is_empty() && label.is_none_or(|label| only.subject == label) => {
            (only.subject.clone(), only.body.clone())
        }
        _ => {
            let (subject, mut body) = asked(commits).unwrap_or_default();
            for message in &own {
                let is_begun = body.is_empty() || body.ends_with(b"\n");
                body.extend_from_slice(if is_begun { b"" } else { b"\n\n" });
                body.extend_from_slice(b"- ");
                body.extend_from_slice(&message.subject);
                body.push(b'\n');
            }
            (label.map_or(subject, BString::from), body)
        }
    };
    let subject = if subject.is_empty() { BString::from(format!("Land {branch}")) } else { subject };
    Draft { trailers: kept(commits), ..words(said, subject, body) }
}

/// A merge commit of `branch`.
pub(crate) fn merge_draft(branch: &BranchName, said: &Said) -> Draft {
    words(said, format!("Merge branch '{branch}'").into(), BString::default())
}

fn words(said: &Said, subject: BString, body: BString) -> Draft {
    let named = said.subject.as_deref().filter(|subject| !subject.trim().is_empty());
    Draft {
        subject: named.map_or(subject, BString::from),
        body: said.body.as_deref().map_or(body, BString::from),
        trailers: Trailers::new(),
    }
}

fn state(message: &Message) -> Option<&BStr> {
    message.trailers.last(STATE_KEY).map(|state| state.as_bstr())
}

/// Subject and body of the first state that is not the runner's own. The subject is empty if it only names
/// the state.
fn asked(commits: &[Message]) -> Option<(BString, BString)> {
    let (message, state) = commits.iter().find_map(|message| {
        let state = StateName::parse(state(message)?.to_str().ok()?).ok()?;
        (state != StateName::working() && !state.is_stalled()).then_some((message, state))
    })?;
    let plain = repeats_state(message.subject.as_bstr(), &state);
    Some((if plain { BString::default() } else { message.subject.clone() }, message.body.clone()))
}

/// The trailers to keep, each once. Commits without a state keep all but the workflow's, states only those
/// that name contributors.
fn kept(commits: &[Message]) -> Trailers {
    let mut kept = Trailers::new();
    for message in commits {
        let is_own = state(message).is_none();
        for trailer in message.trailers.iter() {
            let key = trailer.key.to_ascii_lowercase();
            let is_ours = key.starts_with(b"dwp-") || key.starts_with(b"aynig-");
            let wanted = !is_ours && (is_own || key.ends_with(b"-by"));
            if wanted && !kept.iter().any(|known| known == trailer) {
                kept.push(trailer.clone());
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squashed(messages: &[&str], said: &Said) -> String {
        let commits: Vec<Message> = messages.iter().map(|text| Message::parse(text.as_bytes())).collect();
        let branch = BranchName::new("monday").expect("a name");
        squash_draft(&branch, &commits, said, None).encode().expect("it can be written").to_string()
    }

    const ASK: &str =
        "please count\n\nHow long?\n\ndwp-state: count\ndwp-limit: 3\ndocument: x\nReviewed-by: R\n";
    const LEASE: &str = "chore: set working\n\ndwp-state: working\ndwp-run-id: 1\n";
    const DONE: &str = "right\n\ndwp-state: done\n";
    const OWN: &str = "Fix it\n\nBecause.\n\nCo-authored-by: A <a@b>\ndwp-note: n\nFixes: 3\n";

    #[test]
    fn messages_table() {
        let named = Said { subject: Some("Mine".to_owned()), body: Some("My words.".to_owned()) };
        let none = Said::default();
        for (messages, said, expected) in [
            (&[ASK, LEASE, DONE][..], &none, "please count\n\nHow long?\n\nReviewed-by: R\n"),
            (
                &[ASK, LEASE, OWN, DONE],
                &none,
                "Fix it\n\nBecause.\n\nReviewed-by: R\nCo-authored-by: A <a@b>\nFixes: 3\n",
            ),
            (
                &[ASK, OWN, OWN, "More\n", DONE],
                &none,
                "please count\n\nHow long?\n\n- Fix it\n- Fix it\n- More\n\nReviewed-by: R\nCo-authored-by: A <a@b>\nFixes: 3\n",
            ),
            (&["chore: set count\n\ndwp-state: count\n"], &none, "Land monday\n"),
            (&["One\n", "Two\n"], &none, "Land monday\n\n- One\n- Two\n"),
            (&[], &none, "Land monday\n"),
            (&[ASK, OWN], &named, "Mine\n\nMy words.\n\nReviewed-by: R\nCo-authored-by: A <a@b>\nFixes: 3\n"),
        ] {
            assert_eq!(squashed(messages, said), expected, "{messages:?}");
        }
    }
}
