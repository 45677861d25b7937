//! Bubblewrap: namespaces and bind mounts by one small program, as Flatpak uses it.
//!
//! surtax (host) ── bwrap ── namespaces, pivot_root ── bwrap (PID 1) ── agent ── command
//!
//! - **Needs** `bwrap`, in `PATH` or by `binary=`; root.
//! - **Leaves out** seccomp, which its callers bring along, and cgroups, which it does not know:
//!   the limits are those of a group that surtax makes around its own.
//! - **Payers** one group: `bwrap`, its PID 1, the agent and the command.
//! - **Checked against** bubblewrap 0.8.0, `bwrap(1)`.

use crate::container::oci::NET;
use crate::container::oci::config::{self, AGENT};
use crate::container::tool::{ContainerRequest, ContainerTool, ToolStart, agent_words, word};
use crate::fault::Fault;
use crate::layer::{BINARY, Descriptor, Limit, Reach, Rights, StartGuess, medium};

/// Variants that the doctor asks about.
const VARIANTS: &[&str] = &["bubblewrap", "bubblewrap:net=host"];

/// Bubblewrap.
pub static BUBBLEWRAP: ContainerTool = ContainerTool {
    descriptor: &Descriptor {
        kind: "bubblewrap",
        rights: |_| Rights::Namespace,
        summary: "namespaces and bind mounts by bwrap, as Flatpak uses them",
        package: "bubblewrap",
        aliases: &[("bwrap", "")],
        reach: &[("host", Reach::Level)],
        options: &[NET, medium::CHOICE, BINARY],
        limits: Limit::OF_A_GROUP,
        both_ways: &["host"],
        start_guess: StartGuess::of(2_000),
        variants: VARIANTS,
        ..Descriptor::CONTAINER
    },
    program: "bwrap",
    refuse: |_, _| Ok(()),
    require: |_, _| Ok(()),
    starts_below: true,
    agent_words: |_| Vec::new(),
    networks: &[],
    order,
};

fn order(wanted: &ContainerRequest<'_>) -> Result<ToolStart, Fault> {
    let (root, agent) = (word(wanted.root)?, word(wanted.agent)?);
    let mut words = vec!["--die-with-parent", "--bind", &root, "/"];
    words.extend(["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys"]);
    // bwrap leaves root the machine's settings, of which one is what its kernel starts at a crash.
    words.extend(["--ro-bind", "/proc/sys", "/proc/sys"]);
    if wanted.has_own_run {
        words.extend(["--tmpfs", "/run"]);
    }
    words.extend(["--ro-bind", &agent, AGENT]);
    words.extend(["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
    if !wanted.network.is_shared() {
        words.push("--unshare-net");
    }
    // Root with all of them would be root of this machine, by the handle of a file.
    let known = config::bounding_capabilities()? & config::default_capabilities();
    let kept = config::capability_names(known);
    words.extend(["--cap-drop", "ALL"]);
    words.extend(kept.iter().flat_map(|name| ["--cap-add", name]));
    words.extend(["--hostname", wanted.host_name, "--chdir", "/", "--"]);
    let mut argv = vec![wanted.program.to_owned()];
    argv.extend(words.into_iter().map(str::to_owned));
    argv.extend(agent_words());
    Ok(ToolStart { argv, ..ToolStart::default() })
}
