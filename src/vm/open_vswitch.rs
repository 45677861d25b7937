//! Open vSwitch as the bridge between a machine's tap and the outside: its flows in this level's
//! kernel, its mind in two daemons of the room's own.
//!
//! The daemons' files are in the room, and their datapath is one of the room's network namespace: a
//! machine's own Open vSwitch neither sees it nor is seen.
//!
//! Source: Open vSwitch `ovsdb-server(1)`, `ovs-vswitchd(8)`, `ovs-vsctl(8)`,
//! `Documentation/topics/datapath.rst`.

use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::lab::{self, Process, Program, Room, RoomNetwork, ToolRun, kernel_part, network};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::{monotonic, monotonic_raw};
use surtax_instrument::wire::Fact;

/// The daemon that keeps the flows, and the one that keeps what is to be.
pub(super) const DAEMON: &str = "ovs-vswitchd";
pub(super) const DATABASE: &str = "ovsdb-server";

/// Programs that are run beside the daemons.
const TOOLS: [&str; 3] = ["ovsdb-tool", "ovs-vsctl", "ovs-appctl"];

/// Schema from which its database is made.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// The kernel's part, and a function of it.
pub(super) const MODULE: &str = "openvswitch";
const FUNCTION: &str = "ovs_dp_process_packet";

/// Name of the kernel's datapath, as opposed to one in user space.
const DATAPATH: &str = "system@ovs-system";

/// Beginning of the names of the daemon's threads that answer for frames which no flow in the
/// kernel fits.
const HANDLER: &str = "handler";

/// Time that a daemon may take to listen, and to start those threads.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// Time after boot from which the daemon sees CPUs. Open vSwitch 3.1.0, which Debian 12 has, takes
/// them for none before that. If it starts so early, it opens no sockets for frames that have no
/// flow, never makes up for it, and the kernel drops them all. Source: its `lib/ovs-thread.c`,
/// `count_cpu_cores`, and `lib/dpif-netlink.c`, `dpif_netlink_handlers_set`; mended by "ovs-thread:
/// Fix cpus not read for the first 10s".
const CPUS_ARE_COUNTED_FROM: Duration = Duration::from_secs(10);

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Time that a daemon may take to end after it was killed.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// A bridge, with what makes it one.
pub(super) struct Bridge {
    /// Daemon that keeps the bridge's flows.
    pub(super) daemon: Process,
    /// Database server that keeps the configuration.
    pub(super) database: Process,
    version: String,
    control: PathBuf,
}

/// That the programs and the kernel's part are here; looks, and loads nothing.
///
/// # Errors
/// The machine's: one of them is not.
pub(super) fn require() -> Result<(), Fault> {
    let missing = [DAEMON, DATABASE].into_iter().chain(TOOLS).find(|it| lab::find(it).is_none());
    if let Some(program) = missing {
        return Err(Fault::machine(format!("Open vSwitch's `{program}` is not in `PATH`"))
            .hint("apt-get install openvswitch-switch, or use `net=tap`"));
    }
    if kernel_part::is_there(MODULE, FUNCTION) {
        return Ok(());
    }
    Err(Fault::machine("this kernel has no Open vSwitch for `net=ovs`").hint(
        "use a kernel with `CONFIG_OPENVSWITCH`, as in a machine: `qemu+qemu:net=ovs`; or \
               `net=tap`",
    ))
}

impl Bridge {
    /// Starts it in a network namespace, with the tap there as a port of it.
    ///
    /// # Errors
    /// As [`require`], or a daemon does not come up; with its last words.
    pub(super) fn start(
        network: &RoomNetwork,
        room: &Room,
        group: Option<&Path>,
    ) -> Result<Self, Fault> {
        require()?;
        let place = room.directory().join("ovs");
        fs::create_dir(&place).doing(format_args!("make `{}`", place.display()))?;
        let at = |name: &str| place.join(name).display().to_string();
        let (file, socket) = (at("conf.db"), format!("unix:{}", at("db.sock")));
        ToolRun::new(&["ovsdb-tool", "create", &file, SCHEMA]).run(room)?;
        let words = ConsoleTail::new();
        let daemon = |argv: &[&str], apart: bool| {
            let (output, said) = std::io::pipe().doing("make a pipe for a bridge's words")?;
            let errors = said.try_clone().doing("share the pipe for a bridge's words")?;
            words.drain(output.into());
            let quiet = ["-vconsole:warn", "-vsyslog:off", "-vfile:off"];
            room.spawn(Program {
                argv: argv.iter().chain(&quiet).map(|&word| word.to_owned()).collect(),
                environment: Some(environment(&place)),
                stdio: [None, Some(said.into()), Some(errors.into())],
                group: group.map(Path::to_owned),
                network_namespace: apart.then(|| network.namespace()).transpose()?,
                ..Program::default()
            })
        };
        let quoted = |fault: Fault| {
            words.settle(LOOK_AGAIN);
            fault.saying(&words.quote())
        };
        let listen = format!("--remote=p{socket}");
        let mut database = daemon(&[DATABASE, &file, &listen], false)?;
        wait_for(&mut database, DATABASE, |_| place.join("db.sock").exists()).map_err(quoted)?;
        let tool = format!("--db={socket}");
        let asked = |words: &[&str]| {
            let timeout = format!("--timeout={}", READY_DEADLINE.as_secs());
            let tool = ["ovs-vsctl", &tool, &timeout, "-vsyslog:off"];
            ToolRun::new(&[&tool, words].concat()).run(room)
        };
        asked(&["--no-wait", "init"]).map_err(quoted)?;
        wait_for_counted_cpus();
        let mut process = daemon(&[DAEMON, &socket], true)?;
        let control = place.join(format!("{DAEMON}.{}.ctl", process.pid()));
        wait_for(&mut process, DAEMON, |_| control.exists()).map_err(quoted)?;
        let bridge = network::BRIDGE;
        asked(&["add-br", bridge, "--", "add-port", bridge, network::TAP]).map_err(quoted)?;
        if !network.adopt(bridge)? {
            return Err(quoted(Fault::machine("Open vSwitch made no link for its bridge")));
        }
        wait_for(&mut process, DAEMON, |pid| handlers(pid) > 0).map_err(quoted)?;
        let said = lab::ask(&[DAEMON, "--version"].map(String::from), None, READY_DEADLINE)?;
        let version = said.lines().next().unwrap_or_default().to_owned();
        Ok(Self { daemon: process, database, version, control })
    }

    /// That the machine's tap is a port of it, and its flows are the kernel's.
    ///
    /// # Errors
    /// They are not.
    pub(super) fn prove(&self) -> Result<Vec<Fact>, Fault> {
        let target = format!("--target={}", self.control.display());
        let argv = ["ovs-appctl", &target, "dpif/show"].map(String::from);
        let said = lab::ask(&argv, None, READY_DEADLINE)?;
        if !is_our_bridge(&said) {
            return Err(Fault::machine(format!(
                "`{}` was to be a port of `{DATAPATH}`, and Open vSwitch says `{}`",
                network::TAP,
                said.trim().escape_debug()
            )));
        }
        let (source, count) = ("ovs-appctl dpif/show", handlers(self.daemon.pid()));
        Ok(vec![
            Fact::new("bridge", "openvswitch", source),
            Fact::new("bridge_datapath", DATAPATH, source),
            Fact::new("bridge_handlers", count.to_string(), "/proc/PID/task/TID/comm"),
            Fact::new("bridge_version", &self.version, "ovs-vswitchd --version"),
        ])
    }

    /// Ends both daemons. They have nothing to lose, and the datapath goes with its namespace.
    ///
    /// # Errors
    /// One would not end.
    pub(super) fn stop(mut self) -> Result<(), Fault> {
        for process in [&mut self.daemon, &mut self.database] {
            process.kill()?;
            if process.wait(STOP_DEADLINE)?.is_none() {
                return Err(Fault::machine("Open vSwitch did not end when it was killed"));
            }
        }
        Ok(())
    }
}

/// Everything that they would write elsewhere is in the room.
fn environment(place: &Path) -> Vec<(String, String)> {
    let place = place.display().to_string();
    let own = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
    let path = std::env::var("PATH").into_iter().map(|path| (String::from("PATH"), path));
    own.into_iter().map(|key| (key.to_owned(), place.clone())).chain(path).collect()
}

/// Counts the threads of a process that answer for frames which no flow fits.
fn handlers(pid: u32) -> usize {
    let threads = lab::tasks(format!("/proc/{pid}/task")).unwrap_or_default();
    threads.iter().filter(|(name, _)| name.starts_with(HANDLER)).count()
}

/// Waits until this level has run long enough for [`CPUS_ARE_COUNTED_FROM`].
fn wait_for_counted_cpus() {
    std::thread::sleep(CPUS_ARE_COUNTED_FROM.saturating_sub(monotonic().into()));
}

/// Waits until a daemon is ready, as `is_ready` says of its process.
fn wait_for(daemon: &mut Process, name: &str, is_ready: impl Fn(u32) -> bool) -> Result<(), Fault> {
    let began = monotonic_raw();
    while !is_ready(daemon.pid()) {
        let why = match daemon.wait(LOOK_AGAIN)? {
            Some(status) => format!("ended with {status}"),
            None if Duration::from(monotonic_raw().since(began)) < READY_DEADLINE => continue,
            None => format!("was not ready within {:.0} s", READY_DEADLINE.as_secs_f64()),
        };
        return Err(Fault::machine(format!("Open vSwitch's `{name}` {why}")));
    }
    Ok(())
}

/// Tells whether the tap is a port of our bridge, in the kernel's datapath and no other.
fn is_our_bridge(said: &str) -> bool {
    let mut lines = said.lines();
    let is_datapath = lines.next().and_then(|line| line.split(':').next()) == Some(DATAPATH);
    let starts = |name: &str, line: &str| line.split_ascii_whitespace().next() == Some(name);
    let mut ports = lines.skip_while(|line| line.trim() != format!("{}:", network::BRIDGE)).skip(1);
    is_datapath && ports.any(|line| starts(network::TAP, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_on_a_datapath_of_the_kernels_is_what_was_asked_for() {
        // As Open vSwitch 3.1 says it.
        let said = "system@ovs-system: hit:2 missed:5\n  outside:\n    outside 65534/1: \
                    (internal)\n    tap0 1/2: (system)\n";
        assert!(is_our_bridge(said));
        assert!(!is_our_bridge(&said.replace("system@ovs-system", "netdev@ovs-netdev")));
        assert!(!is_our_bridge(&said.replace("tap0", "tap1")));
        assert!(!is_our_bridge(""));
    }

    #[test]
    fn what_a_machine_lacks_for_it_is_named_with_what_to_do() {
        if lab::find(DAEMON).is_none() {
            let fault = require().unwrap_err();
            assert!(fault.message.contains("is not in `PATH`"), "{fault}");
            assert!(fault.hint.unwrap().starts_with("apt-get install openvswitch-switch"));
        } else if kernel_part::is_there(MODULE, FUNCTION) {
            assert_eq!(require(), Ok(()));
        } else {
            let fault = require().unwrap_err();
            assert_eq!(fault.message, "this kernel has no Open vSwitch for `net=ovs`");
            assert!(fault.hint.unwrap().ends_with("or `net=tap`"));
        }
    }

    #[test]
    fn a_thread_is_a_handler_by_its_name() {
        let named = |name: &str| {
            let (tell, told) = std::sync::mpsc::channel();
            let builder = std::thread::Builder::new().name(name.to_owned());
            let thread = builder.spawn(move || told.recv().unwrap_or_default());
            (tell, thread.unwrap())
        };
        let before = handlers(std::process::id());
        let threads = [named("handler7"), named("revalidator8")];
        let began = monotonic_raw();
        while handlers(std::process::id()) == before {
            assert!(Duration::from(monotonic_raw().since(began)) < READY_DEADLINE);
            std::thread::sleep(LOOK_AGAIN);
        }
        assert_eq!(handlers(std::process::id()), before + 1);
        for (tell, thread) in threads {
            tell.send(()).unwrap();
            thread.join().unwrap();
        }
    }
}
