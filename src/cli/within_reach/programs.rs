//! Programs that surtax and root start: surtax itself, and what is in the directories of `PATH`.
//!
//! A directory is read once, also where `PATH` names it twice. Each link in there is a program, and
//! so is what scripts there are interpreted by. All of them may load modules from beside
//! themselves.
//!
//! Source: `environ(7)`, `PATH`; `execvp(3)`.

use super::places::{Extent, Place, Reason};
use super::{interpreter, modules};
use crate::plan::writable::real;
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

const OURSELVES: Reason = Reason::started("surtax itself");
const DIRECTORY: Reason = Reason::started("a directory of `PATH`");
const LINK: Reason = Reason::started("a program of a directory of `PATH`");
const NAMED: Reason =
    Reason::started("named in the first line of a program of a directory of `PATH`");
const MODULES: Reason =
    Reason::started("where a program of a directory of `PATH` may load modules from");

/// Lists the places from which programs are started: surtax's own file, the directories of `PATH`,
/// be they relative to where surtax was called, and where these lead.
pub(super) fn places() -> Vec<Place> {
    // Without the variable, programs are looked for in places of the table.
    let path = std::env::var_os("PATH");
    let directories = path.iter().flat_map(std::env::split_paths);
    let directories: Vec<PathBuf> = directories
        .filter_map(|directory| std::path::absolute(Path::new(".").join(directory)).ok())
        .collect();
    let ourselves = std::env::current_exe().ok().map(|path| {
        Place::new(path, Extent::Itself, OURSELVES).or(", or install surtax elsewhere")
    });
    ourselves.into_iter().chain(of(&directories)).collect()
}

/// Lists programs that are started by their paths, what their first lines name, and where all these
/// may load modules from.
pub(super) fn started(
    programs: impl IntoIterator<Item = PathBuf>,
    reason: Reason,
) -> impl Iterator<Item = Place> {
    let mut all: BTreeSet<PathBuf> = programs.into_iter().collect();
    all.extend(interpreter::named(all.clone()));
    all.extend(modules::beside(&all));
    all.into_iter().map(move |path| Place::named(path, reason))
}

/// Lists these directories and what their entries lead to.
pub(super) fn of(directories: &[PathBuf]) -> Vec<Place> {
    let mut read = BTreeSet::new();
    let mut places = Vec::new();
    for directory in directories {
        let remedy = format!(", or take `{}` off `PATH`", directory.display());
        let place = |path, reason| Place::new(path, Extent::Itself, reason);
        places.push(place(directory.clone(), DIRECTORY).or(&remedy));
        if !read.insert(real(directory)) {
            continue;
        }
        let entries: Vec<DirEntry> = directory.read_dir().into_iter().flatten().flatten().collect();
        let is_link = |entry: &&DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let itself = ", or put the program itself in place of the link";
        let links = entries.iter().filter(is_link).map(|entry| place(entry.path(), LINK));
        places.extend(links.map(|place| place.or(itself).or(&remedy)));
        let programs = entries.iter().map(DirEntry::path);
        let programs: Vec<PathBuf> = programs.filter(|it| interpreter::is_program(it)).collect();
        let named = interpreter::named(programs.clone());
        let modules = modules::beside(programs.iter().chain(&named));
        places.extend(named.into_iter().map(|path| Place::named(path, NAMED).or(&remedy)));
        places.extend(modules.into_iter().map(|path| Place::named(path, MODULES).or(&remedy)));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_directory_that_path_names_twice_is_read_once_and_its_links_and_scripts_are_followed() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        symlink("bin", at("again")).unwrap();
        symlink("/srv/tool/current", at("bin/tool")).unwrap();
        fs::write(at("bin/script"), "#!/srv/python/bin/python\n").unwrap();
        fs::set_permissions(at("bin/script"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at("bin/text"), "#!/srv/text\n").unwrap();
        let found = of(&[at("bin"), at("again"), at("bin"), at("none")]);
        let found: Vec<(&Path, Extent, Reason)> =
            found.iter().map(|it| (it.path.as_path(), it.extent, it.reason)).collect();
        assert_eq!(
            found,
            [
                (at("bin").as_path(), Extent::Itself, DIRECTORY),
                (&at("bin/tool"), Extent::Itself, LINK),
                (Path::new("/srv/python/bin/python"), Extent::Whole, NAMED),
                (Path::new("/srv/python/lib"), Extent::Whole, MODULES),
                (&at("lib"), Extent::Whole, MODULES),
                (&at("again"), Extent::Itself, DIRECTORY),
                (&at("bin"), Extent::Itself, DIRECTORY),
                (&at("none"), Extent::Itself, DIRECTORY),
            ]
        );
    }
}
