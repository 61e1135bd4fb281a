//! Where a run is decided: this repository, or a remote by its address.
//!
//! Invariant: a run is decided in one place, which its first operation names. An operation elsewhere is refused, so two
//! copies of a ledger never go different ways.

use std::path::PathBuf;

use super::error::LedgerError;
use crate::contract::ids::RemoteName;
use crate::contract::layout::own_directory;
use crate::fsutil;
use crate::git::Repo;
use crate::model::ids::{OpId, RunId};
use crate::model::run::DecidedBy;
use crate::words::shell_quote;

/// A place as it is reached from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// This repository.
    Here,
    /// A remote.
    Remote(RemoteName),
}

impl Place {
    /// How a ledger names this place.
    ///
    /// # Errors
    /// [`LedgerError`] if the remote has no address, or this repository's id cannot be kept.
    pub fn named(&self, repo: &Repo) -> Result<DecidedBy, LedgerError> {
        match self {
            Self::Here => Ok(DecidedBy::Repository(identity(repo)?)),
            Self::Remote(remote) => {
                let address = repo.address_of(remote).map(|address| repo.whole_address(address));
                address.map(DecidedBy::Remote).ok_or_else(|| LedgerError::Unknown(remote.to_string()))
            }
        }
    }

    /// The place that a ledger names.
    ///
    /// # Errors
    /// [`LedgerError::Elsewhere`] if it is not reached from here.
    pub fn of(repo: &Repo, run: RunId, decided_by: &DecidedBy) -> Result<Self, LedgerError> {
        let elsewhere = |hint| LedgerError::Elsewhere { run, place: where_it_is(decided_by), hint };
        match decided_by {
            DecidedBy::Repository(id) if *id == identity(repo)? => Ok(Self::Here),
            DecidedBy::Repository(_) => Err(elsewhere(
                "type the command there; runs that several clones share are made with a remote (aynig.remote)"
                    .to_owned(),
            )),
            DecidedBy::Remote(wanted) => {
                let names = repo.remote_names().into_iter();
                let remotes: Vec<RemoteName> = names.filter_map(|name| RemoteName::parse(&name).ok()).collect();
                let exact = remotes.iter().filter(|name| repo.address_of(name).as_ref() == Some(wanted)).min();
                let found = exact
                    .or_else(|| remotes.iter().filter(|name| Self::is_remote(repo, name, decided_by)).min());
                found.cloned().map(Self::Remote).ok_or_else(|| {
                    let own = repo.common_dir().to_str();
                    elsewhere(match own.is_some_and(|own| repo.is_one_repository(own, wanted)) {
                        true => "that is this repository: type the command in a clone of it".to_owned(),
                        false => mends(repo, &remotes, wanted),
                    })
                })
            }
        }
    }

    /// Whether a remote is the place that a ledger names, however its address is spelt, or was it before it moved.
    pub(super) fn is_remote(repo: &Repo, remote: &RemoteName, decided_by: &DecidedBy) -> bool {
        let DecidedBy::Remote(wanted) = decided_by else { return false };
        let addresses = repo.address_of(remote).into_iter().chain(former(repo, remote));
        addresses.into_iter().any(|address| repo.is_one_repository(&address, wanted))
    }

    /// The error for a ledger at a remote that does not decide it.
    pub(super) fn foreign(
        repo: &Repo,
        run: RunId,
        remote: &RemoteName,
        decided_by: &DecidedBy,
    ) -> LedgerError {
        let hint = match decided_by {
            DecidedBy::Repository(_) => "it is carried on there".to_owned(),
            DecidedBy::Remote(wanted) => mends(repo, std::slice::from_ref(remote), wanted),
        };
        let address = repo.address_of(remote).unwrap_or_default();
        LedgerError::Foreign { run, remote: remote.clone(), address, place: where_it_is(decided_by), hint }
    }
}

fn where_it_is(decided_by: &DecidedBy) -> String {
    match decided_by {
        DecidedBy::Repository(_) => "in another repository".to_owned(),
        DecidedBy::Remote(address) => format!("at {address}"),
    }
}

/// The setting of a remote with an address that it had before it moved. It may have several.
const FORMER: &str = "aynigFormerUrl";

/// The addresses that a remote had before it moved.
fn former(repo: &Repo, remote: &RemoteName) -> Vec<String> {
    let key = format!("{remote}.{FORMER}");
    let settings = repo.settings("remote").into_iter();
    settings.filter(|one| one.name.eq_ignore_ascii_case(&key)).filter_map(|one| one.value).collect()
}

/// What to type if a repository has only remotes with other addresses.
fn mends(repo: &Repo, remotes: &[RemoteName], wanted: &str) -> String {
    let wanted_word = shell_quote(wanted);
    let add = format!("`git remote add NAME {wanted_word}` adds it");
    let moved = |name: &str| format!("`git config --add remote.{name}.{FORMER} {wanted_word}`");
    match remotes {
        [only] => {
            let address = repo.address_of(only).unwrap_or_default();
            format!(
                "if {address} is the same repository, `git remote set-url {only} {wanted_word}` says so, or {} if it \
                 has moved from there; if not, {add}",
                moved(only.as_str())
            )
        }
        _ => format!(
            "no remote of this repository has this address: {add}, or {} if it has moved to that of NAME",
            moved("NAME")
        ),
    }
}

/// The random id of this repository. A clone has another one, since `git clone` does not copy the file.
fn identity(repo: &Repo) -> Result<String, LedgerError> {
    let path: PathBuf = own_directory(repo.common_dir()).join("repository-id");
    let failed = |source| LedgerError::Identity { path: path.display().to_string(), source };
    match fsutil::read_plain_text(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(own_directory(repo.common_dir())).map_err(failed)?;
            let made = fsutil::create_whole(&path, format!("{}\n", OpId::random()).as_bytes());
            match made {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
            fsutil::read_plain_text(&path).map(|text| text.trim().to_owned()).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}
