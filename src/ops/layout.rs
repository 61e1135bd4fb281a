//! Where a page draws the nodes of a run: kept on this host, and no part of the run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::fsutil;
use crate::git::Repo;
use crate::model::ids::{NodeId, RunId};
use crate::model::time::Timestamp;

use super::error::Error;
use super::runs;

/// The most positions.
const MOST: usize = 1_024;

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
}

/// The part that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Viewport {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
    /// How large it is drawn.
    pub zoom: f64,
}

/// A layout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Layout {
    /// Of nodes.
    #[serde(default)]
    pub positions: BTreeMap<NodeId, Point>,
    /// What is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
    /// When it was kept. What a client sends here is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

fn place(repo: &Repo, run: RunId) -> Result<PathBuf, Error> {
    Ok(runs::directory(repo, run)?.path().join("layout.json"))
}

/// The layout of a run on this host, if one was kept.
pub fn read(repo: &Repo, run: RunId) -> Result<Option<Layout>, Error> {
    let text = fsutil::read_plain(place(repo, run)?).unwrap_or_default();
    Ok(serde_json::from_slice(&text).ok())
}

/// Refuses a layout that is too large.
pub fn check(layout: &Layout) -> Result<(), Error> {
    if layout.positions.len() > MOST {
        return Err(Error::usage(format!("a layout has at most {MOST} positions; nothing was changed")));
    }
    Ok(())
}

/// Keeps the layout of a run on this host.
pub fn keep(repo: &Repo, run: RunId, layout: Layout) -> Result<Layout, Error> {
    check(&layout)?;
    let updated_at = Timestamp::from_millis(clock::wall_millis());
    let layout = Layout { updated_at, ..layout };
    let because = |error: &dyn std::error::Error| Error::because("keep the layout", error);
    let text = serde_json::to_vec(&layout).map_err(|error| because(&error))?;
    let place = place(repo, run)?;
    // The directory of a run that was just made comes with its first event.
    let made = place.parent().map_or(Ok(()), fsutil::create_private_dir_all);
    made.and_then(|()| fsutil::replace_private(&place, &text)).map_err(|error| because(&error))?;
    Ok(layout)
}
