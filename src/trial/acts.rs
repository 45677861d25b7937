//! The acts of a trial, told one after the other: who is started, looks, runs, and is taken away,
//! and in which order.
//!
//! The order is the protocol. Nobody listens while something is measured; a test does, and holds
//! the order against what is written down.

/// Party that acts in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The network on which two sides meet that have none.
    Bridge,
    /// The stack that is measured.
    Stack,
    /// The other side of a workload that has two.
    Peer,
    /// Workloads that run beside the trial in stacks of their own.
    Neighbours,
    /// The clock of the innermost level.
    Clock,
    /// The steps of a workload around its command.
    Workload,
    /// Conditions of this machine.
    Conditions,
    /// Resources that the stack uses on this level.
    Bill,
    /// The look at who uses what while the command runs.
    Timeline,
    /// Energy that this machine takes.
    Energy,
    /// The count of what the command asks of its kernel.
    Counting,
    /// The command.
    Command,
    /// The look at which file the command was.
    Program,
}

/// Act of a party.
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

/// Listener that is told of each act, and of the party.
pub type Acts<'a> = &'a mut dyn FnMut(Who, Act);
