//! `aynig install`: its refusals, and that a refusal changes nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::install::*;
use super::scene::told;
use super::support::*;

#[test]
fn what_is_not_committed_is_not_touched() {
    let pack = source(&[("command/hello", HELLO)]);
    type Change = fn(&Repo);
    let cases: [(&str, &str, Change); 6] = [
        ("untracked", "command/hello", |repo| repo.write(".aynig/command/hello", "my\n")),
        ("staged", "command/old", |repo| {
            repo.write(".aynig/command/old", "staged\n");
            repo.git(["add", "--all"]);
        }),
        ("unstaged", "command/old", |repo| repo.write(".aynig/command/old", "changed\n")),
        ("removed", "command/old", |repo| {
            fs::remove_file(repo.path.join(".aynig/command/old")).expect("as the test made it")
        }),
        ("ignored", "command/hello", |repo| {
            repo.write(".git/info/exclude", "hello\n");
            repo.write(".aynig/command/hello", "my\n");
        }),
        ("assumed unchanged", "command/hello", |repo| {
            repo.write(".aynig/command/hello", "old\n");
            repo.commit_all("one of mine");
            repo.git(["update-index", "--assume-unchanged", ".aynig/command/hello"]);
            repo.write(".aynig/command/hello", "my\n");
        }),
    ];
    for (what, path, change) in cases {
        let repo = Repo::new();
        repo.write(".aynig/command/old", "old\n");
        repo.commit_all("commands");
        change(&repo);
        let before = (
            repo.git(["status", "--porcelain", "-uall", "--ignored"]),
            read(&repo, &format!(".aynig/{path}")),
        );
        for more in [["--force"].as_slice(), &["--force", "--apply"]] {
            let output = repo.aynig(["install", at(&pack)].iter().chain(more).copied());
            assert_refused(
                &output,
                3,
                &[&format!(".aynig/{path}"), "not what is committed", "git stash push"],
            );
        }
        let after = (
            repo.git(["status", "--porcelain", "-uall", "--ignored"]),
            read(&repo, &format!(".aynig/{path}")),
        );
        assert_eq!(before, after, "{what}");
    }
    // Untracked files outside `.aynig/` are fine, and the repository may have no commit yet.
    let repo = Repo::unborn();
    repo.write("other", "untracked\n");
    repo.aynig_ok(["install", at(&pack), "--apply"]);
    assert_eq!(read(&repo, ".aynig/command/hello"), HELLO);
}

/// A commit in `repo` whose `.aynig/` has these entries, written without git's checks.
fn hostile(repo: &Repo, entries: &[(&str, &str, &str)]) {
    let raw = |id: &str| -> Vec<u8> {
        (0..id.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&id[at..at + 2], 16).expect("as the test made it"))
            .collect()
    };
    let tree = |entries: &[(String, String, Vec<u8>)]| {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend(format!("{mode} {name}\0").into_bytes());
            bytes.extend(id);
        }
        repo.git_with_input(&["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &bytes)
    };
    let entries: Vec<(String, String, Vec<u8>)> = entries
        .iter()
        .map(|(mode, name, content)| {
            let id = match *mode {
                "160000" => repo.head("HEAD"),
                "40000" => {
                    let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes());
                    tree(&[("100644".into(), "inner".into(), raw(&blob))])
                }
                _ => repo.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes()),
            };
            ((*mode).to_owned(), (*name).to_owned(), raw(&id))
        })
        .collect();
    let inner = tree(&entries);
    let top = tree(&[("40000".into(), ".aynig".into(), raw(&inner))]);
    let commit = repo.git(["commit-tree", "-m", "hostile", &top]);
    repo.git(["update-ref", "refs/heads/main", &commit]);
}

#[test]
fn packs_that_could_reach_out_are_refused_as_a_whole() {
    for (entries, words) in [
        ([("100644", "fine", "x"), ("40000", "..", "x")].as_slice(), "hasDotdot"),
        (&[("40000", ".git", "x")], "hasDotgit"),
        (&[("40000", ".GIT", "x")], "hasDotgit"),
        (&[("40000", "git~1", "x")], "hasDotgit"),
        (&[("100644", "../../escaped", "x")], "fullPathname"),
        (&[("100644", "/tmp/escaped", "x")], "fullPathname"),
        (&[("100644", "a\\b", "x")], "something else"),
        (&[("120000", "out", "../../escaped")], "out of the pack"),
        (&[("120000", "out", "/etc")], "out of the pack"),
        (&[("120000", "a", "b"), ("40000", "b", "x"), ("120000", "c", "a/../../x")], "through another link"),
        (&[("160000", "module", "")], "submodule"),
        (&[("100644", "A", "x"), ("100644", "a", "x")], "upper and lower case"),
        (&[("100644", "a", "x"), ("40000", "a", "x")], "duplicateEntries"),
        (&[("40000", "logs", "x")], "runner's logs"),
    ] {
        let pack = Repo::new();
        hostile(&pack, entries);
        let repo = Repo::new();
        for more in [[].as_slice(), &["--apply", "--force"]] {
            let output = repo.aynig(["install", at(&pack)].iter().chain(more).copied());
            assert_refused(&output, 3, &["nothing was installed", words]);
        }
        assert!(!repo.path.join(".aynig").exists(), "{entries:?}");
        assert!(!repo.path.join("escaped").exists() && !Path::new("/tmp/escaped").exists());
        assert_nothing_left(&repo);
    }
}

/// A repository over dumb HTTP: git does not check the trees it fetches from there.
const SERVER: &str = "import http.server as h, functools as f, sys
server = h.HTTPServer(('127.0.0.1', 0), f.partial(h.SimpleHTTPRequestHandler, directory=sys.argv[1]))
print(server.server_port, flush=True)
server.serve_forever()";

#[test]
fn names_that_a_plain_server_hands_out_unchecked_are_refused() {
    let pack = Repo::new();
    hostile(&pack, &[("100644", "fine", "x"), ("40000", "..", "x")]);
    pack.git(["update-server-info"]);
    let mut python = Command::new("python3");
    python.args(["-c", SERVER]).arg(pack.path.join(".git"));
    let mut server = Running::start(python.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let url = format!("http://127.0.0.1:{}/", server.next_line());
    let repo = Repo::new();
    for more in [[].as_slice(), &["--apply", "--force"]] {
        let output = repo.aynig(["install", &url, "main"].iter().chain(more).copied());
        assert_refused(&output, 3, &["nothing was installed", "../inner"]);
    }
    assert!(!repo.path.join(".aynig").exists() && !repo.path.join("inner").exists());
    server.signal(nix::sys::signal::Signal::SIGKILL);
    server.finish();
}

#[test]
fn links_and_other_repositories_here_are_not_written_through() {
    let pack = source(&[("command/hello", HELLO)]);
    for link in [".aynig", ".aynig/command"] {
        let repo = Repo::new();
        let elsewhere = repo.beside("elsewhere");
        fs::create_dir_all(elsewhere.join("command")).expect("as the test made it");
        fs::create_dir_all(repo.path.join(link).parent().expect("as the test made it"))
            .expect("as the test made it");
        symlink(&elsewhere, repo.path.join(link)).expect("as the test made it");
        repo.commit_all("a link");
        let output = repo.aynig(["install", at(&pack), "--apply", "--force"]);
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        let way = format!("something is in the way: {link} is a symbolic link here\n");
        assert!(err(&output).contains(&way), "{}", told(&output));
        assert_eq!(files_below(&elsewhere), Vec::<std::path::PathBuf>::new());
    }
    // The gitlink of a submodule that is not checked out. Its empty directory counts as that submodule for
    // git.
    for module in [".aynig", ".aynig/command"] {
        let repo = Repo::new();
        let head = repo.head("HEAD");
        repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{head},{module}")]);
        repo.git(["commit", "--quiet", "-m", "a submodule"]);
        fs::create_dir_all(repo.path.join(module)).expect("a directory");
        let output = repo.aynig(["install", at(&pack), "--apply"]);
        assert_refused(&output, 3, &[&format!("{module} is a submodule here")]);
    }
    let repo = Repo::new();
    repo.git(["init", "--quiet", ".aynig/command"]);
    let output = repo.aynig(["install", at(&pack), "--apply"]);
    assert_refused(&output, 3, &["not what is committed: .aynig/command/"]);
    // A symlink at a path that the pack writes is itself replaced, once it is committed and `--force` is
    // given.
    let repo = Repo::new();
    let victim = repo.beside("victim");
    fs::write(&victim, "victim\n").expect("as the test made it");
    fs::create_dir_all(repo.path.join(".aynig/command")).expect("as the test made it");
    symlink(&victim, repo.path.join(".aynig/command/hello")).expect("as the test made it");
    repo.commit_all("a link");
    repo.aynig_ok(["install", at(&pack), "--apply", "--force"]);
    assert_eq!(fs::read_to_string(&victim).expect("as the test made it"), "victim\n");
    assert_eq!(read(&repo, ".aynig/command/hello"), HELLO);
}

#[test]
fn what_cannot_be_meant_is_usage() {
    let repo = Repo::new();
    for (arguments, words) in [
        (["name"].as_slice(), "OWNER/NAME"),
        (&["ext::sh -c true"], "start a program"),
        (&["--", "--upload-pack=true"], "names no repository"),
        (&[".", "a:b"], "no branch"),
        (&[".", "HEAD", "../x"], "below the top"),
        (&[".", "HEAD", "/x"], "below the top"),
    ] {
        assert_refused(&repo.aynig(["install"].iter().chain(arguments).copied()), 2, &[words]);
    }
    assert_eq!(repo.aynig(["install"]).status.code(), Some(2));
    let bare = Repo::new().into_bare();
    assert_refused(&bare.aynig(["install", at(&bare)]), 3, &["is bare", "clone"]);
}

#[test]
fn a_record_that_is_none_is_not_overwritten() {
    let pack = source(&[("command/hello", HELLO)]);
    let escape = json!({"version": 1, "packs": [{
        "source": at(&pack), "subfolder": "", "ref": "HEAD", "commit": "", "installed": "",
        "files": {"../README": {"mode": "100644", "id": Repo::new().git(["rev-parse", "HEAD:README"])}},
    }]});
    for text in ["no json", "{\"version\":9,\"packs\":[]}"] {
        let repo = Repo::new();
        repo.write(".aynig/installed.json", text);
        repo.commit_all("a record");
        let output = repo.aynig(["install", at(&pack), "--apply", "--force"]);
        assert_refused(&output, 3, &["installed.json", "git restore"]);
        assert_eq!(repo.git(["status", "--porcelain", "-uall"]), "");
    }
    let repo = Repo::new();
    repo.write(".aynig/installed.json", &escape.to_string());
    repo.commit_all("a record");
    repo.aynig_ok(["install", at(&pack), "--apply", "--force"]);
    assert_eq!(
        repo.git(["status", "--porcelain", "-uall", "--", ":!.aynig"]),
        "",
        "no file elsewhere is removed"
    );
}
