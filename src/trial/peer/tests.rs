//! Tests of what is known of two sides before anything is started.

use super::*;
use crate::driver;
use crate::workload::Workload;

/// Advice for two stacks that cannot meet.
const MEET: &str = "let both be on this machine's network (`native`, `net=host`), or both \
                    containers of one engine, or the client one of `runc`, `crun` and `youki` with \
                    `net=veth` or `qemu` with `net=tap`";

/// Advice where one of the two is another machine.
const ON_OUR_NETWORK: &str = "let the server be there: `native`, or `net=host` in every layer";
const CLIENT_HERE: &str = "let the client be there: `client=runc:net=host`, or leave `client=` out";
const ONE_SIDE_HERE: &str =
    "let one side be on this machine: leave `client=` out, or put the server into `native`";

fn definition(typed: &str) -> Definition {
    Workload::find(typed).unwrap().resolve().unwrap()
}

fn words(command: &Command) -> Vec<String> {
    command.argv.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect()
}

#[test]
fn a_stack_without_a_way_is_a_gap_with_what_would_make_one() {
    let gap = |typed: &str, stack: &str| {
        gap(&definition(typed), &driver::parse(stack).unwrap()).map(|gap| gap.remedy.unwrap())
    };
    for (typed, stack, expected) in [
        ("net.tcp_rr", "native", None),
        ("net.tcp_rr", "runc:net=veth", None),
        ("net.tcp_rr", "docker", None),
        ("net.tcp_rr", "runc", Some("give it a network: `net=…`")),
        ("net.tcp_rr", "qemu:net=user", Some("put the client into the stack: `client=stack`")),
        ("net.tcp_rr:client=stack", "qemu:net=user", None),
        ("net.tcp_rr:client=stack", "runc", Some("give it a network: `net=…`")),
        ("cpu.sysbench", "runc", None),
        ("net.tcp_rr:client=runc:net=veth", "crun:net=veth", None),
        ("net.tcp_rr:client=runc:net=veth", "qemu:net=tap+runc:net=host", None),
        ("net.tcp_rr:client=docker:net=bridge", "docker:net=bridge", None),
        ("net.tcp_rr:client=runc:net=host", "native", None),
        ("net.tcp_rr:client=runc:net=veth", "native", None),
        ("net.tcp_rr:client=runc:net=veth", "runc:net=host", Some(MEET)),
        ("net.tcp_rr:client=qemu:net=tap", "native", None),
        ("net.tcp_rr:client=qemu:net=tap", "runc:net=veth", None),
        ("net.tcp_rr:client=qemu:net=tap", "qemu:net=tap", None),
        ("net.tcp_rr:client=qemu:net=vhost-user", "qemu:net=tap", Some(MEET)),
        ("net.tcp_rr:client=qemu:net=user", "runc:net=host", None),
        ("net.tcp_rr:client=ssh:lab7", "native", None),
        ("net.tcp_rr:client=ssh:lab7+runc:net=host", "docker:net=host", None),
        ("net.tcp_rr:client=ssh:lab7", "runc:net=veth", Some(ON_OUR_NETWORK)),
        ("net.tcp_rr:client=ssh:lab7+runc", "native", Some(MEET)),
        ("net.tcp_rr", "ssh:lab7", None),
        ("net.tcp_rr", "ssh:lab7+runc:net=host", None),
        ("net.tcp_rr:client=stack", "ssh:lab7", None),
        ("net.tcp_rr:client=runc:net=host", "ssh:lab7", None),
        ("net.tcp_rr:client=runc:net=veth", "ssh:lab7", Some(CLIENT_HERE)),
        ("net.tcp_rr:client=ssh:lab8", "ssh:lab7", Some(ONE_SIDE_HERE)),
        ("net.tcp_rr:client=docker:net=bridge", "docker:net=macvlan", Some(MEET)),
        ("net.tcp_rr:client=runc", "runc:net=veth", Some(MEET)),
    ] {
        assert_eq!(gap(typed, stack).as_deref(), expected, "{typed} in {stack}");
    }
}

#[test]
fn the_side_in_the_stack_is_the_server_unless_the_client_is_put_there() {
    let command = Command { argv: vec![b"client".to_vec()], ..Command::default() };
    let two = definition("net.tcp_rr");
    assert!(words(&inside(Some(&two), &command)).contains(&String::from("serve")));
    for other in
        [Some(definition("net.tcp_rr:client=stack")), Some(definition("cpu.sysbench")), None]
    {
        assert_eq!(words(&inside(other.as_ref(), &command)), ["client"]);
    }
}

#[test]
fn a_client_outside_calls_a_published_port_that_is_the_servers() {
    let tcp = Port { number: 5201, protocol: "tcp" };
    let udp = Port { number: 5201, protocol: "udp" };
    for (typed, port, expected) in [
        ("net.tcp_rr", tcp, true),
        ("net.tcp_rr", udp, false),
        // Their client and server agree over TCP.
        ("net.udp_rr", udp, false),
        ("net.udp_rr", tcp, false),
        ("net.tcp_rr:port=80", tcp, false),
        ("net.tcp_rr:client=stack", tcp, false),
        ("net.tcp_rr:client=docker:net=bridge", tcp, false),
        ("net.ping", tcp, false),
    ] {
        assert_eq!(is_at(&definition(typed), port), expected, "{typed} {port:?}");
    }
}
