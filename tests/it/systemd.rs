//! The units in `contrib/systemd/`: systemd accepts them, and a manager runs them as their comments say.
//!
//! The manager is a real user manager in its own namespaces. One script drives everything, because the
//! processes in those namespaces end with it. It reports in lines that the test reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::guides::{document, section};
use super::programs::{program, shipped};
use super::support::*;

const UNITS: [&str; 5] =
    ["aynig@.service", "aynig@.timer", "aynig-watch@.service", "aynig-role@.service", "aynig-serve@.service"];

/// The same units as instances.
const INSTANCES: [&str; 5] = [
    "aynig@srv-project.service",
    "aynig@srv-project.timer",
    "aynig-watch@srv-project.service",
    "aynig-role@reviewer.service",
    "aynig-serve@srv-project.service",
];

fn units(of: &str) -> PathBuf {
    shipped("contrib/systemd").join(of)
}

fn unit(of: &str, name: &str) -> String {
    fs::read_to_string(units(of).join(name)).expect("a unit")
}

/// The settings of a unit, without comments.
fn settings(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn systemd_finds_nothing_to_complain_of() {
    let Some(analyze) = program("systemd-analyze") else { return };
    let room = tempfile::tempdir().expect("a directory");
    // systemd looks up the man pages that the units name.
    symlink(shipped("man/man1"), room.path().join("man1")).expect("a link");
    for (of, option) in [("system", "--system"), ("user", "--user")] {
        let place = room.path().join(of);
        fs::create_dir(&place).expect("a directory");
        for name in UNITS {
            // The path where packages install the program.
            let text =
                unit(of, name).replace("ExecStart=aynig ", &format!("ExecStart={} ", binary().display()));
            fs::write(place.join(name), text).expect("a file");
        }
        let mut verify = Command::new(&analyze);
        verify.args([option, "verify"]).args(INSTANCES.map(|name| place.join(name)));
        verify.env("MANPATH", room.path()).env("XDG_RUNTIME_DIR", room.path()).env("LC_ALL", "C");
        let output = verify.output().expect("systemd-analyze runs");
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""), "{of}: {}", out(&output));
    }
}

#[test]
fn the_units_of_both_managers_differ_only_where_they_must() {
    const OF_THE_SYSTEM: [&str; 12] = [
        "Wants=network-online.target",
        "After=network-online.target time-sync.target",
        "User=aynig",
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "ProtectSystem=full",
        "ProtectControlGroups=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "ProtectClock=yes",
        "WantedBy=multi-user.target",
    ];
    const OF_A_USER: [&str; 2] = [
        "ExecSearchPath=%h/.cargo/bin:%h/.local/bin:/usr/local/bin:/usr/bin:/bin",
        "WantedBy=default.target",
    ];
    for name in UNITS {
        let (system, user) = (unit("system", name), unit("user", name));
        let common = |text, own: &[&str]| -> Vec<String> {
            settings(text).into_iter().filter(|line| !own.contains(line)).map(str::to_owned).collect()
        };
        assert_eq!(common(&system, &OF_THE_SYSTEM), common(&user, &OF_A_USER), "{name}");
    }
}

/// The promise of the documents holds: systemd waits longer than the runner takes to stop.
#[test]
fn systemd_waits_longer_than_a_runner_takes_to_stop() {
    for of in ["system", "user"] {
        for name in UNITS.iter().filter(|name| name.ends_with(".service")) {
            let text = unit(of, name);
            for line in
                ["KillMode=mixed", "TimeoutStopSec=3min", "OOMPolicy=continue", "SuccessExitStatus=1 143"]
            {
                assert!(settings(&text).contains(&line), "{of}/{name}: {line}");
            }
        }
    }
}

/// Namespaces for a manager: as root, or with root mapped to the user.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to see it")]
fn name_spaces() -> Option<Vec<&'static str>> {
    for wrapper in [vec!["unshare"], vec!["unshare", "--map-root-user"]] {
        let wrapper = [wrapper, vec!["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]].concat();
        let tried = Command::new(wrapper[0])
            .args(&wrapper[1..])
            .args(["mount", "-t", "tmpfs", "none", "/run"])
            .output();
        if tried.is_ok_and(|output| output.status.success()) {
            return Some(wrapper);
        }
    }
    eprintln!("skipped: no name spaces can be made here");
    None
}

/// Starts the manager and waits until it answers; `sctl` calls systemctl. `found NAME TEXT` reports to the
/// test, `holds WHAT COMMAND…` waits for a command to succeed: for two intervals of the units, since a pass comes an
/// interval later where the system has no notifications left.
const MANAGER: &str = r#"
set -u
mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/user/0 && chmod 700 /run/user/0
export XDG_RUNTIME_DIR=/run/user/0 LC_ALL=C
unset DBUS_SESSION_BUS_ADDRESS NOTIFY_SOCKET INVOCATION_ID JOURNAL_STREAM
# Control groups of its own, where that is allowed, since others are in the one we come from.
for group in $GROUPS_OF_ITS_OWN; do
    mkdir "$group" && echo $$ > "$group/cgroup.procs"
done 2>/dev/null
"$SYSTEMD" --user --unit=basic.target --log-target=console --log-level=warning 2>"$ROOM/manager.log" &
manager=$!
sctl() { systemctl --user "$@"; }
found() { printf '%s: %s\n' "$1" "$2"; }
holds() {
    what=$1; shift; tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1)); [ "$tries" -lt 1200 ] || { found gave-up "$what"; break; }
        sleep 0.1
    done
}
is_state() { git -C "$REPO" log -1 --format='%(trailers:key=dwp-state,valueonly)' "$1" | grep -qx "$2"; }
is_active() { [ "$(sctl show --property ActiveState --value "$1")" = "$2" ]; }
# Asks for STATE on a new branch.
ask() { git -C "$REPO" branch "$1" main && "$AYNIG" -C "$REPO" set-state --branch "$1" --state "$2" >/dev/null; }
holds "the manager to answer" sctl show-environment
"#;

/// A repository whose path needs escaping, with the manager's configuration beside it, and the output of the
/// manager's script.
fn managed(script: &str) -> Option<(Repo, String)> {
    let systemd = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"].map(Path::new);
    program("systemd-analyze")?;
    let systemd = systemd.into_iter().find(|file| file.is_file())?;
    let wrapper = name_spaces()?;
    let mut repo = Repo::scene(&[
        ("note", r#"say "$AYNIG_BRANCH" "${ROLE:-none}"; next done"#),
        ("review", r#"say "$AYNIG_BRANCH" "${ROLE:-none}"; next done"#),
        ("fail", "exit 1"),
        ("wait", "say waiting yes; echo half > half; git add half; await never"),
    ]);
    let path = repo.beside("a repo-with_odd ä");
    fs::rename(&repo.path, &path).expect("renamed");
    repo.path = path;
    // Commands find the room by its earlier path, which is the same directory.
    let home = repo.beside(".config/systemd/user");
    fs::create_dir_all(&home).expect("directories");
    fs::create_dir_all(repo.beside(".config/aynig")).expect("directories");
    fs::create_dir_all(repo.beside("bin")).expect("directories");
    symlink(binary(), repo.beside("bin/aynig")).expect("a link");
    let path = std::env::var("PATH").expect("a PATH");
    for name in UNITS {
        fs::copy(units("user").join(name), home.join(name)).expect("copied");
        if name.ends_with(".service") {
            let own = home.join(format!("{name}.d"));
            fs::create_dir(&own).expect("a directory");
            let place = repo.beside("bin").display().to_string();
            // There is no journal, so each unit's output goes to a file, for the message of a failure.
            let log = repo.beside("units.log").display().to_string();
            let words = format!(
                "[Service]\nExecSearchPath={place}:{path}\nStandardOutput=append:{log}\nStandardError=inherit\n"
            );
            fs::write(own.join("here.conf"), words).expect("a file");
        }
    }
    let mut manager = Command::new(wrapper[0]);
    hermetic(&mut manager).args(&wrapper[1..]).args([
        "sh",
        "-c",
        &format!("{MANAGER}{script}\nkill $manager; exit 0"),
    ]);
    manager
        .env("ROOM", repo.beside(""))
        .env("REPO", &repo.path)
        .env("SYSTEMD", systemd)
        .env("AYNIG", binary());
    manager.env("HOME", repo.room.path().canonicalize().expect("it exists")).current_dir(repo.beside(""));
    for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
        manager.env_remove(name);
    }
    let groups = control_groups(&repo.room.path().file_name().expect("a name").to_string_lossy());
    let listed: Vec<String> = groups.iter().map(|group| group.display().to_string()).collect();
    let output = manager.env("GROUPS_OF_ITS_OWN", listed.join(" ")).output().expect("unshare runs");
    groups.iter().for_each(|group| remove_groups(group));
    let [log, units] = ["manager.log", "units.log"].map(|name| fs::read_to_string(repo.beside(name)));
    let said = format!("{}{}", out(&output), err(&output));
    assert!(
        output.status.success() && !said.contains("gave-up"),
        "{said}\nmanager: {}\nunits: {}",
        log.unwrap_or_default(),
        units.unwrap_or_default()
    );
    Some((repo, said))
}

/// Paths for unused control groups below this process's own.
fn control_groups(name: &str) -> Vec<PathBuf> {
    let told = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of = |start: &str| {
        let line = told.lines().find_map(|line| line.split_once(start))?;
        Some(line.1.trim_start_matches('/').to_owned())
    };
    let top = Path::new("/sys/fs/cgroup");
    let whole = if top.join("cgroup.procs").exists() { top.to_owned() } else { top.join("unified") };
    [(of("0::"), whole), (of(":name=systemd:"), top.join("systemd"))]
        .into_iter()
        .filter_map(|(path, top)| Some(top.join(path?).join(format!("aynig-test{name}"))))
        .collect()
}

/// Removes control groups, which are nested directories.
fn remove_groups(directory: &Path) {
    for below in fs::read_dir(directory).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&below.path());
        }
    }
    fs::remove_dir(directory).ok();
}

fn assert_said(said: &str, lines: &[&str]) {
    for line in lines {
        assert!(said.lines().any(|found| found == *line), "{line:?} is missing in:\n{said}");
    }
}

#[test]
fn a_manager_runs_passes_by_service_and_timer() {
    let script = r#"
instance=$(systemd-escape --path "$REPO")
ask monday note
mkdir -p "$HOME/.config/aynig${REPO%/*}"; echo 'ROLE=tester' > "$HOME/.config/aynig$REPO.env"
sctl start "aynig@$instance.service"; found start $?
found result "$(sctl show --property Result,ExecMainStatus --value "aynig@$instance.service" | tr '\n' ' ')"
# A branch that stalls is a result, not a failure of the unit.
ask tuesday fail
sctl start "aynig@$instance.service"; found stalled $?
# The timer, as an operator starts it, but every second.
mkdir "$HOME/.config/systemd/user/aynig@.timer.d"
printf '[Timer]\nOnCalendar=\nOnCalendar=*:*:*\nAccuracySec=1ms\nRandomizedDelaySec=0\n' \
    > "$HOME/.config/systemd/user/aynig@.timer.d/often.conf"
sctl daemon-reload
sctl enable --now --quiet "aynig@$instance.timer"; found enabled $?
ask wednesday note
holds "the timer's pass" is_state wednesday 'done'
sctl stop "aynig@$instance.timer" "aynig@$instance.service"
"#;
    let Some((repo, said)) = managed(script) else { return };
    assert_said(&said, &["start: 0", "stalled: 0", "enabled: 0"]);
    assert!(said.contains("success 0"), "{said}");
    assert_eq!([repo.state("monday"), repo.state("tuesday")], ["done", "stalled"]);
    assert_eq!([repo.said("monday"), repo.said("wednesday")], ["tester", "tester"]);
    repo.assert_tidy();
}

#[test]
fn a_manager_keeps_a_runner_and_stops_it_so_that_nothing_is_lost() {
    let script = r#"
instance=$(systemd-escape --path "$REPO")
# A server, with a runner beside it.
mkdir -p "$HOME/.config/aynig$(dirname "$REPO")"
echo 'AYNIG_SERVE_OPTIONS=--run --listen 127.0.0.1:0' > "$HOME/.config/aynig$REPO.env"
sctl start "aynig-serve@$instance.service"; found serve $?
ask thursday note
holds "the server's runner" is_state thursday 'done'
sctl stop "aynig-serve@$instance.service"
found served "$(sctl show --property ActiveState --value "aynig-serve@$instance.service")"
sctl start "aynig-watch@$instance.service"; found start $?
ask monday note
holds "the runner to see it" is_state monday 'done'
ask tuesday wait
holds "the command to wait" test -e "$ROOM/waiting"
sctl stop "aynig-watch@$instance.service"; found stop $?
# A unit that had failed would stay so.
found stopped "$(sctl show --property ActiveState --value "aynig-watch@$instance.service")"
# Two roles in one repository, each with states of its own.
for role in writer reviewer; do
    printf 'AYNIG_REPOSITORY=%s\n' "$REPO" > "$HOME/.config/aynig/$role.env"
done
echo 'AYNIG_OPTIONS=--branch r-*' >> "$HOME/.config/aynig/reviewer.env"
echo 'AYNIG_OPTIONS=--branch w-* --jobs 2' >> "$HOME/.config/aynig/writer.env"
sctl start aynig-role@writer.service aynig-role@reviewer.service; found roles $?
ask r-one note; ask w-one note
holds "the reviewer" is_state r-one 'done'
holds "the writer" is_state w-one 'done'
sctl stop 'aynig-role@*'
# What wants somebody is not tried again.
mkdir "$ROOM/empty"
for place in "$ROOM/empty" "$ROOM/missing"; do
    unit="aynig-watch@$(systemd-escape --path "$place").service"
    sctl start "$unit" 2>/dev/null
    holds "$unit to fail" is_active "$unit" failed
    found failed "$(sctl show --property ExecMainStatus,NRestarts --value "$unit" | sort | tr '\n' ' ')"
done
sctl start aynig-role@nobody.service 2>/dev/null; found no-file $?
"#;
    let Some((repo, said)) = managed(script) else { return };
    assert_said(
        &said,
        &["start: 0", "stop: 0", "stopped: inactive", "serve: 0", "served: inactive", "roles: 0"],
    );
    assert_said(&said, &["failed: 0 3 ", "failed: 0 200 ", "no-file: 1"]);
    assert_eq!([repo.state("monday"), repo.state("tuesday")], ["done", "wait"], "asked again");
    assert_eq!(repo.trailer("tuesday", "aynig-interrupted"), "1");
    assert_eq!([repo.said("r-one"), repo.said("w-one")], ["reviewer", "writer"]);
    assert_eq!(
        repo.show(&format!("{}:half", repo.rescue())),
        "half",
        "the work of the command that was stopped"
    );
    repo.assert_tidy();
}

/// The blocks of the guide's section on systemd, word for word.
#[test]
fn the_guides_lines_work_as_written() {
    let guide = document("contrib/docs/operating.md");
    let section = section(&guide, "## systemd");
    let blocks: Vec<&str> = section
        .split("```text\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .filter(|block| block.contains("systemctl"))
        .collect();
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    let script = format!(
        r#"
ln -s "$REPO" "$HOME/project"
cd /
set -e
{}
set +e
ask monday note
holds "the lasting runner" is_state monday 'done'
sctl stop 'aynig-watch@*'
ask tuesday review
holds "the reviewer" is_state tuesday 'done'
found timers "$(sctl list-timers --no-legend --all | grep -c 'aynig@')"
sctl stop 'aynig-role@*' 'aynig@*.timer'
"#,
        blocks.concat()
    );
    let Some((repo, said)) = managed(&script) else { return };
    assert_said(&said, &["timers: 1"]);
    assert_eq!(repo.said("monday"), "none");
    assert_eq!(repo.said("tuesday"), "reviewer");
    for word in guide.split(|c: char| c.is_whitespace() || "`\"'".contains(c)) {
        if let Some((name, _)) = word.split_once('@').filter(|(name, _)| name.starts_with("aynig")) {
            assert!(UNITS.iter().any(|unit| unit.starts_with(&format!("{name}@"))), "{word}");
        }
    }
}
