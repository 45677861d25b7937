//! Warm-up: how many leading iterations of a boot are not yet like those that follow, from the
//! times.
//!
//! An iteration is **not warm** when, over the boots, it differs from what the same boot does
//! later: the 99 % interval of ln(time / time of its counterpart half a boot later) excludes 0, and
//! ln(time / median of the boot's later half) is centred beyond ±0.5 %, on the same side. The
//! warm-up is the run of leading iterations that are not warm. It is one number for all boots of an
//! arm, since what is left out must not depend on how a single boot went.
//!
//! - The boot is the replicate, so what a boot shares (its placement, a slow minute) is no
//!   evidence.
//! - The counterpart is a single time. Two times of one boot that are alike differ symmetrically,
//!   whatever the noise; a single time and a median do not where noise only slows, and with many
//!   boots that would be taken for a warm-up.
//! - Later iterations are looked at only while all before them are not warm, so the chance to find
//!   a warm-up where there is none is that of the first iteration alone.
//! - At most half of the iterations are left out. If the last of those is not warm either, the arm
//!   was **never steady** in what was measured, and its times depend on how long one waits.
//!
//! Sources: Georges, Buytaert and Eeckhout, "Statistically Rigorous Java Performance Evaluation",
//! OOPSLA 2007, for steady state as a property that is found within each start; Kalibera and Jones,
//! "Rigorous Benchmarking in Reasonable Time", ISMM 2013, for one number of iterations, the same
//! for all starts of a benchmark on a platform, and for saying that there is no steady state rather
//! than cutting somewhere. They judge by eye; a coefficient of variation below a limit, the other
//! rule in use, is met by noise and by warm-up alike. `tests/simulation/warm_up.rs` has the rates.

use crate::confidence::Confidence;
use crate::overhead::{Guard, centred_interval};
use crate::quantile::quantile_of_sorted;
use crate::sample::{Sample, Unusable};
use crate::signed_rank::hodges_lehmann;
use crate::student::Within;

/// Two boots have a difference but no reliable error of it.
const BOOTS_MIN: usize = 3;

/// With fewer, the later half is one iteration.
const ITERATIONS_MIN: usize = 4;

/// An iteration that is as near to the later ones is warm, however certain the rest is: ±0.5 %.
const NEGLIGIBLE_LN: f64 = 0.005;

/// Warm-up of an arm, as the iterations of its boots show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    /// Leading iterations to leave out of every boot of the arm; at most half of them.
    pub iteration_count: usize,
    /// Those over the median of the later half of their boot: 1.12 is 12 % slower, and 1 if there
    /// are none.
    pub ratio: f64,
    /// Steadiness of the iterations that are left.
    pub steadiness: Steadiness,
}

/// Steadiness of the iterations after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steadiness {
    /// No iteration after those that are left out could be told from the later ones.
    Reached,
    /// Half of the iterations are left out, and none of those was warm.
    Never,
    /// It takes 3 boots of 4 iterations to say; nothing is left out.
    Unknown,
}

/// The warm-up of an arm, from the times of successive iterations of one command, boot by boot.
///
/// Times are in any one unit. Where boots have different numbers of iterations, those that all have
/// count. In what order the boots come does not matter.
///
/// ```
/// use surtax_statistics::{Steadiness, warm_up};
///
/// // Three boots whose first iteration takes twice as long, give or take d. Of 3 values Student's t
/// // at 99 % is 9.925, so the interval ln 2 ± 9.925 d / √3 excludes 0 as long as d < 0.121.
/// let boots = |d: f64| [-d, 0.0, d].map(|d| vec![2.0 * d.exp(), 1.0, 1.0, 1.0]);
///
/// let found = warm_up(&boots(0.120))?;
/// assert_eq!((found.iteration_count, found.steadiness), (1, Steadiness::Reached));
/// assert!((found.ratio - 2.0).abs() < 1e-12);
///
/// let found = warm_up(&boots(0.122))?;
/// assert_eq!((found.iteration_count, found.steadiness), (0, Steadiness::Reached));
/// # Ok::<(), surtax_statistics::Unusable>(())
/// ```
///
/// # Errors
/// The first time that is not a positive finite number.
pub fn warm_up(boots: &[Vec<f64>]) -> Result<WarmUp, Unusable> {
    for boot in boots.iter().filter(|boot| !boot.is_empty()) {
        Sample::new(boot)?;
    }
    let iterations = boots.iter().map(Vec::len).min().unwrap_or(0);
    if boots.len() < BOOTS_MIN || iterations < ITERATIONS_MIN {
        return Ok(WarmUp { iteration_count: 0, ratio: 1.0, steadiness: Steadiness::Unknown });
    }
    let boots: Vec<Boot> = boots.iter().map(|times| Boot::new(&times[..iterations])).collect();
    let half = iterations / 2;
    let iteration_count = (0..half).find(|&iteration| is_warm(&boots, iteration)).unwrap_or(half);
    let steadiness = if iteration_count < half { Steadiness::Reached } else { Steadiness::Never };
    Ok(WarmUp { iteration_count, ratio: ratio(&boots, iteration_count), steadiness })
}

/// The iterations of one boot.
struct Boot {
    ln_times: Vec<f64>,
    /// The median of the later half; of an odd number of iterations the middle one belongs to it.
    ln_later: f64,
}

impl Boot {
    fn new(times: &[f64]) -> Self {
        let ln_times: Vec<f64> = times.iter().map(|time| time.ln()).collect();
        let mut later = ln_times[times.len() / 2..].to_vec();
        later.sort_by(f64::total_cmp);
        Self { ln_later: quantile_of_sorted(&later, 0.5), ln_times }
    }

    /// An iteration of the first half over the one that is half a boot later.
    fn ln_over_counterpart(&self, iteration: usize) -> f64 {
        let counterpart = iteration + self.ln_times.len().div_ceil(2);
        self.ln_times[iteration] - self.ln_times[counterpart]
    }

    fn ln_over_later(&self, iteration: usize) -> f64 {
        self.ln_times[iteration] - self.ln_later
    }
}

/// Says whether an iteration cannot be told from the later ones, or hardly differs from them.
fn is_warm(boots: &[Boot], iteration: usize) -> bool {
    let centre = hodges_lehmann(&ascending(boots, |boot| boot.ln_over_later(iteration)));
    let differences = ascending(boots, |boot| boot.ln_over_counterpart(iteration));
    let found = centred_interval(&differences, Within::NOTHING, Confidence::P99, Guard::Dropped);
    let is_slower = found.low.min(found.centre) > 0.0 && centre > NEGLIGIBLE_LN;
    let is_faster = found.high.max(found.centre) < 0.0 && centre < -NEGLIGIBLE_LN;
    !(is_slower || is_faster)
}

/// Returns how much slower the leading iterations are: their geometric mean in each boot, centred
/// over boots.
fn ratio(boots: &[Boot], iteration_count: usize) -> f64 {
    if iteration_count == 0 {
        return 1.0;
    }
    let mean = |boot: &Boot| {
        let ln_ratios = (0..iteration_count).map(|iteration| boot.ln_over_later(iteration));
        let count = iteration_count as f64;
        ln_ratios.sum::<f64>() / count
    };
    hodges_lehmann(&ascending(boots, mean)).exp()
}

fn ascending(boots: &[Boot], of: impl Fn(&Boot) -> f64) -> Vec<f64> {
    let mut sorted: Vec<f64> = boots.iter().map(of).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes so many boots, the same up to a factor of their own.
    fn boots(count: i32, times: &[f64]) -> Vec<Vec<f64>> {
        (0..count)
            .map(|boot| times.iter().map(|time| time * 1.1_f64.powi(boot)).collect())
            .collect()
    }

    fn found(boots: &[Vec<f64>]) -> (usize, Steadiness) {
        let found = warm_up(boots).unwrap();
        (found.iteration_count, found.steadiness)
    }

    #[test]
    fn leading_iterations_that_are_slower_are_left_out_up_to_the_first_that_is_not() {
        let found = warm_up(&boots(5, &[4.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0])).unwrap();
        assert_eq!((found.iteration_count, found.steadiness), (2, Steadiness::Reached));
        // The geometric mean of 4 and 2.
        assert!((found.ratio - 8.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn iterations_that_are_faster_at_first_are_left_out_as_well() {
        let found = warm_up(&boots(5, &[0.5, 1.0, 1.0, 1.0])).unwrap();
        assert_eq!(found.iteration_count, 1);
        assert!((found.ratio - 0.5).abs() < 1e-12);
    }

    #[test]
    fn an_arm_that_becomes_faster_all_the_time_is_never_steady() {
        assert_eq!(found(&boots(4, &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0])), (3, Steadiness::Never));
        // The middle one of an odd number belongs to the later half.
        assert_eq!(found(&boots(4, &[5.0, 4.0, 3.0, 2.0, 1.0])), (2, Steadiness::Never));
    }

    #[test]
    fn four_thousandths_are_negligible_however_certain_and_six_are_not() {
        assert_eq!(found(&boots(20, &[1.004, 1.0, 1.0, 1.0])), (0, Steadiness::Reached));
        assert_eq!(found(&boots(20, &[1.006, 1.0, 1.0, 1.0])), (1, Steadiness::Reached));
    }

    #[test]
    fn with_two_boots_or_three_iterations_nothing_is_found_and_that_is_said() {
        for boots in [boots(2, &[9.0, 1.0, 1.0, 1.0]), boots(9, &[9.0, 1.0, 1.0]), vec![]] {
            assert_eq!(found(&boots), (0, Steadiness::Unknown));
        }
        // A boot that ended before its first iteration leaves none that all have.
        let mut ended = boots(5, &[9.0, 1.0, 1.0, 1.0]);
        ended.push(vec![]);
        assert_eq!(found(&ended), (0, Steadiness::Unknown));
    }

    #[test]
    fn what_only_some_boots_have_does_not_count() {
        let mut longer = boots(5, &[2.0, 1.0, 1.0, 1.0]);
        longer[3].extend([7.0, 7.0, 7.0]);
        assert_eq!(warm_up(&longer), warm_up(&boots(5, &[2.0, 1.0, 1.0, 1.0])));
    }

    #[test]
    fn a_time_of_zero_is_refused_wherever_it_is() {
        let mut boots = boots(2, &[1.0, 1.0]);
        boots[1][1] = 0.0;
        assert_eq!(warm_up(&boots), Err(Unusable::NotPositive { index: 1, value: 0.0 }));
    }

    fn any_boots() -> impl Strategy<Value = Vec<Vec<f64>>> {
        (1_usize..12, 1_usize..12).prop_flat_map(|(boots, iterations)| {
            let boot = prop::collection::vec(0.5_f64..2.0, iterations);
            prop::collection::vec(boot, boots)
        })
    }

    proptest! {
        #[test]
        fn at_most_half_is_left_out_and_all_of_that_half_where_it_is_never_steady(
            boots in any_boots(), slower in 1.0_f64..20.0, leading in 0_usize..6,
        ) {
            let mut boots = boots;
            boots.iter_mut().flat_map(|boot| boot.iter_mut().take(leading)).for_each(|t| *t *= slower);
            let (found, half) = (warm_up(&boots).unwrap(), boots[0].len() / 2);
            prop_assert!(found.ratio > 0.0 && found.ratio.is_finite());
            prop_assert!(found.iteration_count > 0 || (found.ratio - 1.0).abs() < 1e-15);
            let is_told = match found.steadiness {
                Steadiness::Reached => found.iteration_count < half,
                Steadiness::Never => found.iteration_count == half,
                Steadiness::Unknown => found.iteration_count == 0,
            };
            prop_assert!(is_told);
        }

        #[test]
        fn the_order_of_the_boots_and_a_factor_of_each_do_not_matter(
            (boots, shuffled) in any_boots().prop_flat_map(|t| (Just(t.clone()), Just(t).prop_shuffle())),
            unit in 0.1_f64..10.0,
        ) {
            let (one, other) = (warm_up(&boots).unwrap(), warm_up(&shuffled).unwrap());
            prop_assert_eq!(one, other);
            let scaled: Vec<Vec<f64>> = (1_i32..).zip(&boots)
                .map(|(place, boot)| boot.iter().map(|time| time * unit.powi(place)).collect())
                .collect();
            let scaled = warm_up(&scaled).unwrap();
            prop_assert_eq!(one.iteration_count, scaled.iteration_count);
            prop_assert!((one.ratio - scaled.ratio).abs() < 1e-9 * one.ratio);
        }

        #[test]
        fn no_float_at_all_makes_it_panic(
            boots in prop::collection::vec(prop::collection::vec(any::<f64>(), 0..6), 0..6),
        ) {
            let is_time = |time: &f64| time.is_finite() && *time > 0.0;
            prop_assert_eq!(warm_up(&boots).is_ok(), boots.iter().flatten().all(is_time));
        }
    }
}
