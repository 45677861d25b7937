//! The OCI runtimes of a private daemon: those that are installed, by the names that people give
//! them.

use super::engine::About;
use crate::container::engine_runtime::Kernel;
use crate::fault::{Doing, Fault};
use crate::lab;
use crate::layer::LayerSpec;
use serde_json::{Map, Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Runtimes that a daemon is given beside `runc`.
const NAMES: [&str; 3] = ["crun", "runsc", "youki"];

/// Beginning of the full name of a shim, as in `io.containerd.kata.v2`.
const SHIM_TYPE: &str = "io.containerd.";

/// Advice where a shim is missing.
const INSTALL_SHIM: &str =
    "install Kata Containers and add it to `runtimes` of the machine's own daemon";

/// Tells whether a runtime is Kata's, which comes as a shim of containerd with an installation of
/// its own.
fn is_kata(name: &str) -> bool {
    Kernel::behind(name) == Kernel::Machine
}

/// That a private daemon would have the runtime of a spec.
///
/// # Errors
/// The user's: it would not.
pub fn require(spec: &LayerSpec) -> Result<(), Fault> {
    match spec.option("runtime") {
        None | Some("runc") => Ok(()),
        Some(name) if NAMES.contains(&name) => match lab::find(name) {
            Some(_) => Ok(()),
            None => Err(Fault::user(format!("docker: the runtime `{name}` is not in `PATH`"))
                .hint("install it, as `surtax doctor` says of the layer of its name")),
        },
        Some(name) if is_kata(name) => Err(Fault::user(format!(
            "docker: a private daemon has no `{name}`, which starts virtual machines by a shim of \
             its own"
        ))
        .hint(INSTALL_SHIM)),
        Some(name) => Err(Fault::user(format!(
            "docker: a private daemon has no runtime `{name}`, only runc, {}",
            NAMES.join(", ")
        ))
        .hint("start the machine's own daemon, with `runtimes` in /etc/docker/daemon.json")),
    }
}

/// That a daemon has the runtime of a spec.
///
/// # Errors
/// The user's: it has others.
pub fn require_of(spec: &LayerSpec, about: &About) -> Result<(), Fault> {
    let Some(wanted) = spec.option("runtime") else { return Ok(()) };
    // From 23.0 on, with which version 1.42 came, a daemon finds a shim by its full name, without
    // being told.
    let is_found = wanted.starts_with(SHIM_TYPE)
        && (about.spoken.major_version, about.spoken.minor_version) >= (1, 42);
    if is_found {
        return Ok(());
    }
    let runtimes = about.info.runtimes.as_ref();
    if runtimes.is_some_and(|runtimes| runtimes.contains_key(wanted)) {
        return Ok(());
    }
    let mut names: Vec<&str> =
        runtimes.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    Err(Fault::user(format!(
        "docker: the daemon has no runtime `{wanted}`, only {}",
        names.join(", ")
    ))
    .hint(match is_kata(wanted) {
        true => INSTALL_SHIM,
        false => "add it to `runtimes` in /etc/docker/daemon.json",
    }))
}

/// The value of `runtimes` in `daemon.json`. crun refuses to work where cgroup v2 is mounted beside
/// v1; there it is started by a script in `directory`, which hides that mount from it alone.
///
/// # Errors
/// The machine's: the script cannot be written.
pub fn declare(directory: &Path, unified: Option<&Path>) -> Result<Value, Fault> {
    let mut runtimes = Map::new();
    for name in NAMES {
        let Some(mut path) = lab::find(name) else { continue };
        if let (Some(unified), "crun") = (unified, name) {
            let text = script(&path, unified);
            path = directory.join(name);
            fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
                .doing(format_args!("write the script `{}`", path.display()))?;
        }
        runtimes.insert(name.to_owned(), json!({ "path": path }));
    }
    Ok(Value::Object(runtimes))
}

fn script(crun: &Path, unified: &Path) -> String {
    let (crun, unified) = (crun.display(), unified.display());
    format!(
        "#!/bin/sh\n\
         exec unshare --mount --propagation private sh -c \\\n    \
         'umount \"{unified}\" && exec \"$0\" \"$@\"' '{crun}' \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_a_private_daemon_cannot_have_is_refused_with_a_way_out() {
        let refused = |name: &str| {
            let options = [("runtime".to_owned(), name.to_owned())].into();
            require(&LayerSpec { kind: "docker".into(), options })
        };
        assert_eq!(refused("runc"), Ok(()));
        let fault = refused("kata").unwrap_err();
        assert!(fault.message.contains("`kata`"), "{fault}");
        assert!(fault.hint.unwrap().contains("Kata Containers"));
        assert!(refused("gvisor").unwrap_err().message.contains("only runc, crun"));
    }

    #[test]
    fn crun_does_not_see_the_second_hierarchy() {
        let text = script(Path::new("/usr/bin/crun"), Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(
            text,
            "#!/bin/sh\nexec unshare --mount --propagation private sh -c \\\n    \
             'umount \"/sys/fs/cgroup/unified\" && exec \"$0\" \"$@\"' '/usr/bin/crun' \"$@\"\n"
        );
    }
}
