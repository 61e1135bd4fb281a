//! AGit: a push to `refs/for/BASE`, which a server of this kind takes for a proposal (CONTRACT 21.10).
//!
//! Any other server makes a ref of that name, and says nothing. So refs of such names are looked for before and after.

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::git::remote::PATIENCE;
use crate::git::{RefChange, Repo};
use crate::workspace::refusal::{Refusal, Why};

use super::names::{Names, unreachable};
use super::proposal::Texts;

/// The names that no server has refs of that takes them for proposals.
pub(super) const FOR: &str = "refs/for/";

/// The options of the push.
pub(super) fn options(names: &Names, texts: &Texts, draft: bool, is_new: bool, rewinds: bool) -> Vec<String> {
    let wip = if draft { "WIP: " } else { "" };
    let mut options = vec![format!("topic={}", names.branch)];
    options.extend(is_new.then(|| format!("title={wip}{}", texts.title)));
    options.extend(rewinds.then(|| "force-push=true".to_owned()));
    options
}

/// The ref that the server keeps for a proposal.
pub(super) fn pull_ref(url: &str) -> Option<BString> {
    let (_, number) = url.rsplit_once("/pulls/")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("refs/pull/{number}/head").into())
}

/// Refuses a server that has refs below `refs/for/`. One that we pushed, at `ours`, is removed.
pub(super) fn check(
    repo: &Repo,
    names: &Names,
    listed: &[(BString, CommitId)],
    ours: Option<CommitId>,
) -> Result<(), Refusal> {
    let junk = listed.iter().filter(|(name, _)| name.starts_with(FOR.as_bytes()));
    let junk: Vec<&(BString, CommitId)> = junk.collect();
    let Some((first, _)) = junk.first() else { return Ok(()) };
    let remote = &names.remote;
    let mine = junk.iter().find(|(name, id)| *name == names.target && Some(*id) == ours);
    let message = match mine {
        None => format!(
            "{remote} has the ref {first}, so it takes such refs for ordinary ones and makes no proposals of them; nothing was changed"
        ),
        Some((name, id)) => {
            let gone = RefChange { name: name.clone(), expected: Some(*id), new: None };
            let removed = repo.move_together(remote, &[gone], PATIENCE);
            let end = match removed {
                Ok(crate::git::Together::Won) => "was removed again".to_owned(),
                Ok(crate::git::Together::Lost { .. }) => "was moved meanwhile, and stays".to_owned(),
                Err(error) => format!("could not be removed: {error}"),
            };
            format!(
                "{remote} makes no proposals of pushes to {name}: it made a ref of that name, which {end}"
            )
        }
    };
    Err(Refusal::new(Why::Setup, message).hint(
        "aynig.forge = agit is for Gitea and Forgejo; `git config aynig.forge none` pushes a branch only",
    ))
}

/// Looks for such refs after the push.
pub(super) fn check_after(repo: &Repo, names: &Names, ours: CommitId) -> Result<(), Refusal> {
    let listed = repo.list_refs(&names.remote, &[format!("{FOR}*").into()], PATIENCE);
    check(repo, names, &listed.map_err(|error| unreachable(&names.remote, &error))?, Some(ours))
}
