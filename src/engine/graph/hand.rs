//! The files of an agent's hand in one turn: its acts, the contents of its artifacts, and its questions to people.
//!
//! Invariant: they are on the host of the turn alone, in a directory that only their owner may read, and go with the turn.
//! No link is followed: the agent runs as the same user.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::engine::record::role::MAX_FILE;
use crate::fsutil::{self, FileLock};
use crate::journal::directory::RunDirectory;
use crate::model::approval::{Resolution, Tool};
use crate::model::ids::{NodeId, TurnId};
use crate::model::trace::Halted;

use super::act::Act;

/// The directory of all hands, below a run's, by turn.
const HAND: &str = "hand";

/// The most acts of one turn, and the most questions.
pub(super) const MOST: usize = 256;

/// The beginnings of the names of a question and of its answer.
const ASK: &str = "ask-";
const ANSWER: &str = "answer-";

/// A question to people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The act, as a tool with arguments.
    pub(super) tool: Tool,
    /// What people need to decide.
    pub(super) context: Option<String>,
}

/// The files of one turn.
#[derive(Debug, Clone)]
pub(super) struct Hand {
    path: PathBuf,
}

impl Hand {
    pub(super) fn of(directory: &RunDirectory, turn: TurnId) -> Self {
        Self { path: directory.path().join(HAND).join(turn.to_string()) }
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, number: usize) -> PathBuf {
        self.path.join(format!("{number:04}.json"))
    }

    fn content_file(&self, number: usize) -> PathBuf {
        self.path.join(format!("{number:04}.content"))
    }

    /// The lock of the acts. It contains the id of their node.
    fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Makes the directory: acts of this node are taken from now on.
    pub(super) fn open(&self, node: NodeId) -> io::Result<()> {
        fsutil::create_private_dir_all(&self.path)?;
        fsutil::replace_private(&self.lock(), node.to_string().as_bytes())
    }

    /// Whether the turn is under way on this host.
    pub(super) fn is_open(&self) -> bool {
        self.path.is_dir()
    }

    /// Whether the turn is one of this node.
    pub(super) fn is_of(&self, node: NodeId) -> bool {
        fsutil::read_plain(self.lock()).is_ok_and(|owner| owner == node.to_string().as_bytes())
    }

    /// Keeps other acts out until it is dropped.
    pub(super) fn locked(&self) -> io::Result<FileLock> {
        FileLock::acquire(&self.lock())
    }

    /// Reads the acts, in their order. The error names a file that is none.
    pub(super) fn read(&self) -> Result<Vec<Act>, String> {
        let mut acts = Vec::new();
        for number in 1..=MOST {
            let path = self.file(number);
            if path.symlink_metadata().is_err() {
                break;
            }
            acts.push(read(&path).map_err(|why| format!("the staged act {number} cannot be read: {why}"))?);
        }
        Ok(acts)
    }

    /// Adds an act with this number, and the content that belongs to it.
    pub(super) fn add(&self, number: usize, act: &Act, content: Option<&[u8]>) -> io::Result<()> {
        if let Some(content) = content {
            fsutil::replace_private(&self.content_file(number), content)?;
        }
        fsutil::replace_private(&self.file(number), &serde_json::to_vec(act)?)
    }

    /// The content that belongs to an act.
    pub(super) fn content(&self, number: usize) -> io::Result<Vec<u8>> {
        bounded(&self.content_file(number))
    }

    /// Asks people, and returns the name of the question.
    pub(super) fn ask(&self, ask: &Ask) -> io::Result<String> {
        let name = Uuid::new_v4().to_string();
        fsutil::replace_private(&self.path.join(format!("{ASK}{name}")), &serde_json::to_vec(ask)?)?;
        Ok(name)
    }

    /// The questions, with their names. One that cannot be read is none.
    pub(super) fn asks(&self) -> Vec<(String, Ask)> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let asks = entries.filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_prefix(ASK)?.to_owned();
            Some((name, read(&entry.path()).ok()?))
        });
        asks.take(MOST).collect()
    }

    /// Answers a question.
    pub(super) fn answer(&self, name: &str, answer: &Resolution) -> io::Result<()> {
        fsutil::replace_private(&self.path.join(format!("{ANSWER}{name}")), &serde_json::to_vec(answer)?)
    }

    /// The answer to a question, once there is one.
    pub(super) fn answered(&self, name: &str) -> Option<Resolution> {
        read(&self.path.join(format!("{ANSWER}{name}"))).ok()
    }

    /// Notes that an act was refused by a limit of the run.
    pub(super) fn note_limit(&self, reached: &Halted) -> io::Result<()> {
        fsutil::replace_private(&self.limit_file(), &serde_json::to_vec(reached)?)
    }

    /// The limit by which an act was refused last.
    pub(super) fn limit(&self) -> Option<Halted> {
        read(&self.limit_file()).ok()
    }

    fn limit_file(&self) -> PathBuf {
        self.path.join("limit.json")
    }

    /// Removes all of it.
    pub(super) fn discard(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "staged acts of a turn that has ended stay");
        }
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = bounded(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// Reads a plain file, as far as the longest artifact.
fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fsutil::open_own(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}
