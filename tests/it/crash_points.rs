//! A runner killed between any two of its effects: an ordinary pass after its lease ends the step, and nothing is lost,
//! repeated or left behind (CONTRACT 8.1 to 8.4).
//!
//! Every crash point of a debug build has its cases here; a point without one does not compile. Later runners
//! read a clock that is ahead, so that the dead runner's lease has expired for them.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Mutex;

use aynig::crashpoint::Point;
use nix::sys::signal::Signal;

use super::judge::{Law, judge};
use super::scene::*;
use super::support::*;

/// Longer than any of these tests: none waits for its end.
const LEASE: &str = "30";

/// How far ahead the clock of a later runner is, for each runner killed before it.
const LATER: u64 = 40;

/// Leaves work of every kind, and notes its beginning and its end.
const WORK: &str = r#"
note() { echo "$1 $AYNIG_RUN_ID $AYNIG_BRANCH $COMMIT_HASH $(date +%s%3N) $$" >>"$ROOM/journal"; }
note began
echo own >own.txt; git add own.txt; git commit -q -m 'own work'
echo staged >staged.txt; git add staged.txt
echo changed >>README
echo loose >loose.txt
note made
"#;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// It declares the next state.
    Well,
    /// It exits with 3.
    Badly,
    /// It waits until it is stopped.
    Never,
    /// Its runner is told to stop. The next time it declares the next state.
    Stopped,
    /// Somebody cancels it.
    Cancelled,
    /// Somebody cancels it and asks again. The next time it declares the next state.
    Requeued,
}

/// The history before the runner with the crash point starts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    /// Another runner was killed while its command ran.
    MidCommand,
    /// Another runner was killed after its result had landed.
    Landed,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    ends: Ends,
    before: Before,
    /// Which visit of the point.
    visit: u32,
    /// The declared states in the end and their authors; without the command's commits, renewals counted
    /// once.
    states: &'static [&'static str],
}

const DONE: &[&str] = &["work", "working", "done"];
const AGAIN: &[&str] = &["work", "working", "work", "working", "done"];
const STALLED: &[&str] = &["work", "working", "stalled"];

const fn case(ends: Ends, states: &'static [&'static str]) -> Case {
    Case { ends, before: Before::Nothing, visit: 1, states }
}

const fn after(before: Before, ends: Ends, states: &'static [&'static str]) -> Case {
    Case { before, ..case(ends, states) }
}

/// A recovery of the lease of a killed runner.
const RECOVERY: Case = after(Before::MidCommand, Ends::Never, STALLED);

fn cases(point: Point) -> Vec<Case> {
    let well = |states| case(Ends::Well, states);
    let badly = case(Ends::Badly, STALLED);
    let stopped = |states| case(Ends::Stopped, states);
    let cancelled = case(Ends::Cancelled, STALLED);
    let requeued = |states| case(Ends::Requeued, states);
    match point {
        // These can be any of several refs or files: see the tests below.
        Point::RefLocked | Point::FileDrafted => vec![],
        // A step writes into no ledger: see `ledger`.
        Point::LedgerWritten | Point::LedgerPushed => vec![],
        // See `flow_engine::crashes` and `flow_engine::interrupted`.
        Point::InterruptedRecorded | Point::AgentStarts | Point::AgentEnded => vec![],
        Point::StepDecided | Point::StepEnded => vec![],
        // See `graphs::approvals`.
        Point::AnswerHeard => vec![],
        Point::JournalWritten | Point::ContentProjected | Point::JournalRetiring => vec![],
        // A step delivers nothing: see `deferred`.
        Point::RefsDecided | Point::RefsHalfMoved | Point::DeliveryWritten => vec![],
        // Threads panic at these: see `panics`. A kill there leaves nothing behind.
        Point::CommandWatched | Point::PushBegun | Point::NoticeTaken => vec![],
        // These need a large repository: see `pool`.
        Point::PoolMarked
        | Point::PoolRelinked
        | Point::PoolShelved
        | Point::PoolTaken
        | Point::PoolRefilled => vec![],
        // See `workspace::crashes`.
        Point::WorkspaceNoted | Point::WorkspaceBranched | Point::WorkspaceMade | Point::WorkspaceUnmade => {
            vec![]
        }
        Point::SnapshotWritten
        | Point::HeadLogged
        | Point::SnapshotMoved
        | Point::RollbackNoted
        | Point::HalfMadeAside
        | Point::RollbackGone
        | Point::RollbackAside => vec![],
        Point::RollbackUnregistered | Point::RollbackMoved | Point::RollbackAdded => vec![],
        Point::IgnoredMoved | Point::IgnoredCarried => vec![],
        Point::RollbackDone | Point::WorkspaceUnheard | Point::WorkspaceHeard => vec![],
        Point::RemovalNoted | Point::RemovalArchived | Point::RemovalUnregistered => vec![],
        Point::RemovalUnbranched | Point::RemovalRecorded => vec![],
        // See `publish::crashes`.
        Point::PublishNoted | Point::PublishPushed | Point::PublishProposed => vec![],
        // A step lands nothing on another branch: see `land_meanwhile`.
        Point::CheckoutCarried => vec![],
        // This needs work that cannot be saved: see `kept`.
        Point::KeptDetached => vec![],
        // The lease is an unreferenced object; the next runner claims normally.
        Point::LeaseWritten => vec![well(DONE)],
        Point::LeaseMoved
        | Point::WorktreeDrafted
        | Point::WorktreeRegistered
        | Point::WorktreeAdded
        | Point::WorktreeFilled
        | Point::FilesPrepared
        | Point::CommandStarted => vec![well(STALLED)],
        Point::RenewalWritten | Point::RenewalMoved => vec![case(Ends::Never, STALLED)],
        Point::CommandEnded | Point::ResultWritten => {
            vec![well(STALLED), badly, stopped(STALLED), cancelled, requeued(STALLED)]
        }
        Point::ResultMoved => vec![well(DONE), badly, stopped(AGAIN), cancelled, requeued(AGAIN)],
        Point::RescueWritten | Point::RescuePointed => {
            vec![well(DONE), badly, stopped(STALLED), cancelled, requeued(STALLED), RECOVERY]
        }
        Point::RemovalBegun | Point::RemovalHalfDone | Point::Unregistered | Point::RemovalDone => {
            vec![well(DONE), badly, stopped(AGAIN), cancelled, requeued(AGAIN), RECOVERY]
        }
        Point::StalledWritten | Point::StalledMoved => vec![RECOVERY],
        Point::AbandonedHeld => vec![after(Before::Landed, Ends::Well, DONE)],
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Decides {
    Repository,
    Remote,
}

/// One branch `task`, the host of the runners that die, and the host of the later ones.
struct Field {
    home: Repo,
    clones: Option<(Repo, Repo)>,
    ends: Ends,
    lease: &'static str,
    later: u64,
}

impl Field {
    fn new(decides: Decides, ends: Ends, lease: &'static str) -> Self {
        let end = match ends {
            Ends::Well => "note ended; next done",
            Ends::Badly => "note ended; exit 3",
            Ends::Never => "say at $$; await release",
            Ends::Stopped | Ends::Cancelled | Ends::Requeued => {
                r#"if [ -e "$ROOM/at" ]; then note ended; next done; else say at $$; await release; fi"#
            }
        };
        let home = Repo::scene(&[("work", &format!("{WORK}{end}"))]);
        home.ready("task", "work");
        // As `git gc` does from time to time.
        home.git(["pack-refs", "--all"]);
        let (home, clones) = match decides {
            Decides::Repository => (home, None),
            Decides::Remote => {
                let hub = home.into_bare();
                let clones = ["laptop", "desk"].map(|name| hub.clone_beside(name));
                let [laptop, desk] = clones;
                (hub, Some((laptop, desk)))
            }
        };
        Self { home, clones, ends, lease, later: 0 }
    }

    /// The host where the runner dies.
    fn host(&self) -> &Repo {
        self.clones.as_ref().map_or(&self.home, |(laptop, _)| laptop)
    }

    /// The host of the next runner.
    fn other(&self) -> &Repo {
        self.clones.as_ref().map_or(&self.home, |(_, desk)| desk)
    }

    fn start(&self, at: &Repo, crash: Option<&str>) -> Running {
        let mut command = at.aynig_command();
        command.args(["run", "--lease-seconds", self.lease]);
        if self.clones.is_some() {
            command.args(["--remote", "origin", "--skew-seconds", "0"]);
        }
        command.env("AYNIG_CLOCK_OFFSET_SECONDS", self.later.to_string());
        if let Some(crash) = crash {
            command.env("AYNIG_CRASH_AT", crash);
        }
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        Running::start(&mut command)
    }

    /// Starts a runner that has to die at `crash`. Later runners start after its lease.
    fn dies_at(&mut self, crash: &str) {
        let runner = self.start(self.host(), Some(crash));
        match self.ends {
            Ends::Well | Ends::Badly | Ends::Never => {}
            Ends::Stopped => {
                self.home.said("at");
                runner.signal(Signal::SIGTERM);
            }
            Ends::Cancelled => self.cancel(&[]),
            Ends::Requeued => self.cancel(&["--requeue"]),
        }
        let output = runner.finish();
        assert_eq!(output.status.signal(), Some(9), "it dies at {crash}: {}", told(&output));
        self.desert();
        self.later += LATER;
    }

    /// Asks the runner from another host to stop its command.
    fn cancel(&self, more: &[&str]) {
        self.home.said("at");
        let mut command = vec!["cancel", "task"];
        command.extend(more);
        if self.clones.is_some() {
            command.extend(["--remote", "origin"]);
        }
        self.other().aynig_ok(command);
    }

    /// Starts a runner and kills it while its command waits.
    fn dies_mid_command(&mut self) {
        let runner = self.start(self.host(), None);
        let command = self.home.said_pid("at");
        runner.signal(Signal::SIGKILL);
        assert_eq!(runner.finish().status.signal(), Some(9));
        command.gone();
        self.desert();
        self.later += LATER;
    }

    /// Waits for the end of the killed runner's command and its group, and of a git it had started.
    fn desert(&self) {
        for line in self.home.noted_lines("journal") {
            Process(line.split(' ').next_back().expect("a process id").parse().expect("a number")).gone();
        }
        self.host().deserted();
    }

    fn pass(&self, at: &Repo) -> String {
        let output = self.start(at, None).finish();
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", told(&output));
        told(&output)
    }

    /// Runs passes on the other host, and one on the runner's own.
    fn others_come(&self) -> String {
        let mut said = self.pass(self.other());
        // A recovered lease leaves a new state to run.
        said.push_str(&self.pass(self.other()));
        if self.clones.is_some() {
            said.push_str(&self.pass(self.host()));
        }
        said
    }

    fn states(&self) -> Vec<String> {
        let commits = self.home.linear("main..task");
        let mut states: Vec<String> = commits.iter().map(|commit| self.home.state(commit)).collect();
        states.retain(|state| !state.is_empty());
        states.dedup();
        states
    }

    /// Asserts that nothing is left over or lost, and that the history is one the contract allows.
    fn assert_whole(&self, what: &str) {
        for repo in [self.host(), self.other(), &self.home] {
            repo.assert_tidy();
            assert_eq!(leavings(repo), Vec::<PathBuf>::new(), "{what}: left behind");
        }
        let law = Law { remote: self.clones.is_some(), skew: 0, due: &["work"] };
        let violations = judge(&self.home, &law, &self.home.noted_lines("journal"));
        assert_eq!(violations, Vec::<String>::new(), "{what}");
        let made = self.home.noted_lines("journal").iter().filter(|line| line.starts_with("made ")).count();
        if made > 0 {
            for (path, text) in
                [("own.txt", "own"), ("staged.txt", "staged"), ("loose.txt", "loose"), ("README", "changed")]
            {
                assert!(self.is_kept(path, text), "{what}: {path} is lost");
            }
        }
        // And it stays that way.
        let heads = self.home.git(["for-each-ref", "refs/heads"]);
        let said = self.pass(self.other());
        assert_eq!(self.home.git(["for-each-ref", "refs/heads"]), heads, "{what}: {said}");
    }

    /// Whether a file with this last line is on the branch or on a rescue ref.
    fn is_kept(&self, path: &str, text: &str) -> bool {
        let held = |repo: &Repo, revision: &str| {
            let shown = repo.git_command().args(["show", &format!("{revision}:{path}")]).output();
            out(&shown.expect("git runs")).lines().next_back() == Some(text)
        };
        held(&self.home, "task")
            || [self.host(), self.other()].iter().any(|host| {
                host.rescues().iter().any(|rescue| held(host, rescue) || held(host, &format!("{rescue}^2")))
            })
    }
}

/// Leftovers of a runner: drafts and bodies in the directory of records, and anything but the ignore file
/// where worktrees are made.
fn leavings(repo: &Repo) -> Vec<PathBuf> {
    let git_dir = PathBuf::from(repo.git(["rev-parse", "--absolute-git-dir"]));
    let mut found = files_below(&git_dir.join("aynig"));
    found.retain(|path| path.extension().is_none_or(|extension| extension != "json"));
    let worktrees = repo.path.join(".worktrees");
    found.extend(files_below(&worktrees).into_iter().filter(|path| *path != worktrees.join(".gitignore")));
    let logs = files_below(&repo.path.join(".aynig/logs"));
    found.extend(logs.into_iter().filter(|path| path.to_string_lossy().contains("/.aynig-")));
    found
}

fn try_case(decides: Decides, point: Point, case: Case) {
    let what = format!("{decides:?} {} {case:?}", point.name());
    // A renewal must become due.
    let renews = matches!(point, Point::RenewalWritten | Point::RenewalMoved);
    let mut field = Field::new(decides, case.ends, if renews { "2" } else { LEASE });
    match case.before {
        Before::Nothing => {}
        Before::MidCommand => field.dies_mid_command(),
        Before::Landed => field.dies_at("result-moved"),
    }
    field.dies_at(&format!("{}:kill:{}", point.name(), case.visit));
    let said = field.others_come();
    assert_eq!(field.states(), case.states, "{what}: {said}");
    if case.ends == Ends::Cancelled {
        assert_eq!(field.home.trailer("task", "aynig-cancel"), "stall", "{what}: nothing starts it again");
    }
    let runs = field.home.noted_lines("journal").iter().filter(|line| line.starts_with("began ")).count();
    assert!(runs <= if case.states == AGAIN { 2 } else { 1 }, "{what}: the command ran {runs} times");
    field.assert_whole(&what);
}

/// Runs all cases, four at a time: most of a case is waiting for processes.
fn try_all(decides: Decides) {
    let all = Point::ALL.iter().flat_map(|point| cases(*point).into_iter().map(|case| (*point, case)));
    let ahead = Mutex::new(all);
    let next = || ahead.lock().expect("nobody panics here").next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((point, case)) = next() {
                    try_case(decides, point, case);
                }
            });
        }
    });
}

/// CONTRACT 5.24, 8.1, 8.2, 8.3, 8.4
#[test]
fn killed_at_each_point_of_a_step() {
    try_all(Decides::Repository);
}

/// CONTRACT 8.1, 8.3, 9.14
#[test]
fn killed_at_each_point_of_a_step_on_a_remote() {
    try_all(Decides::Remote);
}

/// Kills a runner at each visit of `point` in one step. Returns the number of visits.
fn each_visit(decides: Decides, point: Point, ends: Ends) -> u32 {
    for visit in 1.. {
        let mut field = Field::new(decides, ends, LEASE);
        let crash = format!("{}:kill:{visit}", point.name());
        let output = field.start(field.host(), Some(&crash)).finish();
        if output.status.code().is_some() {
            return visit - 1;
        }
        field.desert();
        field.later += LATER;
        let what = format!("{decides:?} {crash}");
        let said = field.others_come();
        let states = field.states();
        assert!(states == DONE || states == STALLED, "{what}: {states:?} {said}");
        field.assert_whole(&what);
    }
    unreachable!("a step comes to its end")
}

#[test]
fn killed_while_a_file_is_being_replaced() {
    let visits = each_visit(Decides::Repository, Point::FileDrafted, Ends::Well);
    assert!(visits >= 4, "a step replaces files: {visits}");
}

/// The last worktree of another runner takes the shared directory with it, and does not see a worktree that
/// has no files yet.
#[test]
fn killed_over_a_removal_before_the_place_goes() {
    for point in [Point::RemovalBegun, Point::RemovalHalfDone, Point::Unregistered, Point::RemovalDone] {
        for ends in [Ends::Well, Ends::Badly] {
            let mut field = Field::new(Decides::Repository, ends, LEASE);
            field.dies_at(point.name());
            let place = field.home.path.join(".worktrees");
            if place.exists() {
                std::fs::remove_dir_all(&place).expect("the directory is empty");
            }
            let said = field.others_come();
            assert!(!said.contains("could not"), "{}: {said}", point.name());
            field.assert_whole(point.name());
        }
    }
}

/// CONTRACT 5.24
#[test]
fn killed_while_a_ref_is_locked() {
    let visits = each_visit(Decides::Repository, Point::RefLocked, Ends::Well);
    assert!(visits >= 3, "lease, result, rescue: {visits}");
}

/// CONTRACT 5.24
#[test]
fn killed_while_a_ref_is_locked_that_is_fetched() {
    let visits = each_visit(Decides::Remote, Point::RefLocked, Ends::Badly);
    assert!(visits >= 3, "lease, rescue, result: {visits}");
}

/// CONTRACT 5.24
#[test]
fn a_lock_that_is_not_a_dead_runners_stays() {
    let mut field = Field::new(Decides::Repository, Ends::Well, LEASE);
    // The first ref that a runner moves is the branch it claims.
    field.dies_at("ref-locked");
    let lock = field.home.path.join(".git/refs/heads/task.lock");
    let theirs = std::fs::read_to_string(&lock).expect("it was left");
    assert_ne!(theirs, "");
    // A lock of another program, in the same place.
    std::fs::write(&lock, field.home.head("main")).expect("a file");
    let output = field.start(&field.home, None).finish();
    assert!(err(&output).contains(lock.to_str().expect("UTF-8")), "{}", told(&output));
    assert!(lock.exists());
    assert_eq!(field.home.state("task"), "work");
}
