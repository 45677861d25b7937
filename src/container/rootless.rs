//! A rootless engine: one that an unprivileged user runs, with users of that user's own in its
//! containers.
//!
//! surtax itself is root. So it makes what such a user has, in the room and nowhere else: the user
//! is a number that this machine gives to nobody, its name and its subordinate users are in files
//! that lie over `/etc` in the engine's mount namespace alone, and its home is a directory of the
//! room. The user and the subordinate ones follow each other, so that root inside is the user and
//! the container's users are those of [`crate::lab::users`], to which the files of its root are
//! mapped.
//!
//! Source: `subuid(5)`, `newuidmap(1)`, `user_namespaces(7)`.

use crate::container::first_process::FirstProcess;
use crate::container::users::{over_etc, prove_map};
use crate::fault::{Doing, Fault};
use crate::lab::users::{COUNT, FIRST};
use crate::lab::{self, Mount};
use crate::layer::{LayerSpec, OptionSpec, Unavailable, option};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surtax_instrument::wire::Fact;

/// The option.
pub(crate) const CHOICE: OptionSpec = option("rootless", &["on", "off"]).help(
    "whether the engine is run by a user without privileges, whom surtax makes for it (default: \
     off)",
);

/// The number of the user and of its group.
pub(crate) const USER: u32 = FIRST;

/// Name of the user and of its group, where they are known.
const NAME: &str = "surtax-rootless";

/// Settings of kernels that forbid what a rootless engine begins with, and the value that does.
const FORBIDDING: [(&str, &str); 3] = [
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
];

/// Tells whether a spec asks for a rootless engine.
pub(crate) fn is_asked(spec: &LayerSpec) -> bool {
    spec.says("rootless", "on")
}

/// The map of the users of its containers, as the kernel prints it: inside, here, how many.
pub(crate) fn user_map() -> String {
    format!("0 {USER} 1 1 {} {}", USER + 1, COUNT - 1)
}

/// That this machine lets a user without privileges be root in a namespace, and has these programs
/// of the Debian packages beside them.
///
/// # Errors
/// What is missing or forbidden.
pub(crate) fn require(kind: &str, programs: &[(&str, &str)]) -> Result<(), Unavailable> {
    let own = [("newuidmap", "uidmap"), ("newgidmap", "uidmap")];
    for (program, package) in own.iter().chain(programs) {
        if lab::find(program).is_none() {
            return Err(Unavailable::new(
                format!("{kind}: `rootless=on` takes `{program}`, which is not in `PATH`"),
                format!("apt-get install {package}"),
            ));
        }
    }
    for (setting, value) in FORBIDDING {
        let found = fs::read_to_string(setting).unwrap_or_default();
        if found.trim_end() == value {
            let name = setting.trim_start_matches("/proc/sys/").replace('/', ".");
            let better = if value == "0" { "15000" } else { "0" };
            return Err(Unavailable::new(
                format!(
                    "{kind}: this kernel lets no user make a user namespace: `{name}` is {value}"
                ),
                format!("sysctl -w {name}={better}"),
            ));
        }
    }
    Ok(())
}

/// Makes a directory that belongs to the user, and to nobody else.
///
/// # Errors
/// The machine's: it cannot be made.
pub(crate) fn directory(path: &Path) -> Result<(), Fault> {
    lab::make_for(USER, path)
}

/// The mount by which the user is known in its engine's mount namespace. `home` is where its home
/// is.
///
/// # Errors
/// The machine's: a file cannot be read or written.
pub(crate) fn known(directory: &Path, home: &Path) -> Result<Mount, Fault> {
    over_etc(directory, &lines(home))
}

/// The files that know a user, and what they say of this one.
pub(crate) fn lines(home: &Path) -> [(&'static str, String); 4] {
    let subordinate = format!("{NAME}:{}:{}", USER + 1, COUNT - 1);
    [
        ("passwd", format!("{NAME}:x:{USER}:{USER}::{}:/bin/sh", home.display())),
        ("group", format!("{NAME}:x:{USER}:")),
        ("subuid", subordinate.clone()),
        ("subgid", subordinate),
    ]
}

/// Gives a file or directory to the user of a container to whom its owner here is mapped.
///
/// # Errors
/// The machine's: it cannot be given away.
pub(crate) fn hand_over(path: &Path) -> Result<(), Fault> {
    let doing = format!("give `{}` to a user without privileges", path.display());
    let found = fs::metadata(path).doing(&doing)?;
    let mapped = |id: u32| if id < COUNT { USER + id } else { USER };
    std::os::unix::fs::chown(path, Some(mapped(found.uid())), Some(mapped(found.gid())))
        .doing(&doing)
}

/// The mount of what a user has while it is logged in: memory that is its own.
pub(crate) fn session(target: &Path) -> Mount {
    Mount::fresh("tmpfs", target, format!("nosuid,nodev,mode=0700,uid={USER},gid={USER}"))
}

/// The environment of a user: where its home is, and where it keeps what is gone with its session.
pub(crate) fn environment(home: &Path, session: &Path) -> Vec<(String, String)> {
    let places = [("HOME", home), ("XDG_RUNTIME_DIR", session)];
    let text = |(key, path): (&str, &Path)| (key.to_owned(), path.to_string_lossy().into_owned());
    places.map(text).to_vec()
}

/// That the engine's process is the user's, and that its containers' root is the user as well.
///
/// # Errors
/// The machine's: somebody with privileges runs it, or its container's users are others.
pub(crate) fn prove(engine: &FirstProcess, first: &FirstProcess) -> Result<Vec<Fact>, Fault> {
    let status = engine.text("status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let users: Vec<&str> = line.split_whitespace().collect();
    let asked = USER.to_string();
    if users.is_empty() || users.iter().any(|user| *user != asked) {
        return Err(Fault::machine(format!(
            "the engine was to be run by user {asked}, and its users are `{}`",
            users.join(" ")
        )));
    }
    Ok(vec![
        Fact::new("rootless", "true", "/proc/PID/status of the engine"),
        Fact::new("engine_user", asked, "/proc/PID/status of the engine"),
        prove_map(first, &user_map())?,
    ])
}

#[cfg(test)]
mod tests {
    use crate::container::rootless::*;

    #[test]
    fn a_user_is_known_beside_those_of_the_machine() {
        let [passwd, _, subuid, _] = lines(Path::new("/room/home"));
        assert_eq!(passwd.1, "surtax-rootless:x:999948288:999948288::/room/home:/bin/sh");
        assert_eq!(subuid.1, "surtax-rootless:999948289:65535");
    }

    #[test]
    fn a_process_of_root_is_no_rootless_engine() {
        let hierarchies = surtax_instrument::probe::cgroup::Hierarchies::default();
        let ourselves = FirstProcess::of(std::process::id(), &hierarchies);
        let fault = prove(&ourselves, &ourselves).unwrap_err();
        assert!(fault.message.contains("was to be run by user 999948288"), "{fault}");
    }
}
