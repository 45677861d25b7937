//! Stacks that stand: layers nested, outermost first, started one inside the other.

mod deeper;
pub mod descend;
pub mod reach;
pub mod rise;
pub mod shell;

pub use deeper::Deeper;
