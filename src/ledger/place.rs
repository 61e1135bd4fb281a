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
                let address = address(repo, remote);
                address.map(DecidedBy::Remote).ok_or_else(|| LedgerError::Unknown(remote.to_string()))
            }
        }
    }

    /// The place that a ledger names.
    ///
    /// # Errors
    /// [`LedgerError::Elsewhere`] if it is not reached from here.
    pub fn of(repo: &Repo, run: RunId, decided_by: &DecidedBy) -> Result<Self, LedgerError> {
        match decided_by {
            DecidedBy::Repository(id) if *id == identity(repo)? => Ok(Self::Here),
            DecidedBy::Repository(_) => Err(LedgerError::Elsewhere {
                run,
                place: "in another repository".to_owned(),
                hint: "type the command there; runs that several clones share are made with a remote (aynig.remote)",
            }),
            DecidedBy::Remote(wanted) => {
                let names = repo.remote_names().into_iter();
                let remotes = names.filter_map(|name| RemoteName::parse(&name).ok());
                let found = remotes.filter(|name| address(repo, name).as_ref() == Some(wanted)).min();
                found.map(Self::Remote).ok_or_else(|| LedgerError::Elsewhere {
                    run,
                    place: format!("at {wanted}"),
                    hint: "no remote of this repository has this address: add it with `git remote add`",
                })
            }
        }
    }
}

/// A remote's address without a user's name or password. `None` if it has none.
fn address(repo: &Repo, remote: &RemoteName) -> Option<String> {
    let url = repo.config(&format!("remote.{remote}.url"))?;
    let Some((scheme, rest)) = url.split_once("://") else { return Some(url) };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Some(format!("{scheme}://{host}/{path}"))
}

/// The random id of this repository. A clone has another one, since `git clone` does not copy the file.
fn identity(repo: &Repo) -> Result<String, LedgerError> {
    let path: PathBuf = own_directory(repo.common_dir()).join("repository-id");
    let failed = |source| LedgerError::Identity { path: path.display().to_string(), source };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(own_directory(repo.common_dir())).map_err(failed)?;
            let made = fsutil::create_whole(&path, format!("{}\n", OpId::random()).as_bytes());
            match made {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
            std::fs::read_to_string(&path).map(|text| text.trim().to_owned()).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}
