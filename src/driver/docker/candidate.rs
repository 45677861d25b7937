//! The daemon that a layer means: one that listens, or one that is to be started from a file.

use crate::container::rootless;
use crate::fault::Fault;
use crate::lab;
use crate::layer::{BINARY, LayerSpec, ToolFile};
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use surtax_instrument::hex;

/// Socket of a daemon of the machine.
const SYSTEM_SOCKET: &str = "/var/run/docker.sock";

/// Name of the daemon's program.
const PROGRAM: &str = "dockerd";

/// The command that installs a daemon.
const REMEDY: &str = "apt-get install docker.io";

/// Digits of a hash by which daemons of several files are told apart.
const DIGITS: usize = 8;

/// Daemon that could be used, before anything is started.
pub enum Candidate {
    /// A daemon that listens.
    System(PathBuf),
    /// `dockerd`, to be started by us.
    Private(ToolFile),
}

/// Refuses a file together with what has another daemon.
///
/// # Errors
/// The user's: what else is asked for.
pub fn refuse(spec: &LayerSpec) -> Result<(), Fault> {
    let key = BINARY.key;
    if spec.option(key).is_none() {
        return Ok(());
    }
    let (what, why) = if spec.option("socket").is_some() {
        ("`socket`", "a daemon listens there already")
    } else if rootless::is_asked(spec) {
        ("`rootless=on`", "Docker's own script starts the `dockerd` in `PATH`")
    } else {
        return Ok(());
    };
    Err(Fault::user(format!("docker: with {what}, `{key}` means nothing: {why}"))
        .hint("leave one of both out"))
}

/// Looks for a daemon: the one that was named, the one that listens, or a program to start one.
///
/// # Errors
/// The user's, for a socket or a file that cannot be used; the machine's, when there is nothing at
/// all.
pub fn look(spec: &LayerSpec) -> Result<Candidate, Fault> {
    if is_started(spec) {
        return program(spec);
    }
    if let Some(named) = named_socket(spec) {
        let path = PathBuf::from(socket_path(&named)?);
        return match listens(&path) {
            true => Ok(Candidate::System(path)),
            false => Err(Fault::user(format!("no Docker daemon listens at `{}`", path.display()))
                .hint("leave `socket` and `DOCKER_HOST` out, and a private daemon is started")),
        };
    }
    if listens(Path::new(SYSTEM_SOCKET)) {
        return Ok(Candidate::System(SYSTEM_SOCKET.into()));
    }
    program(spec)
}

/// Tells whether a spec asks for a daemon that is started, whichever listens.
fn is_started(spec: &LayerSpec) -> bool {
    rootless::is_asked(spec) || spec.option(BINARY.key).is_some()
}

/// Returns the daemon's socket that a spec names, or else the environment; `None` where none is
/// asked for.
pub fn named_socket(spec: &LayerSpec) -> Option<String> {
    if is_started(spec) {
        return None;
    }
    spec.option("socket").map(String::from).or_else(|| std::env::var("DOCKER_HOST").ok())
}

fn program(spec: &LayerSpec) -> Result<Candidate, Fault> {
    ToolFile::find(spec, PROGRAM, REMEDY).map(Candidate::Private).map_err(|it| {
        match spec.option(BINARY.key) {
            Some(_) => it.fault(),
            None => it.fault().during("no Docker daemon listens, and none can be started"),
        }
    })
}

/// Returns the path of a socket that is named as `DOCKER_HOST` names one.
///
/// # Errors
/// The user's: it is no unix socket.
pub fn socket_path(named: &str) -> Result<&str, Fault> {
    match named.split_once("://") {
        Some(("unix", path)) => Ok(path),
        Some(_) => Err(Fault::user(format!("`{named}` is not a unix socket"))
            .hint("a daemon elsewhere cannot see this level's files; use `unix:///path`")),
        None => Ok(named),
    }
}

fn listens(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// Returns an ending for the name of a daemon that is started from a file: another one for each
/// path, since a program may go by what lies beside it, and for each content.
///
/// # Errors
/// The machine's: the file cannot be read.
pub fn suffix(tool: &ToolFile) -> Result<String, Fault> {
    let Some(named) = tool.named() else { return Ok(String::new()) };
    let both = [lab::sha256(named)?.as_bytes(), named.as_os_str().as_bytes()].concat();
    Ok(format!("-{}", &hex::of(&Sha256::digest(both))[..DIGITS]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn spec(options: &[(&str, &str)]) -> LayerSpec {
        LayerSpec::of("docker", options)
    }

    #[test]
    fn a_daemon_on_another_machine_is_refused() {
        assert_eq!(socket_path("unix:///run/d.sock").unwrap(), "/run/d.sock");
        assert_eq!(socket_path("/run/d.sock").unwrap(), "/run/d.sock");
        let fault = socket_path("tcp://lab7:2375").unwrap_err();
        assert!(fault.message.contains("`tcp://lab7:2375`"), "{fault}");
    }

    #[test]
    fn a_named_socket_where_nobody_listens_is_the_users_mistake() {
        let named = spec(&[("socket", "/no/such.sock")]);
        assert_eq!(look(&named).err().map(|fault| fault.exit_code()), Some(2));
    }

    #[test]
    fn a_file_of_a_daemon_excludes_a_socket_and_the_daemon_of_a_user() {
        let file = ("binary", "/no/such/dockerd");
        assert_eq!(refuse(&spec(&[file])), Ok(()));
        for (other, word) in
            [(("socket", "/run/d.sock"), "`socket`"), (("rootless", "on"), "`rootless=on`")]
        {
            let fault = refuse(&spec(&[file, other])).unwrap_err();
            assert!(fault.message.contains(word), "{fault}");
            assert_eq!(refuse(&spec(&[other])), Ok(()));
        }
        let fault = look(&spec(&[file])).err().unwrap();
        assert!(fault.message.contains("is not there"), "{fault}");
        assert_eq!(named_socket(&spec(&[file])), None, "whatever the environment says");
        assert_eq!(named_socket(&spec(&[("socket", "/run/d")])), Some(String::from("/run/d")));
    }

    #[test]
    fn a_daemon_of_each_file_has_a_name_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let of = |name: &str, bytes: &str| {
            let file = place.path().join(name);
            std::fs::write(&file, bytes).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            let named = spec(&[("binary", &file.display().to_string())]);
            suffix(&ToolFile::find(&named, PROGRAM, REMEDY).unwrap()).unwrap()
        };
        let first = of("a", "dockerd");
        assert_eq!(first.len(), 1 + DIGITS);
        assert_eq!(first, of("a", "dockerd"), "the same file has the same daemon");
        // One may be a script that goes by its own place.
        assert_ne!(first, of("b", "dockerd"));
        assert_ne!(first, of("a", "another version"));
    }
}
