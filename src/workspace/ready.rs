//! Makes a new worktree of a workspace ready: ignored files, and `aynig.setup` (CONTRACT 15.2).
//!
//! The setup command's output goes to a log in the workspace's directory.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Duration;

use crate::contract::settlement::Ending;
use crate::fsutil;
use crate::git::worktrees::held::Worktree;
use crate::runner::attempt::finished::ending;
use crate::runner::attempt::include::{Include, LIST};
use crate::supervise::Spec;

use super::Workspaces;
use super::refusal::{Refusal, Why};
use super::store::Held;

/// Time between SIGTERM and SIGKILL to the setup command.
const GRACE: Duration = Duration::from_secs(10);

impl Workspaces<'_> {
    /// Copies ignored files and runs the setup command. Returns warnings.
    pub(super) fn make_ready(&self, held: &Held, worktree: &Worktree) -> Result<Vec<String>, Refusal> {
        let failed = |why: String| {
            Refusal::new(
                Why::Failed,
                format!("the worktree of {} could not be made ready: {why}", held.context.handle()),
            )
        };
        let include = Include {
            repo: self.repo,
            worktree,
            own: true,
            ours: std::slice::from_ref(&self.options.data),
            stop: &self.options.stop,
        };
        let mut warnings = Vec::new();
        if let Some(list) = include.list().map_err(failed)? {
            let left = include.copy(&list).map_err(failed)?;
            warnings.extend(left.into_iter().map(|(count, cause)| cause.words(LIST, count)));
        }
        if let Some(line) = &self.options.setup {
            self.set_up(held, worktree, line).map_err(failed)?;
        }
        match self.options.stop.cause() {
            Some(_) => Err(failed("it was stopped".to_owned())),
            None => Ok(warnings),
        }
    }

    fn set_up(&self, held: &Held, worktree: &Worktree, line: &str) -> Result<(), String> {
        let logs = held.directory.join("logs");
        let file = logs.join(format!("setup-{}-{}.log", held.context.name, held.context.generation));
        let log = fsutil::create_private_dir_all(&logs)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&file))
            .and_then(|log| Ok((log.try_clone()?, log)))
            .map_err(|error| format!("could not write {}: {error}", file.display()))?;
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let own = [
            ("WORKTREE_PATH", worktree.path.clone()),
            ("AYNIG_BIN", self.options.program.clone()),
            ("AYNIG_GIT_DIR", self.repo.common_dir().to_owned()),
        ];
        environment.extend(own.into_iter().map(|(name, path): (&str, PathBuf)| (name.into(), path.into())));
        let spec = Spec {
            terminal: false,
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".into(), line.into()],
            directory: worktree.path.clone(),
            environment,
            stdin: None,
            stdout: log.0,
            stderr: log.1,
            grace: GRACE,
            timeout: None,
            leash: None,
            watchdog: None,
        };
        match ending(crate::supervise::run(spec, &self.options.stop, || {}), None) {
            Ending::Exited(0) => Ok(()),
            ended => Err(format!(
                "`{line}` (aynig.setup) {}; what it printed is in {}",
                ended.describe(),
                file.display()
            )),
        }
    }
}
