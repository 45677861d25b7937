//! The environment of the tools that we start: the variables on a list, and no others.
//!
//! Runtimes, daemons and clients run as root. A variable such as `LD_LIBRARY_PATH`, `GCONV_PATH` or
//! `CONTAINERS_CONF` tells them which library or which file to take, and a command may have left
//! one there. So they get the user's name and home, where programs lie and how the network is
//! reached. The command gets the caller's environment all the same: see `trial/command.rs`.

use std::ffi::OsString;
use std::path::Path;

/// Variables that tools get as they are. None of them names a file that is read or executed, but
/// `PATH` and `HOME`, of which `cli/within_reach.rs` looks at what lies in them. `SHELL` is what
/// `ssh` starts for a `ProxyCommand`, and `TZ` may be a file's name.
const PASSED: [&str; 15] = [
    "ALL_PROXY", "HOME", "HTTPS_PROXY", "HTTP_PROXY", "LOGNAME", "NO_PROXY", "PATH",
    "RUST_BACKTRACE", "SSH_AUTH_SOCK", "TERM", "USER", "all_proxy", "http_proxy", "https_proxy",
    "no_proxy",
];

/// Language of what somebody decides by: it is not to be translated.
const LANGUAGE: (&str, &str) = ("LC_ALL", "C.UTF-8");

/// The environment that a tool is started with. A variable that is no UTF-8 is left out.
#[must_use]
pub fn of_tools() -> Vec<(String, String)> {
    passed(std::env::vars_os())
}

fn passed(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let language = (LANGUAGE.0.to_owned(), LANGUAGE.1.to_owned());
    texts(all).filter(|(key, _)| PASSED.contains(&key.as_str())).chain([language]).collect()
}

fn texts(
    all: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    all.filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
}

/// An environment of this process's `PATH` alone: for what is read by somebody who is not to have
/// the keys and tokens that surtax may have been called with.
#[must_use]
pub fn path_alone() -> Vec<(String, String)> {
    vec![(String::from("PATH"), std::env::var("PATH").unwrap_or_default())]
}

/// The same, and what is given.
#[must_use]
pub fn path_and(more: Vec<(String, String)>) -> Vec<(String, String)> {
    path_alone().into_iter().chain(more).collect()
}

/// The same environment with a directory for temporary files, which are gone with it.
#[must_use]
pub fn with_temporary_directory(
    mut environment: Vec<(String, String)>,
    directory: &Path,
) -> Vec<(String, String)> {
    environment.push((String::from("TMPDIR"), directory.display().to_string()));
    environment
}

/// This process's environment as it is, for another surtax or a shell of the user's own. A variable
/// that is no UTF-8 is left out.
#[must_use]
pub fn ours() -> Vec<(String, String)> {
    texts(std::env::vars_os()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_gets_no_variable_that_names_what_it_loads() {
        let caller = [
            ("HOME", "/root"),
            ("LD_LIBRARY_PATH", "/w"),
            ("LD_PRELOAD", "/w/a.so"),
            ("GCONV_PATH", "/w"),
            ("CONTAINERS_CONF", "/w/containers.conf"),
            ("SSH_ASKPASS", "/w/ask"),
            ("SHELL", "/w/sh"),
            ("TZ", ":/w/zone"),
            ("LANG", "de_DE.UTF-8"),
            ("PATH", "/usr/bin"),
        ];
        let found = passed(caller.map(|(key, value)| (key.into(), value.into())).into_iter());
        let wanted = [("HOME", "/root"), ("PATH", "/usr/bin"), LANGUAGE];
        assert_eq!(found, wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn whatever_is_started_without_an_environment_of_its_own_gets_that_of_tools() {
        let state = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(state.path());
        let room = lab.room("environment").unwrap();
        let program = crate::lab::Program {
            argv: vec![String::from("env")],
            ..crate::lab::Program::default()
        };
        let said = crate::lab::tests::output(&room, program);
        let names = said.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        let strangers: Vec<&str> =
            names.filter(|name| !PASSED.contains(name) && *name != LANGUAGE.0).collect();
        assert_eq!(strangers, [""; 0], "cargo sets some of its own, such as CARGO_PKG_NAME");
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    }
}
