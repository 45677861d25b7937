//! What is asked of a server next: drawn, or every key once.

use super::keys::Keys;
use super::random::Random;

/// How many requests store something, and how many read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Updates {
    pub(super) sets: u32,
    pub(super) gets: u32,
}

/// What is asked for next.
pub(super) enum Work {
    /// Requests of any key, drawn.
    Drawn(Random, Updates),
    /// Every key once, to store it.
    Load(u32),
}

impl Work {
    /// A key, and whether to store it; nothing when all is done.
    #[inline]
    pub(super) fn next(&mut self, keys: &Keys) -> Option<(u32, bool)> {
        match self {
            Self::Drawn(random, Updates { sets, gets }) => {
                let key = random.below(keys.count());
                let is_set = *sets > 0 && (*gets == 0 || random.below(*sets + *gets) < *sets);
                Some((key, is_set))
            }
            Self::Load(next) => {
                let key = Some(*next).filter(|key| *key < keys.count())?;
                *next += 1;
                Some((key, true))
            }
        }
    }
}
