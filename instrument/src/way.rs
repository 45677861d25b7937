//! The way to a file: each name on it as the kernel looks it up, through symbolic links.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Place whose links are the kernel's: they say what a process has, and come and go with its
/// caches.
const KERNELS: &str = "/proc";

/// Number of links that the kernel follows.
const LINKS_MAX: u32 = 40;

/// A name that is looked up on a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The directory in which it is looked up.
    pub directory: PathBuf,
    /// Entry that it names there, whether that exists or not.
    pub entry: PathBuf,
    /// True if that is a symbolic link that somebody made, along which the way goes on.
    pub is_link: bool,
}

/// The steps of the way to a file, in their order. What the path ends with need not be there. It
/// ends with a link of the kernel's, such as `/proc/self/exe`, that the path ends with: what is
/// opened by that one is found by no name. After 40 links it ends too.
#[derive(Clone, Debug)]
pub struct Way {
    left: Vec<OsString>,
    here: PathBuf,
    links: u32,
}

impl Way {
    /// The way along an absolute path.
    #[must_use]
    pub fn to(path: &Path) -> Self {
        Self { left: names(path), here: PathBuf::from("/"), links: 0 }
    }

    /// Place to which it has come; `None` where it leads in a circle.
    #[must_use]
    pub fn here(&self) -> Option<&Path> {
        (self.links <= LINKS_MAX).then_some(&self.here)
    }
}

impl Iterator for Way {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        while self.links <= LINKS_MAX {
            let name = self.left.pop()?;
            if name == ".." {
                self.here.pop();
                continue;
            }
            let directory = self.here.clone();
            let entry = directory.join(name); // which is `/` where a path begins there
            let is_kernels = entry.starts_with(KERNELS);
            let is_end = is_kernels && self.left.is_empty();
            let target = entry.read_link().ok().filter(|_| !is_end);
            let is_link = target.is_some() && !is_kernels;
            match target {
                Some(target) => {
                    self.links += 1;
                    self.left.extend(names(&target));
                }
                None => self.here.clone_from(&entry),
            }
            return Some(Step { directory, entry, is_link });
        }
        None
    }
}

/// Names of a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    path.iter().rev().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_those_of_the_kernel_and_a_circle_are_not() {
        let place = std::env::temp_dir().join(format!("surtax-way-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let place = std::fs::canonicalize(place).unwrap();
        symlink("nowhere/../file", place.join("link")).unwrap();
        symlink("circle", place.join("circle")).unwrap();
        let links = |path: &Path| {
            let mut way = Way::to(path);
            let links: Vec<PathBuf> =
                way.by_ref().filter(|step| step.is_link).map(|step| step.entry).collect();
            (links, way.here().map(Path::to_path_buf))
        };
        let link = place.join("link");
        assert_eq!(links(&link), (vec![link.clone()], Some(place.join("file"))));
        let ours = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
        assert_eq!(links(Path::new("/proc/self/exe")), (Vec::new(), Some(ours)));
        let through = Path::new("/proc/self/root").join(link.strip_prefix("/").unwrap());
        assert_eq!(links(&through), (vec![link], Some(place.join("file"))));
        // Memory that is shared lies in `/dev`, and its links are anybody's.
        let shared = PathBuf::from(format!("/dev/shm/surtax-way-{}", std::process::id()));
        symlink(place.join("file"), &shared).unwrap();
        assert_eq!(links(&shared), (vec![shared.clone()], Some(place.join("file"))));
        std::fs::remove_file(shared).unwrap();
        let (followed, end) = links(&place.join("circle"));
        assert_eq!((followed.len(), end), (41, None));
        std::fs::remove_dir_all(place).unwrap();
    }
}
