//! Prices of files: on the medium that the directory is on, through this kernel's cache.

use super::Setting;
use super::batch::{Measured, measure_once};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Number of bytes read and written at once.
const BLOCK: usize = 4096;

/// Number of bytes read at once where much is.
const LARGE: usize = 64 << 10;

/// Files of the root that are asked for the first time: in one batch, and at most.
const FIRST_BATCH: usize = 16;
const FILES_MAX: usize = 4000;

/// The most folders that are remembered.
const FOLDERS_MAX: usize = 10_000;

/// A file of one block that is removed when dropped.
struct Sample {
    path: PathBuf,
    file: File,
}

impl Sample {
    fn new(setting: &Setting) -> io::Result<Self> {
        let path = setting.directory.join(format!("surtax-price-{}", std::process::id()));
        let file = File::create_new(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create `{}`: {error}", path.display()))
        })?;
        let sample = Self { path, file };
        sample.file.write_all_at(&[1; BLOCK], 0)?;
        Ok(sample)
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

pub fn open(setting: &Setting) -> io::Result<Measured> {
    let sample = Sample::new(setting)?;
    setting.each(|| File::open(&sample.path).map(drop))
}

pub fn stat(setting: &Setting) -> io::Result<Measured> {
    let sample = Sample::new(setting)?;
    setting.each(|| fs::metadata(&sample.path).map(drop))
}

pub fn read(setting: &Setting) -> io::Result<Measured> {
    let sample = Sample::new(setting)?;
    let mut block = [0; BLOCK];
    setting.each(|| sample.file.read_exact_at(&mut block, 0))
}

pub fn write(setting: &Setting) -> io::Result<Measured> {
    let sample = Sample::new(setting)?;
    setting.each(|| sample.file.write_all_at(&[2; BLOCK], 0))
}

/// Much at once: what each byte costs more is the difference to one block.
pub fn read_large(setting: &Setting) -> io::Result<Measured> {
    let sample = Sample::new(setting)?;
    let mut bytes = vec![3; LARGE];
    sample.file.write_all_at(&bytes, 0)?;
    setting.each(|| sample.file.read_exact_at(&mut bytes, 0))
}

pub fn stat_first(setting: &Setting) -> io::Result<Measured> {
    let files = of_root(0)?;
    measure_once(setting.budget, &files, FIRST_BATCH, |path| fs::symlink_metadata(path).map(drop))
}

pub fn open_first(setting: &Setting) -> io::Result<Measured> {
    let files = of_root(1)?;
    measure_once(setting.budget, &files, FIRST_BATCH, |path| File::open(path).map(drop))
}

/// Every second file below the root's `/usr`, the first ones or the others, whom nobody has asked
/// for yet in a stack that was just started. Their names are read, and nothing else of them.
fn of_root(which: usize) -> io::Result<Vec<PathBuf>> {
    let mut folders = VecDeque::from([PathBuf::from("/usr/share"), PathBuf::from("/usr/lib")]);
    let mut files = Vec::new();
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && folders.len() < FOLDERS_MAX {
                folders.push_back(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
        if files.len() >= FILES_MAX {
            break;
        }
    }
    // Alike in every stack, whatever order its directories are in.
    files.sort_unstable();
    Ok(files.into_iter().skip(which).step_by(2).collect())
}

pub fn create(setting: &Setting) -> io::Result<Measured> {
    setting.each(|| {
        let path = setting.directory.join(format!("surtax-price-{}-new", std::process::id()));
        drop(OpenOptions::new().write(true).create_new(true).open(&path)?);
        fs::remove_file(&path)
    })
}

pub fn fsync(setting: &Setting) -> io::Result<Measured> {
    let sample = Sample::new(setting)?;
    setting.each(|| {
        sample.file.write_all_at(&[2; BLOCK], 0)?;
        sample.file.sync_all()
    })
}
