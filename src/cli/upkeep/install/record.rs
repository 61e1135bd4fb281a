//! `.aynig/installed.json`: which packs were installed here, from where, and what their files were.
//!
//! Invariant: it holds no secret and nothing of this machine but the path of a source that was given as one. A file that is
//! no such record is refused, never overwritten: its loss would turn every local change into something unknown.

use serde::{Deserialize, Serialize};

use aynig::git::objects::bundle::Files;

/// The version written here.
const VERSION: u32 = 1;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    /// One for each source and subfolder.
    pub(crate) packs: Vec<Installed>,
}

/// One pack, as it was installed last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    /// The repository, without secrets.
    pub(crate) source: String,
    /// Where in it the pack lies; empty for the top.
    pub(crate) subfolder: String,
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    pub(crate) commit: String,
    pub(crate) installed: String,
    /// What its files were, by their paths below `.aynig/`.
    pub(crate) files: Files,
}

impl Default for Record {
    fn default() -> Self {
        Self { version: VERSION, packs: Vec::new() }
    }
}

impl Record {
    /// Reads the text of the file, or says why it is no record.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if record.version == VERSION {
            return Ok(record);
        }
        Err(format!("it is of version {}, and this aynig knows version {VERSION}", record.version))
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// What was installed from there last.
    pub(crate) fn find(&self, source: &str, subfolder: &str) -> Option<&Installed> {
        self.packs.iter().find(|pack| pack.source == source && pack.subfolder == subfolder)
    }

    /// Puts `pack` in the place of the one that was installed from there before; `taken` are files it took over from other packs.
    pub(crate) fn put(&mut self, pack: Installed, taken: &[&str]) {
        self.packs.retain(|other| other.source != pack.source || other.subfolder != pack.subfolder);
        for other in &mut self.packs {
            other.files.retain(|path, _| !taken.contains(&path.as_str()));
        }
        self.packs.push(pack);
        self.packs
            .sort_by(|one, other| (&one.source, &one.subfolder).cmp(&(&other.source, &other.subfolder)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aynig::git::objects::bundle::Blob;

    fn pack(source: &str, file: &str) -> Installed {
        let blob = Blob { mode: "100644".into(), id: "1".repeat(40) };
        Installed {
            source: source.into(),
            subfolder: String::new(),
            reference: "HEAD".into(),
            commit: "2".repeat(40),
            installed: "2026-01-31T12:00:00Z".into(),
            files: Files::from([(file.to_owned(), blob)]),
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        let mut record = Record::default();
        record.put(pack("b", "x"), &[]);
        record.put(pack("a", "x"), &["x"]);
        record.put(pack("b", "y"), &["y"]);
        assert_eq!(Record::parse(&record.text().unwrap()).as_ref(), Ok(&record));
        assert_eq!(record.packs.iter().map(|pack| pack.source.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(record.find("b", "").is_some_and(|pack| pack.files.contains_key("y")));
        assert!(record.find("b", "sub").is_none());
        for text in ["", "[]", "{\"version\":2,\"packs\":[]}", "{\"version\":1,\"packs\":[{}]}"] {
            assert!(Record::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
