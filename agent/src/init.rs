//! PID 1 of a virtual machine: follows a script from the initramfs, then serves like any agent.
//!
//! The script is [`SCRIPT`], one directive per line, carried out in order:
//!
//! | directive | does |
//! |---|---|
//! | `load PATH` | inserts a kernel module |
//! | `hello` | opens the channel (the virtio-serial port called `surtax`) and sends the first frame |
//! | `hello PORT` | the same over a port of the host's that it calls by virtio-vsock |
//! | `hello hvcN` | the same over a console of Xen's other than the first |
//! | `mkdir DIR` | makes a directory and its parents |
//! | `virtiofs TAG DIR` | mounts the host's files |
//! | `9p TAG DIR OPTIONS` | mounts them by 9p |
//! | `balloon PAGES` | waits until the balloon has so many of the kernel's pages |
//! | `scratch DIR` | makes a directory to which everybody may write |
//! | `disk DIR` | mounts the machine's only disk, an ext4 to which everybody may write |
//! | `overlay LOWER DIR` | mounts LOWER under a throw-away upper layer in memory |
//! | `bind FROM DIR` | shows FROM, and what is mounted below it, at DIR |
//! | `fresh KIND DIR [OPTIONS]` | mounts a file system without a source: `proc`, `tmpfs`, … |
//! | `link TEXT PATH` | makes a symbolic link, unless something is there |
//! | `loopback` | brings the loopback interface up |
//! | `network ADDRESS/PREFIX GATEWAY` | brings the machine's only network device up |
//! | `hostname NAME` | names the machine |
//! | `root DIR` | makes DIR the root of all that follows |
//! | `run PROGRAM ARGUMENTS…` | runs a program to its end, such as a daemon that goes on in the background |
//!
//! A directive that fails is printed on the console and answered to the first request.

use crate::channel::Channel;
use crate::serve::Session;
use crate::{disk, hvc, network, vsock};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_move,
};
use rustix::system::{RebootCommand, reboot};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surtax_instrument::backing::{self, Backing};
use surtax_instrument::wire::{Cause, Failure};
use surtax_instrument::{clock, link};

/// Path of the script; its presence makes an agent with process id 1 the machine's init.
pub const SCRIPT: &str = "/surtax.conf";

/// The name of the virtio-serial port.
const PORT: &str = "surtax";

/// The machine's network device: without udev, the first one keeps the name that the kernel gives
/// it.
pub const LINK: &str = "eth0";

/// Time that a device may take to appear after its driver was loaded.
const DEVICE_DEADLINE: Duration = Duration::from_secs(10);

/// Pause between two looks.
pub const LOOK_AGAIN: Duration = Duration::from_millis(1);

static IS_INIT: AtomicBool = AtomicBool::new(false);

/// Holder of the root that was entered.
static ROOT_HELD_BY: OnceLock<Backing> = OnceLock::new();

/// Runs the machine until the host is done with it. Never returns: the machine restarts, which the
/// hypervisor takes as its end.
pub fn main() -> ! {
    if let Err(error) = run() {
        eprintln!("surtax agent: {error}");
    }
    rustix::fs::sync();
    // With a network that is up, a restart may never end. A machine without one has nothing to
    // lower.
    if network::may_be_there(LINK) {
        let _ = link::lower(LINK);
    }
    let _ = reboot(RebootCommand::Restart);
    std::process::exit(3);
}

/// Tells whether this process is the first one of a machine of ours.
pub fn is_this_process() -> bool {
    IS_INIT.load(Ordering::Relaxed)
}

fn run() -> io::Result<()> {
    IS_INIT.store(true, Ordering::Relaxed);
    for (kind, directory) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(directory)?;
        mount_fresh(kind, directory, "")?;
    }
    let script = fs::read_to_string(SCRIPT)?;
    let mut session = None;
    let mut failure = None;
    for line in script.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let done = match words.as_slice() {
            ["hello", place @ ..] => open(place).and_then(greet).map(|it| session = Some(it)),
            _ => follow(&words),
        };
        if let Err(error) = done {
            eprintln!("surtax agent: `{line}`: {error}");
            let what = format!("the guest could not carry out `{line}`: {error}");
            let cause = Cause::of(&error);
            failure = Some(Failure { cause, ..Failure::of(what) });
            break;
        }
    }
    let mut session = session.ok_or_else(|| io::Error::other("the script has no `hello`"))?;
    if let Some(failure) = failure {
        session.refuse(&failure).map_err(io::Error::other)?;
    }
    session.serve().map_err(io::Error::other)
}

fn follow(words: &[&str]) -> io::Result<()> {
    match *words {
        [] => Ok(()),
        ["load", path] => load(path),
        ["mkdir", directory] => fs::create_dir_all(directory),
        ["scratch", directory] => {
            fs::create_dir_all(directory)?;
            fs::set_permissions(directory, fs::Permissions::from_mode(0o1777))
        }
        ["disk", directory] => {
            disk::mount_at(&wait_for(|| disk::only().map(Ok), "there is no disk")?, directory)
        }
        ["virtiofs", tag, directory] => attach(tag, "virtiofs", directory, ""),
        ["9p", tag, directory, options] => attach(tag, "9p", directory, options),
        ["balloon", pages] => wait_for_balloon(pages.parse().map_err(io::Error::other)?),
        ["overlay", lower, directory] => overlay(lower, directory),
        ["bind", from, directory] => {
            if fs::metadata(from)?.is_dir() {
                fs::create_dir_all(directory)?;
            } else if !Path::new(directory).exists() {
                File::create(directory)?;
            }
            Ok(mount_bind_recursive(from, directory)?)
        }
        ["fresh", kind, directory] => mount_fresh(kind, directory, ""),
        ["fresh", kind, directory, options] => mount_fresh(kind, directory, options),
        ["link", text, path] => match std::os::unix::fs::symlink(text, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        },
        ["loopback"] => bring_loopback_up(),
        ["network", address, gateway] => bring_network_up(address, gateway),
        ["hostname", name] => Ok(rustix::system::sethostname(name.as_bytes())?),
        ["root", directory] => enter_root(directory),
        ["run", program, ref arguments @ ..] => run_program(program, arguments),
        _ => Err(io::Error::other("no such directive")),
    }
}

fn load(path: &str) -> io::Result<()> {
    let module = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::system::finit_module(&module, c"", 0) {
        // Built in, or a dependency that was loaded already.
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Mounts a file system without a source; one that is there already is no error.
pub fn mount_fresh(kind: &str, directory: &str, options: &str) -> io::Result<()> {
    match attach(kind, kind, directory, options) {
        // The kernel may have mounted devtmpfs by itself.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        mounted => mounted,
    }
}

fn attach(source: &str, kind: &str, directory: &str, options: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let options = CString::new(options)?;
    Ok(mount(source, directory, kind, MountFlags::empty(), Some(options.as_c_str()))?)
}

/// Several overlays may stand on one another; each has its own layer in memory.
fn overlay(lower: &str, directory: &str) -> io::Result<()> {
    let place = format!("/overlays{directory}");
    attach("tmpfs", "tmpfs", &place, "mode=755")?;
    let (upper, work) = (format!("{place}/upper"), format!("{place}/work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    attach("overlay", "overlay", directory, &options)
}

/// Returns what holds the root of the machine: what is above it cannot be seen from inside.
pub fn root_held_by() -> Option<&'static Backing> {
    ROOT_HELD_BY.get()
}

/// Moves the mount over `/`, not only `chroot`, so that a container runtime inside can
/// `pivot_root`.
fn enter_root(directory: &str) -> io::Result<()> {
    if let Some(held) = backing::by(Path::new("/proc/self"), Path::new(directory), &[]) {
        let _ = ROOT_HELD_BY.set(held);
    }
    std::env::set_current_dir(directory)?;
    // Whoever was the init before us may have shared its mounts, and shared ones are not moved.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    mount_move(directory, "/")?;
    rustix::process::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Brings the loopback interface of this network namespace up; the kernel gives it its addresses.
pub fn bring_loopback_up() -> io::Result<()> {
    link::bring_up("lo")
}

/// Brings the machine's network device up and waits until frames come and go.
fn bring_network_up(address: &str, gateway: &str) -> io::Result<()> {
    let is_there = || Path::new("/sys/class/net").join(LINK).exists().then_some(Ok(()));
    wait_for(is_there, "there is no network device")?;
    // Nobody out there speaks it, and the kernel would look for somebody for some seconds.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{LINK}/disable_ipv6"), "1");
    network::give(LINK, address, gateway)?;
    let is_ready = || link::is_ready(LINK).then_some(Ok(()));
    wait_for(is_ready, "there is no link on the network device")
}

/// Opens the channel at a place that the script names.
fn open(place: &[&str]) -> io::Result<File> {
    match *place {
        [] => open_port(),
        [device] if device.starts_with(hvc::PREFIX) => open_console(device),
        [port] => call_host(port),
        _ => Err(io::Error::other("no such directive")),
    }
}

/// Sends the first frame over the channel.
fn greet(channel: File) -> io::Result<Session> {
    let mut session = Session::new(Channel::new(channel.try_clone()?, channel));
    session.greet().map_err(io::Error::other)?;
    Ok(session)
}

fn open_port() -> io::Result<File> {
    let missing = "there is no virtio-serial port called `surtax`";
    let device = wait_for(|| find_port().map(Ok), missing)?;
    OpenOptions::new().read(true).write(true).open(device)
}

/// Calls a port of the host's as soon as the machine has the device for it.
fn call_host(port: &str) -> io::Result<File> {
    let port = port.parse().map_err(io::Error::other)?;
    wait_for(|| vsock::call(port).transpose(), "there is no virtio-vsock device")
}

/// Opens a console of Xen's as soon as somebody serves it.
fn open_console(device: &str) -> io::Result<File> {
    wait_for(|| hvc::open(device).transpose(), &format!("nobody serves the console `{device}`"))
}

/// Runs a program to its end; what it says goes to the console.
fn run_program(program: &str, arguments: &[&str]) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "this is the init of a machine of its own")]
    let status = std::process::Command::new(program).args(arguments).status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("it ended with {status}")))
}

/// Waits until a device is there, or cannot be: its driver may still be looking for it.
fn wait_for<T>(find: impl FnMut() -> Option<io::Result<T>>, missing: &str) -> io::Result<T> {
    clock::look_until(DEVICE_DEADLINE, LOOK_AGAIN, find)
        .unwrap_or_else(|| Err(io::Error::other(missing)))
}

/// The driver begins when it finds the device, and counts what it has handed over. As long as that
/// grows it is waited for: how long a start may take is the host's matter.
fn wait_for_balloon(pages: u64) -> io::Result<()> {
    let (mut seen, mut began) = (0, clock::monotonic_raw());
    loop {
        let text = fs::read_to_string("/proc/vmstat")?;
        let count = text.lines().find_map(|line| line.strip_prefix("balloon_inflate "));
        let inflated: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        if inflated >= pages {
            return Ok(());
        }
        if inflated > seen {
            (seen, began) = (inflated, clock::monotonic_raw());
        }
        if Duration::from(clock::monotonic_raw().since(began)) > DEVICE_DEADLINE {
            let text = format!("the balloon has {inflated} pages and was to take {pages}");
            return Err(io::Error::other(text));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn find_port() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    let port = ports.flatten().find(|port| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT)
    })?;
    Some(Path::new("/dev").join(port.file_name()))
}
