//! Waits until an appliance says on its console that it is ready.

use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use surtax_instrument::clock;

/// How much of what came before is searched, in bytes; a marker is shorter.
const WINDOW: usize = 8 << 10;

/// Reads until `marker` has come. What is read is kept in `tail`.
///
/// # Errors
/// The machine's: it did not come in time, or the console was closed.
pub(super) fn wait(
    console: &mut UnixStream,
    marker: &str,
    deadline: Duration,
    tail: &ConsoleTail,
) -> Result<(), Fault> {
    let began = clock::monotonic_raw();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_sub(clock::monotonic_raw().since(began).into());
        if left.is_zero() {
            let (seconds, words) = (deadline.as_secs_f64(), tail.quote());
            return Err(Fault::machine(format!(
                "appliance: it did not say `{marker}` within {seconds:.1} s{words}"
            )));
        }
        console.set_read_timeout(Some(left)).doing("set a deadline for a console")?;
        let count = match console.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        if count == 0 {
            let words = tail.quote();
            return Err(Fault::machine(format!(
                "appliance: it ended before it said `{marker}`{words}"
            )));
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        tail.keep(bytes);
        seen.extend_from_slice(bytes);
        if seen.windows(marker.len().max(1)).any(|window| window == marker.as_bytes()) {
            return console.set_read_timeout(None).doing("take a console's deadline away");
        }
        let excess = seen.len().saturating_sub(WINDOW);
        seen.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn after(said: &[&[u8]], is_closed: bool) -> Result<(), Fault> {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        for part in said {
            theirs.write_all(part).unwrap();
        }
        let kept = (!is_closed).then_some(theirs);
        let waited = wait(&mut ours, "ready", Duration::from_millis(50), &ConsoleTail::new());
        drop(kept);
        waited
    }

    #[test]
    fn a_marker_is_found_in_however_many_pieces() {
        assert_eq!(after(&[b"\x1b[mbooting\nre", b"ady\n"], false), Ok(()));
    }

    #[test]
    fn an_appliance_that_is_silent_or_dies_is_told_with_its_last_words() {
        let fault = after(&[b"Page fault\n"], false).unwrap_err();
        assert!(fault.message.contains("did not say `ready` within 0.1 s"), "{fault}");
        assert!(fault.message.contains("| Page fault"), "{fault}");
        let fault = after(&[b"Page fault\n"], true).unwrap_err();
        assert!(fault.message.contains("it ended before"), "{fault}");
    }
}
