//! That a scratch directory is there and on the medium that was asked for, by what the agent sees.

mod backing;

use crate::fault::Fault;
use crate::layer::medium::Medium;
use crate::layer::{Running, View, medium, value_of};
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::{Fact, SCRATCH};

/// That the directory is there and on what was asked for, and what holds it.
///
/// # Errors
/// The agent sees none, or another medium.
pub fn prove(
    view: &View,
    running: &dyn Running,
    hierarchies: &Hierarchies,
    inside: &[Fact],
) -> Result<Vec<Fact>, Fault> {
    let Some(medium) = view.scratch else { return Ok(Vec::new()) };
    let mut facts = vec![mounted(medium, inside)?];
    facts.extend(backing::facts(medium, running, hierarchies, inside));
    Ok(facts)
}

fn mounted(medium: Medium, inside: &[Fact]) -> Result<Fact, Fault> {
    let mounted = value_of(inside, "scratch_mount")?;
    let kind = mounted.split(' ').next().unwrap_or_default();
    let fits = match medium {
        Medium::Layer => mounted == "none",
        Medium::Tmpfs => kind == "tmpfs",
        Medium::Disk => kind == "ext4",
        // Of what kind it is, is a matter of this level's disk, or of how a sandbox shows it.
        Medium::Bind | Medium::Volume => mounted != "none",
    };
    let name = medium.name();
    if fits {
        return Ok(Fact::new(medium::KEY, name, "mountinfo inside"));
    }
    Err(Fault::machine(format!(
        "`{SCRATCH}` was to be on `{name}`, and what is mounted there is `{mounted}`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(mounted: &str) -> Vec<Fact> {
        vec![Fact::new("scratch_mount", mounted, "/proc/self/mountinfo")]
    }

    #[test]
    fn a_medium_that_was_not_asked_for_is_named() {
        assert!(mounted(Medium::Tmpfs, &seen("tmpfs tmpfs rw")).is_ok());
        assert!(mounted(Medium::Layer, &seen("none")).is_ok());
        assert!(mounted(Medium::Volume, &seen("ext4 /dev/vda rw")).is_ok());
        let fault = mounted(Medium::Bind, &seen("none")).unwrap_err();
        assert!(fault.message.contains("was to be on `bind`"), "{fault}");
        assert!(mounted(Medium::Layer, &seen("ext4 /dev/vda rw")).is_err());
        assert!(mounted(Medium::Tmpfs, &seen("ext4 /dev/vda rw")).is_err());
        assert!(mounted(Medium::Tmpfs, &[]).is_err(), "an agent that sees nothing proves nothing");
    }
}
