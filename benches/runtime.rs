//! An OCI runtime without surtax: the bundle that our driver writes, with a command in place of the
//! agent.
//!
//! The bundle and its merged root are made once; each run is the runtime's own command and nothing
//! else. So the peer is spared the mounts that a trial makes anew.

use crate::opened_lab::OpenedLab;
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax::lab::{Program, Room};
use surtax::layer::{Root, Started};
use surtax::rootfs::root;
use surtax_instrument::clock;

/// Time limit of a run.
const DEADLINE: Duration = Duration::from_secs(600);

/// A bundle that a runtime can run again and again.
pub struct Bundle {
    room: Room,
    namespace: OwnedFd,
    argv: Vec<String>,
}

impl Bundle {
    /// The bundle of `stack`, the command line that runs it (`program` with its own options), and
    /// the command inside.
    ///
    /// # Errors
    /// Why the stack cannot run here.
    pub fn of(
        stack: &str,
        program: &[&str],
        command: &[&str],
        opened: &OpenedLab,
    ) -> Result<Self, String> {
        let mut config = written_by_the_driver(stack, opened)?;
        let room = opened.lab.room("bare").map_err(|fault| fault.message)?;
        let bundle = bundle(&room);
        let namespace = namespace(&room, opened.context().cache);
        config["process"]["args"] = json!(command);
        config["root"]["path"] = json!(root::merged_at(&bundle));
        config["linux"]["cgroupsPath"] = json!(Path::new("/").join(room.group()).join("container"));
        let file = std::fs::File::create(bundle.join("config.json")).expect("a file is made");
        serde_json::to_writer(file, &config).expect("the configuration is written");

        let (name, own) = program.split_first().expect("a program has a name");
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut argv = vec![String::from(*name)];
        argv.extend([String::from("--root"), path(bundle.join("runtime"))]);
        argv.extend(own.iter().map(|word| String::from(*word)));
        argv.extend(["run", "--bundle"].map(String::from));
        argv.extend([path(bundle), String::from("container")]);
        Ok(Self { room, namespace, argv })
    }

    /// Runs it once, from the runtime's start to its end.
    pub fn run(&self) -> Duration {
        let namespace = self.namespace.try_clone().expect("a descriptor can be copied");
        let program = Program {
            argv: self.argv.clone(),
            mount_namespace: Some(namespace),
            ..Program::default()
        };
        let began = clock::monotonic_raw();
        let mut process = self.room.spawn(program).expect("the runtime starts");
        let status = process.wait(DEADLINE).expect("it can be waited for");
        let wall = clock::monotonic_raw().since(began).into();
        assert!(status.is_some_and(|status| status.success()), "{:?}: {status:?}", self.argv);
        wall
    }

    /// Takes it away.
    pub fn close(self) {
        drop(self.namespace);
        self.room.close().expect("the room closes");
    }
}

/// Returns the directory in which the driver has its bundle.
fn bundle(room: &Room) -> PathBuf {
    room.memory_directory().expect("there is memory").to_path_buf()
}

/// A merged root in a mount namespace of its own, as the driver makes it for a container.
pub fn namespace(room: &Room, cache: &Path) -> OwnedFd {
    let lowers = root::lowers(&Root::Overlay, cache).expect("the machine's mounts are listed");
    let mounts =
        root::merge((&lowers, &[]), &bundle(room), None).expect("the room takes directories");
    room.mount_namespace(&mounts).expect("the root is mounted")
}

/// The configuration of a real start of the stack.
fn written_by_the_driver(stack: &str, opened: &OpenedLab) -> Result<Value, String> {
    opened.at(stack, |driver, spec, site| {
        let room = site.lab.room("written")?;
        let Started { running, mut link } = driver.start(spec, site, &room)?;
        link.receive(site.start_deadline)?;
        drop(link);
        let file = bundle(&room).join("config.json");
        let text = std::fs::read(file).expect("the driver has written its bundle");
        running.stop()?;
        room.close()?;
        Ok(serde_json::from_slice(&text).expect("the configuration is JSON"))
    })
}
