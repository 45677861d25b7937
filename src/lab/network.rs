//! Networks of a room: a network namespace that nothing leads out of, with a bridge and what hangs
//! on it.
//!
//! As a mount namespace, it is held by a descriptor without a process (see `holder.rs`): it lives
//! as long as the [`RoomNetwork`], whoever runs in it, or a tap that somebody holds open. Every
//! bridge, veth and tap in it goes with it, whatever kind of death this process dies, so there is
//! no undo to write.
//!
//! The bridge is where the *outside* of a workload stands: whoever talks with the workload enters
//! the namespace and has [`OUTSIDE`] there, while the workload has [`WORKLOAD`]. Since no two such
//! namespaces see each other, the addresses are always the same, out of those set aside for
//! measurements (RFC 2544, 198.18.0.0/15).
//!
//! Source: `network_namespaces(7)`, `netdevice(7)`, Linux `Documentation/networking/tuntap.rst`.

mod bridge;

use super::process::{self, Program};
use super::{Room, ask};
use crate::fault::{Doing, Fault};
use bridge::{TUNSETPERSIST, index_of, make_bridge, plug_in, tap};
use rustix::thread::UnshareFlags;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::link;

/// The address of the bridge: of the outside, as the workload sees it.
pub const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The address that a workload gets.
pub const WORKLOAD: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// The address of a second workload on the same bridge, which talks with the first.
pub const SECOND: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);

/// Prefix length of all addresses: the number of leading bits that name their network.
pub const PREFIX: u8 = 24;

/// The name of the bridge in its namespace.
pub const BRIDGE: &str = "outside";

/// The name of the workload's link, on the inside.
pub const LINK: &str = "eth0";

/// The name of the link below a macvlan, in its namespace.
pub const BELOW: &str = "below";

/// The name of a tap in its namespace.
pub const TAP: &str = "tap0";

/// That of a second one on the same bridge.
const SECOND_TAP: &str = "tap1";

/// The names of the outer ends of veth pairs: of the workload's, and of a second one's.
const OUTER_ENDS: [&str; 2] = ["veth0", "veth1"];

/// Device from which taps come.
const TUN: &str = "/dev/net/tun";

/// Time limit for a run of `ip` or `tc`.
const TOOL_DEADLINE: Duration = Duration::from_secs(10);

/// The first port at which everybody may listen, in the namespace of whoever reads it.
const FIRST_OPEN_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// A network namespace of a room.
#[derive(Debug)]
pub struct RoomNetwork {
    namespace: OwnedFd,
    /// True if somebody else made it, whose bridge has its workload already.
    is_joined: bool,
}

impl Room {
    /// A network namespace with `lo` and a bridge called [`BRIDGE`] that has the address
    /// [`OUTSIDE`].
    ///
    /// # Errors
    /// The machine's: we may not, or its kernel has no bridges.
    pub fn network(&self) -> Result<RoomNetwork, Fault> {
        let network = self.bare_network()?;
        within(network.namespace.as_fd(), || {
            make_bridge()
                .doing("make a bridge in a network namespace of its own")
                .map_err(|fault| fault.hint("modprobe bridge"))?;
            link::give_address(BRIDGE, OUTSIDE, PREFIX)
                .doing(format_args!("give the bridge the address {OUTSIDE}/{PREFIX}"))
        })?;
        Ok(network)
    }

    /// A network namespace with a link called [`BELOW`] for a macvlan, which is paired with one
    /// that has the address [`OUTSIDE`] and the name of the bridge.
    ///
    /// # Errors
    /// The machine's: we may not, there is no `ip`, or its kernel has no veth.
    pub fn paired_network(&self) -> Result<RoomNetwork, Fault> {
        let network = self.bare_network()?;
        network.ip(&["link", "add", BELOW, "type", "veth", "peer", "name", BRIDGE])?;
        within(network.namespace.as_fd(), || {
            link::give_address(BRIDGE, OUTSIDE, PREFIX)
                .and_then(|()| link::bring_up(BELOW))
                .doing("set up the pair of links below a macvlan")
        })?;
        Ok(network)
    }

    /// A network namespace with nothing in it but `lo`, which is up: for a program that makes its
    /// own.
    ///
    /// # Errors
    /// The machine's: we may not.
    pub fn bare_network(&self) -> Result<RoomNetwork, Fault> {
        let namespace = process::aside(leave_for_a_new_one)?;
        Ok(RoomNetwork { namespace, is_joined: false })
    }

    /// The same, where every user may listen at every port: who emulates a machine has no rights,
    /// and listens for its guest.
    ///
    /// # Errors
    /// The machine's: we may not, or its kernel does not let ports be opened to all.
    ///
    /// Source: Linux `Documentation/networking/ip-sysctl.rst`.
    pub fn open_network(&self) -> Result<RoomNetwork, Fault> {
        let network = self.bare_network()?;
        network.within(|| {
            fs::write(FIRST_OPEN_PORT, "0").doing(format_args!("write `{FIRST_OPEN_PORT}`"))
        })?;
        Ok(network)
    }

    /// The network of another stack, by the file of its namespace: a workload that is connected
    /// with it is the second on its bridge.
    ///
    /// # Errors
    /// The machine's: the namespace is gone.
    pub fn join(&self, namespace: &Path) -> Result<RoomNetwork, Fault> {
        let file = File::open(namespace).doing(format_args!("join `{}`", namespace.display()))?;
        Ok(RoomNetwork { namespace: file.into(), is_joined: true })
    }
}

impl RoomNetwork {
    /// The namespace, for [`Program::network_namespace`].
    ///
    /// # Errors
    /// The machine's: too many files are open.
    pub fn namespace(&self) -> Result<OwnedFd, Fault> {
        self.namespace.try_clone().doing("hold on to a network namespace")
    }

    /// The namespace as a file that anybody on this level may open and enter, as long as this is
    /// kept.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd()))
    }

    /// The address that a workload gets on it.
    #[must_use]
    pub fn workload(&self) -> Ipv4Addr {
        if self.is_joined { SECOND } else { WORKLOAD }
    }

    /// Does something in it, in a thread of its own: sockets that are opened there stay there.
    ///
    /// # Errors
    /// The machine's: it cannot be entered; or those of `work`.
    pub fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Fault> + Send,
    ) -> Result<T, Fault> {
        within(self.namespace.as_fd(), work)
    }

    /// Returns the name of a tap of the workload's in it.
    #[must_use]
    pub fn tap_name(&self) -> &'static str {
        if self.is_joined { SECOND_TAP } else { TAP }
    }

    /// A tap on the bridge, with so many queues, each of which is one descriptor. Frames begin with
    /// a virtio header. The tap is gone with its last descriptor.
    ///
    /// # Errors
    /// The machine's: there is no `/dev/net/tun`, or it refuses.
    pub fn tap(&self, queues: u32) -> Result<Vec<OwnedFd>, Fault> {
        let taps = self.loose_tap(queues)?;
        within(self.namespace.as_fd(), || plug_in(self.tap_name()))?;
        Ok(taps)
    }

    /// The same on no bridge yet.
    ///
    /// # Errors
    /// As [`RoomNetwork::tap`].
    pub fn loose_tap(&self, queues: u32) -> Result<Vec<OwnedFd>, Fault> {
        within(self.namespace.as_fd(), || {
            let name = self.tap_name();
            let taps: Result<Vec<OwnedFd>, Fault> =
                (0..queues).map(|_| tap(name, queues)).collect();
            let taps = taps?;
            link::bring_up(name).doing("bring a tap up")?;
            Ok(taps)
        })
    }

    /// A tap on the bridge that is there without a holder, for one queue: a monitor opens it by its
    /// name, [`TAP`]. It is gone with the namespace.
    ///
    /// # Errors
    /// As [`RoomNetwork::tap`].
    pub fn kept_tap(&self) -> Result<(), Fault> {
        within(self.namespace.as_fd(), || {
            let tap = tap(TAP, 1)?;
            // SAFETY: the descriptor is that of a tap, and this request takes a number and no
            // memory.
            link::said(unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETPERSIST, 1) })
                .doing("keep a tap without a holder")?;
            plug_in(TAP)?;
            link::bring_up(TAP).doing("bring up a tap that is kept")
        })
    }

    /// Makes a tap called [`TAP`] that a program in the namespace has made a port of the bridge;
    /// false where there is none yet.
    ///
    /// # Errors
    /// The machine's: the bridge refuses it.
    pub fn plug_in_tap(&self) -> Result<bool, Fault> {
        within(self.namespace.as_fd(), || {
            if index_of(TAP).is_none() {
                return Ok(false);
            }
            plug_in(TAP)?;
            link::bring_up(TAP).doing("bring up a tap that was found")?;
            Ok(true)
        })
    }

    /// Takes a link of this level's own namespace, which the kernel made for somebody else's guest,
    /// in here and makes it a port of the bridge. It stays its maker's, and goes with it.
    ///
    /// # Errors
    /// The machine's: there is no such link, or no `ip`, or the bridge refuses it.
    pub fn take_in(&self, link: &str) -> Result<(), Fault> {
        let path = self.path();
        let argv = ["ip", "link", "set", link, "netns", &path.to_string_lossy()];
        let argv: Vec<String> = argv.into_iter().map(String::from).collect();
        ask::ask(&argv, None, TOOL_DEADLINE).map_err(hint_at_ip)?;
        within(self.namespace.as_fd(), || {
            plug_in(link)?;
            link::bring_up(link).doing(format_args!("bring up `{link}`"))
        })
    }

    /// Tells whether there is a link of this name in it.
    ///
    /// # Errors
    /// The machine's: it cannot be entered.
    pub fn has(&self, link: &str) -> Result<bool, Fault> {
        within(self.namespace.as_fd(), || Ok(index_of(link).is_some()))
    }

    /// Lists what the kernel leaves to whoever holds the tap, when it sends a frame by it.
    ///
    /// # Errors
    /// The machine's: there is no tap, or it says nothing.
    pub fn tap_offloads(&self) -> Result<Vec<&'static str>, Fault> {
        self.offloads(self.tap_name())
    }

    /// Lists what the kernel leaves to a link of this name, when it sends a frame by it.
    ///
    /// # Errors
    /// The machine's: there is none, or it says nothing.
    pub fn offloads(&self, name: &str) -> Result<Vec<&'static str>, Fault> {
        within(self.namespace.as_fd(), || {
            link::offloads(name).doing(format_args!("ask `{name}` what is left to it"))
        })
    }

    /// Runs `ip` in the namespace.
    fn ip(&self, words: &[&str]) -> Result<(), Fault> {
        self.ask(&[&["ip"], words].concat()).map(drop)
    }

    /// Runs a tool of iproute2's in the namespace, and gives back what it says.
    pub(super) fn ask(&self, argv: &[&str]) -> Result<String, Fault> {
        let program = Program {
            argv: argv.iter().map(|&word| String::from(word)).collect(),
            network_namespace: Some(self.namespace()?),
            ..Program::default()
        };
        ask::run(program, TOOL_DEADLINE).map_err(hint_at_ip)
    }

    /// The end of the workload's link on this level, once [`RoomNetwork::connect`] has made one.
    #[must_use]
    pub fn outer_end(&self) -> &'static str {
        OUTER_ENDS[usize::from(self.is_joined)]
    }

    /// Gives a link whose name begins so, which a tool has made, the address [`OUTSIDE`]; says
    /// whether there is one yet.
    ///
    /// # Errors
    /// The machine's: the link refuses.
    pub fn adopt(&self, begins: &str) -> Result<bool, Fault> {
        within(self.namespace.as_fd(), || {
            let list = "/proc/thread-self/net/dev";
            let text = fs::read_to_string(list).doing(format_args!("read `{list}`"))?;
            let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
            let Some(name) = names.into_iter().find(|name| name.starts_with(begins)) else {
                return Ok(false);
            };
            link::give_address(name, OUTSIDE, PREFIX)
                .doing(format_args!("give the link `{name}` the address {OUTSIDE}"))?;
            Ok(true)
        })
    }

    /// Connects the network namespace of a process with the bridge by a veth pair; the inner end is
    /// called [`LINK`], has the address [`RoomNetwork::workload`], and is the way to everywhere.
    ///
    /// # Errors
    /// The machine's: there is no such process, or no `ip`, or the kernel has no veth.
    pub fn connect(&self, pid: u32) -> Result<(), Fault> {
        self.connect_file(Path::new(&format!("/proc/{pid}/ns/net")))
    }

    /// The same with a namespace that nobody is in yet: for a runtime that is told of one.
    ///
    /// # Errors
    /// As [`RoomNetwork::connect`].
    pub fn connect_empty(&self, empty: &Self) -> Result<(), Fault> {
        self.connect_file(&empty.path())
    }

    fn connect_file(&self, path: &Path) -> Result<(), Fault> {
        let theirs = File::open(path).doing(format_args!("open `{}`", path.display()))?;
        let path = path.to_string_lossy();
        let outer_end = self.outer_end();
        self.ip(&["link", "add", outer_end, "type", "veth", "peer", "name", LINK, "netns", &path])?;
        within(self.namespace.as_fd(), || {
            plug_in(outer_end)?;
            link::bring_up(outer_end).doing("bring the outer end of a veth pair up")
        })?;
        within(theirs.as_fd(), || {
            let address = self.workload();
            link::give_address(LINK, address, PREFIX)
                .and_then(|()| link::lead_everywhere(OUTSIDE))
                .doing(format_args!("give the inner end of a veth pair the address {address}"))
        })
    }
}

fn hint_at_ip(fault: Fault) -> Fault {
    if fault.hint.is_some() { fault } else { fault.hint("apt-get install iproute2") }
}

/// Runs `work` in a thread of its own in a network namespace.
///
/// # Errors
/// The machine's: it cannot be entered; or those of `work`.
pub(super) fn within<T: Send>(
    namespace: BorrowedFd<'_>,
    work: impl FnOnce() -> Result<T, Fault> + Send,
) -> Result<T, Fault> {
    process::aside(|| {
        process::enter_network(namespace)?;
        work()
    })
}

/// In a thread that ends with this function.
fn leave_for_a_new_one() -> Result<OwnedFd, Fault> {
    // SAFETY: only this thread is moved; it shares no descriptor table away and ends in this
    // function.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .doing("make a network namespace")
        .map_err(|fault| fault.hint("run as root, on a kernel with network namespaces"))?;
    // What nobody asked for need not disturb anybody: routers that are looked for, addresses that
    // are tried out. A kernel without IPv6 has no such file.
    for links in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{links}/disable_ipv6"), "1");
    }
    link::bring_up("lo").doing("bring up `lo` of a network namespace")?;
    File::open("/proc/thread-self/ns/net")
        .map(OwnedFd::from)
        .doing("open `/proc/thread-self/ns/net`")
}

/// Requires that taps can be made here; looks, and makes none.
///
/// # Errors
/// The machine's: there is no `/dev/net/tun`.
pub fn require_taps() -> Result<(), Fault> {
    if Path::new(TUN).exists() {
        return Ok(());
    }
    Err(Fault::machine(format!("there is no `{TUN}`, from which taps come")).hint("modprobe tun"))
}
