//! The daemon: a private one, which is gone with surtax.
//!
//! Its files are in its room, its mounts in a private namespace, and nothing leads out of its
//! network, in which it would ask for lists of images. It has one pool of plain directories, in
//! which a container has an empty one: its root is mounted by surtax, in a mount namespace of the
//! trial's. `LXD_EXEC_PATH` is how LXD finds the program that it starts for a container, and so how
//! that gets there.
//!
//! Source: LXD 5.0, `doc/environment.md`, `doc/rest-api.md`.

use crate::agent::ConsoleTail;
use crate::container::users::{self, ContainerUsers};
use crate::fault::{Doing, Fault, last_words};
use crate::lab::users::{COUNT, FIRST};
use crate::lab::{self, Mount, Patient, Process, Program, Room, Service};
use crate::layer::Site;
use crate::regular_file;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// Program that LXD starts where it would start itself.
const BEGIN: &str = include_str!("begin.sh");

/// Name of the only pool.
const POOL: &str = "default";

/// Pause between two questions whether the daemon is ready, or a container gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Time limit of an answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// The longest answer that is read, in bytes.
const ANSWER_LIMIT: u64 = 1 << 20;

/// The longest log that is read, in bytes.
const LOG_LIMIT: u64 = 1 << 20;

/// Time limit for a container that has ended to be forgotten.
const FORGET_DEADLINE: Duration = Duration::from_secs(5);

/// System calls that LXD's own filter is to shut as well: those of the kernel's keyrings, for
/// root's are this machine's. To who asks it is as if the kernel had none.
const NO_KEYRINGS: &str = "add_key errno 38\nkeyctl errno 38\nrequest_key errno 38";

/// A daemon that answers.
pub(super) struct Daemon {
    /// The service that it is.
    pub service: Service,
    /// A directory of its room, which root of a container may pass: LXC wants that.
    directory: PathBuf,
    api: Api,
}

impl Daemon {
    /// The daemon to use: started once, and ended with the lab.
    ///
    /// # Errors
    /// The daemon's last words.
    pub fn find(program: &Path, site: &Site<'_>) -> Result<Self, Fault> {
        let start = |room: &Room| start(program, room, site.start_deadline).map(Some);
        let service = site.lab.service("lxd-daemon", start)?;
        let directory = service.memory_directory.clone();
        let directory = directory.ok_or_else(|| Fault::bug("lxd without a directory in memory"))?;
        let api = Api::of(&directory);
        Ok(Self { service, directory, api })
    }

    /// Makes a container that is configured by a file as LXC reads one.
    ///
    /// # Errors
    /// The daemon's.
    pub fn create(&self, name: &str, users: ContainerUsers, file: &str) -> Result<(), Fault> {
        self.api.ask("POST", "/1.0/instances", Some(&instance(name, users, file)))?;
        // One that is made of no image has none, and LXD asks for it.
        let place = ["lxd", "storage-pools", POOL, "containers", name, "rootfs"];
        let rootfs = place.iter().fold(self.directory.clone(), |path, it| path.join(it));
        fs::create_dir(&rootfs).doing(format_args!("make `{}`", rootfs.display()))
    }

    /// Starts a container in a mount namespace that has its root.
    ///
    /// # Errors
    /// The daemon's, with what LXC says.
    pub fn start(&self, name: &str, namespace: &OwnedFd) -> Result<(), Fault> {
        let file = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        let link = namespaces_in(&self.directory).join(name);
        symlink(file, &link).doing(format_args!("make the link `{}`", link.display()))?;
        let started = self.api.ask("PUT", &state(name), Some(&json!({ "action": "start" })));
        fs::remove_file(&link).doing(format_args!("remove the link `{}`", link.display()))?;
        started.map(drop).map_err(|fault| {
            let log = self.directory.join("lxd/logs").join(name).join("lxc.log");
            let said = last_words::fault(&fault.message, &errors_in(&log));
            Fault { message: said.message, cause: said.cause.or(fault.cause), ..fault }
        })
    }

    /// Asks for the number of a container's first process, on this level.
    ///
    /// # Errors
    /// The daemon's; or it names none.
    pub fn first_pid(&self, name: &str) -> Result<u32, Fault> {
        let state = self.api.ask("GET", &state(name), None)?;
        let pid = state["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.filter(|pid| *pid > 0)
            .ok_or_else(|| Fault::machine(format!("lxd: the container `{name}` has no process")))
    }

    /// Ends a container by force; one that has ended already is no error.
    pub fn kill(&self, name: &str) {
        let wanted = json!({ "action": "stop", "force": true });
        let _ = self.api.ask("PUT", &state(name), Some(&wanted));
    }

    /// Waits until the daemon has forgotten a container that has ended, as it does by itself.
    pub fn forget(&self, name: &str) {
        let began = monotonic_raw();
        let path = format!("/1.0/instances/{name}");
        while self.api.ask("GET", &path, None).is_ok()
            && Duration::from(monotonic_raw().since(began)) < FORGET_DEADLINE
        {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Lines of LXC's log that tell of an error; none of one that is longer than is read. A name in
/// them may be no text.
fn errors_in(log: &Path) -> String {
    let bytes = regular_file::read(log, LOG_LIMIT).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter(|line| line.contains(" ERROR ")).collect::<Vec<_>>().join("\n")
}

fn state(name: &str) -> String {
    format!("/1.0/instances/{name}/state")
}

/// The directory with the mount namespaces of the containers that are about to start, each by the
/// name of its own.
fn namespaces_in(directory: &Path) -> PathBuf {
    directory.join("namespaces")
}

/// The request for a container. It is forgotten when it ends.
fn instance(name: &str, users: ContainerUsers, file: &str) -> Value {
    let mut config = json!({
        "raw.lxc": format!("lxc.include = {file}"),
        "security.devlxd": "false",
        "security.syscalls.deny": NO_KEYRINGS,
    });
    if users == ContainerUsers::Own {
        config["security.idmap.isolated"] = "true".into();
        config["security.idmap.base"] = FIRST.to_string().into();
        config["security.idmap.size"] = COUNT.to_string().into();
    } else {
        config["security.privileged"] = "true".into();
    }
    json!({
        "name": name,
        "type": "container",
        "ephemeral": true,
        "profiles": [],
        "source": { "type": "none" },
        "devices": { "root": { "type": "disk", "path": "/", "pool": POOL } },
        "config": config,
    })
}

/// Starts a daemon, waits until it is ready, and gives it its pool.
fn start(program: &Path, room: &Room, deadline: Duration) -> Result<Process, Fault> {
    // Where the room itself is, nothing may be executed on many machines, and nobody passes.
    let directory = room.memory_directory()?;
    room.let_users_pass()?;
    for path in ["lxd", "tmp", "templates", "namespaces"].map(|name| directory.join(name)) {
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.doing(format_args!("make `{}` for `lxd`", path.display()))?;
    }
    let begin = directory.join("begin");
    lab::create(&begin, 0o700)?
        .write_all(BEGIN.as_bytes())
        .doing(format_args!("write `{}`", begin.display()))?;
    let network = room.bare_network()?;
    let console = ConsoleTail::new();
    let (words, log) = lab::pipe()?;
    console.drain(words);
    let copy = log.try_clone().doing("copy the pipe from `lxd`")?;
    let mut process = room.spawn(Program {
        argv: vec![program.to_string_lossy().into_owned()],
        environment: Some(lab::path_and(environment(program, directory))),
        stdio: [None, Some(copy), Some(log)],
        mount_namespace: Some(room.mount_namespace(&mounts(directory)?)?),
        network_namespace: Some(network.namespace()?),
        own_keyring: true,
        ..Program::default()
    })?;
    let (api, began) = (Api::of(directory), monotonic_raw());
    while api.ask("GET", "/internal/ready", None).is_err() {
        let why = match process.wait(LOOK_AGAIN)? {
            Some(status) => format!("ended with {status}"),
            None if Duration::from(monotonic_raw().since(began)) < deadline => continue,
            None => format!("was not ready within {:.1} s", deadline.as_secs_f64()),
        };
        let ended = format!("lxd: the daemon {why}");
        return Err(Fault::machine(ended).saying(&console.quote()));
    }
    api.ask("POST", "/1.0/storage-pools", Some(&json!({ "name": POOL, "driver": "dir" })))?;
    Ok(process)
}

/// The mounts that LXC wants in the namespace of whoever starts a container, and in the daemon's:
/// it keeps its locks in `/run/lxc`, and lets `newuidmap` map the users.
///
/// # Errors
/// The machine's: a file cannot be read or written.
pub(super) fn mounts(memory: &Path) -> Result<Vec<Mount>, Fault> {
    let line = format!("root:{FIRST}:{COUNT}");
    let lines = [("subuid", line.clone()), ("subgid", line)];
    Ok(vec![Mount::Tmpfs { target: "/run".into() }, users::over_etc(memory, &lines)?])
}

/// The daemon's variables. Of AppArmor it would leave a profile behind where it is killed; lxcfs is
/// another daemon's; and the root is mapped before it is shown.
fn environment(program: &Path, directory: &Path) -> Vec<(String, String)> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let place = |name: &str| text(&directory.join(name));
    let variables = [
        ("LXD_DIR", place("lxd")),
        ("LXD_EXEC_PATH", place("begin")),
        ("LXD_LXC_TEMPLATE_CONFIG", place("templates")),
        ("LXD_SECURITY_APPARMOR", String::from("false")),
        ("LXD_IDMAPPED_MOUNTS_DISABLE", String::from("true")),
        ("TMPDIR", place("tmp")),
        ("SURTAX_LXD", text(program)),
        ("SURTAX_NAMESPACES", text(&namespaces_in(directory))),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The daemon's API: one connection for each question, which HTTP/1.0 ends with the answer.
struct Api {
    socket: PathBuf,
}

/// An answer of the daemon's that is no refusal.
enum Answer {
    /// Result of the question.
    Found(Value),
    /// Operation that goes on behind the answer, by its path.
    GoesOn(String),
}

fn refused(method: &str, path: &str, why: &Value) -> Fault {
    let why = why.as_str().unwrap_or("no reason").escape_debug();
    Fault::machine(format!("lxd: `{method} {path}` was refused: ")).saying(&why.to_string())
}

impl Api {
    fn of(directory: &Path) -> Self {
        Self { socket: directory.join("lxd/unix.socket") }
    }

    /// Asks, waits for what goes on behind the answer, and returns what was found.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Fault> {
        let operation = match self.answer(method, path, body)? {
            Answer::Found(found) => return Ok(found),
            Answer::GoesOn(operation) => operation,
        };
        // Once: a daemon that names one operation after the other would be waited for without end.
        match self.answer("GET", &format!("{operation}/wait"), None)? {
            Answer::Found(ended) if ended["status_code"] == 200 => Ok(ended),
            Answer::Found(ended) => Err(refused(method, path, &ended["err"])),
            Answer::GoesOn(_) => Err(Fault::machine(format!(
                "lxd: `{method} {path}` did not end: asked for its end, the daemon named another \
                 operation to wait for"
            ))
            .hint("use LXD 5.0, whose answers surtax knows: `lxd --version` says which this is")),
        }
    }

    /// Asks once, and waits for nothing that goes on behind the answer.
    fn answer(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Fault> {
        let doing = format!("have lxd answer `{method} {path}`");
        let answer = self.exchange(method, path, body).doing(&doing)?;
        let mut answer: Value = serde_json::from_slice(&answer).doing(&doing)?;
        match (answer["type"].as_str(), answer["operation"].as_str()) {
            (Some("sync"), _) => Ok(Answer::Found(answer["metadata"].take())),
            (Some("async"), Some(operation)) => Ok(Answer::GoesOn(operation.to_owned())),
            _ => Err(refused(method, path, &answer["error"])),
        }
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Vec<u8>> {
        let mut stream = Patient::new(UnixStream::connect(&self.socket)?, ANSWER_DEADLINE)?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: lxd\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_LIMIT).read_to_end(&mut answer)?;
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        Ok(head.map(|end| answer.split_off(end + 4)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Asks somebody who has these answers, each for a question of its own, and is gone then.
    fn asked(answers: &'static [&'static str]) -> Result<Value, Fault> {
        let place = tempfile::tempdir().unwrap();
        let api = Api { socket: place.path().join("socket") };
        let listener = UnixListener::bind(&api.socket).unwrap();
        let daemon = thread::spawn(move || {
            for answer in answers {
                let mut stream = listener.accept().unwrap().0;
                assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
                stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{answer}").as_bytes()).unwrap();
            }
        });
        let said = api.ask("PUT", "/1.0/x", None);
        daemon.join().unwrap();
        said
    }

    #[test]
    fn the_end_of_an_operation_is_asked_for_once_whatever_the_daemon_says() {
        const GOES_ON: &str = r#"{"type":"async","operation":"/1.0/operations/7"}"#;
        let ended = asked(&[GOES_ON, r#"{"type":"sync","metadata":{"status_code":200}}"#]);
        assert_eq!(ended.unwrap()["status_code"], 200);
        let failed =
            asked(&[GOES_ON, r#"{"type":"sync","metadata":{"status_code":400,"err":"no\u001b"}}"#]);
        let said = failed.unwrap_err().message;
        assert_eq!(said, r"lxd: `PUT /1.0/x` was refused: no\u{1b}");
        let fault = asked(&[GOES_ON, GOES_ON]).unwrap_err();
        let said = "lxd: `PUT /1.0/x` did not end: asked for its end, the daemon named another \
                    operation to wait for";
        assert_eq!(fault.message, said);
        assert!(fault.hint.is_some());
        let fault = asked(&[r#"{"type":"error","error":"not here"}"#]).unwrap_err();
        assert_eq!(fault.message, "lxd: `PUT /1.0/x` was refused: not here");
    }

    #[test]
    fn root_inside_is_nobody_here_unless_it_is_to_be_root() {
        let own = instance("surtax-1", ContainerUsers::Own, "/m/config");
        assert_eq!(own["config"]["security.idmap.base"], FIRST.to_string());
        assert!(own["config"].get("security.privileged").is_none(), "{own}");
        assert_eq!(own["config"]["raw.lxc"], "lxc.include = /m/config");
        let ours = instance("surtax-1", ContainerUsers::OfTheLevel, "/m/config");
        assert_eq!(ours["config"]["security.privileged"], "true");
        assert!(ours["config"].get("security.idmap.isolated").is_none(), "{ours}");
    }

    #[test]
    fn an_error_is_quoted_whatever_bytes_are_in_it_and_a_log_without_end_is_not() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("lxc.log");
        assert_eq!(errors_in(&log), "", "there is none");
        fs::write(&log, b"lxc 1 INFO begin\nlxc 2 ERROR no \xff\nlxc 3 ERROR end\n").unwrap();
        assert_eq!(errors_in(&log), "lxc 2 ERROR no \u{fffd}\nlxc 3 ERROR end");
        fs::File::options().write(true).open(&log).unwrap().set_len(LOG_LIMIT + 1).unwrap();
        assert_eq!(errors_in(&log), "");
    }

    #[test]
    fn a_daemon_keeps_to_its_room() {
        let (program, room) = (Path::new("/usr/bin/lxd"), Path::new("/run/surtax/1/d"));
        for (name, value) in environment(program, room) {
            let is_place = value.starts_with('/') && name != "SURTAX_LXD";
            assert!(!is_place || value.starts_with("/run/surtax/1/"), "{name}={value}");
        }
    }
}
