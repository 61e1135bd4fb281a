//! The Debian package: its sources exist and are complete; a real build installs, works and is removed.
//!
//! The real build needs `cargo deb` (`cargo install cargo-deb`), so that test is ignored by default:
//! `cargo test --test it -- --ignored package`. It installs into a copy of this system's files, which the
//! test discards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::generated::COMPLETIONS;
use super::programs::{program, shipped};
use super::support::*;

/// Files of `contrib/` that the package leaves out: packs are part of the program, the others are used to
/// build it.
const NOT_PACKED: [&str; 3] = ["contrib/packs/", "contrib/debian/scripts/", "contrib/debian/changelog"];

fn metadata() -> serde_json::Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"]);
    let output = cargo.arg(shipped("Cargo.toml")).output().expect("cargo runs");
    json(&output)["packages"][0].clone()
}

/// Source, destination and mode of each asset, with globs resolved.
fn assets() -> Vec<(String, String, String)> {
    let package = metadata();
    let listed = package["metadata"]["deb"]["assets"].as_array().expect("assets").clone();
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let mut assets = Vec::new();
    for asset in &listed {
        let (source, to, mode) = (text(&asset[0]), text(&asset[1]), text(&asset[2]));
        let Some((directory, rest)) = source.rsplit_once('/').filter(|(_, name)| name.contains('*')) else {
            assets.push((source, to, mode));
            continue;
        };
        let end = rest.trim_start_matches('*');
        let files =
            fs::read_dir(shipped(directory)).unwrap_or_else(|_| panic!("{source}: no such directory"));
        let mut names: Vec<String> =
            files.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(end));
        assert!(!names.is_empty(), "{source}: nothing there");
        assets
            .extend(names.into_iter().map(|name| (format!("{directory}/{name}"), to.clone(), mode.clone())));
    }
    assets
}

#[test]
fn everything_that_is_packed_is_there_and_everything_that_is_there_is_packed() {
    let assets = assets();
    let packed: BTreeSet<&str> = assets.iter().map(|(source, ..)| source.as_str()).collect();
    assert!(packed.contains("target/release/aynig"), "{packed:?}");
    for (source, _, mode) in &assets {
        if source.starts_with("target/") {
            continue;
        }
        let start = fs::read(shipped(source)).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(start.starts_with(b"#!"), mode == "755", "{source}");
    }
    for directory in ["contrib", "man"] {
        for file in files_below(&shipped(directory)) {
            let name = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("below").display().to_string();
            let left_out = NOT_PACKED.iter().any(|start| name.starts_with(start));
            assert!(left_out || packed.contains(name.as_str()), "{name} is in no asset of Cargo.toml");
        }
    }
    for document in ["README.md", "CONTRACT.md", "CHANGELOG.md", "contrib/debian/copyright"] {
        assert!(packed.contains(document), "{document}");
    }
    let destination = |source: &str| {
        assets
            .iter()
            .find(|(from, ..)| from == source)
            .map(|(_, to, _)| to.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let places =
        ["bash-completion/completions/aynig", "zsh/vendor-completions/", "fish/vendor_completions.d/"];
    for ((_, file), place) in COMPLETIONS.iter().zip(places) {
        assert_eq!(destination(&format!("contrib/completions/{file}")), format!("usr/share/{place}"));
    }
}

#[test]
fn its_version_and_what_it_needs_are_those_of_the_program() {
    let package = metadata();
    let changelog = fs::read_to_string(shipped("contrib/debian/changelog")).expect("a changelog");
    let version = package["version"].as_str().expect("a version");
    assert!(changelog.starts_with(&format!("aynig ({version}-1) ")), "{changelog}");
    let deb = &package["metadata"]["deb"];
    let maintainer = deb["maintainer"].as_str().expect("a maintainer");
    assert!(changelog.contains(&format!("\n -- {maintainer}  ")), "{changelog}");
    let readme = fs::read_to_string(shipped("README.md")).expect("the README");
    let needs = deb["depends"].as_str().expect("what it needs");
    let git = needs.split("git (>= 1:").nth(1).and_then(|rest| rest.split(')').next()).expect("git");
    assert!(readme.contains(&format!("git {git} or newer")), "{git}");
}

/// Builds the package with the tested program in place of a release build.
fn build(room: &Path) -> Option<PathBuf> {
    let cargo_deb = program("cargo-deb")?;
    let package = room.join("aynig.deb");
    fs::create_dir_all(room.join("target/dist")).expect("directories");
    fs::copy(binary(), room.join("target/dist/aynig")).expect("copied");
    let mut build = Command::new(cargo_deb);
    build.args(["--profile", "dist", "--no-build", "--fast", "--offline", "--output"]).arg(&package);
    build.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", room.join("target"));
    let output = build.output().expect("cargo-deb runs");
    assert!(output.status.success(), "{}{}", out(&output), err(&output));
    assert!(!err(&output).contains("warning"), "{}", err(&output));
    Some(package)
}

#[test]
#[ignore = "wants `cargo deb`; see the head of this file"]
fn the_package_installs_works_and_goes() {
    let room = tempfile::tempdir().expect("a directory");
    let Some(package) = build(room.path()) else { return };
    let list = Command::new("dpkg-deb").arg("--contents").arg(&package).output().expect("dpkg-deb runs");
    for (source, to, _) in assets() {
        let name = if to.ends_with('/') {
            format!("./{to}{}", Path::new(&source).file_name().expect("a name").to_string_lossy())
        } else {
            format!("./{to}")
        };
        assert!(out(&list).contains(&name), "{name} is not in\n{}", out(&list));
    }
    // Changes to this system's files go into a directory of the test.
    const APART: &str = r#"
        set -e
        mount -t tmpfs none /mnt && mkdir /mnt/changes /mnt/work /mnt/root
        mount -t overlay none -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/work /mnt/root
        mount -t proc none /mnt/root/proc && mount --rbind /dev /mnt/root/dev
        mount -t tmpfs none /mnt/root/tmp && mount -t tmpfs none /mnt/root/run
        cp "$PACKAGE" /mnt/root/tmp/aynig.deb
        exec chroot /mnt/root sh -c "$1"
    "#;
    let apart = |script: &str| {
        let mut shell = Command::new("unshare");
        hermetic(&mut shell).args(["--mount", "sh", "-c", APART, "sh", script]).env("PACKAGE", &package);
        shell.env("HOME", "/tmp").env("DEBIAN_FRONTEND", "noninteractive").output().expect("unshare runs")
    };
    if !apart("true").status.success() {
        eprintln!("skipped: the package was built and looked into, but nothing can be installed apart here");
        return;
    }
    let output = apart(
        r#"
        set -eu
        cd /tmp
        dpkg --install aynig.deb
        /usr/bin/aynig --version
        /usr/bin/aynig demo /tmp/demo
        for page in aynig aynig-run aynig-set-state aynig-config aynig-commands; do man --where "$page"; done
        for unit in aynig@srv-x.timer aynig@srv-x.service aynig-watch@srv-x.service aynig-role@x.service aynig-serve@srv-x.service; do
            systemd-analyze --man=no verify "$unit"
            XDG_RUNTIME_DIR=/tmp systemd-analyze --man=no --user verify "$unit"
        done
        if command -v systemd-sysusers; then
            id aynig
            test "$(stat -c %U /var/lib/aynig)" = aynig
        fi
        fish -c 'complete -C "aynig set-"' | grep set-state
        echo kept > /var/lib/aynig/mine
        dpkg --listfiles aynig > files; grep -q /usr/bin/aynig files
        dpkg --purge aynig
        test ! -e /usr/bin/aynig
        while read -r file; do test -d "$file" || test ! -e "$file"; done < files
        test ! -e /usr/share/doc/aynig
        test -f /var/lib/aynig/mine; test ! -e /etc/aynig
        echo WHOLE
        "#,
    );
    let said = format!("{}{}", out(&output), err(&output));
    assert!(output.status.success() && said.contains("WHOLE"), "{said}");
    assert!(said.contains(&format!("aynig {}", env!("CARGO_PKG_VERSION"))), "{said}");
    assert!(said.contains("/usr/share/man/man1/aynig-set-state.1.gz"), "{said}");
}
