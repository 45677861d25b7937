//! Findings about whole machines, in words and rows for every format.

use crate::finding::machines::is_link;
use crate::finding::{
    Agreement, ArmFindings, Findings, MachineFindings, StealFindings, UseFindings, number,
};
use surtax_instrument::amount::{
    CPU_STEAL, Key, MAJOR_FAULTS, PRESSURE_CPU_SOME, PRESSURE_IO_FULL, PRESSURE_IO_SOME,
    PRESSURE_MEMORY_FULL, PRESSURE_MEMORY_SOME, QUANTITIES, Quantity,
};

/// The heading of a table of what was used inside and by the whole; a `#` stands before columns of
/// numbers.
pub(crate) const USES: [&str; 5] =
    ["Stack", "Resource", "#Inside", "#Whole machine", "#Difference"];

/// The heading of a table of stolen time.
pub(crate) const STEALS: [&str; 6] =
    ["Stack", "#Level", "#Called stolen inside", "#Waited outside", "#Throttled", "Agreement"];

/// Explains the former.
pub(crate) const USES_ARE: &str = "Inside is what the innermost machine counted, or the container's group, per run of the \
     command; the whole is this machine, whoever used it meanwhile. By how much the two differ is \
     the resource overhead of Tesfatsion, Klein and Tordsson, \"Virtualization Techniques \
     Compared\", ICPE 2018, equation 3; of times and energy, their equations 1 and 2 are the \
     overheads above.";

/// Explains the latter.
pub(crate) const STEALS_ARE: &str = "What a guest's kernel calls stolen, beside how long its \
    virtual CPUs were ready to run and had no CPU, and how long a quota held them back. A guest is \
    told by its hypervisor, and not by each: under QEMU's own translation nobody tells it.";

/// Explains machines.
pub(crate) const MACHINES_ARE: &str = "Medians per run of the command. User time has that of nice \
    work and of guests in it. Memory is what it was right after the command.";

/// A resource for people.
pub(crate) fn resource(of: &UseFindings) -> &'static str {
    match of.resource.as_str() {
        "cpu_ns" => "CPU",
        "disk_read_bytes" => "read from disks",
        "disk_written_bytes" => "written to disks",
        _ => "another resource",
    }
}

/// An amount of a resource for people.
pub(crate) fn amount(of: &UseFindings, value: f64) -> String {
    number::amount(value, if of.resource.ends_with("_ns") { "ns" } else { "bytes" })
}

/// Difference of the whole from what was used inside, for people.
pub(crate) fn more(of: &UseFindings) -> String {
    of.overhead_ratio.map_or_else(|| number::GAP.into(), |ratio| number::short(1.0 + ratio))
}

/// Two accounts of stolen time, for people.
pub(crate) fn agreement(of: Agreement) -> &'static str {
    match of {
        Agreement::Agree => "they agree",
        Agreement::InsideSaysLess => "the guest was told less than was taken",
        Agreement::InsideSaysMore => "the guest says more than was seen",
        Agreement::TooLittle => "too little to tell",
        Agreement::Unknown => "the guest does not say",
    }
}

/// Every arm but the second of the baseline.
pub(crate) fn arms(findings: &Findings) -> impl Iterator<Item = &ArmFindings> {
    findings.arms.iter().filter(|arm| !arm.is_again())
}

/// The quantities that a table of these machines has a row for.
pub(crate) fn quantities(machines: &[MachineFindings]) -> Vec<&'static Quantity> {
    let is_known =
        |key: Key| machines.iter().any(|it| it.amounts.get(key).is_some_and(|it| it > 0.0));
    // Nothing that is stolen is an answer, too.
    QUANTITIES.iter().filter(|it| is_known(it.key) || it.key == CPU_STEAL).collect()
}

/// A quantity's name for people.
pub(crate) fn quantity(of: &Quantity) -> String {
    let spelled = || match of.key {
        MAJOR_FAULTS => "Page faults that read a disk".into(),
        PRESSURE_CPU_SOME => "Some task waited for a CPU".into(),
        PRESSURE_IO_SOME => "Some task waited for a disk".into(),
        PRESSURE_IO_FULL => "All tasks waited for a disk".into(),
        PRESSURE_MEMORY_SOME => "Some task waited for memory".into(),
        PRESSURE_MEMORY_FULL => "All tasks waited for memory".into(),
        _ => of.name.replace('_', " "),
    };
    of.heading.map_or_else(spelled, |heading| heading.trim_end_matches(", after").to_owned())
}

/// A machine's name for people.
pub(crate) fn machine(of: &MachineFindings) -> String {
    match (is_link(&of.name), of.level) {
        (true, level) => format!("{}, level {level}", of.name),
        (false, 0) => String::from("this machine"),
        (false, level) => format!("level {level}"),
    }
}

/// Stolen time in a sentence; `None` where nothing worth a word was taken.
pub(crate) fn steal(of: &StealFindings, wall_ns: f64) -> Option<String> {
    let taken = of.waited_ns.unwrap_or(0.0);
    let is_worth_it = taken > 0.02 * wall_ns || of.inside_ns.is_some_and(|it| it > 0.02 * wall_ns);
    is_worth_it.then(|| {
        let time = |ns: Option<f64>| ns.map_or_else(|| String::from("unknown"), number::time);
        format!(
            "level {}: {} called stolen inside, {} waited for a CPU outside, {}",
            of.level,
            time(of.inside_ns),
            time(of.waited_ns),
            agreement(of.agreement)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_that_was_taken_is_not_worth_a_word_and_much_is() {
        let of = |waited_ms: f64| StealFindings {
            level: 1,
            inside_ns: Some(0.0),
            waited_ns: Some(waited_ms * 1e6),
            throttled_ns: None,
            agreement: Agreement::InsideSaysLess,
        };
        assert_eq!(steal(&of(10.0), 1e9), None);
        let expected = "level 1: 0 ns called stolen inside, 300.0 ms waited for a CPU outside, the \
                        guest was told less than was taken";
        assert_eq!(steal(&of(300.0), 1e9).as_deref(), Some(expected));
    }
}
