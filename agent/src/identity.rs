//! Facts that the agent sees on the inside, so that the outside can cross-check what it asked for.
//!
//! An absent file gives no fact; the host treats a missing fact as "unknown", never as zero.

use crate::{disk, init, network, system};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surtax_instrument::link;
use surtax_instrument::mountinfo::Mounted;
use surtax_instrument::probe::mitigations;
use surtax_instrument::wire::{Fact, SCRATCH};

/// Everything that can be seen.
pub fn facts() -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut say = |key: &str, value: Option<String>, source: &str| {
        if let Some(value) = value {
            facts.push(Fact { key: key.into(), value, source: source.into() });
        }
    };
    let system = rustix::system::uname();
    // Each of these is long where there are many mounts or links, so it is read once.
    let mounts = mounts();
    let mounts = mounts.as_deref();
    let interfaces = network::interfaces();
    let status = read_long("/proc/self/status").unwrap_or_default();
    say("kernel_release", Some(system.release().to_string_lossy().into()), "uname(2)");
    say("kernel_version", Some(system.version().to_string_lossy().into()), "uname(2)");
    say("hypervisor_vendor", hypervisor_vendor(), "CPUID leaf 0x40000000");
    say("cpus_online", cpus_online(), "sched_getaffinity(2)");
    say("memory_total_bytes", memory_total(), "/proc/meminfo");
    say("clocksource", read(CLOCKSOURCE), CLOCKSOURCE);
    say("distribution", distribution(), "/etc/os-release");
    say("process_id", Some(std::process::id().to_string()), "getpid(2)");
    say("user_id", Some(rustix::process::getuid().as_raw().to_string()), "getuid(2)");
    say("cgroup", read("/proc/self/cgroup"), "/proc/self/cgroup");
    of_root(mounts, &mut say);
    say("root_files", root_files(mounts), "a walk over `/`");
    say("modules_mount", modules_mount(mounts, &system), "/proc/self/mountinfo");
    for name in ["type", "guest_type", "uuid"] {
        let path = format!("{HYPERVISOR}/{name}");
        say(&format!("hypervisor_{name}"), read(&path), &path);
    }
    say("hypervisor_version", hypervisor_version(), "/sys/hypervisor/version");
    say("firmware", firmware(), "/sys/class/dmi/id");
    say("boot_protocol", read(BOOT_PROTOCOL), BOOT_PROTOCOL);
    say("scratch_mount", scratch_mount(mounts), "/proc/self/mountinfo");
    say("scratch_drivers", scratch_drivers(mounts), "/sys/class/block");
    say("scratch_write_cache", scratch_write_cache(mounts), "/sys/class/block");
    let drivers = interfaces.as_deref().map(network::link_drivers);
    say("interfaces", interfaces, "getifaddrs(3)");
    say("link_drivers", drivers, "ethtool_drvinfo");
    say("default_route", network::default_route(), "/proc/net/route");
    // Elsewhere the hardware is not ours, and its numbers nobody's business.
    if init::is_this_process() || system::is_this_process() {
        let serial = scratch_disk(mounts).and_then(|it| disk::serial(&it));
        say("scratch_serial", serial, "/sys/class/block");
    }
    if let Some(name) = network::of_the_machine().filter(|link| network::may_be_there(link)) {
        of_link(name, &mut say);
    }
    say("seccomp", status_line(&status, "Seccomp"), "/proc/self/status");
    say("capabilities", status_line(&status, "CapEff"), "/proc/self/status");
    for namespace in ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"] {
        let path = format!("/proc/self/ns/{namespace}");
        let link = fs::read_link(&path).ok().map(|link| link.to_string_lossy().into_owned());
        say(&format!("namespace_{namespace}"), link, &path);
    }
    // Started on two pipes, it shares a kernel with the level that started it, or has gVisor's.
    if std::env::args().nth(1).as_deref() != Some("stdio") {
        say("mitigations", mitigations::read_below(Path::new("/")), mitigations::PLACE);
    }
    say("kernel_log_first_line", kernel_log_first_line(), "syslog(2)");
    facts
}

/// Says what can be seen of the file system that the root is.
fn of_root(mounts: Option<&str>, say: &mut dyn FnMut(&str, Option<String>, &str)) {
    say("root_mount", root_mount(mounts), "/proc/self/mountinfo");
    let owner = fs::metadata("/").ok().map(|root| root.uid().to_string());
    say("root_owner", owner, "stat(2) of /");
    let (held, source) = (init::root_held_by(), "/proc/self/mountinfo before it was entered");
    say("root_held_by", held.map(ToString::to_string), source);
    say("root_lies_in", held.map(|held| held.lies_in().to_owned()), source);
}

/// Says what can be seen of the machine's network device.
fn of_link(name: &str, say: &mut dyn FnMut(&str, Option<String>, &str)) {
    let place = format!("/sys/class/net/{name}");
    say("link_name", Some(name.to_owned()), "/sys/class/net");
    say("link_driver", link::driver(name), &format!("{place}/device"));
    say("link_address", read(&format!("{place}/address")), &place);
    let queues = link::queues(name).map(|count| count.to_string());
    say("link_queues", queues, &format!("{place}/queues"));
    let offloads = link::offloads(name).ok().map(|names| names.join(" "));
    say("link_offloads", offloads, &format!("ethtool(8) of {name}"));
    let features = format!("{place}/device/features");
    say("link_virtio_features", virtio_features(&features), &features);
}

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// File that tells which version of the boot parameters the kernel was handed. Source: Linux
/// `Documentation/ABI/testing/sysfs-kernel-boot_params`.
const BOOT_PROTOCOL: &str = "/sys/kernel/boot_params/version";

/// Directory where the kernel says what Xen told it. Source: Linux
/// `Documentation/ABI/stable/sysfs-hypervisor-xen`.
const HYPERVISOR: &str = "/sys/hypervisor";

/// Capacity that a long file gets at first, in bytes, so that it is read in few pieces.
const LONG_BYTES: usize = 64 << 10;

fn read_long(path: &str) -> Option<String> {
    let mut text = String::with_capacity(LONG_BYTES);
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The mounts that are seen here; nothing where they are not told.
fn mounts() -> Option<String> {
    read_long("/proc/self/mountinfo")
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The vendor signature of the hypervisor that this CPU admits to.
///
/// Source: Linux `arch/x86/include/asm/processor.h`, `hypervisor_cpuid_base`.
fn hypervisor_vendor() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    {
        let has_hypervisor = std::arch::x86_64::__cpuid(1).ecx & (1 << 31) != 0;
        if !has_hypervisor {
            return Some(String::from("none"));
        }
        let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
        let bytes: Vec<u8> =
            [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_end_matches('\0').to_owned())
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Such as `4.17.7`, of the hypervisor that has a place in `/sys`: Xen.
fn hypervisor_version() -> Option<String> {
    let part = |name| read(&format!("{HYPERVISOR}/version/{name}"));
    Some(format!("{}.{}{}", part("major")?, part("minor")?, part("extra")?))
}

fn cpus_online() -> Option<String> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    Some(set.count().to_string())
}

fn memory_total() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some((kibibytes << 10).to_string())
}

fn distribution() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// File system type, source and options of `/`, the last mount there.
fn root_mount(mounts: Option<&str>) -> Option<String> {
    mount_at(mounts, "/")?
}

/// Counts the files on `/`, where that is the kernel's first root and so small.
fn root_files(mounts: Option<&str>) -> Option<String> {
    let is_first = root_mount(mounts).is_some_and(|mount| mount.starts_with("rootfs "));
    let device = fs::metadata("/").ok()?.dev();
    is_first.then(|| files_below(Path::new("/"), device).to_string())
}

/// Counts the regular files below, on this file system alone.
fn files_below(directory: &Path, device: u64) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| match fs::symlink_metadata(entry.path()) {
        Ok(about) if about.dev() != device => 0,
        Ok(about) if about.is_dir() => files_below(&entry.path(), device),
        Ok(about) => usize::from(about.is_file()),
        Err(_) => 0,
    };
    entries.map(count).sum()
}

/// The same of the kernel's modules, where they are a mount: in a machine of ours they show how
/// files come.
fn modules_mount(mounts: Option<&str>, system: &rustix::system::Uname) -> Option<String> {
    let modules = format!("/lib/modules/{}", system.release().to_string_lossy());
    mount_at(mounts, fs::canonicalize(modules).ok()?.to_str()?)?
}

/// Vendor and version as the firmware's own table has them, behind `UEFI` where it is that.
fn firmware() -> Option<String> {
    let efi = Path::new("/sys/firmware/efi").is_dir().then(|| String::from("UEFI"));
    let table =
        ["bios_vendor", "bios_version"].map(|name| read(&format!("/sys/class/dmi/id/{name}")));
    let words: Vec<String> = efi.into_iter().chain(table.into_iter().flatten()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The same of the scratch directory, where there is one; `none` if it is no mount.
fn scratch_mount(mounts: Option<&str>) -> Option<String> {
    Path::new(SCRATCH).is_dir().then_some(())?;
    Some(mount_at(mounts, SCRATCH)?.unwrap_or_else(|| String::from("none")))
}

/// The place in `/sys` of the disk that holds the scratch directory, if one does.
fn scratch_disk(mounts: Option<&str>) -> Option<PathBuf> {
    let mount = scratch_mount(mounts)?;
    let name = mount.split(' ').nth(1)?.strip_prefix("/dev/")?;
    fs::canonicalize(Path::new("/sys/class/block").join(name)).ok()
}

/// The drivers between that disk and the machine, the disk's own first.
fn scratch_drivers(mounts: Option<&str>) -> Option<String> {
    let disk = scratch_disk(mounts)?;
    let devices = disk.ancestors().flat_map(|place| [place.join("device"), place.to_path_buf()]);
    let mut names: Vec<String> = Vec::new();
    for device in devices {
        let Ok(driver) = fs::read_link(device.join("driver")) else { continue };
        let name = driver.file_name()?.to_string_lossy().into_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names.join(" "))
}

/// Reads what the kernel believes of that disk's own cache: `write back` or `write through`.
fn scratch_write_cache(mounts: Option<&str>) -> Option<String> {
    let text = fs::read_to_string(scratch_disk(mounts)?.join("queue/write_cache")).ok()?;
    Some(text.trim().to_owned())
}

/// The last mount at a path, if there is one; nothing where mounts are not told.
fn mount_at(mounts: Option<&str>, path: &str) -> Option<Option<String>> {
    let is_there = |line: &&str| {
        Mounted::parse(line.as_bytes()).is_some_and(|mounted| mounted.point == Path::new(path))
    };
    let line = mounts?.lines().rfind(is_there);
    Some(line.and_then(|line| line.split_once(" - ")).map(|(_, rest)| rest.to_owned()))
}

/// The numbers of the virtio features that the link's driver and its device agreed on.
fn virtio_features(place: &str) -> Option<String> {
    let bits = read(place)?;
    let set = bits.bytes().enumerate().filter(|(_, bit)| *bit == b'1');
    Some(set.map(|(number, _)| number.to_string()).collect::<Vec<_>>().join(" "))
}

fn status_line(status: &str, key: &str) -> Option<String> {
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// The first line of the log of a kernel that only answers like Linux: gVisor announces itself
/// there. Linux keeps a long one, of which it would look for the end for a while, and which proves
/// nothing.
fn kernel_log_first_line() -> Option<String> {
    const SET_LEVEL: libc::c_int = 8;
    const READ_ALL: libc::c_int = 3;
    // SAFETY: no memory is named; Linux refuses a level of 0, or us, before it does anything.
    let refused = unsafe { libc::klogctl(SET_LEVEL, std::ptr::null_mut(), 0) } < 0;
    let is_unknown = std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
    if !(refused && is_unknown) {
        return None;
    }
    let mut buffer = vec![0u8; 4096];
    let size = libc::c_int::try_from(buffer.len()).ok()?;
    // SAFETY: the pointer and the length describe a live, writable buffer.
    let count = unsafe { libc::klogctl(READ_ALL, buffer.as_mut_ptr().cast(), size) };
    buffer.truncate(usize::try_from(count).ok()?);
    let text = String::from_utf8_lossy(&buffer);
    let first = text.lines().next().filter(|line| line.contains(" 0.000000]"))?;
    Some(first.chars().take(200).collect())
}
