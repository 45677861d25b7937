//! Two labs at once, which are two open files here, and others that listen.

use super::*;
use std::net::{TcpListener, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All ports that there are.
const ANY: RangeInclusive<u16> = 1..=u16::MAX;

/// Two labs, and their directory. One test at a time has such: to ask whether a port is free is to
/// listen there for a moment, so that it is not for whoever else asks.
fn two() -> ((tempfile::TempDir, MutexGuard<'static, ()>), [Ports; 2]) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let ports = [(); 2].map(|()| Ports::open(directory.path()).unwrap());
    ((directory, turn), ports)
}

/// A port that nobody has.
fn free() -> u16 {
    OTHERS.rev().find(|port| is_free(*port).unwrap() && is_free(*port - 1).unwrap()).unwrap() - 1
}

#[test]
fn each_lab_has_ports_of_its_own_and_the_same_ones_every_time() {
    let (_directory, [mut one, mut other]) = two();
    let usual = free();
    assert_eq!(one.choose("a", usual, 1, &ANY), Ok(usual));
    let elsewhere = other.choose("a", usual, 1, &ANY).unwrap();
    assert!(elsewhere != usual && OTHERS.contains(&elsewhere), "{elsewhere}");
    assert_eq!(one.choose("a", usual, 1, &ANY), Ok(usual));
    assert_eq!(other.choose("a", usual, 1, &ANY), Ok(elsewhere));
    let beside = one.choose("b", usual, 1, &ANY).unwrap();
    assert!(![usual, elsewhere].contains(&beside), "two of one lab do not share one");
    drop(one);
    assert_eq!(other.choose("b", usual, 1, &ANY), Ok(usual), "the kernel lets go of them");
}

#[test]
fn a_row_that_is_partly_taken_is_not_chosen_and_nothing_of_it_is_kept() {
    let (_directory, [mut one, mut other]) = two();
    let usual = free();
    assert_eq!(one.choose("a", usual + 1, 1, &ANY), Ok(usual + 1));
    let first = other.choose("a", usual, 2, &ANY).unwrap();
    assert!(first > usual + 1 || first + 1 < usual, "{first}");
    assert_eq!(one.choose("b", usual, 1, &ANY), Ok(usual));
}

#[test]
fn what_somebody_listens_at_is_not_chosen_and_nothing_beyond_what_is_allowed() {
    let (_directory, [mut ports, _]) = two();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for port in [tcp.local_addr(), udp.local_addr()].map(|it| it.unwrap().port()) {
        assert_ne!(ports.choose("a", port, 1, &ANY), Ok(port));
        let fault = ports.choose("a", port, 1, &(port..=port)).unwrap_err();
        assert!(fault.message.starts_with(&format!("no 1 ports from {port} to {port}")), "{fault}");
    }
    assert!(ports.choose("a", u16::MAX, 2, &(u16::MAX..=u16::MAX)).is_err());
}

#[test]
fn a_named_port_that_is_taken_is_told_with_who_has_it() {
    let (_directory, [mut one, mut other]) = two();
    let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listening.local_addr().unwrap().port();
    let named = |ports: &mut Ports, protocol| {
        ports.insist("a", Row { first: port, count: 1 }, protocol).map_err(|it| it.message)
    };
    let said = named(&mut one, Protocol::Tcp).unwrap_err();
    let us = format!("(process id {})", std::process::id());
    assert!(
        said.starts_with(&format!("port {port} is taken here, by `")) && said.contains(&us),
        "{said}"
    );
    drop(listening);
    assert_eq!(named(&mut one, Protocol::Tcp), Ok(()));
    assert_eq!(named(&mut one, Protocol::Tcp), Ok(()), "again");
    assert!(named(&mut other, Protocol::Tcp).is_err(), "kept between two trials, too");
    let _datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert_eq!(named(&mut one, Protocol::Tcp), Ok(()), "no server of this kind");
    assert!(named(&mut one, Protocol::Udp).is_err());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another process has to hold the lock")]
fn the_holder_of_a_lock_is_read_from_what_the_kernel_tells_of_its_descriptors() {
    let told = "pos:\t0\nflags:\t0100002\nmnt_id:\t29\nino:\t5\n\
                lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:5 5201 5202\n";
    assert_eq!([5200, 5201, 5202, 5203].map(|it| locks(told, it)), [false, true, true, false]);
    assert!(!locks("lock:\t1: FLOCK  ADVISORY  WRITE 1 fe:00:5 0 EOF\n", 0));
    // A process of its own, which keeps the descriptor across `exec`.
    let (_directory, [one, other]) = two();
    assert!(one.lock(4711).unwrap());
    rustix::io::fcntl_setfd(&one.file, rustix::io::FdFlags::empty()).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    drop(one);
    let holder = other.holder(4711);
    child.kill().unwrap();
    child.wait().unwrap();
    let holder = holder.unwrap();
    assert!(holder.contains(&format!("(process id {})", child.id())), "{holder}");
    assert_eq!(other.holder(4712), None);
}
