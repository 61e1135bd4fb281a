//! The live display on a terminal: one line per running branch, with its state, its time and its last line of
//! output.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use aynig::contract::ids::AttemptId;
use aynig::contract::report::tail_lines;
use aynig::fsutil;
use aynig::runner::events::notice::Started;

use crate::cli::ui;

const REDRAW: Duration = Duration::from_millis(200);

type Bars = Arc<Mutex<HashMap<AttemptId, (ProgressBar, PathBuf)>>>;

/// The lines at the foot of the terminal.
#[derive(Debug)]
pub(crate) struct Live {
    all: MultiProgress,
    bars: Bars,
    redraw: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Live {
    /// A display on stderr, if that is a terminal.
    pub(crate) fn on_terminal() -> Option<Self> {
        if ui::is_quiet() || !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            return None;
        }
        let bars = Bars::default();
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&bars);
        let redraw = std::thread::spawn(move || {
            while stopped.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
                for (bar, log) in shared.lock().unwrap_or_else(PoisonError::into_inner).values() {
                    bar.set_message(last_line(log));
                    bar.tick();
                }
            }
        });
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Some(Self { all, bars, redraw: Some((stop, redraw)) })
    }

    /// A command started.
    pub(crate) fn begin(&self, started: &Started) {
        let style = ProgressStyle::with_template("{spinner} {prefix}  {elapsed}  {wide_msg:.dim}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let mut bars = self.lock();
        let bar = self.all.add(ProgressBar::new_spinner().with_style(style));
        bar.set_prefix(format!("{}  {}", ui::sanitize(&started.branch.to_string()), started.state));
        bars.insert(started.attempt, (bar, started.stdout.clone()));
    }

    /// A step ended.
    pub(crate) fn end(&self, attempt: AttemptId) {
        if let Some((bar, _)) = self.lock().remove(&attempt) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    /// Prints above the live lines. `MultiProgress::suspend` would panic if the terminal is gone. While the
    /// bars are locked, nothing else draws.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        let bars = self.lock();
        drop(self.all.clear());
        print();
        for (bar, _) in bars.values() {
            bar.force_draw();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, (ProgressBar, PathBuf)>> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((stop, redraw)) = self.redraw.take() {
            drop(stop);
            // A display that failed must not fail the run.
            drop(redraw.join());
        }
    }
}

fn last_line(log: &Path) -> String {
    let tail = fsutil::tail(log, 4096).unwrap_or_default();
    tail_lines(&tail).pop().unwrap_or_default()
}
