//! Parts of a virtual machine, whoever runs it: what a spec asks for, the guest with its disk and
//! its network device, and how QEMU is spoken to, which several drivers start.
//!
//! Nothing in here knows a driver.

pub(crate) mod accelerator;
pub(crate) mod board;
pub(crate) mod claims;
pub(crate) mod disk;
pub(crate) mod equipped_guest;
pub(crate) mod nic;
mod open_vswitch;
pub(crate) mod qcow2;
pub(crate) mod qemu;
pub(crate) mod qmp;
pub(crate) mod request;
mod switch;
