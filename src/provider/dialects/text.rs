//! A program of one answer: the prompt on stdin, everything printed is the answer.
//!
//! The exit code decides how the turn ended, so there is no last word here.

use super::{Dialect, Out, Task};
use crate::provider::event::Event;
use crate::provider::lines::Ending;

pub(super) struct Text {
    task: Task,
    answer: Ending,
}

impl Text {
    pub(super) fn new(task: Task) -> Self {
        Self { task, answer: Ending::default() }
    }
}

impl Dialect for Text {
    fn start(&mut self) -> Out {
        Out { writes: vec![std::mem::take(&mut self.task.prompt)], close: true, ..Out::default() }
    }

    /// Takes a chunk of any length.
    fn line(&mut self, line: &[u8]) -> Out {
        self.answer.push(line);
        Out::default()
    }

    fn eof(&mut self) -> Out {
        let mut out = Out::default();
        if !self.answer.is_empty() {
            out.event(Event::Final(self.answer.take()));
        }
        out
    }
}
