//! Recipes: what an appliance is and how it is spoken to, as a small TOML file.
//!
//! Those of `appliances/` are built in and have names; any other is named by its path. A key that
//! is not known is refused: an appliance that is spoken to in another way than its author believes
//! answers something else.

use crate::driver::xen::Kind;
use crate::fault::{Doing, Fault};
use crate::regular_file;
use crate::vm::board::Board;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use surtax_instrument::quantity::Bytes;

/// The longest recipe, in bytes.
const FILE_LIMIT: u64 = 64 << 10;

/// Ending that tells a path from a name.
const SUFFIX: &str = ".toml";

/// The recipes that have names.
pub(super) const BUILT_IN: [(&str, &str); 11] = [
    ("arceos", include_str!("../../../appliances/arceos/appliance.toml")),
    ("arceos-echo", include_str!("../../../appliances/arceos/echo.toml")),
    ("grub-xen", include_str!("../../../appliances/grub-xen/appliance.toml")),
    ("grub-xen-pvh", include_str!("../../../appliances/grub-xen/pvh.toml")),
    ("hermit", include_str!("../../../appliances/hermit.toml")),
    ("mirage", include_str!("../../../appliances/mirage.toml")),
    ("mirage-xen", include_str!("../../../appliances/mirage-xen.toml")),
    ("nanos", include_str!("../../../appliances/nanos.toml")),
    ("osv", include_str!("../../../appliances/osv.toml")),
    ("rumprun", include_str!("../../../appliances/rumprun.toml")),
    ("unikraft", include_str!("../../../appliances/unikraft.toml")),
];

/// A recipe as it stands in its file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(in crate::driver) struct Recipe {
    /// One line for people.
    pub(super) about: String,
    /// True if surtax's authors have run it.
    #[serde(default)]
    pub(super) ran: bool,
    /// Image that is booted.
    pub(super) image: Image,
    /// Machine that it is booted on, unless the stack says otherwise.
    pub(super) machine: MachineOfRecipe,
    /// Way in which a command comes to it.
    pub(super) command: Talk,
}

/// Image that is booted: a kernel, a disk, or a kernel with a disk.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    /// File of the kernel: for QEMU's `-kernel` by multiboot, PVH or Linux's own protocol, for a
    /// domain of Xen's an ELF with notes for Xen or a kernel of Linux. A recipe without one is
    /// completed by `image=`.
    pub(super) kernel: Option<String>,
    /// A raw disk, which is never written to.
    pub(super) disk: Option<String>,
    /// An initial RAM disk, or whatever the image takes for one.
    pub(super) initrd: Option<String>,
    /// The kernel's command line; `{command}` stands for the command.
    #[serde(default)]
    pub(super) append: String,
    /// Advice on making the image where it is missing.
    pub(super) remedy: Option<String>,
}

/// Machine that it is booted on.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineOfRecipe {
    /// `q35`, `pc` or `microvm`; or `xen-pv` or `xen-pvh`, a domain of Xen's.
    pub(super) board: String,
    /// With a suffix, as in `128M`.
    pub(super) memory: String,
    /// Virtual CPUs.
    pub(super) cpus: u32,
    /// QEMU's name of its network card, if it has one; `vif` in a domain.
    pub(super) network: Option<String>,
    /// QEMU's name of its disk's device; `virtio-blk-pci` unless told.
    pub(super) disk: Option<String>,
}

/// Way in which a command comes to it, and how it is known that it was done.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Talk {
    /// Place where the command runs.
    pub(super) runs: CommandPlace,
    /// Carrier of the command to a place inside.
    pub(super) over: Option<Carrier>,
    /// The port on which it listens.
    pub(super) port: Option<u16>,
    /// Text that it prints on its console when it is ready.
    pub(super) ready: Option<String>,
    /// Text that it is asked over TCP until it answers, where nothing is printed that says so.
    pub(super) probe: Option<String>,
    /// Beginning of the last line of an answer; the status follows.
    pub(super) ended: Option<String>,
}

/// Place where a command runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum CommandPlace {
    /// In the appliance, which is sent one line for each.
    Inside,
    /// In the appliance, which is booted with it.
    Boot,
    /// On this level, as a client of the appliance.
    Beside,
}

/// Carrier of a line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Carrier {
    /// The serial console.
    Console,
    /// A TCP connection for each command.
    Tcp,
}

/// A recipe, and where relative names in it begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRecipe {
    /// Name of the recipe, or its path.
    pub(super) name: String,
    pub(super) recipe: Recipe,
    directory: PathBuf,
}

impl FoundRecipe {
    /// The recipe of this name, or at this path; images of those that are built in are in the
    /// cache.
    ///
    /// # Errors
    /// The user's: there is none, or it says what no recipe can say.
    pub(super) fn find(name: &str, cache: &Path) -> Result<Self, Fault> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            let recipe = parse(text, name)?;
            return Ok(Self { name: name.into(), recipe, directory: cache.join("appliances") });
        }
        if !name.ends_with(SUFFIX) {
            let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            return Err(Fault::user(format!("appliance: there is no recipe `{name}`")).hint(
                format!(
                    "use one of `{}`, or the path of a recipe that ends with `.toml`",
                    names.join("`, `")
                ),
            ));
        }
        let path = Path::new(name);
        let cannot = |error: &dyn std::fmt::Display| {
            Fault::user(format!("appliance: the recipe `{name}` cannot be read: {error}"))
        };
        let bytes = regular_file::read(path, FILE_LIMIT).map_err(|error| cannot(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| cannot(&error))?;
        let directory = path.canonicalize().doing("find the recipe's directory")?;
        let directory = directory.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self { name: name.into(), recipe: parse(&text, name)?, directory })
    }

    /// Lists itself and the files that it names; none of one that is built in, whose files are in
    /// the cache.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let Ok(path) = std::path::absolute(&self.name) else { return Vec::new() };
        let Image { kernel, disk, initrd, .. } = &self.recipe.image;
        let named = [kernel, disk, initrd].into_iter().flatten().map(|name| self.file(name));
        if self.is_built_in() { Vec::new() } else { [path].into_iter().chain(named).collect() }
    }

    /// Tells whether it is one of surtax's own, and no file of somebody's.
    pub(super) fn is_built_in(&self) -> bool {
        !self.name.ends_with(SUFFIX)
    }

    /// A file of the recipe.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Recipe {
    /// The board.
    pub(super) fn board(&self) -> Board {
        Board::of(Some(&self.machine.board))
    }

    /// Memory, in MiB.
    pub(super) fn memory_mib(&self) -> u64 {
        Bytes::parse(&self.machine.memory).map_or(0, Bytes::mebibytes)
    }
}

/// The kind of Xen's domain that a board of this name is, if it is none of QEMU's.
pub(super) fn domain(name: &str) -> Option<Kind> {
    match name {
        "xen-pv" => Some(Kind::Pv),
        "xen-pvh" => Some(Kind::Pvh),
        _ => None,
    }
}

/// Reads the text of a recipe and refuses one that contradicts itself.
pub(in crate::driver) fn parse(text: &str, name: &str) -> Result<Recipe, Fault> {
    let recipe: Recipe = toml::from_str(text).map_err(|error| {
        Fault::user(format!("appliance: the recipe `{name}` is not understood:\n{error}"))
            .hint("compare it with `appliances/arceos/appliance.toml`")
    })?;
    match contradiction(&recipe) {
        None => Ok(recipe),
        Some(why) => Err(Fault::user(format!("appliance: the recipe `{name}` {why}"))
            .hint("`appliances/README.md` says what a recipe holds")),
    }
}

/// Returns what of a recipe cannot be meant.
fn contradiction(recipe: &Recipe) -> Option<&'static str> {
    let Recipe { machine, command, image, .. } = recipe;
    let is_device = |name: &Option<String>| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        name.as_ref().is_none_or(|name| !name.is_empty() && name.chars().all(is_plain))
    };
    let has_tcp = command.over == Some(Carrier::Tcp) || command.runs == CommandPlace::Beside;
    let is_domain = domain(&machine.board).is_some();
    if !is_domain && !["q35", "pc", "microvm"].contains(&machine.board.as_str()) {
        return Some("names no board: `q35`, `pc` or `microvm`, or `xen-pv` or `xen-pvh`");
    }
    if is_domain && machine.network.as_ref().is_some_and(|network| network != "vif") {
        return Some("names a network card of QEMU's for a domain of Xen's, whose is `vif`");
    }
    if is_domain && (image.disk.is_some() || machine.disk.is_some()) {
        return Some("names a disk, which a domain of Xen's is not given");
    }
    if recipe.memory_mib() == 0 || machine.cpus == 0 {
        return Some("gives it no memory, or no CPU");
    }
    if !is_device(&machine.network) || !is_device(&machine.disk) {
        return Some("names a device by more than letters, digits and `-`");
    }
    match command.runs {
        CommandPlace::Inside if command.over.is_none() => {
            Some("says not what carries a command inside")
        }
        CommandPlace::Inside if command.ended.is_none() => {
            Some("says not how an answer has `ended`")
        }
        CommandPlace::Boot if !image.append.contains("{command}") => {
            Some("boots with a command, and has no `{command}` in `append`")
        }
        CommandPlace::Inside | CommandPlace::Beside
            if command.ready.is_some() == command.probe.is_some() =>
        {
            Some("says not by which line it is `ready`, or by which `probe`, or both")
        }
        _ if command.probe.is_some() && !has_tcp => Some("has a `probe`, and no port to ask"),
        _ if has_tcp && (command.port.is_none() || machine.network.is_none()) => {
            Some("is reached by TCP, and has no `port` or no `network`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ARCEOS: &str = BUILT_IN[0].1;

    #[test]
    fn every_recipe_that_is_built_in_is_understood() {
        for (name, _) in BUILT_IN {
            let found = FoundRecipe::find(name, Path::new("/cache")).unwrap();
            let ran = name.starts_with("arceos") || name.starts_with("grub-xen");
            assert_eq!(found.recipe.ran, ran, "{name}");
        }
    }

    #[test]
    fn a_file_of_a_recipe_is_beside_it_and_of_one_that_is_built_in_in_the_cache() {
        let found = FoundRecipe::find("arceos", Path::new("/cache")).unwrap();
        assert_eq!(found.file("arceos.elf"), Path::new("/cache/appliances/arceos.elf"));
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("own.toml");
        fs::write(&path, ARCEOS).unwrap();
        let found = FoundRecipe::find(path.to_str().unwrap(), Path::new("/cache")).unwrap();
        assert_eq!(found.file("x"), place.path().canonicalize().unwrap().join("x"));
        assert_eq!(found.file("/x"), Path::new("/x"));
    }

    #[test]
    fn a_recipe_that_is_a_pipe_has_no_end_or_is_too_long_is_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe.toml"), rustix::fs::Mode::RUSR).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("zero.toml")).unwrap();
        fs::write(path("long.toml"), vec![b'#'; 1 + (64 << 10)]).unwrap();
        for (name, says) in [
            ("pipe.toml", "cannot be read: it is a pipe"),
            ("zero.toml", "cannot be read: it is a device"),
            ("long.toml", "cannot be read: it is longer than 65536 bytes"),
        ] {
            let fault =
                FoundRecipe::find(path(name).to_str().unwrap(), Path::new("/cache")).unwrap_err();
            assert!(fault.message.contains(says), "{fault}");
            assert_eq!(fault.exit_code(), 2);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_there_are() {
        let fault = FoundRecipe::find("osx", Path::new("/cache")).unwrap_err();
        assert_eq!(fault.message, "appliance: there is no recipe `osx`");
        assert!(fault.hint.unwrap().contains("`osv`"));
    }

    #[test]
    fn a_key_that_no_recipe_has_is_refused_with_its_line() {
        let fault = parse(&ARCEOS.replace("ended", "end"), "own.toml").unwrap_err();
        assert!(fault.message.contains("unknown field `end`"), "{fault}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (good, bad, why) in [
            ("\"q35\"", "\"s390\"", "names no board"),
            ("\"128M\"", "\"much\"", "gives it no memory"),
            ("network = \"virtio-net-pci\"", "", "is reached by TCP"),
            ("port = 8007", "", "is reached by TCP"),
            ("over = \"tcp\"", "", "says not what carries"),
            ("ended = \"surtax: exit \"", "", "how an answer has `ended`"),
            ("ready = \"surtax: ready\"", "", "by which line it is `ready`"),
            ("\"inside\"", "\"boot\"", "no `{command}` in `append`"),
            ("virtio-net-pci", "virtio,addr=1", "names a device by more"),
            ("\"q35\"", "\"xen-pv\"", "names a network card of QEMU's"),
        ] {
            assert!(ARCEOS.contains(good), "{good}");
            let fault = parse(&ARCEOS.replace(good, bad), "own.toml").unwrap_err();
            assert!(fault.message.contains(why), "{bad}: {fault}");
        }
    }
}
