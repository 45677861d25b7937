//! Networks: bytes really go between a command and the outside, where its stack says that they can.

use crate::answers::{alone, fact};
use crate::machine::{Machine, cases, is_usable, text};
use crate::suite::{lab, run, start};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;
use surtax_instrument::wire::Status;

/// Time that anything of the outside may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stacks in which a command reaches the outside, and whether it can be called from there.
const STACKS: [(&str, bool); 26] = [
    ("native", true),
    ("runc:net=host", true),
    ("runc:net=veth", true),
    ("gvisor:net=sandbox", true),
    ("nspawn:net=veth", true),
    ("lxc:init=systemd,net=veth", true),
    ("lxc:net=macvlan", true),
    ("podman:net=bridge", true),
    ("podman:net=user,runtime=crun", true),
    ("podman:net=bridge,runtime=runsc", true),
    ("podman:rootless=on,net=slirp4netns", false),
    ("podman:rootless=on,net=host", true),
    ("docker:net=host", true),
    ("docker:net=bridge", true),
    ("docker:net=user", true),
    ("docker:net=user,runtime=runsc", true),
    ("docker:net=macvlan", true),
    ("docker:rootless=on", true),
    ("nspawn:net=bridge", true),
    ("lxc:net=veth", true),
    ("gvisor:net=host", true),
    ("qemu:accel=tcg,net=user", false),
    ("qemu:accel=tcg,net=vhost-user", true),
    ("qemu:accel=tcg,net=tap", true),
    ("qemu:accel=tcg,cpus=2,machine=microvm,net=tap,queues=2", true),
    ("qemu:accel=tcg,machine=pc,net=tap,nic=rtl8139", true),
];

/// Does something in a network namespace, in a thread that ends with it.
fn outside<T: Send + 'static>(
    namespace: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let namespace = File::open(namespace).unwrap();
    std::thread::spawn(move || {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind).unwrap();
        work()
    })
}

/// Answers one line with the same line.
fn echo(listener: &TcpListener) {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    (&stream).write_all(line.as_bytes()).unwrap();
}

/// Calls until somebody answers, and gives back all that they say.
fn call(workload: IpAddr, port: u16) -> String {
    for _ in 0..300 {
        if let Ok(mut stream) = TcpStream::connect((workload, port)) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"called\n").unwrap();
            // Our end stays open: at its end `nc` would leave, whatever it still has to say.
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            return said;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nobody answers at {workload}, port {port}");
}

#[test]
fn a_command_and_the_outside_exchange_bytes_at_the_addresses_that_its_stack_names() {
    let machine = Machine::take();
    for &(stack, can_be_called) in cases(&STACKS, STACKS.len() - 3) {
        if !is_usable(&machine, stack) {
            continue;
        }
        let lab = lab();
        let mut running = start(&lab, stack, "network", PATIENCE).unwrap();
        let network = running.network().unwrap_or_else(|| panic!("{stack}")).clone();

        let listener = outside(&network.namespace, || TcpListener::bind("0.0.0.0:0").unwrap());
        let listener = listener.join().unwrap();
        let port = listener.local_addr().unwrap().port();
        let echoing = std::thread::spawn(move || echo(&listener));
        let script = format!(
            "exec bash -c 'exec 3<>/dev/tcp/$SURTAX_PEER/{port} && echo \"from $$\" >&3 && \
             read -r line <&3 && test \"$line\" = \"from $$\" && echo $SURTAX_PEER'"
        );
        let outcome = run(&mut running, &script).unwrap();
        assert_eq!(outcome.status, Status::Exit(0), "{stack}: {}", text(&outcome.stderr.tail));
        assert_eq!(text(&outcome.stdout.tail).trim(), network.outside.to_string(), "{stack}");
        echoing.join().unwrap();

        assert_eq!(network.workload.is_some(), can_be_called, "{stack}");
        if let Some(workload) = network.workload {
            // A port that was free a moment ago on a network that may be this machine's own.
            let calling = outside(&network.namespace, move || call(workload, port));
            let served = format!("echo served | busybox nc -l -p {port}");
            let outcome = run(&mut running, &served).unwrap();
            assert_eq!(text(&outcome.stdout.tail), "called\n", "{stack}");
            assert_eq!(calling.join().unwrap(), "served\n", "{stack}");
        }
        assert_eq!(running.stop().unwrap(), Vec::<String>::new(), "{stack}");
        lab.close().unwrap();
        machine.assert_as_before();
    }
}

#[test]
fn a_nested_command_reaches_the_outside_through_layers_that_keep_their_levels_network() {
    let machine = Machine::take();
    if !["qemu", "runc"].into_iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    // Nobody listens there, and only the outside itself can say so.
    let refused = "test $SURTAX_PEER = 198.18.0.1 && \
                   bash -c 'exec 3<>/dev/tcp/$SURTAX_PEER/9' 2>&1 | grep -q 'Connection refused'";
    let stacks = [
        ("qemu:accel=tcg,cpus=1,net=tap,offloads=off+runc:net=host", refused),
        ("qemu:accel=tcg,cpus=1,net=tap+runc", "test -z \"$SURTAX_PEER\""),
    ];
    for &(stack, script) in cases(&stacks, 1) {
        let answer = machine.json(&alone(stack, &["sh", "-c", script]));
        let arm = answer["arms"].as_array().unwrap().last().unwrap();
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        machine.assert_as_before();
    }
}

#[test]
fn a_command_without_a_way_out_is_told_of_none() {
    let machine = Machine::take();
    for stack in ["runc", "docker:net=none", "qemu:accel=tcg"] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let arguments = alone(stack, &["sh", "-c", "test -z \"$SURTAX_PEER\""]);
        let output = machine.command(&arguments).env("SURTAX_PEER", "192.0.2.1").output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let arm = answer["arms"].as_array().unwrap().last().unwrap();
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        assert_eq!(fact(&arm["evidence"][0], "network_reach"), "none", "{stack}");
        machine.assert_as_before();
    }
}

#[test]
fn a_machines_network_device_is_the_one_that_was_asked_for() {
    let machine = Machine::take();
    let devices = [
        ("cpus=2,net=tap,queues=2", [("nic_queues", "2"), ("vhost", "off")]),
        ("net=user", [("outside_address", "10.0.2.2"), ("network_reach", "outward only")]),
        ("net=none", [("network", "none"), ("network_reach", "none")]),
        ("net=tap,nic=e1000", [("network", "tap"), ("nic_driver", "e1000")]),
        ("net=vhost-user", [("network", "vhost-user"), ("nic_driver", "virtio_net")]),
    ];
    for &(options, facts) in cases(&devices, 2) {
        if !is_usable(&machine, "qemu") {
            continue;
        }
        let stack = format!("qemu:accel=tcg,{options}");
        let answer = machine.json(&alone(&stack, &["true"]));
        let arm = answer["arms"].as_array().unwrap().last().unwrap();
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        for (key, value) in facts {
            assert_eq!(fact(&arm["evidence"][0], key), value, "{stack}");
        }
        machine.assert_as_before();
    }
}
