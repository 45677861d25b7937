//! Pure functions from samples to overheads with intervals: no files, no clocks, no hidden state.
//!
//! ```text
//! iterations ─ warm_up ──────────── how many of them to leave out
//! values ─┬ Sample ──────────────── quartiles, quantiles with intervals
//!         └ Histogram ───────────── quantiles of millions
//! blocks ── overhead ─┬─ Estimate ─┬─ verdict: differs, equivalent, inconclusive
//!           noise     └─ NoiseFloor┘  family: many comparisons, p-values after Holm
//!                                     power: what can be seen, how many more blocks
//!                                     stopping: whether the interval is narrow enough
//!                                     change: between two runs
//!                                     shifts: in a series of runs
//! ```
//!
//! What comes from outside is checked once, where a [`Sample`] or a [`Block`] is made; from there
//! on nothing can fail but for want of repeats ([`TooFew`]). The same blocks give the same interval
//! to the last bit, in whatever order they come.
//!
//! ```
//! use surtax_statistics::{Block, Verdict, noise_floor, overhead, verdict};
//!
//! // Six blocks: native, native again, and the arm; seconds.
//! let times = [
//!     (10.00, 10.01, 12.02), (10.02, 10.00, 12.00), (9.99, 10.00, 11.97),
//!     (10.01, 9.98, 12.01), (10.00, 10.02, 12.03), (9.98, 9.99, 11.98),
//! ];
//! let mut blocks = Vec::new();
//! let mut pairs = Vec::new();
//! for (baseline, again, arm) in times {
//!     blocks.push(Block::new(&[baseline, again], &[arm])?);
//!     pairs.push(Block::new(&[baseline], &[again])?);
//! }
//! let cost = overhead(&blocks)?;
//! assert!(cost.low < 1.2 && 1.2 < cost.high);
//! assert_eq!(verdict(&cost, &noise_floor(&pairs)?, 0.03), Verdict::Differs);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod by_block;
mod change;
mod confidence;
mod equivalence;
mod family;
mod histogram;
mod noise;
mod normal;
mod overhead;
mod power;
mod quantile;
mod sample;
mod shift;
mod signed_rank;
mod stopping;
mod student;
mod warm_up;

pub use by_block::ByBlock;
pub use change::change;
pub use confidence::Confidence;
pub use equivalence::{Verdict, is_equivalent, verdict};
pub use family::{holm, p_value};
pub use histogram::{Histogram, OutOfRange, Unreadable};
pub use noise::{NoiseFloor, departure, noise_floor};
pub use overhead::{Block, Estimate, Method, overhead, overhead_at};
pub use power::{blocks_needed, detectable_effect};
pub use quantile::{QuantileInterval, Summary, Unsupported, quantile, quantile_interval};
pub use sample::{Sample, TooFew, Unusable};
pub use shift::{Shift, shifts};
pub use stopping::{LOOK_FROM, blocks_to_precision, is_narrow_enough, relative_half_width};
pub use student::critical_value;
pub use warm_up::{Steadiness, WarmUp, warm_up};
