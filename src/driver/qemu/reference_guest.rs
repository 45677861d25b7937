//! The reference guest: the only thing that proves KVM.
//!
//! There are machines where `/dev/kvm` opens, creates a machine and virtual CPUs, runs a few bytes
//! of real mode, and hangs every ordinary kernel. So a kernel is booted, with the agent as its only
//! process, and must reach user space in time. The verdict holds for one boot of this level.

use super::boot::boot;
use super::check::usual;
use super::command_line::{Boots, Machine};
use super::firmware::Firmware;
use super::memory::Memory;
use super::partition::Overcommit;
use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::guest::channel::Channel;
use crate::guest::files::Contents;
use crate::guest::initramfs;
use crate::guest::kernel::{Kernel, write_whole};
use crate::lab::{Room, ToolRun, exclusive, kernel_part};
use crate::layer::{Site, Unavailable};
use crate::vm::accelerator::Accelerator;
use crate::vm::board::Board;
use crate::vm::nic::NetBackend;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::{self, BOOT_ID};
use surtax_instrument::wire::Reply;

/// Time that the guest may take on a machine of metal or of somebody else's; `doctor` waits for
/// little more than twice as long.
const HOST_DEADLINE: Duration = Duration::from_secs(22);

/// Time that it may take in a guest of ours, whose processor may itself be emulated: 4 s when it is
/// quiet here, and half a minute on a crowded machine.
const NESTED_DEADLINE: Duration = Duration::from_secs(60);

/// Time that an attempt takes beside that, on a crowded machine.
const AROUND: Duration = Duration::from_secs(15);

/// Pause between two looks at a lock that somebody holds.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Message about a device that only looks usable.
const REFUTED: &str = "`/dev/kvm` opens, but a reference guest did not reach user space";

/// Memory of the guest.
const MEMORY_MIB: u64 = 256;

/// The device.
const DEVICE: &str = "/dev/kvm";

/// Finding of a reference guest about KVM on this level, for one version of QEMU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// Of the QEMU that was tried.
    pub(super) qemu_version: String,
    /// From starting QEMU to the agent's first frame; nothing when that did not come.
    pub(super) boot_ms: Option<u64>,
    /// Cause of a failure, for people.
    pub(super) why: Option<String>,
}

impl Verdict {
    /// Returns how KVM was proved, or why it was not.
    pub(super) fn as_result(&self) -> Result<String, String> {
        match self.boot_ms {
            Some(elapsed) => Ok(format!("a reference guest reached user space in {elapsed} ms")),
            None => Err(self.why.clone().unwrap_or_else(|| String::from(REFUTED))),
        }
    }
}

/// Tells whether the device can be opened at all; if not, why.
///
/// In a guest of ours the driver's module is loaded first: that kernel is ours to change.
pub(super) fn device(site: &Site<'_>, room: &Room) -> Result<(), String> {
    if !Path::new(DEVICE).exists() && site.level > 0 && kernel_part::is_of_a_guest_of_ours() {
        load_driver(room);
    }
    let opened = File::options().read(true).write(true).open(DEVICE);
    opened.map(drop).map_err(|error| format!("`{DEVICE}` cannot be opened: {error}"))
}

/// The verdict of this boot, if a reference guest was tried.
pub(super) fn known(cache: &Path, qemu_version: &str) -> Option<Verdict> {
    let text = fs::read_to_string(verdict_path(cache).ok()?).ok()?;
    let verdict: Verdict = serde_json::from_str(&text).ok()?;
    (verdict.qemu_version == qemu_version).then_some(verdict)
}

/// Returns the time limit of one attempt.
fn deadline(site: &Site<'_>) -> Duration {
    let is_deep = site.level > 0 || kernel_part::is_of_a_guest_of_ours();
    if is_deep { NESTED_DEADLINE } else { HOST_DEADLINE }
}

/// Returns how long to wait for somebody else's attempt.
pub(super) fn patience(site: &Site<'_>) -> Duration {
    deadline(site) + AROUND
}

/// One attempt at a time: held until the file is dropped.
///
/// # Errors
/// The machine's: the cache cannot be written, or somebody holds the lock for longer than an
/// attempt takes.
pub(super) fn turn(cache: &Path, patience: Duration) -> Result<File, Fault> {
    let path = verdict_path(cache)?.with_extension("lock");
    let doing = format!("wait for a turn at `{}`", path.display());
    fs::create_dir_all(cache).doing(&doing)?;
    let file = exclusive::lock_file(&path)?;
    let locked = clock::look_until(patience, LOOK_AGAIN, || match file.try_lock() {
        Ok(()) => Some(Ok(())),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => Some(Err(error)),
    });
    locked.ok_or_else(|| taken(&path, patience))?.doing(&doing)?;
    Ok(file)
}

/// Makes the fault about a lock that is not let go of.
fn taken(path: &Path, patience: Duration) -> Fault {
    let (shown, seconds) = (path.display(), patience.as_secs());
    Fault::machine(format!(
        "a process of this user holds the lock `{shown}`, under which a surtax tries KVM, for more \
         than {seconds} s"
    ))
    .hint(format!("end that process, which `fuser {shown}` may name; or use `accel=tcg`"))
}

/// Boots the reference guest, and remembers what came of it.
///
/// # Errors
/// Ours or the machine's when the attempt could not even be made.
pub(super) fn attempt(
    kernel: &Kernel,
    qemu_version: &str,
    site: &Site<'_>,
    room: &Room,
) -> Result<Verdict, Fault> {
    let initramfs = initramfs::write(
        room,
        site.agent,
        kernel,
        (Board::Q35.transport(), Channel::Port),
        Contents::Nothing,
    )?;
    let machine = Machine {
        // In a mount namespace of its own a program is not looked for.
        program: usual().map_err(Unavailable::fault)?.display().to_string(),
        accelerator: Accelerator::Kvm,
        board: Board::Q35,
        cpus: 1,
        cpu: None,
        pinned: Vec::new(),
        memory: Memory::plain(MEMORY_MIB, true),
        overcommit: Overcommit::default(),
        firmware: Firmware::Seabios,
        boots: Boots::Kernel { image: kernel.image.clone(), initramfs: initramfs.path, xen: None },
        tsc_khz: None,
        icount: None,
        files: None,
        disk: None,
        nic: None,
    };
    let (boot_ms, why) = match first_frame(machine, room, deadline(site)) {
        Ok(elapsed) => (u64::try_from(elapsed.as_millis()).ok(), None),
        Err(fault) => {
            // Kept for whoever wonders; the verdict itself stays one line.
            let log = verdict_path(site.cache)?.with_extension("log");
            let _ = write_whole(&log, fault.message.as_bytes());
            (None, Some(String::from(REFUTED)))
        }
    };
    let verdict = Verdict { qemu_version: qemu_version.to_owned(), boot_ms, why };
    let text = serde_json::to_string_pretty(&verdict).doing("write down the verdict on KVM")?;
    write_whole(&verdict_path(site.cache)?, text.as_bytes())?;
    Ok(verdict)
}

/// Returns how long the guest took to its first frame. It is killed when this returns.
fn first_frame(machine: Machine, room: &Room, deadline: Duration) -> Result<Duration, Fault> {
    let console = ConsoleTail::new();
    let began = clock::monotonic_raw();
    let (machine, jail) = machine.within(Vec::new(), room)?;
    let mut guest = boot(&machine, &mut NetBackend::default(), room, (None, &jail), &console)?;
    let first = guest.link.receive(deadline);
    let killed = guest.process.kill();
    let frame = first?;
    killed?;
    match frame.reply {
        Reply::Hello(_) => Ok(frame.at.since(began).into()),
        other => Err(crate::agent::unexpected(&other, "nothing")),
    }
}

fn verdict_path(cache: &Path) -> Result<PathBuf, Fault> {
    let boot = fs::read_to_string(BOOT_ID).doing(format_args!("read `{BOOT_ID}`"))?;
    Ok(cache.join(format!("kvm-{}.json", boot.trim())))
}

fn load_driver(room: &Room) {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let driver = match flags.split_ascii_whitespace().find(|flag| matches!(*flag, "svm" | "vmx")) {
        Some("svm") => "kvm_amd",
        Some("vmx") => "kvm_intel",
        _ => return,
    };
    // Whether it helped is seen when the device is opened.
    let _ = ToolRun::new(&["modprobe", driver]).run(room);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_verdict_is_forgotten_when_qemu_changes_and_never_crosses_a_boot() {
        let cache = tempfile::tempdir().unwrap();
        let verdict = Verdict { qemu_version: "7.2.22".into(), boot_ms: Some(3600), why: None };
        let path = verdict_path(cache.path()).unwrap();
        assert!(path.to_string_lossy().contains("kvm-"));
        write_whole(&path, serde_json::to_string(&verdict).unwrap().as_bytes()).unwrap();
        assert_eq!(known(cache.path(), "7.2.22"), Some(verdict));
        assert_eq!(known(cache.path(), "10.0.13"), None);
    }

    #[test]
    fn a_lock_that_somebody_holds_is_waited_for_no_longer_than_an_attempt_takes() {
        let cache = tempfile::tempdir().unwrap();
        let mine = turn(cache.path(), Duration::ZERO).unwrap();
        let fault = turn(cache.path(), Duration::from_millis(50)).unwrap_err();
        assert!(fault.message.contains("holds the lock `"), "{fault}");
        assert_eq!(fault.exit_code(), 3);
        let next = std::thread::spawn({
            let cache = cache.path().to_owned();
            move || turn(&cache, Duration::from_secs(30)).map(drop)
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(mine);
        assert_eq!(next.join().unwrap(), Ok(()));
    }

    #[test]
    fn a_lock_is_nobody_elses_to_take_also_one_of_an_older_surtax() {
        let cache = tempfile::tempdir().unwrap();
        let path = verdict_path(cache.path()).unwrap().with_extension("lock");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        drop(turn(cache.path(), Duration::ZERO).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(turn(cache.path(), Duration::ZERO).unwrap());
        assert_eq!(mode(), 0o600);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            let fault = turn(cache.path(), Duration::ZERO).unwrap_err();
            assert!(fault.message.contains("belongs to user 65534"), "{fault}");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(turn(cache.path(), Duration::ZERO).is_err(), "no link is followed");
    }

    #[test]
    fn a_broken_verdict_is_no_verdict() {
        let cache = tempfile::tempdir().unwrap();
        fs::write(verdict_path(cache.path()).unwrap(), "{").unwrap();
        assert_eq!(known(cache.path(), "7.2.22"), None);
    }
}
