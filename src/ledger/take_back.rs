//! Takes back what a step did to the ledger and the driver of its run (CONTRACT 20.33).

use std::collections::HashMap;

use bstr::{BString, ByteSlice};

use super::archive::{self, archived_ref};
use super::check::check_since;
use super::error::LedgerError;
use super::operate::{Ledger, move_together};
use super::place::Place;
use super::tip::{is_of_a_step, ledger_ref};
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::git::remote::PATIENCE;
use crate::git::{RefChange, Swap, Together};

/// What a step did to the refs of its run, and what was taken back.
#[derive(Debug, Default)]
pub struct TakenBack {
    /// What the ledger was, and what was wrong with it.
    pub ledger: Option<(Option<CommitId>, String)>,
    /// What was done to the driver.
    pub driver: Option<&'static str>,
}

impl Ledger<'_> {
    /// Sets the ledger back to its newest operation since `self` was read, if something else was put on it at the place of
    /// decision, or if it was removed there. So it does with the driver of a live attempt, to its `lease`.
    ///
    /// # Errors
    /// [`LedgerError`] if the place cannot be asked, or does not take it back.
    pub fn take_back(&mut self, lease: Option<(BString, CommitId)>) -> Result<TakenBack, LedgerError> {
        let name = ledger_ref(self.run);
        let own = (BString::from(name.as_str()), self.tip.id);
        let there = self.there(&[own].into_iter().chain(lease.clone()).collect::<Vec<_>>())?;
        let now = there.get(name.as_bytes().as_bstr()).copied();
        let (good, why) = match now {
            Some(head) if head == self.tip.id => (head, None),
            Some(head) => check_since(self.repo, self.run, self.tip.id, head)?,
            None if self.is_archived()? => return Ok(TakenBack::default()),
            None => (self.tip.id, Some("it was removed".to_owned())),
        };
        let driver = match lease {
            Some((driver, lease)) => self.driver_back(&driver, lease, there.get(&driver).copied())?,
            None => None,
        };
        let Some(why) = why else {
            if now != Some(self.tip.id) {
                // Somebody wrote an operation meanwhile.
                self.refresh()?;
            }
            return Ok(TakenBack { ledger: None, driver });
        };
        let back = RefChange { name: BString::from(name.as_str()), expected: now, new: Some(good) };
        if let Together::Lost { .. } = move_together(self.repo, &self.place, &[back])? {
            return Err(LedgerError::Moved { name });
        }
        // The copy of a remote's ledger may be that of what was taken back.
        let here = self.repo.read_ref(name.as_str().into())?;
        if here != Some(good)
            && let Swap::Lost { .. } =
                self.repo.swap(name.as_str().into(), here, good, "aynig: not written by aynig")?
        {
            tracing::debug!(%name, "another process has moved the copy");
        }
        self.reread()?;
        Ok(TakenBack { ledger: Some((now, why)), driver })
    }

    /// Sets a driver back to a lease, if it was removed or rewound, or if its newest commit is of a step or no state.
    /// Returns what was done to it. Whatever else is there was put there by a runner or a person.
    fn driver_back(
        &self,
        driver: &BString,
        lease: CommitId,
        now: Option<CommitId>,
    ) -> Result<Option<&'static str>, LedgerError> {
        let what = match now {
            None => "removed",
            Some(head) if head == lease => return Ok(None),
            Some(head) => {
                let is_state = Head::read(&self.repo.commit(head)?.facts()).state().is_some();
                let is_fine = is_state && !self.repo.descends(lease, head);
                if is_fine && !is_of_a_step(self.repo, head)? {
                    return Ok(None);
                }
                "moved"
            }
        };
        let back = RefChange { name: driver.clone(), expected: now, new: Some(lease) };
        let moved = move_together(self.repo, &self.place, &[back])?;
        Ok(matches!(moved, Together::Won).then_some(what))
    }

    /// The newest commits of refs at the place of decision, with their objects. Refs that are not there are left out.
    ///
    /// Whatever is not as `expected` is fetched, even if its commit is here: another process may be unpacking it, and a
    /// ledger whose files are not all here yet would be taken for a damaged one. Git's fetch looks for all objects.
    fn there(&self, expected: &[(BString, CommitId)]) -> Result<HashMap<BString, CommitId>, LedgerError> {
        let names: Vec<BString> = expected.iter().map(|(name, _)| name.clone()).collect();
        let Place::Remote(remote) = &self.place else {
            let here = names.iter().map(|name| Ok((name.clone(), self.repo.read_ref(name.as_bstr())?)));
            let here: Vec<(BString, Option<CommitId>)> = here.collect::<Result<_, LedgerError>>()?;
            return Ok(here.into_iter().filter_map(|(name, commit)| Some((name, commit?))).collect());
        };
        let there = self.repo.ask_refs(remote, &names, PATIENCE)?;
        let is_new = |(name, known): &&(BString, CommitId)| there.get(name).is_some_and(|head| head != known);
        let new: Vec<BString> = expected.iter().filter(is_new).map(|(name, _)| name.clone()).collect();
        if !new.is_empty() {
            self.repo.fetch_objects(remote, &new, PATIENCE)?;
        }
        Ok(there)
    }

    /// Whether the run was deleted at the place of decision.
    fn is_archived(&self) -> Result<bool, LedgerError> {
        if let Place::Remote(remote) = &self.place {
            let name = archived_ref(self.run);
            self.repo.fetch_refs(remote, &[(&name, &name)], PATIENCE)?;
        }
        Ok(archive::archived(self.repo, self.run)?.is_some())
    }
}
