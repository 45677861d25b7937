//! Place where a fault leaves its mark, and where the command and an actor outside find each other.
//!
//! A directory that the command and this machine both write to. The command asks with a file
//! `asked`; the actor answers with a file `there` when it has begun, and takes it away when it has
//! ended. Nobody waits for ever.

use crate::fault::{Doing, Fault};
use crate::plan::{Word, shell_line};
use std::path::{Path, PathBuf};

/// Shell functions of both sides. A wait ends after some twenty seconds.
const WORDS: &str = "\
mark() { echo x >> $MARK; }
until_there() { n=0; while [ ! -e $1 ] && [ $n -lt 2000 ]; do sleep 0.01; n=$((n+1)); done; }
until_gone() { n=0; while [ -e $1 ] && [ $n -lt 2000 ]; do sleep 0.01; n=$((n+1)); done; }
";

/// Shell functions by which the command asks.
const ASKING: &str = "\
fault_on() { : > $PLACE/asked; until_there $PLACE/there; }
fault_off() { rm $PLACE/asked; until_gone $PLACE/there; }
";

/// Loop in which an actor calls its `begin` and `end`.
const ACTING: &str = "
while :; do
  while [ ! -e $PLACE/asked ]; do sleep 0.01; done
  begin; : > $PLACE/there; until_gone $PLACE/asked
  end; rm $PLACE/there
done
";

/// The directory of one try.
pub(super) struct TryDirectory {
    directory: PathBuf,
}

impl TryDirectory {
    /// An empty one.
    pub(super) fn make(below: &Path) -> Result<Self, Fault> {
        let directory = below.join("marks");
        let shown = directory.display();
        if directory.exists() {
            std::fs::remove_dir_all(&directory).doing(format_args!("empty `{shown}`"))?;
        }
        std::fs::create_dir(&directory).doing(format_args!("make `{shown}` for marks"))?;
        let place = Self { directory: directory.clone() };
        std::fs::write(place.mark(), "").doing(format_args!("begin the marks in `{shown}`"))?;
        Ok(place)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file that the mark is left in.
    pub(super) fn mark(&self) -> PathBuf {
        self.directory.join("mark")
    }

    /// Tells whether one was left.
    pub(super) fn has_mark(&self) -> Result<bool, Fault> {
        let length = std::fs::metadata(self.mark()).doing("look at the marks")?.len();
        Ok(length > 0)
    }

    /// Returns the variables that the command finds in its environment.
    pub(super) fn variables(&self) -> Vec<(String, Word)> {
        let named = [("MARK", &self.mark()), ("PLACE", &self.directory)];
        named.map(|(name, path)| (String::from(name), path.as_path().into())).into()
    }

    /// The script of a command.
    pub(super) fn for_command(&self, script: &str) -> String {
        format!("{WORDS}{ASKING}{script}")
    }

    /// The script of an actor that knows these assignments too.
    pub(super) fn for_actor(&self, known: &str, script: &str) -> String {
        let assign = |(name, value): (String, Word)| format!("{name}={}\n", shell_line([value]));
        let assigned: String = self.variables().into_iter().map(assign).collect();
        format!("{assigned}{known}\n{WORDS}{script}{ACTING}")
    }

    /// Puts a program there, in a directory of its own; gives the directory.
    pub(super) fn program(&self, directory: &str, text: &str) -> Result<String, Fault> {
        use std::os::unix::fs::PermissionsExt;
        let directory = self.directory.join(directory);
        let file = directory.join("program");
        let write = || {
            std::fs::create_dir(&directory)?;
            std::fs::write(&file, text)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))
        };
        write().doing(format_args!("write `{}`", file.display()))?;
        Ok(directory.to_string_lossy().into_owned())
    }
}
