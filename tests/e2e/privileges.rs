//! Privileges: what those who serve a guest may do, read back from the kernel, and what a guest
//! gets to write and see.

use crate::machine::{Machine, containers, is_usable, text};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const MACHINE: &str = "qemu:accel=tcg";

/// Fields of a process in `/proc/PID/status`, by key.
type Status = BTreeMap<String, String>;

/// A stack that stands while its command waits for the end of its input.
struct Standing {
    surtax: Child,
    /// Output of the command so far.
    said: String,
}

impl Standing {
    fn start(machine: &Machine, arguments: &[&str], script: &str) -> Self {
        let script = format!("{script}; echo; echo stands; cat > /dev/null");
        let arguments = [arguments, &["--", "sh", "-c", &script]].concat();
        let mut surtax = machine.command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(surtax.stdout.take().unwrap());
        while !said.ends_with("stands\n") {
            let count = lines.read_line(&mut said).unwrap();
            if count == 0 {
                let output = surtax.wait_with_output().unwrap();
                panic!("{arguments:?} ended: {said}{}", text(&output.stderr));
            }
        }
        Self { surtax, said }
    }

    /// The processes below surtax that run a program of this name.
    fn processes(&self, program: &str) -> Vec<Status> {
        let mut found = Vec::new();
        let mut waiting = vec![self.surtax.id()];
        while let Some(pid) = waiting.pop() {
            let place = Path::new("/proc").join(pid.to_string());
            for task in std::fs::read_dir(place.join("task")).into_iter().flatten().flatten() {
                let children =
                    std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
                waiting.extend(children.split_whitespace().filter_map(|it| it.parse::<u32>().ok()));
            }
            let line = std::fs::read(place.join("cmdline")).unwrap_or_default();
            let first = text(line.split(|byte| *byte == 0).next().unwrap_or_default());
            if first.ends_with(program) {
                let status = std::fs::read_to_string(place.join("status")).unwrap();
                let pairs = status.lines().filter_map(|line| line.split_once(':'));
                let words = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
                found.push(pairs.map(|(key, it)| (key.to_owned(), words(it))).collect());
            }
        }
        found
    }

    /// Lets the command end, and surtax with it.
    fn end(mut self) {
        let input = self.surtax.stdin.take().unwrap();
        drop(input);
        let output = self.surtax.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

/// A user of its own, with these capabilities at most, that can become nobody else, under a filter
/// of system calls.
#[track_caller]
fn assert_confined(status: &Status, capabilities: u64, bound: u64) -> String {
    let user = status["Uid"].split(' ').next().unwrap().to_owned();
    let number: u32 = user.parse().unwrap();
    assert!(number > 100_000, "a user of its own: {status:?}");
    for key in ["Uid", "Gid"] {
        assert_eq!(status[key], [&*user; 4].join(" "), "{key}: {status:?}");
    }
    assert_eq!(status["Groups"], "", "{status:?}");
    for (key, expected) in [("CapPrm", capabilities), ("CapEff", capabilities), ("CapBnd", bound)] {
        assert_eq!(status[key], format!("{expected:016x}"), "{key}: {status:?}");
    }
    assert_eq!((&*status["NoNewPrivs"], &*status["Seccomp"]), ("1", "2"), "{status:?}");
    user
}

/// `CAP_DAC_READ_SEARCH` and `CAP_FOWNER`.
const READS: u64 = 1 << 2 | 1 << 3;

#[test]
fn a_machine_and_who_serves_its_files_are_users_of_their_own_without_rights() {
    let machine = Machine::take();
    if !is_usable(&machine, MACHINE) {
        return;
    }
    let running = Standing::start(&machine, &["enter", MACHINE], "true");
    let other = Standing::start(&machine, &["enter", MACHINE], "true");
    let mut users = Vec::new();
    for one in [&running, &other] {
        let [qemu] = one.processes("qemu-system-x86_64").try_into().unwrap();
        users.push(assert_confined(&qemu, 0, 0));
        let [server] = one.processes("virtiofsd").try_into().unwrap();
        users.push(assert_confined(&server, READS, 0));
    }
    users.sort();
    users.dedup();
    assert_eq!(users.len(), 4, "no two have the same user");
    running.end();
    other.end();
    machine.assert_as_before();
}

#[test]
fn a_machine_that_serves_files_itself_or_locks_its_memory_keeps_the_one_right_for_that() {
    let machine = Machine::take();
    for (option, capabilities) in [("files=9p", 1 << 2), ("mem-lock=on", 1 << 14)] {
        let stack = format!("{MACHINE},{option},memory=512M");
        if !is_usable(&machine, &stack) {
            continue;
        }
        let running = Standing::start(&machine, &["enter", &stack], "true");
        let [qemu] = running.processes("qemu-system-x86_64").try_into().unwrap();
        assert_confined(&qemu, capabilities, capabilities);
        running.end();
        machine.assert_as_before();
    }
}

/// The guest's root tries all that it can to write through the share itself, and prints what it
/// managed.
const ATTACK: &str = "mkdir /tmp/s && mount -t virtiofs host /tmp/s && mount -o remount,rw /tmp/s; \
                      cd /tmp/s; for at in . root root/etc root/tmp modules; do touch $at/planted \
                      && echo WROTE $at; mkdir $at/planted.d && echo WROTE $at; mknod \
                      $at/planted.b b 8 0 && echo WROTE $at; ln -s / $at/planted.l && echo WROTE \
                      $at; done; echo x >> root/etc/hostname && echo WROTE hostname; chmod 777 \
                      root/etc/hostname && echo WROTE mode; rm root/etc/hostname && echo WROTE \
                      away; mv root/etc/hostname root/etc/h && echo WROTE name; setfattr -n user.x \
                      -v y root/etc/hostname && echo WROTE attribute; cat root/proc/1/environ && \
                      echo READ proc; ls root/run/* && echo READ run; ls root/dev/* && echo READ \
                      dev";

#[test]
fn a_guest_s_root_writes_nothing_through_the_files_that_it_is_shown() {
    let machine = Machine::take();
    if !is_usable(&machine, MACHINE) {
        return;
    }
    let script = format!("({ATTACK}) 2> /dev/null; ls /tmp/s");
    let running = Standing::start(&machine, &["enter", MACHINE], &script);
    let said = &running.said;
    assert!(said.contains("modules\nroot\n"), "the share was mounted: {said}");
    assert!(!said.contains("WROTE") && !said.contains("READ"), "{said}");
    running.end();
    machine.assert_as_before();
}

#[test]
fn a_guest_that_may_write_to_a_directory_makes_no_device_there_and_writes_nowhere_else() {
    let machine = Machine::take();
    if !is_usable(&machine, MACHINE) {
        return;
    }
    let kept = machine.path("kept");
    std::fs::create_dir(&kept).unwrap();
    let at = kept.to_str().unwrap();
    for files in ["virtiofs", "9p"] {
        let stack = format!("{MACHINE},files={files}");
        if !is_usable(&machine, &stack) {
            continue;
        }
        let script = format!(
            "cd {at}; echo mine > {files} && chown 1234:1235 {files}; mknod {files}.b b 8 0 && \
             echo WROTE device; for tag in host writable; do mkdir -p /tmp/$tag; mount -t virtiofs \
             $tag /tmp/$tag || continue; touch /tmp/$tag/planted && echo WROTE $tag; touch \
             /tmp/$tag/root/planted && echo WROTE root of $tag; done; ls /tmp/host /tmp/writable"
        );
        let arguments = ["enter", &stack, "--writable", at];
        let running = Standing::start(&machine, &arguments, &format!("({script}) 2> /dev/null"));
        assert!(!running.said.contains("WROTE"), "{files}: {}", running.said);
        // Who serves what is read only can do no more than read it. Who serves what is not has all
        // that files need, of a user that must be root to make them for others; no `CAP_MKNOD`.
        let servers = running.processes("virtiofsd");
        let rights = servers.iter().map(|it| (&*it["CapEff"], it["Uid"].starts_with("0 ")));
        let mut rights: Vec<(&str, bool)> = rights.collect();
        rights.sort_unstable();
        let is_served_apart = files == "virtiofs";
        let expected = [("000000000000000c", false), ("00000000800000db", true)];
        assert_eq!(rights, if is_served_apart { &expected[..] } else { &[] }, "{files}");
        if is_served_apart {
            let shown = "/tmp/host:\nmodules\nroot\n\n/tmp/writable:\n0\n";
            assert!(running.said.contains(shown), "both were mounted: {}", running.said);
        }
        for server in servers {
            assert_eq!(server["CapBnd"], "0000000000000000", "{server:?}");
            assert_eq!((&*server["NoNewPrivs"], &*server["Seccomp"]), ("1", "2"), "{server:?}");
        }
        running.end();
        let found = std::fs::metadata(kept.join(files)).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((found.uid(), found.gid()), (1234, 1235), "{files}");
        assert!(!kept.join(format!("{files}.b")).exists(), "{files}");
        machine.assert_as_before();
    }
}

#[test]
fn a_guest_that_fills_what_it_may_write_to_fills_its_own_memory_or_disk_alone() {
    let machine = Machine::take();
    let stack = format!("{MACHINE},memory=512M,scratch=virtio-blk,disk-size=16M");
    if !is_usable(&machine, &stack) {
        return;
    }
    let script = "for at in /tmp /scratch; do dd if=/dev/zero of=$at/full bs=1M count=4000 2>&1 | \
                  grep -o 'No space.*'; stat -c %s $at/full; rm $at/full; done";
    let running = Standing::start(&machine, &["enter", &stack], script);
    assert_eq!(running.said.matches("No space left on device").count(), 2, "{}", running.said);
    let sizes: Vec<u64> = running.said.lines().filter_map(|line| line.parse().ok()).collect();
    let [memory, disk] = sizes.try_into().unwrap();
    assert!(memory < 512 << 20 && disk < 16 << 20, "{memory} {disk}");
    running.end();
    machine.assert_as_before();
}

#[test]
fn root_of_a_container_has_the_capabilities_that_docker_leaves_and_stays_in_its_group() {
    let machine = Machine::take();
    let script = "for setting in kernel/core_pattern vm/overcommit_memory; do sh -c \"true \
                  >>/proc/sys/$setting\" 2>/dev/null && echo open; done; sed -n \
                  's/CapEff:.//p' /proc/self/status; for group in \
                  /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do [ ! -e $group ] || \
                  { echo 0 2>/dev/null >$group && echo left $group; }; done; mount -o remount,rw \
                  /sys && echo mounted; echo end";
    for stack in ["bubblewrap", "runc", "crun"] {
        if is_usable(&machine, stack) {
            let output = machine.surtax(&["enter", stack, "--", "sh", "-c", script]);
            assert_eq!(text(&output.stdout), "00000000a80425fb\nend\n", "{stack}");
        }
    }
    machine.assert_as_before();
}

#[test]
fn no_stack_but_native_shows_a_command_this_machine_s_secrets() {
    let machine = Machine::take();
    let home = machine.path("home");
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::write(home.join(".ssh/id"), "the key of this home\n").unwrap();
    let runs = machine.path("data/surtax/runs");
    std::fs::create_dir_all(&runs).unwrap();
    std::fs::write(runs.join("kept"), "a run of before\n").unwrap();
    let shadow = std::fs::read_to_string("/etc/shadow").unwrap();
    let users = shadow.lines().count();
    let script = format!(
        "wc -l < /etc/shadow; cut -d: -f2 /etc/shadow | sort -u | tr -d '\\n'; echo; cat \
         {}/.ssh/id 2> /dev/null || echo none; ls -A /var/lib/surtax 2> /dev/null | wc -l; ls -A \
         {} 2> /dev/null | wc -l",
        home.display(),
        runs.display()
    );
    let run = |stack: &str| {
        let mut command = machine.command(&["enter", stack, "--", "sh", "-c", &script]);
        let output = command.env("HOME", &home).output().unwrap();
        assert!(output.status.success(), "{stack}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    for stack in containers().map(|(_, stack)| stack).chain([MACHINE]) {
        if is_usable(&machine, stack) {
            assert_eq!(run(stack), format!("{users}\n*\nnone\n0\n0\n"), "{stack}");
            machine.assert_as_before();
        }
    }
    let shown = ["native", "runc:secrets=shown", "qemu:accel=tcg,secrets=shown"];
    for stack in shown.into_iter().filter(|stack| is_usable(&machine, stack)) {
        let said = run(stack);
        assert!(said.contains("the key of this home\n") && said.ends_with("\n1\n"), "{said}");
        machine.assert_as_before();
    }
    let refused = machine.surtax(&["enter", "native:secrets=masked", "--", "true"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

/// Looks for a key in the keyring of the session, and for the keyring of its user.
const KEYS: &str = r#"my ($type, $name) = ("user", "surtax-planted");
    print syscall($call, 10, -3, $type, $name, 0) >= 0 ? "found" : "none";
    print syscall($call, 0, -4, 0) >= 0 ? " open\n" : " shut\n";"#;

#[test]
fn no_container_has_the_keys_of_the_session_that_it_was_started_from() {
    let machine = Machine::take();
    let look = format!("my $call = {}; {KEYS}", libc::SYS_keyctl);
    let plant = format!(
        r#"my ($type, $name, $key) = ("user", "surtax-planted", "secret");
           syscall({}, 1, 0) >= 0 && syscall({}, $type, $name, $key, 6, -3) >= 0 or die "$!";
           exec @ARGV;"#,
        libc::SYS_keyctl,
        libc::SYS_add_key
    );
    let run = |stack: &str| {
        let surtax = machine.command(&["enter", stack, "--", "perl", "-e", &look]);
        let mut planted = Command::new("perl");
        planted.args(["-e", &plant]).arg(surtax.get_program()).args(surtax.get_args());
        planted.envs(surtax.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let output = planted.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{stack}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(run("native"), "found open\n", "it is planted where we start from");
    // `namespaces` takes nothing away, and gVisor has a kernel of its own.
    let others = ["namespaces", "gvisor"];
    for (container, stack) in containers().filter(|(it, _)| !others.contains(&it.kind)) {
        let found = if container.shuts_keyrings { "none shut\n" } else { "none open\n" };
        if is_usable(&machine, stack) {
            assert_eq!(run(stack), found, "{stack}");
        }
    }
    machine.assert_as_before();
}
