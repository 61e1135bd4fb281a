//! GitHub, by its program `gh`. Repository, branches, title and text are arguments or standard input, never parts of a
//! shell's line.

use std::ffi::OsString;

use serde::Deserialize;

use crate::fsutil::found_in;
use crate::git::address::Hosted;
use crate::workspace::refusal::{Refusal, Why};

use super::call::{Answer, Call};
use super::proposal::{Proposal, ProposalState, Subject, Texts};

/// The complaint about a proposal that is there already.
const EXISTS: &str = "already exists";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    number: u64,
    url: String,
    state: String,
    title: String,
    body: String,
    is_cross_repository: bool,
}

pub(super) fn find(subject: &Subject<'_>) -> Result<Option<Proposal>, Refusal> {
    let fields = "number,url,state,title,body,isCrossRepository";
    let arguments = ["pr", "list", "--head", subject.head, "--base", subject.base, "--state", "all"];
    let more = ["--limit", "20", "--json", fields];
    let listed = call(subject, arguments.into_iter().chain(more), b"")?.checked()?;
    let wrong = |error| Refusal::because("read the answer of `gh pr list`", &error);
    let mut all: Vec<Listed> = serde_json::from_slice(&listed).map_err(wrong)?;
    // Branches of the same name in forks are others'.
    all.retain(|one| !one.is_cross_repository);
    // An open one first, then the newest.
    all.sort_by_key(|one| (!one.state.eq_ignore_ascii_case("open"), std::cmp::Reverse(one.number)));
    let Some(one) = all.into_iter().next() else { return Ok(None) };
    let Some(state) = ProposalState::parse(&one.state) else {
        let message =
            format!("`gh` says that {} is {:?}, which this aynig does not know", one.url, one.state);
        return Err(Refusal::new(Why::Remote, message));
    };
    let texts = Some(Texts { title: one.title, body: one.body });
    Ok(Some(Proposal { number: Some(one.number), state, texts, ..Proposal::at(&one.url) }))
}

pub(super) fn create(subject: &Subject<'_>) -> Result<Option<Proposal>, Refusal> {
    let Texts { title, body } = subject.texts;
    let arguments = [
        "pr",
        "create",
        "--head",
        subject.head,
        "--base",
        subject.base,
        "--title",
        title,
        "--body-file",
        "-",
    ];
    let draft = subject.draft.then_some("--draft");
    let answer = call(subject, arguments.into_iter().chain(draft), body.as_bytes())?;
    if answer.code != 0 && answer.complains(EXISTS) {
        return Ok(None);
    }
    let stdout = String::from_utf8_lossy(&answer.checked()?).into_owned();
    let url = stdout.lines().rev().map(str::trim).find(|line| line.contains("://") && !line.contains(' '));
    url.map(|url| Some(Proposal::at(url))).ok_or_else(|| {
        Refusal::new(
            Why::Remote,
            "`gh pr create` printed no address of a proposal; publishing again looks for it",
        )
    })
}

/// By the interface itself: `gh pr edit` reads more than it changes, and older ones fail on what GitHub took away.
pub(super) fn update(subject: &Subject<'_>, proposal: &Proposal) -> Result<(), Refusal> {
    let Texts { title, body } = subject.texts;
    let place = place_of(subject)?;
    let number = proposal.number.unwrap_or_default();
    let path = format!("repos/{}/pulls/{number}", place.path);
    let arguments = ["api", "--hostname", &place.host, "--method", "PATCH", &path, "--input", "-"];
    let stdin = serde_json::json!({ "title": title, "body": body }).to_string();
    start(subject, arguments.into_iter().map(OsString::from).collect(), stdin.as_bytes())?.checked().map(drop)
}

fn call<'a>(
    subject: &Subject<'_>,
    arguments: impl Iterator<Item = &'a str>,
    stdin: &[u8],
) -> Result<Answer, Refusal> {
    let Hosted { host, path, .. } = place_of(subject)?;
    let whole = arguments.map(str::to_owned).chain(["--repo".to_owned(), format!("{host}/{path}")]);
    start(subject, whole.map(OsString::from).collect(), stdin)
}

/// The repository on GitHub.
fn place_of(subject: &Subject<'_>) -> Result<Hosted, Refusal> {
    let place = Hosted::of(subject.address).filter(|place| place.path.split('/').count() == 2);
    place.ok_or_else(|| {
        let message = format!(
            "the address of {}, {}, is no repository on GitHub, which aynig.forge = gh needs; nothing was changed",
            subject.remote, subject.address
        );
        Refusal::new(Why::Setup, message)
            .hint("`aynig publish --remote NAME` names another remote; `git remote -v` lists them")
    })
}

fn start(subject: &Subject<'_>, arguments: Vec<OsString>, stdin: &[u8]) -> Result<Answer, Refusal> {
    let program = found_in("gh", &std::env::var_os("PATH").unwrap_or_default()).ok_or_else(|| {
        Refusal::new(Why::Setup, "`gh` is not in PATH, which aynig.forge = gh needs; nothing was changed")
            .hint("install it and `gh auth login`, or push only: `git config aynig.forge none`")
    })?;
    let words: Vec<_> = arguments.iter().take(2).map(|word| word.to_string_lossy()).collect();
    let (name, stdin) = (format!("gh {}", words.join(" ")), stdin.to_vec());
    let Subject { directory, stop, interrupt, .. } = subject;
    Call { program, name, arguments, stdin, directory, stop, interrupt }.make()
}
