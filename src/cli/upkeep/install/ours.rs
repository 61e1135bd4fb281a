//! The packs that come with aynig, as part of the program: `aynig install NAME`.

use std::collections::BTreeSet;
use std::fs::{File, Permissions, create_dir_all, set_permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

macro_rules! pack {
    ($path:literal) => {
        ($path, include_bytes!(concat!("../../../../contrib/packs/", $path)))
    };
}

/// All files of the packs in `contrib/packs/`, without their READMEs.
const FILES: [(&str, &[u8]); 35] = [
    pack!("feature/.aynig/command/check"),
    pack!("feature/.aynig/command/implement"),
    pack!("feature/.aynig/command/plan"),
    pack!("feature/.aynig/command/review"),
    pack!("feature/.aynig/command/stalled"),
    pack!("feature/.aynig/feature/agent"),
    pack!("hello/.aynig/command/hello"),
    pack!("ops/.aynig/command/ask-again"),
    pack!("ops/.aynig/command/stalled"),
    pack!("ops/.aynig/policy.json"),
    pack!("orchestration/.aynig/drivers/flow-step"),
    pack!("orchestration/.aynig/drivers/orch-turn"),
    pack!("orchestration/.aynig/drivers/stalled"),
    pack!("orchestration/.aynig/flows/change"),
    pack!("orchestration/.aynig/flows/fix.yaml"),
    pack!("orchestration/.aynig/flows/review.yaml"),
    pack!("orchestration/.aynig/flows/verdict"),
    pack!("orchestration/.aynig/graphs/pair.yaml"),
    pack!("orchestration/.aynig/graphs/team.yaml"),
    pack!("orchestration/.aynig/prompts/fix.md"),
    pack!("orchestration/.aynig/prompts/judge.md"),
    pack!("orchestration/.aynig/prompts/review.md"),
    pack!("orchestration/.aynig/templates/implementer.md"),
    pack!("orchestration/.aynig/templates/planner.md"),
    pack!("orchestration/.aynig/templates/reviewer.md"),
    pack!("review/.aynig/command/check"),
    pack!("review/.aynig/command/implement"),
    pack!("review/.aynig/command/review"),
    pack!("review/.aynig/review.json"),
    pack!("review/.aynig/review/check"),
    pack!("review/.aynig/review/common.py"),
    pack!("review/.aynig/review/implement.md"),
    pack!("review/.aynig/review/review.md"),
    pack!("review/.aynig/review/stand-in"),
    pack!("review/.aynig/roles/careful/command/review"),
];

/// The names of the packs.
pub(crate) fn names() -> BTreeSet<&'static str> {
    FILES.iter().filter_map(|(path, _)| Some(path.split_once('/')?.0)).collect()
}

/// Writes the files of a pack below `directory`. Those that begin with `#!` are programs.
///
/// # Errors
/// Any error from writing.
pub(crate) fn unpack(name: &str, directory: &Path) -> io::Result<()> {
    for (path, bytes) in FILES {
        let Some(("", path)) = path.strip_prefix(name).and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        let file = directory.join(path);
        create_dir_all(file.parent().unwrap_or(directory))?;
        File::create_new(&file)?.write_all(bytes)?;
        let mode = if bytes.starts_with(b"#!") { 0o755 } else { 0o644 };
        set_permissions(&file, Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_every_pack_is_part_of_the_program() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/packs");
        let mut ahead = vec![top.clone()];
        let mut there = BTreeSet::new();
        while let Some(directory) = ahead.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let (entry, path) = (entry.as_ref().unwrap(), entry.as_ref().unwrap().path());
                if entry.file_type().unwrap().is_dir() {
                    ahead.push(path);
                } else if path.to_str().unwrap().contains("/.aynig/") {
                    let name = path.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
                    let executable = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
                    assert_eq!(std::fs::read(&path).unwrap().starts_with(b"#!"), executable, "{name}");
                    there.insert(name);
                }
            }
        }
        assert_eq!(FILES.map(|(path, _)| path.to_owned()), there.into_iter().collect::<Vec<_>>()[..]);
    }
}
