//! A long answer, through the person's pager where it goes to a terminal.
//!
//! Invariant: a line is complete when it goes out, and a reader who has seen enough (`q`, `| head`) is noticed at the next one. A
//! pager that cannot be started is no reason not to answer.

use aynig::git::Repo;
use aynig::supervise::Pager;

use crate::cli::ui;
use crate::cli::ui::signals;

/// Where the lines go.
#[derive(Debug)]
pub(crate) struct Page {
    pager: Option<Pager>,
    coloured: bool,
    columns: Option<usize>,
}

impl Page {
    /// A page, with a pager if one is wanted and there is a terminal for it.
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

    /// How wide a line may be, if a terminal is to show it.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Puts out one styled line; says whether anybody is still reading.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let bytes = format!("{}\n", ui::colour_if(line, self.coloured)).into_bytes();
        match &mut self.pager {
            Some(pager) => pager.write(&bytes),
            None => ui::answer_bytes(&bytes),
        }
    }
}
