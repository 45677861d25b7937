//! Names an end by the kernel: somebody of the stack was killed because memory had run out.
//!
//! Such a trial says nothing of the stack, also where the command ended with status 0 since only a
//! child of it was killed. What is asked: the groups of each level's payers, read by the watch of
//! that level; the whole machine, where the kernel inside is the stack's own; and this level's
//! kernel log, which also has those whose group is gone.

use super::command::is_engine;
use super::conditions::real;
use super::pids;
use super::{Measured, Reason};
use crate::driver;
use crate::fault::Fault;
use crate::lab::{Lab, labs};
use crate::layer::{LayerSpec, StackSpec};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use surtax_instrument::amount::{OOM_KILLS, PROCESSES_REFUSED};
use surtax_instrument::probe::kernel_log::{KernelLog, Logged, Victim};
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::{Cause, Command, Outcome, Reading, Role};

/// Condition of a trial: which layer's own limit on memory was full.
pub(crate) const EXCEEDED: &str = "exceeded_memory_layer";

/// Engines that are to be killed: it is what they measure.
const MEANT: [&str; 2] = ["allocbomb", "thrash"];

/// With so much memory every container starts. runc fails with 2 MiB, gVisor's sandbox with 16.
const START_LEAST: Bytes = Bytes(32 << 20);

/// Looks out for kills among the processes of one room.
pub struct Lookout<'a> {
    log: Option<KernelLog>,
    lab: &'a Lab,
    room: String,
    /// Processes that carried the stack when it stood, each with its group.
    carriers: BTreeMap<u32, PathBuf>,
    /// Innermost of the room's groups that had counted kills when they were looked at, and how
    /// many.
    counted: Option<(PathBuf, u64)>,
    /// All that was logged, less what refusals came after the command's end.
    logged: Logged,
    /// True once the command has ended.
    has_ended: bool,
    /// Number of the room's groups in which a process could not be made, by what they counted when
    /// they were looked at. The log forgets what others drive out of it.
    refusing_groups: usize,
    /// Number of groups on deeper levels in which one could not be made, by what these count.
    refusing_inside: usize,
    /// Index in the stack of the layer whose own limit was full, when it was last asked.
    exceeded: Option<usize>,
}

/// Kills by the kernel, with the limit that they were for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Number of kills, as far as it is known.
    pub count: u64,
    /// Description of what happened, with the limit.
    pub why: String,
    /// Advice on what would help.
    pub hint: String,
    /// Index in the stack of the layer whose own limit was full; `None` where it was another's.
    pub exceeded: Option<usize>,
}

impl<'a> Lookout<'a> {
    /// Begins to look for kills in a room.
    #[must_use]
    pub fn begin(lab: &'a Lab, room: &str) -> Self {
        Self {
            log: KernelLog::open(),
            lab,
            room: room.into(),
            carriers: BTreeMap::new(),
            counted: None,
            logged: Logged::default(),
            has_ended: false,
            refusing_groups: 0,
            refusing_inside: 0,
            exceeded: None,
        }
    }

    /// Remembers who carries the stack, which stands: of more than ten kills in five seconds the
    /// kernel logs the numbers alone, and the group of one that is gone is gone as well.
    pub fn remember(&mut self) {
        self.carriers = self.lab.members(&self.room);
    }

    /// Looks at what the room's groups have counted, as long as they are there.
    pub fn look(&mut self) {
        self.counted = self.lab.killed_in(&self.room);
        self.refusing_groups = self.lab.refusing_groups(&self.room);
    }

    /// The same result, after a look at the groups: of a fault for all that they count, else for
    /// what no payer's watch reads.
    pub(super) fn looked<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        match &result {
            Ok(_) => {
                self.refusing_groups = self.lab.refusing_groups(&self.room);
                self.hear();
                // A process that the layer itself cannot start while it stops is no refusal of the
                // command's.
                self.has_ended = true;
            }
            Err(_) => self.look(),
        }
        result
    }

    /// Reads what was logged since it was last asked.
    fn hear(&mut self) {
        let Some(log) = &mut self.log else { return };
        let Logged { victims, pids, refused, is_incomplete } = log.read();
        let group = self.lab.logged_group(&self.room);
        self.logged.victims.extend(victims.into_iter().filter(|it| group.has(&it.group)));
        self.logged.pids.extend(pids);
        self.logged.is_incomplete |= is_incomplete;
        if !self.has_ended {
            self.logged.refused.extend(refused.into_iter().filter(|it| group.has(it)));
        }
    }

    /// Returns who of a stack was killed since: by the log, by what was counted when it was looked
    /// at, by who carried it.
    pub fn ended(&mut self, stack: &StackSpec) -> Option<Ended> {
        self.ended_or(stack, 0, || None)
    }

    /// The same, where the log says nothing and `counted` may know better than the room's groups.
    fn ended_or(
        &mut self,
        stack: &StackSpec,
        killed_here: u64,
        counted: impl FnOnce() -> Option<Ended>,
    ) -> Option<Ended> {
        self.hear();
        let carriers = || self.logged.pids.iter().filter_map(|pid| self.carriers.get(pid));
        let carrier = || carriers().next().map(|group| (group, carriers().map(|_| 1).sum()));
        // It alone says whose limit was full, which need not be the victim's own; and it has ten
        // lines in five seconds, of all on the machine, where a group counts every kill.
        let here = self.counted.as_ref().map_or(0, |(_, count)| *count).max(killed_here);
        let ended = logged(stack, &self.logged.victims, here).or_else(counted).or_else(|| {
            let counted = self.counted.as_ref().map(|(group, count)| (group, *count));
            let (group, count) = counted.or_else(carrier)?;
            Some(within(stack, labs(&group.to_string_lossy()).saturating_sub(1), count))
        });
        self.exceeded = ended.as_ref().and_then(|it| it.exceeded);
        ended
    }

    /// Returns which layer's own limit was full, as a condition of the trial: the outermost is 1.
    #[must_use]
    pub fn exceeded(&self) -> Option<(String, f64)> {
        Some((EXCEEDED.into(), (self.exceeded? + 1) as f64))
    }

    /// Returns in how many of the stack's groups a process could not be made, as far as
    /// [`Self::of_trial`] saw; `None` where it was in none.
    #[must_use]
    pub fn refusals(&self) -> Option<NonZero<usize>> {
        // Where levels share a kernel, these are the same groups.
        let seen = [self.logged.refused.len(), self.refusing_groups, self.refusing_inside];
        NonZero::new(seen.into_iter().max().unwrap_or(0))
    }

    /// As a condition of the trial: that records of the log were lost, or the groups of a kill held
    /// back, beside which a limit of the stack may have stopped somebody; `None` where it has none,
    /// or nothing was lost, or the command is meant to reach that limit.
    fn overrun(
        &self,
        stack: &StackSpec,
        (is_meant, is_bomb): (bool, bool),
    ) -> Option<(String, f64)> {
        let has_limit =
            smallest(&stack.layers).is_some() && !is_meant || pids::has_limit(stack) && !is_bomb;
        let is_lost = self.logged.is_incomplete || !self.logged.pids.is_empty();
        (is_lost && has_limit).then(|| (String::from("kernel_log_overrun"), 1.0))
    }

    /// Returns what a trial that was measured met of its limits, as conditions, and the reason why
    /// it does not count, if there is one. `is_meant` and `is_bomb`: its command is there to reach
    /// that of memory, or of processes.
    pub(super) fn judged(
        &mut self,
        stack: &StackSpec,
        measured: &Measured,
        (is_meant, is_bomb): (bool, bool),
    ) -> (Vec<(String, f64)>, Option<Reason>) {
        let killed = self.of_trial(stack, &measured.readings, &measured.outcome);
        let killed = killed.filter(|_| !is_meant);
        let refused = self.refusals().filter(|_| !is_bomb);
        let overrun = self.overrun(stack, (is_meant, is_bomb));
        let met = killed.iter().map(condition).chain(refused.map(pids::condition)).chain(overrun);
        let met = met.collect();
        let reason = killed.map(|it| Reason { why: it.why, remedy: Some(it.hint) });
        (met, reason.or_else(|| refused.map(|_| pids::reason(stack))))
    }

    /// Returns who of a stack was killed, whose command has ended.
    pub fn of_trial(
        &mut self,
        stack: &StackSpec,
        readings: &[Reading],
        outcome: &Outcome,
    ) -> Option<Ended> {
        self.refusing_inside = readings.iter().filter(|it| is_refused_inside(it)).count();
        self.ended_or(stack, killed_here(readings), || counted(stack, readings, outcome))
    }

    /// The same fault, with who was killed, if anybody was, or what else its limits explain.
    #[must_use]
    pub fn explained(&mut self, stack: &StackSpec, fault: Fault) -> Fault {
        let Some(ended) = self.ended(stack) else {
            return pids::explained(stack, fault, self.refusals().is_some());
        };
        let message = format!("{}; {}", ended.why, fault.message);
        Fault { message, hint: Some(ended.hint), ..fault }
    }

    /// The same of a stack that did not start: its limit may be too small for itself.
    #[must_use]
    pub fn not_started(&mut self, stack: &StackSpec, fault: Fault) -> Fault {
        let ended = self.ended(stack);
        let small = smallest(&stack.layers).filter(|(bytes, _)| bytes.0 < START_LEAST.0);
        let is_said = fault.cause == Some(Cause::NoMemory);
        // How much a start takes, what the command used elsewhere does not say.
        self.exceeded = self.exceeded.filter(|_| small.is_none());
        let (why, hint) = match (ended, small) {
            (Some(ended), Some((_, layer))) => (too_small(layer, Some(&ended)), start_least(layer)),
            (None, Some((_, layer))) if is_said => (too_small(layer, None), start_least(layer)),
            (Some(ended), None) => (ended.why, ended.hint),
            (None, _) => return pids::explained(stack, fault, self.refusals().is_some()),
        };
        Fault { message: format!("{why}; {}", fault.message), hint: Some(hint), ..fault }
    }
}

/// Returns how many were killed, as a condition of the trial.
fn condition(ended: &Ended) -> (String, f64) {
    (String::from("oom_kill_count"), real(ended.count))
}

/// Tells whether the command is there to be killed.
#[must_use]
pub fn is_meant(command: &Command) -> bool {
    is_engine(command, &MEANT)
}

/// By the counters: the innermost level on which somebody was killed, or the machine of the stack's
/// own.
fn counted(stack: &StackSpec, readings: &[Reading], outcome: &Outcome) -> Option<Ended> {
    let kills = |it: &Reading| it.amounts.get(OOM_KILLS).filter(|count| *count > 0);
    let killed = readings.iter().filter(|it| kills(it).is_some());
    if let Some(level) = killed.clone().map(|it| it.level).max() {
        let count = killed.filter(|it| it.level == level).filter_map(kills);
        return Some(within(stack, level.into(), count.fold(0, u64::saturating_add)));
    }
    // Of a kernel that others use too, nobody knows whose they were.
    let own = readings.iter().filter(|it| it.role == Role::GuestKernel && it.carries_workload);
    let level = own.map(|it| it.level).max()?;
    let count = outcome.oom_kill_count.filter(|count| *count > 0)?;
    Some(within(stack, level.into(), count))
}

/// Tells whether a process could not be made in a group on a deeper level; of this level the lab
/// reads all groups of the room.
fn is_refused_inside(reading: &Reading) -> bool {
    let count = reading.amounts.get(PROCESSES_REFUSED);
    reading.level > 0 && !reading.is_shared && count.is_some_and(|count| count > 0)
}

/// Sums the kills that the groups of the stack's own payers on this level have counted.
fn killed_here(readings: &[Reading]) -> u64 {
    let own = readings.iter().filter(|it| it.level == 0 && !it.is_shared);
    own.filter_map(|it| it.amounts.get(OOM_KILLS)).fold(0, u64::saturating_add)
}

/// By the log of this level's kernel, which all layers share that have none of their own: it names
/// the group that was full.
fn logged(stack: &StackSpec, victims: &[Victim], counted: u64) -> Option<Ended> {
    let first = victims.first()?;
    let count = u64::try_from(victims.len()).unwrap_or(u64::MAX).max(counted);
    Some(match first.limited.as_deref().map(|group| (group, labs(group))) {
        None => out_of_memory(count),
        Some((group, 0)) => above(group, count),
        Some((_, labs)) => {
            let held = stack.layers.get(..labs).unwrap_or(&stack.layers);
            // What has no limit of its own is held by the one around it.
            exhausted(held, held.iter().rev().find(|layer| limit(layer).is_some()), count)
        }
    })
}

/// By a counter, on a level: it counts kills in a group and not those for its limit, and of limits
/// around each other the smallest is full first.
fn within(stack: &StackSpec, level: usize, count: u64) -> Ended {
    let held = stack.layers.get(..=level).unwrap_or(&stack.layers);
    exhausted(held, smallest(held).map(|(_, layer)| layer), count)
}

/// The layer with the smallest limit; of equal ones the innermost.
fn smallest(layers: &[LayerSpec]) -> Option<(Bytes, &LayerSpec)> {
    let limited = layers.iter().rev().filter_map(|layer| Some((limit(layer)?, layer)));
    limited.min_by_key(|(bytes, _)| bytes.0)
}

/// That `limited` was full, or without one the innermost machine of these layers.
fn exhausted(held: &[LayerSpec], limited: Option<&LayerSpec>, count: u64) -> Ended {
    let killed = killed(count);
    let of_machine = || held.iter().rev().find(|layer| is_machine(layer));
    let (layer, why) = match (limited, of_machine()) {
        (Some(layer), _) => {
            let asked = layer.option("memory").unwrap_or("");
            let kind = &layer.kind;
            (layer, format!("the memory limit `memory={asked}` of `{kind}` was exceeded: {killed}"))
        }
        (None, Some(layer)) => {
            (layer, format!("the memory of `{}` was exhausted: {killed}", layer.kind))
        }
        (None, None) => return out_of_memory(count),
    };
    let exceeded = limited.and_then(|full| held.iter().position(|it| std::ptr::eq(it, full)));
    Ended { count, why, hint: more(layer), exceeded }
}

/// A limit of a group that surtax itself is in.
fn above(group: &str, count: u64) -> Ended {
    let why = format!(
        "the memory limit of the group `{}`, which surtax itself is in, was exceeded: {}",
        group.escape_default(),
        killed(count)
    );
    let hint = "give that group more memory, or let the command use less";
    Ended { count, why, hint: hint.into(), exceeded: None }
}

fn limit(layer: &LayerSpec) -> Option<Bytes> {
    layer.limits().ok()?.memory
}

fn out_of_memory(count: u64) -> Ended {
    let hint = "make room in this machine's memory, or let the command use less";
    let why = format!("this machine ran out of memory: {}", killed(count));
    Ended { count, why, hint: hint.into(), exceeded: None }
}

fn killed(count: u64) -> String {
    match count {
        1 => String::from("1 process was killed by the kernel (OOM)"),
        _ => format!("{count} processes were killed by the kernel (OOM)"),
    }
}

/// Tells whether a layer has memory of its own.
fn is_machine(layer: &LayerSpec) -> bool {
    driver::descriptor(&layer.kind).is_some_and(|descriptor| descriptor.has_own_memory)
}

/// At least twice as much: how much is enough, no limit that was full can tell.
fn more(layer: &LayerSpec) -> String {
    let kind = &layer.kind;
    let Some(bytes) = limit(layer) else {
        return format!("give it more with `{kind}:memory=…`, or let the command use less");
    };
    let enough = typed(Bytes(twice(bytes).0.max(START_LEAST.0)));
    format!("give it `{kind}:memory={enough}` or more, or let the command use less")
}

/// That a layer could not even start, and who was killed, if that is known.
fn too_small(layer: &LayerSpec, ended: Option<&Ended>) -> String {
    let asked = layer.option("memory").unwrap_or("");
    // Words of a tool, of a console or of another machine are no proof.
    let (is, killed) = match ended {
        Some(ended) => ("is", format!(": {}", killed(ended.count))),
        None => ("may be", String::new()),
    };
    format!("`memory={asked}` {is} too small to start `{}`{killed}", layer.kind)
}

fn start_least(layer: &LayerSpec) -> String {
    format!("give it `{}:memory={}` or more", layer.kind, typed(START_LEAST))
}

/// Advice for a trial in which a limit of its stack was full, from what the baseline used where
/// that limit was not: a quarter more than its largest peak. `exceeded` is the condition of that
/// name. `None` where it is of no such layer, or twice that layer's limit is more.
#[must_use]
pub(crate) fn enough(
    stack: &StackSpec,
    exceeded: f64,
    (baseline, peak): (&str, Bytes),
) -> Option<String> {
    let layer = (1..).zip(&stack.layers).find(|(number, _)| f64::from(*number) == exceeded)?.1;
    let (kind, twice) = (&layer.kind, twice(limit(layer)?));
    let with_room = round(Bytes(peak.0.saturating_add(peak.0 / 4)));
    (with_room.0 > twice.0).then(|| {
        let enough = typed(with_room);
        format!(
            "give it `{kind}:memory={enough}` or more, since the command used up to {peak} in \
             `{baseline}`, or let it use less"
        )
    })
}

/// In whole mebibytes, at least two.
fn twice(Bytes(limit): Bytes) -> Bytes {
    Bytes((limit >> 20).max(1).saturating_mul(2) << 20)
}

/// The next round figure: of mebibytes, a multiple of the power of two that is an eighth of it or
/// a bit more.
fn round(Bytes(bytes): Bytes) -> Bytes {
    let mebibytes = bytes.div_ceil(1 << 20).max(1);
    let step = (mebibytes.next_power_of_two() / 8).max(1);
    Bytes(mebibytes.next_multiple_of(step) << 20)
}

/// As an option says it: `128M`, `2G`.
fn typed(Bytes(bytes): Bytes) -> String {
    match (bytes >> 20) % 1024 {
        0 => format!("{}G", bytes >> 30),
        _ => format!("{}M", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixture::{measured, reading};

    fn stack(text: &str) -> StackSpec {
        crate::driver::parse(text).unwrap()
    }

    fn counted_in(text: &str, levels: &[Option<u64>], machine: Option<u64>) -> Option<Ended> {
        let readings: Vec<Reading> = (0u8..)
            .zip(levels)
            .map(|(level, count)| {
                let mut one = reading("carrier", level, 1, true);
                let kind = &stack(text).layers[usize::from(level)].kind;
                one.role = if kind == "qemu" { Role::GuestKernel } else { Role::Engine };
                one.amounts = one.amounts.with(OOM_KILLS, *count);
                one
            })
            .collect();
        let outcome = Outcome { oom_kill_count: machine, ..measured(1).outcome };
        counted(&stack(text), &readings, &outcome)
    }

    #[test]
    fn the_limit_that_was_exceeded_is_named_with_twice_as_much_as_a_remedy() {
        let ended = counted_in("runc:memory=64M", &[Some(1)], Some(9)).unwrap();
        assert_eq!(
            ended.why,
            "the memory limit `memory=64M` of `runc` was exceeded: 1 process was killed by the \
             kernel (OOM)"
        );
        assert_eq!(ended.hint, "give it `runc:memory=128M` or more, or let the command use less");
        assert_eq!(ended.exceeded, Some(0));
        let ended = counted_in("qemu:memory=512M+docker:memory=64M", &[None, Some(2)], Some(2));
        let ended = ended.unwrap();
        assert!(ended.why.contains("`memory=64M` of `docker` was exceeded: 2 processes"));
        assert_eq!(ended.exceeded, Some(1), "the inner one");
        // The smallest of all around the victim is full first.
        for (stack, levels, limit) in [
            ("runc:memory=96M+crun:memory=1G", [Some(0), Some(2)], "`memory=96M` of `runc`"),
            ("qemu:memory=256M+runc:memory=1G", [None, Some(1)], "`memory=256M` of `qemu`"),
        ] {
            let ended = counted_in(stack, &levels, None).unwrap();
            assert!(ended.why.contains(limit), "{}", ended.why);
            assert_eq!(ended.exceeded, Some(0), "the outer one");
        }
        let ended = counted_in("runc:memory=1G+crun", &[Some(0), Some(3)], None).unwrap();
        assert!(ended.why.contains("`memory=1G` of `runc`"), "{}", ended.why);
        assert!(ended.hint.contains("`runc:memory=2G`"), "{}", ended.hint);
    }

    #[test]
    fn a_limit_that_is_too_small_to_start_is_told_with_the_least_that_is_not() {
        let stack = stack("runc:memory=2M");
        let layer = &stack.layers[0];
        let ended = within(&stack, 0, 1);
        assert_eq!(
            too_small(layer, Some(&ended)),
            "`memory=2M` is too small to start `runc`: 1 process was killed by the kernel (OOM)"
        );
        let said = "`memory=2M` may be too small to start `runc`";
        assert_eq!(too_small(layer, None), said, "nobody was seen to be killed");
        assert_eq!(start_least(layer), "give it `runc:memory=32M` or more");
    }

    #[test]
    fn what_the_baseline_used_says_how_much_is_enough() {
        let stack = stack("qemu+runc:memory=32M");
        let advice = |exceeded: f64, peak: u64| {
            let found = enough(&stack, exceeded, ("native", Bytes(peak << 20)))?;
            Some(found.split(' ').nth(2).unwrap().to_owned())
        };
        let given = |text: &str| Some(format!("`runc:memory={text}`"));
        assert_eq!(advice(2.0, 101), given("128M"), "126.25 MiB and a round figure");
        assert_eq!(advice(2.0, 3), None, "twice the limit is more");
        assert_eq!(advice(2.0, 1700), given("2560M"));
        for none in [1.0, 0.0, 3.0, 1.5, -2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(advice(none, 101), None, "{none} is no layer with a limit");
        }
        assert_eq!(round(Bytes(1 << 30)), Bytes(1 << 30));
    }

    #[test]
    fn a_machine_of_its_own_is_believed_about_its_whole_memory_and_no_other() {
        let of_guest = counted_in("qemu:memory=512M", &[None], Some(1)).unwrap();
        assert!(of_guest.why.contains("`memory=512M` of `qemu`"), "{}", of_guest.why);
        let unlimited = counted_in("qemu", &[None], Some(1)).unwrap();
        assert!(unlimited.why.starts_with("the memory of `qemu` was exhausted"));
        assert_eq!([of_guest.exceeded, unlimited.exceeded], [Some(0), None]);
        // What others of this machine have lost is not this stack's.
        assert_eq!(counted_in("runc:memory=64M", &[Some(0)], Some(5)), None);
        assert_eq!(counted_in("native", &[Some(1)], Some(1)).unwrap(), out_of_memory(1));
    }

    #[test]
    fn a_victim_of_the_log_names_the_limit_or_the_machine() {
        let victim = |limited: Option<&str>| Victim {
            group: String::from("/surtax-1/0-3-3/container"),
            limited: limited.map(String::from),
        };
        let full = victim(Some("/surtax-1/0-3-3/container"));
        let ended = logged(&stack("gvisor:memory=96M"), &[full.clone(), full.clone()], 1).unwrap();
        assert!(ended.why.contains("`memory=96M` of `gvisor` was exceeded: 2 processes"));
        let ended = logged(&stack("qemu:memory=1G"), &[victim(None)], 0).unwrap();
        assert!(ended.why.starts_with("this machine ran out of memory"));
        assert_eq!(logged(&stack("runc"), &[], 3), None);
        // The log has ten lines in five seconds, and the group counted all.
        let ended = logged(&stack("gvisor:memory=96M"), &[full], 40).unwrap();
        assert_eq!(ended.count, 40);
        assert!(ended.why.contains(": 40 processes were killed"), "{}", ended.why);
        // The group that was full, whichever the victim was in.
        let two = stack("runc:memory=1G+crun:memory=96M");
        let inner = "/surtax-1/0-3-3/container/surtax-2/0-1-1/container";
        for (full, limit) in [
            ("/surtax-1/0-3-3/container", "`memory=1G` of `runc`"),
            (inner, "`memory=96M` of `crun`"),
            ("/batch", "of the group `/batch`, which surtax itself is in"),
        ] {
            let victim = Victim { group: inner.into(), limited: Some(full.into()) };
            let ended = logged(&two, &[victim], 0).unwrap();
            assert!(ended.why.contains(limit), "{}", ended.why);
        }
    }

    #[test]
    fn a_bomb_that_measures_its_own_end_is_meant_to_be_killed() {
        let command = |words: &[&str]| Command {
            argv: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
            ..Command::default()
        };
        assert!(is_meant(&command(&["@surtax", "engine", "allocbomb", "--bytes", "1G"])));
        assert!(!is_meant(&command(&["@surtax", "engine", "cpu"])));
        assert!(!is_meant(&command(&["sh", "-c", "allocbomb"])));
    }
}
