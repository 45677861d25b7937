//! Directories that a command may write to: it moves them, leaves links, and is given nothing more.

use crate::machine::{Machine, is_usable, text};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
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

    /// The answer to a question of one trial in the inner directory.
    fn ask(&self, words: &[&str], variables: &[(&str, Option<&Path>)]) -> Output {
        let words = [&["compare", "--in", "native", "--runs", "1"], words];
        let words = [&words.concat(), &["--", "/bin/true"][..]].concat();
        let mut command = self.machine.command(&words);
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(&self.inner).output().unwrap()
    }

    /// Demands that a question is refused with these words, and an answer to another one.
    fn require_way_out(
        &self,
        (told, refused): (&str, &[&str]),
        accepted: &[&str],
        variables: &[(&str, Option<&Path>)],
    ) {
        let output = self.ask(refused, variables);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{refused:?}: {said}");
        assert!(said.contains(told), "{refused:?}: {said}");
        let output = self.ask(accepted, variables);
        assert!(output.status.success(), "{accepted:?}: {}", text(&output.stderr));
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
    let tool = places.machine.path("tool");
    fs::write(of("sh"), "").unwrap();
    fs::write(&tool, format!("#!{}\n", of("sh"))).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let stack = format!("runc:binary={}", tool.display());
    assert!(with(&["--in", &stack]).contains("part of what a stack's tool is started by"));
    fs::remove_file(of("sh")).unwrap();
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
        text(&enter.stderr).contains("where surtax and others make directories"),
        "{}",
        text(&enter.stderr)
    );
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_surtax")).parent().unwrap();
    assert!(places.refused(&["--writable", program.to_str().unwrap()]).contains("surtax itself"));
    let programs = places.machine.path("programs");
    fs::create_dir(&programs).unwrap();
    symlink(of("mine"), programs.join("runc")).unwrap();
    let usual = std::env::var("PATH").unwrap();
    for path in [programs.to_str().unwrap(), kept, "sub"] {
        let mut command = places.machine.command(&["compare", "--in", "native", "--writable"]);
        let command = command.args([kept, "--", "true"]).current_dir(&places.inner);
        let output = command.env("PATH", format!("{usual}:{path}")).output().unwrap();
        assert!(text_of(&output).contains("of `PATH`"), "{path}: {}", text_of(&output));
    }
    let home = places.secret.parent().unwrap();
    for configured in [&places.secret, &places.secret.join("sub"), Path::new("/etc/ssh")] {
        let mut command = places.machine.command(&["enter", "native", "--writable"]);
        let output = command.arg(configured).args(["--", "true"]).env("HOME", home).output();
        let told = text_of(&output.unwrap());
        assert!(told.contains("where the configuration of"), "{told}");
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

#[test]
fn the_kernel_s_settings_and_hooks_of_runtimes_are_no_writable_directory() {
    let places = Places::make();
    for (directory, told) in [
        ("/proc/sys", "`proc` at `/proc`"),
        ("/sys/kernel", "a file system of the kernel's"),
        ("/dev", "this machine's settings"),
        ("/usr/share", "lies in `/usr`"),
        ("/var/lib", "name a narrower directory"),
    ] {
        let said = places.refused(&["--writable", directory]);
        assert!(said.contains(told), "{directory}: {said}");
        let plan = ["plan", "--in", "native", "--writable", directory, "--", "true"];
        let planned = text_of(&places.machine.surtax(&plan));
        assert!(planned.contains(told), "{directory}: {planned}");
    }
    places.machine.assert_as_before();
}

#[test]
fn a_hint_that_is_followed_is_an_end_of_the_refusal() {
    let places = Places::make();
    let [kept, inner] = [&places.kept, &places.inner].map(|path| path.to_str().unwrap());
    let outside = places.machine.path("outside.surtax");
    let outside = outside.to_str().unwrap();
    let here = ["--writable", ".", "--output", "run.surtax"];
    let elsewhere = ["--writable", ".", "--output", outside];
    places.require_way_out(("the run itself", &here), &elsewhere, &[]);
    let config = places.kept.join("config");
    let variables = [("XDG_CONFIG_HOME", Some(config.as_path()))];
    let (all, narrower) = (["--writable", kept], ["--writable", inner]);
    places.require_way_out(("`XDG_CONFIG_HOME`", &all), &narrower, &variables);
    assert!(places.ask(&all, &[]).status.success(), "workloads are elsewhere");
    let programs = places.machine.path("programs");
    fs::create_dir(&programs).unwrap();
    symlink(places.kept.join("mine"), programs.join("surtax-tool")).unwrap();
    let variables = [("PATH", Some(programs.as_path()))];
    places.require_way_out(("the way to `", &all), &narrower, &variables);
    assert!(places.ask(&all, &[("PATH", None)]).status.success(), "nothing is started from here");
    places.machine.assert_as_before();
}

#[test]
fn a_link_in_a_directory_of_configuration_leads_to_no_writable_directory() {
    let places = Places::make();
    let home = places.secret.parent().unwrap();
    let [kept, inner] = [&places.kept, &places.inner].map(|path| path.to_str().unwrap());
    let variables = [("HOME", Some(home))];
    let (all, narrower) = (["--writable", kept], ["--writable", inner]);
    for directory in [".ssh", ".docker", ".config/containers"] {
        fs::create_dir_all(home.join(directory)).unwrap();
        let link = home.join(directory).join("config");
        symlink(places.kept.join("config"), &link).unwrap();
        let told = format!("the way to `{}`", link.display());
        places.require_way_out((&told, &all), &narrower, &variables);
        fs::remove_file(&link).unwrap();
    }
    assert!(places.ask(&all, &variables).status.success());
    let told = text_of(&places.ask(&["--writable", home.to_str().unwrap()], &variables));
    assert!(told.contains("holds `"), "{told}");
    places.machine.assert_as_before();
}

#[test]
fn what_a_script_in_path_is_started_by_lies_in_no_writable_directory() {
    let places = Places::make();
    let (programs, tools) = (places.machine.path("programs"), places.machine.path("tools"));
    fs::create_dir(&programs).unwrap();
    fs::create_dir(&tools).unwrap();
    let [kept, inner] = [&places.kept, &places.inner].map(|path| path.to_str().unwrap());
    let variables = [("PATH", Some(programs.as_path()))];
    let write = |path: &Path, line: &str| {
        fs::write(path, format!("#!{line}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let (tool, python) = (tools.join("tool"), places.kept.join("python"));
    write(&programs.join("script"), tool.to_str().unwrap());
    for line in [
        format!("{} -u", python.display()),
        format!("/usr/bin/env {}", python.display()),
        format!("/usr/bin/env -S HOME=/ {} -u", python.display()),
    ] {
        write(&tool, &line);
        let told = format!("holds `{}`, named in the first line", python.display());
        let (all, narrower) = (["--writable", kept], ["--writable", inner]);
        places.require_way_out((&told, &all), &narrower, &variables);
        let said = text_of(&places.ask(&all, &variables));
        assert!(said.contains(&format!("take `{}` off `PATH`", programs.display())), "{said}");
    }
    places.machine.assert_as_before();
}

#[test]
fn modules_of_a_script_in_path_and_versions_in_a_home_lie_in_no_writable_directory() {
    let places = Places::make();
    let (programs, home) = (places.machine.path("programs"), places.secret.parent().unwrap());
    let python = home.join("v/bin/python");
    fs::create_dir(&programs).unwrap();
    fs::create_dir_all(python.parent().unwrap()).unwrap();
    fs::write(home.join("v/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let variables = [("PATH", Some(programs.as_path())), ("HOME", Some(home))];
    let inner = ["--writable", places.inner.to_str().unwrap()];
    let refuse = |directory: PathBuf, told: &str| {
        let refused = ["--writable", directory.to_str().unwrap()];
        places.require_way_out((told, &refused), &inner, &variables);
    };
    let script = programs.join("script");
    for line in [python.to_str().unwrap(), "/usr/bin/env -S ${HOME}/v/bin/python"] {
        fs::write(&script, format!("#!{line}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        refuse(home.join("v/bin"), "named in the first line");
        refuse(home.join("v/lib64/python3/site-packages"), "may load modules from");
    }
    let library = home.join("lib");
    fs::write(&script, format!("#!/usr/bin/perl -Mlib=/srv,{}\n", library.display())).unwrap();
    refuse(library.join("App"), "named in the first line");
    refuse(home.join(".pyenv/versions"), "where programs of a user's lie");
    refuse(home.join(".rustup/toolchains/stable/bin"), "where programs of a user's lie");
    places.machine.assert_as_before();
}

#[test]
fn modules_a_socket_of_the_environment_and_a_domain_s_disk_are_files_of_a_stack() {
    let places = Places::make();
    let (kept, boot) = (places.kept.to_str().unwrap(), places.kept.join("boot"));
    let modules = places.kept.join("lib");
    fs::create_dir(&boot).unwrap();
    fs::create_dir(&modules).unwrap();
    fs::write(boot.join("vmlinuz"), "").unwrap();
    for kind in ["qemu", "cloud-hypervisor", "xen"] {
        let stack = format!("{kind}:kernel={}", boot.join("vmlinuz").display());
        let words = ["--in", &stack, "--writable", modules.to_str().unwrap()];
        let told = text_of(&places.ask(&words, &[]));
        assert!(told.contains("which a stack is made of"), "{kind}: {told}");
    }
    let socket = format!("unix://{}", places.kept.join("docker.sock").display());
    let named = [("DOCKER_HOST", Some(Path::new(&socket)))];
    let words = ["--in", "docker", "--writable", kept];
    let told = text_of(&places.ask(&words, &named));
    assert!(told.contains("docker.sock`, which a stack is made of"), "{told}");
    let programs = places.machine.path("programs");
    fs::create_dir(&programs).unwrap();
    let described = format!(
        "#!/bin/sh\necho \"<domain type='kvm'><name>web</name><uuid>u</uuid><devices><disk>\
         <source file='{kept}/web.img'/></disk></devices></domain>\"\n"
    );
    fs::write(programs.join("virsh"), described).unwrap();
    fs::set_permissions(programs.join("virsh"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let words = ["--in", "libvirt:web", "--writable", kept];
    let told = text_of(&places.ask(&words, &[("PATH", Some(Path::new(&path)))]));
    assert!(told.contains("web.img`, which a stack is made of"), "{told}");
    places.machine.assert_as_before();
}

#[test]
fn a_visit_says_where_a_writable_link_leads() {
    let places = Places::make();
    let link = places.machine.path("link");
    symlink(&places.kept, &link).unwrap();
    let link = link.to_str().unwrap();
    let told = text_of(
        &places.machine.surtax(&["enter", "native", "--writable", link, "--", "/bin/true"]),
    );
    assert!(told.contains(&format!("the writable directory `{link}` leads to `")), "{told}");
    places.machine.assert_as_before();
}
