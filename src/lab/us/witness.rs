//! A witness: a process that stayed outside of a user namespace, and says whose a file is.
//!
//! It has the rights of the user who runs us, and no more; is asked by descriptors, of which it
//! reads the owner; and leaves when the last who could ask has left.

use crate::fault::{Doing, Fault};
use rustix::io::FdFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes of control data: one descriptor.
const CONTROL: usize = rustix::cmsg_space!(ScmRights(1));

/// Bytes of an answer: a user's number.
const ANSWER: usize = size_of::<u64>() + size_of::<u32>();

/// The longest wait for an answer: who is stopped says nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// Our end of what it is asked by; one question at a time.
static WITNESS: OnceLock<Mutex<OwnedFd>> = OnceLock::new();

/// Starts it, from a process that has one thread only and is about to enter a namespace.
///
/// # Errors
/// The machine's: it makes no other process.
pub(super) fn stay_outside() -> Result<OwnedFd, Fault> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .doing("make a socket to a process outside")?;
    // SAFETY: there is no other thread, so the child has all that it needs.
    match unsafe { libc::fork() } {
        ..0 => Err(std::io::Error::last_os_error()).doing("leave a process outside"),
        0 => {
            drop(ours);
            testify(&theirs);
            // SAFETY: nothing of the parent's is to be done at its end.
            unsafe { libc::_exit(0) }
        }
        _ => {
            drop(theirs);
            Ok(ours)
        }
    }
}

/// Takes the descriptor of this number for our end of what it is asked by; tells whether it is one.
pub(super) fn is_at(number: u32) -> bool {
    let Ok(number) = RawFd::try_from(number) else { return false };
    // SAFETY: it is looked at before anything is done with it, and nobody else uses it.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let is_one = rustix::net::sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
        && rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC).is_ok();
    if is_one {
        // SAFETY: it was handed down for us, who are its only owner.
        let ours = unsafe { OwnedFd::from_raw_fd(number) };
        let _ = WITNESS.set(Mutex::new(ours));
    }
    is_one
}

/// The number of that descriptor, if there is one.
pub(super) fn number() -> Option<RawFd> {
    let witness = WITNESS.get()?.lock().unwrap_or_else(PoisonError::into_inner);
    Some(witness.as_raw_fd())
}

/// The owner of a file, as the machine has it; `None` where nobody says.
pub(super) fn owner(file: BorrowedFd<'_>) -> Option<u32> {
    let witness = WITNESS.get()?.lock().unwrap_or_else(PoisonError::into_inner);
    let mut space = [MaybeUninit::uninit(); CONTROL];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return None;
    }
    // Another process of ours may have asked and not waited: its answer is not for us.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = u64::from(std::process::id()) << 32 | u64::from(NEXT.fetch_add(1, Relaxed));
    let number = number.to_ne_bytes();
    sendmsg(&*witness, &[IoSlice::new(&number)], &mut control, SendFlags::NOSIGNAL).ok()?;
    set_socket_timeout(&*witness, Timeout::Recv, Some(PATIENCE)).ok()?;
    loop {
        let mut said = [0; ANSWER];
        let (length, _) = recv(&*witness, &mut said, RecvFlags::empty()).ok()?;
        let (of, owner) = said.split_at(number.len());
        if of == number && length > 0 {
            let owner = <[u8; 4]>::try_from(owner).ok().filter(|_| length == ANSWER)?;
            return Some(u32::from_ne_bytes(owner));
        }
        if length == 0 {
            return None;
        }
    }
}

/// Answers until nobody is left who asks.
fn testify(asked: &OwnedFd) {
    // A key that ends a run is not pressed for us: we leave with it.
    let _ = rustix::process::setsid();
    while let Some((number, file)) = question(asked) {
        let owner = file.and_then(|file| rustix::fs::fstat(file).ok()).map(|it| it.st_uid);
        let owner = owner.map_or_else(Vec::new, |owner| owner.to_ne_bytes().to_vec());
        let answer = [&number[..], &owner].concat();
        if send(asked, &answer, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// The next question's number, and the file that came with it, if one did; `None` when nobody asks
/// any more.
fn question(asked: &OwnedFd) -> Option<([u8; 8], Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); CONTROL];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut number = [0; 8];
    let parts = &mut [IoSliceMut::new(&mut number)];
    let got =
        rustix::io::retry_on_intr(|| recvmsg(asked, parts, &mut control, RecvFlags::CMSG_CLOEXEC));
    let length = got.ok()?.bytes;
    if length == 0 {
        return None;
    }
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.next().and_then(|mut files| files.next());
    Some((number, file))
}
