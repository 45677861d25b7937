//! Changes a setting of the machine, and changes it back only if it still holds what we wrote.

use crate::fault::{Doing, Fault};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Reads what a setting holds now.
pub(super) fn read(path: &Path) -> Result<String, Fault> {
    let is_setting = path.starts_with("/proc/sys") || path.starts_with("/sys");
    if !is_setting || path.iter().any(|part| part == "..") {
        return Err(Fault::bug(format!("`{}` is not a setting", path.display())));
    }
    let text =
        fs::read_to_string(path).doing(format_args!("read the setting `{}`", path.display()))?;
    Ok(text.trim_end().to_owned())
}

/// Writes a setting; one that the kernel did not take as it was written is put back and refused.
pub(super) fn write(path: &Path, ours: &str, before: &str) -> Result<(), Fault> {
    let at = path.display();
    fs::write(path, ours).doing(format_args!("set `{at}` to `{ours}`"))?;
    let holds = read(path)?;
    if holds == ours {
        return Ok(());
    }
    fs::write(path, before).doing(format_args!("set `{at}` back to `{before}`"))?;
    Err(Fault::machine(format!("`{at}` held `{holds}` after `{ours}` was written")))
}

/// Puts a setting back. One that somebody else has changed meanwhile is left, and said.
pub(super) fn restore(path: &Path, ours: &str, before: &str) -> Result<Vec<String>, Fault> {
    let at = path.display();
    let holds = match fs::read_to_string(path) {
        Ok(text) => text.trim_end().to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).doing(format_args!("read the setting `{at}` again")),
    };
    if holds == before {
        return Ok(Vec::new());
    }
    if holds != ours {
        return Ok(vec![format!(
            "`{at}` holds `{holds}`, not our `{ours}`: left as somebody else set it (it was \
             `{before}`)"
        )]);
    }
    fs::write(path, before).doing(format_args!("restore `{at}` to `{before}`"))?;
    Ok(Vec::new())
}
