//! Time to a trustworthy answer: surtax against the fixed protocol of published studies.
//!
//! - **Measures** wall time of the built `surtax compare --in native,runc --precision …` from its
//!   start to its answer. The precision is what the peer had reached; the command is a loop in awk.
//! - **Peer** ten repeats without surtax in native, and after them ten in `runc run` of the bundle
//!   that our driver writes. A repeat runs the same command a hundred times, one after the other,
//!   and has one number: how many it did per second, the container's start included. The answer is
//!   the ratio of the two means with its 95 % interval (Welch, of the logarithm by the delta
//!   method). What drifts between the first ten and the last is not in that interval; it is in
//!   surtax's.
//! - **Bar** with `--full`, where a repeat takes 50 s as in the studies, surtax needs at most one
//!   fifth. Without it everything is a tenth as long, the command too, and there is no bar.
//! - **Command** `cargo bench --bench fixed_protocol -- --full --enforce`, as root, on a quiet
//!   machine: twenty minutes; without `--full` about three. `--count` is the number of repeats.

mod busy;
mod figure;
mod opened_lab;
mod runtime;

use figure::{Figure, Sheet};
use opened_lab::OpenedLab;
use runtime::Bundle;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use surtax::lab::Program;
use surtax::plan::{percentage, shell_line};
use surtax_instrument::clock;
use surtax_statistics::{Confidence, critical_value};

/// Repeats of each arm.
const REPEATS: u32 = 10;

/// Runs of the command in a repeat.
const RUNS_PER_REPEAT: u32 = 100;

/// Time of a repeat in the published studies, in seconds.
const REPEAT_S: f64 = 50.0;

/// Scale at which all of it is done without `--full`.
const SCALE: f64 = 0.1;

/// The most that surtax may take, as a share of what the fixed protocol takes.
const BAR: f64 = 0.2;

/// Time limit of one run of the command.
const DEADLINE: Duration = Duration::from_secs(600);

/// A cost with its interval, and how long it took to find.
struct Answer {
    ratio: f64,
    low: f64,
    high: f64,
    wall: Duration,
}

impl Answer {
    /// Half the interval, as a share of the ratio.
    fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.ratio
    }

    fn say(&self, what: &str) {
        let Self { ratio, low, high, wall } = self;
        let width = 100.0 * self.half_width();
        let wall = wall.as_secs_f64();
        println!("  {what}: {wall:.1} s, {ratio:.4} [{low:.4}, {high:.4}], known to ±{width:.2} %");
    }
}

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let is_full = std::env::args().any(|word| word == "--full");
    let repeat_s = if is_full { REPEAT_S } else { REPEAT_S * SCALE };
    let opened = OpenedLab::open();
    let script = busy::awk_script(repeat_s / f64::from(RUNS_PER_REPEAT));
    let repeat = repeat_of(&script);
    let bundle = match Bundle::of("runc", &["runc"], &["sh", "-c", &repeat], &opened) {
        Ok(bundle) => bundle,
        Err(why) => {
            println!("fixed protocol: SKIPPED: {why}");
            opened.close();
            return sheet.close();
        }
    };
    let count = sheet.count(REPEATS).max(2);
    let fixed = fixed(count, || in_native(&opened, &repeat), || bundle.run());
    bundle.close();
    opened.close();
    // The command is made to last on a machine that may have been slower then, or faster.
    let took_s = fixed.wall.as_secs_f64() / f64::from(2 * count);
    let what =
        format!("fixed protocol, {count} repeats of {took_s:.1} s ({repeat_s} s were meant)");
    fixed.say(&what);

    let (ours, blocks) = ours(&script, &fixed);
    ours.say(&format!("surtax, {blocks} blocks"));
    let has_reached = ours.half_width() <= fixed.half_width();
    let share = ours.wall.as_secs_f64() / fixed.wall.as_secs_f64();
    let scale = if is_full { "" } else { ", scaled to a tenth" };
    let name = format!("fixed protocol: wall time of surtax over its, to the same width{scale}");
    // A width that was not reached in all that time would have taken longer than this.
    let value = if has_reached { share } else { share.max(1.0) };
    let bar = is_full.then_some(0.0..=BAR);
    sheet.put(&Figure { name: &name, value, interval: None, unit: "", bar, count: blocks });
    if !has_reached {
        println!("  that width was not reached in the time of the fixed protocol");
    }
    sheet.close()
}

/// The line that runs the command so many times.
fn repeat_of(script: &str) -> String {
    let command = shell_line(["awk", script]);
    format!(
        "i=0; while [ $i -lt {RUNS_PER_REPEAT} ]; do {command} >/dev/null || exit 1; i=$((i+1)); \
         done"
    )
}

/// All of one arm, and then all of the other.
fn fixed(
    count: u32,
    mut native: impl FnMut() -> Duration,
    mut runc: impl FnMut() -> Duration,
) -> Answer {
    let rate = |wall: Duration| f64::from(RUNS_PER_REPEAT) / wall.as_secs_f64();
    let began = clock::monotonic_raw();
    let natives: Vec<f64> = (0..count).map(|_| rate(native())).collect();
    let runcs: Vec<f64> = (0..count).map(|_| rate(runc())).collect();
    let wall = clock::monotonic_raw().since(began).into();
    let (ratio, half) = ratio_of_means(&natives, &runcs);
    Answer { ratio, low: ratio / half.exp(), high: ratio * half.exp(), wall }
}

/// The ratio of two means, and half the 95 % interval of its logarithm.
///
/// Welch, "The Generalization of Student's Problem", Biometrika 34, 1947, with the delta method for
/// the logarithm: the variance of ln(mean) is that of the mean over its square.
fn ratio_of_means(above: &[f64], below: &[f64]) -> (f64, f64) {
    let [above, below] = [above, below].map(|values| {
        let count = f64::from(u32::try_from(values.len()).expect("repeats are few"));
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, squares / (count - 1.0) / count / mean.powi(2), count - 1.0)
    });
    let variance = above.1 + below.1;
    let freedom = variance.powi(2) / (above.1.powi(2) / above.2 + below.1.powi(2) / below.2);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the degrees of freedom of one arm and of both"
    )]
    let freedom = freedom.floor() as u32;
    (above.0 / below.0, critical_value(freedom, Confidence::P95) * variance.sqrt())
}

/// One repeat in native, without surtax.
fn in_native(opened: &OpenedLab, repeat: &str) -> Duration {
    let room = opened.lab.room("plain").expect("a room opens");
    let argv = ["sh", "-c", repeat].map(String::from).to_vec();
    let began = clock::monotonic_raw();
    let mut process =
        room.spawn(Program { argv, ..Program::default() }).expect("the repeat starts");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    let wall = clock::monotonic_raw().since(began).into();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    room.close().expect("the room closes");
    wall
}

/// The same question to surtax: until it is as narrow, or has taken as long.
fn ours(script: &str, fixed: &Answer) -> (Answer, u32) {
    let shelf = tempfile::tempdir().expect("there is a place for the run");
    let run = shelf.path().join("run.surtax");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to what a plan takes"
    )]
    let ppm = (fixed.half_width() * 1e6).floor().clamp(10.0, 500_000.0) as u32;
    let time = format!("{}s", fixed.wall.as_secs().max(1));
    let precision = percentage::text(ppm);
    let began = clock::monotonic_raw();
    let answer = compared(&run, &precision, &time, &["awk", script]);
    let wall = clock::monotonic_raw().since(began).into();
    let arms = answer["arms"].as_array().expect("an answer has arms");
    let arm = arms.iter().find(|arm| arm["stack"] == "runc").expect("runc was measured");
    let overhead = &arm["overhead"];
    assert!(overhead.is_object(), "{}", arm["because"]);
    let [ratio, low, high] = ["ratio", "low", "high"]
        .map(|key| overhead[key].as_f64().expect("an overhead has an interval"));
    let blocks = answer["run"]["blocks_done"].as_u64().expect("a run has blocks");
    (Answer { ratio, low, high, wall }, u32::try_from(blocks).expect("blocks are few"))
}

fn compared(run: &Path, precision: &str, time: &str, command: &[&str]) -> Value {
    #[expect(clippy::disallowed_methods, reason = "the built binary is what is measured")]
    let mut surtax = Command::new(env!("CARGO_BIN_EXE_surtax"));
    surtax.args(["compare", "--in", "native,runc", "--precision", precision, "--time", time]);
    surtax.args(["--quiet", "--format", "json", "--output"]).arg(run).arg("--").args(command);
    let output = surtax.stdin(Stdio::null()).output().expect("surtax starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).expect("the answer is JSON")
}
