//! Flow files: reads them, and the files of a base commit that they name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use bstr::ByteSlice;

use super::error::Error;
use super::settings::providers::kind;
use crate::contract::ids::CommitId;
use crate::contract::layout::HEADS;
use crate::flow::base::{Found, MAX_FILE, compare, paths};
use crate::flow::document::{Act, Evaluate, Flow, Judge};
use crate::flow::fault::{Note, Place, Severity};
use crate::flow::yaml::MAX_BYTES;
use crate::git::Repo;
use crate::git::objects::revspec::Content;
use crate::ledger::{Tip, runs};
use crate::words::shell_quote;

/// Reads a flow file, or standard input for `-`. Reads one byte more than a flow may have at most.
pub fn read(start: &Path, file: &Path) -> Result<Vec<u8>, Error> {
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        File::open(start.join(file)).and_then(|open| open.take(most).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::usage(format!("could not read {}: {error}", file.display()))
            .hint("name a file that is there, or `-` for standard input")),
    }
}

/// Resolves a base as git does: its full name, and its commit.
pub fn base(repo: &Repo, name: &str) -> Result<(String, CommitId), Error> {
    repo.named_as_git_does(name).map_err(|error| {
        let is_unborn = name == "HEAD" && repo.branches().is_ok_and(|branches| branches.is_empty());
        if is_unborn {
            return Error::usage(
                "this repository has no commit yet, and a run begins with one; nothing was changed",
            )
            .hint("`git commit --allow-empty -m 'The first'` makes one");
        }
        Error::usage(format!("--base: {error}")).hint("`git for-each-ref` lists the refs there are")
    })
}

/// Refuses HEAD as the base where the work branch of a run is checked out, as in its worktree (CONTRACT 20.1).
pub fn not_of_a_run(repo: &Repo, name: &str) -> Result<(), Error> {
    if name != "HEAD" {
        return Ok(());
    }
    let (full, _) = base(repo, name)?;
    let Some(branch) = full.strip_prefix(HEADS) else { return Ok(()) };
    for (id, head) in runs::all(repo)? {
        let Ok(Tip { state, .. }) = Tip::read_workspaces(repo, id, head) else { continue };
        if state.workspaces.values().all(|workspace| workspace.branch_name != branch) {
            continue;
        }
        let main = repo.default_branch(None).map(|main| shell_quote(&main));
        let (slug, branch) = (&state.run.slug, shell_quote(branch));
        let message = format!("HEAD is {branch}, the work of run {slug}; nothing was started");
        let own = format!("`--base {branch}` begins with the work of run {slug}");
        return Err(match main {
            Some(main) => Error::usage(message).hint(format!("`--base {main}` begins with {main}")).hint(own),
            None => Error::usage(message).hint(own),
        });
    }
    Ok(())
}

/// The limits of a flow that the agents of its steps cannot keep, since their providers report neither tokens nor cost
/// (CONTRACT 18.19): by the settings of a host, or by the names of providers alone.
pub fn unreported(repo: Option<&Repo>, flow: &Flow) -> Vec<Note> {
    let limits = &flow.limits;
    let (tokens, cost) = (limits.tokens.is_some(), limits.cost_usd.is_some());
    if limits.best_effort || !(tokens || cost) {
        return Vec::new();
    }
    let mut notes = Vec::new();
    for step in &flow.steps {
        let agent = match &step.act {
            Act::RunAgent(agent) => &agent.agent,
            Act::Evaluate(Evaluate { judge: Judge::Agent(name), .. }) => name,
            _ => continue,
        };
        let Some(kind) = kind(repo, agent) else { continue };
        for (is_set, limit, is_reported, what) in [
            (tokens, "tokens", kind.reports_tokens(), "tokens"),
            (cost, "cost_usd", kind.reports_cost(), "cost"),
        ] {
            if is_set && !is_reported {
                notes.push(Note {
                    place: step.at,
                    severity: Severity::Fault,
                    what: format!(
                        "{agent} reports no {what}, so `{limit}` of `limits` does not bound step {}",
                        step.id
                    ),
                    instead:
                        "write `best_effort: true` in `limits` to take it all the same, or name another agent"
                            .to_owned(),
                });
            }
        }
    }
    notes
}

/// A warning if a flow file of this repository differs from the base: a run takes the file as it is, and the rest from the
/// base.
pub fn uncommitted(
    repo: &Repo,
    (start, file, bytes): (&Path, &Path, &[u8]),
    (name, base): (&str, CommitId),
) -> Result<Option<Note>, Error> {
    let (path, top) = (start.join(file).canonicalize(), repo.top().canonicalize());
    let (Ok(path), Ok(top)) = (path, top) else { return Ok(None) };
    let Some(path) = path.strip_prefix(top).ok().and_then(Path::to_str) else { return Ok(None) };
    let content = repo
        .content_at(base, path, MAX_FILE)
        .map_err(|error| Error::because(&format!("read the files of {name}"), &error))?;
    // Git may write other line ends than it keeps.
    let lines = |bytes: &[u8]| bytes.replace("\r\n", "\n");
    let differs =
        matches!(content, Some(Content::File { bytes: there, .. }) if lines(&there) != lines(bytes));
    Ok(differs.then(|| Note {
        place: Place { line: 1, column: 1 },
        severity: Severity::Warning,
        what: format!("the file differs from what {name} has"),
        instead: "the run takes it as it is here, and prompts and scripts from there; commit it".to_owned(),
    }))
}

/// Compares a flow with the files of a base commit. Returns the commit, and the notes by position.
pub fn against_base(repo: &Repo, flow: &Flow, base: &str) -> Result<(CommitId, Vec<Note>), Error> {
    let (_, commit) = self::base(repo, base)?;
    let mut files = BTreeMap::new();
    for path in paths(flow) {
        let content = repo
            .content_at(commit, &path, MAX_FILE)
            .map_err(|error| Error::because(&format!("read the files of {base}"), &error))?;
        let found = match content {
            None if repo.top().join(&path).is_file() => Found::Uncommitted,
            None => Found::Nothing,
            Some(Content::File { bytes, executable }) => Found::File { content: bytes, executable },
            Some(Content::Directory | Content::Link(_)) => Found::Other,
        };
        files.insert(path, found);
    }
    Ok((commit, compare(flow, base, &files)))
}
