//! Homes: directories in which whoever runs surtax configures the programs that surtax starts, or
//! has some.
//!
//! Of a program in `PATH` that only starts another one, such as `python3` of pyenv, that other one
//! lies in a tree of versions, which a variable may name.
//!
//! A home is that of `HOME`, and that of the user's number in `/etc/passwd`, which is how `ssh`
//! finds its own; under `sudo` also that of whoever typed it.
//!
//! Source: `passwd(5)`; `ssh_config(5)`; XDG Base Directory Specification; `file-hierarchy(7)`; the
//! manuals of what `PROGRAMS` names, of their environment variables; Python 3.11, `site`.

use super::configuration;
use super::places::{Extent, Place, Reason};
use crate::fault::Fault;
use crate::lab::sudoer;
use crate::table::rows;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Directories of a home that configure the programs that surtax starts, and what these start.
const CONFIGURATIONS: [&str; 9] = [
    ".config/containers", ".config/environment.d", ".config/libvirt", ".config/lxc",
    ".config/systemd", ".docker", ".local/share/lxc", ".local/share/systemd", ".ssh",
];

/// Directories of a home with programs, or with what these load, and the variables that name
/// another such directory.
const PROGRAMS: &str = include_str!("homes.tsv");

const CONFIGURATION: Reason =
    Reason::started("where the configuration of programs that surtax starts lies");
const VERSIONS: Reason =
    Reason::started("where programs of a user's lie, their versions or what these load");

/// The file that says where users' homes are, and the most bytes of it that are read.
const USERS: &str = "/etc/passwd";
const USERS_MOST: u64 = 16 << 20;

/// Lists what configures the programs of whoever runs surtax, or of who typed `sudo`, in a home,
/// and where programs of a home lie.
///
/// # Errors
/// The machine's: nobody can say where homes are.
pub(super) fn places() -> Result<Vec<Place>, Fault> {
    let us = rustix::process::geteuid().as_raw();
    let users: Vec<u32> = [Some(us), sudoer::uid()].into_iter().flatten().collect();
    let named = std::env::var_os("HOME").map(PathBuf::from);
    let homes = homes(named, &users, Path::new(USERS))?;
    let programs = programs(&homes, |variable| std::env::var_os(variable));
    Ok(configurations(&homes).into_iter().chain(programs).collect())
}

/// Lists where programs of these homes lie, and where a variable says so.
fn programs(homes: &[PathBuf], value: impl Fn(&str) -> Option<OsString>) -> Vec<Place> {
    let usual = homes.iter().flat_map(|home| rows(PROGRAMS).map(|[name, _]| home.join(name)));
    let named = variables().filter_map(|variable| {
        let path = value(variable).map(PathBuf::from).filter(|path| path.is_absolute())?;
        let remedy = format!(", or have `{variable}` name another one");
        Some(Place::named(path, VERSIONS).or(remedy))
    });
    usual.map(|path| Place::new(path, Extent::Whole, VERSIONS)).chain(named).collect()
}

/// Lists the variables of the table, of which some directories have none.
fn variables() -> impl Iterator<Item = &'static str> {
    let cells = rows(PROGRAMS).map(|[_, variables]| variables);
    cells.flat_map(|cell| cell.split(' ')).filter(|variable| *variable != "-")
}

fn configurations(homes: &[PathBuf]) -> Vec<Place> {
    let below = |home: &PathBuf| CONFIGURATIONS.map(|name| home.join(name));
    let paths = homes.iter().flat_map(below);
    paths.map(|path| Place::new(path, Extent::Whole, CONFIGURATION)).collect()
}

/// The homes of users by number, and the one that is named.
fn homes(named: Option<PathBuf>, users: &[u32], table: &Path) -> Result<Vec<PathBuf>, Fault> {
    let text = configuration::read(table, USERS_MOST)?;
    let text = String::from_utf8_lossy(&text);
    let found = users.iter().filter_map(|user| home(&text, *user));
    let mut homes: Vec<PathBuf> = named.into_iter().chain(found).collect();
    homes.retain(|home| home.is_absolute() && home.parent().is_some());
    homes.dedup();
    Ok(homes)
}

/// The home of a user by number, in the text of a file such as `/etc/passwd`.
fn home(users: &str, user: u32) -> Option<PathBuf> {
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_them = fields.get(2)?.parse() == Ok(user);
        is_them.then(|| fields.get(5).map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "root:x:0:0:root:/root:/bin/bash\n# 7\n7:x:8:8::/eight:/bin/sh\n\n\
                         ann:x:7:7:Ann,,,:/home/ann:/bin/zsh\nbob:x:9:9::relative:/bin/sh\n\
                         short:x:10\nlate:x:7:7::/home/late:/bin/sh\nnone:x:11:11::/:/bin/sh\n";

    #[test]
    fn a_home_is_that_of_the_number_and_not_of_the_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TABLE).unwrap();
        for (named, users, found) in [
            (Some("/root"), &[0][..], &["/root"][..]),
            (Some("/tmp/home"), &[0, 7], &["/tmp/home", "/root", "/home/ann"]),
            (None, &[7], &["/home/ann"]),
            (None, &[9, 10, 11, 12], &[]),
            (Some("relative"), &[8], &["/eight"]),
        ] {
            let homes = homes(named.map(PathBuf::from), users, file.path()).unwrap();
            let found: Vec<PathBuf> = found.iter().map(PathBuf::from).collect();
            assert_eq!(homes, found, "{named:?} {users:?}");
        }
    }

    #[test]
    fn a_table_of_users_that_cannot_be_read_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(USERS_MOST + 1).unwrap();
        let fault = homes(None, &[0], file.path()).unwrap_err();
        assert!(fault.message.contains("it is longer than"), "{fault}");
    }

    #[test]
    fn programs_of_a_home_lie_where_they_usually_do_and_where_a_variable_says() {
        let value = |variable: &str| match variable {
            "PYENV_ROOT" => Some("/srv/pyenv".into()),
            "GOBIN" => Some("relative".into()),
            "NVM_DIR" => Some("".into()),
            "CARGO_HOME" => Some("/tmp".into()),
            _ => None,
        };
        let found = programs(&[PathBuf::from("/root"), PathBuf::from("/home/ann")], value);
        let extent = |path: &str| {
            found.iter().find(|place| place.path == Path::new(path)).map(|place| place.extent)
        };
        for path in ["/root/.pyenv", "/home/ann/.rustup", "/home/ann/go/bin", "/srv/pyenv"] {
            assert_eq!(extent(path), Some(Extent::Whole), "{path}");
        }
        assert_eq!(extent("/tmp"), Some(Extent::Itself), "it is everybody's");
        assert_eq!(found.len(), 2 * rows::<2>(PROGRAMS).count() + 2);
    }

    #[test]
    fn the_book_has_what_lies_in_a_home() {
        let book = include_str!("../../../docs/what-it-does-to-your-machine.md");
        for variable in variables() {
            assert!(book.contains(&format!("`{variable}`")), "`{variable}`");
        }
        let homes = [PathBuf::new()];
        for place in configurations(&homes).iter().chain(&programs(&homes, |_| None)) {
            let path = place.path.display();
            assert!(book.contains(&format!("`{path}`")), "`{path}`");
        }
    }
}
