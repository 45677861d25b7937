//! Networks of containers: which links and addresses a layer really gives, and who can reach them.

use crate::answers::fact;
use crate::containers::level;
use crate::machine::{Machine, is_usable, text};
use crate::suite::{lab, run, start};
use std::process::Command;
use std::time::Duration;
use surtax_instrument::wire::Status;

/// Titles, `lo` and one link; and a way out.
const ONE_LINK: &str = "test $(wc -l < /proc/net/dev) = 4 && test $(wc -l < /proc/net/route) -ge 2";

#[test]
fn a_docker_network_is_made_where_nobody_else_sees_it() {
    let machine = Machine::take();
    if !is_usable(&machine, "docker") {
        return;
    }
    for (net, driver) in [("bridge", "bridge"), ("user", "bridge"), ("macvlan", "macvlan")] {
        let proved = level(&machine, &format!("docker:net={net}"), ONE_LINK);
        assert_eq!(fact(&proved, "network"), net);
        assert_eq!(fact(&proved, "network_driver"), driver);
        let gateway = fact(&proved, "network_gateway");
        let address = fact(&proved, "network_address");
        assert!(gateway.contains('.') && gateway != address, "{gateway}");
        assert_eq!(fact(&proved, "inside_default_route"), format!("eth0 {gateway}"));
        assert!(fact(&proved, "inside_interfaces").contains(&format!("eth0={address}/")));
        machine.assert_as_before();
    }
}

#[test]
fn a_link_of_a_container_is_of_the_kind_asked_for_and_leads_to_the_outside() {
    let machine = Machine::take();
    // Only the baseline has no outside to reach.
    let script = "test -z \"$SURTAX_PEER\" || busybox ping -c 1 -W 5 $SURTAX_PEER";
    for (stack, driver) in [
        ("runc:net=veth", "veth"),
        ("crun:net=veth", "veth"),
        ("nspawn:net=veth", "veth"),
        ("nspawn:net=bridge", "veth"),
        ("nspawn:net=macvlan", "macvlan"),
        ("lxc:net=veth", "veth"),
        ("lxc:net=macvlan", "macvlan"),
        ("podman:net=bridge", "veth"),
        ("podman:net=user", "veth"),
        ("podman:net=macvlan", "macvlan"),
        ("docker:net=macvlan", "macvlan"),
    ] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let proved = level(&machine, stack, script);
        assert_eq!(fact(&proved, "network_driver"), driver, "{stack}");
        assert_eq!(fact(&proved, "network_reach"), "both ways", "{stack}");
        assert!(fact(&proved, "own_namespaces").contains("net"), "{stack}");
        let (address, gateway) =
            (fact(&proved, "network_address"), fact(&proved, "network_gateway"));
        assert!(fact(&proved, "inside_interfaces").contains(&format!("={address}/")), "{stack}");
        assert!(fact(&proved, "inside_default_route").ends_with(gateway), "{stack}");
        machine.assert_as_before();
    }
}

#[test]
fn a_published_port_is_reached_from_outside_the_container() {
    let machine = Machine::take();
    // The gateway of docker's own bridge is the outside of every container of its, and so is
    // podman's here.
    for (stack, outside) in [
        ("docker:net=user,publish=8080", "172.17.0.1"),
        ("podman:net=user,publish=8080", "10.89.0.1"),
    ] {
        if !is_usable(&machine, stack) {
            continue;
        }
        let lab = lab();
        let mut running = start(&lab, stack, "published", Duration::from_secs(60)).unwrap();
        let namespace = running.network().unwrap().namespace.display().to_string();
        let namespace = format!("--net={namespace}");
        let client = std::thread::spawn(move || {
            let argv = [&namespace, "busybox", "nc", "-w", "10", outside, "8080"];
            for _ in 0..100 {
                let output = Command::new("nsenter").args(argv).output().unwrap();
                if output.status.success() && !output.stdout.is_empty() {
                    return text(&output.stdout);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            String::from("nobody answered")
        });
        let outcome = run(&mut running, "echo hello | timeout 20 busybox nc -l -p 8080").unwrap();
        assert_eq!(client.join().unwrap(), "hello\n", "{stack}");
        assert_eq!(outcome.status, Status::Exit(0), "{stack}: {outcome:?}");
        running.stop().unwrap();
        assert_eq!(lab.close().unwrap(), Vec::<String>::new());
        machine.assert_as_before();
    }
}
