//! Files of tools: the one in `PATH`, or another that a stack names, such as a new version's.
//!
//! `runc,runc:binary=/opt/runc-new` are two stacks of one run, so that two versions of a tool are
//! compared in pairs, on one machine in one hour.

use super::{LayerSpec, OptionSpec, Unavailable, option, require_program};
use crate::fault::Fault;
use crate::lab;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// Option that names the file of a layer's tool.
pub const BINARY: OptionSpec = option("binary", &[]).help(
    "the tool's file, to compare it with another version of itself (default: the one in `PATH`)",
);

/// Advice where a file that a stack names does not do.
const ANOTHER: &str = "name another file by `binary=`, or leave it out";

/// File of a layer's tool, on the level on which the layer is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolFile {
    /// Path of the file; without symbolic links where a stack names it.
    pub path: PathBuf,
    is_named: bool,
}

impl ToolFile {
    /// Finds the file that a layer's `binary=` names, else its `program`, which is installed by
    /// `remedy`.
    ///
    /// # Errors
    /// It is not there. Of one that is named: it is no program, lies where a container has nothing
    /// of this level's, or somebody else than root and the caller could exchange it.
    pub(crate) fn find(spec: &LayerSpec, program: &str, remedy: &str) -> Result<Self, Unavailable> {
        let Some(named) = spec.option(BINARY.key) else {
            let path = require_program(program, remedy)?;
            return Ok(Self { path, is_named: false });
        };
        let refused = |fault: Fault| fault.during(format_args!("`{}={named}`", BINARY.key));
        let path = lab::program_of_ours(Path::new(named)).map_err(refused)?;
        if path.starts_with("/run") {
            let why = "`/run` is made anew for layers, and nothing in it is found there";
            return Err(refused(Fault::user(why).hint("copy the file to another place")).into());
        }
        Ok(Self { path, is_named: true })
    }

    /// Returns its path if a stack names it.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.is_named.then_some(&*self.path)
    }

    /// Returns the advice for what is wrong with it: `usual`, unless a stack names it.
    pub(crate) fn remedy<'a>(&self, usual: &'a str) -> &'a str {
        if self.is_named { ANOTHER } else { usual }
    }

    /// Returns its path as a fact of this name; of one that a stack names its hash too, since two
    /// builds may say the same version.
    ///
    /// # Errors
    /// The machine's: it cannot be read.
    pub(crate) fn facts(&self, key: &str) -> Result<Vec<Fact>, Fault> {
        let facts = self.facts_if_named(key)?;
        let in_path = || vec![Fact::new(key, self.path.display().to_string(), "PATH")];
        Ok(if facts.is_empty() { in_path() } else { facts })
    }

    /// Returns the same of one that a stack names, and nothing of the one in `PATH`.
    ///
    /// # Errors
    /// The machine's: it cannot be read.
    pub(crate) fn facts_if_named(&self, key: &str) -> Result<Vec<Fact>, Fault> {
        let Some(path) = self.named() else { return Ok(Vec::new()) };
        let shown = path.display().to_string();
        let hash = Fact::new(format!("{key}_sha256"), lab::sha256(path)?, shown.clone());
        Ok(vec![Fact::new(key, shown, format!("`{}=`", BINARY.key)), hash])
    }
}
