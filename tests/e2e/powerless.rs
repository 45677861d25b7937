//! Without root rights: what still works, and what the rest says.

use crate::machine::{Machine, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The user and the group called `nobody` on Debian.
const NOBODY: u32 = 65_534;

/// A user without rights, with a home and a copy of the binary.
struct Nobody<'a> {
    machine: &'a Machine,
    home: PathBuf,
}

impl<'a> Nobody<'a> {
    fn of(machine: &'a Machine) -> Self {
        let open = |path: &PathBuf| fs::set_permissions(path, PermissionsExt::from_mode(0o755));
        open(&machine.path("")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_surtax"), machine.path("surtax")).unwrap();
        let home = machine.path("home");
        fs::create_dir_all(home.join("run")).unwrap();
        for path in [home.clone(), home.join("run")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { machine, home }
    }

    fn surtax(&self, arguments: &[&str], home: &str) -> Output {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test starts the binary as somebody else"
        )]
        let mut command = Command::new("setpriv");
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        let output = command
            .args(user)
            .arg("--clear-groups")
            .arg(self.machine.path("surtax"))
            .args(arguments)
            .current_dir("/")
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", self.home.join("run"))
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME")
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert!(!said.contains("bug in surtax"), "{arguments:?}: {said}");
        output
    }

    fn home(&self) -> &str {
        self.home.to_str().unwrap()
    }
}

#[test]
fn native_without_a_layer_over_its_files_needs_no_root() {
    let machine = Machine::take();
    let nobody = Nobody::of(&machine);
    let stacks = "native:root=host,native,runc,gvisor,qemu:accel=tcg";
    let output = nobody.surtax(
        &[
            "compare",
            "--in",
            stacks,
            "--baseline",
            "native:root=host",
            "--runs",
            "1",
            "--format",
            "json",
            "--",
            "sh",
            "-c",
            "test $(id -u) = 65534",
        ],
        nobody.home(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for arm in answer["arms"].as_array().unwrap() {
        if arm["stack"] == "native:root=host" {
            assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
        } else {
            assert_eq!(arm["trial_count"], 0, "{}", arm["stack"]);
            assert!(arm["trouble"]["why"].as_str().unwrap().contains("root"), "{}", arm["trouble"]);
            assert!(
                arm["trouble"]["remedy"].as_str().unwrap().contains("sudo"),
                "{}",
                arm["trouble"]
            );
        }
    }
    let output = nobody.surtax(&["enter", "native:root=host", "--", "id", "-u"], nobody.home());
    assert_eq!(text(&output.stdout), "65534\n", "{}", text(&output.stderr));
    let labs = nobody.home.join("run/surtax");
    assert_eq!(fs::read_dir(labs).map_or(0, Iterator::count), 0, "a lab was left");
    machine.assert_as_before();
}

#[test]
fn every_other_command_answers_or_says_what_it_cannot_write() {
    let machine = Machine::take();
    let nobody = Nobody::of(&machine);
    for command in ["doctor", "list", "gc"] {
        let output = nobody.surtax(&[command], nobody.home());
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    }
    // It looks like a lab of root's, of which nobody but root knows whether it has a journal.
    let lab = Path::new("/dev/shm/surtax-0ff0ff0f-roots");
    // One of a test that was killed.
    let _ = fs::remove_dir(lab);
    fs::create_dir(lab).unwrap();
    let output = nobody.surtax(&["gc"], nobody.home());
    fs::remove_dir(lab).unwrap();
    let note = "surtax: note: to remove what other users' runs left takes root: `sudo surtax gc`\n";
    assert_eq!(text(&output.stderr), note);
    for stack in ["native", "runc"] {
        let output = nobody.surtax(&["enter", stack, "--", "true"], nobody.home());
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{stack}: {said}");
        assert!(said.contains("root") && said.contains("hint: sudo surtax"), "{stack}: {said}");
    }
    // A home of somebody else's: nothing can be kept there.
    let foreign = machine.path("foreign");
    fs::create_dir(&foreign).unwrap();
    let run =
        ["compare", "--in", "native:root=host", "--baseline", "native:root=host", "--", "true"];
    let output = nobody.surtax(&run, foreign.to_str().unwrap());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("Permission denied") && said.contains("hint: "), "{said}");
    machine.assert_as_before();
}
