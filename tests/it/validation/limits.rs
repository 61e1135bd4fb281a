//! Validators that hang, are silent, fork away, print without end, or are stopped.

use std::time::Instant;

use super::*;

/// CONTRACT 20.21
#[test]
fn time_limits_end_a_validator_and_the_step() {
    let room = Room::new();
    let run = "[{kind: builtin, name: hangs, timeout_seconds: 1}, lint]";
    let (validated, _) = room.validate(run, |setting| {
        setting.line("hangs", "sleep 60");
        setting.line("lint", "true");
    });
    assert_ended(&validated, Outcome::KilledTimeout);
    assert_eq!(validated.evidence, "1 of 2 validators failed: hangs took longer than 1 s and was ended");
    assert_eq!(check(&validated, "lint").outcome, Outcome::Completed);
    let (validated, evidence) = room.validate("[hangs, lint]", |setting| {
        setting.limit(Some(300), None);
        setting.line("hangs", "trap '' TERM; while :; do sleep 1; done");
        setting.line("lint", "true");
    });
    assert_ended(&validated, Outcome::KilledTimeout);
    assert_eq!(check(&validated, "lint").how, "was not run: the time of the step was over");
    assert_eq!(report(&evidence)["validators"][1]["exit_code"], serde_json::Value::Null);
}

/// CONTRACT 20.21
#[test]
fn silence_ends_a_validator_unless_it_changes_files() {
    let room = Room::new();
    for (script, outcome) in [
        ("sleep 60", Outcome::KilledIdle),
        ("for n in 1 2 3 4 5 6; do sleep 0.4; echo $n; done", Outcome::Completed),
        ("for n in 1 2 3 4 5 6; do sleep 0.4; echo $n >&2; done", Outcome::Completed),
        ("mkdir -p deep; for n in 1 2 3 4 5 6; do sleep 0.4; echo $n >deep/file; done", Outcome::Completed),
    ] {
        let (validated, _) = room.validate("[lint]", |setting| {
            setting.limit(None, Some(1500));
            setting.line("lint", script);
        });
        assert_ended(&validated, outcome);
    }
    let (validated, _) = room.validate("[lint]", |setting| {
        setting.limit(None, Some(300));
        setting.line("lint", "sleep 60");
    });
    assert_eq!(validated.evidence, "lint printed and changed nothing for 0.3 s and was ended");
}

/// CONTRACT 20.21
#[test]
fn nothing_outlives_a_validator() {
    let room = Room::new();
    let script = |end: &str| {
        format!(
            "setsid sh -c 'echo $$ >\"$0\"; exec sleep 60' \"$HOME/pid\" & \nwhile ! [ -s \"$HOME/pid\" ]; do sleep 0.01; done; {end}"
        )
    };
    std::fs::create_dir_all(room.repo.beside("home")).expect("a directory");
    for end in ["exit 0", "exit 1", "sleep 60"] {
        let start = Instant::now();
        let (validated, _) = room.validate("[lint]", |setting| {
            setting.limit(Some(2000), None);
            setting.line("lint", &script(end));
        });
        let pid: i32 = read(&room.repo.beside("home"), "pid").trim().parse().expect("a process id");
        assert!(!is_alive(pid), "{end}: {}", validated.evidence);
        assert!(start.elapsed() < Duration::from_secs(30));
        std::fs::remove_file(room.repo.beside("home/pid")).expect("there");
    }
}

/// CONTRACT 20.21
#[test]
fn output_without_end_is_bounded() {
    let room = Room::new();
    let bytes = sized(100, 400) * 1_000_000_u64;
    let (validated, evidence) = room.validate("[lint]", |setting| {
        setting.line("lint", &format!("head -c {bytes} /dev/zero | tr '\\000' x; echo; echo the last line"));
    });
    assert_ended(&validated, Outcome::Completed);
    let text = std::fs::read(evidence.join("validation_stdout-01-lint.txt")).expect("there");
    assert!(text.len() < 17 * 1024 * 1024, "{}", text.len());
    assert!(text.ends_with(b"x\nthe last line\n"));
    let dropped = b" bytes are left out here]";
    assert!(text.windows(dropped.len()).any(|window| window == dropped));
}

/// CONTRACT 20.16
#[test]
fn a_stop_ends_the_step_and_the_worktree_is_put_back() {
    let room = Room::new();
    let begun = room.repo.beside("begun");
    let (validated, _) = std::thread::scope(|scope| {
        let stop = Stop::manual();
        let (trip, file) = (stop.clone(), begun.clone());
        scope.spawn(move || {
            wait_for_file(&file);
            trip.panicked();
        });
        room.validate("[lint, other]", |setting| {
            setting.stop = stop;
            setting.line("lint", &format!("echo x >left; echo 1 >'{}'; sleep 60", begun.display()));
            setting.line("other", "echo x >other");
        })
    });
    assert_eq!(validated.end, End::Stopped);
    assert_eq!(validated.checks.len(), 1);
    assert_eq!(room.status(), "");
}
