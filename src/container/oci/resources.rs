//! The limits of a container, in the words of `config.json`.
//!
//! Source: OCI runtime specification 1.0.2, `config-linux.md`, "Control groups".

use crate::container::oci::config::Container;
use crate::lab::{IoLimits, Limits, disk::Disk, list, shares};
use oci_spec::OciSpecError;
use oci_spec::runtime::{
    LinuxBlockIo, LinuxBlockIoBuilder, LinuxCpu, LinuxCpuBuilder, LinuxDeviceCgroupBuilder,
    LinuxMemoryBuilder, LinuxPidsBuilder, LinuxResources, LinuxResourcesBuilder,
    LinuxThrottleDevice, LinuxThrottleDeviceBuilder,
};
use std::collections::HashMap;
use surtax_instrument::probe::cgroup::Version;

/// The period in which a CPU quota is counted, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;

pub(crate) fn resources(container: &Container<'_>) -> Result<LinuxResources, OciSpecError> {
    let limits = container.limits;
    let devices =
        LinuxDeviceCgroupBuilder::default().allow(container.is_privileged).access("rwm").build()?;
    let mut resources = LinuxResourcesBuilder::default().devices(vec![devices]);
    if let Some(cpu) = cpu(limits, container.cpu_groups)? {
        resources = resources.cpu(cpu);
    }
    if let (Some(weight), Version::Two) = (limits.weight, container.cpu_groups) {
        // Runtimes turn shares into a weight, each version by its own formula.
        let exact = (String::from("cpu.weight"), weight.to_string());
        resources = resources.unified(HashMap::from([exact]));
    }
    if let Some(bytes) = limits.memory {
        let mut memory = LinuxMemoryBuilder::default().limit(signed(bytes.0));
        if container.counts_swap {
            memory = memory.swap(signed(bytes.0));
        }
        resources = resources.memory(memory.build()?);
    }
    if let Some(pids) = limits.pids {
        resources = resources.pids(LinuxPidsBuilder::default().limit(pids).build()?);
    }
    if let Some(disk) = &container.limited_disk {
        resources = resources.block_io(block_io(limits.io, disk)?);
    }
    resources.build()
}

fn cpu(limits: &Limits, groups: Version) -> Result<Option<LinuxCpu>, OciSpecError> {
    let mut cpu = LinuxCpuBuilder::default();
    if let Some(millis) = limits.cpu_millis {
        let quota_us = u64::from(millis) * PERIOD_US / 1000;
        cpu = cpu.quota(signed(quota_us)).period(PERIOD_US);
    }
    if let (Some(weight), Version::One) = (limits.weight, groups) {
        cpu = cpu.shares(shares(weight));
    }
    if let Some(cpus) = &limits.cpuset {
        cpu = cpu.cpus(list(cpus));
    }
    if let Some(nodes) = &limits.numa {
        cpu = cpu.mems(list(nodes));
    }
    let cpu = cpu.build()?;
    Ok((cpu != LinuxCpu::default()).then_some(cpu))
}

fn block_io(io: IoLimits, disk: &Disk) -> Result<LinuxBlockIo, OciSpecError> {
    let (major, minor) = disk.numbers;
    let at = |rate: u64| -> Result<Vec<LinuxThrottleDevice>, OciSpecError> {
        let device = LinuxThrottleDeviceBuilder::default().major(major).minor(minor).rate(rate);
        Ok(vec![device.build()?])
    };
    let mut limits = LinuxBlockIoBuilder::default();
    for (key, rate) in io.rates() {
        limits = match key {
            "read-bps" => limits.throttle_read_bps_device(at(rate)?),
            "write-bps" => limits.throttle_write_bps_device(at(rate)?),
            "read-iops" => limits.throttle_read_iops_device(at(rate)?),
            "write-iops" => limits.throttle_write_iops_device(at(rate)?),
            other => unreachable!("`{other}` is a limit on no disk"),
        };
    }
    limits.build()
}

/// A number of the specification's signed types; what does not fit is no limit on any machine.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
