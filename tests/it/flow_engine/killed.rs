//! Runners and steps of one run that are killed at random, on two hosts. `CHAOS_SEED` repeats a series.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::crashes::{Killed, Kind, LATER, Scene};
use super::*;
use crate::chaos::{Dice, long, seed, tell};

const DONE: [&str; 4] = ["s1 completed s2", "s2 completed s3", "s3 completed s4", "s4 completed STOP"];

fn steps_in_a_row() -> String {
    let one = |step: usize| {
        let next = if step == DONE.len() { "STOP".to_owned() } else { format!("s{}", step + 1) };
        format!(
            "  - {{id: s{step}, opcode: RUN_AGENT, agent: scripted, prompt: s{step}, retries: 100, routes: {{completed: {next}, error: STOP}}}}\n"
        )
    };
    (1..=DONE.len()).map(one).collect()
}

/// The steps that are under way on a host.
fn under_way(host: &Repo) -> Vec<i32> {
    let is_step = |place: &PathBuf| {
        let line = std::fs::read(place.join("cmdline")).unwrap_or_default();
        let inside = std::fs::read_link(place.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&host.path));
        inside && line.ends_with(b"\0flow\0step\0")
    };
    let places = std::fs::read_dir("/proc").expect("it is there").flatten().map(|entry| entry.path());
    places.filter(is_step).filter_map(|place| place.file_name()?.to_str()?.parse().ok()).collect()
}

fn runner(host: &Repo, offset: u64) -> Running {
    let mut command = host.aynig_command();
    command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset.to_string());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    Running::start(&mut command)
}

/// CONTRACT 20.3, 20.5
#[test]
fn kills_at_random_on_two_hosts_lose_and_double_nothing() {
    run(sized(1, 3), Duration::ZERO);
}

#[test]
#[ignore = "takes minutes: CHAOS_MINUTES=10 cargo test --test it -- --ignored long_flow_chaos --nocapture"]
fn long_flow_chaos() {
    run(5, long());
}

/// Makes at least so many series, for at least that long.
fn run(most: usize, lasts: Duration) {
    let seed = seed();
    tell(&format!("CHAOS_SEED={seed}"));
    let mut dice = Dice(seed);
    let begun = Instant::now();
    let mut series = 0;
    while series < most || begun.elapsed() < lasts {
        let scene = Scene::new(true);
        let steps = steps_in_a_row();
        let kind = Kind {
            killed: Killed::Pass(0),
            entry: "s1",
            steps: steps.clone(),
            done: &DONE,
            verdict: "succeeded",
            work: Some("s1\ns2\ns3\ns4"),
        };
        let run = start(&scene.hosts[0], &flow("s1", &steps));
        let mut offset = 0;
        for _ in 0..sized(6, 12) {
            let host = &scene.hosts[dice.roll(2)];
            let running = runner(host, offset);
            // Where it is by then is as random as the rest.
            std::thread::sleep(Duration::from_millis(u64::try_from(dice.roll(1_500)).expect("small")));
            if dice.roll(2) == 0 {
                running.signal(Signal::SIGKILL);
            } else {
                for step in under_way(host) {
                    kill(Pid::from_raw(step), Signal::SIGKILL).ok();
                }
            }
            running.finish();
            host.deserted();
            offset += LATER;
        }
        for host in [0, 1, 0, 1] {
            offset += LATER;
            runner(&scene.hosts[host], offset).finish();
        }
        scene.assert_whole(&run, &kind, &format!("seed {seed}, series {series}"));
        series += 1;
    }
    tell(&format!("{series} runs of {} steps", DONE.len()));
}
