//! Artifacts of a run: lists them, reads one, and writes them below a directory (CONTRACT 22.34).
//!
//! Invariant: a content is handed on only if its digest is that of its artifact. Nothing that is there is replaced, and
//! nothing is written outside of the directory: names and aliases are single segments of a path.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::engine::record::Recorded;
use crate::fsutil;
use crate::git::Repo;
use crate::git::objects::digest::sha256;
use crate::journal::artifacts::{is_here, place};
use crate::ledger::{Tip, content};
use crate::model::artifact::Artifact;
use crate::model::ids::{ArtifactId, NodeId, RunId};

use super::error::{Error, Kind};
use super::graphs::{begins, node};
use super::runs::{self, Shown};

/// The directory of what belongs to no node that the run has.
const OF_RUN: &str = "run";

/// An artifact of a run.
#[derive(Debug, Clone)]
pub struct Item {
    /// It.
    pub artifact: Artifact,
    /// The alias of its node, if the run has that.
    pub alias: Option<String>,
    /// The place of its turn or step in the run.
    pub number: Option<u64>,
    /// Whether its content can be read here.
    pub is_here: bool,
}

/// The artifacts of a run.
pub struct Artifacts<'r> {
    repo: &'r Repo,
    shown: Shown,
    /// What the turns and steps of this host left.
    recorded: Recorded,
    /// All of them, the oldest first.
    pub items: Vec<Item>,
}

/// Reads the artifacts of a run, of ended turns as well; with `of` those of this node.
pub fn of<'r>(repo: &'r Repo, run: RunId, of: Option<&str>) -> Result<Artifacts<'r>, Error> {
    let shown = runs::show(repo, run)?;
    let state = &shown.state;
    let wanted: Option<NodeId> = of.map(|named| node(state, named)).transpose()?;
    let loose = state.artifacts.values().map(|artifact| (None, artifact));
    let turns = state
        .turns
        .iter()
        .flat_map(|(number, turn)| turn.artifacts.values().map(|artifact| (Some(*number), artifact)));
    let steps = state
        .steps
        .iter()
        .flat_map(|(number, step)| step.artifacts.values().map(|artifact| (Some(*number), artifact)));
    let all = loose.chain(turns).chain(steps);
    let all = all.filter(|(_, artifact)| wanted.is_none() || artifact.node_id == wanted);
    let mut items: Vec<Item> = all
        .map(|(number, artifact)| Item {
            alias: artifact.node_id.and_then(|id| state.nodes.get(&id)).map(|node| node.alias.to_string()),
            number,
            is_here: false,
            artifact: artifact.clone(),
        })
        .collect();
    items.sort_by(|a, b| {
        let key = |item: &Item| (item.number, item.artifact.created_at, item.artifact.name.to_string());
        key(a).cmp(&key(b))
    });
    let recorded = Recorded::of(&shown.directory, None);
    let mut found = Artifacts { repo, shown, recorded, items: Vec::new() };
    for item in &mut items {
        // What the ledger has was brought here just now, unless that failed.
        item.is_here = is_here(&found.shown.directory, &item.artifact)
            || found.recorded.has(&item.artifact.sha256)
            || (found.shown.synced.is_err() && found.content(&item.artifact)?.is_some());
    }
    found.items = items;
    Ok(found)
}

impl Artifacts<'_> {
    /// The content of an artifact: from the directory of the run, else from its ledger, else from what a turn of this host
    /// left. `None`: this host does not have it, or what it has is another content.
    fn content(&self, artifact: &Artifact) -> Result<Option<Vec<u8>>, Error> {
        let is_it = |bytes: &Vec<u8>| sha256(bytes) == artifact.sha256;
        let file = place(&self.shown.directory, artifact.id);
        if let Some(bytes) = fsutil::read_plain(file).ok().filter(is_it) {
            return Ok(Some(bytes));
        }
        let tip = Tip::read_run(self.repo, artifact.run_id, self.shown.head)?;
        let kept = content::read(self.repo, &tip, &artifact.sha256)?;
        Ok(kept.or_else(|| self.recorded.content(&artifact.sha256)))
    }

    /// The artifact that an id, the beginning of one, or a name that is there once means, with its content.
    pub fn one(&self, named: &str) -> Result<(&Item, Vec<u8>), Error> {
        let by_id = begins(self.items.iter().map(|item| &item.artifact.id), named);
        let by_name = || {
            let mut found = self.items.iter().filter(|item| item.artifact.name.as_str() == named);
            let first = found.next();
            first.filter(|_| found.next().is_none()).map(|item| item.artifact.id)
        };
        let id = by_id.or_else(by_name);
        let slug = &self.shown.state.run.slug;
        let Some(item) = self.items.iter().find(|item| Some(item.artifact.id) == id) else {
            let message = format!("run {slug} has no artifact {named}, or several");
            return Err(Error::new(Kind::NotFound, message)
                .hint(format!("`aynig orch artifact list {slug}` lists them with their ids")));
        };
        match self.content(&item.artifact)? {
            Some(content) => Ok((item, content)),
            None => Err(elsewhere(&item.artifact)),
        }
    }

    /// A long event of this host, which is in a file of its own (CONTRACT 17.9). `named` is the whole id.
    #[must_use]
    pub fn long_event(&self, named: &str) -> Option<Vec<u8>> {
        let id = ArtifactId::parse(named)?;
        fsutil::read_plain(place(&self.shown.directory, id)).ok()
    }

    /// Writes all contents that are here below a directory, as `ALIAS/NUMBER/NAME`.
    pub fn export(&self, directory: &Path) -> Result<Exported, Error> {
        let mut exported = Exported { written: Vec::new(), missing: Vec::new() };
        let mut contents = Vec::new();
        for (item, path) in self.items.iter().zip(places(&self.items)) {
            match self.content(&item.artifact)? {
                Some(content) => contents.push((item, path, content)),
                None => exported.missing.push(item.clone()),
            }
        }
        for (_, path, _) in &contents {
            check_free(directory, path)?;
        }
        for (item, path, content) in contents {
            write_new(directory, &path, &content)?;
            exported.written.push((item.clone(), path));
        }
        Ok(exported)
    }
}

/// What was exported.
#[derive(Debug)]
pub struct Exported {
    /// The artifacts that were written, with their places below the directory.
    pub written: Vec<(Item, PathBuf)>,
    /// Those whose contents are not on this host.
    pub missing: Vec<Item>,
}

/// The words about a content that is not here.
fn elsewhere(artifact: &Artifact) -> Error {
    let Artifact { name, host, id, .. } = artifact;
    Error::failed(format!("the content of {name} ({id}) is not on this host"))
        .hint(format!("the host {host} made it, and has it"))
        .hint("aynig.replicate = all puts the contents of new runs into their ledgers")
}

/// The places of artifacts below a directory: each is there once.
fn places(items: &[Item]) -> Vec<PathBuf> {
    let mut taken: BTreeSet<PathBuf> = BTreeSet::new();
    let mut place = |item: &Item| {
        let above = Path::new(item.alias.as_deref().unwrap_or(OF_RUN));
        let above = item.number.map_or_else(|| above.to_owned(), |number| above.join(format!("{number:04}")));
        let name = item.artifact.name.as_str();
        let with_id = format!("{}-{name}", item.artifact.id);
        let names = [name.to_owned(), with_id, item.artifact.id.to_string()];
        let mut free = names.iter().map(|name| above.join(name));
        let path =
            free.find(|path| !taken.contains(path) && fits(path)).unwrap_or_else(|| above.join(&names[2]));
        taken.insert(path.clone());
        path
    };
    items.iter().map(&mut place).collect()
}

/// Whether the last part of a path is short enough for a file system.
fn fits(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() <= 255)
}

/// Refuses a place where something is, or whose directories are not directories.
fn check_free(directory: &Path, path: &Path) -> Result<(), Error> {
    let whole = directory.join(path);
    let refused = |at: &Path, why: &str| {
        let message = format!("{} {why}; nothing was written", at.display());
        Err(Error::failed(message).hint("name a directory that is empty or does not exist"))
    };
    for above in path.ancestors().skip(1).map(|above| directory.join(above)) {
        match above.symlink_metadata() {
            Ok(found) if found.is_dir() || above == directory => {}
            Ok(_) => return refused(&above, "is no directory"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::because(&format!("look at {}", above.display()), &error)),
        }
    }
    if whole.symlink_metadata().is_ok() {
        return refused(&whole, "is there already");
    }
    Ok(())
}

fn write_new(directory: &Path, path: &Path, content: &[u8]) -> Result<(), Error> {
    let whole = directory.join(path);
    let above = whole.parent().unwrap_or(directory);
    let made = fs::create_dir_all(above);
    let file = made.and_then(|()| OpenOptions::new().write(true).create_new(true).open(&whole));
    let written = file.and_then(|mut file| file.write_all(content));
    written.map_err(|error| Error::because(&format!("write {}", whole.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::artifact::ArtifactKind;
    use crate::model::ids::{ArtifactId, FileName};
    use crate::model::time::Timestamp;

    fn item(number: u64, turn: Option<u64>, alias: Option<&str>, name: &str) -> Item {
        let uuid = |number: u64| uuid::Uuid::from_u128(number.into());
        let artifact = Artifact {
            id: ArtifactId::from(uuid(number)),
            run_id: RunId::from(uuid(9)),
            node_id: None,
            kind: ArtifactKind::Report,
            name: FileName::parse(name).expect("a name"),
            created_at: Timestamp::from_millis(0).expect("a time"),
            turn_id: None,
            media_type: String::new(),
            size: 0,
            sha256: String::new(),
            host: String::new(),
        };
        Item { artifact, alias: alias.map(str::to_owned), number: turn, is_here: true }
    }

    /// CONTRACT 22.34
    #[test]
    fn each_artifact_has_a_place_of_its_own() {
        let long = "x".repeat(255);
        let items = [
            item(1, Some(3), Some("ada"), "a"),
            item(2, Some(3), Some("ada"), "a"),
            item(3, None, None, "a"),
            item(4, Some(4), Some("ada"), &long),
            item(5, Some(4), Some("ada"), &long),
        ];
        let id = |number: u32| format!("00000000-0000-0000-0000-{number:012}");
        let wanted = [
            "ada/0003/a".to_owned(),
            format!("ada/0003/{}-a", id(2)),
            "run/a".to_owned(),
            format!("ada/0004/{long}"),
            format!("ada/0004/{}", id(5)),
        ];
        assert_eq!(places(&items), wanted.map(PathBuf::from));
    }
}
