//! Sets the registration of a workspace's worktree right before any git looks at it (CONTRACT 15.6).
//!
//! Why: a command can write to all files of a registration. Git waits forever for a named pipe among them, and without
//! a HEAD that it can read it works with other settings.

use std::ffi::OsStr;
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, CommitId};
use crate::fsutil;
use crate::git::repo::open::Repo;
use crate::git::worktrees::error::{WorktreeError, files};
use crate::git::worktrees::registration::{Mark, Owner, Workplace, named_by, plain, same_place};
use crate::git::worktrees::registry::owner_of;

/// The repositories of submodules: large, and of no use to git in the worktree itself.
const MODULES: &str = "modules";

impl Repo {
    /// Sets the registration of a workspace at `path` right. Returns the repairs in words.
    pub(crate) fn mend_workspace(
        &self,
        path: &Path,
        mark: &Mark,
    ) -> std::result::Result<Vec<String>, WorktreeError> {
        let _registry = self.registry_lock()?;
        let all = self.registrations()?;
        let link = path.join(".git");
        let is_its =
            |git_dir: &Path| matches!(owner_of(git_dir), Some(Owner::Workspace(found)) if found == *mark);
        let names_it = |git_dir: &Path| {
            owner_of(git_dir).is_none()
                && named_by(&git_dir.join("gitdir")).is_some_and(|named| named == link)
        };
        // Both files of the registration may be empty after a loss of power.
        let named = named_by(&link);
        let is_named = |git_dir: &Path| {
            owner_of(git_dir).is_none()
                && named_by(&git_dir.join("gitdir")).is_none_or(|named| !named.ends_with(".git"))
                && named.as_ref().is_some_and(|named| same_place(named, git_dir))
        };
        let found = |is: &dyn Fn(&Path) -> bool| all.iter().find(|git_dir| is(git_dir));
        let Some(git_dir) = found(&is_its).or_else(|| found(&names_it)).or_else(|| found(&is_named)) else {
            return Ok(Vec::new());
        };
        let place = Workplace { path: path.to_owned(), git_dir: git_dir.clone() };
        place.mend(self.common_dir(), &mark.branch).map_err(files("mend", git_dir))
    }
}

impl Workplace {
    /// Whether git finds the repository and its settings by the registration.
    pub(crate) fn is_sound(&self, common_dir: &Path) -> bool {
        let own = self.git_dir.join("config.worktree");
        self.has_head()
            && self.leads_to(common_dir)
            && own.metadata().map_or_else(|_| own.symlink_metadata().is_err(), |found| found.is_file())
    }

    fn mend(&self, common_dir: &Path, branch: &BranchName) -> Result<Vec<String>> {
        let mut done = Vec::new();
        if !fsutil::remove_pipes(&self.git_dir, &self.git_dir.join(MODULES), &|_| true).is_empty() {
            done.push("named pipes or the like in its registration were removed".to_owned());
        }
        if !self.has_head() {
            let head = self.git_dir.join("HEAD");
            fsutil::clear_odd(&head)?;
            self.attach(branch)?;
            done.push(format!("its HEAD could not be read; it is on {branch} again"));
        }
        if !self.leads_to(common_dir) {
            let file = self.git_dir.join("commondir");
            fsutil::clear_odd(&file)?;
            fsutil::replace(&file, b"../..\n")?;
            done.push("its registration did not name this repository; it does again".to_owned());
        }
        let is_named = named_by(&self.git_dir.join("gitdir")).is_some_and(|named| named.ends_with(".git"));
        if !is_named {
            fsutil::clear_odd(&self.git_dir.join("gitdir"))?;
            self.write_back_link()?;
            done.push("its registration named no worktree; it does again".to_owned());
        }
        if fsutil::clear_odd(&self.git_dir.join("index"))? {
            done.push("its index was a directory, and is made anew".to_owned());
        }
        Ok(done)
    }

    /// Whether HEAD is what git takes for one.
    fn has_head(&self) -> bool {
        fsutil::read_plain(self.git_dir.join("HEAD")).is_ok_and(|text| {
            let target = text.strip_prefix(b"ref:").map(ByteSlice::trim);
            target.map_or_else(
                || CommitId::parse_hex(text.trim()).is_some(),
                |target| target.starts_with(b"refs/"),
            )
        })
    }

    /// Whether the registration names the repository that it is in.
    fn leads_to(&self, common_dir: &Path) -> bool {
        fsutil::read_plain(self.git_dir.join("commondir")).is_ok_and(|text| {
            let named = Path::new(OsStr::from_bytes(text.trim_end()));
            same_place(&plain(&self.git_dir.join(named)), common_dir)
        })
    }
}
