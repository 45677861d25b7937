//! Place of libkrun: with the machine's loader, as its users install it, or in our cache, as
//! `setup/krun.sh` makes it.

use super::library::{ARGUMENT, FIRMWARE, LIBRARY};
use crate::fault::Fault;
use crate::lab::{Room, ToolRun};
use crate::layer::Unavailable;
use std::path::{Path, PathBuf};
use surtax_instrument::wire::Cause;

/// The library and its guests' kernel.
pub(super) struct Library {
    /// The directory that they are loaded from; empty where the loader finds them.
    pub(super) place: PathBuf,
    /// The library's file.
    pub(super) library: PathBuf,
    /// The file with the kernel.
    pub(super) firmware: PathBuf,
}

impl Library {
    /// Has a process of ours load both and say which files they are.
    ///
    /// # Errors
    /// Either is nowhere.
    pub(super) fn look(cache: &Path, room: &Room, program: &Path) -> Result<Self, Unavailable> {
        let kept = cache.join("krun");
        let place = if kept.join(LIBRARY).is_file() { kept } else { PathBuf::new() };
        let words = [program, Path::new(ARGUMENT), Path::new("look"), &place];
        let words: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = ToolRun::new(&words).text(room).map_err(missing)?;
        let mut files = said.lines().map(PathBuf::from);
        let (Some(library), Some(firmware)) = (files.next(), files.next()) else {
            return Err(Unavailable::new(
                format!("libkrun is here without `{FIRMWARE}`, the kernel of its guests"),
                REMEDY,
            ));
        };
        Ok(Self { place, library, firmware })
    }
}

/// Both are made by one project; Debian 12 has neither.
const REMEDY: &str = "install libkrun 1.19 or later with libkrunfw, of your distribution or by its \
                      own `make install`, or run `setup/krun.sh`, which builds both";

fn missing(fault: Fault) -> Unavailable {
    let is_absent = fault.cause == Some(Cause::NoSuchLibrary);
    let why = if is_absent { format!("the loader finds no `{LIBRARY}`") } else { fault.message };
    Unavailable::new(why, REMEDY)
}
