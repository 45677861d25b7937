//! A container by a tool's own command line, without surtax: what somebody would type for `true`.
//!
//! The merged root is mounted once, and each run is the tool's own command and nothing else. So the
//! peer is spared the mounts and the groups that a trial makes anew.

use crate::opened_lab::OpenedLab;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use surtax::lab::{Mount, Program, Room};
use surtax::layer::Root;
use surtax::rootfs::root;
use surtax_instrument::clock;

/// Time limit of a run.
const DEADLINE: Duration = Duration::from_secs(60);

/// The container's name, where a tool wants one.
const NAME: &str = "surtax-bench";

/// A tool with a root to run `true` in.
pub struct Tool {
    room: Room,
    namespace: OwnedFd,
    argv: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Tool {
    /// The tool behind a kind of layer.
    ///
    /// # Errors
    /// Why the layer cannot run here.
    pub fn of(kind: &str, opened: &OpenedLab) -> Result<Self, String> {
        opened.at(kind, |_, _, _| Ok(()))?;
        let room = opened.lab.room("tool").map_err(|fault| fault.message)?;
        let place = room.memory_directory().expect("there is memory").to_path_buf();
        let lowers =
            root::lowers(&Root::Overlay, opened.context().cache).expect("mounts are listed");
        let mut mounts =
            root::merge((&lowers, &[]), &place, None).expect("the room takes directories");
        if kind != "bubblewrap" {
            mounts.push(Mount::Tmpfs { target: "/run".into() });
        }
        let namespace = room.mount_namespace(&mounts).expect("the root is mounted");
        let merged = root::merged_at(&place).display().to_string();
        let mut environment = vec![("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())];
        let line = match kind {
            "bubblewrap" => format!(
                "bwrap --die-with-parent --bind {merged} / --dev /dev --proc /proc --ro-bind /sys \
                 /sys --tmpfs /run --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try \
                 --unshare-net -- true"
            ),
            "nspawn" => format!(
                "systemd-nspawn --quiet --register=no --keep-unit --console=pipe --private-network \
                 --directory={merged} --machine={NAME} -- true"
            ),
            "lxc" => lxc(&place, &merged),
            "podman" => {
                let file = place.join("containers.conf");
                let text = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \
                            \"nproc=1024:1024\"]\n[engine]\nruntime = \"runc\"\ncgroup_manager = \
                            \"cgroupfs\"\nevents_logger = \"none\"\n";
                fs::write(&file, text).expect("a file is written");
                environment.push(("CONTAINERS_CONF".into(), file.display().to_string()));
                let store = place.join("store").display().to_string();
                format!(
                    "podman --root {store} --runroot /run/podman run --rm --log-driver=none \
                     --network=none --no-hosts --rootfs {merged} true"
                )
            }
            other => return Err(format!("nobody wrote down what to type for `{other}`")),
        };
        let mut argv: Vec<String> = line.split(' ').map(String::from).collect();
        // In a mount namespace of its own a program is looked up by nobody.
        argv[0] = surtax::lab::find(&argv[0]).expect("the layer is usable").display().to_string();
        Ok(Self { room, namespace, argv, environment })
    }

    /// Runs `true` once, from the tool's start to its end.
    pub fn run(&self) -> Duration {
        let namespace = self.namespace.try_clone().expect("a descriptor can be copied");
        let program = Program {
            argv: self.argv.clone(),
            environment: Some(self.environment.clone()),
            mount_namespace: Some(namespace),
            ..Program::default()
        };
        let began = clock::monotonic_raw();
        let mut process = self.room.spawn(program).expect("the tool starts");
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

fn lxc(place: &Path, merged: &str) -> String {
    let file = place.join("lxc.conf");
    let text = format!(
        "lxc.include = /usr/share/lxc/config/common.conf\nlxc.uts.name = {NAME}\n\
         lxc.rootfs.path = dir:{merged}\nlxc.net.0.type = empty\nlxc.console.path = none\n\
         lxc.tty.max = 0\nlxc.init.cmd = /bin/true\n"
    );
    fs::write(&file, text).expect("a file is written");
    let (place, file) = (place.display(), file.display());
    format!("lxc-start --foreground --name {NAME} --lxcpath {place} --rcfile {file}")
}
