//! Journals: appending in synced groups, folding, and the newest page, compared with the least that a program could do.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use aynig::fsutil::{Followed, News};
use aynig::journal::directory::RunDirectory;
use aynig::journal::pages::Reader;
use aynig::journal::sync::sync;
use aynig::journal::writer::Writer;
use aynig::ledger::operate::here;
use aynig::model::event::Event;
use aynig::model::ids::{NodeId, OpId, RunId};
use aynig::model::state::State;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::ledgers::{begin, open};
use super::measure::Sample;
use super::room::Room;
use super::{Row, Sizes};

/// The events that are on the disk together.
const GROUP: usize = 100;

/// The lines of a page.
const PAGE: usize = 200;

/// Appending, folding, and the newest page.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let room = Room::new();
    let path = room.repository("repository", 0, &[], None);
    let repo = open(&path).handle();
    let run = begin(&repo, 1);
    let directory = RunDirectory::of(&repo, run);
    sync(&repo, &directory).expect("a journal");
    let state = here(&repo, run).expect("a ledger").state;
    let node = *state.nodes.keys().next().expect("a node");
    let events: Vec<Vec<u8>> = (0..GROUP).map(|number| delta(run, node, number)).collect();
    let lines: Vec<u8> = events.join(&b'\n');
    let groups = sizes.events.div_ceil(GROUP);
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for round in 0..sizes.rounds {
        let mut file = File::create(room.path(&format!("plain{round}"))).expect("a file");
        plain.push(measured(|| {
            for _ in 0..groups {
                file.write_all(&lines).and_then(|()| file.sync_data()).expect("it can");
            }
        }));
        let mut writer = Writer::open(&repo, &directory).expect("a journal");
        ours.push(measured(|| {
            for _ in 0..groups {
                writer.append(&events).expect("lines");
                writer.flush().expect("it can");
            }
        }));
    }
    let rate = |samples: &[Sample]| {
        let best = samples.iter().map(|sample| sample.wall_ms).fold(f64::INFINITY, f64::min);
        super::as_float(groups * GROUP) / best
    };
    let what = format!(
        "{} events into a journal in synced groups of {GROUP} ({:.0} a ms; plain write and fsync {:.0})",
        groups * GROUP,
        rate(&ours),
        rate(&plain)
    );
    let other = Some(super::as_float(groups * GROUP));
    let appended = Row { what, steps: None, git: plain, ours, other };
    vec![appended, newest_page(sizes, &directory), fold(sizes, &room.path("folded"), &state, node)]
}

/// Measures work of this process.
fn measured(work: impl FnOnce()) -> Sample {
    let cpu = || {
        let used = getrusage(UsageWho::RUSAGE_SELF).expect("always allowed");
        let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
        Duration::from_micros(u64::try_from(micros).expect("time goes forward")).as_secs_f64() * 1000.0
    };
    // Begins the peak anew, where the kernel can.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
    let (used, before, start) = (cpu(), kib("VmRSS:"), Instant::now());
    work();
    let wall_ms = start.elapsed().as_secs_f64() * 1000.0;
    let peak_kib = kib("VmHWM:").saturating_sub(before);
    Sample { wall_ms, cpu_ms: cpu() - used, peak_kib, connections: None }
}

fn kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn newest_page(sizes: &Sizes, directory: &RunDirectory) -> Row {
    let (mut plain, mut ours, mut last) = (Vec::new(), Vec::new(), 0);
    for _ in 0..sizes.rounds {
        let mut tail = std::process::Command::new("tail");
        tail.args(["-n", &PAGE.to_string()]).arg(directory.events());
        plain.push(measured(|| {
            black_box(tail.output().expect("tail runs"));
        }));
        ours.push(measured(|| {
            let reader = Reader::open(directory).expect("a file").expect("a journal");
            let page = reader.page(None, PAGE).expect("a page");
            last = page.lines.last().map_or(0, |line| line.seq);
        }));
    }
    let what = format!("the newest {PAGE} of {last} events (beside tail)");
    Row { what, steps: None, git: plain, ours, other: None }
}

/// Folds events of record, half of them about a node's summary, half about its usage.
fn fold(sizes: &Sizes, path: &Path, state: &State, node: NodeId) -> Row {
    let run = state.run.id;
    let mut file = std::io::BufWriter::new(File::create(path).expect("a file"));
    for number in 0..sizes.events {
        let envelope = format!(
            r#"{{"seq":{},"commit":"{:040}","id":"{}","runId":"{run}","ts":"2026-01-01T00:00:00.000Z","nodeId":"{node}","by":{{"node":{{"node":"{node}","runner":"host"}}}}"#,
            number + 1,
            number,
            OpId::random()
        );
        let body = match number % 2 {
            0 => format!(r#""type":"node.patch","patch":{{"summary":"step {number} of many"}}"#),
            _ => r#""type":"telemetry.usage","provider":"custom","usage":{"promptTokens":1000,"completionTokens":90,"totalTokens":1090}"#.to_owned(),
        };
        writeln!(file, "{envelope},{body}}}").expect("it can");
    }
    file.flush().expect("it can");
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let mut count = 0;
        plain.push(measured(|| each_line(path, |line| count += usize::from(line.ends_with(b"}")))));
        assert_eq!(count, sizes.events);
        let mut folded = state.clone();
        ours.push(measured(|| {
            each_line(path, |line| {
                let event = Event::parse(line).expect("an event");
                folded.apply(&event).expect("it fits");
            });
        }));
        assert!(folded != *state);
    }
    let what = format!("{} events folded into a state (beside reading the lines)", sizes.events);
    Row { what, steps: None, git: plain, ours, other: Some(super::as_float(sizes.events)) }
}

fn each_line(path: &Path, mut each: impl FnMut(&[u8])) {
    let mut file = Followed::open(path).expect("a file");
    while let News::Bytes(bytes) = file.lines().expect("it can be read") {
        bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(&mut each);
    }
}

fn delta(run: RunId, node: NodeId, number: usize) -> Vec<u8> {
    format!(
        r#"{{"id":"{}","runId":"{run}","ts":"2026-01-01T00:00:00.000Z","type":"message.assistant.delta","nodeId":"{node}","delta":"a few words of an answer, part {number}"}}"#,
        OpId::random()
    )
    .into_bytes()
}
