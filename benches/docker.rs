//! Docker's client without surtax, at the daemon that our driver uses.
//!
//! The image is a static busybox under the names `true` and `sleep`; the network is the one that
//! the driver chose.

use crate::opened_lab::OpenedLab;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use surtax::driver;
use surtax::lab::{self, Program, Room};
use surtax::layer::{Payer, value_of};
use surtax_instrument::clock;
use surtax_instrument::wire::Role;

/// Time limit of one command of the client.
const DEADLINE: Duration = Duration::from_secs(60);

/// The image's name in the daemon.
const IMAGE: &str = "surtax/bench:true";

/// The filter of its containers.
const OF_IMAGE: &str = "ancestor=surtax/bench:true";

/// The client that belongs to Debian's daemon; another one in `PATH` may speak a newer API.
const CLIENT: &str = "/usr/bin/docker";

/// Path of busybox, linked statically.
const BUSYBOX: &str = "/bin/busybox";

/// A client, a daemon, and an image in it.
pub struct Engine {
    room: Room,
    socket: String,
    network: String,
    /// The daemon and what it works with.
    payers: Vec<Payer>,
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
            let payers = running.payers().into_iter().filter(|it| it.role == Role::Engine);
            let payers = payers.collect();
            running.stop()?;
            let network = value_of(&facts, "network")?.to_owned();
            let room = opened.lab.room("client")?;
            let socket = value_of(&facts, "daemon_socket")?.to_owned();
            Ok(Self { room, socket, network, payers })
        };
        let engine = start().map_err(|fault: surtax::fault::Fault| fault.message)?;
        let archive = engine.room.directory().join("image.tar");
        std::fs::write(&archive, image()).expect("the image is written");
        engine.client(&["import", &archive.to_string_lossy(), IMAGE]);
        Ok(engine)
    }

    /// Runs `true` once: create, start, wait, remove.
    #[allow(dead_code, reason = "one benchmark does not run it")]
    pub fn run(&self) -> Duration {
        self.client(&["run", "--rm", "--network", &self.network, IMAGE, "/bin/true"])
    }

    /// Starts so many containers that sleep. Returns each one's process.
    #[allow(dead_code, reason = "one benchmark watches containers")]
    pub fn sleepers(&self, count: usize) -> Vec<u32> {
        let start = |_| {
            let words = ["run", "--detach", "--network", &self.network, IMAGE, "/bin/sleep", "1d"];
            let id = self.answer(&words);
            self.answer(&["inspect", "--format", "{{.State.Pid}}", id.trim()])
        };
        (0..count).map(start).map(|pid| pid.trim().parse().expect("a process")).collect()
    }

    /// Returns how one watches all containers with `docker stats`, until one ends it.
    #[allow(dead_code, reason = "one benchmark watches containers")]
    pub fn stats(&self) -> Vec<String> {
        self.argv(&["stats", "--all"])
    }

    /// Lists who works for containers: the daemon, and what it works with.
    #[allow(dead_code, reason = "one benchmark watches containers")]
    pub fn payers(&self) -> &[Payer] {
        &self.payers
    }

    /// Takes the containers and the image away.
    pub fn close(self) {
        for id in self.answer(&["ps", "--all", "--quiet", "--filter", OF_IMAGE]).lines() {
            self.client(&["rm", "--force", id]);
        }
        self.client(&["rmi", "--force", IMAGE]);
        self.room.close().expect("the room closes");
    }

    fn client(&self, words: &[&str]) -> Duration {
        self.client_to(words, None)
    }

    /// Runs the client, and returns what it says.
    fn answer(&self, words: &[&str]) -> String {
        let (answer, stdout) = lab::pipe().expect("a pipe opens");
        self.client_to(words, Some(stdout));
        std::io::read_to_string(File::from(answer)).expect("it says text")
    }

    fn argv(&self, words: &[&str]) -> Vec<String> {
        let mut argv = vec![CLIENT.into(), "--host".into(), format!("unix://{}", self.socket)];
        argv.extend(words.iter().map(|word| String::from(*word)));
        argv
    }

    fn client_to(&self, words: &[&str], stdout: Option<OwnedFd>) -> Duration {
        let stdio = [None, stdout, None];
        let program = Program { argv: self.argv(words), stdio, ..Program::default() };
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
    for name in ["bin/true", "bin/sleep"] {
        archive.append_data(&mut header, name, busybox.as_slice()).expect("memory takes it");
    }
    archive.into_inner().expect("memory takes it")
}
