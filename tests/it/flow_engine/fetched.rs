//! Two commands of one clone that fetch at the same moment.

use std::os::unix::fs::PermissionsExt;

use super::gate::{GATE, clone};
use super::*;

/// CONTRACT 16.2
#[test]
fn a_ref_that_another_command_of_this_clone_moves_is_fetched_again() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", GATE));
    other.aynig_ok(["flow", "list"]);
    one.aynig_ok(["run", "--drain"]);
    let place = other.path.join(".git");
    let program = |name: &str, text: String| {
        let path = place.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a program");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        path.display().to_string()
    };
    let (here, id) = (place.display(), &run.id);
    let base = one.head("main");
    let packs = program(
        "packs",
        format!(
            "own=$GIT_DIR; unset GIT_DIR
if mkdir {here}/moved 2>/dev/null; then
    commit=$(git --git-dir={here} commit-tree -m moved {base}^{{tree}})
    for name in $(git --git-dir={here} for-each-ref --format='%(refname)' refs/aynig | grep {id} | grep -v ^refs/aynig/runs/); do
        git --git-dir={here} update-ref \"$name\" $commit
    done
fi
[ -z \"$own\" ] || export GIT_DIR=\"$own\"
exec \"$@\""
        ),
    );
    let serves =
        program("serves", format!("exec git -c uploadpack.packObjectsHook={packs} upload-pack \"$@\""));
    other.git(["config", "remote.origin.uploadpack", &serves]);
    let shown = other.aynig(["flow", "approve", &run.slug]);
    assert!(place.join("moved").exists(), "nothing was moved: {}", told(&shown));
    assert_eq!(shown.status.code(), Some(0), "{}", told(&shown));
    assert!(!err(&shown).contains("could not fetch"), "{}", told(&shown));
}
