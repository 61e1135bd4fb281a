//! Workspaces on a large tree, compared with the git commands for the same.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::measure::{Sample, measure};
use super::room::Room;
use super::{Row, Sizes};

/// How many files are changed before a snapshot, and before a rollback.
const CHANGES: usize = 50;

/// How long the old directory of a rollback may take to go.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is measured, in this order.
const WHATS: [&str; 3] = ["workspace create", "workspace snapshot", "workspace rollback"];

/// The samples of one round.
type Round = [Sample; WHATS.len()];

/// Making a workspace, a snapshot of it and its rollback.
pub(super) fn cases(sizes: &Sizes) -> Vec<Row> {
    let mut room = Room::new();
    let template = room.repository("template", sizes.workspace_files, &[], None);
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for round in 0..sizes.rounds {
        let copy = room.copy(&template);
        let place = room.path(&format!("plain{round}"));
        git.push(match &sizes.beside {
            Some(other) => by_aynig(&room, other, &copy, &place),
            None => by_git(&room, &copy, &place),
        });
        let copy = room.copy(&template);
        let place = room.path(&format!("own{round}"));
        ours.push(by_aynig(&room, Path::new(env!("CARGO_BIN_EXE_aynig")), &copy, &place));
    }
    let row = |(at, what): (usize, &&str)| {
        let of = |rounds: &[Round]| rounds.iter().map(|round| round[at].clone()).collect();
        let what = format!("{what}, {} files", sizes.workspace_files);
        Row { what, steps: None, git: of(&git), ours: of(&ours), other: None }
    };
    WHATS.iter().enumerate().map(row).collect()
}

/// Changes some files, and adds one.
fn change(worktree: &Path, word: &str) {
    std::fs::write(worktree.join(format!("new-{word}")), word).expect("a file");
    for directory in std::fs::read_dir(worktree).expect("a worktree").flatten().take(CHANGES) {
        let file = directory.path().join("file0");
        if file.is_file() {
            std::fs::write(file, word).expect("a file");
        }
    }
}

fn by_git(room: &Room, repository: &Path, place: &Path) -> Round {
    let worktree = place.join("work");
    let shown = worktree.display();
    let sh = |script: String| {
        let mut command = room.program("sh", repository);
        command.args(["-euc", &script]);
        measure(&mut command)
    };
    std::fs::create_dir(place).expect("a directory");
    let create = sh(format!("git worktree add --quiet -b work '{shown}' main"));
    change(&worktree, "one");
    let snapshot = sh(format!("git -C '{shown}' add -A && git -C '{shown}' commit --quiet -m one"));
    change(&worktree, "two");
    let rollback = sh(format!(
        "git worktree remove --force '{shown}' && git worktree add --quiet -B work '{shown}' main"
    ));
    [create, snapshot, rollback]
}

fn by_aynig(room: &Room, program: &Path, repository: &Path, place: &Path) -> Round {
    room.git(repository, &["config", "aynig.workspaceRoot", &place.display().to_string()], "");
    let call = |arguments: &[&str]| {
        let mut command = room.program(program, repository);
        command.arg("workspace").args(arguments);
        measure(&mut command)
    };
    let create = call(&["create", "work"]);
    let below = |directory: &Path| -> PathBuf {
        let mut entries = std::fs::read_dir(directory).expect("a directory").flatten();
        entries.next().expect("an entry").path()
    };
    let run = below(place);
    let slug = run.file_name().expect("a slug").to_string_lossy().into_owned();
    let worktree = run.join("work");
    change(&worktree, "one");
    let snapshot = call(&["snapshot", &slug]);
    change(&worktree, "two");
    let rollback = call(&["rollback", &slug]);
    // The old directory is removed in the background, which is not to slow the next one.
    let begun = Instant::now();
    while std::fs::read_dir(&run).expect("a directory").count() > 1 {
        assert!(begun.elapsed() < PATIENCE, "{} is not emptied", run.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    [create, snapshot, rollback]
}
