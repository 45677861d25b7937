//! Parts that containers of all kinds are made with: their first process, users, networks and
//! files, and how an OCI runtime or a tool with a command line of its own is driven.
//!
//! Nothing in here knows which environments there are; `driver` says what each of them is.

pub(crate) mod conmon;
pub(crate) mod engine_runtime;
pub(crate) mod first_process;
pub(crate) mod group;
pub(crate) mod init;
pub(crate) mod oci;
mod published_port;
pub(crate) mod rootless;
pub(crate) mod skeleton;
pub(crate) mod stdio;
pub(crate) mod storage;
pub(crate) mod tool;
pub(crate) mod tool_network;
pub(crate) mod users;
