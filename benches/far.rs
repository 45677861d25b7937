//! Another machine by `ssh`, without surtax: an `sshd` on this one, and the client's own command
//! line.

use crate::opened_lab::OpenedLab;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use surtax::lab::{Process, Program, Room};
use surtax_instrument::clock;

/// Path of Debian's `sshd`.
const SSHD: &str = "/usr/sbin/sshd";

/// Empty directory that it wants, which its service makes.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// Time limit of a program.
const DEADLINE: Duration = Duration::from_secs(60);

/// Looks for the listening `sshd`, 20 ms apart.
const LOOKS: u32 = 500;

/// An `sshd` that listens.
pub struct Far {
    room: Room,
    sshd: Process,
    made_directory: bool,
    port: u16,
}

impl Far {
    /// Starts one with keys of its own.
    ///
    /// # Errors
    /// There is none on this machine.
    pub fn listen(opened: &OpenedLab) -> Result<Self, String> {
        if !Path::new(SSHD).exists() {
            return Err(format!("there is no `{SSHD}`; Debian has it in `openssh-server`"));
        }
        let room = opened.lab.room("far").map_err(|fault| fault.message)?;
        let place = room.directory().to_path_buf();
        for key in ["host_key", "user_key"] {
            let line = "ssh-keygen -q -t ed25519 -C bench -f";
            let mut argv: Vec<String> = line.split(' ').map(String::from).collect();
            argv.extend([place.join(key).display().to_string(), "-N".into(), String::new()]);
            finish(&room, argv);
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a port is free").port();
        let at = place.display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host_key\n\
             AuthorizedKeysFile {at}/user_key.pub\nPidFile none\nUsePAM no\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPrintMotd no\nPrintLastLog no\n"
        );
        let public = fs::read_to_string(place.join("host_key.pub")).expect("a key was made");
        let write = |name: &str, text: &str| fs::write(place.join(name), text).expect("it is ours");
        write("sshd_config", &config);
        write("ssh_config", "");
        write("known_hosts", &format!("[127.0.0.1]:{port} {public}"));
        let made_directory = fs::create_dir(PRIVILEGE_SEPARATION).is_ok();
        let file = place.join("sshd_config").display().to_string();
        let argv = [SSHD, "-D", "-e", "-f", &file].map(String::from).to_vec();
        let sshd = room.spawn(Program { argv, ..Program::default() }).expect("`sshd` starts");
        let listens = |_: &u32| {
            std::thread::sleep(Duration::from_millis(20));
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        };
        assert!((0..LOOKS).any(|look| listens(&look)), "`sshd` does not listen");
        Ok(Self { room, sshd, made_directory, port })
    }

    /// The stack that leads there.
    pub fn stack(&self) -> String {
        let (at, port) = (self.room.directory().display(), self.port);
        format!(
            "ssh:127.0.0.1,user=root,port={port},identity={at}/user_key,known-hosts={at}/known_hosts,\
             config={at}/ssh_config"
        )
    }

    /// Runs `true` there once.
    pub fn run(&self) -> Duration {
        let (at, port) = (self.room.directory().display(), self.port);
        let line = format!(
            "ssh -F {at}/ssh_config -o BatchMode=yes -o IdentitiesOnly=yes -i {at}/user_key \
             -o UserKnownHostsFile={at}/known_hosts -p {port} root@127.0.0.1 true"
        );
        let began = clock::monotonic_raw();
        finish(&self.room, line.split(' ').map(String::from).collect());
        clock::monotonic_raw().since(began).into()
    }

    /// Takes it away.
    pub fn close(mut self) {
        self.sshd.kill().expect("it is ours");
        self.sshd.wait(DEADLINE).expect("it can be waited for");
        self.room.close().expect("the room closes");
        if self.made_directory {
            fs::remove_dir(PRIVILEGE_SEPARATION).expect("it is empty");
        }
    }
}

fn finish(room: &Room, argv: Vec<String>) {
    let said = argv.join(" ");
    let mut process = room.spawn(Program { argv, ..Program::default() }).expect("it starts");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    assert!(status.is_some_and(|status| status.success()), "{said}: {status:?}");
}
