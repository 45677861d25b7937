//! Networks: what hangs on the bridge reaches the outside, and nothing of it is seen anywhere else.

use super::network::{OUTSIDE, WORKLOAD, within};
use super::*;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

/// The links that a process sees.
fn links(pid: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    let mut links: Vec<String> = text.lines().skip(2).filter_map(name).collect();
    links.sort();
    links
}

/// A process that sleeps in a network namespace.
fn sleeper(room: &Room, network: &RoomNetwork) -> Process {
    let namespace = network.namespace().unwrap();
    let sleeper = Program { network_namespace: Some(namespace), ..program(&["sleep", "1000"]) };
    room.spawn(sleeper).unwrap()
}

#[test]
fn a_process_that_is_connected_talks_with_the_outside_and_its_links_are_seen_nowhere_else() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("network").unwrap();
    let before = links("self");
    let (outside, inside) = (room.network().unwrap(), room.bare_network().unwrap());
    let workload = sleeper(&room, &inside);
    outside.connect(workload.pid()).unwrap();
    assert_eq!(links(&workload.pid().to_string()), ["eth0", "lo"]);

    let namespace = outside.namespace().unwrap();
    let listener =
        within(namespace.as_fd(), || TcpListener::bind((OUTSIDE, 0)).doing("listen outside"));
    let listener = listener.unwrap();
    let at = listener.local_addr().unwrap();
    let workload_namespace = inside.namespace().unwrap();
    let mut stream =
        within(workload_namespace.as_fd(), || TcpStream::connect(at).doing("reach the outside"))
            .unwrap();
    stream.write_all(b"hello").unwrap();
    drop(stream);
    let (mut accepted, from) = listener.accept().unwrap();
    let mut said = String::new();
    accepted.read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), from.ip()), ("hello", WORKLOAD.into()));
    assert_eq!(links("self"), before);
    drop(workload);
    assert_eq!(room.close().unwrap(), Vec::<String>::new());
}

#[test]
fn a_tap_is_gone_with_its_last_descriptor_and_a_network_with_its_last_holder() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("tap").unwrap();
    let network = room.network().unwrap();
    let witness = sleeper(&room, &network);
    let pid = witness.pid().to_string();
    assert_eq!(links(&pid), ["lo", "outside"]);
    let taps = network.tap(2).unwrap();
    assert_eq!(taps.len(), 2, "one descriptor for each queue");
    assert_eq!(links(&pid), ["lo", "outside", "tap0"]);
    drop(taps);
    assert_eq!(links(&pid), ["lo", "outside"]);

    let path = network.path();
    let name = fs::read_link(&path).unwrap();
    assert_eq!(fs::read_link(format!("/proc/{pid}/ns/net")).unwrap(), name);
    let counted = census::Census::take().unwrap();
    drop((witness, network));
    assert!(fs::read_link(&path).map_or(true, |other| other != name));
    let lines = counted.difference_from(&census::Census::take().unwrap());
    let held = format!("came: network namespace held: `{}`", name.display());
    assert!(lines.contains(&held), "{lines:#?}");
    assert_eq!(room.close().unwrap(), Vec::<String>::new());
}

#[test]
fn a_process_that_is_not_there_cannot_be_connected() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("nobody").unwrap();
    let mut gone = room.spawn(program(&["true"])).unwrap();
    gone.wait(Duration::from_secs(10)).unwrap().unwrap();
    let fault = room.network().unwrap().connect(gone.pid()).unwrap_err();
    assert!(fault.message.contains("/ns/net"), "{fault}");
}
