//! Without root rights: what still works, and what the rest says.

use crate::machine::{Machine, is_usable, text, turn_at};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The user and the group called `nobody` on Debian.
const NOBODY: u32 = 65_534;

/// A user without rights, with a home and a copy of the binary.
struct Nobody<'a> {
    machine: &'a Machine,
    home: PathBuf,
    /// Lines of a shell that change their view of the machine's mounts.
    mounts: Option<String>,
    /// A user namespace in which they are, and may make none, where that is not the machine's own.
    shut_in: Option<ShutIn>,
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
        Self { machine, home, mounts: None, shut_in: None }
    }

    fn surtax(&self, arguments: &[&str], home: &str) -> Output {
        self.surtax_as(NOBODY, arguments, home)
    }

    fn surtax_as(&self, user: u32, arguments: &[&str], home: &str) -> Output {
        let output = self.command(user, arguments, home).output().unwrap();
        let said = text(&output.stderr);
        assert!(!said.contains("bug in surtax"), "{arguments:?}: {said}");
        output
    }

    /// The binary as this user, ready to start.
    fn command(&self, user: u32, arguments: &[&str], home: &str) -> Command {
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        let mut words = vec!["setpriv", &user, &group, "--clear-groups"];
        let namespace =
            self.shut_in.as_ref().map(|it| format!("--user=/proc/{}/ns/user", it.0.id()));
        if let Some(namespace) = &namespace {
            words.splice(0..0, ["nsenter", namespace, "--setuid", "0", "--setgid", "0"]);
        }
        let wrapped = self.mounts.as_ref().map(|mounts| format!("{mounts}; exec \"$@\""));
        if let Some(wrapped) = &wrapped {
            let begin = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"];
            words.splice(0..0, begin.into_iter().chain([wrapped.as_str(), "sh"]));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the test starts the binary as somebody else"
        )]
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg(self.machine.path("surtax"))
            .args(arguments)
            .current_dir("/")
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", self.home.join("run"))
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME");
        command
    }

    /// Proves that no lab and no journal of theirs is there.
    fn assert_nothing_left(&self) {
        for place in ["run/surtax", ".local/state/surtax/labs"] {
            let place = self.home.join(place);
            let left = fs::read_dir(&place).into_iter().flatten().flatten();
            let is_lab = |name: &String| name != "users" && !name.ends_with(".lock");
            let names = left.filter_map(|it| it.file_name().into_string().ok());
            let left: Vec<String> = names.filter(is_lab).collect();
            assert_eq!(left, [""; 0], "left in {}", place.display());
        }
    }

    /// Puts a secret into their home; returns its directory.
    fn keeps_a_secret(&self) -> PathBuf {
        let aws = self.home.join(".aws");
        fs::create_dir(&aws).unwrap();
        fs::write(aws.join("credentials"), "a secret").unwrap();
        for path in [aws.clone(), aws.join("credentials")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        aws
    }

    fn home(&self) -> &str {
        self.home.to_str().unwrap()
    }
}

#[test]
fn native_without_a_layer_over_its_files_needs_no_root_and_no_namespace() {
    let machine = Machine::take();
    let mut nobody = Nobody::of(&machine);
    nobody.shut_in = Some(ShutIn::new());
    let stacks = "native:root=host,native,runc,gvisor,qemu:accel=tcg";
    let output = nobody.surtax(
        &[
            "compare", "--in", stacks, "--baseline", "native:root=host", "--runs", "1", "--format",
            "json", "--", "sh", "-c", "test $(id -u) = 65534",
        ],
        nobody.home(),
    );
    // No stack that is compared has a number.
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for arm in answer["arms"].as_array().unwrap() {
        if arm["stack"] == "native:root=host" {
            assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
        } else {
            assert_eq!(arm["trial_count"], 0, "{}", arm["stack"]);
            let why = arm["trouble"]["why"].as_str().unwrap();
            assert!(why.contains("root") && why.contains("refuses: "), "{why}");
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
    drop(nobody);
    machine.assert_as_before();
}

/// The distribution's kernel that serves files by 9p, which root has fetched.
fn fetched_kernel(machine: &Machine) -> PathBuf {
    let output =
        machine.command(&["enter", "qemu:accel=tcg,files=9p", "--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kernels = fs::read_dir("/var/cache/surtax/kernels").unwrap();
    let names = kernels.filter_map(|it| it.unwrap().file_name().into_string().ok());
    let is_full = |name: &String| name.ends_with("-amd64") && !name.contains("cloud");
    let release = names.filter(is_full).max().expect("a kernel was fetched");
    Path::new("/var/cache/surtax/kernels").join(&release).join(format!("boot/vmlinuz-{release}"))
}

#[test]
fn seven_stacks_answer_without_root() {
    let machine = Machine::beside_one();
    let takes = ["bubblewrap", "runc", "gvisor", "qemu:accel=tcg"];
    if !takes.iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    let kernel = fetched_kernel(&machine);
    let mut nobody = Nobody::of(&machine);
    // A mount that they cannot reach, as a lab of root's has.
    let unreached = "mount -t tmpfs -o mode=700 x /opt; mkdir /opt/m; mount -t tmpfs x /opt/m";
    nobody.mounts = Some(String::from(unreached));
    let qemu = format!("qemu:accel=tcg,kernel={}", kernel.display());
    let stacks =
        format!("native,native:root=host,namespaces,bubblewrap,runc:net=veth,gvisor,{qemu}");
    // What is written is seen by who wrote it and by nobody else; what nobody may read is not read.
    let command = "cat /etc/shadow 2>&1 && exit 7; \
                   test -w / || exit 0; \
                   test ! -e /of-nobody || exit 8; echo x >/of-nobody || exit 9; \
                   test ! -e /var/tmp/of-nobody || exit 10; echo x >/var/tmp/of-nobody || exit 11; \
                   echo x >$HOME/of-nobody || exit 12";
    let output = nobody.surtax(
        &["compare", "--in", &stacks, "--runs", "3", "--format", "json", "--", "sh", "-c", command],
        nobody.home(),
    );
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let arms = answer["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 8);
    for arm in arms {
        assert_eq!(arm["trial_count"], 3, "{}: {}", arm["stack"], arm["trouble"]);
    }
    let privileges = answer["machine"].as_array().unwrap();
    assert!(privileges.iter().any(|fact| fact["key"] == "privileges"), "{privileges:?}");
    let at_home = nobody.home.join("of-nobody");
    for path in [Path::new("/of-nobody"), Path::new("/var/tmp/of-nobody"), &at_home] {
        assert!(!path.exists(), "{} was written to this machine", path.display());
    }
    nobody.assert_nothing_left();
    machine.assert_as_before();
}

#[test]
fn who_is_not_root_is_themselves_to_ssh_and_what_takes_root_is_refused_before_it_is_tried() {
    let machine = Machine::take();
    let nobody = Nobody::of(&machine);
    let (config, who) = (nobody.home.join("config"), nobody.home.join("who"));
    let proxy = format!("Host box\n ProxyCommand sh -c 'id -u >{}; exit 1'\n", who.display());
    fs::write(&config, proxy).unwrap();
    let stack = format!("ssh:box,config={}", config.display());
    let output = nobody.surtax(&["enter", &stack, "--", "true"], nobody.home());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(who).unwrap(), "65534\n", "{}", text(&output.stderr));
    for stack in [
        "crun", "firecracker:root=packed", "libvirt:web", "runc:net=host", "runc+runc",
        "runc:memory=1G", "qemu:weight=50", "qemu:files=virtiofs", "gvisor:directfs=false",
        "namespaces:user=private",
    ] {
        let output = nobody.surtax(&["enter", stack, "--", "true"], nobody.home());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stack}: {said}");
        assert!(said.contains("root") && said.contains("hint: sudo surtax"), "{stack}: {said}");
        let asked = nobody.surtax(&["doctor", stack, "--format", "json"], nobody.home());
        let answer: Value = serde_json::from_slice(&asked.stdout).unwrap_or_default();
        let forms = answer["layers"].as_array().into_iter().flatten();
        let form = forms.into_iter().find(|form| form["layer"] == stack);
        assert!(form.is_none_or(|form| form["usable"] == false), "{stack}: {form:?}");
    }
    nobody.assert_nothing_left();
    machine.assert_as_before();
}

#[test]
fn who_is_not_root_is_themselves_in_native_and_root_in_a_container() {
    let machine = Machine::take();
    if !["bubblewrap", "runc"].iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    let nobody = Nobody::of(&machine);
    let aws = nobody.keeps_a_secret();
    let command = format!("id -u; cat {}/credentials", aws.display());
    for (stack, expected) in [
        ("native:root=host", "65534\na secret"),
        ("native", "65534\na secret"),
        ("bubblewrap", "0\n"),
        ("runc", "0\n"),
    ] {
        let arguments = ["enter", stack, "--", "sh", "-c", &command];
        let output = nobody.surtax(&arguments, nobody.home());
        assert_eq!(text(&output.stdout), expected, "{stack}: {}", text(&output.stderr));
    }
    for (stack, why) in [
        ("runc+runc", "a stack of several layers takes root"),
        ("runc:cpus=1", "limits are those of a control group, which takes root to make"),
        ("docker", "can only be started by root"),
        ("crun", "can only be started by root"),
    ] {
        let runs = ["--runs", "1", "--format", "json", "--", "true"];
        let stacks = format!("native,{stack}");
        let arguments = [&["compare", "--in", &stacks], &runs[..]].concat();
        let output = nobody.surtax(&arguments, nobody.home());
        assert!(text(&output.stdout).contains(why), "{stack}: {}", text(&output.stdout));
    }
    nobody.assert_nothing_left();
    machine.assert_as_before();
}

#[test]
fn in_a_namespace_somebody_elses_directory_is_not_taken_for_roots() {
    let machine = Machine::take();
    let nobody = Nobody::of(&machine);
    let theirs = machine.path("of-somebody");
    let below = theirs.join("state");
    fs::create_dir_all(&below).unwrap();
    chown(&theirs, Some(SUDOER), Some(SUDOER)).unwrap();
    chown(&below, Some(NOBODY), Some(NOBODY)).unwrap();
    let output = nobody
        .command(NOBODY, &["enter", "native", "--", "true"], nobody.home())
        .env("SURTAX_STATE_DIR", &below)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(&format!("belongs to user {SUDOER}")), "{said}");
    machine.assert_as_before();
}

#[test]
fn no_name_and_no_mount_of_somebodys_reveals_a_secret_or_ends_a_run() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let mut nobody = Nobody::of(&machine);
    nobody.keeps_a_secret();
    // Mounts below what everybody may write to, deep below, and below what nobody may list; names
    // that a list of layers would take apart; and a link to where a secret is.
    nobody.mounts = Some(format!(
        "mount -t tmpfs -o mode=1777 x /opt; cd /opt; mkdir m a 'a:.aws' 'a:.' 'x,y' 'b\\\\c'; \
         ln -s {home} home; mkdir -p 1/2/3/4/5/6/7/8 shut/a/b; chmod 700 shut; \
         for at in m 1/2/3/4/5/6/7/8 shut/a/b; do mount -t tmpfs x $at; done; cd {home}",
        home = nobody.home()
    ));
    let command = "cd /opt; cat 'a:./.aws/credentials' 'a:.aws/credentials' home/.aws/credentials; \
                   cat /opt/*/credentials; ls /opt/1/2/3/4/5/6/7/8; echo done";
    for stack in ["native", "runc"] {
        let mut surtax =
            nobody.command(NOBODY, &["enter", stack, "--", "sh", "-c", command], nobody.home());
        let output = surtax.current_dir(&nobody.home).output().unwrap();
        let said = text(&output.stdout);
        let expected = if stack == "native" { "a secretdone\n" } else { "done\n" };
        assert_eq!(said, expected, "{stack}: {}", text(&output.stderr));
    }
    nobody.assert_nothing_left();
    machine.assert_as_before();
}

#[test]
fn a_runtime_directory_that_is_none_is_not_believed_and_no_other_user_has_ours() {
    let machine = Machine::take();
    let nobody = Nobody::of(&machine);
    let ours = Path::new("/tmp/surtax-65534");
    let mut command = nobody.command(NOBODY, &["enter", "native", "--", "true"], nobody.home());
    let output = command.env("XDG_RUNTIME_DIR", "run").current_dir(nobody.home()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!Path::new("/tmp/surtax-0").exists(), "a name that every user's would be");
    let _ = fs::remove_dir(ours);
    nobody.assert_nothing_left();
    machine.assert_as_before();
}

#[test]
fn what_is_killed_without_root_leaves_nothing() {
    let machine = Machine::take();
    let nobody = Nobody::of(&machine);
    for stack in ["native", "runc", "gvisor"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let command = "setsid sleep 1000 & echo begun; sleep 1000";
        let arguments = ["enter", stack, "--", "sh", "-c", command];
        let mut command = nobody.command(NOBODY, &arguments, nobody.home());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // The reaper has what was left.
        let has_left = || processes_of(NOBODY).is_empty();
        assert!(wait_until(has_left), "{stack}: {:?}", processes_of(NOBODY));
        nobody.assert_nothing_left();
    }
    machine.assert_as_before();
}

#[test]
fn a_runtime_that_is_killed_while_it_starts_without_root_leaves_nothing() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let nobody = Nobody::of(&machine);
    for delay_ms in (0..200).step_by(8) {
        let arguments = ["enter", "runc", "--", "sleep", "1000"];
        let mut child = nobody.command(NOBODY, &arguments, nobody.home()).spawn().unwrap();
        let has_begun = || processes_of(NOBODY).iter().any(|name| name.contains("runc"));
        assert!(wait_until(has_begun), "{:?}", processes_of(NOBODY));
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let has_left = || processes_of(NOBODY).is_empty();
        assert!(wait_until(has_left), "{delay_ms} ms: {:?}", processes_of(NOBODY));
        nobody.assert_nothing_left();
    }
    machine.assert_as_before();
}

#[test]
fn what_a_command_leaves_in_a_session_and_a_root_of_its_own_ends_with_its_run_without_root() {
    let machine = Machine::take();
    let mut nobody = Nobody::of(&machine);
    let unreached = "mount -t tmpfs -o mode=700 x /opt; mkdir /opt/m; mount -t tmpfs x /opt/m";
    for mounts in [None, Some(String::from(unreached))] {
        nobody.mounts = mounts;
        let leaves = "setsid unshare -Ur chroot /usr /bin/sleep 999 </dev/null >/dev/null 2>&1 &
                      sleep .2; kill -9 $PPID; sleep 1";
        let arguments = ["compare", "--in", "native", "--runs", "1", "--", "sh", "-c", leaves];
        nobody.surtax(&arguments, nobody.home());
        // Whoever has ended is listed until somebody waits for it.
        let has_left = || processes_of(NOBODY).is_empty();
        assert!(wait_until(has_left), "{:?}", processes_of(NOBODY));
        nobody.assert_nothing_left();
    }
    machine.assert_as_before();
}

/// Holder of a user namespace of everybody's, in which nobody may make another.
struct ShutIn(Child);

impl ShutIn {
    #[expect(clippy::disallowed_methods, reason = "the namespace is no lab's")]
    fn new() -> Self {
        let holder = Command::new("unshare").args(["--user", "sleep", "1000"]).spawn().unwrap();
        let shut_in = Self(holder);
        let pid = shut_in.0.id();
        let users = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
        assert!(wait_until(|| users(&pid.to_string()) != users("self")));
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{pid}/{map}"), "0 0 4294967294").unwrap();
        }
        let namespace = format!("--user=/proc/{pid}/ns/user");
        let forbid = "echo 0 >/proc/sys/user/max_user_namespaces";
        let mut command = Command::new("nsenter");
        command.args([&namespace, "--setuid", "0", "--setgid", "0", "sh", "-c", forbid]);
        assert!(command.status().unwrap().success());
        shut_in
    }
}

impl Drop for ShutIn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names of what this user runs.
fn processes_of(user: u32) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_theirs = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.uid() == user);
    let paths = entries.map(|entry| entry.path()).filter(is_theirs);
    paths.filter_map(|path| fs::read_to_string(path.join("comm")).ok()).collect()
}

fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
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
    for stack in ["docker", "nspawn"] {
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

/// That user: a home, and the folder that root keeps for them, which is gone when the test ends.
/// All tests have this one, and wait for each other.
struct Sudoer<'a> {
    nobody: Nobody<'a>,
    home: PathBuf,
    folder: PathBuf,
    _turn: fs::File,
}

impl Drop for Sudoer<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl<'a> Sudoer<'a> {
    fn of(machine: &'a Machine) -> Self {
        let turn = turn_at("sudoer");
        let (nobody, home) = (Nobody::of(machine), machine.path("theirs"));
        fs::create_dir(&home).unwrap();
        chown(&home, Some(SUDOER), Some(SUDOER)).unwrap();
        let folder = PathBuf::from(format!("/var/lib/surtax/users/{SUDOER}"));
        Self { nobody, home, folder, _turn: turn }
    }

    /// The binary as root, by their `sudo`.
    fn sudo(&self, arguments: &[&str]) -> Command {
        let mut command = self.nobody.machine.command(arguments);
        let user = SUDOER.to_string();
        command.env("SUDO_UID", &user).env("SUDO_GID", &user);
        command.env("HOME", self.nobody.machine.path("root")).env_remove("XDG_DATA_HOME");
        command
    }

    /// Runs it as root, by their `sudo`, to its good end.
    fn by_sudo(&self, arguments: &[&str]) -> Output {
        let output = self.sudo(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output
    }

    /// The binary as themselves.
    fn surtax(&self, arguments: &[&str]) -> Output {
        self.nobody.surtax_as(SUDOER, arguments, self.home.to_str().unwrap())
    }

    /// Files in the folder of their runs.
    fn runs(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(self.folder.join("runs")).unwrap();
        found.map(|it| it.unwrap().path()).collect()
    }

    /// Tells whether they may read a file.
    fn may_read(&self, path: &str) -> bool {
        #[expect(clippy::disallowed_methods, reason = "the test reads as somebody else")]
        let read = Command::new("setpriv")
            .args([format!("--reuid={SUDOER}"), format!("--regid={SUDOER}")])
            .args(["--clear-groups", "head", "-c", "1", path])
            .output()
            .unwrap();
        read.status.success()
    }
}

/// Owner, group and mode.
fn owned(path: impl AsRef<Path>) -> (u32, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[test]
fn a_run_by_sudo_is_roots_and_whoever_typed_it_finds_and_reads_it_and_nobody_else() {
    let machine = Machine::take();
    let sudoer = Sudoer::of(&machine);
    sudoer.by_sudo(&["compare", "--in", "native", "--runs", "1", "--", "true"]);

    // Root's, in a directory of root's: they cannot exchange what root goes on with. The group's
    // bits are those of the one entry of the access list.
    let runs = sudoer.runs();
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(owned(run), (0, 0, 0o640));
    for folder in [sudoer.folder.join("runs"), sudoer.folder.clone()] {
        assert_eq!(owned(&folder), (0, 0, 0o750), "{}", folder.display());
    }
    for way in ["/var/lib/surtax", "/var/lib/surtax/users"] {
        assert_eq!(owned(way), (0, 0, 0o711), "{way}");
    }

    let path = run.to_str().unwrap();
    let (show, list) = (["show", "last", "--format", "json"], ["list", "--format", "json"]);
    let shown = sudoer.surtax(&show);
    let answer: Value =
        serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", text(&shown.stderr)));
    assert_eq!(answer["arms"][0]["trial_count"], 1);
    assert!(!answer["cautions"].to_string().contains("was not begun"), "{}", answer["cautions"]);
    let listed = |output: Output| text(&output.stdout).contains(path);
    assert!(listed(sudoer.surtax(&list)));
    assert!(listed(sudoer.by_sudo(&list)));
    let nobody = &sudoer.nobody;
    assert!(!listed(nobody.surtax(&list, nobody.home())));
    let refused = nobody.surtax(&["show", path], nobody.home());
    assert!(text(&refused.stderr).contains("Permission denied"), "{}", text(&refused.stderr));
    // A copy is as good as whoever made it.
    let copy = machine.path("copy.surtax");
    fs::copy(run, &copy).unwrap();
    fs::set_permissions(&copy, PermissionsExt::from_mode(0o644)).unwrap();
    let copied = sudoer.surtax(&["show", copy.to_str().unwrap(), "--format", "json"]);
    assert!(text(&copied.stdout).contains("was not begun"), "{}", text(&copied.stderr));
    // To remove it takes root.
    let refused = sudoer.surtax(&["rm", "last"]);
    assert!(!refused.status.success() && run.exists(), "{}", text(&refused.stderr));
    sudoer.by_sudo(&["rm", "last"]);
    assert!(!run.exists());
    machine.assert_as_before();
}

#[test]
fn a_run_by_sudo_is_read_while_it_goes_on_and_no_lock_of_its_reader_stops_it() {
    let machine = Machine::take();
    let sudoer = Sudoer::of(&machine);
    let mut running =
        sudoer.sudo(&["compare", "--in", "native", "--runs", "2", "--", "sleep", "1"]);
    let mut running = running.spawn().unwrap();
    // Its log is theirs to read from its start on: it has a mode, and then its access list.
    let is_shown = |it: &PathBuf| {
        let path = it.to_str().unwrap();
        path.ends_with("-wal") && sudoer.may_read(path)
    };
    let run = loop {
        let runs = if sudoer.folder.join("runs").exists() { sudoer.runs() } else { Vec::new() };
        if let Some(log) = runs.into_iter().find(is_shown) {
            break log.to_str().unwrap().trim_end_matches("-wal").to_owned();
        }
        assert!(running.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let shown = sudoer.surtax(&["show", &run]);
    assert!(text(&shown.stdout).contains("running"), "{}", text(&shown.stderr));
    // A lock on the log's index, for which reading is enough, would stop whoever writes.
    for (beside, may) in [("", true), ("-wal", true), ("-shm", false)] {
        assert_eq!(sudoer.may_read(&format!("{run}{beside}")), may, "{beside}");
    }
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, text(&ended.stderr));
    machine.assert_as_before();
}

#[test]
fn what_sudo_writes_to_a_directory_of_whoever_typed_it_is_theirs_but_for_runs() {
    let machine = Machine::take();
    let sudoer = Sudoer::of(&machine);
    let roots = machine.path("roots");
    fs::create_dir(&roots).unwrap();
    let pages = [&sudoer.home, &roots].map(|it| it.join("page.html"));
    let exports = pages.each_ref().map(|it| format!("html={}", it.display()));
    let compare = ["compare", "--in", "native", "--runs", "1", "--export", &exports[0]];
    sudoer.by_sudo(&[&compare[..], &["--export", &exports[1], "--", "true"]].concat());
    assert_eq!(pages.each_ref().map(|it| owned(it).0), [SUDOER, 0]);
    assert_eq!(pages.each_ref().map(|it| owned(it).1), [SUDOER, 0]);
    // What its owner made private stays private.
    fs::set_permissions(&pages[0], PermissionsExt::from_mode(0o600)).unwrap();
    sudoer.by_sudo(&["report", "last", "-o", pages[0].to_str().unwrap()]);
    assert_eq!(owned(&pages[0]), (SUDOER, SUDOER, 0o600));
    // A run there would be exchanged, so it stays root's alone.
    let run = sudoer.home.join("mine.surtax");
    let output = run.to_str().unwrap();
    let question = ["compare", "--in", "native", "--runs", "1", "-o", output, "--", "true"];
    let ended = sudoer.by_sudo(&question);
    assert!(text(&ended.stderr).contains("only root can read"), "{}", text(&ended.stderr));
    assert_eq!(owned(&run), (0, 0, 0o600));
    let refused = sudoer.surtax(&["show", "last"]);
    assert!(text(&refused.stderr).contains("Permission denied"), "{}", text(&refused.stderr));
    sudoer.by_sudo(&["rm", "last"]);
    assert!(!run.exists());
    machine.assert_as_before();
}
