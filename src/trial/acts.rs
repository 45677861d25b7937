//! The acts of a trial, told one after the other: who is started, looks, runs, and is taken away, and in which order.
//!
//! The order is the protocol. Nobody listens while something is measured; a test does, and holds the order against
//! what is written down.

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The network on which two sides meet that have none.
    Bridge,
    /// The stack that is measured.
    Stack,
    /// The other side of a workload that has two.
    Peer,
    /// What runs beside the trial in stacks of its own.
    Neighbours,
    /// The clock of the innermost level.
    Clock,
    /// The steps of a workload around its command.
    Workload,
    /// What this machine does.
    Conditions,
    /// What the stack uses on this level.
    Bill,
    /// The command.
    Command,
    /// The look at which file the command was.
    Program,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It is started.
    Start,
    /// It gets ready, before the warm-up.
    Prepare,
    /// It runs, and is not measured.
    WarmUp,
    /// It begins to look, right before the command.
    Begin,
    /// It runs.
    Run,
    /// It says what it saw.
    End,
    /// It is taken away.
    Stop,
}

/// Who listens.
pub type Acts<'a> = &'a mut dyn FnMut(Who, Act);
