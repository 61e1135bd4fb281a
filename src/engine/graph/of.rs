//! The turn that an attempt of a node's driver carries out.

use crate::engine::attempt::Attempt;
use crate::engine::driver::Driver;
use crate::model::ids::TurnId;
use crate::model::node::Node;

/// A turn of a node.
pub(super) struct Of<'a> {
    pub(super) node: Node,
    pub(super) turn: TurnId,
    pub(super) attempt: &'a Attempt,
    pub(super) driver: &'a Driver<'a>,
}
