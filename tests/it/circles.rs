//! `src` has no cyclic dependencies between files: the graph of `use` items and of paths in the code.
//!
//! A path belongs to the file of the longest module it names. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::support::files_below;

type Module = Vec<String>;

fn module(name: &str) -> Module {
    let path = name.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" || path == "main" { Module::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// All paths in a `use` tree.
fn leaves(tree: &str, above: &[String], found: &mut Vec<Module>) {
    let mut depth = 0_usize;
    let parts = tree.split(|c| {
        depth = match c {
            '{' => depth + 1,
            '}' => depth.saturating_sub(1),
            _ => depth,
        };
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        let (path, inner) = part.split_once('{').map_or((part, None), |(path, rest)| (path, Some(rest)));
        let path = path.split(" as ").next().unwrap_or(path);
        let mut here = above.to_vec();
        here.extend(path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
        match inner {
            Some(inner) => leaves(inner.trim_end().trim_end_matches('}'), &here, found),
            None => found.push(here),
        }
    }
}

/// The path from the crate's root; `None` if it belongs to another crate.
fn absolute(path: &[String], here: &Module) -> Option<Module> {
    let mut base = here.clone();
    match path.first().map(String::as_str)? {
        // The binary refers to the library by its name.
        "crate" | "aynig" => return Some(path[1..].to_vec()),
        "self" | "super" => {}
        _ => return None,
    }
    let mut rest = path;
    while let Some(first) = rest.first().filter(|first| *first == "self" || *first == "super") {
        if first == "super" {
            base.pop();
        }
        rest = &rest[1..];
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The paths that a file's code names, without its tests and comments.
fn paths(text: &str) -> Vec<Module> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    let mut rest = String::new();
    for (at, statement) in code.split("use ").enumerate() {
        match statement.split_once(';').filter(|(tree, _)| at > 0 && !tree.contains('(')) {
            Some((tree, after)) => {
                leaves(tree, &[], &mut found);
                rest.push_str(after);
            }
            None => rest.push_str(statement),
        }
    }
    for word in rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')) {
        let names: Module = word.split("::").map(str::to_owned).collect();
        if names.len() > 1 {
            found.push(names);
        }
    }
    found
}

#[test]
fn no_two_files_need_each_other() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut texts = BTreeMap::new();
    for path in files_below(&top) {
        let name = path.strip_prefix(&top).expect("below").to_string_lossy().into_owned();
        if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "main.rs" {
            texts.insert(name, std::fs::read_to_string(&path).expect("UTF-8"));
        }
    }
    let modules: BTreeMap<Module, &String> = texts.keys().map(|name| (module(name), name)).collect();
    let owner = |path: &Module| (1..=path.len()).rev().find_map(|end| modules.get(&path[..end]).copied());
    let needs: BTreeMap<&String, BTreeSet<&String>> = texts
        .iter()
        .map(|(name, text)| {
            let here = module(name);
            let named = paths(text).into_iter().filter_map(|path| absolute(&path, &here));
            (name, named.filter_map(|path| owner(&path)).filter(|other| *other != name).collect())
        })
        .collect();
    assert!(needs.values().map(BTreeSet::len).sum::<usize>() > 300, "the graph is read: {needs:?}");
    let mut reach: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for name in needs.keys() {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![*name]);
        while let Some(next) = ahead.pop() {
            ahead.extend(needs[next].iter().filter(|other| seen.insert(**other)));
        }
        reach.insert(name, seen);
    }
    let mut circles: BTreeSet<Vec<&String>> = BTreeSet::new();
    for (name, others) in &reach {
        if others.contains(name) {
            circles.insert(others.iter().filter(|other| reach[**other].contains(name)).copied().collect());
        }
    }
    assert!(circles.is_empty(), "files that depend on each other: {circles:#?}");
}
