//! Users of a container: those of its level, or others, to whom the files of its root are mapped.

use crate::agent::Call;
use crate::container::first_process::FirstProcess;
use crate::container::rootless;
use crate::fault::{Doing, Fault};
use crate::lab::users::{COUNT, FIRST};
use crate::lab::{Mount, Room, Users};
use crate::layer::{Descriptor, Inner, LayerSpec, OptionSpec, Root, option, value_of};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Fact;

/// The option for users of its own.
pub(crate) const CHOICE: OptionSpec = option("user", &["host", "private"]).help(
    "whether root inside is root here (`host`, default), or nobody here; the files of its root are \
     mapped",
);

/// The users of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerUsers {
    /// Those of this level.
    OfTheLevel,
    /// Nobody here: those of a namespace that the tool makes for it, in which [`FIRST`] is root.
    Own,
    /// Nobody here: those of [`rootless::USER`], who runs the tool.
    OfAnEngine,
}

impl ContainerUsers {
    /// Reads the spec of a layer.
    pub fn of(spec: &LayerSpec, descriptor: &Descriptor) -> Self {
        if rootless::is_asked(spec) {
            Self::OfAnEngine
        } else if spec.option("user").or(descriptor.default_users) == Some("private") {
            Self::Own
        } else {
            Self::OfTheLevel
        }
    }

    /// The namespace by which the files of its root are mapped, unless its users are those of the
    /// level.
    ///
    /// # Errors
    /// The machine's: none can be made.
    pub fn namespace(self, room: &Room) -> Result<Option<Users>, Fault> {
        (self != Self::OfTheLevel).then(|| room.users()).transpose()
    }

    /// Listens at a socket where nobody calls but root of a container with these users: others of
    /// this machine may pass to it, and would speak as the agent.
    ///
    /// # Errors
    /// The machine's: the path is too long, or taken.
    pub fn listen(self, socket: &Path) -> Result<Call, Fault> {
        let call = Call::at(socket)?;
        let doing = format!("give `{}` to the container", socket.display());
        fs::set_permissions(socket, Permissions::from_mode(0o600)).doing(&doing)?;
        if self != Self::OfTheLevel {
            chown(socket, Some(FIRST), Some(FIRST)).doing(&doing)?;
        }
        Ok(call)
    }

    /// That they are who they were to be, by the processes of the tool and of the container.
    ///
    /// # Errors
    /// The machine's: they are others, or somebody else runs the tool.
    pub fn prove(
        self,
        tool: &FirstProcess,
        first: &FirstProcess,
        inside: &[Fact],
    ) -> Result<Vec<Fact>, Fault> {
        let facts = match self {
            Self::OfTheLevel => return Ok(Vec::new()),
            Self::Own => vec![prove_map(first, &format!("0 {FIRST} {COUNT}"))?],
            Self::OfAnEngine => rootless::prove(tool, first)?,
        };
        match value_of(inside, "root_owner")? {
            "0" => Ok(facts),
            owner => Err(Fault::machine(format!(
                "the files of its root were to be mapped, and the owner of `/` inside is {owner}"
            ))),
        }
    }
}

/// A layer over `/etc` for a tool's mount namespace, in which these files have one more line each.
/// What is in it is kept in a directory of the room in memory.
///
/// # Errors
/// The machine's: a file cannot be read or written.
pub(crate) fn over_etc(directory: &Path, lines: &[(&str, String)]) -> Result<Mount, Fault> {
    let above = directory.join("etc");
    let (upper, work) = (above.join("upper"), above.join("work"));
    fs::create_dir_all(&upper).doing(format_args!("make `{}`", upper.display()))?;
    for (name, line) in lines {
        let before = fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
        let file = upper.join(name);
        fs::write(&file, with_line(&before, line))
            .doing(format_args!("write `{}`", file.display()))?;
    }
    Ok(Mount::Overlay { lower: PathBuf::from("/etc"), upper, work, target: PathBuf::from("/etc") })
}

/// A file with one more line, whether or not it ended with one.
fn with_line(before: &str, line: &str) -> String {
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    format!("{before}{end}{line}\n")
}

/// That the users of a container are mapped so.
///
/// # Errors
/// The machine's: they are mapped otherwise.
pub(crate) fn prove_map(first: &FirstProcess, asked: &str) -> Result<Fact, Fault> {
    let map = first.text("uid_map")?;
    let map = map.split_whitespace().collect::<Vec<_>>().join(" ");
    if map == asked {
        return Ok(Fact::new("user_map", map, "/proc/PID/uid_map"));
    }
    Err(Fault::machine(format!("users were to be mapped as `{asked}`, and are as `{map}`")))
}

/// Refuses users of its own inside of a layer whose files are a throw-away layer: the kernel maps
/// the owners of no overlay.
///
/// # Errors
/// The user's: it cannot be, and where it can.
pub fn refuse_users_on_a_layer(outer: &LayerSpec, inner: Inner<'_>) -> Result<(), Fault> {
    let root = outer.root()?;
    let is_layered = !matches!(root, Root::Host | Root::Image(_) | Root::Packed);
    let Inner { spec: inner, descriptor } = inner;
    let (option, instead) = match ContainerUsers::of(inner, descriptor) {
        ContainerUsers::OfTheLevel => return Ok(()),
        ContainerUsers::Own => ("user=private", "user=host"),
        ContainerUsers::OfAnEngine => ("rootless=on", "rootless=off"),
    };
    if !is_layered || descriptor.default_users.is_none() {
        return Ok(());
    }
    let (outer, inner) = (&outer.kind, &inner.kind);
    Err(Fault::user(format!(
        "{inner}: `{option}` maps the owners of files, and those in `{outer}` are on an overlay, \
         of which the kernel maps none"
    ))
    .hint(format!("say `{instead}`, or use `{inner}` without `{outer}`")))
}

#[cfg(test)]
mod tests {
    use crate::container::users::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn nobody_but_root_of_its_container_calls_as_an_agent() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: only root can give a socket away");
        }
        let place = tempfile::tempdir().unwrap();
        let all = [ContainerUsers::OfTheLevel, ContainerUsers::Own, ContainerUsers::OfAnEngine];
        for (users, owner) in all.into_iter().zip([0, FIRST, rootless::USER]) {
            let socket = place.path().join(format!("{users:?}"));
            let _call = users.listen(&socket).unwrap();
            let found = fs::metadata(&socket).unwrap();
            let found = (found.mode() & 0o777, found.uid(), found.gid());
            assert_eq!(found, (0o600, owner, owner), "{users:?}");
        }
    }

    #[test]
    fn a_line_is_added_to_what_the_machine_has() {
        assert_eq!(with_line("root:x:0:0\n", "a"), "root:x:0:0\na\n");
        assert_eq!(with_line("root:x:0:0", "a"), "root:x:0:0\na\n");
        assert_eq!(with_line("", "a"), "a\n");
    }
}
