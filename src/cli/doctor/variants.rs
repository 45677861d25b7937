//! The variants that the doctor asks about: every kind of layer, and every way in which two of a kind differ in
//! what they need or cost.

/// Layers that are asked about by variants, in the order in which they are shown.
pub(super) const VARIANTS: &[(&str, &[&str])] = &[
    (
        "native",
        &[
            "native",
            "native:root=host",
            "native:scratch=bind",
            "native:scratch=tmpfs",
            "native:cpus=0.5",
            "native:cpuset=0",
            "native:weight=50",
            "native:memory=1G",
            "native:hugetlb=0",
            "native:hugetlb=64M",
            "native:pids=100",
            "native:numa=0",
            "native:read-bps=8M",
            "native:write-iops=100",
            "native:cpuset=0,partition=root",
            "native:cpuset=0,partition=isolated",
        ],
    ),
    (
        "namespaces",
        &[
            "namespaces",
            "namespaces:pid=host",
            "namespaces:net=host",
            "namespaces:ipc=host",
            "namespaces:uts=host",
            "namespaces:cgroup=host",
            "namespaces:group=none",
            "namespaces:user=private",
            "namespaces:time=private",
        ],
    ),
    ("bubblewrap", &["bubblewrap", "bubblewrap:net=host"]),
    (
        "runc",
        &[
            "runc",
            "runc:net=host",
            "runc:net=veth",
            "runc:net=veth,delay=20ms",
            "runc:privileged=true",
            "runc+runc",
        ],
    ),
    ("crun", &["crun", "crun:net=veth"]),
    ("youki", &["youki", "youki:net=veth"]),
    (
        "nspawn",
        &[
            "nspawn",
            "nspawn:net=host",
            "nspawn:net=veth",
            "nspawn:net=bridge",
            "nspawn:net=macvlan",
            "nspawn:init=systemd",
            "nspawn:init=busybox",
            "nspawn:user=private",
        ],
    ),
    (
        "lxc",
        &[
            "lxc",
            "lxc:net=host",
            "lxc:net=veth",
            "lxc:net=macvlan",
            "lxc:init=systemd",
            "lxc:init=busybox",
            "lxc:user=private",
        ],
    ),
    (
        "gvisor",
        &[
            "gvisor:platform=systrap",
            "gvisor:platform=ptrace",
            "gvisor:platform=kvm",
            "gvisor:net=host",
            "gvisor:net=sandbox",
            "gvisor:overlay=memory",
            "gvisor:overlay=none",
            "gvisor:directfs=false",
        ],
    ),
    (
        "docker",
        &[
            "docker",
            "docker:net=bridge",
            "docker:net=bridge,publish=5201",
            "docker:net=user",
            "docker:net=macvlan",
            "docker:net=host",
            "docker:net=none",
            "docker:runtime=runc",
            "docker:runtime=crun",
            "docker:runtime=youki",
            "docker:runtime=runsc",
            "docker:runtime=kata",
            "docker:seccomp=default",
            "docker:seccomp=unconfined",
            "docker:rootless=on",
            "docker:rootless=on,net=user",
            "docker:rootless=on,storage=overlay2",
            "docker:rootless=on,storage=vfs",
            "docker:storage=overlay2",
            "docker:storage=vfs",
            "docker:storage=btrfs",
            "docker:scratch=layer",
            "docker:scratch=volume",
            "docker:scratch=bind",
            "docker:scratch=tmpfs",
            "docker+runc",
            "docker+qemu:accel=tcg",
            "docker+qemu:accel=tcg+runc",
        ],
    ),
    (
        "podman",
        &[
            "podman",
            "podman:net=host",
            "podman:net=bridge",
            "podman:net=bridge,publish=5201",
            "podman:net=user",
            "podman:net=macvlan",
            "podman:net=slirp4netns",
            "podman:runtime=runc",
            "podman:runtime=crun",
            "podman:runtime=youki",
            "podman:runtime=runsc",
            "podman:seccomp=default",
            "podman:seccomp=unconfined",
            "podman:user=private",
            "podman:rootless=on",
            "podman:rootless=on,net=host",
            "podman:rootless=on,net=slirp4netns",
            "podman:storage=overlay2",
            "podman:storage=vfs",
            "podman:storage=btrfs",
            "podman:scratch=layer",
            "podman:scratch=volume",
            "podman:scratch=bind",
            "podman:scratch=tmpfs",
        ],
    ),
    (
        "qemu",
        &[
            "qemu:accel=kvm",
            "qemu:accel=tcg",
            "qemu:accel=tcg,machine=q35",
            "qemu:accel=tcg,machine=microvm",
            "qemu:accel=tcg,machine=pc",
            "qemu:accel=tcg,cpu=Nehalem",
            "qemu:accel=tcg,files=virtiofs",
            "qemu:accel=tcg,files=9p",
            "qemu:accel=tcg,root=packed",
            "qemu:accel=tcg,firmware=seabios",
            "qemu:accel=tcg,firmware=qboot",
            "qemu:accel=tcg,firmware=ovmf",
            "qemu:accel=tcg,hypervisor=xen",
            "qemu:accel=tcg,entry=bzimage",
            "qemu:accel=tcg,prealloc=on",
            "qemu:accel=tcg,hugepages=on",
            "qemu:accel=tcg,files=9p,mergeable=on",
            "qemu:accel=tcg,balloon=256M",
            "qemu:accel=tcg,pin=on",
            "qemu:profile=partition",
            "qemu:accel=tcg,scratch=virtio-blk",
            "qemu:accel=tcg,scratch=virtio-blk,iothread=on",
            "qemu:accel=tcg,scratch=virtio-scsi",
            "qemu:accel=tcg,scratch=ide",
            "qemu:accel=tcg,scratch=nvme",
            "qemu:accel=tcg,scratch=virtio-blk,format=raw",
            "qemu:accel=tcg,scratch=virtio-blk,format=qcow2",
            "qemu:accel=tcg,scratch=virtio-blk,format=qcow2-backed",
            "qemu:accel=tcg,scratch=virtio-blk,cache=none",
            "qemu:accel=tcg,scratch=virtio-blk,cache=writeback",
            "qemu:accel=tcg,scratch=virtio-blk,cache=writethrough",
            "qemu:accel=tcg,scratch=virtio-blk,cache=directsync",
            "qemu:accel=tcg,scratch=virtio-blk,cache=unsafe",
            "qemu:accel=tcg,scratch=virtio-blk,cache=none,aio=threads",
            "qemu:accel=tcg,scratch=virtio-blk,cache=none,aio=native",
            "qemu:accel=tcg,scratch=virtio-blk,cache=none,aio=io_uring",
            "qemu:accel=tcg,net=user",
            "qemu:accel=tcg,net=tap",
            "qemu:accel=tcg,net=tap,nic=e1000",
            "qemu:accel=tcg,net=tap,nic=rtl8139",
            "qemu:accel=tcg,net=tap,offloads=off",
            "qemu:accel=tcg,net=tap,queues=2,cpus=2",
            "qemu:accel=tcg,net=tap,vhost=on",
            "qemu:accel=tcg,net=vhost-user",
            "qemu:accel=tcg+runc",
            "qemu:accel=tcg+docker",
            "qemu:accel=tcg+qemu:accel=tcg",
            "qemu:accel=tcg,hypervisor=xen+xen",
            "qemu:accel=tcg,net=ovs",
            "qemu:accel=tcg,net=tap,delay=20ms",
        ],
    ),
    (
        "cloud-hypervisor",
        &[
            "cloud-hypervisor",
            "cloud-hypervisor:root=packed",
            "cloud-hypervisor:net=tap",
            "cloud-hypervisor:scratch=virtio-blk",
        ],
    ),
    (
        "firecracker",
        &[
            "firecracker:root=packed",
            "firecracker:root=packed,net=tap",
            "firecracker:root=packed,scratch=virtio-blk",
        ],
    ),
    ("krun", &["krun"]),
    (
        "xen",
        &[
            "xen:type=pv",
            "xen:type=pvh",
            "xen:type=hvm",
            "xen:scratch=blkfront",
            "xen:scratch=blkfront,cache=writeback",
            "xen:scratch=blkfront,format=qcow2",
            "xen:scratch=blkfront,format=qcow2-backed",
            "xen:net=bridge",
        ],
    ),
    (
        "appliance",
        &[
            "appliance:arceos",
            "appliance:arceos-echo",
            "appliance:grub-xen",
            "appliance:grub-xen-pvh",
            "appliance:hermit",
            "appliance:mirage",
            "appliance:mirage-xen",
            "appliance:nanos",
            "appliance:osv",
            "appliance:rumprun",
            "appliance:unikraft",
        ],
    ),
];

/// Variants that nobody of us has run, of kinds that we have.
pub(super) const NOT_YET_RUN: &[&str] = &["docker:runtime=kata", "gvisor:platform=kvm"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::registered;
    use std::collections::BTreeSet;

    #[test]
    fn every_variant_is_one_that_can_be_asked_for_and_stands_there_once() {
        let mut seen = BTreeSet::new();
        for (kind, texts) in VARIANTS {
            assert!(registered().iter().any(|card| card.kind == *kind), "{kind}");
            for text in *texts {
                let stack =
                    crate::driver::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
                assert_eq!(stack.layers[0].kind, *kind, "{text}");
                assert!(seen.insert(stack.to_string()), "{text} stands there twice");
            }
        }
        assert!(
            NOT_YET_RUN.iter().all(|text| VARIANTS.iter().any(|(_, texts)| texts.contains(text)))
        );
    }
}
