//! Trees of files that stand for `/proc` and `/sys` of some machine.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A tree that is removed with its owner.
pub(crate) struct Tree(PathBuf);

/// Makes one of these files and their texts.
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("surtax-probe-{}-{number}", std::process::id());
    let tree = Tree(std::env::temp_dir().join(name));
    std::fs::create_dir(tree.path()).unwrap();
    for (path, text) in files {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    tree
}

impl Tree {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
