//! Builds the static agent, so that the binary carries it and no installation can lose it.
//!
//! It is built by a cargo of its own into a directory of its own: the agent is linked statically
//! for the same machine, and its profile (small) is not that of the host side (fast). That
//! directory is one for `cargo clippy` and `cargo test`, which each run this script; what is
//! carried is a copy, so that another checkout with the same target directory changes none.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    for path in ["agent", "engines", "instrument", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let target = format!("{}-unknown-linux-gnu", variable("CARGO_CFG_TARGET_ARCH"));
    let out = PathBuf::from(variable("OUT_DIR"));
    // It is `PROFILE/build/surtax-HASH/out`, and the profile's directory is locked for us.
    let directory = out.ancestors().nth(3).unwrap_or(&out).join("agent");
    #[expect(clippy::disallowed_methods, reason = "a build script, not surtax")]
    let status = Command::new(variable("CARGO"))
        .args(["build", "--package=surtax-agent", "--profile=agent", "--target", &target])
        .arg("--target-dir")
        .arg(&directory)
        .current_dir(variable("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=pic")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "the agent did not build; its own messages are above"
    );
    let agent = out.join("surtax-agent");
    let copied = fs::copy(directory.join(target).join("agent").join("surtax-agent"), &agent);
    assert!(copied.is_ok(), "the agent could not be copied to {}: {copied:?}", agent.display());
    println!("cargo::rustc-env=SURTAX_AGENT={}", agent.display());
    let (commit, version) = (commit(), variable("CARGO_PKG_VERSION"));
    let said = commit.as_ref().map_or_else(|_| version.clone(), |it| format!("{version} ({it})"));
    println!("cargo::rustc-env=SURTAX_VERSION={said}");
    println!("cargo::rustc-env=SURTAX_COMMIT={}", commit.unwrap_or_else(String::from));
}

/// The commit that a release is built from, which `--version` and published figures name; or why it
/// has none. Other builds do not ask, because they would have to be built again after every commit.
fn commit() -> Result<String, &'static str> {
    if variable("PROFILE") != "release" {
        return Err("not a release");
    }
    let git = |arguments: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "a build script, not surtax")]
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"]).ok_or("unknown commit")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
