//! A census: what is on this machine that surtax could have left behind, as a comparable list.
//!
//! Taken before and after, it shows every leak, whoever's fault it is. On a machine where others
//! work too it also shows what they made meanwhile; processes are therefore counted only if they
//! carry our tag in name, command line or group, and [`is_of_others`] tells of the rest whether it
//! bears our tag or a name that a tool which we drive gives.

use super::cgroup;
use super::directory::entries;
use super::network;
use super::undo::{LAB_DIGITS, TAG, is_lab};
use crate::fault::{Doing, Fault};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::probe::cgroup::Hierarchies;

/// Settings that engines and networks change, and that stay changed when nobody restores them.
const SETTINGS: [&str; 5] = [
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/bridge/bridge-nf-call-iptables",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/vm/nr_hugepages",
];

/// Beginnings of the names of files that tools may leave in the directory for temporary ones.
const STRAYS: [&str; 2] = ["rootlesskit", "crun."];

/// Words in the names of groups that engines, runtimes and tools which surtax drives make, or could
/// make, outside of its own.
const ENGINES: [&str; 12] = [
    "docker", "libpod", "container", "kata", "lxc", "machine", "nspawn", "runc", "crun", "youki",
    "runsc", "buildkit",
];

/// Words in mounts, names of network namespaces and files of loop devices that such tools make,
/// beside those of [`ENGINES`].
const TOOLS: [&str; 7] = ["cni-", "netns-", "netavark", "/lxd/", "incus", "/libvirt/", "rootless"];

/// Beginnings of the names that we, in namespaces of our own, and such tools give network links.
const LINKS: [&str; 23] = [
    network::BRIDGE,
    network::LINK,
    network::BELOW,
    "docker",
    "br-",
    "veth",
    "cni",
    "podman",
    "lxc",
    "lxdbr",
    "incus",
    "virbr",
    "vnet",
    "tap",
    "macvtap",
    "mv-",
    "ve-",
    "vb-",
    "vz-",
    "host0",
    "vif",
    "xenbr",
    "ovs-",
];

/// Directories that a mount which belongs into a namespace of ours would hide here.
const HIDDEN: [&str; 9] =
    ["/", "/etc", "/home", "/root", "/run", "/scratch", "/tmp", "/usr", "/var"];

/// Directories of the kernel's, in all of which such a mount may be.
const OF_THE_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// File systems that a system mounts there by itself, when somebody looks or loads a module.
const SYSTEMS: [&str; 7] = [
    " - autofs ", " - fusectl ", " - binfmt_misc ", " - hugetlbfs ", " - mqueue ", " - tracefs ",
    " - configfs ",
];

/// The most directories of files of ours that are walked through.
const FILE_LIMIT: usize = 100_000;

/// Things that were there at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// One line per thing, each of which begins with what it is.
    things: BTreeSet<String>,
}

impl Census {
    /// Looks at the whole machine, and changes nothing.
    ///
    /// # Errors
    /// The machine's: its lists of mounts, processes or groups cannot be read.
    pub fn take() -> Result<Self, Fault> {
        let mut census = Self::default();
        census.count("network namespace", entries(Path::new("/run/netns")));
        census.count("network link", entries(Path::new("/sys/class/net")));
        census.count_mounts("/proc/self/mountinfo", "mount")?;
        if let (Ok(first), Ok(ours)) =
            (fs::read_link("/proc/1/ns/mnt"), fs::read_link("/proc/self/ns/mnt"))
            && first != ours
        {
            census.count_mounts("/proc/1/mountinfo", "mount of process 1")?;
        }
        census.count_groups()?;
        census.count_loop_devices();
        census.count_processes()?;
        census.count_own_network_namespaces();
        census.count_files()?;
        for setting in SETTINGS {
            if let Ok(value) = fs::read_to_string(setting) {
                census.things.insert(format!("setting `{setting}` = `{}`", value.trim_end()));
            }
        }
        Ok(census)
    }

    /// Takes two looks and returns what they agree on. What was there for a moment only, such as a
    /// child of another surtax on its way to its group, would seem to be missing later.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_twice(apart: Duration) -> Result<Self, Fault> {
        let first = Self::take()?;
        std::thread::sleep(apart);
        Ok(first.agreed_with(&Self::take()?))
    }

    fn agreed_with(&self, other: &Self) -> Self {
        Self { things: self.things.intersection(&other.things).cloned().collect() }
    }

    /// Returns what is different now from what was there before: a line for each thing that came or
    /// went.
    #[must_use]
    pub fn difference_from(&self, before: &Self) -> Vec<String> {
        let came = self.things.difference(&before.things).map(|thing| format!("came: {thing}"));
        let went = before.things.difference(&self.things).map(|thing| format!("went: {thing}"));
        came.chain(went).collect()
    }

    fn count(&mut self, what: &str, paths: Vec<PathBuf>) {
        self.things.extend(paths.into_iter().map(|path| format!("{what} `{}`", path.display())));
    }

    fn count_mounts(&mut self, list: &str, what: &str) -> Result<(), Fault> {
        let text = fs::read_to_string(list).doing(format_args!("read `{list}`"))?;
        for line in text.lines() {
            // The ids of mount and parent change when nothing else does.
            let fields: Vec<&str> = line.split(' ').skip(3).collect();
            self.things.insert(format!("{what} `{}`", fields.join(" ")));
        }
        Ok(())
    }

    fn count_groups(&mut self) -> Result<(), Fault> {
        let hierarchies = Hierarchies::discover().doing("list the cgroup hierarchies")?;
        for hierarchy in hierarchies.0 {
            let mut groups = vec![hierarchy.mount_point];
            while let Some(group) = groups.pop() {
                let children = cgroup::children(&group);
                self.count("group", children.clone());
                groups.extend(children);
            }
        }
        Ok(())
    }

    fn count_loop_devices(&mut self) {
        for device in entries(Path::new("/sys/block")) {
            if let Ok(file) = fs::read_to_string(device.join("loop/backing_file")) {
                let line = format!("loop device `{}` of `{}`", device.display(), file.trim_end());
                self.things.insert(line);
            }
        }
    }

    fn count_processes(&mut self) -> Result<(), Fault> {
        let ours = std::process::id().to_string();
        let mark = format!("/{}", super::places::PREFIX);
        for entry in fs::read_dir("/proc").doing("list `/proc`")? {
            let Ok(entry) = entry else { continue };
            let pid = entry.file_name().to_string_lossy().into_owned();
            if pid.parse::<u32>().is_err() || pid == ours {
                continue;
            }
            let text = |name: &str| {
                let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).replace('\0', " ")
            };
            let (name, line, groups) = (text("comm"), text("cmdline"), text("cgroup"));
            let (name, line) = (name.trim_end(), line.trim_end());
            if is_for_init_to_reap(&text("stat")) {
                continue;
            }
            let marks =
                [super::REAPER_ARGUMENT, "/run/surtax/", "/dev/shm/surtax-", "/var/tmp/surtax-"];
            let is_ours = [TAG, "surtax-reaper", "surtax-agent"].contains(&name)
                || marks.iter().any(|mark| line.contains(mark))
                || groups.contains(&mark);
            if is_ours {
                // With its lab: what belongs to one that lives is told by that, whatever it calls
                // itself.
                let of_lab = |line: &str| Some(line.split_once(&mark)?.1.to_owned());
                let group = groups.lines().find_map(of_lab);
                let group = group.map_or_else(String::new, |rest| format!(" in `{mark}{rest}`"));
                self.things.insert(format!("process `{name}` ({pid}){group}: `{line}`"));
                for namespace in network_namespaces(&entry.path()) {
                    self.things
                        .insert(format!("process `{name}` ({pid}){group}: holds `{namespace}`"));
                }
            }
        }
        Ok(())
    }

    /// Those without a name that this process holds open: a lab that is still used, or a leak.
    fn count_own_network_namespaces(&mut self) {
        let held = network_namespaces(Path::new("/proc/self"));
        self.things.extend(held.into_iter().map(|it| format!("network namespace held: `{it}`")));
    }

    fn count_files(&mut self) -> Result<(), Fault> {
        let mut places = vec![super::places::run_directory(), super::state::journals()?];
        let elsewhere = [super::places::MEMORY_DIRECTORY, super::places::DISK_DIRECTORY];
        let labs = elsewhere.into_iter().flat_map(|place| entries(Path::new(place)));
        places.extend(labs.filter(|path| is_called(path, super::places::PREFIX)));
        // What rootlesskit and crun leave when they are killed and were given no directory of a
        // lab.
        let is_stray = |path: &PathBuf| STRAYS.iter().any(|name| is_called(path, name));
        self.count("file", entries(&std::env::temp_dir()).into_iter().filter(is_stray).collect());
        for _ in 0..FILE_LIMIT {
            let Some(place) = places.pop() else { return Ok(()) };
            self.count(
                "file",
                entries(&place).into_iter().filter(|it| !is_for_locks(it)).collect(),
            );
            places.extend(cgroup::children(&place));
        }
        Err(Fault::machine(format!("there are more than {FILE_LIMIT} directories of surtax's")))
    }
}

/// Tells whether a line of a difference is about what others do on this machine, and no leak: all
/// that surtax makes carries its tag, and only tools that it drives make anything else.
///
/// So a mount, a network namespace, a link or a loop device is of others if it has neither our tag
/// nor a name that such a tool gives. But a mount that hides a directory of the system's is told
/// of, and a link, or a mount that was none of a namespace, that went: nobody else's may be taken
/// away. Of others is also a group without our tag that went, or that came and has members or is
/// none of an engine's: a process of ours in it is counted as a process. So is a process that went,
/// as those of another surtax do when they are done, and what went of a lab, whose owner was dead,
/// for whoever starts takes that away.
#[must_use]
pub fn is_of_others(line: &str) -> bool {
    let Some((sign, thing)) = line.split_once(": ") else { return false };
    let (went, bears) = (sign == "went", |words: &[&str]| words.iter().any(|it| line.contains(it)));
    if went && (thing.starts_with("process ") || names_a_lab(line)) {
        return true;
    }
    let is_ours = bears(&[TAG]);
    let Some((what, name)) = thing.split_once(" `") else { return false };
    let is_of_a_tool = bears(&ENGINES);
    match what {
        "group" => {
            let path = Path::new(name.trim_end_matches('`'));
            let members = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            !is_ours && (went || !members.is_empty() || !is_of_a_tool)
        }
        "mount" | "mount of process 1" => {
            let hides = name.split(' ').nth(1).is_some_and(|point| {
                let is_within = |it: &&str| Path::new(point).starts_with(it);
                let is_of_the_systems = SYSTEMS.iter().any(|it| line.contains(it));
                HIDDEN.contains(&point) || !is_of_the_systems && OF_THE_KERNEL.iter().any(is_within)
            });
            let is_told = hides || went && !line.contains(" - nsfs ");
            !is_ours && !is_of_a_tool && !bears(&TOOLS) && !is_told
        }
        "network namespace" | "loop device" => !is_ours && !is_of_a_tool && !bears(&TOOLS),
        "network link" => {
            let name = name.rsplit('/').next().unwrap_or(name);
            !is_ours && !went && !LINKS.iter().any(|it| name.starts_with(it))
        }
        _ => false,
    }
}

/// Tells whether a line names a lab where labs are named.
fn names_a_lab(line: &str) -> bool {
    let is_id = |rest: &str| rest.as_bytes().get(..LAB_DIGITS).is_some_and(is_lab);
    ["/run/surtax/", "/surtax-", "/labs/"]
        .iter()
        .any(|mark| line.match_indices(mark).any(|(at, _)| is_id(&line[at + mark.len()..])))
}

/// A process that has ended, and whose parent is this machine's init: nothing of it is left but a
/// number that init takes in its own time.
fn is_for_init_to_reap(stat: &str) -> bool {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = after_name.split_whitespace();
    (fields.next(), fields.next()) == (Some("Z"), Some("1"))
}

/// The network namespaces that a process has, by its threads or its descriptors, beside ours.
fn network_namespaces(process: &Path) -> BTreeSet<String> {
    let threads = entries(&process.join("task")).into_iter().map(|thread| thread.join("ns/net"));
    let links = threads.chain(entries(&process.join("fd")));
    let names = links.filter_map(|link| fs::read_link(link).ok()?.to_str().map(String::from));
    let ours = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    names.filter(|name| name.starts_with("net:[") && Path::new(name) != ours).collect()
}

/// An empty file that stays beside the journals, since labs lock bytes of it.
fn is_for_locks(path: &Path) -> bool {
    let of_locks = [super::unprivileged::FILE, super::ports::FILE, super::turn::FILE];
    let is_one = path.file_name().is_some_and(|name| of_locks.iter().any(|it| name == *it));
    is_one && path.metadata().is_ok_and(|it| it.is_file() && it.len() == 0)
}

fn is_called(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_went_are_told_apart() {
        let of = |things: &[&str]| Census {
            things: things.iter().map(|thing| String::from(*thing)).collect(),
        };
        let (before, after) = (of(&["mount `a`", "mount `b`"]), of(&["mount `b`", "mount `c`"]));
        assert_eq!(after.difference_from(&before), ["came: mount `c`", "went: mount `a`"]);
        assert_eq!(after.difference_from(&after), Vec::<String>::new());
        assert!(is_of_others("went: group `/sys/fs/cgroup/cpu/other`"));
        assert!(is_of_others("came: group `/sys/fs/cgroup/cpu/other-and-empty`"));
        assert!(!is_of_others("came: group `/sys/fs/cgroup/cpu/docker/and-empty`"));
        assert!(!is_of_others("came: group `/sys/fs/cgroup/cpu/surtax-1a2b3c4d`"));
        assert!(is_of_others("went: group `/sys/fs/cgroup/cpu/surtax-1a2b3c4d`"));
        assert!(is_of_others("went: file `/run/surtax/1a2b3c4d/.memory`"));
        assert!(!is_of_others("went: mount `/srv/labs/data`") && !names_a_lab("/run/surtax/a/b"));
        assert!(!is_of_others("went: mount `/home`") && !is_of_others("went: setting `/a` = `1`"));
        assert!(!is_of_others("came: setting `/a` = `1`"));
        assert!(!is_of_others("came: file `/run/surtax/1a2b3c4d/.memory`"));
        assert!(is_of_others("went: process `surtax` (1): `surtax compare`"));
        assert!(!is_of_others("came: process `surtax` (1): `surtax compare`"));
        assert_eq!(before.agreed_with(&after), of(&["mount `b`"]));
    }

    #[test]
    fn what_bears_neither_our_tag_nor_a_tools_name_is_of_others() {
        let netns =
            |name: &str| format!("mount `net:[4026532] /run/netns/{name} rw - nsfs nsfs rw`");
        for thing in [
            netns("their-own"),
            String::from("mount `/ /mnt/usb rw,relatime shared:9 - ext4 /dev/sdb1 rw`"),
            String::from("mount of process 1 `/ /mnt/usb rw,relatime - ext4 /dev/sdb1 rw`"),
            String::from("network namespace `/run/netns/their-own`"),
            String::from("network link `/sys/class/net/wg0`"),
            String::from("mount `/ /sys/fs/fuse/connections rw - fusectl fusectl rw`"),
            String::from("loop device `/sys/block/loop3` of `/home/me/disk.img`"),
        ] {
            assert!(is_of_others(&format!("came: {thing}")), "{thing}");
            let is_taken = ["ext4", "fusectl", "network link"].iter().any(|it| thing.contains(it));
            assert_eq!(is_of_others(&format!("went: {thing}")), !is_taken, "{thing}");
        }
        for thing in [
            netns("cni-5bb5c5b0"),
            netns("netns-5bb5c5b0"),
            String::from("mount `/ /proc rw - proc proc rw`"),
            String::from("mount `/ /scratch rw,relatime - tmpfs tmpfs rw`"),
            String::from("mount `/ /dev/shm rw - tmpfs tmpfs rw`"),
            String::from("mount `/null /proc/keys rw - devtmpfs devtmpfs rw`"),
            String::from("network link `/sys/class/net/outside`"),
            String::from("mount `/ /run/surtax/1a2b3c4d/root rw - overlay overlay rw`"),
            String::from("mount `/ /var/lib/docker/overlay2/1/merged rw - overlay overlay rw`"),
            String::from("mount `/ /run/systemd/nspawn/propagate rw - tmpfs tmpfs rw`"),
            String::from("network namespace `/run/netns/cni-5bb5c5b0`"),
            String::from("network link `/sys/class/net/veth5bb5c5b`"),
            String::from("network link `/sys/class/net/docker0`"),
            String::from("loop device `/sys/block/loop3` of `/var/tmp/surtax-1a2b3c4d/disk`"),
        ] {
            assert!(!is_of_others(&format!("came: {thing}")), "{thing}");
        }
    }
}
