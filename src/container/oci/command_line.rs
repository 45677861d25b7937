//! Command lines of an OCI runtime.

use std::path::{Path, PathBuf};

/// The container's name. Each room has its own list of containers, so one name will do.
pub const CONTAINER: &str = "container";

/// The runtime's command lines, all with the same list of containers.
pub struct CommandLine {
    /// The runtime's file.
    pub program: String,
    /// Options of the runtime itself, before the command.
    pub own: Vec<String>,
    /// True if its container has the session keyring of its level: the kernel refuses the inner one
    /// of two containers one of its own.
    pub keeps_keyring: bool,
    /// With the configuration, the list of containers and the mount point of the root.
    pub bundle: PathBuf,
}

impl CommandLine {
    /// Runs the container to its end.
    pub fn run(&self) -> Vec<String> {
        let (pid_file, bundle) = (text(&self.pid_file()), text(&self.bundle));
        let mut words = vec!["run", "--pid-file", &pid_file, "--bundle", &bundle];
        if self.keeps_keyring {
            words.push("--no-new-keyring");
        }
        words.push(CONTAINER);
        self.with(&words)
    }

    /// Removes it by force.
    pub fn delete(&self) -> Vec<String> {
        self.with(&["delete", "--force", CONTAINER])
    }

    fn with(&self, words: &[&str]) -> Vec<String> {
        let mut all = vec![self.program.clone()];
        all.extend(["--root".to_owned(), text(&self.bundle.join("runtime"))]);
        all.extend(self.own.iter().cloned());
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all
    }

    /// Returns the file to which the runtime writes the process id of the container's first
    /// process.
    pub fn pid_file(&self) -> PathBuf {
        self.bundle.join("pid")
    }
}

/// A path as a word.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
