//! What was asked for: the options and limits of an appliance, and what its recipe makes of them.

use super::command_line::Machine;
use super::proxy;
use super::recipe::{Found, Place, board};
use crate::fault::Fault;
use crate::layer::qemu::command_line::Accelerator;
use crate::layer::qemu::request::cpu_model;
use crate::layer::{Root, Site};
use crate::stack::{LayerSpec, Limits};
use std::path::{Path, PathBuf};

/// What a spec asks for.
pub(super) struct Asked {
    pub(super) found: Found,
    image: Option<PathBuf>,
    pub(super) accelerator: Option<String>,
    spec: LayerSpec,
}

impl Asked {
    /// Reads a spec, and refuses what its recipe cannot keep.
    ///
    /// # Errors
    /// The user's: there is no such recipe, or the command or a root is none for it.
    pub(super) fn read(spec: &LayerSpec, site: &Site<'_>) -> Result<Self, Fault> {
        let option = |key: &str| spec.options.get(key).map(String::as_str);
        let name = option("recipe").ok_or_else(|| Fault::bug("an appliance without a recipe"))?;
        let found = Found::find(name, site.cache)?;
        if found.recipe.command.runs != Place::Beside {
            if site.view.root != Root::Overlay || !site.view.writable.is_empty() {
                return Err(Fault::user("appliance: it has none of this level's files")
                    .hint("leave `root=` and `--writable` out"));
            }
            site.command.map(proxy::words).transpose()?;
        }
        let accelerator = option("accel").map(String::from);
        let image = option("image").map(PathBuf::from);
        Ok(Self { found, image, accelerator, spec: spec.clone() })
    }

    /// The machine, all of whose files are there.
    ///
    /// # Errors
    /// One is missing, or an option is none for a machine.
    pub(super) fn machine(
        &self,
        accelerator: Accelerator,
        site: &Site<'_>,
    ) -> Result<Machine, Fault> {
        let words = match (self.found.recipe.command.runs, site.command) {
            (Place::Boot, Some(command)) => proxy::words(command)?,
            _ => String::new(),
        };
        let mut machine = Machine::of(&self.found, self.image.as_deref(), accelerator, &words);
        let option = |key: &str| self.spec.options.get(key).map(String::as_str);
        machine.board = option("machine").map_or(machine.board, board);
        machine.cpu = option("cpu").map(cpu_model).transpose()?;
        if let Some(millis) = site.limits.cpu_millis {
            machine.cpus = whole_cpus(millis)?;
        }
        if let Some(memory) = site.limits.memory {
            machine.memory_mib = memory.mebibytes();
        }
        self.require_files(&machine)?;
        Ok(machine)
    }

    fn require_files(&self, machine: &Machine) -> Result<(), Fault> {
        let name = &self.found.name;
        if machine.image().is_none() {
            return Err(Fault::user(format!(
                "appliance: the recipe `{name}` comes without an image"
            ))
            .hint(format!("name yours: `appliance:{name},image=PATH`")));
        }
        match machine.files().find(|file| !file.is_file()) {
            None => Ok(()),
            Some(file) => {
                let fault = Fault::machine(format!("appliance: `{}` is not there", file.display()));
                let remedy =
                    self.found.recipe.image.remedy.clone().filter(|_| self.image.is_none());
                Err(fault
                    .hint(remedy.unwrap_or_else(|| String::from("name one with `image=PATH`"))))
            }
        }
    }
}

/// Refuses what no appliance can be, wherever its image is.
///
/// # Errors
/// The user's: there is no such recipe, or an option is none for a machine.
pub(super) fn refuse(spec: &LayerSpec, limits: &Limits) -> Result<(), Fault> {
    let name = spec.options.get("recipe").map_or("", String::as_str);
    Found::find(name, Path::new("/"))?;
    spec.options.get("cpu").map(|name| cpu_model(name)).transpose()?;
    limits.cpu_millis.map(whole_cpus).transpose().map(drop)
}

fn whole_cpus(millis: u32) -> Result<u32, Fault> {
    let asked = f64::from(millis) / 1000.0;
    match (millis / 1000, millis % 1000) {
        (whole @ 1.., 0) => Ok(whole),
        _ => Err(Fault::user(format!("appliance: `cpus={asked}`: its machine has whole CPUs"))
            .hint("write `cpus=1`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_virtual_cpu_is_none_for_an_appliance() {
        assert_eq!(whole_cpus(2000), Ok(2));
        for millis in [500, 1500] {
            assert!(whole_cpus(millis).unwrap_err().message.ends_with("has whole CPUs"));
        }
    }
}
