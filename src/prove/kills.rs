//! Kills: SIGKILL of a surtax at a random moment, of its reaper, or of both, in stack after stack.
//!
//! After each, `surtax gc` must leave the machine as it was, every trial that was said to have
//! ended must be in its run file, `show last` must answer, and `resume last` must do what is left
//! and count nothing twice. Each stack is run once to its end first: that says how long it takes,
//! and so when it may be hit. A census of the whole machine is taken, less what belongs to labs
//! whose owner lives: what others make meanwhile without surtax looks like a leak.

use super::child::{ChildSurtax, compare, text, trials};
use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::driver;
use crate::fault::{Doing, Fault};
use crate::lab::census::Census;
use crate::lab::{REAPER_ARGUMENT, signal};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use surtax_instrument::clock::{look_until, monotonic_raw};

/// Containers of which a kill could leave more than of their kind alone.
const WITH_MORE: [&str; 4] = [
    "namespaces:time=private,user=private", "bubblewrap:scratch=bind", "lxc:net=veth",
    "podman:scratch=volume",
];

/// Kind that is left out: Debian has none, and it is a descriptor of what `runc` and `crun` are.
const LEFT_OUT: &str = "youki";

/// Stacks with one, which take longer.
const GUESTS: [&str; 5] = [
    "qemu:disk-size=64M,scratch=virtio-blk", "qemu:net=tap", "qemu:net=vhost-user", "qemu+runc",
    "docker+qemu",
];

/// Number of blocks in a run: of a guest, which boots for each, a quick proof has one.
fn blocks(size: Size, stack: &str) -> u32 {
    if GUESTS.contains(&stack) { size.pick(1, 2) } else { 2 }
}

/// Time that a reaper may work that was not killed.
const REAPER_LIMIT: Duration = Duration::from_secs(60);

pub(super) const PROOF: Proof = Proof {
    name: "kills",
    summary: "SIGKILL at random moments: how often something is left, lost, or does not open",
    parts: |size| {
        let plain = |stack| Part::alone(part_of(stack), per_stack(size), 800);
        let guest = |stack: &&str| Part::alone(part_of(stack), per_guest(size), 8000);
        stacks().map(plain).chain(guests(size).iter().map(guest)).collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut killed = Vec::new();
    let plain = stacks().map(|stack| (stack, per_stack(size)));
    let guests = guests(size).iter().map(|&stack| (stack, per_guest(size)));
    let mut all = plain.chain(guests);
    let done = all.try_for_each(|(stack, kills)| {
        if !bench.takes(&part_of(stack), kills) {
            return Ok(());
        }
        let mut counts = OfStack { stack, ..OfStack::default() };
        let done = kill_all(bench, blocks(size, stack), kills, &mut counts);
        killed.push(counts);
        done
    });
    figures.extend(lines(&killed));
    done
}

fn part_of(stack: &str) -> String {
    format!("kills/{stack}")
}

/// Stacks without a guest: a container of each kind.
pub(super) fn stacks() -> impl Iterator<Item = &'static str> {
    let kinds = driver::containers().map(|it| it.kind).filter(|kind| *kind != LEFT_OUT);
    kinds.map(|kind| {
        let is_of_kind = |stack: &&str| stack.split(':').next() == Some(kind);
        WITH_MORE.into_iter().find(is_of_kind).unwrap_or(kind)
    })
}

/// In full, 10,450 of them.
fn per_stack(size: Size) -> u32 {
    size.pick(2, 950)
}

/// In full, 500 of them.
fn per_guest(size: Size) -> u32 {
    size.pick(1, 100)
}

/// The guests that are killed: one boots in a few seconds, and a quick proof has no more.
fn guests(size: Size) -> &'static [&'static str] {
    match size {
        Size::Quick => &GUESTS[..1],
        Size::Full => &GUESTS,
    }
}

/// Counts of one stack.
#[derive(Clone, Debug, Default)]
struct OfStack {
    stack: &'static str,
    hits: u32,
    failures: Vec<Failure>,
    /// Reason why it does not run here; `None` where it does.
    gap: Option<String>,
}

/// Result of one kill.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Killed {
    was_hit: bool,
    failure: Option<Failure>,
}

/// Harm that a kill did and must not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failure {
    kind: Kind,
    what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Leak,
    Loss,
    Unreadable,
}

/// Processes that a kill may hit.
const TARGETS: [Target; 3] = [Target::Main, Target::Reaper, Target::Both];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Main,
    Reaper,
    Both,
}

fn kill_all(bench: &Bench<'_>, blocks: u32, kills: u32, counts: &mut OfStack) -> Result<(), Fault> {
    let stack = counts.stack;
    let calibrate = || calibrate(bench, stack, blocks);
    let whole = match bench.unit(&format!("kills/{stack}/whole"), 0, calibrate)? {
        Ok(whole) => whole,
        Err(why) => {
            counts.gap = Some(why);
            return Ok(());
        }
    };
    for number in bench.units(kills) {
        let unit = format!("kills/{stack}/{number}");
        let killed = bench.unit(&unit, 1, || {
            let killed = kill_one(bench, (stack, blocks), whole, number)?;
            bench.told()?;
            Ok(killed)
        })?;
        counts.hits += u32::from(killed.was_hit);
        counts.failures.extend(killed.failure);
    }
    Ok(())
}

/// A run that nobody kills.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Whole {
    took_ns: u64,
    /// Number of its trials that count.
    trial_count: u64,
}

/// Makes a run that nobody kills; else says why the stack does not run here.
fn calibrate(bench: &Bench<'_>, stack: &str, blocks: u32) -> Result<Result<Whole, String>, Fault> {
    let surtax = ChildSurtax::new(bench, "kills")?;
    let began = monotonic_raw();
    let output = surtax.run(&compare(stack, blocks, "0.02"))?;
    let took = monotonic_raw().since(began);
    if output.status.success() {
        let shown = surtax.ask(&["show", "last", "--format", "json"])?;
        let trial_count = trials(&shown.stdout, |state| state == "done");
        return Ok(Ok(Whole { took_ns: took.0, trial_count }));
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().find(|line| line.contains("error"));
    Ok(Err(line.or_else(|| said.lines().last()).unwrap_or_default().to_owned()))
}

/// Kills one run and looks at what is left of it.
fn kill_one(
    bench: &Bench<'_>,
    (stack, blocks): (&str, u32),
    whole: Whole,
    number: u32,
) -> Result<Killed, Fault> {
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    for (place, byte) in seed[4..].iter_mut().zip(stack.bytes()) {
        *place = byte;
    }
    let mut chance = ChaCha8Rng::from_seed(seed);
    let target = TARGETS[chance.random_range(0..TARGETS.len())];
    let delay = Duration::from_nanos(whole.took_ns).mul_f64(chance.random_range(0.0..1.05));
    let surtax = ChildSurtax::new(bench, "kills")?;
    let before = surtax.census()?;
    let child = surtax.start(&compare(stack, blocks, "0.02"))?;
    std::thread::sleep(delay);
    let (said, was_hit) = kill(child, target)?;
    let failure = failure(&surtax, &before, &said, whole.trial_count)?;
    let context = |failure: Failure| Failure {
        what: format!("{target:?} after {} ms: {}", delay.as_millis(), failure.what),
        ..failure
    };
    Ok(Killed { was_hit, failure: failure.map(context) })
}

/// Kills, waits for the end, and gives back what was said and whether anything living was hit.
fn kill(mut child: Child, target: Target) -> Result<(String, bool), Fault> {
    let is_alive = child.try_wait().doing("look at a run that is to be killed")?.is_none();
    let reapers = reapers_of(child.id());
    let mut was_hit = false;
    if is_alive && target != Target::Main {
        was_hit |= reapers.iter().any(|&reaper| signal(reaper, Signal::KILL).is_ok());
    }
    if is_alive && target != Target::Reaper {
        was_hit |= child.kill().is_ok();
    }
    let output = child.wait_with_output().doing("wait for a run that was killed")?;
    let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}/exe")).exists();
    let are_gone = || (!reapers.iter().any(is_there)).then_some(());
    look_until(REAPER_LIMIT, Duration::from_millis(5), are_gone);
    Ok((String::from_utf8_lossy(&output.stderr).into_owned(), was_hit))
}

/// The reapers that this process started.
fn reapers_of(owner: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{owner}/task/{owner}/children"));
    let list = list.unwrap_or_default();
    let is_reaper = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(REAPER_ARGUMENT)
    };
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(is_reaper).collect()
}

/// Returns what a kill did that it must not, if anything.
fn failure(
    surtax: &ChildSurtax,
    before: &Census,
    said: &str,
    wanted: u64,
) -> Result<Option<Failure>, Fault> {
    let failed = |kind, what: String| Ok(Some(Failure { kind, what }));
    let swept = surtax.ask(&["gc"])?;
    if !swept.status.success() {
        return failed(Kind::Leak, format!("`gc` failed: {}", text(&swept.stderr)));
    }
    let left = surtax.difference(before)?;
    if !left.is_empty() {
        return failed(Kind::Leak, left.join("; "));
    }
    let is_there = std::fs::read_dir(surtax.runs())
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok()));
    let shown = surtax.ask(&["show", "last", "--format", "json"])?;
    let finished = said.lines().filter(|line| line.contains("` ended: ")).count();
    if !shown.status.success() {
        let has_run = is_there && !text(&shown.stderr).contains("there is no run in");
        return match (finished, has_run) {
            (0, false) => Ok(None),
            (0, true) => failed(Kind::Unreadable, format!("`show last`: {}", text(&shown.stderr))),
            _ => {
                failed(Kind::Loss, format!("{finished} trials had ended: {}", text(&shown.stderr)))
            }
        };
    }
    let kept = trials(&shown.stdout, |state| state != "void");
    if kept < u64::try_from(finished).unwrap_or(u64::MAX) {
        return failed(Kind::Loss, format!("{finished} trials had ended, {kept} are kept"));
    }
    let resumed = surtax.ask(&["resume", "last"])?;
    if !resumed.status.success() {
        return failed(Kind::Unreadable, format!("`resume last`: {}", text(&resumed.stderr)));
    }
    let shown = surtax.ask(&["show", "last", "--format", "json"])?;
    let done = trials(&shown.stdout, |state| state == "done");
    if done != wanted {
        return failed(Kind::Loss, format!("{done} of {wanted} trials count after `resume`"));
    }
    let left = surtax.difference(before)?;
    if left.is_empty() { Ok(None) } else { failed(Kind::Leak, left.join("; ")) }
}

/// A line for each stack, and one for each kind of failure over all.
fn lines(stacks: &[OfStack]) -> Vec<Figure> {
    if stacks.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<Figure> = stacks.iter().map(of_stack).collect();
    let hits = stacks.iter().map(|it| it.hits).sum();
    for (kind, what) in [
        (Kind::Leak, "left something behind"),
        (Kind::Loss, "lost a trial"),
        (Kind::Unreadable, "left a run that does not open or resume"),
    ] {
        let of_kind = |it: &OfStack| it.failures.iter().filter(|it| it.kind == kind).count();
        let found = stacks.iter().map(of_kind).sum::<usize>();
        let counts = [hits, u32::try_from(found).unwrap_or(u32::MAX)];
        lines.push(Figure::new("all", counts, what).bar(Bar::AtMost(0), "none may"));
    }
    lines
}

fn of_stack(counts: &OfStack) -> Figure {
    let OfStack { stack, hits, failures, gap } = counts;
    let found = u32::try_from(failures.len()).unwrap_or(u32::MAX);
    let (bar, because) = match (gap, failures.first()) {
        (Some(why), _) => (Bar::Shown, format!("not here: {why}")),
        (None, Some(first)) => (Bar::AtMost(0), format!("first: {}", first.what)),
        (None, None) => (Bar::AtMost(0), String::from("of the kills that hit a living process")),
    };
    Figure::new(*stack, [*hits, found], "kills with a failure").bar(bar, because)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leak_in_a_campaign_misses_the_bar_and_is_told() {
        let part = |failures| OfStack { stack: "runc", hits: 9, failures, gap: None };
        let leak = Failure { kind: Kind::Leak, what: String::from("came: mount `x`") };
        assert!(lines(&[part(Vec::new())]).iter().all(Figure::is_met));
        let lines = lines(&[part(vec![leak])]);
        let met: Vec<bool> = lines.iter().map(Figure::is_met).collect();
        assert_eq!(met, [false, false, true, true]);
        assert_eq!(lines[0].because, "first: came: mount `x`");
    }

    #[test]
    fn every_kind_that_is_killed_with_more_is_a_container() {
        let killed: Vec<&str> = stacks().collect();
        assert!(WITH_MORE.iter().all(|stack| killed.contains(stack)), "{killed:?}");
        assert!(driver::containers().any(|it| it.kind == LEFT_OUT));
        assert!(killed.len() >= 11 && !killed.contains(&LEFT_OUT), "{killed:?}");
    }

    #[test]
    fn a_stack_that_does_not_run_here_is_shown_and_not_counted() {
        let gap = Some(String::from("there is no `lxc-start`"));
        let part = OfStack { stack: "lxc", hits: 0, failures: Vec::new(), gap };
        let line = &lines(&[part])[0];
        assert_eq!((line.bar, line.tried), (Bar::Shown, 0));
        assert!(line.because.contains("there is no `lxc-start`"), "{line:?}");
    }
}
