//! `aynig install`: the files it shows, writes, keeps and reverts. Sources are repositories beside the one
//! under test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use serde_json::{Value, json};

use super::scene::told;
use super::support::*;

/// A source with these files below `.aynig/`, executable if they begin with `#!`.
pub(crate) fn source(files: &[(&str, &str)]) -> Repo {
    let repo = Repo::new();
    put(&repo, files);
    repo.commit_all("a pack");
    repo
}

pub(crate) fn put(repo: &Repo, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = format!(".aynig/{name}");
        repo.write(&path, text);
        let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
        fs::set_permissions(repo.path.join(path), fs::Permissions::from_mode(mode))
            .expect("as the test made it");
    }
}

pub(crate) fn at(repo: &Repo) -> &str {
    repo.path.to_str().expect("as the test made it")
}

pub(crate) fn read(repo: &Repo, path: &str) -> String {
    fs::read_to_string(repo.path.join(path)).unwrap_or_else(|error| format!("({path}: {error})"))
}

/// Installs and commits.
fn installed(repo: &Repo, arguments: &[&str]) {
    repo.aynig_ok(["install"].iter().chain(arguments).chain(&["--apply"]).copied());
    repo.commit_all("installed");
}

/// `path change` for each file of the JSON answer.
fn changes(answer: &Value) -> Vec<String> {
    let files = answer["files"].as_array().unwrap_or_else(|| panic!("{answer}"));
    files
        .iter()
        .map(|file| {
            format!(
                "{} {}",
                file["path"].as_str().expect("as the test made it"),
                file["change"].as_str().expect("as the test made it")
            )
        })
        .collect()
}

/// Asserts that an install leaves only the files it wrote: no fetched objects, no refs, no temporary files.
pub(crate) fn assert_nothing_left(repo: &Repo) {
    assert_eq!(
        repo.git(["for-each-ref", "--format=%(refname)"])
            .lines()
            .filter(|name| !name.starts_with("refs/heads/"))
            .count(),
        0
    );
    assert!(!repo.path.join(".git/shallow").exists() && !repo.path.join(".git/FETCH_HEAD").exists());
    let drafts = files_below(&repo.path.join(".aynig")).into_iter();
    assert_eq!(
        drafts
            .filter(|file| file
                .file_name()
                .expect("as the test made it")
                .to_str()
                .expect("as the test made it")
                .starts_with(".aynig-"))
            .count(),
        0
    );
    repo.assert_tidy();
}

pub(crate) const HELLO: &str = "#!/bin/sh\necho 'SET_STATE {\"state\":\"done\"}'\n";

#[test]
fn it_shows_first_and_writes_what_it_was_told_to_and_what_came_runs() {
    let pack = source(&[
        ("command/hello", HELLO),
        ("roles/big/command/hello", HELLO),
        ("notes.md", "notes\n"),
        ("lib/tool", "#!/bin/sh\n"),
    ]);
    pack.write("other", "not of the pack");
    symlink("../lib/tool", pack.path.join(".aynig/command/tool")).expect("as the test made it");
    let commit = pack.commit_all("more");
    let repo = Repo::new();
    let shown = out(&repo.aynig_ok(["install", at(&pack)]));
    for line in [
        "  add        .aynig/command/hello  (runs for the state hello)",
        "  add        .aynig/command/tool  (runs for the state tool, link to ../lib/tool)",
        "  add        .aynig/lib/tool  (executable)",
        "  add        .aynig/notes.md",
        "  add        .aynig/roles/big/command/hello  (runs for the state hello in the role big)",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line:?} is missing in {shown}");
    }
    assert!(shown.lines().any(|line| line.ends_with(&format!(" (HEAD is {commit})"))), "{commit}: {shown}");
    assert_eq!(repo.git(["status", "--porcelain"]), "", "nothing was written");
    assert_nothing_left(&repo);

    let typed = shown.lines().find_map(|line| line.strip_prefix("  aynig ")).expect("what to type");
    let wrote = out(&repo.aynig_ok(typed.split(' ')));
    assert!(wrote.contains("git add .aynig && git commit"), "{wrote}");
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "", "nothing is staged");
    assert_nothing_left(&repo);
    repo.git(["add", ".aynig"]);
    let tree = |repo: &Repo, revision: &str| repo.git(["ls-tree", "-r", revision, ".aynig/"]);
    let without: Vec<String> = {
        repo.commit_all("install");
        tree(&repo, "HEAD")
            .lines()
            .filter(|line| !line.ends_with("installed.json"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(without.join("\n"), tree(&pack, "HEAD"), "modes, links and contents are those of the pack");
    assert!(!repo.path.join("other").exists());
    let record: Value =
        serde_json::from_str(&read(&repo, ".aynig/installed.json")).expect("as the test made it");
    let known = &record["packs"][0];
    assert_eq!(
        (known["commit"].as_str(), known["source"].as_str()),
        (Some(commit.as_str()), Some(at(&pack)))
    );
    assert_eq!(known["files"]["command/tool"]["mode"], "120000");

    let again = out(&repo.aynig_ok(["install", at(&pack), "--apply"]));
    assert!(again.contains("Up to date"), "{again}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    repo.ready("task", "hello");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    repo.assert_tidy();
}

#[test]
fn a_newer_pack_meets_what_was_changed_here() {
    let pack = source(&[
        ("a", "1\n"),
        ("both", "1\n"),
        ("here", "1\n"),
        ("left", "1\n"),
        ("left-changed", "1\n"),
        ("gone", "1\n"),
        ("run", "1\n"),
    ]);
    let repo = Repo::new();
    installed(&repo, &[at(&pack)]);
    put(
        &pack,
        &[("a", "2\n"), ("both", "2\n"), ("new", "2\n"), ("mine", "2\n"), ("run", "1\n"), ("deep/er", "2\n")],
    );
    fs::set_permissions(pack.path.join(".aynig/run"), fs::Permissions::from_mode(0o755))
        .expect("as the test made it");
    pack.git(["rm", "--quiet", ".aynig/left", ".aynig/left-changed"]);
    let second = pack.commit_all("second");
    put(&repo, &[("both", "my\n"), ("here", "my\n"), ("left-changed", "my\n"), ("mine", "my\n")]);
    repo.git(["rm", "--quiet", ".aynig/gone"]);
    repo.commit_all("changes here");

    let expected = [
        ".aynig/a change",
        ".aynig/both conflict",
        ".aynig/deep/er add",
        ".aynig/gone kept",
        ".aynig/here kept",
        ".aynig/left remove",
        ".aynig/left-changed conflict",
        ".aynig/mine conflict",
        ".aynig/new add",
        ".aynig/run change",
    ];
    let shown = json(&repo.aynig_ok(["install", at(&pack), "--json"]));
    assert_eq!(changes(&shown), expected);
    assert_eq!(
        (&shown["applied"], &shown["upToDate"], &shown["commit"]),
        (&json!(false), &json!(false), &json!(second))
    );
    assert_eq!(repo.git(["status", "--porcelain"]), "");

    let output = repo.aynig(["install", at(&pack), "--apply"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let said = out(&output);
    assert!(said.contains("3 in conflict") && said.contains("once this is committed, `--force`"), "{said}");
    assert_refused(&repo.aynig(["install", at(&pack), "--apply", "--force"]), 3, &["not what is committed"]);
    repo.commit_all("second");
    for (name, text) in [
        ("a", "2\n"),
        ("both", "my\n"),
        ("here", "my\n"),
        ("left-changed", "my\n"),
        ("mine", "my\n"),
        ("deep/er", "2\n"),
    ] {
        assert_eq!(read(&repo, &format!(".aynig/{name}")), text, "{name}");
    }
    assert!(!repo.path.join(".aynig/left").exists() && !repo.path.join(".aynig/gone").exists());
    assert!(repo.git(["ls-files", "-s", ".aynig/run"]).starts_with("100755"));

    // A reported conflict is recorded: the file stays, and the conflict is not reported again.
    let again = json(&repo.aynig_ok(["install", at(&pack), "--apply", "--json"]));
    assert_eq!(again["upToDate"], true, "{again}");
    assert_eq!(changes(&again).iter().filter(|change| change.ends_with(" kept")).count(), 4);

    repo.aynig_ok(["install", at(&pack), "--apply", "--force"]);
    repo.commit_all("forced");
    for name in ["both", "here", "mine", "gone"] {
        assert_eq!(read(&repo, &format!(".aynig/{name}")), read(&pack, &format!(".aynig/{name}")), "{name}");
    }
    assert_eq!(read(&repo, ".aynig/left-changed"), "my\n", "it no longer belongs to a pack");
    assert_nothing_left(&repo);
}

#[test]
fn a_pack_is_had_by_path_url_name_ref_and_subfolder() {
    let pack = source(&[("command/top", HELLO)]);
    for (place, name) in [("packs/one", "one"), ("packs/two", "two")] {
        pack.write(&format!("{place}/.aynig/command/{name}"), HELLO);
    }
    let first = pack.commit_all("packs");
    pack.git(["tag", "-a", "-m", "a release", "v1"]);
    pack.git(["checkout", "--quiet", "-b", "next"]);
    pack.write(".aynig/command/next", HELLO);
    pack.commit_all("next");
    pack.git(["checkout", "--quiet", "main"]);
    let repo = Repo::new();
    let forge = repo.beside("config");
    fs::write(
        &forge,
        format!("[url \"file://{}\"]\n\tinsteadOf = https://github.com/owner/name\n", at(&pack)),
    )
    .expect("as the test made it");
    let url = format!("file://{}", at(&pack));
    let short = &first[..12];
    let cases: [(&[&str], &str, &str); 10] = [
        (&[at(&pack)], "command/top", at(&pack)),
        (&["../other/../repo/../pack"], "command/top", at(&pack)),
        (&[&url], "command/top", &url),
        (&["owner/name"], "command/top", "https://github.com/owner/name"),
        (&[&url, "next"], "command/next", &url),
        (&[&url, "v1"], "command/top", &url),
        (&[&url, "refs/heads/next"], "command/next", &url),
        (&[&url, &first], "command/top", &url),
        (&[&url, "HEAD", "packs/one/"], "command/one", &url),
        (&[&url, "v1", "./packs//two"], "command/two", &url),
    ];
    fs::create_dir(repo.beside("other")).expect("as the test made it");
    symlink(&pack.path, repo.beside("pack")).expect("as the test made it");
    for (arguments, path, shown) in cases {
        let mut command = repo.aynig_command();
        let output = command
            .env("GIT_CONFIG_GLOBAL", &forge)
            .arg("install")
            .args(arguments)
            .arg("--json")
            .output()
            .expect("as the test made it");
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {}", told(&output));
        let answer = json(&output);
        assert!(changes(&answer).contains(&format!(".aynig/{path} add")), "{arguments:?} {answer}");
        assert_eq!(answer["source"], shown);
        if !arguments.contains(&"next") && !arguments.contains(&"refs/heads/next") {
            assert!(
                answer["commit"].as_str().expect("as the test made it").starts_with(short),
                "{arguments:?} {answer}"
            );
        }
    }
    // An existing path of that form wins over the forge.
    fs::create_dir(repo.path.join("owner")).expect("as the test made it");
    symlink(&pack.path, repo.path.join("owner/name")).expect("as the test made it");
    let answer = json(&repo.aynig_ok(["install", "owner/name", "--json"]));
    assert_eq!(answer["source"], at(&pack));

    let output = repo.aynig(["install", &url, "HEAD", "packs"]);
    let hints = [format!("`aynig install {url} HEAD packs/one`"), "packs/.aynig".to_owned()];
    assert_refused(&output, 3, &hints.iter().map(String::as_str).collect::<Vec<_>>());
    assert_refused(
        &repo.aynig(["install", &url, "nope"]),
        3,
        &["no branch, tag or commit nope", "git ls-remote"],
    );
    assert_nothing_left(&repo);
}

#[test]
fn two_packs_live_side_by_side_and_the_source_may_be_sha256() {
    let one = source(&[("command/one", HELLO), ("shared", "one\n")]);
    let two = Repo::new();
    fs::remove_dir_all(two.path.join(".git")).expect("as the test made it");
    two.git(["init", "--quiet", "--object-format=sha256", "--initial-branch=main", "."]);
    two.git(["config", "user.name", "Test Person"]);
    two.git(["config", "user.email", "person@example.com"]);
    put(&two, &[("command/two", HELLO), ("shared", "two\n")]);
    two.commit_all("a pack");
    let repo = Repo::new();
    installed(&repo, &[at(&one)]);
    let shown = json(&repo.aynig_ok(["install", at(&two), "--json"]));
    assert_eq!(changes(&shown), [".aynig/command/two add", ".aynig/shared conflict"]);
    installed(&repo, &[at(&two), "--force"]);
    assert_eq!(read(&repo, ".aynig/shared"), "two\n");
    let record: Value =
        serde_json::from_str(&read(&repo, ".aynig/installed.json")).expect("as the test made it");
    assert_eq!(record["packs"].as_array().map(Vec::len), Some(2));
    for pack in [&one, &two] {
        let files = &record["packs"]
            .as_array()
            .expect("as the test made it")
            .iter()
            .find(|known| known["source"] == at(pack))
            .expect("as the test made it")["files"];
        assert_eq!(files.get("shared").is_some(), std::ptr::eq(pack, &two), "{record}");
    }
    let again = json(&repo.aynig_ok(["install", at(&two), "--apply", "--json"]));
    assert_eq!(again["upToDate"], true, "{again}");
    assert_nothing_left(&repo);
}

#[test]
fn a_source_that_does_not_answer_is_told_without_its_password() {
    let repo = Repo::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("as the test made it")
        .local_addr()
        .expect("as the test made it")
        .port();
    let nowhere = repo.beside("nowhere");
    let url = format!("http://me:secret-word@127.0.0.1:{port}/x");
    for source in [&url, &format!("file://{}", nowhere.display())] {
        for more in [[].as_slice(), &["--apply"]] {
            let output = repo.aynig(["install", source].iter().chain(more).copied());
            assert_refused(&output, 4, &["could not fetch from the source", "git ls-remote"]);
            assert!(!err(&output).contains("secret-word"), "{}", told(&output));
        }
    }
    // A directory without a pack is no source either.
    fs::create_dir(&nowhere).expect("as the test made it");
    assert_refused(
        &repo.aynig(["install", nowhere.to_str().expect("as the test made it")]),
        3,
        &["there is no directory .aynig"],
    );
    assert_eq!(repo.git(["status", "--porcelain", "-uall"]), "");
    assert_nothing_left(&repo);
}

#[test]
fn what_cannot_be_written_as_a_whole_is_not_begun() {
    let pack = source(&[("a", "1\n"), ("tool", "1\n"), ("z", "1\n")]);
    let repo = Repo::new();
    installed(&repo, &[at(&pack)]);
    // A directory in the pack, but a modified file here, which stays.
    pack.git(["rm", "--quiet", ".aynig/tool", ".aynig/z"]);
    put(&pack, &[("a", "2\n"), ("new/deep", "2\n"), ("tool/part", "2\n")]);
    pack.commit_all("second");
    repo.write(".aynig/tool", "my\n");
    repo.commit_all("mine");
    let output = repo.aynig(["install", at(&pack), "--apply"]);
    assert_refused(&output, 3, &["nothing was installed", ".aynig/tool"]);
    assert_eq!(repo.git(["status", "--porcelain", "-uall"]), "");
    assert!(!repo.path.join(".aynig/new").exists());
    repo.aynig_ok(["install", at(&pack), "--apply", "--force"]);
    assert_eq!(read(&repo, ".aynig/tool/part"), "2\n");
    assert_nothing_left(&repo);
}

#[test]
fn line_endings_are_those_of_this_checkout() {
    let pack = source(&[("notes", "one\ntwo  \n"), ("command/hello", HELLO)]);
    let repo = Repo::new();
    repo.write(".gitattributes", "notes text eol=crlf\n");
    repo.commit_all("line endings");
    repo.git(["config", "apply.whitespace", "error"]);
    installed(&repo, &[at(&pack)]);
    assert_eq!(read(&repo, ".aynig/notes"), "one\r\ntwo  \r\n");
    let again = json(&repo.aynig_ok(["install", at(&pack), "--json"]));
    assert_eq!(changes(&again), [".aynig/command/hello unchanged", ".aynig/notes unchanged"]);
    put(&pack, &[("notes", "three\n")]);
    pack.commit_all("second");
    installed(&repo, &[at(&pack)]);
    assert_eq!(read(&repo, ".aynig/notes"), "three\r\n");
    assert_nothing_left(&repo);
}

#[test]
fn an_interrupted_fetch_leaves_nothing_and_says_so() {
    let repo = Repo::new();
    // A server that accepts the connection and never answers.
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("bound").port();
    let room = repo.beside("room");
    fs::create_dir(&room).expect("a directory");
    let mut command = repo.aynig_command();
    command.args(["install", &format!("git://127.0.0.1:{port}/x"), "--apply"]).env("TMPDIR", &room);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let (connection, _) = server.accept().expect("git asks");
    assert!(!files_below(&room).is_empty(), "it is fetching");
    running.signal(nix::sys::signal::Signal::SIGINT);
    let output = running.finish();
    assert_eq!(output.status.code(), Some(130), "{}", told(&output));
    assert!(err(&output).contains("nothing was installed"), "{}", told(&output));
    // The fetching git is gone too: its end of the connection is closed.
    let mut rest = Vec::new();
    connection.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    std::io::Read::read_to_end(&mut &connection, &mut rest).expect("the end of the connection");
    assert_eq!(files_below(&room), Vec::<std::path::PathBuf>::new());
    assert_nothing_left(&repo);
}
