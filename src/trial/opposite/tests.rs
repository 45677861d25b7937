//! What is known of two sides before anything is started.

use super::*;
use crate::workload::Workload;

/// What helps two stacks that cannot meet.
const MEET: &str = "let both be on this machine's network (`native`, `net=host`), or both containers of one engine, \
                    or the client one of `runc`, `crun` and `youki` with `net=veth`";

fn definition(typed: &str) -> Definition {
    Workload::find(typed).unwrap().resolve().unwrap()
}

fn words(command: &Command) -> Vec<String> {
    command.argv.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect()
}

#[test]
fn a_stack_without_a_way_is_a_gap_with_what_would_make_one() {
    let gap = |typed: &str, stack: &str| {
        gap(&definition(typed), &StackSpec::parse(stack).unwrap()).map(|gap| gap.remedy.unwrap())
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
        ("net.tcp_rr:client=runc:net=veth", "native", Some(MEET)),
        ("net.tcp_rr:client=qemu:net=tap", "runc:net=veth", Some(MEET)),
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

#[test]
fn a_server_on_this_machines_own_network_listens_at_its_loopback_alone() {
    let shared = Network::of_level();
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert_eq!(addresses(&shared, &Client::Native), Ok((loopback, loopback)));
    let [outside, workload] = [IpAddr::from([198, 18, 0, 1]), IpAddr::from([198, 18, 0, 2])];
    let wired = Network { outside, workload: Some(workload), is_shared: false, ..shared };
    let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    assert_eq!(addresses(&wired, &Client::Native), Ok((workload, everywhere)));
    assert_eq!(addresses(&wired, &Client::Stack), Ok((outside, everywhere)));
    let outward = Network { workload: None, ..wired };
    assert!(addresses(&outward, &Client::Native).unwrap_err().message.ends_with("not be called"));
}
