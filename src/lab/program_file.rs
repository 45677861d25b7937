//! Files that root obeys: programs that a user names, and what is found without being named.

use super::{exclusive, sudoer};
use crate::fault::Fault;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surtax_instrument::command_file::is_program;

/// Permission bit of everybody to execute a file, or to pass through a directory.
const EXECUTE: u32 = 0o001;

/// Advice where somebody else could exchange a program.
const MOVE_HINT: &str = "copy it to a directory that only root writes to, as `/usr/local/lib`";

/// Returns the path, without symbolic links, of a program that was named. Nobody but root, we and
/// whoever typed `sudo` can change it, or put another in its place.
///
/// # Errors
/// The user's: it is no absolute path, not there, or nothing that can be executed. The machine's:
/// somebody else could exchange it.
pub fn trusted_program(named: &Path) -> Result<PathBuf, Fault> {
    if !named.is_absolute() {
        let message = format!("`{}` is no absolute path", named.display());
        return Err(Fault::user(message).hint("begin it with `/`"));
    }
    let file = exclusive::trusted_file(named, sudoer::uid())
        .map_err(|fault| if fault.hint.is_some() { fault.hint(MOVE_HINT) } else { fault })?;
    if is_program(&file) {
        return Ok(file);
    }
    let at = file.display();
    let fault = Fault::user(format!("`{at}` is not a file that may be executed"));
    Err(if file.is_file() { fault.hint(format!("chmod a+x {at}")) } else { fault })
}

/// Requires that nobody but root, we and whoever typed `sudo` can change a file that nobody named,
/// or put another in its place.
///
/// # Errors
/// The user's: it is not there. The machine's: somebody else could.
pub fn require_trusted_file(path: &Path) -> Result<(), Fault> {
    exclusive::trusted_file(path, sudoer::uid()).map(drop)
}

/// Requires that everybody may execute a program, as who has no privileges needs it.
///
/// # Errors
/// The user's: not everybody may, or may pass through the directories in which it lies.
pub fn require_world_executable(program: &Path) -> Result<(), Fault> {
    let shut = |path: &&Path| !fs::metadata(path).is_ok_and(|it| it.mode() & EXECUTE != 0);
    let Some(shut) = program.ancestors().find(shut) else { return Ok(()) };
    let (at, shut) = (program.display(), shut.display());
    let message =
        format!("`{at}` is started by a user without privileges, whom `{shut}` keeps off");
    Err(Fault::user(message).hint(MOVE_HINT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const STRANGER: u32 = 54_321;

    fn mode(file: &Path, mode: u32) {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_is_taken_by_any_way_on_which_nobody_else_can_exchange_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let why = |path: &Path| trusted_program(path).unwrap_err().message;
        assert!(why(Path::new("runsc")).contains("no absolute path"));
        assert!(why(&at("tool")).contains("is not there"));
        assert!(why(place.path()).contains("is not a file that may be executed"));
        fs::write(at("tool"), "").unwrap();
        mode(&at("tool"), 0o644);
        let fault = trusted_program(&at("tool")).unwrap_err();
        assert_eq!(fault.hint, Some(format!("chmod a+x {}", at("tool").display())));
        mode(&at("tool"), 0o755);
        assert_eq!(trusted_program(&at("tool")), Ok(at("tool")));
        fs::create_dir(at("way")).unwrap();
        symlink(at("tool"), at("way/link")).unwrap();
        assert_eq!(trusted_program(&at("way/link")), Ok(at("tool")));
        assert!(why(&at("tool/below")).contains("itself"), "no way through a file");

        mode(&at("tool"), 0o757);
        assert!(why(&at("way/link")).contains("others can write to"));
        mode(&at("tool"), 0o755);
        mode(&at("way"), 0o777);
        assert!(why(&at("way/link")).contains("others can write to"));
        // There nobody can rename what is another's.
        mode(&at("way"), 0o1777);
        assert_eq!(trusted_program(&at("way/link")), Ok(at("tool")));
    }

    #[test]
    fn a_program_of_whoever_typed_sudo_is_taken_and_a_stranger_s_is_not() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: only root may give files away");
        }
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("home/tool");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        mode(&file, 0o755);
        for of_theirs in [&file, file.parent().unwrap()] {
            chown(of_theirs, Some(STRANGER), Some(STRANGER)).unwrap();
        }
        assert_eq!(exclusive::trusted_file(&file, Some(STRANGER)), Ok(file.clone()));
        for (shared, usual) in [(&*file, 0o755), (file.parent().unwrap(), 0o755)] {
            mode(shared, 0o775);
            let fault = exclusive::trusted_file(&file, Some(STRANGER)).unwrap_err();
            assert!(fault.message.contains("others can write to"), "{fault}");
            mode(shared, usual);
        }
        let fault = exclusive::trusted_file(&file, None).unwrap_err();
        assert!(fault.message.contains("belongs to user 54321"), "{fault}");
        let fault = trusted_program(&file).unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some(MOVE_HINT));
        mode(place.path(), 0o700);
        let fault = require_world_executable(&file).unwrap_err();
        assert!(fault.message.contains(&format!("`{}` keeps off", place.path().display())));
        mode(place.path(), 0o755);
        assert_eq!(require_world_executable(&file), Ok(()));
    }
}
