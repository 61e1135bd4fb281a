//! Published work. The names of its fields are a promise to scripts.

use serde::Serialize;

use crate::contract::ids::CommitId;
use crate::ops::publish::Published;
use crate::publish::{Fate, Proposal};

/// Work that was published, or was there already.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedView<'a> {
    run: &'a str,
    slug: &'a str,
    name: &'a str,
    remote: &'a str,
    branch: String,
    base: String,
    commit: Option<CommitId>,
    head: CommitId,
    pushed: bool,
    proposal: Option<ProposalView<'a>>,
    compare_url: Option<&'a str>,
    uncommitted: bool,
}

#[derive(Debug, Serialize)]
struct ProposalView<'a> {
    url: &'a str,
    number: Option<u64>,
    created: bool,
    updated: bool,
}

impl<'a> PublishedView<'a> {
    /// The view of published work.
    #[must_use]
    pub fn of(published: &'a Published) -> Self {
        let context = &published.context;
        let proposal = published.proposal.as_ref().map(|(Proposal { url, number, .. }, fate)| ProposalView {
            url,
            number: *number,
            created: *fate == Fate::Created,
            updated: *fate == Fate::Updated,
        });
        Self {
            run: &context.run_id,
            slug: &context.slug,
            name: &context.name,
            remote: published.remote.as_str(),
            branch: published.branch.to_string(),
            base: published.base.to_string(),
            commit: published.commit,
            head: published.head,
            pushed: published.is_pushed,
            proposal,
            compare_url: published.compares.as_deref(),
            uncommitted: published.is_dirty,
        }
    }
}
