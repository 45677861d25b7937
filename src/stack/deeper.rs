//! The bill of the deeper levels, which a starter claims: it names payers of its own level and of
//! those below it, and of no other.
//!
//! What level 0 used is what this host saw itself. A starter that a guest's root speaks for could
//! otherwise raise that sum, or have its own word taken for what the host read.

use crate::fault::Fault;
use surtax_instrument::wire::{Reading, Role};

/// The most payers that a level has, and more.
pub(crate) const PAYERS_OF_A_LEVEL: usize = 64;

/// Length in bytes that no payer's name exceeds.
pub(crate) const NAME_MOST: usize = 512;

/// The levels below one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deeper {
    /// The level that looks at the bill.
    above: u8,
    /// Number of levels that stand below it.
    count: usize,
}

impl Deeper {
    /// Those of a stack of so many layers, whose outermost is started by this level; `None` where
    /// there are none.
    #[must_use]
    pub fn of(level: u8, layer_count: usize) -> Option<Self> {
        (layer_count > 1).then(|| Self { above: level, count: layer_count - 1 })
    }

    /// The bill, if every payer in it can be one of these levels.
    ///
    /// # Errors
    /// Of the inside: it names a payer of a level that is not its own, the command, more payers
    /// than there are, or one by a name that nobody has.
    pub fn checked(self, bill: Vec<Reading>) -> Result<Vec<Reading>, Fault> {
        if bill.len() > self.count.saturating_mul(PAYERS_OF_A_LEVEL) {
            let count = bill.len();
            return Err(Fault::inside(format!("a starter's bill names {count} payers")));
        }
        if let Some(named) = bill.iter().find(|it| it.payer.len() > NAME_MOST) {
            let length = named.payer.len();
            let words = format!("a starter's bill names a payer by {length} bytes");
            return Err(Fault::inside(words));
        }
        let first = usize::from(self.above) + 1;
        let levels = first..first + self.count;
        let is_theirs =
            |it: &&Reading| levels.contains(&usize::from(it.level)) && it.role != Role::Workload;
        match bill.iter().find(|it| !is_theirs(it)) {
            None => Ok(bill),
            Some(Reading { level, role, .. }) => Err(Fault::inside(format!(
                "a starter's bill names a payer ({role:?}) of level {level}, which is not one of \
                 its own"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surtax_instrument::amount::Amounts;
    use surtax_instrument::quantity::Nanoseconds;

    fn reading(level: u8, role: Role) -> Reading {
        Reading {
            payer: String::from("somebody"),
            role,
            level,
            amounts: Amounts::of_cpu(Nanoseconds(1), Nanoseconds(1)),
            carries_workload: true,
            is_shared: false,
        }
    }

    #[test]
    fn a_starter_speaks_for_its_own_level_and_those_below_and_for_nobody_else() {
        let of_three = Deeper::of(0, 3).unwrap();
        let good = vec![reading(1, Role::Engine), reading(2, Role::Hypervisor)];
        assert_eq!(of_three.checked(good.clone()).unwrap(), good);
        for (level, role) in [(0, Role::Engine), (3, Role::Engine), (1, Role::Workload)] {
            let bill = vec![reading(1, Role::Engine), reading(level, role)];
            let fault = of_three.checked(bill).unwrap_err();
            assert!(fault.message.contains(&format!("of level {level}")), "{fault}");
            assert_eq!(fault.blame, crate::fault::Blame::Inside);
        }
        // On a level further in the same holds of what is below that.
        let below_one = Deeper::of(1, 2).unwrap();
        assert!(below_one.checked(vec![reading(1, Role::Engine)]).is_err());
        assert!(below_one.checked(vec![reading(2, Role::Engine)]).is_ok());
        assert_eq!(Deeper::of(0, 1), None);
        let named = |length: usize| {
            let payer = "x".repeat(length);
            of_three.checked(vec![Reading { payer, ..reading(1, Role::Engine) }])
        };
        assert!(named(NAME_MOST).is_ok());
        assert!(named(NAME_MOST + 1).unwrap_err().message.contains("by 513 bytes"));
        let many = vec![reading(1, Role::Engine); PAYERS_OF_A_LEVEL * 2 + 1];
        assert!(of_three.checked(many).unwrap_err().message.contains("129 payers"));
    }
}
