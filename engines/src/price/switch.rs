//! Prices of handing over: two who wait for each other on one CPU, so that each of them must be
//! switched to.
//!
//! A round trip is two such switches, with what wakes and what waits; the price is half of it.

use super::Setting;
use super::batch::Measured;
use crate::cpu;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::futex;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Another process, so that the page tables are switched too.
pub fn pipe(setting: &Setting) -> io::Result<Measured> {
    cpu::on_one(|| {
        let (their_input, our_output) = rustix::pipe::pipe()?;
        let (our_input, their_output) = rustix::pipe::pipe()?;
        // SAFETY: the child only reads, writes, closes and ends, which it may whatever threads
        // there are.
        let child = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                drop((our_input, our_output));
                let mut byte = [0];
                while let Ok(1) = rustix::io::read(&their_input, &mut byte)
                    && let Ok(1) = rustix::io::write(&their_output, &byte)
                {}
                // SAFETY: ends the child, and runs nothing of its parent's.
                unsafe { libc::_exit(0) }
            }
            child => child,
        };
        drop((their_input, their_output));
        let priced = round_trips(setting, || {
            let mut byte = [1];
            rustix::io::write(&our_output, &byte)?;
            match rustix::io::read(&our_input, &mut byte)? {
                1 => Ok(()),
                _ => Err(io::Error::other("the process at the other end of a pipe has ended")),
            }
        });
        // The end of its input ends it.
        drop((our_input, our_output));
        waitpid(Pid::from_raw(child), WaitOptions::empty())?;
        priced
    })
}

/// Nobody else: what is left of a switch without the switch.
pub fn pipe_alone(setting: &Setting) -> io::Result<Measured> {
    let (input, output) = rustix::pipe::pipe()?;
    setting.each(|| {
        let mut byte = [1];
        rustix::io::write(&output, &byte)?;
        rustix::io::read(&input, &mut byte)?;
        Ok(())
    })
}

/// Whose turn it is; each waits for the other to change it.
const OURS: u32 = 0;
const THEIRS: u32 = 1;
const ENDED: u32 = 2;

/// Another thread of this process.
pub fn futex(setting: &Setting) -> io::Result<Measured> {
    let turn = AtomicU32::new(OURS);
    let hand_over = |to| -> io::Result<()> {
        turn.store(to, Ordering::Release);
        futex::wake(&turn, futex::Flags::PRIVATE, 1)?;
        Ok(())
    };
    let wait_while = |value| -> io::Result<u32> {
        loop {
            let now = turn.load(Ordering::Acquire);
            if now != value {
                return Ok(now);
            }
            match futex::wait(&turn, futex::Flags::PRIVATE, value, None) {
                Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    };
    cpu::on_one(|| {
        std::thread::scope(|scope| {
            let partner = scope.spawn(|| -> io::Result<()> {
                while wait_while(OURS)? == THEIRS {
                    hand_over(OURS)?;
                }
                Ok(())
            });
            let priced = round_trips(setting, || {
                hand_over(THEIRS)?;
                wait_while(THEIRS).map(drop)
            });
            hand_over(ENDED)?;
            ended(partner.join())?;
            priced
        })
    })
}

/// Another thread, which waits as servers do.
pub fn epoll(setting: &Setting) -> io::Result<Measured> {
    let (theirs, ours) = (Mailbox::new()?, Mailbox::new()?);
    let is_over = AtomicBool::new(false);
    cpu::on_one(|| {
        std::thread::scope(|scope| {
            let partner = scope.spawn(|| -> io::Result<()> {
                loop {
                    theirs.take()?;
                    if is_over.load(Ordering::Acquire) {
                        return Ok(());
                    }
                    ours.post()?;
                }
            });
            let priced = round_trips(setting, || {
                theirs.post()?;
                ours.take()
            });
            is_over.store(true, Ordering::Release);
            theirs.post()?;
            ended(partner.join())?;
            priced
        })
    })
}

/// An event that somebody waits for in an epoll set of its own.
struct Mailbox {
    event: OwnedFd,
    set: OwnedFd,
}

impl Mailbox {
    fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, event.as_fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { event, set })
    }

    fn post(&self) -> io::Result<()> {
        rustix::io::write(&self.event, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn take(&self) -> io::Result<()> {
        let none =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 1];
        while epoll::wait(&self.set, &mut events, None)? == 0 {}
        rustix::io::read(&self.event, &mut [0; 8])?;
        Ok(())
    }
}

fn round_trips(setting: &Setting, trip: impl FnMut() -> io::Result<()>) -> io::Result<Measured> {
    Ok(setting.each(trip)?.of_parts(2))
}

fn ended(joined: std::thread::Result<io::Result<()>>) -> io::Result<()> {
    joined.map_err(|_| io::Error::other("the thread that was switched to panicked"))?
}
