//! One call from its beginning to its end.

use bstr::{BString, ByteSlice};

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::crashpoint::{Point, reach};
use crate::git::offer::Offered;
use crate::git::remote::{PATIENCE, QUESTION, RemoteError};
use crate::git::{RefChange, Repo};
use crate::ledger::Masks;
use crate::model::workspace::Publication;
use crate::words::shell_quote;
use crate::workspace::Workspaces;
use crate::workspace::context::{Context, Intent};
use crate::workspace::published::Publishing;
use crate::workspace::refusal::{Refusal, Why};

use super::address::compares;
use super::agit;
use super::names::{Names, unreachable};
use super::proposal::{Forge, Proposal, ProposalState, Subject, Texts};
use super::request::Request;
use super::ruling::{Facts, Ruling, rule};
use super::taken_back::{Given, given};
use super::work::Work;

/// The change of the proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was made.
    Created,
    /// Title and text were replaced.
    Updated,
    /// It was there.
    Found,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct Published {
    /// The context now.
    pub context: Context,
    /// The remote.
    pub remote: RemoteName,
    /// The branch there.
    pub branch: BranchName,
    /// The branch to merge into.
    pub base: BranchName,
    /// The commit of the branch there. `None`: the base has all of the work, and nothing was published.
    pub commit: Option<CommitId>,
    /// The commit of the work branch.
    pub head: CommitId,
    /// Whether it was pushed now.
    pub is_pushed: bool,
    /// The proposal, if there is one.
    pub proposal: Option<(Proposal, Fate)>,
    /// The page that compares both branches, if it is known.
    pub compares: Option<String>,
    /// Whether the worktree has changes that are not committed.
    pub is_dirty: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Publishes a workspace.
///
/// # Errors
/// A [`Refusal`]. What was pushed before stays, and the next call carries on.
pub fn publish(
    workspaces: &Workspaces<'_>,
    context: &Context,
    request: &Request,
) -> Result<Published, Refusal> {
    let mut publishing = workspaces.publishing(context)?;
    let names = Names::of(workspaces, &publishing.context, request)?;
    let there = There::ask(workspaces.repo, &names, request, &publishing.context)?;
    let mut done = Published {
        context: publishing.context.clone(),
        remote: names.remote.clone(),
        branch: names.branch.clone(),
        base: names.base.clone(),
        commit: None,
        head: publishing.head,
        is_pushed: false,
        proposal: None,
        compares: None,
        is_dirty: publishing.is_dirty == Some(true),
        notes: Vec::new(),
    };
    let Some(work) = Work::of(workspaces.repo, publishing.head, there.base)? else { return Ok(done) };
    if !request.squash {
        work.check_trailers(&publishing.context.branch())?;
    }
    let masks = Masks::of(workspaces.repo, &publishing.context.base_sha)?;
    let (handle, slug) = (publishing.context.handle(), publishing.context.slug.clone());
    let texts = Texts::of(&request.label, &handle, &slug, &work.messages, &masks);
    let job =
        Job { repo: workspaces.repo, request, names: &names, work: &work, texts: &texts, there: &there };
    let commit = job.commit(&publishing.context, &masks)?;
    let previous = job.previous(&publishing.context).and_then(|one| one.url.clone());
    let subject = Subject {
        remote: names.remote.as_str(),
        address: &names.address,
        head: &names.branch.to_string(),
        base: &names.base.to_string(),
        commit: commit.to_string(),
        texts: &texts,
        draft: request.draft,
        previous: previous.as_deref(),
        directory: workspaces.repo.top(),
        stop: &workspaces.options.stop,
        interrupt: workspaces.repo.interrupt(),
    };
    let found = request.forge.find(&subject)?;
    check_open(found.as_ref())?;
    let (ruling, back) = job.ruling(&publishing.context, commit)?;
    done.notes.extend(back);
    let mut proposal = found;
    if ruling == Ruling::Again {
        done.notes.push(format!("{} was deleted on {} and is made again there", names.branch, names.remote));
    }
    if ruling != Ruling::UpToDate {
        let by_push = job.push(&mut publishing, commit)?;
        done.is_pushed = true;
        proposal = proposal.or(by_push);
    }
    reach(Point::PublishPushed);
    let last = job.previous(&publishing.context).cloned();
    let plain = job.publication(commit, last.as_ref());
    let (publication, proposal) = match job.propose(&subject, proposal, &plain, done.is_pushed) {
        Ok(proposed) => proposed,
        // What was pushed is recorded all the same.
        Err(refusal) => {
            job.record(&mut publishing, plain, last.as_ref())?;
            return Err(refusal);
        }
    };
    reach(Point::PublishProposed);
    job.record(&mut publishing, publication, last.as_ref())?;
    done.proposal = proposal;
    done.notes.extend(job.unasked(&done));
    done.compares = compares(&names.address, subject.base, subject.head);
    done.commit = Some(commit);
    done.context = publishing.context.clone();
    Ok(done)
}

/// The refs of the remote.
struct There {
    /// The commit of the base.
    base: CommitId,
    /// The ref that shows the work, and its commit.
    shown: Option<(BString, CommitId)>,
}

impl There {
    fn ask(repo: &Repo, names: &Names, request: &Request, context: &Context) -> Result<Self, Refusal> {
        let Names { remote, base, .. } = names;
        let failed = |error: &RemoteError| unreachable(remote, error);
        let is_agit = request.forge == Forge::Agit;
        let key = |one: &&Publication| is_key(names, one);
        let known = context.published.iter().find(key).and_then(|one| one.url.as_deref());
        let shown = if is_agit { known.and_then(agit::pull_ref) } else { Some(names.branch.full_ref()) };
        let mut wanted = vec![base.full_ref()];
        wanted.extend(shown.clone());
        wanted.extend(is_agit.then(|| format!("{}*", agit::FOR).into()));
        let listed = repo.list_refs(remote, &wanted, QUESTION).map_err(|error| failed(&error))?;
        if is_agit {
            let intent = context.publishing.as_ref().filter(|one| one.target.as_bytes() == names.target);
            let ours = intent.and_then(|one| CommitId::parse_hex(&one.commit));
            agit::check(repo, names, &listed, ours)?;
        }
        let value = |name: &BString| listed.iter().find(|(one, _)| one == name).map(|(_, id)| *id);
        let Some(tip) = value(&base.full_ref()) else {
            let message = format!("{remote} has no branch {base} to merge into; nothing was changed");
            let shown = shell_quote(remote.as_str());
            let mut refusal = Refusal::new(Why::Usage, message);
            if matches!(repo.branch_head(base), Ok(Some(_))) {
                let push = format!("git push {shown} {}", shell_quote(base));
                refusal = refusal.hint(format!("`{push}` brings it there; then publish again"));
            }
            return Err(refusal.hint(format!(
                "or name one that it has: `--into BRANCH`; `git ls-remote --heads {shown}` lists them"
            )));
        };
        let shown = shown.and_then(|name| value(&name).map(|id| (name, id)));
        let mut missing = vec![(base.full_ref(), tip)];
        missing.extend(shown.clone());
        missing.retain(|(_, id)| repo.commit(*id).is_err());
        if !missing.is_empty() {
            let names: Vec<BString> = missing.into_iter().map(|(name, _)| name).collect();
            repo.fetch_objects(remote, &names, PATIENCE).map_err(|error| failed(&error))?;
        }
        Ok(Self { base: tip, shown })
    }
}

struct Job<'a> {
    repo: &'a Repo,
    request: &'a Request,
    names: &'a Names,
    work: &'a Work,
    texts: &'a Texts,
    there: &'a There,
}

impl Job<'_> {
    /// The commit to publish. One that was squashed before from the same commits is taken again.
    fn commit(&self, context: &Context, masks: &Masks) -> Result<CommitId, Refusal> {
        let head = self.work.head;
        if !self.request.squash {
            return Ok(head);
        }
        let published = context.published.iter().map(|one| (one.squashed, &one.head, &one.commit));
        let intended = context.publishing.iter().map(|one| (one.squashed, &one.head, &one.commit));
        let is_same =
            |id: &CommitId| self.repo.commit(*id).is_ok_and(|stored| stored.parents == [self.work.common]);
        let mut made = published
            .chain(intended)
            .filter(|(squashed, of, _)| *squashed && **of == head.to_string())
            .filter_map(|(_, _, commit)| CommitId::parse_hex(commit))
            .filter(is_same);
        made.next().map_or_else(|| self.work.squash(self.repo, context, self.texts, masks), Ok)
    }

    /// The last publication of this key.
    fn previous<'c>(&self, context: &'c Context) -> Option<&'c Publication> {
        context.published.iter().find(|one| is_key(self.names, one))
    }

    /// The push that may have arrived without a record.
    fn intent<'c>(&self, context: &'c Context) -> Option<&'c Intent> {
        let is_ours =
            |one: &&Intent| one.remote == self.names.key && one.target.as_bytes() == self.names.target;
        context.publishing.as_ref().filter(is_ours)
    }

    /// The decision about the push, and a note about published work that it takes back.
    fn ruling(&self, context: &Context, commit: CommitId) -> Result<(Ruling, Option<String>), Refusal> {
        let Names { remote, key, branch, .. } = self.names;
        let on_branch = |one: &&Publication| one.remote == *key && one.branch == branch.to_string();
        let recorded: Vec<&Publication> = context.published.iter().filter(on_branch).collect();
        let shown = self.there.shown.as_ref();
        let actual = shown.map(|(_, id)| *id);
        let text = actual.map(|id| id.to_string()).unwrap_or_default();
        // Nothing at the server shows an AGit proposal whose number is not known.
        let is_unseen = self.request.forge == Forge::Agit && actual.is_none();
        let is_intended = self.intent(context).is_some_and(|intent| intent.commit == text);
        let record = recorded.iter().find(|one| one.commit == text).filter(|_| !is_intended);
        let given = record.map(|one| (given(self.repo, context, one, self.work.head), &one.head));
        let ruling = rule(Facts {
            exists: actual.is_some(),
            has_ours: actual == Some(commit),
            is_recorded: is_intended || given.is_some_and(|(given, _)| given != Given::Without),
            is_contained: actual.is_some_and(|id| {
                self.repo.descends(self.work.head, id) && !self.repo.descends(self.there.base, id)
            }),
            was_published: !recorded.is_empty() && !is_unseen,
        });
        let (Ruling::Foreign, Some((name, actual))) = (ruling, shown) else {
            let note = |(given, head): (Given, &String)| match given {
                Given::Back(how) => Some(format!(
                    "{} {how} after it was published; {branch} on {remote} does not have it any more",
                    CommitId::parse_hex(head)?.short()
                )),
                Given::Newer | Given::Without => None,
            };
            let is_moved = ruling == Ruling::Push;
            return Ok((ruling, given.filter(|_| is_moved).and_then(note)));
        };
        let whose = if given.is_some() {
            "that another host published and the work branch here does not have"
        } else {
            "that were not published from here"
        };
        let message =
            format!("{branch} on {remote} has commits {whose} ({}); nothing was changed", actual.short());
        let ours = recorded.last().and_then(|one| CommitId::parse_hex(&one.commit));
        let ours = if given.is_some() { self.work.head } else { ours.unwrap_or(commit) };
        let worktree = shell_quote(context.worktree_path.display().to_string());
        let pull = format!(
            "git -C {worktree} pull --no-rebase --no-edit {} {}",
            shell_quote(remote.as_str()),
            shell_quote(name)
        );
        Err(Refusal::new(Why::Conflict, message)
            .hint(format!("`{}` shows them", self.names.shows(name.as_bstr(), ours.short())))
            .hint(format!(
                "`{pull}` brings them to the work branch of {}; then publish again",
                context.handle()
            ))
            .hint("or publish the work as another branch: `--branch NAME`"))
    }

    /// Pushes. Returns the proposal that the server speaks of.
    fn push(&self, publishing: &mut Publishing<'_>, commit: CommitId) -> Result<Option<Proposal>, Refusal> {
        let Names { remote, key, target, .. } = self.names;
        let actual = self.there.shown.as_ref().map(|(_, id)| *id);
        // What arrived of an earlier push is recorded before its intent is replaced.
        let arrived = self
            .intent(&publishing.context)
            .filter(|intent| Some(intent.commit.as_str()) == actual.map(|id| id.to_string()).as_deref());
        if let Some(intent) = arrived.cloned() {
            let last = self.previous(&publishing.context).cloned();
            publishing.record(Publication {
                commit: intent.commit,
                head: intent.head,
                squashed: intent.squashed,
                ..self.publication(commit, last.as_ref())
            })?;
        }
        publishing.intend(Intent {
            remote: key.clone(),
            target: target.to_string(),
            commit: commit.to_string(),
            head: self.work.head.to_string(),
            squashed: self.request.squash,
        })?;
        reach(Point::PublishNoted);
        let is_agit = self.request.forge == Forge::Agit;
        let expected = if is_agit { None } else { actual };
        let change = RefChange { name: target.clone(), expected, new: Some(commit) };
        let is_new = self.previous(&publishing.context).is_none_or(|one| one.url.is_none());
        let rewinds = actual.is_some_and(|actual| !self.repo.descends(commit, actual));
        let offered = self.repo.offer(remote, &change, &self.options(is_new, rewinds), is_agit);
        let said = self.accepted(offered)?;
        if is_agit {
            agit::check_after(self.repo, self.names, commit)?;
        }
        Ok(if self.request.forge.is_by_push() { proposal_in(&said) } else { None })
    }

    fn options(&self, is_new: bool, rewinds: bool) -> Vec<String> {
        let Request { forge, draft, .. } = self.request;
        match forge {
            Forge::Agit => agit::options(self.names, self.texts, *draft, is_new, rewinds),
            Forge::PushOptions => {
                let mut options = vec![
                    "merge_request.create".to_owned(),
                    format!("merge_request.target={}", self.names.base),
                ];
                options.extend(is_new.then(|| format!("merge_request.title={}", self.texts.title)));
                options.extend((is_new && *draft).then(|| "merge_request.draft".to_owned()));
                options
            }
            Forge::None | Forge::Gh | Forge::Program(_) => Vec::new(),
        }
    }

    /// The server's words, if it has taken the push.
    fn accepted(&self, offered: Result<Offered, RemoteError>) -> Result<Vec<String>, Refusal> {
        let Names { remote, branch, target, .. } = self.names;
        match offered {
            Ok(Offered::Accepted(said)) => Ok(said),
            Ok(Offered::Stale(_)) => {
                let message = format!("{branch} moved on {remote} meanwhile; nothing was pushed");
                let shows = self.names.shows(target.as_bstr(), self.work.head.short());
                Err(Refusal::new(Why::Conflict, message)
                    .hint(format!("`{shows}` shows what is there; publish again")))
            }
            Ok(Offered::NoOptions) => {
                let message = format!(
                    "{remote} takes no push options, with which aynig.forge asks for a proposal; nothing was pushed"
                );
                Err(Refusal::new(Why::Setup, message)
                    .hint("`git config aynig.forge none` only pushes; a git server takes them with `receive.advertisePushOptions`"))
            }
            Ok(Offered::Refused(why)) => {
                let message = format!("{remote} refuses {branch}: {why}; nothing was pushed");
                let refusal = Refusal::new(Why::Remote, message);
                // As git names it where a branch has the name of a directory of this one, or below this one.
                Err(match why.contains("exists; cannot create") {
                    true => refusal.hint(
                        "a branch there is in the way; publish the work as another branch: `--branch NAME`",
                    ),
                    false => refusal,
                })
            }
            Err(error) => Err(unreachable(remote, &error)
                .hint("it may have been pushed all the same; publishing again finds that out")),
        }
    }

    /// Finds, makes or renews the proposal. `plain` is the record without news about it.
    fn propose(
        &self,
        subject: &Subject<'_>,
        found: Option<Proposal>,
        plain: &Publication,
        is_pushed: bool,
    ) -> Result<(Publication, Option<(Proposal, Fate)>), Refusal> {
        let forge = &self.request.forge;
        let ours = Some(self.texts.digest());
        let with = |proposal: &Proposal, text: Option<String>| Publication {
            url: Some(proposal.url.clone()),
            text,
            ..plain.clone()
        };
        if forge.is_by_push() {
            // A server that speaks of none has the one that is known.
            let fate = if is_pushed && plain.url.is_none() { Fate::Created } else { Fate::Found };
            let proposal = found.or_else(|| plain.url.as_deref().map(Proposal::at));
            let publication = proposal.as_ref().map_or_else(|| plain.clone(), |one| with(one, None));
            return Ok((publication, proposal.map(|one| (one, fate))));
        }
        let found = match found {
            Some(found) => found,
            None => {
                if let Some(made) = forge.create(subject)? {
                    return Ok((with(&made, ours), Some((made, Fate::Created))));
                }
                // Somebody was faster, or this forge makes none.
                let found = forge.find(subject)?;
                check_open(found.as_ref())?;
                let Some(found) = found else { return Ok((plain.clone(), None)) };
                found
            }
        };
        let theirs = found.texts.as_ref().map(Texts::digest);
        if theirs == ours {
            return Ok((with(&found, ours), Some((found, Fate::Found))));
        }
        // Only what we wrote is replaced.
        if theirs.is_some() && theirs == plain.text {
            forge.update(subject, &found)?;
            return Ok((with(&found, ours), Some((found, Fate::Updated))));
        }
        Ok((with(&found, plain.text.clone()), Some((found, Fate::Found))))
    }

    /// Records it, if that is news.
    fn record(
        &self,
        publishing: &mut Publishing<'_>,
        publication: Publication,
        last: Option<&Publication>,
    ) -> Result<(), Refusal> {
        let is_known =
            last.is_some_and(|last| Publication { count: last.count, ..publication.clone() } == *last);
        if is_known { Ok(()) } else { publishing.record(publication) }
    }

    /// The note for a proposal that was requested and not made.
    fn unasked(&self, done: &Published) -> Option<String> {
        let Names { remote, .. } = self.names;
        match (&self.request.forge, &done.proposal) {
            (Forge::None, _) | (_, Some(_)) => None,
            (Forge::Program(path), None) => Some(format!("{} made no proposal", path.display())),
            (_, None) if done.is_pushed => {
                Some(format!("{remote} was asked for a proposal, and named none; it may have made one"))
            }
            (_, None) => {
                Some(format!("{remote} has all commits, and is asked for a proposal only by a push"))
            }
        }
    }

    /// The record after this call. Without a proposal it keeps the known one.
    fn publication(&self, commit: CommitId, last: Option<&Publication>) -> Publication {
        Publication {
            remote: self.names.key.clone(),
            branch: self.names.branch.to_string(),
            base: self.names.base.to_string(),
            commit: commit.to_string(),
            head: self.work.head.to_string(),
            squashed: self.request.squash,
            url: last.and_then(|one| one.url.clone()),
            text: last.and_then(|one| one.text.clone()),
            count: last.map_or(0, |one| one.count).saturating_add(1),
        }
    }
}

/// Whether a publication has this remote, branch and base.
fn is_key(names: &Names, one: &Publication) -> bool {
    one.remote == names.key && one.branch == names.branch.to_string() && one.base == names.base.to_string()
}

/// Refuses a proposal that somebody closed: it is neither adopted nor opened again.
fn check_open(found: Option<&Proposal>) -> Result<(), Refusal> {
    let Some(closed) = found.filter(|found| found.state != ProposalState::Open) else { return Ok(()) };
    let message = format!("{} was {}, and is not opened again", closed.url, closed.state.word());
    let refusal = Refusal::new(Why::Failed, message);
    Err(match closed.state {
        ProposalState::Merged => {
            refusal.hint("newer commits are published as another branch: `--branch NAME`")
        }
        ProposalState::Closed | ProposalState::Open => {
            refusal.hint("open it again there, or publish as another branch: `--branch NAME`")
        }
    })
}

/// The address of a proposal in a server's words: one that ends with its number.
fn proposal_in(said: &[String]) -> Option<Proposal> {
    let words = said.iter().flat_map(|line| line.split_whitespace());
    let mut urls = words.filter(|word| word.contains("://") && word.len() <= 2_000);
    let is_proposal = |url: &&str| {
        let kinds = ["/merge_requests/", "/pulls/", "/pull/"];
        let numbers = kinds.iter().filter_map(|kind| url.rsplit_once(kind).map(|(_, number)| number));
        numbers
            .into_iter()
            .any(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    urls.find(is_proposal).map(Proposal::at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 21.9
    #[test]
    fn proposals_in_the_words_of_servers() {
        for (said, wanted) in [
            ("View merge request for a:|  https://gitlab.com/x/y/-/merge_requests/12|", Some(12)),
            ("To create a merge request for a, visit:|https://gitlab.com/x/-/merge_requests/new?a=1", None),
            ("Visit the existing pull request:|http://h:3000/a/b/pulls/7", Some(7)),
            ("Create a pull request by visiting:|https://github.com/a/b/pull/new/x", None),
            ("nothing", None),
        ] {
            let lines: Vec<String> = said.split('|').map(str::to_owned).collect();
            assert_eq!(proposal_in(&lines).and_then(|one| one.number), wanted, "{said}");
        }
    }
}
