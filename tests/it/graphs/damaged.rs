//! Graphs whose providers play recorded streams that are cut, doubled, reordered and garbled.

use super::super::support::*;
use super::driver_state;
use super::played::Play;

/// The streams of a kind. Their names begin so.
const KINDS: [(&str, &str); 3] = [("claude", "claude-"), ("codex", "codex-"), ("acp", "acp-")];

/// Bytes that no message consists of.
const JUNK: [&[u8]; 8] = [
    b"\0",
    b"\xff\xfe",
    b"{",
    b"}\n",
    b"null",
    b"[[[[[[",
    b"\n{\"id\":2}\n",
    b"\n{\"type\":\"result\",\"method\":\"turn/completed\"}\n",
];

/// A small generator, so that a failure is the same again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("a number") % most.max(1)
    }

    /// One of the ways in which a stream can be damaged.
    fn damaged(&mut self, way: usize, whole: &[u8]) -> Vec<u8> {
        let mut lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        match way {
            0 => whole[..self.below(whole.len())].to_vec(),
            1 => whole[self.below(whole.len())..].to_vec(),
            2 => lines.iter().flat_map(|line| [*line, *line]).flatten().copied().collect(),
            3 => {
                for at in (1..lines.len()).rev() {
                    lines.swap(at, self.below(at + 1));
                }
                lines.concat()
            }
            _ => {
                let mut garbled = whole.to_vec();
                for _ in 0..20 {
                    let at = self.below(garbled.len());
                    garbled.splice(at..at, JUNK[self.below(JUNK.len())].iter().copied());
                }
                garbled
            }
        }
    }
}

/// Whether a whole line of the stream says that the turn came to its end.
fn may_complete(kind: &str, stream: &[u8]) -> bool {
    let lines = stream.split(|byte| *byte == b'\n');
    let mut values = lines.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    values.any(|value| match kind {
        "claude" => value["type"] == "result" && value["subtype"] == "success" && value["is_error"] == false,
        "codex" => value["method"] == "turn/completed" && value["params"]["turn"]["status"] == "completed",
        _ => value["id"] == 4 && value["result"]["stopReason"] == "end_turn",
    })
}

/// CONTRACT 19.1, 19.7, 22.3, 22.4
#[test]
fn no_damaged_stream_completes_a_turn_without_its_last_message() {
    let directory = super::super::programs::shipped("tests/fixtures/providers");
    let mut dice = Dice(11);
    for round in 0..sized(1, 2) {
        for (kind, begin) in KINDS {
            let Some(play) = Play::speaking(kind, "stream") else { return };
            let set = |key: &str, value: &str| play.graph.repo.git(["config", key, value]);
            set("aynig.approvalWaitSeconds", "0");
            set("aynig.provider.scripted.idleSeconds", "1");
            let mut streams: Vec<std::path::PathBuf> = std::fs::read_dir(&directory)
                .expect("a directory")
                .map(|entry| entry.expect("an entry").path())
                .filter(|path| {
                    let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8");
                    name.starts_with(begin) && name.ends_with(".jsonl")
                })
                .collect();
            streams.sort();
            let count = sized(5, 10);
            let cases: Vec<(String, Vec<u8>)> = (0..count)
                .map(|case| {
                    let whole = std::fs::read(&streams[dice.below(streams.len())]).expect("a stream");
                    (format!("n{case}"), dice.damaged(case % 5, &whole))
                })
                .collect();
            for (case, (alias, stream)) in cases.iter().enumerate() {
                play.file(&format!("{alias}.stream"), stream);
                // One of them does not end by itself.
                let last = if case == 2 { "hang" } else { "die 0" };
                play.steps(alias, &[&format!("raw {alias}.stream"), last]);
                play.add(alias, if case % 2 == 0 { "gated" } else { "skip" });
                play.graph.ok(&["chat", "RUN", alias, "go"]);
            }
            let mut runner = play.graph.repo.aynig_command();
            let runner = runner.args(["run", "--drain", "--jobs", "4"]).output().expect("it runs");
            assert!(runner.status.success(), "{kind} {round}: {}", err(&runner));
            assert!(!err(&runner).contains("panicked"), "{kind} {round}: {}", err(&runner));
            let ended = play.graph.events(&["turn.status"]);
            for (alias, stream) in &cases {
                let node = play.graph.node(alias);
                let turns: Vec<_> = ended.iter().filter(|end| end["nodeId"] == node["id"]).collect();
                // One that failed may have been tried again already.
                let [before @ .., turn] = turns.as_slice() else { panic!("{kind} {round} {alias}: no turn") };
                assert!(
                    before.iter().all(|turn| turn["status"] != "completed"),
                    "{kind} {round} {alias}: {turns:?}"
                );
                let is_completed = turn["status"] == "completed";
                assert!(!is_completed || may_complete(kind, stream), "{kind} {round} {alias}: {turn}");
                let unread = node["inboxCount"].as_u64().expect("a number");
                assert_eq!(unread, u64::from(!is_completed), "{kind} {round} {alias}: {turn}");
                let state = driver_state(&play.graph.repo, &play.graph.slug, alias);
                assert!(
                    ["orch-idle", "orch-turn"].contains(&state.as_str()),
                    "{kind} {round} {alias}: {state}"
                );
            }
            play.graph.ok(&["doctor", "RUN"]);
            play.assert_nothing_left();
        }
    }
}
