//! The script that a guest's PID 1 follows: what becomes of it after the first frame.
//!
//! It is written here and nowhere else; `agent/src/init.rs` says what each directive does.

use crate::guest::channel::{Channel, Transport};
use crate::guest::modules::Module;
use crate::guest::packed::Packed;
use crate::guest::share::{
    NINEP_OPTIONS, Protocol, SERVED_MODULES, SERVED_ROOT, SERVED_WRITABLE, SERVED_XEN, TAG,
    WRITABLE_TAG, XEN_NINEP_OPTIONS,
};
use crate::layer::medium::Medium;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use surtax_instrument::wire::SCRATCH;

/// Mount point in the guest of what is served, before any of it becomes the root.
const FILES: &str = "/mnt/host";

/// Mount point in the guest of what it may write to, where that is served apart.
const WRITABLE: &str = "/mnt/writable";

/// Options of the file system of terminals.
const TERMINALS: &str = "gid=5,mode=620,ptmxmode=666";

/// Directory in which the command's root is put together.
const ROOT: &str = "/newroot";

/// Files and programs that make a guest Xen's Dom0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dom0Files {
    /// Xen's tools: a tree that lies over the guest's root.
    pub(crate) tools: PathBuf,
    /// Directories that its programs expect to be there.
    pub(crate) directories: &'static [&'static str],
    /// Programs that are run when all is mounted.
    pub(crate) programs: Vec<String>,
}

/// Specification of what is to be in a guest.
#[derive(Clone, Debug)]
pub(crate) struct GuestSpec {
    /// Channel between its agent and us.
    pub(crate) channel: Channel,
    /// Transport of its virtio devices.
    pub(crate) transport: Transport,
    /// Protocol by which files come to it.
    pub(crate) files: Protocol,
    /// The agent's name in its first root, where that is a directory and no initramfs.
    pub(crate) first_root: Option<&'static str>,
    /// Memory of the guest in MiB, in which a packed root must fit.
    pub(crate) memory_mib: u64,
    /// Modules of its kernel that its devices need.
    pub(crate) modules: Vec<&'static str>,
    /// Address with the length of its network, and the gateway, if it has a network device.
    pub(crate) network: Option<(String, Ipv4Addr)>,
    /// Number of pages that a balloon takes, if there is one.
    pub(crate) balloon_pages: Option<u64>,
    /// Files and programs that make it Xen's Dom0, where it is that.
    pub(crate) dom0: Option<Dom0Files>,
}

/// Settings for what PID 1 does after it said hello: how much of a machine the guest becomes.
#[derive(Clone, Debug)]
pub(crate) struct Files<'a> {
    /// Specification of the guest.
    pub(crate) spec: &'a GuestSpec,
    /// The release whose modules are shown at `/lib/modules`.
    pub(crate) release: String,
    /// Directories that are served to be written: absolute, without symbolic links.
    pub(crate) writable: Vec<PathBuf>,
    /// Medium of the scratch directory, if there is one; a bound one is among `writable`.
    pub(crate) scratch: Option<Medium>,
}

impl Files<'_> {
    /// Returns the guest's directory of what is served; empty where that is its first root.
    fn base(&self) -> &'static str {
        if self.spec.files == Protocol::FirstRoot { "" } else { FILES }
    }

    /// Mounts what is served, and says where the writable directories are.
    fn mount(&self, script: &mut Vec<String>) -> String {
        match self.spec.files {
            // Its server knows how long each of the two is kept.
            Protocol::Virtiofs => self.mount_apart(script, "virtiofs", ["", ""]),
            // Files of several file systems may have one number there, which nothing that is cached
            // may rest on. It is there already.
            Protocol::FirstRoot => format!("/{SERVED_WRITABLE}"),
            Protocol::XenNinep => {
                script.push(format!("9p {TAG} {FILES} {XEN_NINEP_OPTIONS}"));
                format!("{FILES}/{SERVED_WRITABLE}")
            }
            // Nobody else changes what is read only, as far as a trial is concerned.
            Protocol::Ninep => {
                let options = ["loose", "mmap"].map(|it| format!(" {NINEP_OPTIONS},cache={it}"));
                self.mount_apart(script, "9p", options.each_ref().map(String::as_str))
            }
        }
    }

    /// The same where what is read only is served apart from what is not, each with options of its
    /// own.
    fn mount_apart(&self, script: &mut Vec<String>, kind: &str, options: [&str; 2]) -> String {
        let [read_only, writable] = options;
        script.push(format!("{kind} {TAG} {FILES}{read_only}"));
        if !self.writable.is_empty() {
            script.push(format!("{kind} {WRITABLE_TAG} {WRITABLE}{writable}"));
        }
        WRITABLE.to_owned()
    }
}

/// Contents of a guest beside the agent.
#[derive(Clone, Copy)]
pub(crate) enum Contents<'a> {
    /// Nothing: it only says hello.
    Nothing,
    /// This level's files, which are served.
    Served(&'a Files<'a>),
    /// The command's own files; of the others only what is about devices.
    Packed(&'a Packed, &'a Files<'a>),
}

/// The script: `early` modules, the first frame, and then, unless there is nothing more, the `late`
/// modules, the root and the devices.
pub(crate) fn script(
    channel: Channel,
    early: &[Module],
    late: &[Module],
    contents: Contents<'_>,
) -> Vec<String> {
    let load = |module: &Module| format!("load /modules/{}.ko", module.name);
    let mut script: Vec<String> = early.iter().map(load).collect();
    script.push(hello(channel));
    let (files, root) = match contents {
        Contents::Nothing => return script,
        Contents::Served(files) => (files, ROOT),
        Contents::Packed(_, files) => (files, ""),
    };
    script.extend(late.iter().map(load));
    if root.is_empty() {
        script.push(fresh("devpts", "/dev/pts", TERMINALS));
    } else {
        put_together(files, &mut script);
    }
    match files.scratch {
        Some(Medium::Layer) => script.push(format!("scratch {root}{SCRATCH}")),
        Some(Medium::Tmpfs) => {
            script.push(fresh("tmpfs", &format!("{root}{SCRATCH}"), "mode=1777"));
        }
        Some(Medium::Disk) => script.push(format!("disk {root}{SCRATCH}")),
        Some(Medium::Bind | Medium::Volume) | None => {}
    }
    script.extend(files.spec.balloon_pages.map(|pages| format!("balloon {pages}")));
    script.push(String::from("loopback"));
    let network = files.spec.network.iter();
    script.extend(network.map(|(address, gateway)| format!("network {address} {gateway}")));
    script.push(String::from("hostname surtax"));
    if !root.is_empty() {
        script.push(format!("root {ROOT}"));
    }
    if let Some(dom0) = &files.spec.dom0 {
        script.push(fresh("xenfs", "/proc/xen", ""));
        script.extend(dom0.directories.iter().map(|path| format!("mkdir {path}")));
        script.extend(dom0.programs.iter().map(|words| format!("run {words}")));
    }
    script
}

/// Puts the command's root together from what is served.
fn put_together(files: &Files<'_>, script: &mut Vec<String>) {
    let (base, writable) = (files.base(), files.mount(script));
    let tools =
        files.spec.dom0.as_ref().map(|_| format!("{base}/{SERVED_XEN}:")).unwrap_or_default();
    let served = format!("{tools}{base}/{SERVED_ROOT}");
    script.push(match files.spec.files {
        // Merged before it was served.
        Protocol::FirstRoot => format!("bind {served} {ROOT}"),
        _ => format!("overlay {served} {ROOT}"),
    });
    // A container engine wants a `/run` without the sockets and pid files of the host.
    for (kind, at, options) in [
        ("proc", "/proc", ""),
        ("sysfs", "/sys", ""),
        ("cgroup2", "/sys/fs/cgroup", ""),
        ("devtmpfs", "/dev", ""),
        ("devpts", "/dev/pts", TERMINALS),
        ("tmpfs", "/dev/shm", "mode=1777"),
        ("tmpfs", "/run", "mode=755"),
    ] {
        script.push(fresh(kind, &format!("{ROOT}{at}"), options));
    }
    // udev makes these on a whole system; shells and scripts rely on them.
    for (text, at) in [
        ("/proc/self/fd", "/dev/fd"),
        ("fd/0", "/dev/stdin"),
        ("fd/1", "/dev/stdout"),
        ("fd/2", "/dev/stderr"),
    ] {
        script.push(format!("link {text} {ROOT}{at}"));
    }
    script.push(format!("bind {base}/{SERVED_MODULES} {ROOT}/lib/modules/{}", files.release));
    for (number, path) in files.writable.iter().enumerate() {
        script.push(format!("bind {writable}/{number} {ROOT}{}", path.display()));
    }
}

/// The directive that opens the channel and sends the first frame. Start-up ends there; the rest
/// delays only requests.
pub(crate) fn hello(channel: Channel) -> String {
    match channel {
        Channel::Port => String::from("hello"),
        Channel::Vsock(port) => format!("hello {port}"),
        Channel::Console(number) => format!("hello hvc{number}"),
    }
}

fn fresh(kind: &str, at: &str, options: &str) -> String {
    format!("fresh {kind} {at} {options}").trim_end().to_owned()
}

/// The script as PID 1 reads it.
pub(crate) fn text(script: &[String]) -> String {
    script.iter().map(|directive| format!("{directive}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str) -> Module {
        Module { name: name.into(), bytes: name.as_bytes().to_vec() }
    }

    fn spec() -> GuestSpec {
        GuestSpec {
            channel: Channel::Port,
            transport: Transport::Pci,
            files: Protocol::Virtiofs,
            first_root: None,
            memory_mib: 512,
            modules: Vec::new(),
            network: Some(("198.18.0.2/24".into(), [198, 18, 0, 1].into())),
            balloon_pages: None,
            dom0: None,
        }
    }

    fn files(spec: &GuestSpec) -> Files<'_> {
        let writable = vec!["/home/a/out".into()];
        Files { spec, release: "6.1.0".into(), writable, scratch: None }
    }

    #[test]
    fn dom0_has_xen_s_tools_over_its_root_and_runs_them_when_it_is_there() {
        let dom0 = Dom0Files {
            tools: "/cache/xen".into(),
            directories: &["/run/xen", "/var/log/xen"],
            programs: vec!["/usr/sbin/xenstored".into()],
        };
        let spec = GuestSpec { dom0: Some(dom0), ..spec() };
        let text = text(&script(Channel::Port, &[], &[], Contents::Served(&files(&spec))));
        assert!(text.contains("overlay /mnt/host/xen:/mnt/host/root /newroot\n"), "{text}");
        let end = "root /newroot\nfresh xenfs /proc/xen\nmkdir /run/xen\n\
                   mkdir /var/log/xen\nrun /usr/sbin/xenstored\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_domain_speaks_over_a_console_and_has_its_files_by_xen() {
        let spec = GuestSpec { files: Protocol::XenNinep, network: None, ..spec() };
        let text = text(&script(Channel::Console(1), &[], &[], Contents::Served(&files(&spec))));
        for line in [
            "hello hvc1",
            "9p host /mnt/host trans=xen,version=9p2000.L,msize=512000,cache=mmap",
            "bind /mnt/host/writable/0 /newroot/home/a/out",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{text}");
        }
    }

    #[test]
    fn by_9p_a_guest_mounts_what_is_read_only_apart_and_waits_for_its_balloon() {
        let spec = GuestSpec { files: Protocol::Ninep, balloon_pages: Some(7), ..spec() };
        let text = text(&script(Channel::Port, &[], &[], Contents::Served(&files(&spec))));
        let options = "trans=virtio,version=9p2000.L,msize=512000";
        for line in [
            &format!("9p host /mnt/host {options},cache=loose"),
            &format!("9p writable /mnt/writable {options},cache=mmap"),
            "bind /mnt/writable/0 /newroot/home/a/out",
            "balloon 7",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{text}");
        }
    }

    #[test]
    fn a_packed_guest_mounts_no_files_of_this_level() {
        let spec = spec();
        let files = Files { scratch: Some(Medium::Tmpfs), ..files(&spec) };
        let contents = Contents::Packed(&Packed::default(), &files);
        let script =
            script(Channel::Port, &[module("virtio_console")], &[module("virtio_net")], contents);
        assert_eq!(
            text(&script),
            "\
load /modules/virtio_console.ko
hello
load /modules/virtio_net.ko
fresh devpts /dev/pts gid=5,mode=620,ptmxmode=666
fresh tmpfs /scratch mode=1777
loopback
network 198.18.0.2/24 198.18.0.1
hostname surtax
"
        );
    }

    #[test]
    fn a_reference_guest_loads_its_port_and_says_hello() {
        let early = [module("virtio"), module("virtio_console")];
        let script = script(Channel::Port, &early, &[module("fuse")], Contents::Nothing);
        assert_eq!(
            text(&script),
            "load /modules/virtio.ko\nload /modules/virtio_console.ko\nhello\n"
        );
    }

    #[test]
    fn by_vsock_the_agent_calls_a_port_of_the_host() {
        let script = script(Channel::Vsock(1024), &[module("vsock")], &[], Contents::Nothing);
        assert_eq!(text(&script), "load /modules/vsock.ko\nhello 1024\n");
    }

    #[test]
    fn a_guest_with_files_puts_its_root_together_after_hello() {
        let script = script(
            Channel::Port,
            &[module("virtio")],
            &[module("fuse")],
            Contents::Served(&files(&spec())),
        );
        assert_eq!(
            script.join("\n"),
            "\
load /modules/virtio.ko
hello
load /modules/fuse.ko
virtiofs host /mnt/host
virtiofs writable /mnt/writable
overlay /mnt/host/root /newroot
fresh proc /newroot/proc
fresh sysfs /newroot/sys
fresh cgroup2 /newroot/sys/fs/cgroup
fresh devtmpfs /newroot/dev
fresh devpts /newroot/dev/pts gid=5,mode=620,ptmxmode=666
fresh tmpfs /newroot/dev/shm mode=1777
fresh tmpfs /newroot/run mode=755
link /proc/self/fd /newroot/dev/fd
link fd/0 /newroot/dev/stdin
link fd/1 /newroot/dev/stdout
link fd/2 /newroot/dev/stderr
bind /mnt/host/modules /newroot/lib/modules/6.1.0
bind /mnt/writable/0 /newroot/home/a/out
loopback
network 198.18.0.2/24 198.18.0.1
hostname surtax
root /newroot"
        );
    }
}
