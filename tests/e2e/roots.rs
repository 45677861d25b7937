//! Roots and writes: another user space from a directory or an image, and what becomes of writes.

use crate::answers::{arm, compare, fact};
use crate::machine::{Machine, cases, is_usable, skip, text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use surtax_instrument::hex;

/// Layers in which roots and writes are tried.
const LAYERS: [&str; 5] = ["native", "runc", "docker", "gvisor", "qemu:accel=tcg"];

/// Those in which somebody without rights prepares, serves or uses the root.
const OF_OTHER_USERS: [&str; 5] = [
    "docker:rootless=on", "podman:user=private", "podman:rootless=on", "lxc:user=private",
    "nspawn:user=private",
];

/// A user space of one static program under a few names, and a file that no host has.
pub fn small_root(machine: &Machine) -> Option<PathBuf> {
    let busybox = Path::new("/bin/busybox");
    let is_static = fs::read(busybox).is_ok_and(|file| !text(&file).contains("/ld-linux"));
    if !is_static {
        skip("root", "`busybox-static` is not installed");
        return None;
    }
    let root = machine.path("root");
    for directory in ["bin", "dev", "etc", "proc", "run", "sys", "tmp"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "sleep", "true"] {
        symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    fs::write(root.join("etc/only-here"), "small\n").unwrap();
    Some(root)
}

/// An OCI image layout with one layer: the tree at `root`.
fn image_of(root: &Path, layout: &Path) {
    image_with(root, layout, tar::HeaderMode::Deterministic);
}

fn image_with(root: &Path, layout: &Path, mode: tar::HeaderMode) {
    fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
    let blob = |bytes: &[u8]| {
        let digest = hex::of(&Sha256::digest(bytes));
        fs::write(layout.join("blobs/sha256").join(&digest), bytes).unwrap();
        json!({"digest": format!("sha256:{digest}"), "size": bytes.len()})
    };
    let mut tar = tar::Builder::new(Vec::new());
    tar.follow_symlinks(false);
    tar.mode(mode);
    tar.append_dir_all(".", root).unwrap();
    let mut layer = blob(&tar.into_inner().unwrap());
    layer["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar");
    let about = json!({"architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
    let mut config = blob(about.to_string().as_bytes());
    config["mediaType"] = json!("application/vnd.oci.image.config.v1+json");
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
    let mut manifest = blob(manifest.to_string().as_bytes());
    manifest["mediaType"] = json!("application/vnd.oci.image.manifest.v1+json");
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
}

/// Runs a script in these stacks from `/`, the first of them as the baseline.
fn ask(machine: &Machine, stacks: &[String], runs: &str, script: &str) -> Value {
    let list = stacks.join(",");
    let mut command = machine.command(&[
        "compare", "--in", &list, "--baseline", &stacks[0], "--runs", runs, "--format", "json",
        "--env", "PATH=/bin:/usr/bin", "--", "sh", "-c", script,
    ]);
    let output = command.current_dir("/").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// The layers that can run here, each with this root.
fn rooted(machine: &Machine, layers: &[&str], root: &str) -> Vec<String> {
    let with = |layer: &str| {
        let separator = if layer.contains(':') { ',' } else { ':' };
        format!("{layer}{separator}root={root}")
    };
    layers.iter().copied().filter(|layer| is_usable(machine, layer)).map(with).collect()
}

/// The name under which an answer knows a stack: with its options in order.
fn is_of(arm: &Value, stack: &str) -> bool {
    let mut options: Vec<&str> = stack.split([':', ',']).skip(1).collect();
    let kind = stack.split(':').next().unwrap();
    // A root's path has a colon of its own.
    options.retain(|option| option.contains('='));
    let name = arm["stack"].as_str().unwrap();
    name.starts_with(kind) && options.iter().all(|option| name.contains(option))
}

#[test]
fn a_root_of_the_users_is_seen_in_every_layer_and_stays_as_it_was() {
    let machine = Machine::take();
    let Some(root) = small_root(&machine) else { return };
    let layout = machine.path("image");
    image_of(&root, &layout);
    let archive = machine.path("image.tar");
    let mut tar = tar::Builder::new(File::create(&archive).unwrap());
    tar.append_dir_all(".", &layout).unwrap();
    tar.finish().unwrap();
    drop(tar);
    // The second trial would find what the first one wrote.
    let script = "test \"$(cat /etc/only-here)\" = small && test ! -e /etc/os-release && \
                  test ! -e /written && echo x > /written && test -e /written && \
                  rm -rf /etc 2>/dev/null; test -e /proc/self/status";
    for &(kind, path) in cases(&[("dir", &root), ("oci", &archive), ("oci", &layout)], 2) {
        let stacks = rooted(&machine, &LAYERS, &format!("{kind}:{}", path.display()));
        let answer = ask(&machine, &stacks, "2", script);
        for stack in &stacks {
            let arms = answer["arms"].as_array().unwrap();
            let arm = arms.iter().rfind(|arm| is_of(arm, stack)).unwrap();
            assert_eq!(arm["trial_count"], 2, "{stack}: {}", arm["trouble"]);
            assert_eq!(fact(&arm["evidence"][0], "root"), kind);
        }
        machine.assert_as_before();
    }
    assert!(!root.join("written").exists() && root.join("etc/only-here").exists());
}

/// A registry on loopback, ended with this.
struct Registry(std::process::Child, u16);

impl Registry {
    #[expect(clippy::disallowed_methods, reason = "somebody else's server, which the test ends")]
    fn start(machine: &Machine) -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (config, store) = (machine.path("registry.yml"), machine.path("registry"));
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '127.0.0.1:{port}'}}\n",
            store.display()
        );
        fs::write(&config, text).unwrap();
        let mut server = Command::new("docker-registry");
        let Ok(server) =
            server.arg("serve").arg(&config).stderr(std::process::Stdio::null()).spawn()
        else {
            skip("runc", "`docker-registry`, which the test asks for images, is not installed");
            return None;
        };
        let registry = Self(server, port);
        let begun = std::time::Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20), "no registry came up");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Some(registry)
    }

    #[expect(clippy::disallowed_methods, reason = "the test gives the registry its image")]
    fn push(&self, layout: &Path, name: &str) -> String {
        let name = format!("127.0.0.1:{}/{name}", self.1);
        let mut copy = Command::new("skopeo");
        copy.args(["copy", "--quiet", "--dest-tls-verify=false"]);
        copy.args([format!("oci:{}", layout.display()), format!("docker://{name}")]);
        assert!(copy.status().unwrap().success());
        name
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_image_of_a_registry_is_fetched_once_and_its_files_are_what_a_container_has() {
    let machine = Machine::take();
    let Some(root) = small_root(&machine) else { return };
    let layout = machine.path("image");
    image_of(&root, &layout);
    let Some(registry) = Registry::start(&machine) else { return };
    let name = registry.push(&layout, "tools/small:1");
    let script = "test \"$(cat /etc/only-here)\" = small && test ! -e /etc/os-release";
    let asked = [format!("native:root=docker://{name}"), format!("runc:image={name}")];
    let ask_all = || {
        let answer = ask(&machine, &asked, "2", script);
        let arms = answer["arms"].as_array().unwrap();
        assert_eq!(arms.len(), 3);
        for arm in arms {
            assert_eq!(arm["trial_count"], 2, "{}: {}", arm["stack"], arm["trouble"]);
            let level = &arm["evidence"][0];
            assert_eq!((fact(level, "root"), fact(level, "root_image")), ("oci", name.as_str()));
        }
        assert_eq!(arms[2]["stack"], format!("runc:root=docker://{name}"));
    };
    ask_all();
    drop(registry);
    ask_all();
    let gone = format!("runc:image={}", name.replace("small:1", "other:1"));
    let answer = ask(&machine, &[String::from("native"), gone.clone()], "1", "true");
    let arm = answer["arms"].as_array().unwrap().last().unwrap().clone();
    let why = arm["trouble"]["why"].as_str().unwrap();
    assert!(why.contains("other:1") && why.contains("connection refused"), "{why}");
    machine.assert_as_before();
}

#[test]
fn a_name_of_an_image_that_is_none_or_lies_too_deep_is_refused() {
    let machine = Machine::alone();
    for (stack, expected) in [
        ("runc:image=--help", "is not the name of an image"),
        ("runc:root=docker://a b", "is not the name of an image"),
        ("firecracker:root=docker://alpine", "takes no image"),
        ("runc:image=alpine,root=dir:/srv", "both say which files there are"),
        ("qemu:accel=tcg+runc:image=alpine", "cannot fetch `alpine`"),
    ] {
        let refused = machine.surtax(&["compare", "--in", "native", "--in", stack, "--", "true"]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{stack}: {said}");
        assert!(said.contains(expected), "{stack}: {said}");
    }
}

/// The names of everything below a directory, links not followed.
fn everything_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(everything_below(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn another_user_reaches_nothing_of_an_image_whatever_it_holds() {
    let machine = Machine::take();
    let Some(root) = small_root(&machine) else { return };
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(&root.join("bin/busybox"), 0o4755);
    for directory in ["", "bin", "etc"] {
        set_mode(&root.join(directory), 0o777);
    }
    let (layout, cache) = (machine.path("image"), machine.path("cache"));
    image_with(&root, &layout, tar::HeaderMode::Complete);
    // What is above the cache keeps nobody out.
    set_mode(&machine.path(""), 0o755);
    let script = r#"umask 0; exec "$0" "$@""#;
    let stack = format!("native:root=oci:{}", layout.display());
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_surtax"), "compare", "--in", &stack])
        .args(["--baseline", &stack, "--runs", "1", "--env", "PATH=/bin", "--", "true"])
        .env("SURTAX_CACHE_DIR", &cache)
        .env("XDG_DATA_HOME", machine.path("data"))
        .current_dir("/")
        .output()
        .unwrap();
    let all = everything_below(&cache);
    let unpacked: Vec<&PathBuf> = all.iter().filter(|path| path.ends_with("bin/busybox")).collect();
    let [program] = unpacked[..] else { panic!("{}", text(&output.stderr)) };
    let setuid = fs::metadata(program).unwrap().permissions().mode() & 0o7777;
    assert_eq!(setuid, 0o4755, "the image's user has it as it is");
    for path in [program, program.parent().unwrap(), program.ancestors().nth(2).unwrap()] {
        let mut other = Command::new("/bin/busybox");
        other.args(["stat"]).arg(path).uid(65_534).gid(65_534);
        assert!(!other.output().unwrap().status.success(), "{}", path.display());
    }
    for path in all.iter().filter(|path| path.parent() == Some(&*cache)) {
        let mode = fs::symlink_metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "{}: {mode:o}", path.display());
    }
    machine.assert_as_before();
}

#[test]
fn an_image_that_nobody_else_reaches_is_seen_by_users_without_rights_inside() {
    let machine = Machine::take();
    let Some(root) = small_root(&machine) else { return };
    // Without it, systemd-nspawn takes a directory for no root.
    fs::create_dir(root.join("usr")).unwrap();
    let layout = machine.path("image");
    image_of(&root, &layout);
    let script = r#"test "$(cat /etc/only-here)" = small"#;
    let root = format!("oci:{}", layout.display());
    // Each of these has a daemon or a preparation of its own: one that is missing is said, and no
    // reason to leave out the others.
    let mut stacks = rooted(&machine, &["native"], &root);
    stacks.extend(rooted(&machine, &OF_OTHER_USERS, &root));
    let answer = ask(&machine, &stacks, "1", script);
    for stack in &stacks {
        let arms = answer["arms"].as_array().unwrap();
        let arm = arms.iter().rfind(|arm| is_of(arm, stack)).unwrap();
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        assert_eq!(arm["exit_statuses"], json!(["exit 0"]), "{stack}");
    }
    machine.assert_as_before();
}

#[test]
fn a_root_that_is_not_there_or_not_a_root_is_named() {
    let machine = Machine::take();
    let file = machine.path("file");
    fs::write(&file, "not an image").unwrap();
    let absent =
        machine.surtax(&["compare", "--in", "native:root=dir:/no/such/root", "--", "true"]);
    assert_eq!(absent.status.code(), Some(2), "{}", text(&absent.stderr));
    assert!(text(&absent.stderr).contains("the root `/no/such/root` of `native` is not there"));
    let stacks = [
        (format!("native:root=dir:{}", file.display()), "is not a directory"),
        (format!("native:root=oci:{}", file.display()), "not an OCI archive"),
    ];
    for (stack, words) in stacks {
        let answer = ask(&machine, &["native".into(), stack.clone()], "1", "true");
        let gap = arm(&answer, &stack);
        assert_eq!(gap["trial_count"], 0);
        assert!(gap["trouble"]["why"].as_str().unwrap().contains(words), "{}", gap["trouble"]);
        assert_eq!(arm(&answer, "native")["trial_count"], 1, "the others still run");
    }
    machine.assert_as_before();
}

#[test]
fn a_layer_inside_a_root_without_a_c_library_is_refused_with_what_helps() {
    let machine = Machine::take();
    let Some(root) = small_root(&machine) else { return };
    if !is_usable(&machine, "runc") {
        return;
    }
    let stack = format!("runc:root=dir:{}+runc", root.display());
    let answer = ask(&machine, &["native".into(), stack.clone()], "1", "true");
    let trouble = arm(&answer, &stack)["trouble"].to_string();
    assert!(trouble.contains("cannot start the next layer"), "{trouble}");
    assert!(trouble.contains("C library"), "{trouble}");
    machine.assert_as_before();
}

#[test]
fn a_command_that_is_not_there_in_one_stack_is_named_and_the_others_run() {
    let machine = Machine::take();
    let Some(root) = small_root(&machine) else { return };
    if !is_usable(&machine, "runc") {
        return;
    }
    let stack = format!("runc:root=dir:{}", root.display());
    let list = format!("native,{stack}");
    let arguments =
        ["compare", "--in", &list, "--runs", "1", "--format", "json", "--", "tail", "/dev/null"];
    let output = machine.command(&arguments).current_dir("/").output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trouble = arm(&answer, &stack)["trouble"].to_string();
    assert!(trouble.contains("cannot start `tail`"), "{trouble}");
    assert!(trouble.contains("install `tail` in this stack's root"), "{trouble}");
    assert_eq!(arm(&answer, "native")["trial_count"], 1);

    // Nor is the working directory there.
    let arguments =
        ["compare", "--in", &list, "--runs", "1", "--format", "json", "--", "/bin/true"];
    let output = machine.command(&arguments).current_dir(machine.path("")).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trouble = arm(&answer, &stack)["trouble"].to_string();
    assert!(trouble.contains("the working directory `"), "{trouble}");
    assert_eq!(arm(&answer, "native")["trial_count"], 1);
    machine.assert_as_before();
}

#[test]
fn a_shared_directory_keeps_writes_in_every_layer_and_nothing_else_does() {
    let machine = Machine::take();
    let shared = machine.path("shared");
    fs::create_dir(&shared).unwrap();
    let (lost, beside) = (machine.path("lost"), machine.path("shared-not"));
    fs::write(&beside, "before\n").unwrap();
    let script = format!(
        "echo x >> {}/kept; echo x > {}; echo x > {}",
        shared.display(),
        lost.display(),
        beside.display()
    );
    let stacks: Vec<_> = LAYERS.into_iter().filter(|layer| is_usable(&machine, layer)).collect();
    let list = stacks.join(",");
    let output = machine.surtax(&[
        "compare",
        "--in",
        &list,
        "--runs",
        "2",
        "--format",
        "json",
        "--writable",
        shared.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A trial that was disturbed is repeated, and writes again.
    let arms = answer["arms"].as_array().unwrap();
    let runs: usize = arms.iter().map(|arm| arm["trials"].as_array().unwrap().len()).sum();
    assert!(runs >= 2 * (stacks.len() + 1), "native is there twice: {runs}");
    let kept = fs::read_to_string(shared.join("kept")).unwrap();
    assert_eq!(kept.lines().count(), runs, "{}", text(&output.stderr));
    assert!(!lost.exists());
    assert_eq!(fs::read_to_string(beside).unwrap(), "before\n");
    machine.assert_as_before();
}

#[test]
fn a_command_in_native_may_make_namespaces_as_it_may_without_surtax() {
    let machine = Machine::take();
    // After a `chroot` the kernel would refuse it a user namespace.
    let answer = machine.json(&compare("native", "1", &["unshare", "--user", "--mount", "true"]));
    assert_eq!(arm(&answer, "native")["trial_count"], 1, "{answer}");
    machine.assert_as_before();
}
