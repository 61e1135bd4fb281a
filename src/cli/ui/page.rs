//! A long answer, through the user's pager on a terminal.
//!
//! Invariant: lines are written whole, and a reader that has gone (`q`, `| head`) is noticed at the next
//! line. If the pager cannot be started, the answer is printed without it.

use aynig::git::Repo;
use aynig::supervise::Pager;

use crate::cli::ui;
use crate::cli::ui::signals;

/// The destination of the lines.
#[derive(Debug)]
pub(crate) struct Page {
    pager: Option<Pager>,
    coloured: bool,
    columns: Option<usize>,
}

impl Page {
    /// Opens a page, with a pager if requested and on a terminal.
    pub(crate) fn open(repo: &Repo, pager: bool) -> Self {
        let room = ui::room();
        let command = room.filter(|_| pager).and_then(|_| repo.pager());
        signals::leave_ctrl_c(command.is_some());
        let started = command.and_then(|command| match Pager::start(&command) {
            Ok(pager) => Some(pager),
            Err(error) => {
                signals::leave_ctrl_c(false);
                tracing::debug!(%error, command, "no pager");
                None
            }
        });
        Self { pager: started, coloured: ui::coloured(), columns: room.map(|room| room.columns) }
    }

    /// The maximum width of a line, on a terminal.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Writes one styled line. Returns whether the reader is still there.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let bytes = format!("{}\n", ui::colour_if(line, self.coloured)).into_bytes();
        match &mut self.pager {
            Some(pager) => pager.write(&bytes),
            None => ui::answer_bytes(&bytes),
        }
    }
}
