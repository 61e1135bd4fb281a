//! A worktree goes from one step to another: no process that the first one left reaches the second.

use super::pool::large;
use super::spare::small;
use super::support::*;

/// Maps a file, shared and writable, closes it, and writes to it later.
const MAP: &str = r#"
import ctypes, os, sys, time
room, file = sys.argv[1:]
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open(file, os.O_RDWR)
at = libc.mmap(None, 4096, 3, 1, fd, 0)
os.close(fd)
open(room + "/holds", "w").close()
while os.path.isdir(room) and not os.path.exists(room + "/go"): time.sleep(0.01)
ctypes.memmove(at, b"late", 4)
open(room + "/late", "w").close()
"#;

/// Has a file open in a thread, while the main thread has ended.
const THREAD: &str = r#"
import ctypes, os, sys, threading, time
room, file = sys.argv[1:]
fd = os.open(file, os.O_RDWR)
def late():
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z": time.sleep(0.01)
    open(room + "/holds", "w").close()
    while os.path.isdir(room) and not os.path.exists(room + "/go"): time.sleep(0.01)
    os.pwrite(fd, b"late", 0)
    open(room + "/late", "w").close()
    os._exit(0)
threading.Thread(target=late).start()
ctypes.CDLL(None).pthread_exit(None)
"#;

/// Lets the process that the previous step left act now, and records what came of it here.
const LOOK: &str = r#"
touch "$ROOM/go"; await late
git diff --cached --name-only >"$ROOM/staged.$AYNIG_BRANCH"
cp dir0/file1 "$ROOM/file.$AYNIG_BRANCH"
stat -c %i dir0/file1 >"$ROOM/inode.$AYNIG_BRANCH"
git rev-parse --absolute-git-dir >"$ROOM/own.$AYNIG_BRANCH"
next done"#;

/// A command that leaves a process, which stages a file in the registration of the step by `how`.
fn stages_later(how: &str) -> String {
    format!(
        "own=$(git rev-parse --absolute-git-dir); echo \"$own\" >\"$ROOM/own.a\"
stat -c %i dir0/file1 >\"$ROOM/inode.a\"
( {how}; say holds x; await go; id=$(echo late | git hash-object -w --stdin)
git update-index --add --cacheinfo \"100644,$id,late\"; say late x ) >/dev/null 2>&1 &
await holds
next done"
    )
}

/// CONTRACT 9.15
#[test]
fn a_process_that_knows_the_registration_of_a_step_does_not_reach_the_next() {
    for how in ["cd /; export GIT_DIR=\"$own\"", "cd \"$own\"; export GIT_DIR=."] {
        let stay = stages_later(how);
        let commands: [(&str, &str); 2] = [("stay", &stay), ("look", LOOK)];
        for (repo, runs) in [
            (small(&commands), vec![vec!["run"]]),
            (large(&commands), vec![vec!["run", "--branch", "a"], vec!["run", "--branch", "b"]]),
        ] {
            repo.ready("a", "stay");
            repo.ready("b", "look");
            for arguments in runs {
                repo.aynig_ok(arguments);
            }
            assert_eq!(repo.state("b"), "done", "{how}: {}", repo.message("b"));
            assert_eq!(repo.left_by("staged.b"), "", "{how}");
            assert!(!repo.git(["ls-tree", "--name-only", "b"]).contains("late"), "{how}");
            assert_ne!(repo.left_by("own.a"), repo.left_by("own.b"), "{how}");
            if how.contains("cd /") {
                assert_eq!(repo.left_by("inode.a"), repo.left_by("inode.b"), "it was handed on all the same");
            }
        }
    }
}

/// CONTRACT 9.15
#[test]
fn a_process_that_can_still_write_to_a_file_does_not_reach_the_next_step() {
    for program in [MAP, THREAD] {
        let stay = format!(
            "( cd / && exec python3 -c '{program}' \"$ROOM\" \"$WORKTREE_PATH/dir0/file1\" ) >/dev/null 2>&1 &
await holds
next done"
        );
        let repo = small(&[("stay", &stay), ("look", LOOK)]);
        repo.ready("a", "stay");
        repo.ready("b", "look");
        repo.aynig_ok(["run"]);
        assert_eq!(repo.state("b"), "done", "{}", repo.message("b"));
        assert_eq!(repo.left_by("file.b").trim(), "file at dir0/file1", "{program}");
        repo.assert_tidy();
    }
}

/// Where so much is open on the host that looking through it takes longer than a checkout, the log says so.
/// CONTRACT 9.15
#[test]
fn a_busy_host_does_not_end_the_handing_on_in_silence() {
    let open: Vec<std::fs::File> =
        (0..600).map(|_| std::fs::File::open("/dev/null").expect("within the limit of open files")).collect();
    let repo = Repo::scene(&[("work", "stat -c %i . >\"$ROOM/inode.$AYNIG_BRANCH\"; next done")]);
    repo.ready("a", "work");
    repo.ready("b", "work");
    let mut run = repo.aynig_command();
    run.args(["--log-level", "debug", "run"]);
    let output = run.output().expect("aynig runs");
    drop(open);
    assert!(
        repo.left_by("inode.a") == repo.left_by("inode.b")
            || err(&output).contains("open files of other processes"),
        "{}",
        err(&output)
    );
}
