//! The script that a guest's PID 1 follows: what becomes of it after the first frame.
//!
//! It is written here and nowhere else; `agent/src/init.rs` says what each directive does.

use crate::guest::channel::Channel;
use crate::guest::modules::Module;
use crate::guest::packed::Packed;
use crate::guest::share::{
    NINEP_OPTIONS, Protocol, SERVED_MODULES, SERVED_ROOT, SERVED_WRITABLE, SERVED_XEN, TAG,
    WRITABLE_TAG, XEN_NINEP_OPTIONS,
};
use crate::layer::medium::Medium;
use std::fmt;
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

/// One thing that PID 1 does, in its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Directive {
    /// Insert the kernel module at this path of the initramfs.
    Load(String),
    /// Open the channel and send the first frame. Start-up ends here; the rest delays only
    /// requests.
    Hello(Channel),
    /// Mount what the host serves under this tag.
    Virtiofs(&'static str, &'static str),
    /// The same by 9p, with these options.
    Ninep(&'static str, &'static str, String),
    /// Wait until the balloon has so many pages of the guest's.
    Balloon(u64),
    /// Mount the first with a throw-away upper layer at the second.
    Overlay(String, &'static str),
    /// Make a directory to which everybody may write.
    Scratch(String),
    /// Mount the machine's only disk, to which everybody may write.
    Disk(String),
    /// Show the first at the second.
    Bind(String, String),
    /// Mount a file system without a source: its kind, where, its options.
    Fresh(&'static str, String, &'static str),
    /// Make a symbolic link: its text, then where.
    Link(&'static str, String),
    /// Bring the loopback interface up.
    Loopback,
    /// Give the machine's only network device this address, and this one as the way to everywhere.
    Network(String, Ipv4Addr),
    /// Name the machine.
    Hostname(&'static str),
    /// Make this the root of all that follows.
    Root(&'static str),
    /// Make a directory and its parents.
    Directory(&'static str),
    /// Run a program to its end.
    Run(String),
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(path) => write!(f, "load {path}"),
            Self::Hello(Channel::Port) => write!(f, "hello"),
            Self::Hello(Channel::Vsock(port)) => write!(f, "hello {port}"),
            Self::Hello(Channel::Console(number)) => write!(f, "hello hvc{number}"),
            Self::Virtiofs(tag, at) => write!(f, "virtiofs {tag} {at}"),
            Self::Ninep(tag, at, options) => write!(f, "9p {tag} {at} {options}"),
            Self::Balloon(pages) => write!(f, "balloon {pages}"),
            Self::Overlay(lower, at) => write!(f, "overlay {lower} {at}"),
            Self::Disk(at) => write!(f, "disk {at}"),
            Self::Scratch(at) => write!(f, "scratch {at}"),
            Self::Bind(from, at) => write!(f, "bind {from} {at}"),
            Self::Fresh(kind, at, options) => {
                write!(f, "fresh {kind} {at} {options}")
            }
            Self::Link(text, at) => write!(f, "link {text} {at}"),
            Self::Loopback => write!(f, "loopback"),
            Self::Network(address, gateway) => write!(f, "network {address} {gateway}"),
            Self::Hostname(name) => write!(f, "hostname {name}"),
            Self::Root(path) => write!(f, "root {path}"),
            Self::Directory(path) => write!(f, "mkdir {path}"),
            Self::Run(words) => write!(f, "run {words}"),
        }
    }
}

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

/// Settings for what PID 1 does after it said hello: how much of a machine the guest becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The release whose modules are shown at `/lib/modules`.
    pub(crate) release: String,
    /// Protocol by which the files come.
    pub(crate) protocol: Protocol,
    /// Directories that are served to be written: absolute, without symbolic links.
    pub(crate) writable: Vec<PathBuf>,
    /// Medium of the scratch directory, if there is one; a bound one is among `writable`.
    pub(crate) scratch: Option<Medium>,
    /// Modules that its devices need.
    pub(crate) modules: Vec<&'static str>,
    /// Address and gateway of its network device, if it has one.
    pub(crate) network: Option<(String, Ipv4Addr)>,
    /// Number of pages that the balloon takes, if there is one.
    pub(crate) balloon_pages: Option<u64>,
    /// Files and programs that make the guest Xen's Dom0, where it is that.
    pub(crate) dom0: Option<Dom0Files>,
}

impl Files {
    /// Returns the guest's directory of what is served; empty where that is its first root.
    fn base(&self) -> &'static str {
        if self.protocol == Protocol::FirstRoot { "" } else { FILES }
    }

    /// Mounts what is served, and says where the writable directories are.
    fn mount(&self, script: &mut Vec<Directive>) -> String {
        match self.protocol {
            Protocol::Virtiofs => {
                script.push(Directive::Virtiofs(TAG, FILES));
                format!("{FILES}/{SERVED_WRITABLE}")
            }
            // Files of several file systems may have one number there, which nothing that is cached
            // may rest on. It is there already.
            Protocol::FirstRoot => format!("/{SERVED_WRITABLE}"),
            Protocol::XenNinep => {
                script.push(Directive::Ninep(TAG, FILES, XEN_NINEP_OPTIONS.to_owned()));
                format!("{FILES}/{SERVED_WRITABLE}")
            }
            Protocol::Ninep => {
                // Nobody else changes what is read only, as far as a trial is concerned.
                let options = |cache: &str| format!("{NINEP_OPTIONS},{cache}");
                script.push(Directive::Ninep(TAG, FILES, options("cache=loose")));
                if !self.writable.is_empty() {
                    script.push(Directive::Ninep(WRITABLE_TAG, WRITABLE, options("cache=mmap")));
                }
                WRITABLE.to_owned()
            }
        }
    }
}

/// Contents of a guest beside the agent.
#[derive(Clone, Copy)]
pub(crate) enum Contents<'a> {
    /// Nothing: it only says hello.
    Nothing,
    /// This level's files, which are served.
    Served(&'a Files),
    /// The command's own files; of the others only what is about devices.
    Packed(&'a Packed, &'a Files),
}

/// The script: `early` modules, the first frame, and then, unless there is nothing more, the `late`
/// modules, the root and the devices.
pub(crate) fn script(
    channel: Channel,
    early: &[Module],
    late: &[Module],
    contents: Contents<'_>,
) -> Vec<Directive> {
    let load = |module: &Module| Directive::Load(format!("/modules/{}.ko", module.name));
    let mut script: Vec<Directive> = early.iter().map(load).collect();
    script.push(Directive::Hello(channel));
    let (files, root) = match contents {
        Contents::Nothing => return script,
        Contents::Served(files) => (files, ROOT),
        Contents::Packed(_, files) => (files, ""),
    };
    script.extend(late.iter().map(load));
    if root.is_empty() {
        script.push(Directive::Fresh("devpts", String::from("/dev/pts"), TERMINALS));
    } else {
        put_together(files, &mut script);
    }
    let inside = |path: &str| format!("{root}{path}");
    match files.scratch {
        Some(Medium::Layer) => script.push(Directive::Scratch(inside(SCRATCH))),
        Some(Medium::Tmpfs) => {
            script.push(Directive::Fresh("tmpfs", inside(SCRATCH), "mode=1777"));
        }
        Some(Medium::Disk) => script.push(Directive::Disk(inside(SCRATCH))),
        Some(Medium::Bind | Medium::Volume) | None => {}
    }
    script.extend(files.balloon_pages.map(Directive::Balloon));
    script.push(Directive::Loopback);
    let network = files.network.clone();
    script.extend(network.map(|(address, gateway)| Directive::Network(address, gateway)));
    script.push(Directive::Hostname("surtax"));
    if !root.is_empty() {
        script.push(Directive::Root(ROOT));
    }
    if let Some(dom0) = &files.dom0 {
        script.push(Directive::Fresh("xenfs", String::from("/proc/xen"), ""));
        script.extend(dom0.directories.iter().copied().map(Directive::Directory));
        script.extend(dom0.programs.iter().cloned().map(Directive::Run));
    }
    script
}

/// Puts the command's root together from what is served.
fn put_together(files: &Files, script: &mut Vec<Directive>) {
    let (base, writable) = (files.base(), files.mount(script));
    let tools = files.dom0.as_ref().map(|_| format!("{base}/{SERVED_XEN}:")).unwrap_or_default();
    let served = format!("{tools}{base}/{SERVED_ROOT}");
    script.push(match files.protocol {
        // Merged before it was served.
        Protocol::FirstRoot => Directive::Bind(served, ROOT.to_owned()),
        _ => Directive::Overlay(served, ROOT),
    });
    let inside = |path: &str| format!("{ROOT}{path}");
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
        script.push(Directive::Fresh(kind, inside(at), options));
    }
    // udev makes these on a whole system; shells and scripts rely on them.
    for (text, at) in [
        ("/proc/self/fd", "/dev/fd"),
        ("fd/0", "/dev/stdin"),
        ("fd/1", "/dev/stdout"),
        ("fd/2", "/dev/stderr"),
    ] {
        script.push(Directive::Link(text, inside(at)));
    }
    let modules = format!("/lib/modules/{}", files.release);
    script.push(Directive::Bind(format!("{base}/{SERVED_MODULES}"), inside(&modules)));
    for (number, path) in files.writable.iter().enumerate() {
        let served = format!("{writable}/{number}");
        script.push(Directive::Bind(served, inside(&path.display().to_string())));
    }
}

/// A script as the agent reads it.
pub(crate) fn text(script: &[Directive]) -> String {
    script.iter().map(|directive| format!("{}\n", directive.to_string().trim_end())).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn module(name: &str) -> Module {
        Module { name: name.into(), bytes: name.as_bytes().to_vec() }
    }

    fn text(script: &[Directive]) -> String {
        script.iter().map(|directive| format!("{directive}\n")).collect()
    }

    fn files() -> Files {
        Files {
            release: "6.1.0".into(),
            protocol: Protocol::Virtiofs,
            writable: vec!["/home/a/out".into()],
            scratch: None,
            modules: Vec::new(),
            network: Some(("198.18.0.2/24".into(), [198, 18, 0, 1].into())),
            balloon_pages: None,
            dom0: None,
        }
    }

    #[test]
    fn dom0_has_xen_s_tools_over_its_root_and_runs_them_when_it_is_there() {
        let files = Files {
            dom0: Some(Dom0Files {
                tools: "/cache/xen".into(),
                directories: &["/run/xen", "/var/log/xen"],
                programs: vec!["/usr/sbin/xenstored".into()],
            }),
            ..files()
        };
        let text = text(&script(Channel::Port, &[], &[], Contents::Served(&files)));
        assert!(text.contains("overlay /mnt/host/xen:/mnt/host/root /newroot\n"), "{text}");
        let end = "root /newroot\nfresh xenfs /proc/xen \nmkdir /run/xen\n\
                   mkdir /var/log/xen\nrun /usr/sbin/xenstored\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_domain_speaks_over_a_console_and_has_its_files_by_xen() {
        let files = Files { protocol: Protocol::XenNinep, network: None, ..files() };
        let text = text(&script(Channel::Console(1), &[], &[], Contents::Served(&files)));
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
        let files = Files { protocol: Protocol::Ninep, balloon_pages: Some(7), ..files() };
        let text = text(&script(Channel::Port, &[], &[], Contents::Served(&files)));
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
        let files = Files { scratch: Some(Medium::Tmpfs), ..files() };
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
            Contents::Served(&files()),
        );
        let lines: Vec<String> =
            script.iter().map(|directive| directive.to_string().trim_end().to_owned()).collect();
        assert_eq!(
            lines.join("\n"),
            "\
load /modules/virtio.ko
hello
load /modules/fuse.ko
virtiofs host /mnt/host
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
bind /mnt/host/writable/0 /newroot/home/a/out
loopback
network 198.18.0.2/24 198.18.0.1
hostname surtax
root /newroot"
        );
    }
}
