//! A domain that libvirt has: a real libvirtd, in namespaces of the test's own, and a guest under
//! TCG whose guest agent is Debian's.

use crate::guests::modules;
use crate::machine::{Machine, is_usable, skip, text};
use crate::suite::{lab, run, start};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surtax::layer::Source;
use surtax_instrument::wire::Status;

/// Time that libvirtd, or a guest, may take to be there.
const DEADLINE: Duration = Duration::from_secs(60);

/// Argument of `sleep` in the command that nobody waits for, in seconds.
const SLEEP: &str = "98765.5";

/// Starts libvirtd where its fixed places are the test's own: `$1` is its directory. The first
/// process of the namespace waits for all, so that a QEMU that has ended is no zombie.
const DAEMON: &str = r#"set -e; cd "$1"
mkdir run etc etc.work var var.work etc/libvirt
for file in passwd group; do cp /etc/$file etc/$file; done
echo libvirt-qemu:x:64055:64055::/:/bin/false >> etc/passwd; echo libvirt-qemu:x:64055: >> etc/group
printf 'unix_sock_group = "root"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n' > etc/libvirt/libvirtd.conf
printf 'user = "root"\ngroup = "root"\ndynamic_ownership = 0\nsecurity_driver = "none"\ncgroup_controllers = []\nnamespaces = []\nstdio_handler = "file"\n' > etc/libvirt/qemu.conf
mount -t overlay -o "lowerdir=/var,upperdir=$1/var,workdir=$1/var.work" overlay /var
mount -t overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/etc.work" overlay /etc
mount --bind "$1/run" /run
libvirtd -f /etc/libvirt/libvirtd.conf & wait"#;

/// Writes an initramfs `$1/initrd` with busybox, the guest agent with its libraries, and what it
/// needs of the modules in `$2`.
const INITRAMFS: &str = r#"set -e; cd "$1"
mkdir -p guest/bin guest/sbin guest/usr/sbin guest/dev guest/proc guest/sys guest/tmp guest/m
cp "$(command -v busybox)" guest/bin/busybox
for name in sh mount insmod poweroff mktemp head cat rm wc uname id timeout chmod sleep mv ls; do ln -s busybox guest/bin/$name; done
cp /usr/sbin/qemu-ga guest/usr/sbin/
for library in $(ldd /usr/sbin/qemu-ga | grep -o '/[^ ]*'); do mkdir -p guest${library%/*}; cp "$library" guest$library; done
for name in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_console; do
    find "$2" -name $name.ko -exec cp {} guest/m/ \;
done
printf '#!/bin/sh\npoweroff -f\n' > guest/sbin/shutdown
cat > guest/init <<'END'
#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for name in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_console; do insmod /m/$name.ko; done
while [ -z "$port" ]; do
    for p in /sys/class/virtio-ports/*; do if [ "$(cat $p/name)" = org.qemu.guest_agent.0 ]; then port=/dev/${p##*/}; fi; done
    sleep 0.1
done
mkdir -p /run
qemu-ga -m virtio-serial -p $port -t /run
poweroff -f
END
chmod 755 guest/init guest/sbin/shutdown; ln -s busybox guest/bin/mkdir
cd guest; find . | busybox cpio -o -H newc > ../initrd 2> /dev/null"#;

/// A libvirtd of the test's own, with all that it starts.
struct Daemon {
    child: Child,
    directory: PathBuf,
}

impl Daemon {
    /// Starts one and gives it two domains, `tiny` and one without a guest agent, `mute`; `None`
    /// where that cannot be, which was said.
    fn start(machine: &Machine) -> Option<Self> {
        for proof in ["/usr/sbin/libvirtd", "/usr/bin/virsh", "/usr/sbin/qemu-ga"] {
            if !Path::new(proof).exists() {
                skip("libvirt", &format!("there is no `{proof}`: make setup"));
                return None;
            }
        }
        // Asked, it fetches a kernel if there is none yet.
        if !is_usable(machine, "qemu:accel=tcg") {
            return None;
        }
        let modules = modules().unwrap();
        let (release, base) = (modules.file_name().unwrap(), modules.join("../../.."));
        let packed = base.join(format!("boot/vmlinuz-{}", release.display()));
        // One that is unpacked already need not unpack itself, which takes TCG seconds.
        let kernel = Some(base.join("vmlinux")).filter(|path| path.exists()).unwrap_or(packed);
        let kernel = kernel.canonicalize().unwrap();
        let directory = machine.path("libvirt");
        fs::create_dir(&directory).unwrap();
        let made = Command::new("sh")
            .args(["-c", INITRAMFS, "sh"])
            .args([&directory, &modules])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        let child = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", DAEMON, "sh"])
            .arg(&directory)
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.join("log")).unwrap())
            .spawn()
            .unwrap();
        let daemon = Self { child, directory };
        daemon.await_that(|| daemon.virsh(&["version"]).is_some());
        let channel =
            "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>";
        for (name, channel) in [("tiny", channel), ("mute", "")] {
            let xml = format!(
                "<domain type='qemu'><name>{name}</name><memory \
                 unit='MiB'>256</memory><vcpu>1</vcpu><os><type arch='x86_64' \
                 machine='q35'>hvm</type><kernel>{}</kernel><initrd>{}/initrd</initrd><cmdline>quiet \
                 console=ttyS0 panic=-1</cmdline></os><features><acpi/></features><cpu \
                 mode='maximum'/><devices><emulator>/usr/bin/qemu-system-x86_64</emulator><disk \
                 type='file' device='disk'><driver name='qemu' type='raw' cache='none' \
                 io='native'/><source file='{}/disk'/><target dev='vda' \
                 bus='virtio'/></disk>{channel}<memballoon model='none'/></devices></domain>",
                kernel.display(),
                daemon.directory.display(),
                daemon.directory.display(),
            );
            let file = daemon.directory.join(format!("{name}.xml"));
            fs::write(&file, xml).unwrap();
            assert!(
                daemon.virsh(&["define", file.to_str().unwrap()]).is_some(),
                "{}",
                daemon.log()
            );
        }
        fs::File::create(daemon.directory.join("disk")).unwrap().set_len(1 << 20).unwrap();
        Some(daemon)
    }

    fn uri(&self) -> String {
        format!("qemu:///system?socket={}/run/libvirt/libvirt-sock", self.directory.display())
    }

    fn stack(&self, domain: &str) -> String {
        format!("libvirt:{domain},uri={}", self.uri())
    }

    /// Asks libvirtd by `virsh`, and returns what it printed; `None` where it refuses.
    fn virsh(&self, words: &[&str]) -> Option<String> {
        let output = Command::new("virsh")
            .args(["--quiet", "--connect", &self.uri()])
            .args(words)
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        output.status.success().then(|| text(&output.stdout).trim().to_owned())
    }

    /// Returns the lines of the domain's XML in alphabetical order: a libvirt that starts it puts
    /// its controllers in order.
    fn definition(&self) -> Vec<String> {
        let xml = self.virsh(&["dumpxml", "tiny"]).unwrap();
        let mut lines: Vec<String> = xml.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn state(&self) -> String {
        self.virsh(&["domstate", "tiny"]).unwrap()
    }

    #[track_caller]
    fn await_that(&self, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < DEADLINE, "{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_domain_that_runs_is_borrowed_and_left_as_it_was_also_by_a_crash() {
    let machine = Machine::beside_one();
    let Some(daemon) = Daemon::start(&machine) else { return };
    daemon.virsh(&["start", "tiny"]).unwrap();
    let ping = ["qemu-agent-command", "tiny", r#"{"execute":"guest-ping"}"#];
    daemon.await_that(|| daemon.virsh(&ping).is_some());
    let before = daemon.definition();

    let stack = daemon.stack("tiny");
    let lab = lab();
    let mut running = start(&lab, &stack, "domain", DEADLINE).unwrap();
    assert_ne!(daemon.definition(), before, "it has our channel");
    let outcome = run(&mut running, "echo inside; ls /tmp; exit 7").unwrap();
    assert_eq!((outcome.status, outcome.stdout.tail), (Status::Exit(7), b"inside\n".into()));
    let said = |key: &str| {
        let facts = &running.evidence()[0].facts;
        facts.iter().find(|fact| fact.key == key).unwrap().value.clone()
    };
    assert_eq!((said("accelerator"), said("cpus")), ("tcg".into(), "1".into()));
    assert_eq!(
        (said("memory_bytes"), said("domain_was")),
        ((256 << 20).to_string(), "running".into())
    );
    assert!(said("machine").starts_with("pc-q35-"), "{}", said("machine"));
    let disk =
        format!("disk on virtio, raw, cache=none, aio=native, {}/disk", daemon.directory.display());
    assert_eq!(said("disk_vda"), disk);
    let vcpus = running.payers().iter().find_map(|payer| match &payer.source {
        Source::Threads { tids, .. } if payer.carries_workload => Some(tids.len()),
        _ => None,
    });
    assert_eq!(vcpus, Some(1), "who carries the workload is its virtual CPU");
    assert_eq!(running.stop().unwrap(), Vec::<String>::new(), "a tidy stop forces nothing");
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
    assert_eq!(daemon.definition(), before);

    let mut visit =
        machine.command(&["enter", &stack, "--", "sleep", SLEEP]).current_dir("/").spawn().unwrap();
    daemon.await_that(|| daemon.definition() != before);
    visit.kill().unwrap();
    visit.wait().unwrap();
    daemon.await_that(|| daemon.definition() == before);
    assert_eq!(daemon.state(), "running", "it was not started by us");
    machine.assert_as_before();
}

#[test]
fn a_domain_that_was_shut_off_is_so_again_and_one_without_an_agent_is_refused() {
    let machine = Machine::beside_one();
    let Some(daemon) = Daemon::start(&machine) else { return };
    let before = daemon.definition();
    let lab = lab();
    let mut running = start(&lab, &daemon.stack("tiny"), "domain", DEADLINE).unwrap();
    assert_eq!(daemon.state(), "running");
    assert_eq!(run(&mut running, "true").unwrap().status, Status::Exit(0));
    let facts = &running.evidence()[0].facts;
    let was = facts.iter().find(|fact| fact.key == "domain_was").unwrap();
    assert_eq!(was.value, "shut off, and is started for this");
    assert_eq!(running.stop().unwrap(), Vec::<String>::new(), "a tidy stop forces nothing");
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
    assert_eq!((daemon.state().as_str(), daemon.definition()), ("shut off", before));

    for (stack, why, help) in [
        (
            daemon.stack("mute"),
            "has no channel for a guest agent",
            "edit mute: add <channel type='unix'>",
        ),
        (daemon.stack("none"), "there is no domain `none`", "list --all"),
        (
            String::from("libvirt:tiny,uri=qemu://lab7/system"),
            "not this machine's QEMU",
            "ssh:HOST+",
        ),
    ] {
        let output = machine.surtax(&["enter", &stack, "--", "true"]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why) && said.contains(help), "{said}");
    }
    machine.assert_as_before();
}
