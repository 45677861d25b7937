//! The price of one operation, from many short batches of it.
//!
//! A batch is long against reading the clock and short against a time slice, so that a preemption
//! spoils few batches, and the median of all of them none. Whatever a batch needs beforehand is
//! made outside of its time.

use std::io;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Shortest time of a batch, where so many operations fit into one: a thousand readings of a clock.
const BATCH: Nanoseconds = Nanoseconds(50_000);

/// Fewer have no median worth the name. This many are taken however long they take.
const BATCHES_MIN: usize = 5;

/// More make the median no better.
const BATCHES_MAX: usize = 20_000;

/// Most times that a batch may turn out to be too short after all: it was interrupted whenever it
/// was tried.
const CALIBRATIONS_MAX: u32 = 5;

/// Cost of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The median over all batches, in nanoseconds per operation.
    pub median_ns: f64,
    /// The fastest batch, in nanoseconds per operation.
    pub lowest_ns: f64,
    /// Number of batches.
    pub batch_count: usize,
    /// Number of operations in each batch.
    pub operation_count: u64,
}

impl Measured {
    /// The price of one of so many equal parts of the operation.
    #[must_use]
    pub fn of_parts(self, parts: u64) -> Self {
        let share = 1.0 / parts as f64;
        Self { median_ns: self.median_ns * share, lowest_ns: self.lowest_ns * share, ..self }
    }
}

/// Measures for about so long. `batch` carries out so many operations, at most `operations_max`,
/// and says how long they took, in nanoseconds.
///
/// # Errors
/// The first one of a batch: then there is no price.
pub fn measure(
    budget: Duration,
    operations_max: u64,
    mut batch: impl FnMut(u64) -> io::Result<Nanoseconds>,
) -> io::Result<Measured> {
    let mut count = 1;
    for _ in 0..CALIBRATIONS_MAX {
        count = calibrate(count, operations_max, &mut batch)?;
        let measured = sample(budget, count, &mut |count| batch(count).map(Some))?;
        let is_long = measured.median_ns * count as f64 * 2.0 >= BATCH.0 as f64;
        if is_long || count >= operations_max {
            return Ok(measured);
        }
    }
    Err(io::Error::other("this machine is too busy to say how many operations are worth timing"))
}

/// Times batches of one size, while there are any.
fn sample(
    budget: Duration,
    operation_count: u64,
    batch: &mut impl FnMut(u64) -> io::Result<Option<Nanoseconds>>,
) -> io::Result<Measured> {
    let began = clock::monotonic_raw();
    let mut times_ns = Vec::with_capacity(64);
    while times_ns.len() < BATCHES_MIN
        || (Duration::from(clock::monotonic_raw().since(began)) < budget
            && times_ns.len() < BATCHES_MAX)
    {
        let Some(took) = batch(operation_count)? else { break };
        times_ns.push(took.0 as f64 / operation_count as f64);
    }
    times_ns.sort_unstable_by(f64::total_cmp);
    let batch_count = times_ns.len();
    let middle = (times_ns[(batch_count - 1) / 2], times_ns[batch_count / 2]);
    let median_ns = f64::midpoint(middle.0, middle.1);
    Ok(Measured { median_ns, lowest_ns: times_ns[0], batch_count, operation_count })
}

/// Measures an operation that each of these can be used for once, in batches of so many, for about
/// so long. What `prepare` makes of each is in no time.
///
/// # Errors
/// The first one of an operation; or there are too few of them.
pub fn measure_once<T, P>(
    budget: Duration,
    (of, batch_size): (&[T], usize),
    mut prepare: impl FnMut(&T) -> io::Result<P>,
    mut operation: impl FnMut(P) -> io::Result<()>,
) -> io::Result<Measured> {
    let mut batches = of.chunks_exact(batch_size.max(1));
    let few = || io::Error::other(format!("it can be done {} times here", of.len()));
    let mut next = |batch: &[T]| {
        let prepared = batch.iter().map(&mut prepare).collect::<io::Result<Vec<P>>>()?;
        timed(|| prepared.into_iter().try_for_each(&mut operation))
    };
    // The first one warms up what is not its own.
    next(batches.next().ok_or_else(few)?)?;
    if batches.len() < BATCHES_MIN {
        return Err(few());
    }
    sample(budget, batch_size as u64, &mut |_| batches.next().map(&mut next).transpose())
}

/// Finds the number of operations that make a batch, at least `count`. What these rounds took is no
/// sample: the first ones warm caches up.
fn calibrate(
    mut count: u64,
    operations_max: u64,
    batch: &mut impl FnMut(u64) -> io::Result<Nanoseconds>,
) -> io::Result<u64> {
    loop {
        // The first round begins with what is made once, and each may be interrupted.
        let took = batch(count)?.min(batch(count)?).min(batch(count)?);
        if took >= BATCH || count >= operations_max {
            return Ok(count);
        }
        // What is short is not known well, so it goes by small steps.
        let factor = (BATCH.0 / took.0.max(1)).clamp(2, 8);
        count = count.saturating_mul(factor).min(operations_max);
    }
}

/// Carries something out, and says how long it took.
///
/// # Errors
/// Its own.
pub fn timed(run: impl FnOnce() -> io::Result<()>) -> io::Result<Nanoseconds> {
    let began = clock::monotonic_raw();
    run()?;
    Ok(clock::monotonic_raw().since(began))
}

/// A batch of the same operation, over and over.
///
/// # Errors
/// The first one of an operation.
pub fn repeat(
    count: u64,
    mut operation: impl FnMut() -> io::Result<()>,
) -> io::Result<Nanoseconds> {
    timed(|| {
        for _ in 0..count {
            operation()?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_batch_grows_until_it_is_long_against_the_clock() {
        let measured = measure(MILLISECOND, u64::MAX, |count| Ok(Nanoseconds(40 * count))).unwrap();
        assert!(measured.operation_count * 40 >= BATCH.0);
        assert!(measured.operation_count * 40 < 8 * BATCH.0);
        assert!((measured.median_ns - 40.0).abs() < 1e-9);
        assert!((measured.lowest_ns - 40.0).abs() < 1e-9);
    }

    #[test]
    fn what_can_be_done_once_is_done_once_and_a_few_say_nothing() {
        let mut done = Vec::new();
        let all: Vec<u32> = (0..100).collect();
        let measured = measure_once(
            MILLISECOND * 1000,
            (&all, 10),
            |it| Ok(*it),
            |it| {
                done.push(it);
                Ok(())
            },
        );
        assert_eq!((measured.unwrap().batch_count, done), (9, all.clone()));
        let few = measure_once(MILLISECOND, (&all[..59], 10), |_| Ok(()), |()| Ok(()));
        let few = few.unwrap_err();
        assert_eq!(few.to_string(), "it can be done 59 times here");
    }

    #[test]
    fn a_batch_is_never_larger_than_what_it_may_be() {
        let batch = |count| {
            assert!(count <= 7);
            Ok(Nanoseconds(count))
        };
        assert_eq!(measure(MILLISECOND, 7, batch).unwrap().operation_count, 7);
    }

    #[test]
    fn a_few_preempted_batches_do_not_decide() {
        let mut number = 0;
        let measured = measure(Duration::ZERO, 1, |_| {
            number += 1;
            // The first three say how many operations make a batch; two of those that count were
            // interrupted.
            Ok(Nanoseconds(if matches!(number, 4 | 5) { 4_000_000 } else { 100 }))
        });
        let measured = measured.unwrap();
        assert_eq!(measured.batch_count, BATCHES_MIN);
        assert!((measured.median_ns - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_batch_that_was_interrupted_whenever_it_was_tried_is_still_found_too_short() {
        let mut number = 0;
        let measured = measure(Duration::ZERO, u64::MAX, |count| {
            number += 1;
            Ok(Nanoseconds(if number <= 3 { 4_000_000 } else { 40 * count }))
        });
        assert!(measured.unwrap().operation_count * 40 >= BATCH.0);
    }

    #[test]
    fn what_a_batch_cannot_do_is_said_and_is_no_price() {
        let refusal = measure(MILLISECOND, 1, |_| Err(io::Error::other("no such thing")));
        assert_eq!(refusal.unwrap_err().to_string(), "no such thing");
    }

    #[test]
    fn a_slow_operation_is_measured_a_few_times_even_beyond_the_budget() {
        let measured = measure(Duration::ZERO, 9, |_| Ok(Nanoseconds(10_000_000))).unwrap();
        assert_eq!((measured.operation_count, measured.batch_count), (1, BATCHES_MIN));
    }
}
