//! The Engine API, request by request.
//!
//! The client is asynchronous and stays in here: its runtime turns only while one of these
//! functions waits, on the caller's thread. While a command is measured nothing of it runs.

use crate::fault::{Doing, Fault};
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, NetworkCreateRequest, SystemInfo, SystemVersion,
};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, InspectContainerOptions, InspectNetworkOptions,
    ListNetworksOptions, RemoveContainerOptions, StartContainerOptions, WaitContainerOptions,
};
use bollard::{ClientVersion, Docker};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::future::Future;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

/// A daemon that we talk to.
pub struct Engine {
    runtime: Runtime,
    docker: Docker,
    deadline: Duration,
}

/// Facts that a daemon tells of itself; asked once by each process of ours.
#[derive(Clone, Debug)]
pub struct About {
    /// The version of the interface that both speak.
    pub spoken: ClientVersion,
    /// Version of the daemon, and those of its parts.
    pub version: SystemVersion,
    /// Settings of the daemon.
    pub info: SystemInfo,
    /// The networks that a container can be put into.
    pub networks: Vec<String>,
}

/// Facts learnt of each daemon, by its socket.
static KNOWN: LazyLock<Mutex<HashMap<PathBuf, About>>> = LazyLock::new(Mutex::default);

/// Time that one question whether somebody answers waits.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// Says whether a daemon answers at a socket, be it with a refusal. It listens there long before.
pub fn answers(socket: &Path) -> bool {
    let ask = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n")?;
        stream.read_exact(&mut [0])
    };
    ask().is_ok()
}

impl Engine {
    /// A client of the daemon at `socket`, which speaks as new a version as it does.
    ///
    /// # Errors
    /// The machine's: nobody answers there in time, or it is too old.
    pub fn connect(socket: &Path, deadline: Duration) -> Result<(Self, About), Fault> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.doing("start the runtime of the Docker client")?;
        let seconds = deadline.as_secs().max(1);
        let at = socket.to_string_lossy();
        let connect = |version| {
            Docker::connect_with_unix(&at, seconds, version)
                .doing(format_args!("use the Docker socket `{at}`"))
        };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(about) = known.get(socket) {
            let docker = connect(&about.spoken)?;
            return Ok((Self { runtime, docker, deadline }, about.clone()));
        }
        let mut engine = Self { runtime, docker: connect(bollard::API_DEFAULT_VERSION)?, deadline };
        let about = engine.ask()?;
        known.insert(socket.to_path_buf(), about.clone());
        Ok((engine, about))
    }

    fn ask(&mut self) -> Result<About, Fault> {
        let negotiated = self.docker.clone().negotiate_version();
        self.docker = self.wait("agree with the Docker daemon on a version", negotiated)?;
        let spoken = self.docker.client_version();
        let version = self.wait("ask the Docker daemon for its version", self.docker.version())?;
        let info = self.wait("ask the Docker daemon for its settings", self.docker.info())?;
        let networks = self.docker.list_networks(None::<ListNetworksOptions>);
        let networks = self.wait("ask the Docker daemon for its networks", networks)?;
        let networks = networks.into_iter().filter_map(|network| network.name).collect();
        Ok(About { spoken, version, info, networks })
    }

    /// Makes an image of a tar archive.
    ///
    /// # Errors
    /// The daemon's.
    pub fn import(&self, name: &str, tag: &str, archive: Vec<u8>) -> Result<(), Fault> {
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            repo: Some(name.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let body = bollard::body_full(archive.into());
        let mut progress = self.docker.create_image(Some(options), Some(body), None);
        let all = async {
            while let Some(step) = progress.next().await {
                step?;
            }
            Ok(())
        };
        self.wait(&format!("import the image `{name}:{tag}`"), all)
    }

    /// Makes a network.
    ///
    /// # Errors
    /// The daemon's.
    pub fn make_network(&self, request: NetworkCreateRequest) -> Result<(), Fault> {
        let doing = format!("make the network `{}`", request.name);
        self.wait(&doing, self.docker.create_network(request)).map(drop)
    }

    /// The driver of a network.
    ///
    /// # Errors
    /// The daemon's.
    pub fn network_driver(&self, name: &str) -> Result<String, Fault> {
        let inspected = self.docker.inspect_network(name, None::<InspectNetworkOptions>);
        let inspected = self.wait(&format!("inspect the network `{name}`"), inspected)?;
        Ok(inspected.driver.unwrap_or_default())
    }

    /// Makes a container.
    ///
    /// # Errors
    /// The daemon's.
    pub fn create(&self, name: &str, body: ContainerCreateBody) -> Result<(), Fault> {
        let options = CreateContainerOptions {
            name: Some(name.to_owned()),
            ..CreateContainerOptions::default()
        };
        let created = self.docker.create_container(Some(options), body);
        self.wait(&format!("make the container `{name}`"), created).map(drop)
    }

    /// Starts a container.
    ///
    /// # Errors
    /// The daemon's, with what the runtime said.
    pub fn start(&self, name: &str) -> Result<(), Fault> {
        let started = self.docker.start_container(name, None::<StartContainerOptions>);
        self.wait(&format!("start the container `{name}`"), started)
    }

    /// Asks the daemon what it knows of a container.
    ///
    /// # Errors
    /// The daemon's.
    pub fn inspect(&self, name: &str) -> Result<ContainerInspectResponse, Fault> {
        let inspected = self.docker.inspect_container(name, None::<InspectContainerOptions>);
        self.wait(&format!("inspect the container `{name}`"), inspected)
    }

    /// Tells whether a container ends within this time.
    ///
    /// # Errors
    /// The daemon's.
    pub fn ends(&self, name: &str, within: Duration) -> Result<bool, Fault> {
        let mut answers = self.docker.wait_container(name, None::<WaitContainerOptions>);
        let first = async { tokio::time::timeout(within, answers.next()).await };
        match self.runtime.block_on(first) {
            Err(_late) => Ok(false),
            // The agent's exit code is no concern of ours: its last frame was.
            Ok(None | Some(Ok(_) | Err(Error::DockerContainerWaitError { .. }))) => Ok(true),
            Ok(Some(Err(error))) => {
                Err(error).doing(format_args!("wait for the container `{name}`"))
            }
        }
    }

    /// Removes a container with its volumes, whether it runs or not.
    ///
    /// # Errors
    /// The daemon's.
    pub fn remove(&self, name: &str) -> Result<(), Fault> {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        let removed = self.docker.remove_container(name, Some(options));
        self.wait(&format!("remove the container `{name}`"), removed)
    }

    /// Turns the runtime until the daemon has answered.
    fn wait<T>(
        &self,
        doing: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Fault> {
        // A timer can be made inside the runtime only.
        let answer = async { tokio::time::timeout(self.deadline, request).await };
        match self.runtime.block_on(answer) {
            Ok(answer) => answer.map_err(|error| {
                Fault::machine(format!("cannot {doing}: ")).saying(&error.to_string())
            }),
            Err(_late) => {
                let seconds = self.deadline.as_secs();
                Err(Fault::machine(format!("cannot {doing}: no answer within {seconds} s")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn who_listens_and_leaves_without_a_word_has_not_answered() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("docker.sock");
        assert!(!answers(&socket), "nobody is there");
        let listener = UnixListener::bind(&socket).unwrap();
        let one = |words: &'static [u8]| {
            let listener = listener.try_clone().unwrap();
            std::thread::spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                stream.read_exact(&mut [0; 20]).unwrap();
                stream.write_all(words).unwrap();
            })
        };
        let silent = one(b"");
        assert!(!answers(&socket));
        silent.join().unwrap();
        let refuses = one(b"HTTP/1.0 503 Service Unavailable\r\n\r\n");
        assert!(answers(&socket));
        refuses.join().unwrap();
    }
}
