//! Rights: what a layer takes of the user who starts it.

use crate::lab::us;

/// Rights to start a layer, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Those of any user.
    User,
    /// Those of root of a user namespace of one's own.
    Namespace,
    /// Those of the machine's root.
    Root,
}

impl Rights {
    /// Returns those that this process has.
    pub(crate) fn here() -> Self {
        match (us::is_machines_root(), us::is_in_a_namespace()) {
            (true, _) => Self::Root,
            (false, true) => Self::Namespace,
            (false, false) => Self::User,
        }
    }
}
