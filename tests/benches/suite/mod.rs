//! The cases and their table. Shared by `cargo bench` and by the test that checks that they work.
//!
//! Plain git (or another build of `aynig`, `AYNIG_BENCH_BESIDE`) and `aynig` run every case in turns, for
//! several rounds. The ratios are medians of each round's ratio, so a machine that is slow for a while
//! affects both alike.

mod flows;
pub(crate) mod goals;
mod graphs;
mod growth;
mod idle;
mod journals;
mod ledgers;
pub(crate) mod made;
mod measure;
mod room;
mod serve;
mod steps;
mod workspace;

use std::path::PathBuf;

use measure::{Sample, median};

/// How large the cases are.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    /// Branches of an idle pass (`AYNIG_BENCH_BRANCHES`).
    pub branches: usize,
    /// Trivial steps in one repository (`AYNIG_BENCH_STEPS`).
    pub steps: usize,
    /// Steps on branches of a remote (`AYNIG_BENCH_REMOTE_STEPS`).
    pub remote_steps: usize,
    /// Additional time of each connection to the far remote, in milliseconds (`AYNIG_BENCH_DELAY_MS`).
    pub delay_ms: usize,
    /// Files of the large repository (`AYNIG_BENCH_FILES`).
    pub files: usize,
    /// Steps in it after the first (`AYNIG_BENCH_LATER_STEPS`).
    pub later_steps: usize,
    /// Turns on a ledger (`AYNIG_BENCH_TURNS`).
    pub turns: usize,
    /// The arguments that make this program a writer on a ledger.
    pub worker: Vec<String>,
    /// Events of a journal (`AYNIG_BENCH_EVENTS`).
    pub events: usize,
    /// Steps of a flow (`AYNIG_BENCH_FLOW_STEPS`).
    pub flow_steps: usize,
    /// Refs of the hub of a flow (`AYNIG_BENCH_HUB_REFS`).
    pub hub_refs: usize,
    /// Nodes of a graph (`AYNIG_BENCH_NODES`).
    pub nodes: usize,
    /// Runs of the repository that has many (`AYNIG_BENCH_RUNS`).
    pub runs: usize,
    /// Clients of a server (`AYNIG_BENCH_CLIENTS`).
    pub clients: usize,
    /// Commands at once (`AYNIG_BENCH_JOBS`).
    pub jobs: usize,
    /// Files of a workspace (`AYNIG_BENCH_WORKSPACE_FILES`).
    pub workspace_files: usize,
    /// Rounds (`AYNIG_BENCH_ROUNDS`).
    pub rounds: usize,
    /// Another build of `aynig` to measure instead of git (`AYNIG_BENCH_BESIDE`).
    pub beside: Option<PathBuf>,
}

impl Sizes {
    /// The sizes of the tables in `contrib/docs/performance.md`, or what the environment says.
    pub(super) fn from_environment() -> Self {
        let size = |name: &str, usual: usize| {
            let value = std::env::var(format!("AYNIG_BENCH_{name}")).ok();
            value
                .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("AYNIG_BENCH_{name}: {text:?}")))
        };
        Self {
            branches: size("BRANCHES", 10_000),
            steps: size("STEPS", 1_000),
            remote_steps: size("REMOTE_STEPS", 200),
            delay_ms: size("DELAY_MS", 50),
            files: size("FILES", 50_000),
            later_steps: size("LATER_STEPS", 5),
            turns: size("TURNS", 1_000),
            worker: Vec::new(),
            events: size("EVENTS", 1_000_000),
            flow_steps: size("FLOW_STEPS", 40),
            hub_refs: size("HUB_REFS", 1_000),
            nodes: size("NODES", 50),
            runs: size("RUNS", 1_000),
            clients: size("CLIENTS", 50),
            jobs: size("JOBS", 4),
            workspace_files: size("WORKSPACE_FILES", 20_000),
            rounds: size("ROUNDS", 5),
            beside: std::env::var_os("AYNIG_BENCH_BESIDE").map(PathBuf::from),
        }
    }
}

/// One row of the table before it is formatted.
struct Row {
    what: String,
    /// Number of steps that divides the times; `None` for a pass.
    steps: Option<usize>,
    git: Vec<Sample>,
    ours: Vec<Sample>,
    /// Another number of the case, which a goal is about.
    other: Option<f64>,
}

/// Measures one case.
type Case = fn(&Sizes) -> Vec<Row>;

/// Selects one of the numbers of a sample.
type Pick = fn(&Sample) -> f64;

/// The lines above the table's rows.
pub(super) fn head(sizes: &Sizes) -> String {
    let other = if sizes.beside.is_some() { "other aynig" } else { "git" };
    format!(
        "{} rounds, {} commands at once; times in milliseconds\n\n\
         | case | {other} | aynig | ratio | {other}, CPU | aynig, CPU | ratio | aynig, peak | connections {other} / aynig |\n\
         |---|---|---|---|---|---|---|---|---|",
        sizes.rounds, sizes.jobs
    )
}

/// Writes into a ledger if this process was started for that. Returns whether it was.
pub(super) fn is_worker() -> bool {
    ledgers::work()
}

/// Runs the cases whose names contain one of `wanted`, or all if it is empty. Passes each row to `tell` once
/// it is known, and returns the rows of the goals that they are held against.
pub(super) fn run(sizes: &Sizes, wanted: &[String], tell: &mut dyn FnMut(String)) -> Vec<String> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let cases: [(&str, Case); 13] = [
        ("idle-unmanaged", |sizes| vec![idle::case(sizes, None)]),
        ("idle-no-command", |sizes| vec![idle::case(sizes, Some("parked"))]),
        ("local-steps", |sizes| vec![steps::local(sizes)]),
        ("remote-steps", |sizes| vec![steps::remote(sizes, 0)]),
        ("far-remote-steps", |sizes| vec![steps::remote(sizes, sizes.delay_ms)]),
        ("large", steps::large),
        ("workspace", workspace::cases),
        ("ledgers", ledgers::cases),
        ("journals", journals::cases),
        ("flows", flows::cases),
        ("graphs", graphs::cases),
        ("serve", serve::cases),
        ("growth", growth::cases),
    ];
    let mut held = Vec::new();
    for (_, case) in cases.iter().filter(|(name, _)| is_wanted(name)) {
        for row in case(sizes) {
            tell(row.text(sizes.beside.is_some()));
            held.extend(goals::lines(&row));
        }
    }
    held
}

impl Row {
    fn text(&self, peaks: bool) -> String {
        let of = |samples: &[Sample], pick: Pick| median(samples.iter().map(pick));
        let ratio = |pick: Pick| match median(
            self.git.iter().zip(&self.ours).map(|(git, ours)| pick(ours) / pick(git)),
        ) {
            ratio if ratio.is_nan() => "–".to_owned(),
            ratio => format!("**{ratio:.2}**"),
        };
        let each = self.steps.map_or(1.0, as_float);
        let time = |samples: &[Sample], pick: Pick| {
            let time = of(samples, pick) / each;
            if time.is_nan() {
                return "–".to_owned();
            }
            if time < 100.0 { format!("{time:.1}") } else { format!("{time:.0}") }
        };
        let wall: Pick = |it| it.wall_ms;
        let cpu: Pick = |it| it.cpu_ms;
        let peak_of = |samples: &[Sample]| samples.iter().map(|it| it.peak_kib).max().unwrap_or(0) / 1024;
        let mut peak = format!("{} MiB", peak_of(&self.ours));
        if peaks {
            peak = format!("{} / {peak}", peak_of(&self.git));
        }
        let connections = |samples: &[Sample]| samples.first().and_then(|it| it.connections);
        let connections = match (connections(&self.git), connections(&self.ours)) {
            (Some(git), Some(ours)) => format!("{git} / {ours}"),
            _ => "–".to_owned(),
        };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {peak} | {connections} |",
            self.what,
            time(&self.git, wall),
            time(&self.ours, wall),
            ratio(wall),
            time(&self.git, cpu),
            time(&self.ours, cpu),
            ratio(cpu),
        )
    }
}

/// A small number as a float.
fn as_float(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}
