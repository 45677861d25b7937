//! `docker run --rm` without surtax, at the daemon that our driver uses.
//!
//! The image is a static busybox under the name `true`; the network is the one that the driver
//! chose.

use crate::opened_lab::OpenedLab;
use std::path::Path;
use std::time::Duration;
use surtax::driver;
use surtax::lab::{Program, Room};
use surtax::layer::value_of;
use surtax_instrument::clock;

/// Time limit of one command of the client.
const DEADLINE: Duration = Duration::from_secs(60);

/// The image's name in the daemon.
const IMAGE: &str = "surtax/bench:true";

/// The client that belongs to Debian's daemon; another one in `PATH` may speak a newer API.
const CLIENT: &str = "/usr/bin/docker";

/// Path of busybox, linked statically.
const BUSYBOX: &str = "/bin/busybox";

/// A client, a daemon, and an image in it.
pub struct Engine {
    room: Room,
    socket: String,
    network: String,
}

impl Engine {
    /// Finds the daemon by raising `stack` once, and gives it the image.
    ///
    /// # Errors
    /// Why that cannot be done here.
    pub fn of(stack: &str, opened: &OpenedLab) -> Result<Self, String> {
        opened.at(stack, |_, _, _| Ok(()))?;
        for needed in [CLIENT, BUSYBOX] {
            if !Path::new(needed).is_file() {
                return Err(format!("there is no `{needed}`"));
            }
        }
        let start = || {
            let running = driver::parse(stack)?.start(&opened.context(), "found")?;
            let facts = running.evidence()[0].facts.clone();
            running.stop()?;
            let network = value_of(&facts, "network")?.to_owned();
            let room = opened.lab.room("client")?;
            Ok(Self { room, socket: value_of(&facts, "daemon_socket")?.to_owned(), network })
        };
        let engine = start().map_err(|fault: surtax::fault::Fault| fault.message)?;
        let archive = engine.room.directory().join("image.tar");
        std::fs::write(&archive, image()).expect("the image is written");
        engine.client(&["import", &archive.to_string_lossy(), IMAGE]);
        Ok(engine)
    }

    /// Runs `true` once: create, start, wait, remove.
    pub fn run(&self) -> Duration {
        self.client(&["run", "--rm", "--network", &self.network, IMAGE, "/bin/true"])
    }

    /// Takes the image away.
    pub fn close(self) {
        self.client(&["rmi", "--force", IMAGE]);
        self.room.close().expect("the room closes");
    }

    fn client(&self, words: &[&str]) -> Duration {
        let mut argv = vec![CLIENT.into(), "--host".into(), format!("unix://{}", self.socket)];
        argv.extend(words.iter().map(|word| String::from(*word)));
        let program = Program { argv, ..Program::default() };
        let began = clock::monotonic_raw();
        let mut process = self.room.spawn(program).expect("the client starts");
        let status = process.wait(DEADLINE).expect("it can be waited for");
        let wall = clock::monotonic_raw().since(began).into();
        assert!(status.is_some_and(|status| status.success()), "docker {words:?}: {status:?}");
        wall
    }
}

fn image() -> Vec<u8> {
    let busybox = std::fs::read(BUSYBOX).expect("busybox can be read");
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(u64::try_from(busybox.len()).expect("a small program"));
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, "bin/true", busybox.as_slice()).expect("memory takes it");
    archive.into_inner().expect("memory takes it")
}
