//! Prices of files: on the medium that the directory is on, through this kernel's cache.

use super::Setting;
use super::batch::{Measured, measure_once};
use rustix::fs::{Mode, OFlags, RawDir};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Number of bytes read and written at once.
const BLOCK: usize = 4096;

/// Number of bytes read at once where much is.
const LARGE: usize = 64 << 10;

/// Files of the root that are asked for the first time: in one batch, and at most.
const FIRST_BATCH: usize = 16;
const LIST_BATCH: usize = 4;
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
    let files = Root::look()?.files(0);
    let all = (files.as_slice(), FIRST_BATCH);
    measure_once(
        setting.budget,
        all,
        |path| Ok(path.clone()),
        |path| fs::symlink_metadata(path).map(drop),
    )
}

pub fn open_first(setting: &Setting) -> io::Result<Measured> {
    let files = Root::look()?.files(1);
    let all = (files.as_slice(), FIRST_BATCH);
    measure_once(setting.budget, all, |path| Ok(path.clone()), |path| File::open(path).map(drop))
}

/// The file is open already.
pub fn read_first(setting: &Setting) -> io::Result<Measured> {
    let files = Root::look()?.files(2);
    let mut block = [0; BLOCK];
    let (all, open) = ((files.as_slice(), FIRST_BATCH), |path: &PathBuf| File::open(path));
    measure_once(setting.budget, all, open, |mut file| file.read(&mut block).map(drop))
}

/// The folder is open already.
pub fn list_first(setting: &Setting) -> io::Result<Measured> {
    let folders = Root::look()?.unread;
    let open = |path: &PathBuf| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?)
    };
    let mut names = [MaybeUninit::uninit(); 32 << 10];
    measure_once(setting.budget, (folders.as_slice(), LIST_BATCH), open, |folder| {
        let mut entries = RawDir::new(&folder, &mut names);
        while let Some(entry) = entries.next() {
            entry?;
        }
        Ok(())
    })
}

/// Files and folders of the root that nobody has asked for yet in a stack that was just started.
pub(super) struct Root {
    /// Names were read, and nothing else of them.
    files: Vec<PathBuf>,
    /// Folders whose names were read, and not what is in them.
    unread: Vec<PathBuf>,
}

impl Root {
    /// Looks below `/usr`.
    pub(super) fn look() -> io::Result<Self> {
        let mut unread = VecDeque::from([PathBuf::from("/usr/share"), PathBuf::from("/usr/lib")]);
        let mut files = Vec::new();
        while files.len() < FILES_MAX
            && let Some(folder) = unread.pop_front()
        {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() && unread.len() < FOLDERS_MAX {
                    unread.push_back(entry.path());
                } else if kind.is_file() {
                    files.push(entry.path());
                }
            }
        }
        // Alike in every stack, whatever order its directories are in.
        files.sort_unstable();
        let mut unread = Vec::from(unread);
        unread.sort_unstable();
        Ok(Self { files, unread })
    }

    /// Files that are at least so long, in bytes.
    pub(super) fn large(self, length: usize) -> io::Result<Vec<PathBuf>> {
        let is_large = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|it| usize::try_from(it.len()).is_ok_and(|it| it > length))
        };
        Ok(self.files.into_iter().filter(is_large).collect())
    }

    /// Every third file, from this one on, so that each price has others.
    fn files(self, from: usize) -> Vec<PathBuf> {
        self.files.into_iter().skip(from).step_by(3).collect()
    }
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
