//! `.aynig/installed.json`: the installed packs, their sources, and their files.
//!
//! Invariant: it contains no secret, and nothing of this machine except the path of a source given as a path.
//! An invalid record is refused and never overwritten: without it every local change would look unknown.

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

/// One pack at its last installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    /// The repository's URL or path, without secrets.
    pub(crate) source: String,
    /// The pack's directory in it; empty for the top.
    pub(crate) subfolder: String,
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    pub(crate) commit: String,
    pub(crate) installed: String,
    /// Its files, by their paths below `.aynig/`.
    pub(crate) files: Files,
}

impl Default for Record {
    fn default() -> Self {
        Self { version: VERSION, packs: Vec::new() }
    }
}

impl Record {
    /// Parses the file. The error says why it is no record.
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

    /// The last installation from this source.
    pub(crate) fn find(&self, source: &str, subfolder: &str) -> Option<&Installed> {
        self.packs.iter().find(|pack| pack.source == source && pack.subfolder == subfolder)
    }

    /// Puts `pack` in place of its last installation. `taken` are files that it took over from other packs.
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
