//! Steps whose command does nothing, compared with a shell loop over equivalent git commands.

use std::path::{Path, PathBuf};

use super::measure::{Sample, measure};
use super::room::Room;
use super::{Row, Sizes};

/// Steps in a repository of one file.
pub(super) fn local(sizes: &Sizes) -> Row {
    let mut room = Room::new();
    let branches = names(sizes.steps);
    let template = room.repository("template", 0, &branches, Some("work"));
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let copy = room.copy(&template);
        let jobs = sizes.jobs.to_string();
        let arguments = ["run", "--drain", "--jobs", &jobs];
        git.push(match room.other(sizes, &copy, &arguments) {
            Some(mut other) => measure(&mut other),
            None => plainly(&room, &copy, &branches, sizes.jobs),
        });
        ended(&room, &copy, &branches);
        let copy = room.copy(&template);
        ours.push(measure(&mut room.aynig(&copy, &arguments)));
        ended(&room, &copy, &branches);
    }
    let what = format!("{} trivial steps, each", sizes.steps);
    Row { what, steps: Some(sizes.steps), git, ours, other: None }
}

/// Steps on branches of a remote, with `delay_ms` added to each connection.
pub(super) fn remote(sizes: &Sizes, delay_ms: usize) -> Row {
    let mut room = Room::new();
    let branches = names(sizes.remote_steps);
    std::fs::create_dir(room.path("template")).expect("a directory");
    let hub = room.repository("template/hub.git", 0, &branches, Some("work"));
    let clone = room.path("template/clone.git");
    // Both sides already have the branches: the first fetch of a clone is not measured.
    let own = "refs/aynig/remotes/origin";
    room.git(&room.path("template"), &["clone", "--quiet", "--bare", "hub.git", "clone.git"], "");
    let refs =
        room.git(&clone, &["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads"], "");
    let known: String = refs
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(id, branch)| {
            format!("create {own}/{branch} {id}\ncreate refs/remotes/origin/{branch} {id}\ndelete refs/heads/{branch}\n")
        })
        .collect();
    room.git(&clone, &["update-ref", "--no-deref", "--stdin"], &known);
    room.git(&clone, &["pack-refs", "--all"], "");
    for (key, value) in [("user.name", "Bench"), ("user.email", "bench@example.com")] {
        room.git(&clone, &["config", key, value], "");
    }
    room.git(&clone, &["config", "remote.origin.url", &hub.display().to_string()], "");
    let (mut git, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        for plain in [true, false] {
            let place = room.copy(&room.path("template"));
            let (hub, clone) = (place.join("hub.git"), place.join("clone.git"));
            room.git(&clone, &["config", "remote.origin.url", "../hub.git"], "");
            let calls = counted(&room, &clone, &place, delay_ms);
            let jobs = sizes.jobs.to_string();
            let arguments = ["run", "--remote", "origin", "--drain", "--jobs", &jobs];
            let mut sample = match room.other(sizes, &clone, &arguments) {
                Some(mut other) if plain => measure(&mut other),
                None if plain => plainly(&room, &clone, &branches, sizes.jobs),
                _ => measure(&mut room.aynig(&clone, &arguments)),
            };
            ended(&room, &hub, &branches);
            sample.connections =
                Some(std::fs::read_to_string(calls).expect("it was talked to").lines().count());
            if plain { git.push(sample) } else { ours.push(sample) }
        }
    }
    let what = match delay_ms {
        0 => format!("{} steps on a remote, each", sizes.remote_steps),
        _ => format!("{} steps on a remote with {delay_ms} ms a connection, each", sizes.remote_steps),
    };
    Row { what, steps: Some(sizes.remote_steps), git, ours, other: None }
}

/// The first step in a large repository, and later ones: one round, aynig first. Ext4 skips recently deleted
/// inodes one by one, so creating files after deletions is slow; aynig deletes none.
pub(super) fn large(sizes: &Sizes) -> Vec<Row> {
    let mut room = Room::new();
    let branches = names(sizes.later_steps + 1);
    let template = room.repository("template", sizes.files, &branches, Some("work"));
    let (first, later) = branches.split_at(1);
    let copy = room.copy(&template);
    let ours = [
        measure(&mut room.aynig(&copy, &["run", "--branch", &first[0]])),
        measure(&mut room.aynig(&copy, &["run"])),
    ];
    ended(&room, &copy, &branches);
    let copy = room.copy(&template);
    let git = match room.other(sizes, &copy, &["run", "--branch", &first[0]]) {
        Some(mut other) => {
            let first = measure(&mut other);
            let later = room.other(sizes, &copy, &["run"]).map(|mut other| measure(&mut other));
            [first, later.expect("as the first")]
        }
        None => [plainly(&room, &copy, first, 1), plainly(&room, &copy, later, 1)],
    };
    ended(&room, &copy, &branches);
    let whats = [
        format!("first step on {} files", sizes.files),
        format!("{} later steps on {} files, each", later.len(), sizes.files),
    ];
    let steps = [None, Some(later.len())];
    let samples = git.into_iter().zip(ours);
    let rows = whats.into_iter().zip(steps).zip(samples);
    rows.map(|((what, steps), (git, ours))| Row {
        what,
        steps,
        git: vec![git],
        ours: vec![ours],
        other: None,
    })
    .collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("s{n}")).collect()
}

/// The steps by a shell loop.
fn plainly(room: &Room, repository: &Path, branches: &[String], jobs: usize) -> Sample {
    let list = room.path("branches");
    std::fs::write(&list, branches.join("\n")).expect("a file");
    let mut shell = room.program("sh", repository);
    let refs = room.git(repository, &["config", "--default", "", "--get", "remote.origin.url"], "");
    if !refs.is_empty() {
        shell.env("REMOTE", "origin");
    }
    let prepare =
        if refs.is_empty() { "" } else { "git fetch --quiet origin '+refs/heads/*:refs/remotes/origin/*'\n" };
    let script = format!(
        "{prepare}exec xargs -a '{}' -n 1 -P {jobs} '{}'",
        list.display(),
        room.path("plain-step").display()
    );
    measure(shell.args(["-ec", &script]))
}

/// Makes the programs at the other end log each connection, and delay it.
pub(super) fn counted(room: &Room, clone: &Path, place: &Path, delay_ms: usize) -> PathBuf {
    let calls = place.join("calls");
    let pause = if delay_ms == 0 {
        String::new()
    } else {
        format!("sleep {}.{:03}\n", delay_ms / 1000, delay_ms % 1000)
    };
    for (key, program) in [("uploadpack", "git-upload-pack"), ("receivepack", "git-receive-pack")] {
        let text =
            format!("#!/bin/sh\necho {program} >>'{}'\n{pause}exec {program} \"$@\"\n", calls.display());
        let script = room.script(&format!("{key}-{delay_ms}"), &text);
        room.git(clone, &["config", &format!("remote.origin.{key}"), &script.display().to_string()], "");
    }
    calls
}

/// Checks that the work was done.
fn ended(room: &Room, repository: &Path, branches: &[String]) {
    let listing = room.git(
        repository,
        &["for-each-ref", "--format=%(refname:lstrip=2) %(contents:subject)", "refs/heads"],
        "",
    );
    let ended = listing.lines().filter(|line| line.ends_with(" chore: set done")).count();
    assert_eq!(ended, branches.len(), "{listing}");
}
