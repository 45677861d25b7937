//! The initramfs: the agent as `/init`, a few kernel modules, and the script that PID 1 follows.
//!
//! The same parts give the same bytes, so that a guest's start can be repeated exactly. The script
//! is written here and nowhere else; `agent/src/init.rs` says what each directive does.

use super::command_line::Board;
use super::kernel::{CHANNEL, Kernel};
use super::modules::{Module, Tree};
use super::packed::Packed;
use super::share::{NINEP_OPTIONS, Protocol, TAG, WRITABLE_TAG, XEN_NINEP_OPTIONS};
use super::unpack::unpack;
use super::xen;
use crate::fault::{Doing, Fault};
use crate::lab::Room;
use crate::layer::medium::Medium;
use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::{fmt, fs};
use surtax_instrument::wire::SCRATCH;

/// Where the guest mounts what is served, before any of it becomes the root.
const FILES: &str = "/mnt/host";

/// Where it mounts what it may write to, where that is served apart.
const WRITABLE: &str = "/mnt/writable";

/// Options of the file system of terminals.
const TERMINALS: &str = "gid=5,mode=620,ptmxmode=666";

/// The script, in the first root.
const SCRIPT: &str = "surtax.conf";

/// Where the command's root is put together.
const ROOT: &str = "/newroot";

/// The name of a directory that is served: the root, read only.
pub(super) const SERVED_ROOT: &str = "root";

/// The name of a directory that is served: the kernel's modules.
pub(super) const SERVED_MODULES: &str = "modules";

/// The name of a directory that is served: Xen's tools, which lie over the root of Dom0.
pub(super) const SERVED_XEN: &str = "xen";

/// The name of a directory that is served: one directory for each writable path, by number.
pub(super) const SERVED_WRITABLE: &str = "writable";

/// How the agent in a guest and its host reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::driver) enum Channel {
    /// By a port of a virtio serial device.
    #[default]
    Port,
    /// By virtio-vsock: the agent calls this port of the host's.
    Vsock(u32),
    /// By a console of Xen's, with this number.
    Console(u32),
}

impl Channel {
    /// The drivers in the guest's kernel: that of its board, and its own.
    fn modules(self, board: Board) -> Vec<&'static str> {
        let own = self.module();
        let board = own.map(|_| board.transport_module());
        board.into_iter().chain(own).collect()
    }

    /// The driver beside that of the board; a domain of Xen's has neither, and its kernel all that it takes.
    pub(super) fn module(self) -> Option<&'static str> {
        match self {
            Self::Port => Some(CHANNEL),
            Self::Vsock(_) => Some("vmw_vsock_virtio_transport"),
            Self::Console(_) => None,
        }
    }
}

/// One thing that PID 1 does, in its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// Insert the kernel module at this path of the initramfs.
    Load(String),
    /// Open the channel and send the first frame. Start-up ends here; the rest delays only requests.
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

/// What PID 1 does after it said hello: how much of a machine the guest becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// The release whose modules are shown at `/lib/modules`.
    pub(super) release: String,
    /// How they come.
    pub(super) protocol: Protocol,
    /// Where the directories are that are served to be written: absolute, without symbolic links.
    pub(super) writable: Vec<PathBuf>,
    /// Where the scratch directory is, if there is one; what is bound there, is one of the above.
    pub(super) scratch: Option<Medium>,
    /// Modules that its devices need.
    pub(super) modules: Vec<&'static str>,
    /// Its address and the way out, if it has a network device.
    pub(super) network: Option<(String, Ipv4Addr)>,
    /// How many pages the balloon takes, if there is one.
    pub(super) balloon_pages: Option<u64>,
    /// What makes the guest Xen's Dom0, where it is that: programs that are run when all is mounted.
    pub(super) dom0: Option<Vec<String>>,
}

impl Files {
    /// Where the guest finds what is served.
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
            // Files of several file systems may have one number there, which nothing that is cached may rest on.
            // It is there already.
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

/// What a guest holds beside the agent.
#[derive(Clone, Copy)]
pub(super) enum Contents<'a> {
    /// Nothing: it only says hello.
    Nothing,
    /// This level's files, which are served.
    Served(&'a Files),
    /// The command's own files; of the others only what is about devices.
    Packed(&'a Packed, &'a Files),
}

/// The script: `early` modules, the first frame, and then, unless there is nothing more, the `late` modules,
/// the root and the devices.
fn script(
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
    if let Some(programs) = &files.dom0 {
        script.push(Directive::Fresh("xenfs", String::from("/proc/xen"), ""));
        script.extend(xen::DIRECTORIES.map(Directive::Directory));
        script.extend(programs.iter().cloned().map(Directive::Run));
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

/// An initramfs that was written.
pub(super) struct Written {
    /// Its file.
    pub(super) path: PathBuf,
    /// How many modules are in it.
    pub(super) module_count: usize,
}

/// Writes the initramfs of a guest on this board into the room.
///
/// # Errors
/// A module is missing, or the file cannot be written.
pub(super) fn write(
    room: &Room,
    agent: &Path,
    kernel: &Kernel,
    (board, channel): (Board, Channel),
    contents: Contents<'_>,
) -> Result<Written, Fault> {
    let tree = Tree::open(&kernel.found.modules)?;
    let plain = |packed| unpack(packed, room);
    let mut loaded = BTreeSet::new();
    let early = tree.order(&channel.modules(board), &mut loaded, &plain)?;
    let late = match contents {
        Contents::Served(files) => {
            let names = [files.protocol.modules(), &files.modules].concat();
            tree.order(&names, &mut loaded, &plain)?
        }
        Contents::Packed(_, files) => tree.order(&files.modules, &mut loaded, &plain)?,
        Contents::Nothing => Vec::new(),
    };
    let script = script(channel, &early, &late, contents);
    let modules: Vec<&Module> = early.iter().chain(&late).collect();
    let agent = fs::read(agent).doing(format_args!("read the agent `{}`", agent.display()))?;
    let mut archive = archive(&agent, &modules, &script)?;
    if let Contents::Packed(packed, _) = contents {
        packed.add_to(&mut archive)?;
    }
    let path = room.directory().join("initramfs.cpio");
    fs::write(&path, archive.end()?).doing(format_args!("write `{}`", path.display()))?;
    Ok(Written { path, module_count: modules.len() })
}

/// Puts the agent and its script into a directory that is a guest's first root, beside what is served there; no
/// module is loaded.
///
/// # Errors
/// The machine's: a file cannot be written.
pub(super) fn lay(
    export: &Path,
    (agent, name): (&Path, &str),
    channel: Channel,
    files: &Files,
) -> Result<(), Fault> {
    let at = |name: &str| export.join(name.trim_start_matches('/'));
    fs::copy(agent, at(name)).doing(format_args!("copy the agent into `{}`", export.display()))?;
    let text = text(&script(channel, &[], &[], Contents::Served(files)));
    let path = at(SCRIPT);
    fs::write(&path, text).doing(format_args!("write `{}`", path.display()))
}

/// Refuses a path that a line of the script cannot hold.
///
/// # Errors
/// The user's: white space in the path, or bytes that are not text.
pub(super) fn check_writable(path: &Path) -> Result<(), Fault> {
    let is_plain = path.to_str().is_some_and(|text| !text.contains(char::is_whitespace));
    if is_plain {
        return Ok(());
    }
    let shown = path.display();
    Err(Fault::user(format!("qemu: `--writable {shown}` has white space in it, or is not text"))
        .hint("make a symbolic link with a plainer name beside it and share its parent"))
}

/// Puts the parts into a cpio archive of the kind that Linux unpacks (`newc`).
///
/// # Errors
/// A part that is larger than the format allows.
fn archive(agent: &[u8], modules: &[&Module], script: &[Directive]) -> Result<Archive, Fault> {
    let mut archive = Archive::default();
    archive.add("init", 0o755, ModeFileType::Regular, agent)?;
    archive.add(SCRIPT, 0o644, ModeFileType::Regular, text(script).as_bytes())?;
    archive.add("modules", 0o755, ModeFileType::Directory, b"")?;
    for module in modules {
        let name = format!("modules/{}.ko", module.name);
        archive.add(&name, 0o644, ModeFileType::Regular, &module.bytes)?;
    }
    Ok(archive)
}

/// A script as the agent reads it.
fn text(script: &[Directive]) -> String {
    script.iter().map(|directive| format!("{}\n", directive.to_string().trim_end())).collect()
}

/// An archive that grows.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    last_inode: u32,
}

impl Archive {
    /// The whole of it.
    fn end(self) -> Result<Vec<u8>, Fault> {
        trailer(self.bytes).doing("end the initramfs")
    }

    /// Puts one file or directory behind the others; its parents must stand before it.
    pub(super) fn add(
        &mut self,
        name: &str,
        permissions: u32,
        kind: ModeFileType,
        contents: &[u8],
    ) -> Result<(), Fault> {
        self.last_inode += 1;
        let size = u32::try_from(contents.len())
            .map_err(|_| Fault::machine(format!("`{name}` is too large for an initramfs")))?;
        let entry = Builder::new(name)
            .ino(self.last_inode)
            .nlink(1)
            .mode(permissions)
            .set_mode_file_type(kind);
        let mut writer = entry.write(std::mem::take(&mut self.bytes), size);
        writer.write_all(contents).doing(format_args!("put `{name}` into the initramfs"))?;
        self.bytes = writer.finish().doing(format_args!("put `{name}` into the initramfs"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

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
        let files = Files { dom0: Some(vec!["/usr/sbin/xenstored".into()]), ..files() };
        let text = text(&script(Channel::Port, &[], &[], Contents::Served(&files)));
        assert!(text.contains("overlay /mnt/host/xen:/mnt/host/root /newroot\n"), "{text}");
        let end = "root /newroot\nfresh xenfs /proc/xen \nmkdir /run/xen\nmkdir /var/lib/xenstored\n\
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

    #[test]
    fn the_same_parts_give_the_same_bytes_and_can_be_read_back() {
        let parts = [module("virtio"), module("fuse")];
        let modules: Vec<&Module> = parts.iter().collect();
        let first =
            archive(b"agent", &modules, &[Directive::Hello(Channel::Port)]).unwrap().end().unwrap();
        let second =
            archive(b"agent", &modules, &[Directive::Hello(Channel::Port)]).unwrap().end().unwrap();
        assert_eq!(first, second);

        let mut rest = first.as_slice();
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut contents = String::new();
            reader.read_to_string(&mut contents).unwrap();
            found.push(format!("{mode:o} {name} {contents}"));
            rest = reader.finish().unwrap();
        }
        assert_eq!(
            found,
            [
                "100755 init agent",
                "100644 surtax.conf hello\n",
                "40755 modules ",
                "100644 modules/virtio.ko virtio",
                "100644 modules/fuse.ko fuse",
            ]
        );
    }

    #[test]
    fn a_writable_path_that_a_script_cannot_hold_is_refused() {
        assert!(check_writable(Path::new("/home/a/my results")).is_err());
        assert_eq!(check_writable(Path::new("/home/a/results")), Ok(()));
    }
}
