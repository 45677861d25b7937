//! A shell, or any command, inside a stack, with our terminal: what `surtax enter` does.
//!
//! Two threads carry bytes in and tell the size of our terminal; this one carries bytes out and
//! learns how the command ended. Our terminal is put back as it was, however that is.

use super::rise::Standing;
use crate::agent::{Pulse, Speaker, refused, unexpected};
use crate::fault::{Doing, Fault};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::Signals;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surtax_instrument::wire::{Command, Reply, Request, Status};

/// For ever: how long a person works is not for us to say, nor when a command reads what it is given.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How much input an agent takes for a command that reads none of it, in bytes.
const INPUT_ROOM: usize = 256 << 10;

/// The threads may hold it longer than the visit lasts: one waits for our input. So it is emptied then.
type Shared = Arc<Mutex<Option<Box<dyn Speaker>>>>;

/// Runs `command` in the stack with our standard input and output, and ends the stack.
///
/// It gets a terminal if we have one. The status is the command's; the list is what had to be
/// removed by force.
///
/// # Errors
/// The command could not be started, or the stack broke.
pub fn run(mut standing: Standing, mut command: Command) -> Result<(Status, Vec<String>), Fault> {
    command.terminal = isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout());
    let link = standing.take_link()?;
    let speaker: Shared = Arc::new(Mutex::new(Some(link.speaker)));
    let mut listener = link.listener;
    let raw = if command.terminal { Some(RawTerminal::enter()?) } else { None };
    let has_terminal = command.terminal;
    send(&speaker, &Request::Relay(command))?;
    if has_terminal {
        watch_size(&speaker)?;
    }
    let carried = carry_input(&speaker);
    let mut pulse = Pulse::default();
    let ended = loop {
        let next = pulse.wait(listener.as_mut(), || ask(&speaker, &carried), FOREVER);
        match next.map(|stamped| stamped.reply) {
            Ok(Reply::Data(bytes)) => {
                let mut stdout = std::io::stdout();
                let _ = stdout.write_all(&bytes).and_then(|()| stdout.flush());
            }
            Ok(Reply::RelayEnded { status, stderr }) => {
                let _ = std::io::stderr().write_all(&stderr);
                break Ok(status);
            }
            Ok(Reply::Failed(failure)) => break Err(refused(failure)),
            Ok(other) => break Err(unexpected(&other, "a command with our terminal")),
            Err(fault) => break Err(fault),
        }
    };
    drop(raw);
    let below = send(&speaker, &Request::Stop).and_then(|()| {
        while listener.receive(Duration::from_secs(20))?.reply != Reply::Stopped {}
        Ok(())
    });
    drop(listener);
    // The end of the stream is what tells the agent outside of a starter to leave.
    drop(lock(&speaker).take());
    let leftovers = standing.finish(below)?;
    Ok((ended?, leftovers))
}

fn send(speaker: &Shared, request: &Request) -> Result<(), Fault> {
    match lock(speaker).as_mut() {
        Some(speaker) => speaker.send_within(request, FOREVER),
        None => Err(Fault::machine("the stack that was entered is not there any more")),
    }
}

fn lock(speaker: &Shared) -> MutexGuard<'_, Option<Box<dyn Speaker>>> {
    speaker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks whether the inside is there, unless that could wait behind input which the command does not read.
fn ask(speaker: &Shared, carried: &AtomicUsize) -> Result<bool, Fault> {
    let has_room = carried.load(Ordering::Relaxed) < INPUT_ROOM;
    if has_room { send(speaker, &Request::Clock).map(|()| true) } else { Ok(false) }
}

/// Carries our input in. Gives back how many bytes that have been.
fn carry_input(speaker: &Shared) -> Arc<AtomicUsize> {
    let speaker = Arc::clone(speaker);
    let carried = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&carried);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            let request = match std::io::stdin().read(&mut buffer) {
                Ok(0) | Err(_) => Request::CloseRelay,
                Ok(count) => {
                    counter.fetch_add(count, Ordering::Relaxed);
                    Request::Data(buffer[..count].to_vec())
                }
            };
            if send(&speaker, &request).is_err() || request == Request::CloseRelay {
                return;
            }
        }
    });
    carried
}

fn watch_size(speaker: &Shared) -> Result<(), Fault> {
    let mut signals = Signals::new([SIGWINCH]).doing("watch the size of the terminal")?;
    let speaker = Arc::clone(speaker);
    tell_size(&speaker)?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if tell_size(&speaker).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn tell_size(speaker: &Shared) -> Result<(), Fault> {
    let size = tcgetwinsize(rustix::stdio::stdout()).doing("read the size of the terminal")?;
    send(speaker, &Request::Resize { rows: size.ws_row, columns: size.ws_col })
}

/// Our terminal in raw mode, until this is dropped.
struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    fn enter() -> Result<Self, Fault> {
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).doing("read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).doing("put the terminal into raw mode")?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a request only of somebody who waits for ever.
    struct Slow;

    impl Speaker for Slow {
        fn send_within(&mut self, _: &Request, patience: Duration) -> Result<(), Fault> {
            if patience == FOREVER { Ok(()) } else { Err(Fault::machine("not taken in time")) }
        }
    }

    #[test]
    fn input_waits_for_as_long_as_a_command_reads_none_of_it() {
        let speaker: Shared = Arc::new(Mutex::new(Some(Box::new(Slow))));
        send(&speaker, &Request::Data(vec![1])).unwrap();
        let fault = ask_now(&speaker).unwrap_err();
        assert_eq!(fault.message, "not taken in time");
    }

    fn ask_now(speaker: &Shared) -> Result<(), Fault> {
        lock(speaker).as_mut().unwrap().send(&Request::Clock)
    }
}
