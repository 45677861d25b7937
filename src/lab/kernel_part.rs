//! Parts of this level's kernel that a machine may be without: looked for, and never loaded; and
//! whose kernel it is.
//!
//! A module that was not loaded yet is as good as one that was: the kernel loads it when it is
//! asked for.
//!
//! Source: `modprobe(8)`, `proc(5)`, Linux `Documentation/kbuild/kbuild.rst` (`modules.builtin`).

use super::directory;
use std::fs;
use std::path::Path;

/// Files in which a kernel lists its modules: those that can be loaded, and those that are built
/// in.
const LISTS: [&str; 2] = ["modules.dep", "modules.builtin"];

/// Tells whether this level's kernel has a module, loaded, to be loaded, or built in. `symbol` is
/// one of the module's functions, by which it is found in a kernel that lists no modules.
#[must_use]
pub fn is_there(module: &str, symbol: &str) -> bool {
    Path::new("/sys/module").join(module).exists()
        || is_listed(module)
        || fs::read_to_string("/proc/kallsyms").is_ok_and(|text| has_symbol(&text, symbol))
}

/// Tells whether this level's kernel runs in a machine that surtax made, and is ours to change: it
/// has our agent's port.
#[must_use]
pub fn is_of_a_guest_of_ours() -> bool {
    let ports = directory::entries(Path::new("/sys/class/virtio-ports"));
    let mut names = ports.iter().filter_map(|port| fs::read_to_string(port.join("name")).ok());
    names.any(|name| name.trim() == "surtax")
}

fn is_listed(module: &str) -> bool {
    let release = rustix::system::uname();
    let place = Path::new("/lib/modules").join(release.release().to_string_lossy().as_ref());
    LISTS.iter().any(|list| {
        fs::read_to_string(place.join(list)).is_ok_and(|text| names_module(&text, module))
    })
}

/// A line is `kernel/net/sched/sch_netem.ko.xz: …`, or the same without what follows the colon.
fn names_module(list: &str, module: &str) -> bool {
    let files = list.lines().filter_map(|line| line.split(':').next()?.rsplit('/').next());
    files
        .filter_map(|file| file.split_once(".ko"))
        .any(|(name, _)| name.replace('-', "_") == module)
}

/// A line is `ffffffff81000000 t netem_enqueue`, with the module's name behind it where it is of
/// one.
fn has_symbol(symbols: &str, symbol: &str) -> bool {
    symbols.lines().any(|line| line.split_ascii_whitespace().nth(2) == Some(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_in_lists_by_its_name_however_it_is_compressed() {
        let list = "kernel/net/sched/sch_netem.ko:\nkernel/net/openvswitch/openvswitch.ko.xz: \
                    a.ko\nkernel/drivers/md/dm-mod.ko\n";
        for module in ["sch_netem", "openvswitch", "dm_mod"] {
            assert!(names_module(list, module), "{module}");
        }
        assert!(!names_module(list, "a"), "another one's need is no module of the list");
        assert!(!names_module(list, "netem"));
    }

    #[test]
    fn a_part_that_is_built_in_is_found_by_its_function() {
        let symbols = "0000000000000000 T _stext\n0000000000000000 t netem_enqueue\t[sch_netem]\n";
        assert!(has_symbol(symbols, "netem_enqueue"));
        assert!(!has_symbol(symbols, "netem"));
        assert!(!is_there("no_such_module", "no_such_function"));
    }
}
