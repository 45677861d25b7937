//! Domains of Xen's with a network: measured from Dom0, and as appliances that serve a client
//! there.

use crate::answers::{arm, fact};
use crate::machine::{Machine, is_usable, text};
use cpio::newc::{Builder, ModeFileType, trailer};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The machine in which Xen runs.
const DOM0: &str = "qemu:accel=tcg,cpus=1,hypervisor=xen,memory=2G";

/// Runs in Dom0, by this very binary, as on any machine that is one; afterwards nothing of the
/// network is left.
const MEASURE: &str = r#"
modprobe -a xen-netback bridge
"$0" compare --in xen:memory=256M,net=bridge --workload net.tcp_rr:time=100 --runs 1 --start-deadline 3m --format json
for left in $(ls /sys/class/net) $(ls /sys/bus/xen-backend/devices); do
    case $left in vif*) echo "$left stayed" >&2; exit 1;; esac
done
"#;

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_server_in_a_domain_is_reached_by_its_client_in_dom0() {
    let machine = Machine::alone();
    let stack = "xen:memory=256M,net=bridge";
    if !is_usable(&machine, &format!("{DOM0}+{stack}")) {
        return;
    }
    let surtax = env!("CARGO_BIN_EXE_surtax");
    let output = machine.surtax(&["enter", DOM0, "--", "sh", "-ec", MEASURE, surtax]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let arm = arm(&answer, stack);
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    let level = &arm["evidence"][0];
    for (key, value) in [
        ("server_address", "198.18.0.2"),
        ("client_place", "outside, on the level of the measurement"),
        ("nic_backend", "xen-netback"),
    ] {
        assert_eq!(fact(level, key), value, "{key}");
    }
    let rate = arm["trials"].as_array().unwrap().last().unwrap()["metrics"]["rate"].as_f64();
    assert!(rate.unwrap() > 1.0, "{}", arm["trials"]);
    machine.assert_as_before();
}

/// The first process of an appliance that is Linux and one program, which answers whoever calls.
const INIT: &str = r#"#!/busybox sh
/busybox mount -t devtmpfs none /dev
exec </dev/hvc0 >/dev/hvc0 2>&1
/busybox insmod /netfront.ko
until /busybox ifconfig eth0 198.18.0.2 netmask 255.255.255.0 up 2>/dev/null; do /busybox usleep 10000; done
echo "surtax: ready"
while true; do echo answered | /busybox nc -l -p 7777; done
"#;

/// The client: nothing but an appliance has an address.
const CLIENT: &str = r#"
import os, socket
if "SURTAX_APPLIANCE" in os.environ:
    host, port = os.environ["SURTAX_APPLIANCE"].split(":")
    assert socket.create_connection((host, int(port)), 20).recv(99) == b"answered\n"
"#;

/// The distribution's kernel in surtax's cache, unpacked as Xen enters it.
fn kernel() -> Option<PathBuf> {
    let kernels = fs::read_dir("/var/cache/surtax/kernels").ok()?.flatten();
    let full = kernels.filter(|it| !it.file_name().to_string_lossy().contains("cloud"));
    full.map(|it| it.path()).find(|it| it.join("vmlinux").is_file())
}

/// An archive in memory that grows by a file.
fn add(archive: Vec<u8>, name: &str, contents: &[u8]) -> Vec<u8> {
    let entry = Builder::new(name).nlink(1).mode(0o755).set_mode_file_type(ModeFileType::Regular);
    let mut writer = entry.write(archive, u32::try_from(contents.len()).unwrap());
    writer.write_all(contents).unwrap();
    writer.finish().unwrap()
}

fn initrd(kernel: &Path) -> Vec<u8> {
    let release = kernel.file_name().unwrap();
    let modules = kernel.join("lib/modules").join(release);
    let netfront = fs::read(modules.join("kernel/drivers/net/xen-netfront.ko")).unwrap();
    let dev = Builder::new("dev").mode(0o755).set_mode_file_type(ModeFileType::Directory);
    let archive = dev.write(Vec::new(), 0).finish().unwrap();
    let archive = add(archive, "busybox", &fs::read("/usr/bin/busybox").unwrap());
    let archive = add(archive, "netfront.ko", &netfront);
    trailer(add(archive, "init", INIT.as_bytes())).unwrap()
}

#[test]
#[ignore = "`cargo xtask lab --all`"]
fn a_domain_that_is_linux_and_one_program_serves_a_client_in_dom0() {
    let machine = Machine::alone();
    if !is_usable(&machine, DOM0) {
        return;
    }
    if kernel().is_none() {
        // Where a machine has never been a Dom0, its kernel is fetched by the first start.
        assert!(machine.surtax(&["enter", DOM0, "--", "true"]).status.success());
    }
    let kernel = kernel().expect("Dom0 has booted a kernel of the cache");
    let initrd_path = machine.path("initrd.cpio");
    fs::write(&initrd_path, initrd(&kernel)).unwrap();
    let recipe = machine.path("linux.toml");
    let (image, initrd) = (kernel.join("vmlinux"), initrd_path.display());
    let text = format!(
        "about = \"Linux that answers\"\n[image]\nkernel = \"{}\"\ninitrd = \"{initrd}\"\n\
         append = \"console=hvc0 quiet panic=-1\"\n\
         [machine]\nboard = \"xen-pv\"\nmemory = \"128M\"\ncpus = 1\nnetwork = \"vif\"\n\
         [command]\nruns = \"beside\"\nport = 7777\nready = \"surtax: ready\"\n",
        image.display()
    );
    fs::write(&recipe, text).unwrap();
    let stack = format!("{DOM0}+appliance:recipe={}", recipe.display());
    let answer = machine.json(&[
        "compare", "--in", &stack, "--baseline", "simulated", "--runs", "1", "--start-deadline",
        "3m", "--format", "json", "--", "python3", "-c", CLIENT,
    ]);
    let arm = arm(&answer, &stack);
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    let level = &arm["evidence"][1];
    for (key, value) in
        [("domain_type", "pv"), ("network", "bridge"), ("appliance_ready", "surtax: ready")]
    {
        assert_eq!(fact(level, key), value, "{key}");
    }
    machine.assert_as_before();
}
