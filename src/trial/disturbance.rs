//! Judges conditions: what disturbed a trial, by limits that are named here with their reasons.
//!
//! A mark costs a repeat, and a mark too many costs trust, so each limit is such that a quiet
//! machine stays below it. What is unknown disturbs nothing. A disturbance is told apart from the
//! stack's own work as far as this level can: payers are taken out of what others used, and a quota
//! that belongs to the stack is not read at all.

/// One thing that disturbed a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbance {
    /// Kind of the disturbance: a stable key that ends with its unit.
    pub key: String,
    /// Amount of it, in that unit.
    pub value: f64,
    /// Largest amount that would not be marked, in that unit.
    pub limit: f64,
}

/// Of one CPU, used by others. A fifth slows down a command that shares the CPU by as much; what
/// the kernel does for a stack in its own threads is less.
pub const OTHERS_CPU_RATIO: f64 = 0.2;

/// Of what the machine used in all, so much more may be the stack's own: the kernel's threads,
/// interrupts, and a process of its engine that is no payer.
const STACK_SLACK_RATIO: f64 = 0.1;

/// Less than this in all is the grain of the counters: 10 ms for each of a handful of them.
const CPU_GRAIN_NS: f64 = 60e6;

/// Of the wall time, over all CPUs, given to somebody else by the machine below.
pub const STEAL_RATIO: f64 = 0.03;

/// The grain of stolen time: two ticks of `/proc/stat`, and one for their rounding.
const STEAL_GRAIN_NS: f64 = 30e6;

/// Of the wall time, with every task waiting for memory: no quiet machine has any.
pub const MEMORY_FULL_RATIO: f64 = 0.01;

/// A shorter wait for memory is one reclaim, and not a machine that is short of it.
const MEMORY_GRAIN_NS: f64 = 10e6;

/// Read from and written to swap: more than the few pages of a sleeper that woke.
pub const SWAP_BYTES: f64 = 1_048_576.0;

/// Periods in which a quota above the stack held somebody back: one is a tenth of a second.
pub const THROTTLED_COUNT: f64 = 0.0;

/// Times that heat slowed a CPU down: a machine that does its work has none.
pub const THERMAL_THROTTLE_COUNT: f64 = 0.0;

/// Largest jump of the wall clock that is not marked, in nanoseconds; slewing moves both clocks
/// that are compared, and counts nothing.
pub const CLOCK_STEP_NS: f64 = 1e6;

/// Times that somebody told the command, or what carries it, to stop; and for how long it did.
pub const STOPPED_COUNT: f64 = 0.0;

/// Largest drop in speed of the slowest CPU, as a share of its speed before, that is not marked.
/// Only where every governor is `performance`: elsewhere the frequency follows the load, and its
/// fall says that the work is done.
pub const FREQUENCY_DROP_RATIO: f64 = 0.1;

/// Returns what disturbed a trial with these conditions, the worst for a number first.
#[must_use]
pub fn judge(conditions: &[(String, f64)]) -> Vec<Disturbance> {
    let of = |key: &str| conditions.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
    let share = |ns: f64| of("watched_ns").filter(|watched| *watched > 0.0).map(|all| ns / all);
    let mut found = Vec::new();
    let mut above = |key: &str, value: Option<f64>, limit: f64| {
        if let Some(value) = value.filter(|value| *value > limit) {
            found.push(Disturbance { key: key.into(), value, limit });
        }
    };
    let stood_ns = of("command_stopped_ns");
    above("command_stopped_ns", stood_ns, STOPPED_COUNT);
    let command = of("command_stopped_count").filter(|_| stood_ns.is_none_or(|ns| ns <= 0.0));
    above("command_stopped_count", command, STOPPED_COUNT);
    above("stack_stopped_count", of("stack_stopped_count"), STOPPED_COUNT);
    let slack = of("machine_cpu_ns").map_or(0.0, |busy| STACK_SLACK_RATIO * busy);
    let others = of("others_cpu_ns").filter(|others| *others > CPU_GRAIN_NS + slack);
    above("others_cpu_ratio", others.and_then(share), OTHERS_CPU_RATIO);
    let stolen = of("steal_ns").filter(|stolen| *stolen > STEAL_GRAIN_NS);
    above("steal_ratio", stolen.and_then(share), STEAL_RATIO);
    above("throttled_count", of("throttled_count"), THROTTLED_COUNT);
    let swapped = of("swap_in_bytes").zip(of("swap_out_bytes")).map(|(read, wrote)| read + wrote);
    above("swap_bytes", swapped, SWAP_BYTES);
    let waited = of("pressure_memory_full_ns").filter(|waited| *waited > MEMORY_GRAIN_NS);
    above("memory_full_ratio", waited.and_then(share), MEMORY_FULL_RATIO);
    above("thermal_throttle_count", of("thermal_throttle_count"), THERMAL_THROTTLE_COUNT);
    let is_fixed = of("governor_performance_ratio").is_some_and(|share| share >= 1.0);
    let drop = of("frequency_before_hz")
        .zip(of("frequency_after_hz"))
        .filter(|(before, _)| is_fixed && *before > 0.0)
        .map(|(before, after)| 1.0 - after / before);
    above("frequency_drop_ratio", drop, FREQUENCY_DROP_RATIO);
    above("clock_step_ns", of("clock_step_ns").map(f64::abs), CLOCK_STEP_NS);
    found
}

impl Disturbance {
    /// Says in words what happened.
    #[must_use]
    pub fn words(&self) -> String {
        let value = self.value;
        let percent = value * 100.0;
        match self.key.as_str() {
            "others_cpu_ratio" => format!("others used {percent:.0} % of a CPU"),
            "steal_ratio" => format!("the machine below took {percent:.0} % of a CPU away"),
            "throttled_count" => format!("a CPU quota above it held it back {}", times(value)),
            "swap_bytes" => format!("{:.0} MiB were swapped", value / f64::from(1 << 20)),
            "memory_full_ratio" => {
                format!("everything waited for memory {percent:.0} % of the time")
            }
            "thermal_throttle_count" => format!("heat slowed a CPU down {}", times(value)),
            "frequency_drop_ratio" => format!("the CPU's frequency fell by {percent:.0} %"),
            "clock_step_ns" => format!("the wall clock was set by {:.0} ms", value / 1e6),
            "command_stopped_ns" => {
                format!("a signal stopped the command for {:.0} ms", value / 1e6)
            }
            "command_stopped_count" => {
                format!("a signal stopped the command or its agent {}", times(value))
            }
            "stack_stopped_count" => {
                format!("a signal stopped a process of the stack {}", times(value))
            }
            key => format!("`{key}` was {value}, above {}", self.limit),
        }
    }

    /// Advises what would keep it from happening again.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self.key.as_str() {
            "others_cpu_ratio" => "stop what else runs; `surtax doctor` names it",
            "steal_ratio" => "move to a host of your own, or repeat when its neighbours are quiet",
            "throttled_count" => "lift the quota of the group in which surtax or the engine runs",
            "swap_bytes" | "memory_full_ratio" => "free memory, or use a machine that has more",
            "thermal_throttle_count" | "frequency_drop_ratio" => {
                "cool the machine, or limit its frequency"
            }
            "clock_step_ns" => "let the clock be slewed and not set while surtax measures",
            "command_stopped_ns" | "command_stopped_count" | "stack_stopped_count" => {
                "find out who sends `SIGSTOP` or `SIGTSTP`, and have it leave surtax alone"
            }
            _ => "see `surtax doctor`",
        }
    }
}

fn times(count: f64) -> String {
    if count > 1.0 { format!("{count:.0} times") } else { String::from("once") }
}

/// All that disturbed one trial, in words.
#[must_use]
pub fn words(disturbances: &[Disturbance]) -> String {
    disturbances.iter().map(Disturbance::words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two quiet seconds, with some of it changed.
    fn found(changes: &[(&str, f64)]) -> Vec<String> {
        let mut conditions: Vec<(String, f64)> = [
            ("watched_ns", 2e9),
            ("machine_cpu_ns", 2.1e9),
            ("others_cpu_ns", 4e7),
            ("steal_ns", 1e7),
            ("pressure_cpu_some_ns", 1e9),
            ("pressure_memory_full_ns", 1e6),
            ("swap_in_bytes", 4096.0),
            ("swap_out_bytes", 0.0),
            ("throttled_count", 0.0),
            ("thermal_throttle_count", 0.0),
            ("clock_step_ns", -300.0),
            ("stack_stopped_count", 0.0),
            ("command_stopped_count", 0.0),
            ("command_stopped_ns", 0.0),
            ("governor_performance_ratio", 1.0),
            ("frequency_before_hz", 3e9),
            ("frequency_after_hz", 2.9e9),
        ]
        .map(|(key, value)| (String::from(key), value))
        .into();
        for (key, value) in changes {
            conditions.iter_mut().find(|(name, _)| name == key).unwrap().1 = *value;
        }
        judge(&conditions).iter().map(Disturbance::words).collect()
    }

    #[test]
    fn a_quiet_trial_is_not_marked_and_neither_is_one_of_which_nothing_is_known() {
        assert_eq!(found(&[]), Vec::<String>::new());
        assert_eq!(judge(&[]), []);
    }

    #[test]
    fn each_disturbance_is_found_by_its_own_limit_and_said_in_words() {
        for (key, value, words) in [
            ("others_cpu_ns", 1.86e9, "others used 93 % of a CPU"),
            ("steal_ns", 2e8, "the machine below took 10 % of a CPU away"),
            ("throttled_count", 1.0, "a CPU quota above it held it back once"),
            ("swap_out_bytes", 5.0 * 1_048_576.0, "5 MiB were swapped"),
            ("pressure_memory_full_ns", 1e8, "everything waited for memory 5 % of the time"),
            ("thermal_throttle_count", 3.0, "heat slowed a CPU down 3 times"),
            ("frequency_after_hz", 2.4e9, "the CPU's frequency fell by 20 %"),
            ("clock_step_ns", -5e6, "the wall clock was set by 5 ms"),
            ("command_stopped_ns", 1e8, "a signal stopped the command for 100 ms"),
            ("command_stopped_count", 2.0, "a signal stopped the command or its agent 2 times"),
            ("stack_stopped_count", 1.0, "a signal stopped a process of the stack once"),
        ] {
            assert_eq!(found(&[(key, value)]), [words]);
        }
    }

    #[test]
    fn what_a_hard_working_stack_leaves_unexplained_is_not_blamed_on_others() {
        let busy = [("machine_cpu_ns", 8e9), ("others_cpu_ns", 7e8)];
        assert_eq!(found(&busy), Vec::<String>::new());
    }

    #[test]
    fn the_grain_of_the_counters_disturbs_no_short_trial() {
        let short = [("watched_ns", 5e7), ("others_cpu_ns", 5e7), ("steal_ns", 3e7)];
        assert_eq!(found(&short), Vec::<String>::new());
    }

    #[test]
    fn a_frequency_that_follows_the_load_may_fall() {
        let governed = [("governor_performance_ratio", 0.5), ("frequency_after_hz", 1e9)];
        assert_eq!(found(&governed), Vec::<String>::new());
    }

    #[test]
    fn what_a_newer_surtax_marked_can_still_be_said() {
        let unknown = Disturbance { key: "tides_count".into(), value: 2.0, limit: 1.0 };
        assert_eq!(unknown.words(), "`tides_count` was 2, above 1");
    }
}
