//! Without root rights: what still works, and what the rest says.

use crate::machine::{Machine, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
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
        self.surtax_as(NOBODY, arguments, home)
    }

    fn surtax_as(&self, user: u32, arguments: &[&str], home: &str) -> Output {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test starts the binary as somebody else"
        )]
        let mut command = Command::new("setpriv");
        let user = [format!("--reuid={user}"), format!("--regid={user}")];
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

/// User of `sudo` that no machine has, so that what root keeps for them is the test's alone.
const SUDOER: u32 = 65_533;

/// Folder that root keeps for them, which is gone when the test ends.
struct KeptForSudoer(PathBuf);

impl Drop for KeptForSudoer {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_run_by_sudo_is_roots_and_whoever_typed_it_finds_and_reads_it_and_nobody_else() {
    let machine = Machine::take();
    let nobody = Nobody::of(&machine);
    let kept = KeptForSudoer(PathBuf::from(format!("/var/lib/surtax/users/{SUDOER}")));
    let (theirs, roots) = (machine.path("theirs"), machine.path("roots"));
    for directory in [&theirs, &roots] {
        fs::create_dir(directory).unwrap();
    }
    chown(&theirs, Some(SUDOER), Some(SUDOER)).unwrap();
    let by_sudo = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        let user = SUDOER.to_string();
        command.env("SUDO_UID", &user).env("SUDO_GID", &user).env("HOME", machine.path("root"));
        let output = command.env_remove("XDG_DATA_HOME").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output
    };
    let page = |directory: &Path| format!("html={}", directory.join("page.html").display());
    let pages = [page(&theirs), page(&roots)];
    let compare = ["compare", "--in", "native", "--runs", "1", "--export", &pages[0]];
    let compare = [&compare[..], &["--export", &pages[1], "--", "true"]].concat();
    by_sudo(&compare);

    // Root's, in a directory of root's: they cannot exchange what root goes on with.
    let runs: Vec<_> = fs::read_dir(kept.0.join("runs")).unwrap().collect();
    let [Ok(run)] = &runs[..] else { panic!("{runs:?}") };
    for (path, mode) in [(run.path(), 0o640), (kept.0.join("runs"), 0o750), (kept.0.clone(), 0o750)]
    {
        let found = fs::metadata(&path).unwrap();
        // The group's bits are those of the one entry of the access list.
        let seen = (found.uid(), found.gid(), found.mode() & 0o7777);
        assert_eq!(seen, (0, 0, mode), "{}", path.display());
    }
    let owners =
        [&theirs, &roots].map(|it| fs::metadata(it.join("page.html")).map(|it| it.uid()).unwrap());
    assert_eq!(owners, [SUDOER, 0]);

    let path = run.path().display().to_string();
    let home = theirs.to_str().unwrap();
    let (show, list) = (["show", "last", "--format", "json"], ["list", "--format", "json"]);
    let shown = nobody.surtax_as(SUDOER, &show, home);
    let answer: Value =
        serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", text(&shown.stderr)));
    assert_eq!(answer["arms"][0]["trial_count"], 1);
    let cautions = answer["cautions"].to_string();
    assert!(!cautions.contains("was not begun"), "{cautions}");
    let listed = |output: Output| text(&output.stdout).contains(&path);
    assert!(listed(nobody.surtax_as(SUDOER, &list, home)));
    assert!(listed(by_sudo(&list)));
    assert!(!listed(nobody.surtax(&list, nobody.home())));
    let refused = nobody.surtax(&["show", &path], nobody.home());
    assert!(text(&refused.stderr).contains("Permission denied"), "{}", text(&refused.stderr));
    // To remove it takes root.
    let refused = nobody.surtax_as(SUDOER, &["rm", "last"], home);
    assert!(!refused.status.success() && run.path().exists(), "{}", text(&refused.stderr));
    by_sudo(&["rm", "last"]);
    assert!(!run.path().exists());
    machine.assert_as_before();
}
