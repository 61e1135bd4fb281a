//! Work that goes along with hand-offs, and work that is taken back.

use super::*;

/// `a` writes `file` and hands it to `b`, which prints what it has.
const PAIR: &str = r#"
case $prompt in
*"the agent a "*) echo from-a >>file; "$AYNIG_BIN" orch handoff --to b --message "look at it" >/dev/null || exit 9 ;;
*) printf '%s\n' "$prompt" >>../../prompts; cat file >>../../seen ;;
esac
echo done"#;

fn work(graph: &Graph, alias: &str, path: &str) -> String {
    graph.repo.git(["show", &format!("work/{}/{alias}:{path}", graph.slug)])
}

fn beside(graph: &Graph, name: &str) -> String {
    std::fs::read_to_string(graph.repo.beside("worktrees").join(name)).unwrap_or_default()
}

fn head(graph: &Graph, alias: &str) -> String {
    graph.repo.git(["rev-parse", &format!("work/{}/{alias}", graph.slug)]).trim().to_owned()
}

fn has(graph: &Graph, branch: &str, commit: &str) -> bool {
    let branch = format!("work/{}/{branch}", graph.slug);
    let ask = ["merge-base", "--is-ancestor", commit, &branch];
    graph.repo.git_command().args(ask).status().expect("git").success()
}

/// CONTRACT 22.40
#[test]
fn a_hand_off_brings_the_work_of_its_sender() {
    let graph = Graph::new(PAIR, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "b completed"]);
    let sent = graph.events(&["handoff.sent"]);
    let first = head(&graph, "a");
    let carried = &sent[0]["envelope"]["payload"]["artifacts"];
    assert_eq!(carried[0]["type"], "commit");
    assert_eq!(carried[0]["ref"], format!("git:{first}"));
    assert_eq!(beside(&graph, "seen"), "from-a\n");
    assert!(has(&graph, "b", &first));
    let prompt = beside(&graph, "prompts");
    assert!(prompt.contains(&format!("up to {} are in your worktree", &first[..10])), "{prompt}");
    // Both have gone on since: the next one is a merge, and nothing of it is a change of the receiver's turn.
    agent(&graph.repo, &PAIR.replace("cat file", "echo own >>mine; cat file mine"));
    graph.ok(&["chat", "RUN", "b", "Write yours."]);
    graph.drain();
    graph.ok(&["chat", "RUN", "a", "Once more."]);
    graph.drain();
    let second = head(&graph, "a");
    assert_ne!(first, second);
    assert!(has(&graph, "b", &second));
    assert_eq!(work(&graph, "b", "file"), "from-a\nfrom-a");
    assert_eq!(work(&graph, "b", "mine"), "own\nown");
    let merges = graph.repo.git(["log", "--merges", "--format=%s", &format!("work/{}/b", graph.slug)]);
    assert!(merges.starts_with("merge: the work of a up to"), "{merges}");
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.40
#[test]
fn work_that_conflicts_is_not_merged() {
    let graph = Graph::new("echo mine >file; echo done", &["a", "b"]);
    // A driver for merges, which the sender's tree requests.
    let marker = graph.repo.beside("driven");
    graph.repo.git(["config", "merge.evil.driver", &format!("touch {}", marker.display())]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "b", "Write yours."]);
    graph.drain();
    let before = head(&graph, "b");
    let script =
        PAIR.replace("echo from-a >>file", "echo '* merge=evil' >.gitattributes; echo from-a >>file");
    agent(&graph.repo, &script);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let ran = graph.repo.aynig(["run", "--drain"]);
    assert_eq!(graph.turns(), ["b completed", "a completed", "b completed"], "{}", err(&ran));
    assert_eq!((work(&graph, "b", "file"), head(&graph, "b")), ("mine".to_owned(), before));
    let (prompt, commit) = (beside(&graph, "prompts"), head(&graph, "a"));
    assert!(prompt.contains("they conflict with yours in 1 file: file"), "{prompt}");
    assert!(prompt.contains(&format!("`git merge {commit}`")), "{prompt}");
    assert!(!marker.exists(), "no driver of a tree runs");
    graph.assert_read_once(0);
}

/// What an agent names beside its own work is a text: a commit that it made past its work branch, and the tip of another branch.
/// CONTRACT 22.40
#[test]
fn a_commit_of_no_work_branch_of_the_run_is_not_merged() {
    let script = r#"
case $prompt in
*"the agent a "*)
    blob=$(echo planted | git hash-object -w --stdin)
    tree=$(printf '100644 blob %s\tplanted\n' "$blob" | git mktree)
    made=$(git commit-tree -p HEAD -m planted "$tree")
    "$AYNIG_BIN" orch handoff --to b --message "look" --artifact "git:$made" \
        --artifact "git:$(git rev-parse refs/heads/private)" >/dev/null || exit 9 ;;
*) printf '%s\n' "$prompt" >>../../prompts; ls >>../../seen ;;
esac
echo done"#;
    let graph = Graph::new(script, &["a", "b"]);
    let empty = graph.repo.git(["hash-object", "-t", "tree", "/dev/null"]);
    let private = graph.repo.git(["commit-tree", "-p", "HEAD", "-m", "private", empty.trim()]);
    graph.repo.git(["branch", "private", private.trim()]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Plant it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "b completed"]);
    let prompt = beside(&graph, "prompts");
    assert_eq!(prompt.matches("they are on no work branch of this run").count(), 2, "{prompt}");
    assert!(!beside(&graph, "seen").contains("planted"), "{}", beside(&graph, "seen"));
    assert!(!has(&graph, "b", private.trim()));
}

/// CONTRACT 22.40
#[test]
fn work_of_another_host_is_merged() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| hosts::host(path, name, PAIR));
    let graph = Graph::of(first, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.repo.aynig_ok(["run", "--branch", &format!("run/{}/a", graph.slug)]);
    let carried = head(&graph, "a");
    let other = Graph { repo: second, slug: graph.slug.clone() };
    other.drain();
    assert_eq!(other.turns(), ["a completed", "b completed"]);
    assert_eq!(beside(&other, "seen"), "from-a\n");
    assert!(has(&other, "b", &carried));
    other.assert_read_once(0);
}

/// CONTRACT 22.8
#[test]
fn files_that_a_node_may_not_change_are_taken_back_alone() {
    let script = r#"
printf '%s\n' "$prompt" >>../../prompts
echo x >>code; echo y >>notes.md; rm -f kept; ln -sf code link
git add -A; git commit -qm 'all of it'
echo more >>notes.md
echo done"#;
    let repo = Repo::new();
    place_worktrees(&repo);
    agent(&repo, script);
    repo.write("kept", "as it was\n");
    repo.commit_all("kept");
    let graph = Graph::of(repo, &[]);
    let role = ["--role", "reviewer", "--provider", "scripted", "--permissions", "skip"];
    graph.ok(&[&["node", "add", "RUN", "r"], &role[..]].concat());
    graph.ok(&["chat", "RUN", "r", "Look at it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["r completed"]);
    let detail = graph.events(&["turn.status"])[0]["detail"].as_str().expect("a text").to_owned();
    assert!(detail.contains("taken back: code, kept, link"), "{detail}");
    let names = graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/r", graph.slug)]);
    assert!(names.contains("kept") && names.contains("notes.md"), "{names}");
    assert!(!names.contains("code") && !names.contains("link"), "{names}");
    assert_eq!(work(&graph, "r", "notes.md"), "y\nmore");
    // No commit in between has them, and all of it is saved.
    let log = graph.repo.git(["log", "--format=", "--name-only", &format!("work/{}/r", graph.slug)]);
    assert!(!log.contains("code"), "{log}");
    let rescue = detail.split('`').nth(1).expect("a command").to_owned();
    let saved = rescue.split_whitespace().find(|word| word.starts_with("refs/")).expect("a ref").to_owned();
    assert_eq!(graph.repo.git(["show", &format!("{saved}:code")]), "x");
    // A person sees it where they look.
    let subject = graph.repo.git(["log", "-1", "--format=%s", &format!("run/{}/r", graph.slug)]);
    assert!(
        subject.contains("r has read everything; changes of files that this node may not change"),
        "{subject}"
    );
    let shown = graph.ok(&["show", "RUN"]);
    assert!(
        shown.contains("r  its agent reads next: changes of files that this node may not change"),
        "{shown}"
    );
    // The agent reads it in its next turn, and only in that.
    for _ in 0..2 {
        graph.ok(&["chat", "RUN", "r", "Once more."]);
        graph.drain();
    }
    let prompts = beside(&graph, "prompts");
    assert_eq!(
        prompts.matches("Note: changes of files that this node may not change").count(),
        2,
        "{prompts}"
    );
    graph.ok(&["run", "complete", "RUN"]);
    assert!(!graph.ok(&["show", "RUN"]).contains("reads next"), "nobody reads it any more");
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.8
#[test]
fn what_a_node_may_change_follows_from_its_capabilities_and_the_mode() {
    let script = "mkdir -p docs; echo x >code; echo y >docs/plan.md; echo z >notes.md; echo done";
    let all = ["code", "docs/plan.md", "notes.md"];
    for (mode, docs, kept) in [
        ("IMPLEMENTATION", "true", &all[..]),
        ("IMPLEMENTATION", "false", &["code"]),
        ("PLANNING", "true", &["docs/plan.md"]),
        ("PLANNING", "false", &[]),
    ] {
        let graph = Graph::new(script, &["a"]);
        graph.ok(&["run", "set", "RUN", "--global-mode", mode]);
        graph.ok(&["node", "set", "RUN", "a", "--capability", &format!("writeDocs={docs}")]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        graph.drain();
        assert_eq!(graph.turns(), ["a completed"], "{mode} {docs}");
        let end = graph.events(&["turn.status"]).remove(0);
        let detail = end["detail"].as_str().unwrap_or_default();
        let back = all.iter().filter(|path| !kept.contains(path)).copied().collect::<Vec<_>>().join(", ");
        assert_eq!(
            detail.contains(&format!("taken back: {back}")),
            !back.is_empty(),
            "{mode} {docs}: {detail}"
        );
        let work = graph.repo.git(["ls-tree", "-r", "--name-only", &format!("work/{}/a", graph.slug)]);
        let work: Vec<&str> = work.lines().filter(|path| all.contains(path)).collect();
        assert_eq!(work, kept, "{mode} {docs}");
        graph.ok(&["doctor", "RUN"]);
    }
}
