//! Files of tools: the one in `PATH`, or another that a stack names, such as a new version's.
//!
//! `runc,runc:binary=/opt/runc-new` are two stacks of one run, so that two versions of a tool are
//! compared in pairs, on one machine in one hour.

use super::{LayerSpec, OWN_PLACES, OptionSpec, Unavailable, option, require_program};
use crate::fault::Fault;
use crate::lab;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// Option that names the file of a layer's tool.
pub const BINARY: OptionSpec = option("binary", &[]).path().help(
    "the tool's file, to compare it with another version of itself (default: the one in `PATH`)",
);

/// Name of the fact about a tool's file.
pub(crate) const TOOL: &str = "tool";

/// Advice where a file that a stack names does not do.
const BINARY_HINT: &str = "name another file by `binary=`, or leave it out";

/// File of a layer's tool, on the level on which the layer is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolFile {
    /// Path of the file; without symbolic links where a stack names it.
    pub path: PathBuf,
    /// Advice for what is wrong with it: how to install the one in `PATH`, or to name another.
    pub remedy: String,
    is_named: bool,
}

impl ToolFile {
    /// Finds the file that a layer's `binary=` names, else its `program`, which is installed by
    /// `remedy`.
    ///
    /// # Errors
    /// It is not there. Of one that is named: it is no program, lies in a directory that layers
    /// make anew, or somebody else than root and the caller could exchange it.
    pub(crate) fn find(spec: &LayerSpec, program: &str, remedy: &str) -> Result<Self, Unavailable> {
        let Some(named) = spec.option(BINARY.key) else {
            let path = require_program(program, remedy)?;
            return Ok(Self { path, remedy: remedy.to_owned(), is_named: false });
        };
        let refused = |fault: Fault| fault.during(format_args!("`{}={named}`", BINARY.key));
        let path = lab::trusted_program(Path::new(named)).map_err(refused)?;
        if let Some(place) = OWN_PLACES.iter().find(|place| path.starts_with(place)) {
            let why =
                format!("`{place}` is made anew for layers, and nothing in it is found there");
            return Err(refused(Fault::user(why).hint("copy the file to another place")).into());
        }
        Ok(Self { path, remedy: BINARY_HINT.to_owned(), is_named: true })
    }

    /// Returns its path if a stack names it.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.is_named.then_some(&*self.path)
    }

    /// Returns its path as a fact of this name; of one that a stack names its hash too, since two
    /// builds may say the same version.
    ///
    /// # Errors
    /// The machine's: it cannot be read.
    pub(crate) fn facts(&self, key: &str) -> Result<Vec<Fact>, Fault> {
        let shown = self.path.display().to_string();
        if !self.is_named {
            return Ok(vec![Fact::new(key, shown, "PATH")]);
        }
        let hash = Fact::new(format!("{key}_sha256"), lab::sha256(&self.path)?, shown.clone());
        Ok(vec![Fact::new(key, shown, format!("`{}=`", BINARY.key)), hash])
    }
}
