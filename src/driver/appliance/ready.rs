//! Waits until an appliance is ready: it says so on its console, or answers.

use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use crate::lab::RoomNetwork;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surtax_instrument::clock;

/// Number of bytes of what came before that are searched; a marker is shorter.
const WINDOW: usize = 8 << 10;

/// Time that the first question is waited for, and that of later ones at most.
const PATIENCE_FIRST: Duration = Duration::from_millis(200);
const PATIENCE_LAST: Duration = Duration::from_secs(2);

/// Pause between two questions, and the time that a silent console is listened to.
const PAUSE: Duration = Duration::from_millis(10);

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
            let seconds = deadline.as_secs_f64();
            let late = format!("appliance: it did not say `{marker}` within {seconds:.1} s");
            return Err(Fault::machine(late).saying(&tail.quote()));
        }
        console.set_read_timeout(Some(left)).doing("set a deadline for a console")?;
        let count = match console.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        if count == 0 {
            let ended = format!("appliance: it ended before it said `{marker}`");
            return Err(Fault::machine(ended).saying(&tail.quote()));
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

/// Asks again and again until any answer has come. What is said on the console meanwhile is kept in
/// `tail`.
///
/// QEMU takes every connection at once, also for a guest that still boots, so only an answer tells;
/// and each question is waited for a little longer than the one before, so the time of the first
/// answer is a rough one.
///
/// # Errors
/// The machine's: none came in time, or the console was closed.
pub(super) fn wait_for_answer(
    console: &mut UnixStream,
    (network, address): (Option<&RoomNetwork>, SocketAddrV4),
    probe: &str,
    deadline: Duration,
    tail: &ConsoleTail,
) -> Result<(), Fault> {
    console.set_read_timeout(Some(PAUSE)).doing("set a pause between questions")?;
    let (is_over, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let answered = std::thread::scope(|scope| {
        // Somebody has to listen to the console all the time: a guest waits for who does not.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && !has_ended.load(Ordering::Relaxed) {
                has_ended.store(hear(console, tail), Ordering::Relaxed);
            }
        });
        let answered = ask_until(network, (address, probe), deadline, &has_ended);
        is_over.store(true, Ordering::Relaxed);
        answered
    })?;
    let (words, port) = (|| tail.quote(), address.port());
    if has_ended.into_inner() {
        return Err(Fault::machine(format!(
            "appliance: it ended before it answered on port {port}{}",
            words()
        )));
    }
    if !answered {
        let seconds = deadline.as_secs_f64();
        return Err(Fault::machine(format!(
            "appliance: it did not answer on port {port} within {seconds:.1} s{}",
            words()
        )));
    }
    console.set_read_timeout(None).doing("take the pause between questions away")
}

/// Reads what the console says in a moment; whether it has ended.
fn hear(console: &mut UnixStream, tail: &ConsoleTail) -> bool {
    let mut buffer = [0; 4096];
    match console.read(&mut buffer) {
        Ok(0) => true,
        Ok(count) => {
            tail.keep(buffer.get(..count).unwrap_or_default());
            false
        }
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

/// Tells whether an answer came before the deadline; that `has_ended` is no answer either.
fn ask_until(
    network: Option<&RoomNetwork>,
    (address, probe): (SocketAddrV4, &str),
    deadline: Duration,
    has_ended: &AtomicBool,
) -> Result<bool, Fault> {
    let began = clock::monotonic_raw();
    let mut patience = PATIENCE_FIRST;
    while !has_ended.load(Ordering::Relaxed) {
        let left = deadline.saturating_sub(clock::monotonic_raw().since(began).into());
        if left.is_zero() {
            return Ok(false);
        }
        let ask = || Ok(answers(address, probe, patience.min(left)));
        if network.map_or_else(ask, |network| network.within(ask))? {
            return Ok(true);
        }
        patience = (patience + patience / 8).min(PATIENCE_LAST);
        std::thread::sleep(PAUSE);
    }
    Ok(false)
}

/// Tells whether a question is answered within `patience`.
fn answers(address: SocketAddrV4, probe: &str, patience: Duration) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address.into(), patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(probe.as_bytes())?;
        stream.read(&mut [0; 64])
    };
    matches!(ask(), Ok(1..))
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
    fn an_appliance_is_asked_until_it_answers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            drop(listener.accept().unwrap());
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 3];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(b"well\n").unwrap();
            question
        });
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let tail = ConsoleTail::new();
        let ask = |console: &mut UnixStream, port| {
            let address = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
            wait_for_answer(console, (None, address), "hi\n", Duration::from_secs(5), &tail)
        };
        assert_eq!(ask(&mut ours, port), Ok(()));
        assert_eq!(&server.join().unwrap(), b"hi\n");
        drop(theirs);
        let fault = ask(&mut ours, port).unwrap_err();
        assert!(fault.message.contains("it ended before it answered"), "{fault}");
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
