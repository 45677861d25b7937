//! KVM is asked for by name: on a machine that has none, it must not be TCG that is measured. Where
//! KVM works the fault cannot be planted, and the line says so.

use super::super::bench::{draft, one_compared};
use super::super::{Bar, Bench, Figure};
use crate::fault::Fault;
use crate::finding::Verdict;

/// Rough time that a refusal takes, in milliseconds.
pub(super) const RUN_MS: u32 = 400;

/// Result of one try.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// It was not run: why.
    Refused(String),
    /// KVM ran it.
    Kvm,
    /// It ran on something else.
    Other(String),
}

/// Asks as often, and adds the line of those that were asked.
pub(super) fn prove(bench: &Bench<'_>, often: u32, lines: &mut Vec<Figure>) -> Result<(), Fault> {
    let mut seen = Vec::new();
    let asked = bench.units(often).try_for_each(|seed| {
        seen.push(ask(bench, seed.into())?);
        Ok(())
    });
    lines.extend((!seen.is_empty()).then(|| line(&seen)));
    asked
}

fn ask(bench: &Bench<'_>, seed: u64) -> Result<Seen, Fault> {
    let findings = bench.findings(draft("native", &["qemu:accel=kvm"], 1, seed)?)?;
    let arm = one_compared(&findings)?;
    if let Verdict::Invalid { reason, .. } = &arm.verdict {
        return Ok(Seen::Refused(reason.clone()));
    }
    let ran_on = arm.evidence.iter().flat_map(|level| &level.facts);
    let mut ran_on =
        ran_on.filter(|fact| fact.key == "accelerator").map(|fact| fact.value.as_str());
    Ok(match ran_on.next_back() {
        Some("kvm") => Seen::Kvm,
        other => Seen::Other(String::from(other.unwrap_or("nothing that it names"))),
    })
}

fn line(seen: &[Seen]) -> Figure {
    let count = |is_it: fn(&Seen) -> bool| {
        u32::try_from(seen.iter().filter(|one| is_it(one)).count()).unwrap_or(u32::MAX)
    };
    let others = seen.iter().find_map(|one| match one {
        Seen::Other(what) => Some(format!("it ran on {what} under the name of KVM")),
        Seen::Refused(_) | Seen::Kvm => None,
    });
    let refused = seen.iter().find_map(|one| match one {
        Seen::Refused(why) => Some(format!("it was refused: {why}")),
        Seen::Other(_) | Seen::Kvm => None,
    });
    let tried = count(|one| *one != Seen::Kvm);
    let is_kvm = String::from("KVM works here, so it cannot be planted");
    let bar = if tried == 0 { Bar::Shown } else { Bar::AtLeast(tried) };
    let caught = count(|one| matches!(one, Seen::Refused(_)));
    Figure::new("KVM is asked for where there is only TCG", [tried, caught], "caught")
        .bar(bar, others.or(refused).unwrap_or(is_kvm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcg_under_the_name_of_kvm_misses_the_bar() {
        let refused = || Seen::Refused(String::from("no KVM"));
        let other = || Seen::Other(String::from("tcg"));
        assert!(line(&[refused(), refused()]).is_met());
        assert!(!line(&[refused(), other()]).is_met() && !line(&[other()]).is_met());
        let unplanted = line(&[Seen::Kvm]);
        assert_eq!((unplanted.tried, unplanted.bar), (0, Bar::Shown));
    }
}
