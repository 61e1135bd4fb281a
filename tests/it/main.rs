//! The one integration test binary: the real `aynig` against the real `git`, in repositories of their own.
//!
//! `support` creates the repositories and has the waiting helpers; every other file is one subject. Crash
//! points and clock offsets exist in debug builds only, and so do the tests that need them.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes, read clocks and write files as they need"
)]

mod absent;
mod ancestry;
mod answering;
mod answers;
mod appending;
mod architecture;
mod attacks;
mod bounds;
mod broken;
mod bytes;
#[cfg(debug_assertions)]
mod cancel;
mod cancel_refused;
mod chaos;
mod circles;
mod clean;
mod clean_deferred;
mod completions;
mod configuration;
mod conformance;
mod contract;
mod contract_rules;
#[cfg(debug_assertions)]
mod crash_points;
mod crashes;
mod damaged_refs;
mod default_branch;
mod deferred;
mod deferred_hostile;
mod deferred_merged;
mod deferred_stuck;
mod deferred_taken;
mod deferred_turns;
mod deferred_unreadable;
mod demo;
mod doctor;
mod documents;
mod dry_run;
mod durations;
mod events;
#[cfg(debug_assertions)]
mod feature;
mod flow;
mod flow_engine;
mod flow_runs;
mod generated;
mod graphs;
mod guides;
mod handover;
mod hints;
mod hostile;
mod idle;
mod in_place;
mod in_use;
mod init;
mod install;
mod install_plain;
mod install_refused;
mod interrupted;
mod journal;
mod json;
mod judge;
mod kept;
mod land;
mod land_meanwhile;
mod landed;
mod lease;
mod lease_length;
mod ledger;
mod left_behind;
mod log;
mod logs;
mod lost_work;
mod malformed;
mod manual_pages;
mod merged;
mod misplaced;
mod naming;
mod next;
mod notify;
mod orch;
mod orch_remote;
mod orchestration;
mod output;
mod overtaken;
mod own_workflow;
mod package;
mod packs;
#[cfg(debug_assertions)]
mod panics;
mod parking;
mod passes;
mod pool;
mod preference;
mod probe;
mod programs;
mod provider;
mod publish;
mod quiet;
mod races;

mod ready;
mod reconfigured;
mod remote;
mod repeated;
mod scene;
mod serve;
mod set_state;
mod set_working;
mod settle_table;
mod signals;
mod signatures;
mod spare;
mod sparse;
mod speed;
mod status;
mod status_table;
mod steps;
mod submodules;
mod support;
mod surroundings;
mod survivors;
mod systemd;
mod terminal;
mod transactions;
mod trust;
mod unable;
mod unattended;
mod unconcluded;
mod untouched;
mod validation;
mod wait;
mod waits_for;
mod words;
mod work_prefix;
mod workspace;
