//! A program of one answer: the prompt on stdin, everything printed is the answer.
//!
//! The exit code decides how the turn ended, so there is no last word here.

use super::{Dialect, Out, Task};
use crate::provider::event::Event;
use crate::provider::lines::Ending;

pub(super) struct Text {
    task: Task,
    answer: Ending,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
}

/// A longer line is reported in parts, in bytes.
const LONG: usize = 64 * 1024;

impl Text {
    pub(super) fn new(task: Task) -> Self {
        Self { task, answer: Ending::default(), line: Vec::new() }
    }
}

impl Dialect for Text {
    fn start(&mut self) -> Out {
        Out { writes: vec![std::mem::take(&mut self.task.prompt)], close: true, ..Out::default() }
    }

    /// Takes a chunk of any length.
    fn line(&mut self, line: &[u8]) -> Out {
        self.answer.push(line);
        self.line.extend_from_slice(line);
        let end = self.line.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let end = end.or_else(|| (self.line.len() > LONG).then_some(self.line.len()));
        let mut out = Out::default();
        if let Some(end) = end {
            let whole: Vec<u8> = self.line.drain(..end).collect();
            out.event(Event::Delta(String::from_utf8_lossy(&whole).into_owned()));
        }
        out
    }

    fn eof(&mut self) -> Out {
        let mut out = Out::default();
        if !self.answer.is_empty() {
            out.event(Event::Final(self.answer.take()));
        }
        out
    }
}
