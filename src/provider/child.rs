//! The pipes to a program, and the threads that serve them.
//!
//! Invariant: no thread waits for another one's memory. A reader hands over one chunk at a time and waits until it was
//! taken. Readers and the writer are not joined, since a process that survives SIGKILL can keep a pipe open.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::gate::Resolution;
use super::record::Kept;
use crate::stop::Notice;
use crate::supervise::Finished;

/// The size of a chunk.
const CHUNK: usize = 64 * 1024;

/// The most lines that wait to be written. A program that asks on and on without reading the answers is ended.
const MOST_UNWRITTEN: usize = 4_096;

/// A message to the conductor of a turn.
#[derive(Debug)]
pub(super) enum Input {
    /// A program printed this.
    Chunk(Stream, Vec<u8>),
    /// Its output cannot be kept.
    Unkept(io::Error),
    /// It closed the stream.
    Closed(Stream),
    /// An answer to the request with this id.
    Answer(String, Resolution),
    /// A stop was requested.
    Stop(Notice),
    /// The program ended.
    Exited(Finished),
}

/// A stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Its stdout.
    Out,
    /// Its stderr.
    Err,
}

/// The file that an output goes to, until it is taken away.
type Shared = Arc<Mutex<Option<Kept>>>;

/// An output of the program.
pub(super) struct Output {
    stream: Stream,
    pipe: PipeReader,
    kept: Shared,
}

/// The conductor's side of an output.
pub(super) struct Tap {
    kept: Shared,
    next: Sender<()>,
}

impl Tap {
    /// Lets the reader hand over the next chunk.
    pub(super) fn next(&self) {
        if self.next.send(()).is_err() {
            tracing::trace!("the reader has ended");
        }
    }

    /// Ends the file.
    pub(super) fn finish(self) -> io::Result<()> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or(Ok(()), Kept::finish)
    }
}

impl Output {
    /// A pipe whose other end is the program's.
    pub(super) fn new(stream: Stream, kept: Kept) -> io::Result<(Self, File)> {
        let (pipe, writer) = io::pipe()?;
        let output = Self { stream, pipe, kept: Arc::new(Mutex::new(Some(kept))) };
        Ok((output, File::from(OwnedFd::from(writer))))
    }

    /// Starts the reader.
    pub(super) fn read(self, inbox: &Sender<Input>) -> io::Result<Tap> {
        let (next, turns) = mpsc::channel();
        let tap = Tap { kept: Arc::clone(&self.kept), next };
        let inbox = inbox.clone();
        thread::Builder::new().name("agent-output".to_owned()).spawn(move || self.serve(&inbox, &turns))?;
        Ok(tap)
    }

    fn serve(mut self, inbox: &Sender<Input>, turns: &Receiver<()>) {
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = match self.pipe.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            let chunk = &buffer[..count];
            if let Err(error) = self.keep(chunk)
                && inbox.send(Input::Unkept(error)).is_err()
            {
                return;
            }
            if inbox.send(Input::Chunk(self.stream, chunk.to_vec())).is_err() || turns.recv().is_err() {
                return;
            }
        }
        if inbox.send(Input::Closed(self.stream)).is_err() {
            tracing::trace!("the turn is over");
        }
    }

    /// Appends to the file. After an error nothing more is kept.
    fn keep(&self, chunk: &[u8]) -> io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = kept.as_mut() else { return Ok(()) };
        let pushed = file.push(chunk);
        if pushed.is_err() {
            *kept = None;
        }
        pushed
    }
}

/// The program's stdin.
pub(super) struct Stdin {
    queue: Option<Sender<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
}

impl Stdin {
    /// A pipe whose other end is the program's, and the thread that writes to it.
    pub(super) fn new() -> io::Result<(Self, File)> {
        let (reader, pipe) = io::pipe()?;
        let (queue, lines) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        thread::Builder::new().name("agent-input".to_owned()).spawn(move || write(pipe, &lines, &left))?;
        Ok((Self { queue: Some(queue), waiting }, File::from(OwnedFd::from(reader))))
    }

    /// Writes a line, unless stdin is closed. Returns whether the program reads.
    pub(super) fn write(&self, line: Vec<u8>) -> bool {
        if let Some(queue) = &self.queue {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            if queue.send(line).is_err() {
                tracing::debug!("the program has closed its stdin");
                return true;
            }
        }
        self.waiting.load(Ordering::Relaxed) <= MOST_UNWRITTEN
    }

    /// Closes it, after what was written.
    pub(super) fn close(&mut self) {
        self.queue = None;
    }
}

fn write(mut pipe: PipeWriter, lines: &Receiver<Vec<u8>>, waiting: &AtomicUsize) {
    for line in lines {
        if let Err(error) = pipe.write_all(&line) {
            tracing::debug!(%error, "the program does not read its stdin");
            return;
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_full_disk_is_reported_once_and_the_program_goes_on() {
        let full = File::options().read(true).write(true).open("/dev/full").expect("a device");
        let (output, mut program) = Output::new(Stream::Out, Kept::on(full)).expect("a pipe");
        let (sender, inbox) = mpsc::channel();
        let tap = output.read(&sender).expect("a thread");
        let next = || inbox.recv_timeout(Duration::from_secs(20)).expect("an input");
        program.write_all(b"one").expect("written");
        assert!(matches!(next(), Input::Unkept(error) if error.kind() == ErrorKind::StorageFull));
        assert!(matches!(next(), Input::Chunk(Stream::Out, chunk) if chunk == b"one"));
        tap.next();
        program.write_all(b"two").expect("written");
        assert!(matches!(next(), Input::Chunk(_, chunk) if chunk == b"two"));
        tap.next();
        drop(program);
        assert!(matches!(next(), Input::Closed(Stream::Out)));
        tap.finish().expect("nothing to finish");
    }
}
