//! A shell, or any command, inside a stack, with our terminal: what `surtax enter` does.
//!
//! Two threads carry bytes in and tell the size of our terminal; this one carries bytes out and
//! learns how the command ended. Our terminal is put back as it was, however that is.

use super::start::RunningStack;
use super::talk::wait_for_last;
use crate::agent::{FOREVER, Heartbeat, Listener, PATIENCE, Speaker, refused, unexpected};
use crate::fault::{Doing, Fault};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::Signals;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use surtax_instrument::clock::look_until;
use surtax_instrument::wire::{Command, INPUT_ROOM, Reply, Request, Status};

/// Time that input which nobody reads may take the way in, when a visit ends.
const FAREWELL: Duration = Duration::from_secs(20);

/// The threads may hold it longer than the visit lasts: one waits for our input. So it is emptied
/// then.
type Shared = Arc<Mutex<Option<Box<dyn Speaker>>>>;

/// Runs `command` in the stack with our standard input and output, and ends the stack.
///
/// It gets a terminal if we have one. `at_end` is called when it has ended and the stack still
/// stands. The status is the command's; the list is what had to be removed by force.
///
/// # Errors
/// The command could not be started, or the stack broke.
pub fn run(
    mut running: RunningStack,
    mut command: Command,
    at_end: impl FnOnce(),
) -> Result<(Status, Vec<String>), Fault> {
    command.terminal = isatty(rustix::stdio::stdin()) && isatty(rustix::stdio::stdout());
    let link = running.take_link()?;
    let speaker: Shared = Arc::new(Mutex::new(Some(link.speaker)));
    let mut listener = link.listener;
    let raw = if command.terminal { Some(RawTerminal::enter()?) } else { None };
    let has_terminal = command.terminal;
    let carried = Arc::new(AtomicUsize::new(0));
    send(&speaker, &Request::Relay(command))?;
    if has_terminal {
        watch_size(&speaker, &carried)?;
    }
    carry_input(&speaker, &carried);
    let mut heartbeat = Heartbeat::default();
    let ended = loop {
        let next = heartbeat.wait(listener.as_mut(), || ask(&speaker, &carried), FOREVER);
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
    at_end();
    let ended = ended.map_err(|fault| running.explained(fault));
    let below = say_farewell(&speaker, listener.as_mut());
    drop(listener);
    // The end of the stream is what tells the agent outside of a starter to leave. Where input is
    // stuck in the way, the end of the stack takes it away.
    let patience = if below.is_ok() { FAREWELL } else { Duration::ZERO };
    drop(lock_soon(&speaker, patience).map(|mut speaker| speaker.take()));
    let leftovers = running.finish(below)?;
    Ok((ended?, leftovers))
}

fn say_farewell(speaker: &Shared, listener: &mut dyn Listener) -> Result<(), Fault> {
    let busy = || Fault::machine("the inside takes nothing any more, and was not told to stop");
    let mut way = lock_soon(speaker, FAREWELL).ok_or_else(busy)?;
    send_by(&mut way, &Request::Stop, PATIENCE)?;
    drop(way);
    wait_for_last(listener, FAREWELL)
}

/// Sends what an agent is to take soon.
fn send(speaker: &Shared, request: &Request) -> Result<(), Fault> {
    send_by(&mut lock(speaker), request, PATIENCE)
}

fn send_by(
    speaker: &mut Option<Box<dyn Speaker>>,
    request: &Request,
    patience: Duration,
) -> Result<(), Fault> {
    match speaker.as_mut() {
        Some(speaker) => speaker.send_within(request, patience),
        None => Err(Fault::machine("the stack that was entered is not there any more")),
    }
}

/// The way in as soon as nobody else sends; `None` where somebody still does after this time.
fn lock_soon(
    speaker: &Shared,
    limit: Duration,
) -> Option<MutexGuard<'_, Option<Box<dyn Speaker>>>> {
    look_until(limit, Duration::from_millis(10), || match speaker.try_lock() {
        Ok(speaker) => Some(speaker),
        Err(TryLockError::Poisoned(speaker)) => Some(speaker.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}

fn lock(speaker: &Shared) -> MutexGuard<'_, Option<Box<dyn Speaker>>> {
    speaker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks whether the inside is there, unless that could wait behind input which the command does not
/// read.
fn ask(speaker: &Shared, carried: &AtomicUsize) -> Result<bool, Fault> {
    if patience_for(carried) == FOREVER {
        return Ok(false);
    }
    match lock_soon(speaker, Duration::ZERO) {
        Some(mut speaker) => send_by(&mut speaker, &Request::Clock, PATIENCE).map(|()| true),
        None => Ok(false),
    }
}

/// Returns how long the next request may wait: until the command reads, where an agent need not
/// take any more before.
fn patience_for(carried: &AtomicUsize) -> Duration {
    if carried.load(Ordering::Relaxed) < INPUT_ROOM { PATIENCE } else { FOREVER }
}

/// Carries our input in, and counts its bytes.
fn carry_input(speaker: &Shared, carried: &Arc<AtomicUsize>) {
    let (speaker, counter) = (Arc::clone(speaker), Arc::clone(carried));
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
            let said = send_by(&mut lock(&speaker), &request, patience_for(&counter));
            if said.is_err() || request == Request::CloseRelay {
                return;
            }
        }
    });
}

fn watch_size(speaker: &Shared, carried: &Arc<AtomicUsize>) -> Result<(), Fault> {
    let mut signals = Signals::new([SIGWINCH]).doing("watch the size of the terminal")?;
    let (speaker, carried) = (Arc::clone(speaker), Arc::clone(carried));
    tell_size(&speaker, &carried)?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if tell_size(&speaker, &carried).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn tell_size(speaker: &Shared, carried: &AtomicUsize) -> Result<(), Fault> {
    let size = tcgetwinsize(rustix::stdio::stdout()).doing("read the size of the terminal")?;
    let request = Request::Resize { rows: size.ws_row, columns: size.ws_col };
    send_by(&mut lock(speaker), &request, patience_for(carried))
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
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Takes what it is sent only when it is let, as long as it has to.
    struct Stuck {
        asked: Sender<Duration>,
        taken: Receiver<()>,
    }

    impl Speaker for Stuck {
        fn send_within(&mut self, _: &Request, patience: Duration) -> Result<(), Fault> {
            self.asked.send(patience).unwrap();
            self.taken.recv().map_err(|_| Fault::machine("nobody takes it"))
        }
    }

    #[test]
    fn input_waits_for_a_command_once_its_agent_may_be_full_and_hinders_neither_questions_nor_the_end()
     {
        let (asked, patience) = channel();
        let (take, taken) = channel();
        let speaker: Shared = Arc::new(Mutex::new(Some(Box::new(Stuck { asked, taken }))));
        let carried = AtomicUsize::new(INPUT_ROOM - 1);
        assert_eq!(patience_for(&carried), PATIENCE, "an agent has room for so much");
        carried.fetch_add(1, Ordering::Relaxed);
        let input = Request::Data(vec![1]);
        std::thread::scope(|scope| {
            scope.spawn(|| send_by(&mut lock(&speaker), &input, patience_for(&carried)));
            assert_eq!(patience.recv().unwrap(), FOREVER);
            // The way in is taken now.
            assert!(!ask(&speaker, &AtomicUsize::new(0)).unwrap());
            assert!(lock_soon(&speaker, Duration::from_millis(30)).is_none());
            take.send(()).unwrap();
        });
        take.send(()).unwrap();
        assert!(ask(&speaker, &AtomicUsize::new(0)).unwrap());
        assert!(!ask(&speaker, &carried).unwrap());
    }
}
