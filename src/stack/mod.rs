//! Stacks that stand: layers nested, outermost first, started one inside the other.

mod deeper;
pub mod sampler;
pub mod starter;
pub mod reach;
pub mod start;
pub mod shell;
mod talk;
pub mod watch;

pub use deeper::Deeper;
pub(crate) use deeper::{NAME_MOST, PAYERS_OF_A_LEVEL};
