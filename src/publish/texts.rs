//! Title and text of a proposal, made from the label of the run and the commits (CONTRACT 21.6).

use bstr::ByteSlice;

use crate::contract::message::Message;
use crate::contract::squash::SNAPSHOT;
use crate::git::objects::digest::sha256;
use crate::ledger::Masks;

use super::proposal::Texts;

/// The longest title, in characters.
const TITLE: usize = 200;

/// The longest text, in bytes.
const BODY: usize = 32 * 1024;

/// The most commits that are listed.
const LISTED: usize = 50;

impl Texts {
    /// The texts for these commits, the oldest first. `handle` is the workspace's, `slug` the run's.
    pub(super) fn of(label: &str, handle: &str, slug: &str, commits: &[Message], masks: &Masks) -> Self {
        let told: Vec<&Message> = commits
            .iter()
            .filter(|one| !one.subject.starts_with(SNAPSHOT.as_bytes()) && !one.subject.is_empty())
            .collect();
        let mut title = match told[..] {
            _ if !label.trim().is_empty() => label.to_owned(),
            [only] => only.subject.to_str_lossy().into_owned(),
            _ => handle.to_owned(),
        };
        let mut body = match commits {
            [only] => only.body.to_str_lossy().into_owned(),
            _ => {
                let more = commits.len().saturating_sub(LISTED);
                let lines =
                    commits.iter().take(LISTED).map(|one| format!("- {}\n", one.subject.to_str_lossy()));
                let more = (more > 0).then(|| format!("- and {more} more\n"));
                lines.chain(more).collect()
            }
        };
        masks.text(&mut title);
        masks.text(&mut body);
        title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        title = title.chars().filter(|c| !c.is_control()).take(TITLE).collect();
        body.retain(|c| c == '\n' || c == '\t' || !c.is_control());
        let end = body.floor_char_boundary(BODY);
        body.truncate(end);
        let body = body.trim();
        let gap = if body.is_empty() { "" } else { "\n\n" };
        Self { title, body: format!("{body}{gap}aynig-run: {slug}\n") }
    }

    /// The digest by which texts of others are recognised. Forges change the ends of lines.
    pub(super) fn digest(&self) -> String {
        let body: Vec<&str> = self.body.trim().lines().map(str::trim_end).collect();
        sha256(format!("{}\n\n{}", self.title.trim(), body.join("\n")).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(label: &str, commits: &[&str]) -> (String, String) {
        let commits: Vec<Message> = commits.iter().map(|text| Message::parse(text.as_bytes())).collect();
        let masks = Masks::new(vec!["s3cret".to_owned()], "").expect("no expression");
        let Texts { title, body } = Texts::of(label, "0a1b2c3d/fix", "0a1b2c3d", &commits, &masks);
        (title, body)
    }

    /// CONTRACT 21.6
    #[test]
    fn titles_and_texts() {
        const OWN: &str = "Fix  s3cret\n\nBecause s3cret.\n\nCo-authored-by: A <a@b>\n";
        const SNAP: &str = "snapshot: fix\n\naynig-run: 1\n";
        for (label, commits, title, body) in [
            ("", &[OWN][..], "Fix ***", "Because ***.\n\naynig-run: 0a1b2c3d\n"),
            ("", &[OWN, SNAP], "Fix ***", "- Fix  ***\n- snapshot: fix\n\naynig-run: 0a1b2c3d\n"),
            ("", &[SNAP], "0a1b2c3d/fix", "aynig-run: 0a1b2c3d\n"),
            ("", &[OWN, "Two\n"], "0a1b2c3d/fix", "- Fix  ***\n- Two\n\naynig-run: 0a1b2c3d\n"),
            ("a s3cret\nlabel\u{1b}[1m", &["One\n"], "a *** label[1m", "aynig-run: 0a1b2c3d\n"),
        ] {
            assert_eq!(texts(label, commits), (title.to_owned(), body.to_owned()), "{label} {commits:?}");
        }
        let many: Vec<String> = (0..60).map(|number| format!("commit {number}\n")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(texts("", &many).1.contains("- commit 49\n- and 10 more\n"));
        let long = format!("x\n\n{}\n", "é".repeat(BODY));
        assert!(texts("", &[&long]).1.len() <= BODY + 40);
        let of = |body: &str| Texts { title: "t".to_owned(), body: body.to_owned() }.digest();
        assert_eq!(of("a\r\nb \r\n"), of("a\nb"));
        assert_ne!(of("a\nb"), of("a\nc"));
    }
}
