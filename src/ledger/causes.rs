//! Records that explain a run and are in no time of it: counts of its command's system calls, and
//! prices.

use super::insert::{insert_row, integer};
use super::row::{natural, short, words};
use super::schema::CAUSES_SINCE;
use super::{Ledger, TrialState};
use crate::fault::Fault;
use crate::ledger::refused;
use crate::plan::{Arm, ArmPart};
use crate::trial::CountedCalls;
use rusqlite::{Row, TransactionBehavior, params};
use std::collections::BTreeMap;
use surtax_engines::price::PRICES;
use surtax_instrument::quantity::Nanoseconds;
use syscalls::Sysno;

/// More system calls by name than any kernel has.
const CALLS_MAX: usize = 2048;

/// More blocks than any price list has.
const BLOCKS_MAX: u32 = 1000;

/// System calls of one run of the command in one arm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// True where this machine's own kernel counted; else it is the word of a deeper one.
    pub is_of_this_level: bool,
    /// Reason why nobody could count; `None` where they are counted.
    pub why: Option<String>,
    /// Number of programs that were started.
    pub program_count: u64,
    /// Number of page faults of pages of files; `None` where nobody said.
    pub file_fault_count: Option<u64>,
    /// Calls by name.
    pub calls: BTreeMap<String, CallCount>,
}

/// Counts of one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Number of times that it was asked for.
    pub count: u64,
    /// Sum of what it returned where that was more than 0: of calls that read and write, bytes.
    pub returned: u64,
    /// Number of times with the name of a file that nobody had said before.
    pub fresh: u64,
}

/// Price of a primitive in one block of a run of prices.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceSample {
    /// Index of the arm of this run.
    pub arm: u32,
    /// Number of the block in the run of prices.
    pub block: u32,
    /// Name of the price.
    pub price: String,
    /// Price of one operation.
    pub operation_ns: f64,
}

/// Name of a system call on this architecture; its number where it has none here.
fn name(number: u16) -> String {
    match Sysno::new(usize::from(number)) {
        Some(call) => call.name().into(),
        None => format!("call_{number}"),
    }
}

impl Ledger {
    /// Writes down what was counted of an arm, in one transaction, in the place of an earlier
    /// count.
    ///
    /// # Errors
    /// The machine's.
    pub fn keep_counted(
        &mut self,
        arm: u32,
        began_at: Nanoseconds,
        counted: &CountedCalls,
    ) -> Result<(), Fault> {
        let CountedCalls { is_of_this_level, calls } = counted;
        let why = (!calls.failure.is_empty()).then_some(&calls.failure);
        let write = |ledger: &mut Self| {
            let immediate = TransactionBehavior::Immediate;
            let transaction = ledger.connection.transaction_with_behavior(immediate)?;
            transaction.execute("DELETE FROM calls WHERE arm = ?1", [arm])?;
            transaction.execute("DELETE FROM counting WHERE arm = ?1", [arm])?;
            let (programs, faults) =
                (integer(calls.program_count), calls.file_fault_count.map(integer));
            let row = params![arm, integer(began_at.0), is_of_this_level, programs, faults, why];
            insert_row(&transaction, "counting", row)?;
            let counts: BTreeMap<u16, _> = calls.counted.iter().map(|it| (it.number, it)).collect();
            for (number, call) in counts {
                let counts = [call.count, call.returned, call.fresh].map(integer);
                let row = params![arm, name(number), counts[0], counts[1], counts[2]];
                insert_row(&transaction, "calls", row)?;
            }
            transaction.commit()
        };
        write(self).map_err(|error| refused(&self.path, "write down what was counted", &error))
    }

    /// Writes down prices, in the place of all earlier ones.
    ///
    /// # Errors
    /// The machine's.
    pub fn keep_prices(&mut self, prices: &[PriceSample]) -> Result<(), Fault> {
        let write = |ledger: &mut Self| {
            let immediate = TransactionBehavior::Immediate;
            let transaction = ledger.connection.transaction_with_behavior(immediate)?;
            transaction.execute("DELETE FROM prices", [])?;
            for PriceSample { arm, block, price, operation_ns } in prices {
                insert_row(&transaction, "prices", params![arm, block, price, operation_ns])?;
            }
            transaction.commit()
        };
        write(self).map_err(|error| refused(&self.path, "write down prices", &error))
    }

    /// Returns what was counted, by arm; nothing of an arm in which nobody tried.
    ///
    /// # Errors
    /// The machine's.
    pub fn counted(&self) -> Result<BTreeMap<u32, Counted>, Fault> {
        if self.format < CAUSES_SINCE {
            return Ok(BTreeMap::new());
        }
        let read = |row: &Row| {
            let counted = Counted {
                is_of_this_level: row.get(1)?,
                program_count: natural(row.get(2)?),
                file_fault_count: row.get::<_, Option<i64>>(3)?.map(natural),
                why: words(row, 4)?,
                calls: BTreeMap::new(),
            };
            Ok((row.get(0)?, counted))
        };
        let query = "SELECT arm, is_of_this_level, program_count, file_fault_count, why
                     FROM counting";
        let mut counted: BTreeMap<u32, Counted> =
            self.all("read who counted", query, read)?.into_iter().collect();
        let read = |row: &Row| {
            let of = |column| row.get::<_, i64>(column).map(natural);
            let count = CallCount { count: of(2)?, returned: of(3)?, fresh: of(4)? };
            Ok((row.get::<_, u32>(0)?, short(row, 1)?, count))
        };
        let query = "SELECT arm, call, call_count, returned_bytes, fresh_count FROM calls";
        for (arm, call, count) in self.all("read what was counted", query, read)? {
            let known = counted.get_mut(&arm).filter(|it| it.calls.len() < CALLS_MAX);
            known.map(|it| it.calls.insert(call, count));
        }
        Ok(counted)
    }

    /// Returns the prices of this run's stacks, as far as there are any.
    ///
    /// # Errors
    /// The machine's.
    pub fn prices(&self) -> Result<Vec<PriceSample>, Fault> {
        if self.format < CAUSES_SINCE {
            return Ok(Vec::new());
        }
        let read = |row: &Row| {
            Ok(PriceSample {
                arm: row.get(0)?,
                block: row.get(1)?,
                price: short(row, 2)?,
                operation_ns: row.get(3)?,
            })
        };
        let query = "SELECT arm, block, price, operation_ns FROM prices ORDER BY arm, block";
        let mut prices = self.all("read prices", query, read)?;
        prices.retain(|it: &PriceSample| {
            it.block < BLOCKS_MAX && PRICES.iter().any(|price| price.name == it.price)
        });
        Ok(prices)
    }
}

impl Ledger {
    /// Returns the prices that a run of `surtax prices` measured, by the arms of another run that
    /// have the same stack.
    ///
    /// # Errors
    /// The machine's.
    pub fn price_samples(&self, arms: &[Arm]) -> Result<Vec<PriceSample>, Fault> {
        let is_first = |arm: &Arm| arm.part() != ArmPart::BaselineAgain && arm.beside.is_empty();
        let own = self.plan()?.arms();
        let arm_of = |index: u32| {
            let own = own.iter().find(|arm| arm.index == index).filter(|arm| is_first(arm))?;
            arms.iter().find(|arm| arm.stack == own.stack)
        };
        let mut prices = Vec::new();
        for trial in self.trials()?.iter().filter(|it| it.state == TrialState::Done) {
            let Some(arm) = arm_of(trial.id.arm) else { continue };
            for price in PRICES {
                let sample = trial.sample(price.name);
                prices.extend(sample.map(|sample| PriceSample {
                    arm: arm.index,
                    block: trial.id.block,
                    price: price.name.into(),
                    operation_ns: sample.value,
                }));
            }
        }
        Ok(prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture;
    use surtax_instrument::calls::Call;
    use surtax_instrument::wire::Calls;

    #[test]
    fn what_was_counted_is_read_again_by_name_and_a_later_count_is_in_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.surtax");
        let mut ledger = fixture::ledger(&path, &["native", "runc"]);
        let call = |number: libc::c_long, count| Call {
            number: u16::try_from(number).unwrap(),
            count,
            returned: 7,
            fresh: 1,
        };
        let of = |counted: Vec<Call>| CountedCalls {
            is_of_this_level: true,
            calls: Calls { counted, ..Calls::default() },
        };
        let keep = |ledger: &mut Ledger, it: CountedCalls| {
            ledger.keep_counted(2, Nanoseconds(5), &it).unwrap();
        };
        keep(&mut ledger, of(vec![call(libc::SYS_read, 1), call(1023, 3)]));
        keep(&mut ledger, of(vec![call(libc::SYS_write, 9), call(1023, 3)]));
        let counted = ledger.counted().unwrap();
        let calls: Vec<(&str, u64)> =
            counted[&2].calls.iter().map(|(call, it)| (call.as_str(), it.count)).collect();
        assert_eq!(calls, [("call_1023", 3), ("write", 9)]);
        let failure = String::from("nobody may");
        keep(
            &mut ledger,
            CountedCalls {
                is_of_this_level: false,
                calls: Calls { failure: failure.clone(), ..Calls::default() },
            },
        );
        let expected = Counted { why: Some(failure), ..Counted::default() };
        assert_eq!(ledger.counted().unwrap()[&2], expected);
        let price = PriceSample { arm: 2, block: 1, price: "timer".into(), operation_ns: 1.5 };
        ledger.keep_prices(&[price.clone(), PriceSample { block: 0, ..price.clone() }]).unwrap();
        ledger.keep_prices(std::slice::from_ref(&price)).unwrap();
        assert_eq!(ledger.prices().unwrap(), [price]);
    }
}
