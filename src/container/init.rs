//! An init in a container of a tool: a system container, whose first process starts the agent as a
//! service.
//!
//! surtax (host) ── TOOL ── init (PID 1) ── agent, a service ── command
//!
//! So the start of the container includes that of its init. systemd boots as far as
//! `sysinit.target`, and what the root enables beyond that is left out: those services would be a
//! workload of their own, and another one on every machine. When the agent ends, the init ends the
//! container.
//!
//! Source: `systemd.unit(5)`, `systemd.service(5)`, `bootup(7)`; BusyBox `init/init.c`.

use crate::agent::{Call, ConsoleTail, Link};
use crate::container::first_process::FirstProcess;
use crate::container::oci::config::AGENT;
use crate::container::stdio;
use crate::container::users::ContainerUsers;
use crate::fault::{Doing, Fault};
use crate::lab::{self, Process};
use crate::layer::{LayerSpec, OptionSpec, Root, Site, Unavailable, option};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// The option that names the init.
pub(crate) const CHOICE: OptionSpec = option("init", &["none", "systemd", "busybox"]).help(
    "who is the container's first process: the agent itself (default), or an init that starts it \
     as a service",
);

/// Path in the container where the agent finds the host's socket.
pub(crate) const SOCKET: &str = "/run/surtax-agent.socket";

/// Paths of systemd in a root, in the order in which they are tried.
const SYSTEMD: [&str; 2] = ["lib/systemd/systemd", "usr/lib/systemd/systemd"];

/// Paths of busybox in a root, in the order in which they are tried.
const BUSYBOX: [&str; 2] = ["bin/busybox", "usr/bin/busybox"];

/// Between two looks at the socket.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// First process of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    /// The agent itself.
    None,
    /// systemd.
    Systemd,
    /// That of BusyBox.
    Busybox,
}

/// Units that would hide or empty the root's `/tmp`, where a command may have its files.
const MASKED: [&str; 2] = ["tmp.mount", "systemd-tmpfiles-setup.service"];

impl Init {
    /// Reads a spec.
    pub fn of(spec: &LayerSpec) -> Self {
        match spec.option("init") {
            Some("systemd") => Self::Systemd,
            Some("busybox") => Self::Busybox,
            _ => Self::None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "the agent",
            Self::Systemd => "systemd",
            Self::Busybox => "busybox",
        }
    }

    /// Returns the path of its program inside a root, if it is there.
    fn program(self, root: &Path) -> Option<PathBuf> {
        let places: &[&str] = match self {
            Self::None => &[],
            Self::Systemd => &SYSTEMD,
            Self::Busybox => &BUSYBOX,
        };
        let place = places.iter().find(|place| root.join(place).exists())?;
        Some(Path::new("/").join(place))
    }

    /// The files that it is to find: what is written, and where in the container.
    fn files(self, agent: &str) -> Vec<(&'static str, String)> {
        let files: &[(&str, &str)] = match self {
            Self::None => &[],
            // Not in `/run`, where directories for it would belong to whoever starts the tool.
            Self::Systemd => &[
                ("/etc/systemd/system/surtax.target", include_str!("init/surtax.target")),
                (
                    "/etc/systemd/system/surtax-agent.service",
                    include_str!("init/surtax-agent.service"),
                ),
            ],
            Self::Busybox => &[("/etc/inittab", include_str!("init/inittab"))],
        };
        files.iter().map(|(place, text)| (*place, text.replace("{agent}", agent))).collect()
    }
}

/// Refuses an init in this level's network.
pub(crate) fn refuse(spec: &LayerSpec) -> Result<(), Fault> {
    let init = Init::of(spec);
    if init == Init::None || !spec.says("net", "host") {
        return Ok(());
    }
    let (kind, name) = (&spec.kind, init.name());
    Err(Fault::user(format!(
        "{kind}: `init={name}` with `net=host` could set this level's links up anew"
    ))
    .hint("use `net=none` or `net=veth`"))
}

/// That the root of a spec has its init.
pub(crate) fn require(spec: &LayerSpec, site: &Site<'_>) -> Result<(), Unavailable> {
    let init = Init::of(spec);
    if init == Init::None {
        return Ok(());
    }
    let name = init.name();
    let root = match &site.view.root {
        Root::Directory(path) => path.as_path(),
        // An image is unpacked when it is used, and one of a disk is for virtual machines.
        Root::Oci(_) | Root::Registry(_) | Root::Image(_) => return Ok(()),
        Root::Overlay | Root::Host | Root::Packed => Path::new("/"),
    };
    match init.program(root) {
        Some(_) => Ok(()),
        None => Err(Unavailable::new(
            format!("there is no {name} in the root `{}`", root.display()),
            match init {
                Init::Busybox => String::from("apt-get install busybox-static"),
                _ => String::from("apt-get install systemd"),
            },
        )),
    }
}

/// An init with all that it needs, before the tool is started.
pub(crate) struct Prepared {
    /// Init that was prepared.
    pub init: Init,
    /// Command line of the init in the container.
    pub argv: Vec<String>,
    /// Files of the room that the tool must show in the container, each with its place there; the
    /// socket is among them.
    pub shown: Vec<(PathBuf, String)>,
    call: Call,
}

/// Prepares the init of a spec below a directory of the room; nothing without one. `root` is where
/// its program is looked for, `words` what the agent is told before it calls the host, and `users`
/// are those whose root it is.
///
/// # Errors
/// The user's: the root has no such init. The machine's: a file cannot be written.
pub(crate) fn prepare(
    spec: &LayerSpec,
    root: &Path,
    words: &[String],
    users: ContainerUsers,
    scratch: &Path,
) -> Result<Option<Prepared>, Fault> {
    let init = Init::of(spec);
    if init == Init::None {
        return Ok(None);
    }
    let program = init.program(root).ok_or_else(|| {
        Fault::user(format!("{}: its root has no {}", spec.kind, init.name()))
            .hint("name a root that has one, or leave `init` out")
    })?;
    let directory = scratch.join("init");
    fs::create_dir_all(&directory).doing(format_args!("make `{}`", directory.display()))?;
    let mut agent = vec![AGENT.to_owned()];
    agent.extend(words.iter().cloned());
    agent.extend(["dial", SOCKET].map(String::from));
    let mut shown = Vec::new();
    for (index, (place, text)) in init.files(&agent.join(" ")).into_iter().enumerate() {
        let file = directory.join(index.to_string());
        fs::write(&file, text).doing(format_args!("write `{}`", file.display()))?;
        shown.push((file, place.to_owned()));
    }
    let socket = directory.join("socket");
    let call = users.listen(&socket)?;
    shown.push((socket, SOCKET.to_owned()));
    let program = program.to_string_lossy().into_owned();
    let argv = match init {
        Init::Busybox => vec![program, String::from("init")],
        _ => {
            let target = [program, String::from("--unit=surtax.target")].into_iter();
            target.chain(MASKED.iter().map(|unit| format!("systemd.mask={unit}"))).collect()
        }
    };
    Ok(Some(Prepared { init, argv, shown, call }))
}

impl Prepared {
    /// Waits for the agent's call.
    ///
    /// # Errors
    /// The machine's: the tool has ended, or it took too long; with the last words.
    fn link(
        &self,
        kind: &str,
        tool: &mut Process,
        console: &ConsoleTail,
        deadline: Duration,
    ) -> Result<Link, Fault> {
        let taken = self.call.take(deadline, || {
            Ok(tool.wait(LOOK_AGAIN)?.map(|status| format!("ended with {status}")))
        });
        let stream = taken?.map_err(|why| {
            let init = self.init.name();
            Fault::machine(format!("{kind}: the init `{init}` {why}")).saying(&console.quote())
        })?;
        Link::over_socket(kind, stream, console)
    }
}

/// The way to an agent whose tool is not started yet.
pub(crate) enum Way {
    /// It inherits its channel.
    Inherited(Link),
    /// It calls. What the tool says is kept.
    Called(ConsoleTail),
}

/// The way to the agent of `kind`, and the three ends that its tool gets.
///
/// # Errors
/// The machine's: too many files are open.
pub(crate) fn way(
    kind: &str,
    init: Option<&Prepared>,
) -> Result<(Way, [Option<OwnedFd>; 3]), Fault> {
    if init.is_none() {
        let (link, ends) = stdio::link(kind)?;
        return Ok((Way::Inherited(link), ends));
    }
    let (words, end) = lab::pipe()?;
    let copy = end.try_clone().doing("copy the pipe of a tool's words")?;
    let console = ConsoleTail::new();
    console.drain(words);
    Ok((Way::Called(console), [None, Some(copy), Some(end)]))
}

impl Way {
    /// The link, once the tool is started.
    ///
    /// # Errors
    /// As [`Prepared::link`].
    pub fn link(
        self,
        kind: &str,
        init: Option<&Prepared>,
        tool: &mut Process,
        deadline: Duration,
    ) -> Result<Link, Fault> {
        match (self, init) {
            (Self::Inherited(link), _) => Ok(link),
            (Self::Called(console), Some(init)) => init.link(kind, tool, &console, deadline),
            (Self::Called(_), None) => Err(Fault::bug("nobody is there for an agent to call")),
        }
    }
}

/// That the container's first process is the init that was asked for, and not the agent.
///
/// # Errors
/// The machine's: it is another.
pub(crate) fn prove(init: Init, first: &FirstProcess) -> Result<Fact, Fault> {
    let name = first.text("comm")?.trim_end().to_owned();
    // BusyBox's is called as it was started.
    let fits = match init {
        Init::Systemd => name == "systemd",
        Init::Busybox => name == "busybox" || name == "init",
        Init::None => false,
    };
    if fits {
        return Ok(Fact::new("init", name, "/proc/PID/comm of its process 1"));
    }
    Err(Fault::machine(format!(
        "`init={}` was asked for, and the container's process 1 is `{name}`",
        init.name()
    )))
}

#[cfg(test)]
mod tests {
    use crate::container::init::*;

    #[test]
    fn an_init_is_told_of_the_agent_and_ends_with_it() {
        let line = "/run/surtax-agent dial /run/surtax-agent.socket";
        let units = Init::Systemd.files(line);
        assert!(units[1].1.contains(&format!("ExecStart={line}\n")), "{}", units[1].1);
        assert!(units[1].1.contains("SuccessAction=poweroff-force"));
        assert_eq!(
            Init::Busybox.files(line),
            [("/etc/inittab", format!("::wait:{line}\n::once:/bin/busybox poweroff -f\n"))]
        );
        assert_eq!(Init::None.files(line), []);
    }

    #[test]
    fn an_init_is_found_in_the_root_that_it_is_for() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Init::Busybox.program(root.path()), None);
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::write(root.path().join("bin/busybox"), "").unwrap();
        assert_eq!(Init::Busybox.program(root.path()), Some("/bin/busybox".into()));
        let options = [("init".to_owned(), "systemd".to_owned())].into();
        let spec = LayerSpec { kind: "lxc".into(), options };
        let users = ContainerUsers::OfTheLevel;
        let fault = prepare(&spec, root.path(), &[], users, root.path()).err().unwrap();
        assert_eq!(fault.message, "lxc: its root has no systemd");
    }

    #[test]
    fn nobody_else_calls_in_place_of_an_agent_that_an_init_starts() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/busybox"), "").unwrap();
        let options = [("init".to_owned(), "busybox".to_owned())].into();
        let spec = LayerSpec { kind: "lxc".into(), options };
        let users = ContainerUsers::OfTheLevel;
        let prepared = prepare(&spec, &root, &[], users, place.path()).unwrap();
        let (socket, shown_at) = prepared.unwrap().shown.pop().unwrap();
        assert_eq!(shown_at, SOCKET);
        assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
