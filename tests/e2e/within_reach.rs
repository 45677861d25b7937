//! Directories that a command may write to: it moves them, leaves links, and is given nothing more.

use crate::machine::{Machine, is_usable, text};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Layers whose commands write as root of this machine.
const STACKS: [&str; 2] = ["runc", "crun"];

/// A directory that a command may write to, one below it, and one that it must not see.
struct Places {
    machine: Machine,
    kept: PathBuf,
    inner: PathBuf,
    secret: PathBuf,
}

impl Places {
    fn make() -> Self {
        let machine = Machine::take();
        let [kept, home] = ["kept", "home"].map(|name| machine.path(name));
        let (inner, secret) = (kept.join("inner"), home.join(".ssh"));
        fs::create_dir_all(inner.join("sub")).unwrap();
        fs::create_dir_all(secret.join("sub")).unwrap();
        fs::write(secret.join("id"), "the key of this home\n").unwrap();
        Self { machine, kept, inner, secret }
    }

    /// Runs a script in each of the stacks, one after another, in the inner directory: what all of
    /// them left in a file of the kept one.
    fn compare(&self, stacks: &str, options: &[&str], script: &str) -> String {
        let told = self.kept.join("told");
        let script = format!("{{ {script} ; }} >> '{}' 2>&1; exit 0", told.display());
        let words = [
            &["compare", "--baseline", "runc", "--in", stacks, "--runs", "3"],
            options,
            &["--", "sh", "-c", &script],
        ];
        let mut command = self.machine.command(&words.concat());
        let command = command.current_dir(&self.inner).env("HOME", self.secret.parent().unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::read_to_string(told).unwrap_or_default()
    }

    /// Words with which a plan is refused.
    fn refused(&self, words: &[&str]) -> String {
        let words =
            [&["compare", "--in", "native", "--runs", "1"], words, &["--", "true"]].concat();
        let mut command = self.machine.command(&words);
        let output = command.current_dir(&self.inner).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    /// Words with which a command exchanges the inner directory for a link, if it has not yet.
    fn exchange(&self, target: &Path) -> String {
        let (inner, kept) = (self.inner.display(), self.kept.display());
        format!(
            "[ -L {inner} ] || {{ mv {inner} {kept}/aside; ln -s {} {inner}; }}",
            target.display()
        )
    }
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_command_that_leaves_a_link_in_place_of_its_directory_writes_nowhere_else() {
    let places = Places::make();
    if !STACKS.iter().all(|stack| is_usable(&places.machine, stack)) {
        return;
    }
    let script = format!(
        "{}; echo was-here >> {}/id",
        places.exchange(&places.secret),
        places.inner.display()
    );
    places.compare("runc,crun", &["--writable", ".."], &script);
    assert!(places.inner.is_symlink(), "the command did exchange it");
    let id = fs::read_to_string(places.secret.join("id")).unwrap();
    assert_eq!(id, "the key of this home\n");
    places.machine.assert_as_before();
}

#[test]
fn a_link_that_a_command_left_names_no_secret() {
    let places = Places::make();
    if !STACKS.iter().all(|stack| is_usable(&places.machine, stack)) {
        return;
    }
    let kept = places.kept.to_str().unwrap();
    let read = format!("cat {}/id {}/id", places.inner.display(), places.secret.display());
    let script = format!("{}; {read}; echo end", places.exchange(&places.secret));
    let told = places.compare("runc,crun", &["--writable", kept], &script);
    assert!(told.matches("end\n").count() >= 9, "{told}");
    assert!(!told.contains("the key"), "{told}");
    places.machine.assert_as_before();
}

#[test]
fn what_a_command_could_exchange_or_write_of_surtax_s_is_refused_before_anything_is_measured() {
    let places = Places::make();
    let [kept, inner] = [&places.kept, &places.inner].map(|path| path.to_str().unwrap());
    let of = |name: &str| places.kept.join(name).display().to_string();
    let writable = ["--writable", kept];
    let with = |words: &[&str]| places.refused(&[&writable, words].concat());
    assert!(with(&["--writable", inner]).contains("which is writable as a whole"));
    let root = format!("runc:root=dir:{inner}");
    assert!(with(&["--in", &root]).contains("lies in the writable directory"));
    let kernel = format!("qemu:kernel={}", of("vmlinuz"));
    fs::write(of("vmlinuz"), "").unwrap();
    assert!(with(&["--in", &kernel]).contains("which a stack is made of"));
    fs::remove_file(of("vmlinuz")).unwrap();
    assert!(with(&["--report", &of("r.html")]).contains("would be written into"));
    assert!(with(&["--export", &of("r.json")]).contains("would be written into"));
    assert!(with(&["--output", &of("r.surtax")]).contains("could write its own result"));
    let outside = places.machine.path("outside.html");
    fs::write(of("r.html"), "").unwrap();
    symlink(of("r.html"), &outside).unwrap();
    assert!(with(&["--report", outside.to_str().unwrap()]).contains("would be written into"));
    fs::remove_file(of("r.html")).unwrap();
    let enter = places.machine.surtax(&["enter", "native", "--writable", "/var/tmp", "--", "true"]);
    assert!(
        text(&enter.stderr).contains("surtax keeps runs, workloads or its state"),
        "{}",
        text(&enter.stderr)
    );
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_surtax")).parent().unwrap();
    assert!(places.refused(&["--writable", program.to_str().unwrap()]).contains("starts programs"));
    let programs = places.machine.path("programs");
    fs::create_dir(&programs).unwrap();
    symlink(of("mine"), programs.join("runc")).unwrap();
    let usual = std::env::var("PATH").unwrap();
    for path in [programs.to_str().unwrap(), kept, "sub"] {
        let mut command = places.machine.command(&["compare", "--in", "native", "--writable"]);
        let command = command.args([kept, "--", "true"]).current_dir(&places.inner);
        let output = command.env("PATH", format!("{usual}:{path}")).output().unwrap();
        assert!(text_of(&output).contains("starts programs"), "{path}: {}", text_of(&output));
    }
    let home = places.secret.parent().unwrap();
    for configured in [&places.secret, &places.secret.join("sub"), Path::new("/etc")] {
        let mut command = places.machine.command(&["enter", "native", "--writable"]);
        let output = command.arg(configured).args(["--", "true"]).env("HOME", home).output();
        let told = text_of(&output.unwrap());
        assert!(told.contains("which configures them"), "{told}");
    }
    let data = places.machine.path("data");
    fs::create_dir_all(&data).unwrap();
    assert!(places.refused(&["--writable", data.to_str().unwrap()]).contains("surtax keeps runs"));
    let below = data.join("surtax/runs/below");
    fs::create_dir_all(&below).unwrap();
    assert!(places.refused(&["--writable", below.to_str().unwrap()]).contains("surtax keeps runs"));
    assert_eq!(fs::read_dir(&places.kept).unwrap().count(), 1, "nothing was made");
    places.machine.assert_as_before();
}

#[test]
fn a_file_that_a_recipe_a_client_s_stack_or_a_relative_option_names_is_refused_too() {
    let places = Places::make();
    let kept = places.kept.to_str().unwrap();
    let of = |name: &str| places.kept.join(name).display().to_string();
    let with = |words: &[&str]| places.refused(&[&["--writable", kept], words].concat());
    let recipe = places.machine.path("recipe.toml");
    let ready = include_str!("../../appliances/arceos/appliance.toml");
    fs::write(&recipe, ready.replace("kernel = \"", "kernel = \"kept/")).unwrap();
    let recipe = format!("appliance:{}", recipe.display());
    assert!(with(&["--in", &recipe]).contains("which a stack is made of"));
    let client = format!("net.tcp_rr:client=ssh:lab7,config={}", of("config"));
    let mut command = places.machine.command(&["compare", "--in", "runc", "--runs", "1"]);
    let command = command.args(["--writable", kept, "--workload", &client]);
    let told = text_of(&command.current_dir(&places.inner).output().unwrap());
    assert!(told.contains("which a stack is made of"), "{told}");
    assert!(with(&["--in", "docker:socket=sub/docker.sock"]).contains("which a stack is made of"));
    places.machine.assert_as_before();
}
