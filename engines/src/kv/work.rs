//! The next request to a server: drawn, or every key once.

use super::keys::Keys;
use super::random::Random;

/// Ratio of requests that store something to requests that read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Updates {
    pub(super) sets: u32,
    pub(super) gets: u32,
}

/// Source of the next requests.
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
