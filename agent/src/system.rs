//! A service in a whole system that has an init of its own: waits for what its machine was given,
//! then serves.
//!
//! `agent system [disk SERIAL DIR] [link MAC ADDRESS/PREFIX]`. The disk is nobody's in that system,
//! and is mounted here. The link is the system's own matter, under a name that it gives: it is
//! known by its hardware address, and waited for until it has the address that the system was told
//! to give it. What does not come is answered to the first request.

use crate::{disk, network};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surtax_instrument::wire::Failure;
use surtax_instrument::{clock, link};

/// Time that a device, or the system's care for it, may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

static IS_SYSTEM: AtomicBool = AtomicBool::new(false);

/// Tells whether this process is such a service, in a machine of ours.
pub fn is_this_process() -> bool {
    IS_SYSTEM.load(Ordering::Relaxed)
}

/// Serves a host on standard input and output when everything is there.
pub fn main(words: &[&str]) -> ExitCode {
    IS_SYSTEM.store(true, Ordering::Relaxed);
    crate::serve_stdio(prepare(words))
}

fn prepare(words: &[&str]) -> Result<(), Failure> {
    match *words {
        [] => Ok(()),
        ["disk", serial, directory, ref rest @ ..] => {
            mount_disk(serial, directory)?;
            prepare(rest)
        }
        ["link", address, given, ref rest @ ..] => {
            await_link(address, given)?;
            prepare(rest)
        }
        _ => Err(failure(format!("the agent does not know `{}`", words.join(" ")), "")),
    }
}

fn mount_disk(serial: &str, directory: &str) -> Result<(), Failure> {
    let device = wait_for(|| disk::with_serial(serial)).ok_or_else(|| {
        failure(
            format!("the system sees no disk with the serial number `{serial}`"),
            "its kernel needs a driver of that disk's controller: name another in `scratch=`",
        )
    })?;
    disk::mount_at(&device, directory).map_err(|error| {
        let device = device.display();
        failure(format!("the system cannot mount `{device}` at `{directory}`: {error}"), "")
    })
}

/// Waits until the link with this hardware address is up with this address.
fn await_link(address: &str, given: &str) -> Result<(), Failure> {
    let name = wait_for(|| network::with_address(address)).ok_or_else(|| {
        failure(
            format!("the system sees no network device with the address `{address}`"),
            "its kernel needs a driver of that device: name another in `nic=`",
        )
    })?;
    network::belongs_to_the_machine(&name);
    let has_it = || {
        let interfaces = network::interfaces().unwrap_or_default();
        (network::has(&interfaces, &name, given) && link::is_ready(&name)).then_some(())
    };
    wait_for(has_it).ok_or_else(|| {
        let interfaces = network::interfaces().unwrap_or_default();
        failure(
            format!(
                "the system did not give its link `{name}` the address `{given}`: it has \
                 `{interfaces}`"
            ),
            "let cloud-init of the image set networks up, which it may be told not to in \
             `/etc/cloud/cloud.cfg.d`",
        )
    })
}

fn wait_for<T>(find: impl FnMut() -> Option<T>) -> Option<T> {
    clock::look_until(DEADLINE, LOOK_AGAIN, find)
}

fn failure(what: String, hint: &str) -> Failure {
    Failure { hint: hint.to_owned(), ..Failure::of(what) }
}
