//! Memory bandwidth as STREAM measures it: copy, scale, add and triad over arrays that no cache
//! holds.
//!
//! The four run in turn, all threads at once, each thread on its own part of the arrays, which it
//! was the first to touch. A pass takes from the first thread's begin to the last one's end. The
//! first pass does not count. What the arrays hold in the end is computed a second time, and must
//! be the same.
//!
//! Rates count what a program asks for, as STREAM's do: what a CPU reads in addition before it
//! writes a line is not in them. These are no results of the reference program, but of a variant
//! with its kernels in other instructions.
//!
//! Source: J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance
//! Computers", IEEE TCCA Newsletter, December 1995; STREAM 5.10, `stream.c`.

pub(super) mod kernel;
mod line;

use super::price::cache_bytes;
use super::region::{Region, require_memory};
use super::threads::joined;
use super::{Answer, Engine, Options, Refused, option};
use kernel::Width;
use line::StartingLine;
use std::io;
use std::thread;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Arrays that are read and written.
pub(crate) const ENGINE: Engine = Engine {
    name: "stream",
    about: "memory bandwidth of copy, scale, add and triad, as STREAM measures it",
    options: &[
        option("threads", "N", "how many at once; 1"),
        option(
            "array-bytes",
            "N",
            "size of each of three arrays; four times the last level of cache, and 128 MiB \
                   at least",
        ),
        option("passes", "N", "how often, the first of which does not count; 20"),
    ],
    run,
};

/// The smallest arrays unless told, in bytes: a guest may see less cache than there is.
const ARRAY_BYTES_MIN: u64 = 128 << 20;

/// After more passes the numbers, which grow fifteenfold in each, were too large to be checked.
const PASSES_MAX: u64 = 200;

/// Factor that copies are scaled with.
const SCALE: f64 = 3.0;

/// Numbers that the arrays begin with, and the largest mean error in their end, relative to it.
const BEGIN: [f64; 3] = [2.0, 2.0, 0.0];
const ERROR_MAX: f64 = 1e-13;

/// The kernels in their order, and how many of the arrays each moves.
const KERNELS: [(&str, u64); 4] = [("copy", 2), ("scale", 2), ("add", 3), ("triad", 3)];

/// Times at which one thread began and ended each kernel of each pass.
type Times = Vec<[(Nanoseconds, Nanoseconds); KERNELS.len()]>;

/// A thread's part of each array.
type Part<'a> = [&'a mut [f64]; 3];

/// Measures all four.
fn run(options: &Options) -> Result<Answer, Refused> {
    let usual = ARRAY_BYTES_MIN.max(4 * cache_bytes());
    let bytes = options.number("array-bytes", usual, 4096..=1 << 40)?;
    let threads = options.number("threads", 1, 1..=4096)?;
    let passes = options.number("passes", 20, 2..=PASSES_MAX)?;
    let width = Width::of_this_cpu();
    let ran = measure(bytes, threads, passes, width)
        .map_err(|error| Refused::machine(format!("the arrays are not measured: {error}")))?;

    let mut answer = Answer::of(ENGINE.name);
    answer.whole("thread_count", threads);
    let bytes = bytes / LINE_BYTES * LINE_BYTES;
    answer.whole("array_bytes", bytes);
    answer.whole("cache_bytes", cache_bytes());
    answer.whole("pass_count", passes);
    answer.text("instructions", width.name);
    for (kernel, (name, moved)) in KERNELS.into_iter().enumerate() {
        // Bytes of a nanosecond are a thousand times MB, of 10^6 bytes, of a second.
        let rate = |nanoseconds: f64| (bytes * moved) as f64 / nanoseconds * 1e3;
        let times = durations(&ran.times, kernel);
        let (low, high, mean) = ends_and_mean(&times);
        answer.number(&format!("{name}_best_mb_per_s"), rate(low));
        answer.number(&format!("{name}_mean_mb_per_s"), rate(mean));
        answer.number(&format!("{name}_worst_mb_per_s"), rate(high));
    }
    answer.number("error_relative", ran.error);
    Ok(answer)
}

/// Parts of arrays begin where a line of the cache does, in bytes, and hold whole ones.
const LINE_BYTES: u64 = 64;

/// Findings of all passes.
struct PassTotals {
    /// Of each thread.
    times: Vec<Times>,
    /// The largest of the arrays' mean errors, relative to what they should hold.
    error: f64,
}

fn measure(bytes: u64, threads: u64, passes: u64, width: Width) -> io::Result<PassTotals> {
    require_memory(bytes.saturating_mul(3))?;
    let lines = usize::try_from(bytes / LINE_BYTES).map_err(io::Error::other)?;
    let threads = usize::try_from(threads).map_err(io::Error::other)?.min(lines);
    let length = lines * LINE_NUMBERS * size_of::<f64>();
    let mut regions = [Region::new(length)?, Region::new(length)?, Region::new(length)?];
    let part = lines.div_ceil(threads) * LINE_NUMBERS;
    let [a, b, c] = regions.each_mut().map(|region| region.numbers().chunks_mut(part));
    let parts: Vec<Part<'_>> = a.zip(b).zip(c).map(|((a, b), c)| [a, b, c]).collect();

    let line = StartingLine::of(parts.len());
    let ran = thread::scope(|scope| {
        let start = |part| {
            let line = &line;
            let work = move || Ok(work(part, line, passes, width));
            thread::Builder::new().spawn_scoped(scope, work)
        };
        let running: Vec<_> = parts.into_iter().map(start).collect();
        if running.iter().any(Result::is_err) {
            // Those that are there wait for those that are not.
            line.give_up();
        }
        running.into_iter().map(|thread| thread.and_then(joined)).collect::<io::Result<Vec<_>>>()
    })?;
    let error = largest_error(ran.iter().map(|(_, errors)| *errors), passes, lines * LINE_NUMBERS);
    if error > ERROR_MAX {
        let what = format!("the arrays differ by {error:e} from what they should hold in the end");
        return Err(io::Error::other(what));
    }
    Ok(PassTotals { times: ran.into_iter().map(|(times, _)| times).collect(), error })
}

/// Number of `f64` values in a line.
const LINE_NUMBERS: usize = 8;

/// All passes over a thread's part; says when, and the sum of what each array is off.
fn work(part: Part<'_>, line: &StartingLine, passes: u64, width: Width) -> (Times, [f64; 3]) {
    let [a, b, c] = part;
    a.fill(BEGIN[0]);
    b.fill(BEGIN[1]);
    c.fill(BEGIN[2]);
    let mut times = Vec::new();
    for _ in 0..passes {
        let timed = |kernel: &mut dyn FnMut()| {
            line.wait();
            let begin = clock::monotonic_raw();
            kernel();
            (begin, clock::monotonic_raw())
        };
        times.push([
            timed(&mut || c.copy_from_slice(a)),
            timed(&mut || width.scale(b, c, SCALE)),
            timed(&mut || width.add(c, a, b)),
            timed(&mut || width.triad(a, b, c, SCALE)),
        ]);
    }
    let wanted = in_the_end(passes);
    let off = |array: &[f64], wanted: f64| array.iter().map(|it| (it - wanted).abs()).sum();
    (times, [off(a, wanted[0]), off(b, wanted[1]), off(c, wanted[2])])
}

/// Returns the value of every number of each array after so many passes.
fn in_the_end(passes: u64) -> [f64; 3] {
    let [mut a, mut b, mut c] = BEGIN;
    for _ in 0..passes {
        c = a;
        b = SCALE * c;
        c = a + b;
        a = b + SCALE * c;
    }
    [a, b, c]
}

/// The largest mean error, relative to what the array should hold.
fn largest_error(sums: impl Iterator<Item = [f64; 3]>, passes: u64, count: usize) -> f64 {
    let mut all = [0.0; 3];
    for sums in sums {
        all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
    }
    let relative = |(sum, wanted): (f64, f64)| sum / count as f64 / wanted.abs();
    all.into_iter().zip(in_the_end(passes)).map(relative).fold(0.0, f64::max)
}

/// Returns the time that each pass but the first took in one of the kernels, in nanoseconds: from
/// the first thread's begin to the last one's end.
fn durations(threads: &[Times], kernel: usize) -> Vec<f64> {
    let passes = threads.first().map_or(0, Vec::len);
    let took = |pass: usize| {
        let of = threads.iter().map(|times| times[pass][kernel]);
        let begin = of.clone().map(|(begin, _)| begin).min().unwrap_or_default();
        let end = of.map(|(_, end)| end).max().unwrap_or_default();
        end.since(begin).seconds() * 1e9
    };
    (1..passes).map(took).collect()
}

/// The least, the largest, and the mean.
fn ends_and_mean(values: &[f64]) -> (f64, f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (low, high, mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer_to;

    #[test]
    fn four_kernels_have_rates_and_the_arrays_are_checked() {
        let answer = answer_to("stream --array-bytes 1048576 --threads 3 --passes 4").unwrap();
        for (name, _) in KERNELS {
            for which in ["best", "mean", "worst"] {
                assert!(answer.contains(&format!("\"{name}_{which}_mb_per_s\":")), "{answer}");
            }
        }
        assert!(answer.contains("\"thread_count\":3,\"array_bytes\":1048576,"), "{answer}");
        assert!(answer.contains("\"error_relative\":0"), "{answer}");
    }

    #[test]
    fn a_pass_goes_from_the_first_begin_to_the_last_end_and_the_first_pass_does_not_count() {
        let at = |begin, end| (Nanoseconds(begin), Nanoseconds(end));
        let pass = |begin, end| [at(begin, end), at(0, 0), at(0, 0), at(0, 0)];
        let threads = [vec![pass(0, 9), pass(10, 14)], vec![pass(0, 5), pass(11, 17)]];
        assert_eq!(durations(&threads, 0), [7.0]);
        assert_eq!(ends_and_mean(&[2.0, 1.0, 6.0]), (1.0, 6.0, 3.0));
    }

    #[test]
    fn a_number_that_is_off_is_found() {
        let passes = 3;
        let [a, _, _] = in_the_end(passes);
        assert!(largest_error([[0.0; 3]].into_iter(), passes, 10) <= ERROR_MAX);
        assert!(largest_error([[a * 1e-9, 0.0, 0.0]].into_iter(), passes, 10) > ERROR_MAX);
    }

    #[test]
    fn what_the_arrays_hold_after_the_most_passes_is_still_a_number() {
        assert!(in_the_end(PASSES_MAX).iter().all(|number| number.is_finite()));
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let refused = answer_to("stream --array-bytes 1099511627776").unwrap_err();
        assert!(!refused.is_users && refused.what.contains("do not fit into the"), "{refused}");
    }
}
