//! A command that leaves something mounted below its worktree: nothing on that file system is deleted or
//! copied, and the worktree stays until it is unmounted.

use std::fs;
use std::process::{Command, Output};

use super::*;

/// Mounts the directory `precious` at `place`, a directory with a blank in its name.
fn mounting(place: &str) -> String {
    format!("mkdir -p \"{place}\" && mount --bind \"$ROOM/precious\" \"{place}\" || exit 77\n")
}

fn scene(script: &str) -> Repo {
    let repo = Repo::with_commands(&[("step", script)]);
    repo.write(".gitignore", "ignored/\n");
    repo.commit_all("ignores");
    repo.ready("work", "step");
    fs::create_dir_all(repo.beside("precious/sub")).expect("directories");
    for file in ["top", "sub/file"] {
        fs::write(repo.beside("precious").join(file), "data\n").expect("a file");
    }
    repo
}

impl Repo {
    /// Runs shell in a mount namespace of its own, where `$AYNIG` is the program.
    fn among_mounts(&self, script: &str) -> Output {
        let mut command = Command::new("unshare");
        hermetic(command.args(["-m", "sh", "-c", script])).current_dir(&self.path);
        command.env("ROOM", self.beside("")).env("AYNIG", binary()).output().expect("unshare runs")
    }

    fn assert_precious(&self, about: &str) {
        for file in ["top", "sub/file"] {
            let text = fs::read_to_string(self.beside("precious").join(file));
            assert_eq!(text.ok().as_deref(), Some("data\n"), "{about}: {file}");
        }
        let copied = self.git(["rev-list", "--all", "--objects"]);
        assert!(!copied.lines().any(|line| line.ends_with("sub/file")), "{about}: it was copied");
    }

    /// The last worktree on git's list.
    fn last_worktree(&self) -> String {
        let list = self.git(["worktree", "list", "--porcelain"]);
        list.rsplit("worktree ").next().expect("one").to_owned()
    }
}

/// CONTRACT 9.7
#[test]
fn nothing_is_deleted_through_a_mount() {
    if !may_mount() {
        return;
    }
    for (place, end, code) in [
        ("ignored/a place", DONE, 0),
        ("seen/a place", DONE, 0),
        ("seen/a place", "exit 1", 1),
        ("ignored/a place", "exit 1", 1),
    ] {
        let about = format!("{place}, {end}");
        let repo = scene(&(mounting(place) + end));
        let output = repo.among_mounts(
            "\"$AYNIG\" run; code=$?; echo ---; \"$AYNIG\" run; echo ---; \"$AYNIG\" clean --apply; \"$AYNIG\" doctor; exit $code",
        );
        assert_exit(&output, code);
        repo.assert_precious(&about);
        let kept = repo.last_worktree();
        assert!(kept.contains("\nlocked") && kept.contains("aynig kept from attempt"), "{about}: {kept}");
        assert!(kept.contains("\ndetached\n"), "{about}: {kept}");
        let path = PathBuf::from(kept.lines().next().expect("a path"));
        let line = format!("`umount '{}'`, then `aynig clean`", path.join(place).display());
        let printed = out(&output);
        let (run, clean) = printed.split_once("---").expect("two");
        for text in [run, clean, &kept.replace("\\'", "'")] {
            assert!(text.contains(&line), "{about}: {line}\n{text}{}", err(&output));
        }
        assert!(!printed.contains("worktree remove"), "that would delete it: {printed}");
        // The namespace is gone, and the mount with it.
        repo.aynig_ok(["clean", "--apply"]);
        assert!(!path.exists(), "{about}: {}", out(&repo.aynig_ok(["clean"])));
        repo.assert_precious(&about);
        repo.assert_tidy();
    }
}

/// CONTRACT 9.7, 9.15
#[test]
fn no_pool_cleans_a_mount() {
    if !may_mount() {
        return;
    }
    let repo = scene(&(mounting("ignored/a place") + DONE));
    for n in 0..1_000 {
        repo.write(&format!("dir{}/file{n}", n / 100), "x\n");
    }
    repo.commit_all("many files");
    repo.ready("work", "step");
    assert_exit(&repo.among_mounts("\"$AYNIG\" run"), 0);
    repo.assert_precious("pool");
    assert!(repo.last_worktree().contains("aynig kept from attempt"), "{}", repo.last_worktree());
}

/// CONTRACT 5.5, 9.7
#[test]
fn no_recovery_deletes_through_a_mount() {
    if !may_mount() {
        return;
    }
    let repo = scene(&(mounting("seen/a place") + DONE));
    let output = repo.among_mounts(
        "AYNIG_CRASH_AT=command-ended \"$AYNIG\" run --lease-seconds 2
         for i in $(seq 200); do
             \"$AYNIG\" run
             case \"$(git log -1 --format=%B work)\" in *dwp-state:\\ stalled*) exit 0;; esac
             sleep 0.1
         done; exit 9",
    );
    assert_exit(&output, 0);
    repo.assert_precious("recovery");
    let kept = repo.last_worktree();
    assert!(kept.contains("aynig kept from attempt") && kept.contains("umount"), "{kept}");
    let message = repo.message("work");
    assert!(message.contains("Left in place") && message.contains("umount"), "{message}");
}

/// CONTRACT 15.7, 15.9
#[test]
fn a_workspace_with_a_mount_says_where_that_is_now() {
    if !may_mount() {
        return;
    }
    let repo = scene("exit 0");
    repo.git(["config", "aynig.workPrefix", "ws/"]);
    let made = repo.made("fix");
    fs::create_dir(made.path.join("m")).expect("a directory");
    let script = format!(
        "export XDG_STATE_HOME=\"$ROOM/state\"; mount --bind \"$ROOM/precious\" '{path}/m' || exit 77
         \"$AYNIG\" workspace rollback {slug} || exit 1
         mkdir '{path}.gone-7' '{path}.gone-7/m' && mount --bind \"$ROOM/precious\" '{path}.gone-7/m' || exit 77
         echo --- >&2; \"$AYNIG\" workspace remove --apply {slug}",
        path = made.path.display(),
        slug = made.slug
    );
    let output = repo.among_mounts(&script);
    assert_exit(&output, 0);
    let errors = err(&output);
    let (rolled_back, removed) = errors.split_once("---\n").expect("two");
    let place = |name: &str| made.path.with_file_name(name).display().to_string();
    assert!(rolled_back.contains(&format!("umount {}/m", place("fix.kept-1"))), "{rolled_back}");
    assert!(!rolled_back.contains(&format!("{}/m", made.path.display())), "{rolled_back}");
    let gone = place("fix.gone-7");
    assert!(!out(&output).contains(&gone), "{}", out(&output));
    assert!(removed.contains(&format!("umount {gone}/m")), "{removed}");
    repo.assert_precious("workspace");
}
