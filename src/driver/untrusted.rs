//! Untrusted bytes, handed to the readers of foreign tools: daemons, monitors, kernels, disks,
//! definitions.
//!
//! A driver meets them behind sockets and processes. Each function here leads the bytes to the
//! reader that its driver uses, so that the fuzz targets need neither. Nothing is started, and
//! nothing is left.

use super::appliance::recipe;
use super::docker::attach::{self, Output};
use super::libvirt::definition::Definition;
use super::monitor::http;
use crate::agent::ConsoleTail;
use crate::fault::Fault;
use crate::guest::elf::{Elf, has_note};
use crate::guest::kernel;
use crate::guest::packed::dynamic::{self, Needs};
use crate::vm::qcow2::Header;
use crate::vm::qmp::Qmp;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// The most that a socket without a reader takes of what QEMU says, in bytes.
const SOCKET_LIMIT: usize = 64 << 10;

/// Asks one thing and reads what is answered.
type Question = fn(&mut Qmp) -> Result<(), Fault>;

/// The questions that QEMU is asked, each of which reads one more answer.
const QUESTIONS: [Question; 7] = [
    |qmp| qmp.kvm().map(drop),
    |qmp| qmp.cpus().map(drop),
    |qmp| qmp.block_devices().map(drop),
    |qmp| qmp.memory_bytes().map(drop),
    |qmp| qmp.type_of("/machine").map(drop),
    |qmp| qmp.status().map(drop),
    |qmp| qmp.resume(),
];

/// Asks a QEMU that says these bytes, whatever it is asked: greeting, then answers and events. Says
/// how many questions were answered.
///
/// # Errors
/// The first answer that is none.
pub fn qmp(said: &[u8]) -> Result<usize, Fault> {
    let cannot = |error: std::io::Error| Fault::machine(format!("no socket to QEMU: {error}"));
    let (ours, mut theirs) = UnixStream::pair().map_err(cannot)?;
    theirs.write_all(&said[..said.len().min(SOCKET_LIMIT)]).map_err(cannot)?;
    theirs.shutdown(Shutdown::Write).map_err(cannot)?;
    let mut qmp = Qmp::open(ours)?;
    QUESTIONS.iter().try_for_each(|ask| ask(&mut qmp))?;
    Ok(QUESTIONS.len())
}

/// Reads the answer of a container engine that was asked to attach, and the frames behind it: what
/// is on standard output, and what became of standard error.
///
/// # Errors
/// The stream's: its head or a frame breaks off.
pub fn docker_stream(mut said: &[u8]) -> std::io::Result<(Vec<u8>, ConsoleTail)> {
    attach::head(&mut said)?;
    let (console, mut stdout) = (ConsoleTail::new(), Vec::new());
    Output::over(said, &console).read_to_end(&mut stdout)?;
    Ok((stdout, console))
}

/// Reads one HTTP answer of a virtual machine monitor: its status and its body.
///
/// # Errors
/// The stream's, or what is no answer.
pub fn monitor_answer(mut said: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
    http::read_answer(&mut said).map(|answer| (answer.status, answer.body))
}

/// Reads the recipe of an appliance.
///
/// # Errors
/// The user's: it says what no recipe can say.
pub fn recipe(text: &str) -> Result<(), Fault> {
    recipe::parse(text, "untrusted.toml").map(drop)
}

/// Reads what libvirt says of a domain: how many facts it gives.
///
/// # Errors
/// The machine's: it is no description of a domain.
pub fn domain(xml: &str) -> Result<usize, Fault> {
    let definition = Definition::read(xml)?;
    let _nobody = definition.socket("channel0");
    Ok(definition.devices().len())
}

/// Reads how a file of this length begins that claims to be the image of a disk: its format, and
/// how large the disk is.
///
/// # Errors
/// Why it is not taken.
pub fn disk_image(start: &[u8], length: u64) -> Result<(&'static str, u64), String> {
    let header = Header::parse(start, length).map_err(|(why, _)| why)?;
    Ok((header.format, header.disk_bytes))
}

/// Reads a file that claims to be a kernel, a module or a program, whole: how much was found in it.
#[must_use]
pub fn executable(bytes: &[u8]) -> usize {
    let of_elf = Elf::parse(bytes).map_or(0, |elf| {
        let section = elf.section(".modinfo").map_or(0, <[u8]>::len);
        let loader = elf.interpreter().map_or(0, str::len);
        section + loader + usize::from(elf.enters_by_pvh())
    });
    of_elf + usize::from(has_note(bytes, u32::MAX)) + kernel::described(bytes)
}

/// Reads what a file that claims to be a program or a library asks its loader for: every library,
/// name and list of directories; nothing where it is neither.
#[must_use]
pub fn dynamic_section(bytes: &[u8]) -> Vec<Vec<u8>> {
    let needs = dynamic::read(bytes).unwrap_or_default();
    let Needs { libraries, own_name, rpath, runpath, is_audited: _ } = needs;
    libraries.into_iter().chain([own_name, rpath, runpath].into_iter().flatten()).collect()
}
