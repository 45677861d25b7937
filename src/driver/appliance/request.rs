//! Request of a spec: the options and limits of an appliance, and what its recipe makes of them.

use super::command_line::Machine;
use super::proxy;
use super::recipe::{CommandPlace, FoundRecipe, domain};
use crate::driver::xen::application::ApplicationOptions;
use crate::driver::xen::{Kind, image, require_plain};
use crate::fault::Fault;
use crate::lab::{IoLimits, Limits, Room, everybody_may_read};
use crate::layer::{LayerSpec, Root, Site};
use crate::regular_file;
use crate::vm::accelerator::Accelerator;
use crate::vm::board::Board;
use crate::vm::qemu::cpu_model;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Options that a spec asks for.
pub(super) struct ApplianceOptions {
    pub(super) found: FoundRecipe,
    image: Option<PathBuf>,
    pub(super) accelerator: Option<String>,
    spec: LayerSpec,
}

impl ApplianceOptions {
    /// Reads a spec, and refuses what its recipe cannot keep.
    ///
    /// # Errors
    /// The user's: there is no such recipe, or the command or a root is none for it.
    pub(super) fn read(spec: &LayerSpec, site: &Site<'_>) -> Result<Self, Fault> {
        let name =
            spec.option("recipe").ok_or_else(|| Fault::bug("an appliance without a recipe"))?;
        let found = FoundRecipe::find(name, site.cache)?;
        if found.recipe.command.runs != CommandPlace::Beside {
            if site.view.root != Root::Overlay || !site.view.writable.is_empty() {
                return Err(Fault::user("appliance: it has none of this level's files")
                    .hint("leave `root=` and `--writable` out"));
            }
            site.command.map(proxy::words).transpose()?;
        }
        let accelerator = spec.option("accel").map(String::from);
        let image = spec.option("image").map(PathBuf::from);
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
            (CommandPlace::Boot, Some(command)) => proxy::words(command)?,
            _ => String::new(),
        };
        let mut machine = Machine::of(&self.found, self.image.as_deref(), accelerator, &words);
        machine.board =
            self.spec.option("machine").map_or(machine.board, |name| Board::of(Some(name)));
        machine.cpu = self.spec.option("cpu").map(cpu_model).transpose().map_err(named)?;
        if let Some(millis) = site.limits.cpu_millis {
            machine.cpus = whole_cpus(millis)?;
        }
        if let Some(memory) = site.limits.memory {
            machine.memory_mib = memory.mebibytes();
        }
        self.require_files(&machine)?;
        Ok(machine)
    }

    /// The kind of Xen's domain that it is, if it is none of QEMU's machines.
    ///
    /// # Errors
    /// The user's: stack and recipe contradict each other.
    pub(super) fn domain(&self) -> Result<Option<Kind>, Fault> {
        domain_of(&self.spec, &self.found)
    }

    /// Tells whether the appliance has a network device.
    pub(super) fn has_network(&self) -> bool {
        self.found.recipe.machine.network.is_some()
    }

    /// The domain of Xen's that it is, all of whose files are there; nothing where it is QEMU's.
    ///
    /// # Errors
    /// As [`ApplianceOptions::machine`]'s; or Xen cannot enter the image.
    pub(super) fn order(
        &self,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<Option<ApplicationOptions>, Fault> {
        let Some(kind) = self.domain()? else { return Ok(None) };
        let machine = self.machine(Accelerator::Tcg, site)?;
        let kernel = machine.kernel.ok_or_else(|| Fault::bug("a domain without a kernel"))?;
        image::require(kind, &kernel, room)?;
        let append = machine.append.unwrap_or_default();
        require_plain(&[Some(&kernel), machine.initrd.as_deref()], &append)?;
        Ok(Some(ApplicationOptions {
            kind,
            cpus: machine.cpus,
            memory_mib: machine.memory_mib,
            kernel,
            initrd: machine.initrd,
            append,
            has_nic: machine.network.is_some(),
        }))
    }

    fn require_files(&self, machine: &Machine) -> Result<(), Fault> {
        let name = &self.found.name;
        if machine.image().is_none() {
            return Err(Fault::user(format!(
                "appliance: the recipe `{name}` comes without an image"
            ))
            .hint(format!("name yours: `appliance:{name},image=PATH`")));
        }
        for (_, file) in machine.files() {
            let looked = regular_file::open_kept(file).and_then(|file| file.metadata());
            let about = looked.map_err(|error| self.absent(file, &error))?;
            if !machine.may_copy(file) && !everybody_may_read(&about) {
                let shown = file.display();
                return Err(Fault::user(format!(
                    "appliance: the recipe `{name}` names `{shown}`, which is not for everybody to \
                     read"
                ))
                .hint("let everybody read it, or name it yourself with `image=PATH`"));
            }
        }
        Ok(())
    }

    fn absent(&self, file: &Path, error: &io::Error) -> Fault {
        let why = match error.kind() {
            ErrorKind::NotFound => String::from("is not there"),
            _ => format!("is no file for a machine: {error}"),
        };
        let remedy = self.found.recipe.image.remedy.clone().filter(|_| self.image.is_none());
        Fault::machine(format!("appliance: `{}` {why}", file.display()))
            .hint(remedy.unwrap_or_else(|| String::from("name one with `image=PATH`")))
    }
}

/// Refuses what no appliance can be, wherever its image is.
///
/// # Errors
/// The user's: there is no such recipe, or an option is none for a machine.
pub(super) fn refuse(spec: &LayerSpec, limits: &Limits) -> Result<(), Fault> {
    if kind_of(spec)?.is_some() {
        refuse_for_domain(spec, limits)?;
    }
    spec.option("cpu").map(cpu_model).transpose().map_err(named)?;
    limits.cpu_millis.map(whole_cpus).transpose().map(drop)
}

/// Lists a recipe of the user's and the files that it names; none if it cannot be read.
pub(super) fn files(spec: &LayerSpec) -> Vec<PathBuf> {
    let name = spec.option("recipe").unwrap_or("");
    FoundRecipe::find(name, Path::new("/")).map_or_else(|_| Vec::new(), |found| found.files())
}

/// The kind of Xen's domain that a spec asks for, wherever its image is; nothing where it asks for
/// QEMU's machine.
///
/// # Errors
/// The user's: there is no such recipe, or stack and recipe contradict each other.
pub(super) fn kind_of(spec: &LayerSpec) -> Result<Option<Kind>, Fault> {
    let name = spec.option("recipe").unwrap_or("");
    domain_of(spec, &FoundRecipe::find(name, Path::new("/"))?)
}

/// The kind of Xen's domain that it is, if it is none of QEMU's machines: what the stack says, or
/// the recipe.
fn domain_of(spec: &LayerSpec, found: &FoundRecipe) -> Result<Option<Kind>, Fault> {
    let of_recipe = domain(&found.recipe.machine.board);
    let Some(asked) = spec.option("machine") else { return Ok(of_recipe) };
    let of_stack = domain(asked);
    if of_stack.is_some() == of_recipe.is_some() {
        return Ok(of_stack);
    }
    let whose = if of_recipe.is_some() { "a domain of Xen's" } else { "a machine of QEMU's" };
    let name = &found.name;
    let board = &found.recipe.machine.board;
    Err(Fault::user(format!("appliance: `machine={asked}`: the recipe `{name}` is for {whose}"))
        .hint(format!(
            "leave it out for the recipe's `{board}`, or write a recipe of your own with `board = \
             \"{asked}\"`"
        )))
}

/// Refuses what only a machine of QEMU's has.
fn refuse_for_domain(spec: &LayerSpec, limits: &Limits) -> Result<(), Fault> {
    let options = ["accel", "cpu"].into_iter().find(|key| spec.options.contains_key(*key));
    let numa = limits.numa.is_some().then_some("numa");
    let io = (limits.io != IoLimits::default()).then_some("read-bps");
    match options.or(numa).or(io) {
        None => Ok(()),
        Some(key) => Err(Fault::user(format!("appliance: a domain of Xen's takes no `{key}=`"))
            .hint(format!("leave `{key}=` out, or use a recipe for QEMU"))),
    }
}

fn whole_cpus(millis: u32) -> Result<u32, Fault> {
    let asked = f64::from(millis) / 1000.0;
    match (millis / 1000, millis % 1000) {
        (whole @ 1.., 0) => Ok(whole),
        _ => Err(Fault::user(format!("appliance: `cpus={asked}`: its machine has whole CPUs"))
            .hint("write `cpus=1`")),
    }
}

/// Marks a fault of another part as one of `appliance`.
pub(super) fn named(fault: Fault) -> Fault {
    fault.during("appliance")
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
