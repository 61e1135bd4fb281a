//! `aynig init`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::support::*;

const FILES: [&str; 4] = [".aynig/COMMANDS.md", ".aynig/CONTRACT.md", ".aynig/command/example", ".gitignore"];

#[test]
fn it_makes_everything_and_what_it_says_to_type_works() {
    let repo = Repo::new();
    let said = out(&repo.aynig_ok(["init"]));
    for file in FILES {
        assert!(repo.path.join(file).is_file(), "{file}");
        assert!(said.contains(&format!("made   {file}")), "{said}");
    }
    let mode = fs::metadata(repo.path.join(".aynig/command/example")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    assert_eq!(fs::read_to_string(repo.path.join(".gitignore")).unwrap(), ".worktrees/\n.aynig/logs/\n");
    let contract = include_str!("../../CONTRACT.md");
    assert_eq!(fs::read_to_string(repo.path.join(".aynig/CONTRACT.md")).unwrap(), contract);

    let typed: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert_eq!(typed.len(), 4, "{said}");
    let mut shell = std::process::Command::new("sh");
    let path = std::env::join_paths(
        std::iter::once(binary().parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    hermetic(&mut shell).env("PATH", path.unwrap()).current_dir(&repo.path);
    let output = shell.arg("-ec").arg(typed.join("\n")).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(repo.state("hello"), "done");
    assert!(repo.git(["show", "hello:hello.txt"]).contains("Say hello."));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    repo.assert_tidy();
}

#[test]
fn a_second_time_nothing_changes() {
    let repo = Repo::new();
    repo.aynig_ok(["init"]);
    repo.commit_all("init");
    let said = out(&repo.aynig_ok(["init"]));
    for file in FILES {
        assert!(said.contains(&format!("there   {file}")), "{said}");
    }
    assert!(!said.contains("made ") && !said.contains("git commit"), "{said}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn what_a_person_wrote_stays() {
    let repo = Repo::new();
    repo.write(".gitignore", "target\n/.worktrees");
    repo.write(".aynig/COMMANDS.md", "mine");
    repo.write(".aynig/command/example", "mine too");
    let answer = json(&repo.aynig_ok(["init", "--json"]));
    assert_eq!(answer["made"], serde_json::json!([".aynig/CONTRACT.md", ".gitignore"]));
    assert_eq!(
        answer["present"],
        serde_json::json!([".aynig/command/", ".aynig/COMMANDS.md", ".aynig/command/example"])
    );
    assert_eq!(answer["ignored"], serde_json::json!([".aynig/logs/"]));
    let read = |file: &str| fs::read_to_string(repo.path.join(file)).unwrap();
    assert_eq!(read(".gitignore"), "target\n/.worktrees\n.aynig/logs/\n");
    assert_eq!(read(".aynig/COMMANDS.md"), "mine");
    assert_eq!(read(".aynig/command/example"), "mine too");
}

#[test]
fn below_the_top_it_still_writes_at_the_top() {
    let repo = Repo::new();
    repo.write("deep/er/file", "");
    repo.aynig_ok(["-C", "deep/er", "init"]);
    assert!(repo.path.join(".aynig/CONTRACT.md").is_file());
    assert!(!repo.path.join("deep/er/.aynig").exists());
}

#[test]
fn a_bare_repository_is_no_place_for_it() {
    let repo = Repo::new();
    let bare = repo.beside("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let output = repo.aynig(["-C", bare.to_str().unwrap(), "init"]);
    assert_refused(&output, 3, &["is bare", "hint: run `aynig init` in a clone"]);
}

#[test]
fn what_is_in_the_way_is_named_and_nothing_is_made() {
    for (link, at) in
        [(false, ".aynig"), (true, ".aynig"), (false, ".aynig/command"), (true, ".aynig/command")]
    {
        let repo = Repo::new();
        repo.write("out/file", "");
        repo.write(".aynig/file", "");
        if at == ".aynig" {
            fs::remove_dir_all(repo.path.join(at)).unwrap();
        }
        if link {
            std::os::unix::fs::symlink(repo.path.join("out"), repo.path.join(at)).unwrap();
        } else {
            repo.write(at, "not a directory");
        }
        let before = files_below(&repo.path.join("out"));
        let output = repo.aynig(["init"]);
        let what = if link { "is a symlink" } else { "is a file" };
        assert_refused(&output, 3, &[at, what, "nothing was made", &format!("hint: `mv {at} {at}.old`")]);
        assert_eq!(files_below(&repo.path.join("out")), before);
        assert!(!repo.path.join(".gitignore").exists() && !repo.path.join(".aynig/COMMANDS.md").exists());
        fs::rename(repo.path.join(at), repo.path.join(format!("{at}.old"))).unwrap();
        repo.aynig_ok(["init"]);
    }
}
