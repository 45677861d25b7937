//! CPU time as a counter that is exact in all, and rough in how it divides into user and system.
//!
//! - **Reads** nothing itself: the probes of groups and of processes fill it.
//! - **Costs** nothing.
//! - **Cannot see** how less than a tick divides: a difference without any tick is user time.
//! - **Reference** Linux `kernel/sched/cputime.c`: ticks say where time went, the scheduler how
//!   much it was.

use crate::quantity::Nanoseconds;

/// CPU time that was used since somebody began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// All of it, by the scheduler's clock.
    pub total: Nanoseconds,
    /// Weight of user mode in it: ticks, or a time that was counted by them.
    pub user: u64,
    /// Weight of the kernel in it.
    pub system: u64,
}

impl CpuTime {
    /// User and system time since an earlier reading of the same counter. Their sum is what was
    /// used in between, whatever the weights say.
    #[must_use]
    pub fn since(self, earlier: Self) -> (Nanoseconds, Nanoseconds) {
        let total = self.total.since(earlier.total);
        let user = u128::from(self.user.saturating_sub(earlier.user));
        let system = u128::from(self.system.saturating_sub(earlier.system));
        let in_kernel = (u128::from(total.0) * system).checked_div(user + system);
        let in_kernel = in_kernel.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        (Nanoseconds(total.0 - in_kernel), Nanoseconds(in_kernel))
    }

    /// Both counters together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
        }
    }

    /// Returns what remains of it when a part of the same counter is taken out.
    #[must_use]
    pub fn without(self, part: Self) -> Self {
        Self {
            total: self.total.since(part.total),
            user: self.user.saturating_sub(part.user),
            system: self.system.saturating_sub(part.system),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(total: u64, user: u64, system: u64) -> CpuTime {
        CpuTime { total: Nanoseconds(total), user, system }
    }

    #[test]
    fn the_parts_of_a_difference_sum_to_the_whole() {
        let parts = read(1_001, 3, 1).since(CpuTime::default());
        assert_eq!(parts, (Nanoseconds(751), Nanoseconds(250)));
        assert_eq!(read(7, 0, 0).since(CpuTime::default()), (Nanoseconds(7), Nanoseconds(0)));
    }

    #[test]
    fn what_came_before_has_no_say_in_how_a_difference_divides() {
        // A daemon that has computed for 10 s, and whose last second was 400 ms of system time.
        let (user, system) = read(11_000, 1060, 40).since(read(10_000, 1000, 0));
        assert_eq!((user, system), (Nanoseconds(600), Nanoseconds(400)));
    }
}
