//! Golden files: texts that a test holds against a file of `golden/`.
//!
//! `SURTAX_BLESS=1` writes it anew: a change shows in review as changed lines.

use std::path::Path;

/// Holds a text against `golden/DIRECTORY/NAME`.
pub fn hold(directory: &str, name: &str, told: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/golden");
    let file = golden.join(directory).join(name);
    if std::env::var_os("SURTAX_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, told).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(told, written, "`{name}`: see it with SURTAX_BLESS=1 and `git diff`");
}
