//! A plain echo: sends back what it is sent, byte for byte, and knows nothing of its client.
//!
//! For clients that meet another echo elsewhere, such as one in an image that can hold no program
//! of ours. It ends when its last client has hung up. Source: RFC 862.

use super::wire::{wait, watched};
use crate::{Answer, Refused};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use surtax_instrument::clock;

/// Interval of looks whether the last client is gone.
const LOOK: Duration = Duration::from_millis(10);

/// Number of bytes taken at once.
const BUFFER: usize = 64 << 10;

/// The most clients at once.
const CLIENTS_LIMIT: usize = 256;

/// Serves until the last client has hung up.
///
/// # Errors
/// Nobody comes in time.
pub(super) fn run(listener: &TcpListener, limit: Duration) -> Result<Answer, Refused> {
    let cannot = |error| Refused::machine(format!("cannot wait for clients of an echo: {error}"));
    listener.set_nonblocking(true).map_err(cannot)?;
    let (active, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let mut count = 0;
    thread::scope(|scope| {
        loop {
            // While there are clients, another one may come; the first one is waited for.
            let patience = if count == 0 { limit } else { LOOK };
            wait(&mut [watched(listener.as_raw_fd(), libc::POLLIN)], Some(patience));
            match listener.accept() {
                Ok((stream, _)) if active.load(Ordering::Acquire) < CLIENTS_LIMIT => {
                    count += 1;
                    active.fetch_add(1, Ordering::AcqRel);
                    scope.spawn(|| {
                        bytes.fetch_add(answer(stream), Ordering::AcqRel);
                        active.fetch_sub(1, Ordering::AcqRel);
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && count == 0 => {
                    return Err(Refused::machine(format!(
                        "no client of the echo came in {} s",
                        limit.as_secs_f64()
                    )));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if active.load(Ordering::Acquire) == 0 {
                        return Ok(());
                    }
                }
                Err(error) => return Err(cannot(error)),
            }
        }
    })?;
    let mut told = Answer::of("serve");
    told.whole("session_count", count);
    told.whole("served_bytes", bytes.load(Ordering::Acquire));
    told.whole("server_cpu_ns", clock::process_cpu().0);
    Ok(told)
}

/// One client, to its end; how many bytes it got back.
fn answer(mut stream: TcpStream) -> u64 {
    let is_ready = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
    let mut buffer = vec![0; if is_ready.is_ok() { BUFFER } else { 0 }];
    let mut total = 0;
    // A client that breaks off is one that has ended.
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            break;
        }
        total += length as u64;
    }
    total
}
