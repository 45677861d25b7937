//! conmon: the monitor that podman leaves with each container, on whose command line is what podman
//! told it.
//!
//! podman's own answer about a container would be another start of podman. The monitor's command
//! line is there for as long as the container, and it is what the container was really made with.
//!
//! Source: `conmon(8)` of 2.1.6, `podman-run(1)` (`--conmon-pidfile`, `--pidfile`).

use crate::container::engine_runtime::Kernel;
use crate::container::first_process::FirstProcess;
use crate::fault::Fault;
use crate::lab;
use crate::lab::tool_version;
use crate::layer::Unavailable;
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::Hierarchies;
use surtax_instrument::wire::Fact;

/// A monitor that is to be, with a runtime behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conmon {
    /// The runtime, by its program's name.
    pub runtime: String,
    /// Path of the runtime's program.
    pub path: PathBuf,
    /// File to which conmon will write its own process id.
    own: PathBuf,
    /// File for the process id of the container's first process, which for gVisor is the sandbox.
    container: PathBuf,
}

impl Conmon {
    /// One with this runtime, whose files will be in a directory.
    ///
    /// # Errors
    /// What installs the runtime.
    pub fn with(runtime: &str, directory: &Path) -> Result<Self, Unavailable> {
        let path = lab::find(runtime).ok_or_else(|| {
            Unavailable::new(
                format!("the runtime `{runtime}` is not in `PATH`"),
                "install it, as `surtax doctor` says of the layer of its name",
            )
        })?;
        let file = |name: &str| directory.join(name);
        let runtime = runtime.to_owned();
        Ok(Self { runtime, path, own: file("conmon.pid"), container: file("container.pid") })
    }

    /// The words that tell podman of the files.
    pub fn words(&self) -> [String; 2] {
        let word = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        [word("conmon-pidfile", &self.own), word("pidfile", &self.container)]
    }

    /// Whose kernel is inside.
    pub fn kernel(&self) -> Kernel {
        Kernel::behind(&self.runtime)
    }

    /// The first process of the container, as the runtime names it.
    ///
    /// # Errors
    /// The machine's: there is none.
    pub fn first(&self, hierarchies: &Hierarchies) -> Result<FirstProcess, Fault> {
        FirstProcess::read(&self.container, hierarchies)
    }

    /// That the monitor was told to use the runtime.
    ///
    /// # Errors
    /// The machine's: it was told another, or is gone.
    pub fn prove(&self, hierarchies: &Hierarchies) -> Result<Vec<Fact>, Fault> {
        let command_line = FirstProcess::read(&self.own, hierarchies)?.text("cmdline")?;
        let told = told(&command_line).unwrap_or("none");
        let path = self.path.to_string_lossy();
        if told != path {
            return Err(Fault::machine(format!(
                "the runtime was to be `{path}`, and its monitor was told `{told}`"
            )));
        }
        let source = "/proc/PID/cmdline of conmon";
        Ok(vec![
            Fact::new("runtime", &self.runtime, source),
            Fact::new("runtime_path", told, source),
            Fact::new("runtime_version", tool_version::of_runtime(&self.path)?, "--version"),
        ])
    }
}

/// The runtime on a monitor's command line, whose words end with zero bytes.
fn told(command_line: &str) -> Option<&str> {
    let mut words = command_line.split('\0');
    words.find(|word| ["-r", "--runtime"].contains(word))?;
    words.next()
}

#[cfg(test)]
mod tests {
    use crate::container::conmon::*;

    #[test]
    fn the_runtime_is_the_word_after_its_flag() {
        let line = "/usr/bin/conmon\0--api-version\x001\0-c\0c0ffee\0-r\0/usr/bin/crun\0-b\0/x\0";
        assert_eq!(told(line), Some("/usr/bin/crun"));
        assert_eq!(told("/usr/bin/conmon\0-c\0c0ffee\0"), None);
    }

    #[test]
    fn a_process_that_was_told_no_runtime_proves_none() {
        let directory = tempfile::tempdir().unwrap();
        let conmon = Conmon {
            runtime: "crun".into(),
            path: "/usr/bin/crun".into(),
            own: directory.path().join("conmon.pid"),
            container: directory.path().join("container.pid"),
        };
        let hierarchies = Hierarchies::default();
        assert!(conmon.prove(&hierarchies).is_err(), "no monitor has said that it is there");
        std::fs::write(&conmon.own, std::process::id().to_string()).unwrap();
        let fault = conmon.prove(&hierarchies).unwrap_err();
        assert!(fault.message.contains("its monitor was told `none`"), "{fault}");
    }
}
