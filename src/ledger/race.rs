//! How operations that move the same ledger at once get out of each other's way.
//!
//! Invariant: nothing here decides who wins, which the compare-and-swap of the ref does. A lock that cannot be taken
//! delays an operation and fails none.

use std::time::Duration;

use crate::fsutil::DirLock;
use crate::git::Repo;

/// How many races an operation loses before it asks the others of this repository to wait.
const CROWD: u32 = 8;

/// How long others wait for such an operation at most: its process may be stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest pauses after the first lost race at a remote and after any, in milliseconds: about the time of one push.
/// If they grew on, the operation that waited longest would wait longest again. Locally the lock of the ref is waited
/// for.
const PAUSES: (u64, u64) = (20, 300);

/// The turn to write into a ledger from this repository. An operation with many events takes longer than a small one,
/// and would lose each race against a stream of those.
#[derive(Debug, Default)]
pub(super) struct Turn(Option<DirLock>);

impl Turn {
    /// Lets an operation pass that has the turn, and takes the turn after many lost races.
    pub(super) fn before_try(&mut self, repo: &Repo, lost: u32) {
        if self.0.is_some() {
            return;
        }
        let directory = repo.common_dir().join("refs");
        if lost < CROWD {
            DirLock::wait_until_free(&directory, PATIENCE);
        } else {
            self.0 = DirLock::acquire(&directory, PATIENCE).ok();
        }
    }
}

/// How long to wait after `lost` races: doubled each time, and a random part of that.
pub(super) fn pause(lost: u32) -> Duration {
    let (first, longest) = PAUSES;
    let most = longest.min(first.saturating_mul(1 << lost.min(16)));
    let random = crate::model::ids::OpId::random().uuid().as_u64_pair().0;
    Duration::from_millis(random % most + 1)
}
