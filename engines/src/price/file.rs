//! Prices of files: on the medium that the directory is on, through this kernel's cache.

use super::Setting;
use super::batch::Measured;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Number of bytes read and written at once.
const BLOCK: usize = 4096;

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
