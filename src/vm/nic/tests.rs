//! Tests of what QEMU is told of a network device, and what is refused.

use super::*;

fn read(options: &[(&str, &str)], board: Board) -> Result<Option<Nic>, Fault> {
    Nic::read(&LayerSpec::of("qemu", options), board, 2)
}

#[track_caller]
fn line(options: &[(&str, &str)], bus: &str) -> String {
    let board = if bus == "pci" { Board::Q35 } else { Board::Microvm };
    read(options, board).unwrap().unwrap().arguments(bus, Accelerator::Tcg).concat().join(" ")
}

#[test]
fn a_machine_has_no_network_unless_one_is_named() {
    assert_eq!(read(&[], Board::Q35), Ok(None));
    assert_eq!(read(&[("net", "none")], Board::Q35), Ok(None));
}

#[test]
fn what_stands_behind_a_device_is_on_the_command_line() {
    let mac = "mac=52:54:00:12:34:56";
    assert_eq!(
        line(&[("net", "user")], "pci"),
        format!(
            "-netdev user,id=network,ipv6=off \
             -device virtio-net-pci,id=nic,netdev=network,{mac},romfile="
        )
    );
    assert_eq!(
        line(&[("net", "tap"), ("nic", "e1000")], "pci"),
        format!(
            "-netdev tap,id=network,fd=5,vhost=off -device \
             e1000,id=nic,netdev=network,{mac},romfile="
        )
    );
    assert_eq!(
        line(&[("net", "tap"), ("queues", "2"), ("vhost", "on")], "pci"),
        format!(
            "-netdev tap,id=network,fds=5:6,vhost=on,vhostfds=70:71 \
             -device virtio-net-pci,id=nic,netdev=network,{mac},romfile=,mq=on,vectors=6"
        )
    );
    assert_eq!(
        line(&[("net", "tap"), ("queues", "2")], "device"),
        format!(
            "-netdev tap,id=network,fds=5:6,vhost=off \
             -device virtio-net-device,id=nic,netdev=network,{mac},mq=on"
        )
    );
}

#[test]
fn a_switch_is_found_at_its_socket_and_has_no_vectors_under_tcg() {
    let options = [(String::from("net"), String::from("vhost-user"))].into();
    let spec = LayerSpec { kind: "qemu".into(), options };
    let mut nic = Nic::read(&spec, Board::Q35, 2).unwrap().unwrap();
    nic.socket = "/room/a,b.sock".into();
    let line = nic.arguments("pci", Accelerator::Tcg).concat().join(" ");
    assert!(line.starts_with("-chardev socket,id=switch,path=/room/a,,b.sock -netdev "), "{line}");
    assert!(line.contains("-netdev vhost-user,id=network,chardev=switch "), "{line}");
    assert!(line.contains(",vectors=0,csum=off,"), "{line}");
    let line = nic.arguments("pci", Accelerator::Kvm).concat().join(" ");
    assert!(!line.contains("vectors"), "{line}");
    let fault = read(&[("net", "vhost-user"), ("nic", "e1000")], Board::Q35).unwrap_err();
    assert_eq!(fault.message, "`net=vhost-user` knows no `nic=e1000`");
}

#[test]
fn a_bridge_of_open_vswitch_is_behind_a_tap_as_any_other() {
    for options in [&[][..], &[("queues", "2"), ("vhost", "on")], &[("nic", "e1000")]] {
        let on = |net| line(&[&[("net", net)], options].concat(), "pci");
        assert_eq!(on("ovs"), on("tap"));
    }
    let fault = read(&[("net", "ovs"), ("nic", "e1000"), ("queues", "2")], Board::Q35).unwrap_err();
    assert_eq!(fault.message, "`queues=` is of a virtio device on a tap");
    let shaped = read(&[("net", "ovs"), ("delay", "20ms")], Board::Q35).unwrap().unwrap();
    assert!(shaped.shape.is_some());
}

#[test]
fn without_offloads_each_of_them_is_switched_off() {
    let bare = line(&[("net", "tap"), ("offloads", "off")], "pci");
    for name in VIRTIO_OFFLOADS {
        assert!(bare.contains(&format!(",{name}=off")), "{bare}");
    }
    assert!(!line(&[("net", "tap"), ("offloads", "on")], "pci").contains("=off,"));
}

#[test]
fn a_device_that_cannot_be_is_refused_with_what_can() {
    let refused = |options: &[(&str, &str)]| read(options, Board::Q35).unwrap_err();
    for key in ["nic", "vhost", "offloads", "queues"] {
        let fault = refused(&[(key, "on")]);
        assert_eq!(
            fault.message,
            format!("`{key}=` is of a network device, and the machine has none")
        );
    }
    for (key, value) in [("vhost", "on"), ("offloads", "off"), ("queues", "2")] {
        for options in [[("net", "user"), ("nic", "virtio")], [("net", "tap"), ("nic", "e1000")]] {
            let fault = refused(&[options[0], options[1], (key, value)]);
            assert_eq!(
                fault.message,
                format!("`{key}=` is of a virtio device on a tap"),
                "{options:?}"
            );
        }
    }
    let options = [("net", "tap"), ("nic", "rtl8139")];
    let fault = read(&options, Board::Microvm).unwrap_err();
    assert!(fault.message.contains("no PCI for `nic=rtl8139`"), "{fault}");
    for text in ["0", "x", "65"] {
        let fault = refused(&[("net", "tap"), ("queues", text)]);
        assert!(fault.message.contains("is no number from 1 to 64"), "{fault}");
    }
    let fault = refused(&[("net", "tap"), ("queues", "3")]);
    assert_eq!(fault.hint.as_deref(), Some("give the machine `cpus=3`, or `queues=2`"));
}

#[test]
fn a_vhost_that_this_machine_does_not_have_is_refused_before_anything_is_made() {
    let nic = read(&[("net", "tap"), ("vhost", "on")], Board::Q35).unwrap().unwrap();
    if Path::new(VHOST_DEVICE).exists() {
        assert_eq!(nic.is_possible(), Ok(()));
        return;
    }
    let fault = nic.is_possible().unwrap_err();
    assert_eq!(fault.message, "there is no `/dev/vhost-net` for `vhost=on`");
    assert!(fault.hint.unwrap().starts_with("modprobe vhost_net"));
}
