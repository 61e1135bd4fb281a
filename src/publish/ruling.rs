//! The decision about a push, from facts (CONTRACT 21.4).

/// Facts about the branch at the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// Whether it is there.
    pub(super) exists: bool,
    /// Whether it has the commit that is to be published.
    pub(super) has_ours: bool,
    /// Whether its commit is one that we recorded.
    pub(super) is_recorded: bool,
    /// Whether its commit is one of the work branch, and not of the base.
    pub(super) is_contained: bool,
    /// Whether we have published it before.
    pub(super) was_published: bool,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Nothing: the remote has it.
    UpToDate,
    /// It is pushed, from the value that was seen.
    Push,
    /// It is made again: somebody deleted it.
    Again,
    /// It stays: somebody else's commits are there.
    Foreign,
}

pub(super) fn rule(facts: Facts) -> Ruling {
    match facts {
        Facts { exists: false, was_published: true, .. } => Ruling::Again,
        Facts { exists: false, .. } => Ruling::Push,
        Facts { has_ours: true, .. } => Ruling::UpToDate,
        Facts { is_recorded: true, .. } | Facts { is_contained: true, .. } => Ruling::Push,
        Facts { .. } => Ruling::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 21.4
    #[test]
    fn what_is_pushed_over() {
        for bits in 0..32_u8 {
            let bit = |at: u8| bits & (1 << at) != 0;
            let facts = Facts {
                exists: bit(0),
                has_ours: bit(1),
                is_recorded: bit(2),
                is_contained: bit(3),
                was_published: bit(4),
            };
            let wanted = match (bit(0), bit(4)) {
                (false, true) => Ruling::Again,
                (false, false) => Ruling::Push,
                (true, _) if bit(1) => Ruling::UpToDate,
                (true, _) if bit(2) || bit(3) => Ruling::Push,
                (true, _) => Ruling::Foreign,
            };
            assert_eq!(rule(facts), wanted, "{facts:?}");
        }
    }
}
