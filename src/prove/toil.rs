//! Toil: work of a known amount, done by `surtax __toil` as the command of a proof.
//!
//! One thread does as many rounds of arithmetic, system calls and copied bytes as variables of its
//! environment say, and prints the amounts. Twice the amount is twice the work; what does not grow
//! with it, the start of the process, takes about a millisecond.

mod ask;

use crate::fault::{Doing, Fault};
pub(super) use ask::ASKS;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::Duration;
use surtax_instrument::clock;

/// The hidden first argument that makes this program toil.
pub const TOIL: &str = "__toil";

/// Amount of work before the clock is asked again, when an amount is sought.
const TASTE: u64 = 20_000;

/// Bytes that are copied at once.
const CHUNK: usize = 64 << 10;

/// Kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Arithmetic that no processor can do side by side.
    Loops,
    /// The cheapest system call.
    Calls,
    /// Zeros that the kernel copies, in chunks of 64 KiB.
    Bytes,
}

/// Each kind of work.
pub(super) const WORKS: [Work; 3] = [Work::Loops, Work::Calls, Work::Bytes];

impl Work {
    /// The variable that says how much of it.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Loops => "SURTAX_TOIL_LOOPS",
            Self::Calls => "SURTAX_TOIL_CALLS",
            Self::Bytes => "SURTAX_TOIL_BYTES",
        }
    }

    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Loops => "loops",
            Self::Calls => "system calls",
            Self::Bytes => "bytes",
        }
    }

    fn run(self, amount: u64) -> Result<(), Fault> {
        match self {
            Self::Loops => {
                let step = |state: u64, _| {
                    black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1))
                };
                black_box((0..amount).fold(1, step));
            }
            Self::Calls => {
                for _ in 0..amount {
                    // SAFETY: the call takes nothing and changes nothing.
                    black_box(unsafe { libc::syscall(libc::SYS_getppid) });
                }
            }
            Self::Bytes => {
                let mut zeros = File::open("/dev/zero").doing("open `/dev/zero`")?;
                let mut chunk = vec![1; CHUNK];
                let mut left = usize::try_from(amount).unwrap_or(usize::MAX);
                while left > 0 {
                    let now = left.min(CHUNK);
                    let part = chunk.get_mut(..now).unwrap_or_default();
                    zeros.read_exact(part).doing("read `/dev/zero`")?;
                    left -= now;
                }
                black_box(chunk);
            }
        }
        Ok(())
    }

    /// The amount that takes about so long on this machine.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "about so much, and positive"
    )]
    pub(super) fn amount_of(self, wanted: Duration) -> Result<u64, Fault> {
        let taste = if self == Self::Bytes { TASTE * 1000 } else { TASTE };
        let began = clock::monotonic_raw();
        let mut done = 0;
        loop {
            self.run(taste)?;
            done += taste;
            let passed = Duration::from(clock::monotonic_raw().since(began));
            if passed >= wanted / 4 {
                return Ok((done as f64 * wanted.as_secs_f64() / passed.as_secs_f64()) as u64);
            }
        }
    }
}

/// Does what the variables say.
///
/// # Errors
/// The user's: a variable is no number. The machine's: there is no `/dev/zero`.
pub fn main() -> Result<(), Fault> {
    for work in WORKS {
        let Some(amount) = said(work.variable())? else { continue };
        work.run(amount)?;
        let line = format!("{amount} {}\n", work.noun());
        std::io::stdout().write_all(line.as_bytes()).doing("say what was done")?;
    }
    for ask in ASKS {
        ask.run(said(ask.variable())?.unwrap_or(0))?;
    }
    Ok(())
}

/// The amount that a variable says.
fn said(variable: &str) -> Result<Option<u64>, Fault> {
    let Some(text) = std::env::var_os(variable) else { return Ok(None) };
    let amount = text.to_str().and_then(|text| text.parse().ok());
    amount
        .map(Some)
        .ok_or_else(|| Fault::user(format!("`{variable}={}` is no amount of work", text.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_sought_for_each_kind_of_work_and_can_be_done() {
        for work in WORKS {
            let amount = work.amount_of(Duration::from_millis(4)).unwrap();
            assert!(amount > 1000, "{work:?}: {amount}");
            work.run(amount).unwrap();
        }
    }
}
