//! Evidence: what Xen says of the domain, held against what was asked for and what the agent saw.

use super::configuration::Domain;
use super::toolstack::{self, Info};
use crate::fault::{Doing, Fault};
use crate::lab;
use crate::layer::value_of;
use crate::vm::claims;
use surtax_instrument::probe::cgroup::parse_cpus;
use surtax_instrument::probe::xen;
use surtax_instrument::wire::Fact;

/// Largest lead, in seconds, of the CPU time that Xen itself tells over the list's.
const LATER_MAX: f64 = 60.0;

/// The version of Xen, and that the domain is the one that was asked for, of its type, with its
/// CPUs and memory.
///
/// # Errors
/// `xl` does not answer, or two of asked, told and seen disagree.
pub(super) fn of_domain(domain: &Domain, id: u16, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
    let mut facts = of_image(domain, id)?;
    let info = Info::ask()?;
    let vm = toolstack::read(&format!("/local/domain/{id}/vm"))?;
    let uuid = vm.rsplit('/').next().unwrap_or_default();
    for (what, one, other) in [
        (
            "the type",
            ("asked for", domain.kind.seen_as()),
            ("the domain sees", value_of(inside, "hypervisor_guest_type")?),
        ),
        ("the domain", ("the store says", uuid), ("it sees", value_of(inside, "hypervisor_uuid")?)),
        (
            "Xen's version",
            ("`xl info` says", info.get("xen_version")),
            ("the domain sees", value_of(inside, "hypervisor_version")?),
        ),
    ] {
        agree(what, one, other)?;
    }
    let clock = value_of(inside, "clocksource")?;
    facts.push(Fact::new("clocksource", clock, "/sys/devices/system/clocksource inside"));
    Ok(facts)
}

/// The same, as far as it can be told without asking inside.
///
/// # Errors
/// `xl` does not answer, or what it says is not what was asked for.
pub(super) fn of_image(domain: &Domain, id: u16) -> Result<Vec<Fact>, Fault> {
    let info = Info::ask()?;
    let listed = toolstack::list(&domain.name)?;
    let told_type = toolstack::read(&format!("/libxl/{id}/type"))?;
    let (cpus, memory) = (domain.cpus.to_string(), domain.memory_mib.to_string());
    let (told_cpus, told_memory) = (listed.cpus.to_string(), listed.memory_mib.to_string());
    for (what, asked, (who, told)) in [
        ("the type", domain.kind.name(), ("the store says", told_type.as_str())),
        ("the number of CPUs", cpus.as_str(), ("`xl list` says", told_cpus.as_str())),
        ("the memory in MiB", memory.as_str(), ("`xl list` says", told_memory.as_str())),
    ] {
        agree(what, ("asked for", asked), (who, told))?;
    }
    // Equal trials have equal proofs: the name is of this one alone.
    let configuration = domain.text().replace(&domain.name, "NAME").replace('\n', "; ");
    let mut facts = vec![
        Fact::new("xen_version", info.get("xen_version"), "xl info"),
        Fact::new("xen_abilities", info.get("virt_caps"), "xl info"),
        Fact::new("xen_scheduler", info.get("xen_scheduler"), "xl info"),
        Fact::new("domain_type", domain.kind.name(), "xenstore"),
        Fact::new("domain_configuration", configuration.trim_end_matches("; "), "xl create"),
        counted(id, listed.cpu_seconds)?,
    ];
    facts.extend(placed(domain, info.get("nr_cpus"))?);
    Ok(facts)
}

/// That what we read of a domain is what the list says, so that the bill is that of this domain.
fn counted(id: u16, listed: f64) -> Result<Fact, Fault> {
    let read = xen::Domain::open(id).and_then(|probe| probe.read());
    let seconds =
        std::time::Duration::from(read.doing("ask Xen for a domain's CPU time")?.cpu).as_secs_f64();
    // The list rounds to tenths, and the domain may have run since.
    if !(listed - 0.1..listed + LATER_MAX).contains(&seconds) {
        return Err(Fault::machine(format!(
            "xen: `xl list` says that the domain ran for {listed} s, and Xen that it was {seconds}"
        )));
    }
    Ok(Fact::new("cpu_time_source", "xen", "XEN_DOMCTL_getdomaininfo, and xl list"))
}

/// The CPUs that it keeps to and its weight, as they were asked for.
fn placed(domain: &Domain, cpu_count: &str) -> Result<Vec<Fact>, Fault> {
    let mut facts = Vec::new();
    if let Some(cpuset) = &domain.cpuset {
        let told = toolstack::affinity(&domain.name)?;
        let is_kept = !told.is_empty()
            && told.iter().all(|list| numbers(list, cpu_count).as_ref() == Some(cpuset));
        if !is_kept {
            return Err(Fault::machine(format!(
                "xen: the domain was to run on the CPUs {cpuset:?}, and `xl vcpu-list` says \
                 {told:?}"
            )));
        }
        facts.push(Fact::new("cpuset", lab::list(cpuset), "xl vcpu-list"));
    }
    if let Some(weight) = domain.weight {
        let told = toolstack::weight(&domain.name)?.to_string();
        agree(
            "the weight",
            ("asked for", &weight.to_string()),
            ("`xl sched-credit2` says", &told),
        )?;
        facts.push(Fact::new("weight", told, "xl sched-credit2"));
    }
    Ok(facts)
}

/// The numbers of a list such as `0-1,3`, or of so many CPUs where it says `all`.
fn numbers(list: &str, cpu_count: &str) -> Option<Vec<u32>> {
    if list == "all" {
        return Some((0..cpu_count.parse().ok()?).collect());
    }
    parse_cpus(list)
}

fn agree(what: &str, one: (&str, &str), other: (&str, &str)) -> Result<(), Fault> {
    claims::agree(what, one, other).map_err(|fault| fault.during("xen"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read_and_all_are_those_that_xen_has() {
        assert_eq!(numbers("0-1,3", "8"), Some(vec![0, 1, 3]));
        assert_eq!(numbers("all", "2"), Some(vec![0, 1]));
        assert_eq!(numbers("nodes:0", "2"), None);
    }
}
