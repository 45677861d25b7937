//! Domains of Xen's, in a machine whose hypervisor Xen is: QEMU boots it, and its first domain
//! starts another.

use crate::answers::{arm, fact};
use crate::machine::{Machine, is_slow_made, is_usable, text};
use serde_json::Value;
use std::path::Path;
use surtax::ledger::Ledger;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reading, Role};

/// The machine. With one CPU its translator has one thread.
const DOM0: &str = "qemu:accel=tcg,cpus=1,hypervisor=xen";

/// Runs in the domain: uses disk and network, and computes for a while. Nothing but a domain has to
/// do that.
const INSIDE: &str = r#"
[ -e /sys/hypervisor/guest_type ] || exit 0
dd if=/dev/zero of=/scratch/file bs=1M count=4 conv=fsync status=none
grep -q '^/dev/xvda /scratch ext4 rw' /proc/mounts
python3 - <<END
import socket
try: socket.create_connection(("198.18.0.1", 9), 10)
except ConnectionRefusedError: pass
END
i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done
"#;

#[test]
fn a_paravirtual_domain_proves_what_it_is_and_dom0_is_on_the_bill() {
    let machine = Machine::alone();
    let stack = format!(
        "{DOM0}+xen:cache=writeback,cpuset=0,format=qcow2,memory=300M,net=bridge,scratch=blkfront,type=pv,weight=200"
    );
    if !is_slow_made(&stack) || !is_usable(&machine, &stack) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("one.surtax");
    let words = ["compare", "--in", &stack, "--runs", "1", "--start-deadline", "3m", "-o"];
    let command = [run.to_str().unwrap(), "--format", "json", "--", "sh", "-e", "-c", INSIDE];
    let answer = machine.json(&[&words[..], &command].concat());
    let arm = arm(&answer, &stack);
    assert_eq!(arm["trial_count"], 1, "{}", arm["trouble"]);
    let (outer, inner) = (&arm["evidence"][0], &arm["evidence"][1]);
    assert_eq!((fact(outer, "hypervisor"), fact(outer, "dom0_type")), ("xen", "PV"));
    for (key, value) in [
        ("domain_type", "pv"),
        ("inside_hypervisor_guest_type", "PV"),
        ("clocksource", "xen"),
        ("memory_bytes", "314572800"),
        ("cpus", "1"),
        ("cpuset", "0"),
        ("weight", "512"),
        ("files", "9p"),
        ("scratch", "disk"),
        ("disk_controller", "vbd"),
        ("disk_backend", "qdisk"),
        ("disk_format", "qcow2"),
        ("disk_cache", "writeback"),
        ("disk_aio", "threads"),
        ("disk_bytes", "1073741824"),
        ("network", "bridge"),
        ("nic_driver", "xen-netfront"),
        ("nic_backend", "xen-netback"),
        ("nic_address", "00:16:3e:12:34:56"),
        ("network_reach", "both ways"),
        ("workload_address", "198.18.0.2"),
    ] {
        assert_eq!(fact(inner, key), value, "{key}");
    }
    assert!(fact(outer, "xen_version").starts_with(fact(inner, "xen_version")));
    assert_ne!(fact(inner, "inside_hypervisor_uuid"), fact(outer, "inside_hypervisor_uuid"));
    dom0_and_the_domain_were_read(&run, &stack);
    // A machine below this one that takes its CPU away makes the inside count more than the outside
    // saw: then nothing is divided, and it is said.
    match arm["bill_gap"]["cpu_unseen_ns"].as_f64() {
        None | Some(0.0) => dom0_and_the_domain_pay(arm["payers"].as_array().unwrap()),
        Some(unseen) => assert!(unseen > 0.0 && arm["bill_gap"]["why"].is_string(), "{arm}"),
    }
    machine.assert_as_before();
}

/// All that each level counted, whether or not it fits into what the level below it saw.
fn dom0_and_the_domain_were_read(run: &Path, stack: &str) {
    let ledger = Ledger::open(run).unwrap();
    let arms = ledger.plan().unwrap().arms();
    let arm = arms.iter().find(|arm| arm.stack.to_string() == stack).unwrap();
    let trials = ledger.trials().unwrap();
    let trial = trials.iter().find(|trial| trial.id.arm == arm.index).unwrap();
    let read = |name: &str, role: Role| {
        let of = |it: &&Reading| it.level == 1 && it.role == role && it.payer == name;
        let reading = trial.readings.iter().find(of);
        reading.unwrap_or_else(|| panic!("no {name}: {:?}", trial.readings)).cpu_total().unwrap()
    };
    assert!(read("Dom0", Role::Hypervisor) > Nanoseconds(0), "Dom0 has read the clocks");
    assert!(read("the domain's vCPUs", Role::GuestKernel) > Nanoseconds(10_000_000));
}

fn dom0_and_the_domain_pay(payers: &[Value]) {
    let paid = |name: &str, role: &str| {
        let of_level = payers.iter().filter(|payer| payer["level"] == 1 && payer["role"] == role);
        let payer = of_level.into_iter().find(|payer| payer["payer"] == name);
        payer.unwrap_or_else(|| panic!("no {name}: {payers:?}"))["cpu_ns"].as_f64().unwrap()
    };
    assert!(paid("Dom0", "hypervisor") > 0.0, "Dom0 has read the clocks, at the least");
    paid("the domain's vCPUs", "guest-kernel");
    let command = payers.iter().find(|payer| payer["role"] == "workload").unwrap();
    assert!(command["cpu_ns"].as_f64().unwrap() > 1e7, "{command}");
}

/// Runs in Dom0: starts a domain by this very binary, kills the binary, and waits until its reaper
/// has destroyed the domain. Nothing is left in Dom0 either: no domain, no QEMU, no log.
const KILL: &str = r#"
modprobe -a xen-netback bridge
"$0" enter xen:memory=256M,net=bridge,scratch=blkfront,cache=writeback -- sleep 1000 & main=$!
i=0; until xl list | grep -q ^surtax-; do
    i=$((i+1)); [ $i -lt 60 ] || { echo no domain appeared; exit 1; }; sleep 0.3
done
kill -9 $main; echo killed
i=0; while xl list | grep -q ^surtax-; do
    i=$((i+1)); [ $i -lt 60 ] || { echo the domain stayed; exit 1; }; sleep 0.3
done
sleep 1
if pidof xen-qemu-system-i386; then echo its QEMU stayed; exit 1; fi
ls /var/log/xen | grep surtax && exit 1
xenstore-ls /local/domain/0/backend | grep frontend && { echo the store remembers it; exit 1; }
ls /sys/class/net | grep vif && { echo its link stayed; exit 1; }
echo nothing stayed
"#;

#[test]
fn a_domain_whose_surtax_was_killed_is_destroyed() {
    let machine = Machine::alone();
    if !is_slow_made(DOM0) || !is_usable(&machine, &format!("{DOM0}+xen")) {
        return;
    }
    let surtax = env!("CARGO_BIN_EXE_surtax");
    let output = machine.surtax(&["enter", DOM0, "--", "sh", "-c", KILL, surtax]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("killed") && said.contains("nothing stayed"), "{said}");
    machine.assert_as_before();
}

#[test]
fn a_domain_that_is_one_application_is_told_its_command_on_its_console() {
    let machine = Machine::alone();
    // Linux hangs in a PVH domain here; what is entered without it does not.
    let kinds = [("grub-xen", "pv"), ("grub-xen-pvh", "pvh")];
    let stacks = kinds.map(|(recipe, _)| format!("{DOM0}+appliance:recipe={recipe}"));
    if !is_slow_made(&stacks[0]) {
        return;
    }
    // The images are made by the same chore.
    if !is_usable(&machine, &stacks[0]) || !is_usable(&machine, "appliance:arceos") {
        return;
    }
    let stacks_listed = stacks.join(",");
    let mut words = vec!["compare", "--in", &stacks_listed, "--baseline", "simulated"];
    words.extend(["--runs", "1", "--start-deadline", "3m", "--format", "json", "--"]);
    words.extend(["sha256sum", "(memdisk)/grub.cfg"]);
    let answer = machine.json(&words);
    for ((_, kind), stack) in kinds.iter().zip(&stacks) {
        let found = arm(&answer, stack);
        assert_eq!(found["trial_count"], 1, "{stack}: {}", found["trouble"]);
        let level = &found["evidence"][1];
        for (key, value) in [
            ("domain_type", *kind),
            ("memory_bytes", "67108864"),
            ("cpus", "1"),
            ("network", "none"),
            ("appliance_ready", "surtax: ready"),
            ("inside_agent", "none: it is seen from outside, and its time and CPU are taken there"),
        ] {
            assert_eq!(fact(level, key), value, "{stack}: {key}");
        }
        let payers = found["payers"].as_array().unwrap();
        let pays = |name: &str| payers.iter().any(|it| it["payer"] == name && it["level"] == 1);
        assert!(pays("the domain's vCPUs") && pays("Dom0"), "{payers:?}");
    }
    machine.assert_as_before();
}
