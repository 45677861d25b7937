//! A container by a tool's own command line, without surtax: the very line that our driver wrote,
//! with `true` in place of the agent.
//!
//! So both make the same container: namespaces, groups, mounts, limits. A root with a throw-away
//! layer is made by whoever makes it: beforehand, or each time by a shell that mounts it as one
//! types it.

use crate::opened_lab::OpenedLab;
use serde_json::{Value, json};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax::fault::Fault;
use surtax::lab::{Limits, Mount, Program, Room};
use surtax::layer::{Root, Started, value_of};
use surtax::rootfs::root;
use surtax_instrument::clock;
use surtax_instrument::wire::{Reply, Request};

/// Time limit of a run, or of an answer of the agent.
const DEADLINE: Duration = Duration::from_secs(60);

/// Path at which containers have the agent, and that of the program that runs in its place.
const AGENT: &str = "/run/surtax-agent";
const TRUE: &str = "/usr/bin/true";

/// The files that drivers write for their tools, below the room's directory in memory; `RANDOM`
/// stands for a directory that nobody can guess.
const FILES: [&str; 4] =
    ["config.json", "RANDOM/lxc/config", "RANDOM/lxc/seccomp", "podman/containers.conf"];

/// Mounts the root that our drivers mount, in the mount namespace of `unshare`, and becomes the
/// tool.
const SCRIPT: &str = "set -e; at=$1; shift; mount -t tmpfs -o mode=0755 surtax $at; \
     mkdir $at/0 $at/0/upper $at/0/work $at/merged; \
     mount -t overlay -o lowerdir=/,upperdir=$at/0/upper,workdir=$at/0/work surtax $at/merged; ";

/// A tool, and what is typed.
pub struct Typed {
    room: Room,
    /// With a root that was merged beforehand.
    namespace: OwnedFd,
    argv: Vec<String>,
    /// With a root that is made anew.
    with_root: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Typed {
    /// Prepares what one types for a layer of this kind.
    ///
    /// # Errors
    /// Why the layer cannot run here.
    pub fn of(kind: &str, opened: &OpenedLab) -> Result<Self, String> {
        let written = Written::by_the_driver(kind, opened)?;
        let room = opened.lab.room("typed").map_err(|fault| fault.message)?;
        room.subgroup("container", &Limits::default()).map_err(|fault| fault.message)?;
        let place = room.memory_directory().expect("there is memory").to_path_buf();
        let own = |text: &str| {
            let text = text.replace("ROOM_IN_MEMORY", &place.to_string_lossy());
            text.replace("ROOM_GROUP", &room.group().to_string_lossy())
        };
        // What is bound where the agent would be, and where an OCI runtime keeps its list.
        fs::write(place.join("agent"), "").expect("a file is written");
        for (name, text) in &written.files {
            let file = place.join(name);
            fs::create_dir_all(file.parent().expect("it is below a directory"))
                .expect("it is ours");
            fs::write(&file, with_true(name, &own(text))).expect("a file is written");
        }
        let mut argv: Vec<String> = own(&written.line).split(' ').map(String::from).collect();
        if argv.ends_with(&[AGENT.to_owned(), "stdio".to_owned()]) {
            argv.truncate(argv.len() - 2);
            argv.push(String::from(TRUE));
        }
        if kind == "lxc" {
            fs::create_dir_all(place.join("RANDOM/lxc/rootfs")).expect("it is ours");
        }

        let covered = covered(kind, opened);
        let lowers =
            root::lowers(&Root::Overlay, opened.context().cache).expect("mounts are listed");
        let mut mounts =
            root::merge((&lowers, &[]), &place, None).expect("the room takes directories");
        mounts.extend(covered.iter().map(|target| Mount::Tmpfs { target: target.clone() }));
        let namespace = room.mount_namespace(&mounts).expect("the root is mounted");
        let with_root = anew(&place, &covered, &argv);
        let configuration = place.join("podman/containers.conf").display().to_string();
        let environment = [("PATH", std::env::var("PATH").unwrap_or_default())].into_iter();
        let environment = environment
            .chain((kind == "podman").then_some(("CONTAINERS_CONF", configuration)))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Ok(Self { room, namespace, argv, with_root, environment })
    }

    /// Runs it once, from the tool's start to its end, on a root that was merged beforehand.
    pub fn run(&self) -> Duration {
        let namespace = self.namespace.try_clone().expect("a descriptor can be copied");
        self.timed(&self.argv, Some(namespace))
    }

    /// The same with a root that is made anew.
    pub fn run_with_root(&self) -> Duration {
        self.timed(&self.with_root, None)
    }

    fn timed(&self, argv: &[String], mount_namespace: Option<OwnedFd>) -> Duration {
        let program = Program {
            argv: argv.to_vec(),
            environment: Some(self.environment.clone()),
            mount_namespace,
            ..Program::default()
        };
        let began = clock::monotonic_raw();
        let mut process = self.room.spawn(program).expect("the tool starts");
        let status = process.wait(DEADLINE).expect("it can be waited for");
        let wall = clock::monotonic_raw().since(began).into();
        assert!(status.is_some_and(|status| status.success()), "{argv:?}: {status:?}");
        wall
    }

    /// Takes it away.
    pub fn close(self) {
        drop(self.namespace);
        self.room.close().expect("the room closes");
    }
}

/// Command line and files of our driver for a container of its own, with placeholders for what only
/// its room has.
struct Written {
    line: String,
    files: Vec<(&'static str, String)>,
}

impl Written {
    fn by_the_driver(kind: &str, opened: &OpenedLab) -> Result<Self, String> {
        if kind == "namespaces" {
            // It starts no tool. This is the one that does the same.
            let merged = root::merged_at(Path::new("ROOM_IN_MEMORY")).display().to_string();
            let own = "--mount --pid --net --ipc --uts --cgroup --fork";
            let line = format!("/usr/bin/unshare {own} --root={merged} {AGENT} stdio");
            return Ok(Self { line, files: Vec::new() });
        }
        opened.at(kind, |driver, spec, site| {
            let room = site.lab.room("written")?;
            let Started { mut running, mut link } = driver.start(spec, site, &room)?;
            link.receive(site.start_deadline)?;
            let Reply::Identity(inside) = link.ask(&Request::Identify, DEADLINE)?.reply else {
                return Err(Fault::bug("the agent does not say what it sees"));
            };
            let facts = running.evidence(&inside)?;
            let line = value_of(&facts, "tool_command_line")
                .or_else(|_| value_of(&facts, "runtime_command_line"))?;
            let place = room.memory_directory()?;
            let random = unguessable(place).unwrap_or_else(|| String::from("RANDOM"));
            let text = |name: &'static str| {
                let file = place.join(name.replace("RANDOM", &random));
                let text = room.redact_paths(&fs::read_to_string(file).ok()?);
                Some((name, text.replace(&random, "RANDOM")))
            };
            let written = Self {
                line: room.redact_paths(line),
                files: FILES.into_iter().filter_map(text).collect(),
            };
            link.ask(&Request::Stop, DEADLINE)?;
            drop(link);
            running.stop()?;
            room.close()?;
            Ok(written)
        })
    }
}

/// Returns the directory of LXC's that nobody can guess, if there is one here.
fn unguessable(place: &Path) -> Option<String> {
    let mut entries = fs::read_dir(place).ok()?.flatten();
    let entry = entries.find(|entry| entry.path().join("lxc/config").exists())?;
    entry.file_name().into_string().ok()
}

/// A tool's file with `true` in place of the agent.
fn with_true(name: &str, text: &str) -> String {
    match name {
        "config.json" => {
            let mut config: Value = serde_json::from_str(text).expect("the driver wrote JSON");
            config["process"]["args"] = json!([TRUE]);
            config.to_string()
        }
        "RANDOM/lxc/config" => text.replace(&format!("{AGENT} stdio"), TRUE),
        _ => text.to_owned(),
    }
}

/// The directories that our driver covers for a tool, so that it leaves nothing there.
fn covered(kind: &str, opened: &OpenedLab) -> Vec<PathBuf> {
    let groups = opened.lab.hierarchies();
    match kind {
        "lxc" | "nspawn" => vec![PathBuf::from("/run")],
        "podman" => vec![PathBuf::from("/run"), PathBuf::from("/var/lib")],
        "crun" if groups.0.len() > 1 => {
            groups.unified().map(|unified| unified.mount_point.clone()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The command line that makes the root below `place`, covers these directories, and goes on as
/// `argv`.
fn anew(place: &Path, covered: &[PathBuf], argv: &[String]) -> Vec<String> {
    let merged = root::merged_at(place);
    let at = merged.parent().expect("a merged root lies in its tmpfs").display().to_string();
    // What is covered must not hide what the tool is to find there.
    let cover = |path: &PathBuf| match place.starts_with(path) {
        true => {
            let place = place.display();
            let keep = format!("mkdir -p {place}; mount -c --rbind /proc/self/fd/9 {place}");
            format!("exec 9<{place}; mount -t tmpfs surtax {}; {keep}; exec 9<&-; ", path.display())
        }
        false => format!("mount -t tmpfs surtax {}; ", path.display()),
    };
    let covers: String = covered.iter().map(cover).collect();
    let script = format!("{SCRIPT}{covers}exec \"$@\"");
    let words = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", &script, "sh", &at];
    words.into_iter().map(String::from).chain(argv.iter().cloned()).collect()
}
