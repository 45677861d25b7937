//! Stacks that cannot be: each is refused with what to do about it, before anything is started.

use crate::machine::{Machine, text};

/// A stack that was typed wrong or cannot be, a part of what is said about it, and a part of the
/// advice.
const WRONG: &[(&str, &str, &str)] = &[
    ("qmeu", "unknown layer `qmeu`", "use `qemu`"),
    ("qemu:acel=tcg", "unknown option `acel`", "use `accel`"),
    ("qemu:accel=hvf", "`hvf` is not a value of option `accel`", "`kvm`, `tcg`"),
    ("runc:net=bridge", "`bridge` is not a value of option `net`", "`none`, `host`"),
    ("runc:net=host,net=none", "option `net` of `runc` is given twice", "keep one"),
    ("native+runc", "`native` is the absence of layers", "write `runc`"),
    ("bubblewrap+runc", "`bubblewrap` cannot hold `runc`", "put `bubblewrap` last"),
    ("gvisor+qemu", "no `qemu` runs in it", "`qemu+gvisor`"),
    ("gvisor+crun", "`crun` cannot make a network in it", "`gvisor:net=host+crun`"),
    ("ssh", "means nothing without its `host`", "`ssh:HOST`"),
    ("qemu:pids=100", "`qemu` cannot limit `pids`", "leave `pids` out"),
    ("gvisor:write-bps=1M", "`gvisor` cannot limit `write-bps`", "leave `write-bps` out"),
    ("runc:cpuset=0,partition=root", "`runc` cannot limit `partition`", "leave `partition` out"),
    ("native:partition=root", "no `cpuset` says which", "`cpuset=1,partition=isolated`"),
    ("runc:memory=12", "less than one mebibyte", "add a suffix"),
    ("runc:memory=64K", "less than one mebibyte", "give it `1M` or more"),
    ("runc:hugetlb=3M", "no whole number of huge pages", "write `4M`"),
    ("runc:hugepages=on", "unknown option `hugepages` of `runc`", "`hugetlb=64M` says"),
    ("docker:hugepages=on", "unknown option `hugepages` of `docker`", "`hugetlb=64M` says"),
    ("qemu:hugetlb=64M", "`qemu` cannot limit `hugetlb`", "use `hugepages=on`"),
    ("podman:runtime=runsc,hugetlb=64M", "has no huge pages", "leave hugetlb out"),
    ("runc:weight=0", "`0` is not a weight", "from 1 to 10000"),
    ("native:cpuset=4000", "this machine has no CPU 4000", "its CPUs are 0"),
    ("runc:numa=4000", "this machine has no NUMA node 4000", "its NUMA nodes are 0"),
    ("native:env.1A=x", "`1A` is not the name of a variable", "use letters"),
    ("runc:root=host", "`runc` cannot take `host` as its root", "use `root=overlay`"),
    ("qemu:cpus=0.5", "a machine has whole CPUs", "`qemu:cpus=1+runc:cpus=0.5`"),
    ("qemu:memory=64M", "no guest kernel starts in 64 MiB", "use `memory=192M` or more"),
    ("qemu:icount=2,accel=kvm", "instructions that TCG translates", "drop `accel=kvm`"),
    ("qemu:cache=none", "`cache=` is of a scratch disk", "`scratch=virtio-blk`"),
    ("qemu:scratch=nvme,machine=microvm", "a microvm has no PCI", "use `machine=q35`"),
    (
        "qemu:scratch=ide,aio=native,cache=writeback",
        "`cache=writeback` through it",
        "use `cache=none`",
    ),
    ("qemu:scratch=virtio-blk+runc", "`scratch` is for the command", "of `runc:scratch=layer`, "),
    ("qemu:net=user,vhost=on", "is of a virtio device on a tap", "use `net=tap`"),
    ("qemu:machine=microvm,net=tap,nic=e1000", "a microvm has no PCI", "or `nic=virtio`"),
    ("qemu+xen", "no Xen runs in this machine", "`qemu:hypervisor=xen+xen`"),
    ("qemu:hypervisor=xen+xen+xen", "a domain is no Dom0", "`xen+qemu:hypervisor=xen+xen`"),
    ("qemu:hypervisor=xen,machine=microvm", "not booted with `machine=microvm`", "`machine=q35`"),
    ("qemu:hypervisor=xen,memory=512M", "a Dom0 of 256 MiB", "use `memory=1024M` or more"),
    ("qemu:dom0-memory=1G", "without Xen there is no Dom0", "add `hypervisor=xen`"),
    ("xen:pids=9", "`xen` cannot limit `pids`", "leave `pids` out"),
    ("xen:cache=writeback", "`cache=` is of a scratch disk", "`scratch=blkfront`"),
    ("xen:scratch=virtio-blk", "`virtio-blk` is not a value of option `scratch`", "`blkfront`"),
    (
        "xen:scratch=blkfront,cache=unsafe",
        "`unsafe` is not a value of option `cache`",
        "`writeback`",
    ),
    (
        "xen:scratch=blkfront,disk-size=1M",
        "xen: a disk of `1M` holds no file system",
        "`disk-size=16M`",
    ),
    ("xen:net=tap", "`tap` is not a value of option `net`", "`bridge`"),
    (
        "appliance:arceos,machine=xen-pv", "`arceos` is for a machine of QEMU's",
        "a recipe of your own",
    ),
    ("appliance:grub-xen,machine=q35", "`grub-xen` is for a domain of Xen's", "`xen-pv`"),
    ("appliance:grub-xen,accel=tcg", "a domain of Xen's takes no `accel=`", "leave `accel=` out"),
    ("appliance:grub-xen,numa=0", "a domain of Xen's takes no `numa=`", "leave `numa=` out"),
    (
        "qemu+appliance:grub-xen",
        "no Xen runs in this machine",
        "`qemu:hypervisor=xen+appliance:recipe=grub-xen`",
    ),
    ("firecracker", "cannot share files with its guest", "`firecracker:root=packed`"),
    ("cloud-hypervisor:cpus=1.5", "whole CPUs", "`cloud-hypervisor:cpus=1+runc:cpus=0.5`"),
    ("krun:root=packed", "`krun` cannot take `packed` as its root", "use `root=dir:PATH`"),
    ("krun:cpus=33", "libkrun makes at most 32", "write `cpus=32` or less"),
    ("docker:net=none,publish=80", "needs a bridge", "use `net=bridge`"),
    ("runc+runc+runc", "overlay number 3", "put a machine between"),
    ("docker:runtime=kata,cpus=2", "of Kata's own configuration", "`default_vcpus`"),
    ("docker:runtime=kata,net=host", "no part in this level's network", "use `net=bridge`"),
    ("docker:runtime=kata+runc", "would be put into its machine", "or in `qemu`"),
    ("docker:storage=devicemapper", "cannot have `storage=devicemapper`", "use `storage=overlay2`"),
    ("nspawn:init=busybox,net=host", "`init=busybox` with `net=host`", "use `net=none`"),
    ("lxc:init=systemd,net=host", "`init=systemd` with `net=host`", "`net=veth`"),
    ("lxc:net=host,user=private", "cannot show `/sys` to `user=private`", "`net=veth`"),
    ("podman:rootless=on,net=macvlan", "its user may not touch", "`net=slirp4netns`"),
    ("podman:publish=80", "needs a bridge", "use `net=bridge`"),
    ("podman:net=host,publish=80", "not `net=host`", "use `net=bridge`"),
    ("podman:net=user,rootless=on", "nobody outside can be called", "`net=slirp4netns`"),
    ("podman:runtime=runsc,net=host", "a network stack of its own", "`gvisor:net=host`"),
    ("podman:runtime=runsc,rootless=on", "not set up for such a user", "leave `runtime`"),
    ("podman:runtime=runsc,seccomp=unconfined", "no filter of an engine's", "leave seccomp out"),
    ("docker:runtime=runsc,pids=20", "would be counted", "leave pids out"),
    ("podman:runtime=kata", "`kata` is not a value of option `runtime`", "`runc`, `crun`"),
    ("podman:rootless=on,storage=vfs", "which no driver makes", "leave `storage` out"),
    ("podman:rootless=on,user=private", "what it has anyway", "leave `user=private` out"),
    ("namespaces:group=none,pids=9", "a limit is one of a group", "leave the limit"),
    ("namespaces:group=none,pid=host", "nobody could find", "leave `pid=host`"),
    ("docker:rootless=on,net=host", "not this level's", "use `net=bridge`"),
    ("docker:rootless=on+runc", "no privileges to give", "nest in `docker`"),
    ("docker+podman:rootless=on", "the kernel maps none", "use `podman` without `docker`"),
    ("docker+lxc:user=private", "the kernel maps none", "use `lxc` without `docker`"),
    ("docker+lxd", "the kernel maps none", "say `user=host`"),
    ("libvirt", "means nothing without its `domain`", "`libvirt:DOMAIN`"),
    ("libvirt:web,uri=xen:///", "not this machine's QEMU", "`ssh:HOST+libvirt:DOMAIN`"),
    ("docker:net=bridge,publish=http", "`publish=http` is not a port", "from 1 to 65535"),
];

#[test]
fn what_cannot_be_is_refused_with_what_to_do_and_starts_nothing() {
    let machine = Machine::take();
    for &(stack, said, advice) in WRONG {
        // Beside a stack that could run: not even that is started.
        let stacks = format!("native,{stack}");
        let output = machine.surtax(&["compare", "--in", &stacks, "--runs", "1", "--", "true"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stack}: {stderr}");
        assert!(output.stdout.is_empty(), "{stack}: an error is no answer");
        let (error, hint) = stderr.split_once("hint: ").unwrap_or((&stderr, ""));
        assert!(error.contains(said), "{stack}: `{said}` is not said: {stderr}");
        assert!(hint.contains(advice), "{stack}: `{advice}` is not advised: {stderr}");
        assert!(!machine.path("data").exists(), "{stack}: a ledger was begun");
    }
    machine.assert_as_before();
}
