//! Contents of artifacts in a ledger, and the packing of its objects.

use aynig::git::objects::digest::sha256;
use aynig::ledger::Place;
use aynig::ledger::check::check;
use aynig::ledger::content::MAX_REPLICATED;
use aynig::ledger::operate::Ledger;
use aynig::ledger::runs;
use aynig::model::artifact::ArtifactKind;
use aynig::model::decide::{Command, NewArtifact};
use aynig::model::ids::{FileName, OpId};
use aynig::model::run::Replicate;

use super::{Repo, new_run, op, open, run_with_node};

fn artifact(kind: ArtifactKind, size: u64, sha256: &str) -> Command {
    Command::AddArtifact(NewArtifact {
        id: None,
        node: None,
        turn: None,
        kind,
        name: FileName::parse("a file").expect("a name"),
        media_type: "text/plain".to_owned(),
        size,
        sha256: sha256.to_owned(),
    })
}

/// The files of a ledger below `content/`, with their contents.
fn contents(repo: &Repo, name: &str) -> Vec<(String, String)> {
    let listed = repo.git(["ls-tree", "-r", "--name-only", name, "content/"]);
    let all = listed.lines().map(|path| (path.to_owned(), repo.git(["show", &format!("{name}:{path}")])));
    all.collect()
}

/// CONTRACT 16.5, 16.6, 16.9
#[test]
fn a_content_is_masked_and_goes_where_the_run_replicates_it() {
    for replicate in [Replicate::All, Replicate::Summary, Replicate::None] {
        let repo = Repo::new();
        repo.write(".aynig/redact", "tok-[0-9]+\n");
        repo.commit_all("redact");
        let store = open(&repo.path);
        let handle = store.handle();
        let (id, slug) = runs::fresh(&handle).expect("refs");
        let mut new = new_run(&handle, &Place::Here, id, slug);
        (new.base_sha, new.replicate) = (repo.head("main"), replicate);
        let mut ledger =
            Ledger::create(&handle, Place::Here, &new, &op(OpId::random()), &[], &[]).expect("a run");
        let (report, prompt) = (ledger.attach(b"a report of tok-1"), ledger.attach(b"a prompt with tok-2"));
        assert_eq!((report.bytes(), report.size()), (b"a report of ***".as_slice(), 15));
        assert_eq!(report.sha256(), sha256(b"a report of ***"));
        let commands = [
            artifact(ArtifactKind::Report, report.size(), report.sha256()),
            artifact(ArtifactKind::Prompt, prompt.size(), prompt.sha256()),
        ];
        ledger.operate(&op(OpId::random()), &commands, &[]).expect("an operation");
        let mut wanted = Vec::new();
        for (content, kind) in [(&report, ArtifactKind::Report), (&prompt, ArtifactKind::Prompt)] {
            if replicate.keeps(kind) {
                let path = format!("content/{}/{}", &content.sha256()[..2], content.sha256());
                wanted.push((path, String::from_utf8(content.bytes().to_vec()).expect("text")));
            }
        }
        wanted.sort();
        assert_eq!(contents(&repo, &format!("refs/aynig/runs/{id}")), wanted, "{replicate:?}");
        assert_eq!(ledger.tip().state.artifacts.len(), 2);
        assert_eq!(check(&handle, id, ledger.tip().id).expect("readable").faults, []);
        // Other operations leave it there.
        ledger
            .operate(&op(OpId::random()), &[artifact(ArtifactKind::Report, 1, "not at hand")], &[])
            .expect("one more");
        assert_eq!(contents(&repo, &format!("refs/aynig/runs/{id}")), wanted, "{replicate:?}");
    }
}

/// CONTRACT 16.9
#[test]
fn a_content_that_is_too_long_or_another_one_stays_away() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, _) = run_with_node(&handle, &Place::Here);
    let name = format!("refs/aynig/runs/{run}");
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    let large = ledger.attach(&vec![b'x'; MAX_REPLICATED + 1]);
    let small = ledger.attach(b"small");
    let commands = [
        artifact(ArtifactKind::Report, large.size(), large.sha256()),
        artifact(ArtifactKind::Report, small.size() + 1, small.sha256()),
        artifact(ArtifactKind::Report, 5, "../../etc/passwd"),
    ];
    ledger.operate(&op(OpId::random()), &commands, &[]).expect("an operation");
    assert_eq!((contents(&repo, &name), ledger.tip().state.artifacts.len()), (vec![], 3));
    // It was for that operation alone.
    let again = artifact(ArtifactKind::Report, small.size(), small.sha256());
    ledger.operate(&op(OpId::random()), &[again], &[]).expect("an operation");
    assert_eq!(contents(&repo, &name), []);
}
