//! A witness: a process that stayed outside of a user namespace, and says whose a file is.
//!
//! It has the rights of the user who runs us, and no more; is asked by descriptors, of which it
//! reads the owner; and leaves when the last who could ask has left.

use crate::fault::{Doing, Fault};
use rustix::io::FdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Bytes of control data: one descriptor.
const CONTROL: usize = rustix::cmsg_space!(ScmRights(1));

/// Bytes of an answer: a user's number.
const ANSWER: usize = size_of::<u32>();

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
    sendmsg(&*witness, &[IoSlice::new(b"?")], &mut control, SendFlags::NOSIGNAL).ok()?;
    let mut said = [0; ANSWER];
    let (length, _) = recv(&*witness, &mut said, RecvFlags::empty()).ok()?;
    (length == ANSWER).then(|| u32::from_ne_bytes(said))
}

/// Answers until nobody is left who asks.
fn testify(asked: &OwnedFd) {
    // A key that ends a run is not pressed for us: we leave with it.
    let _ = rustix::process::setsid();
    while let Some(file) = question(asked) {
        let owner = file.and_then(|file| rustix::fs::fstat(file).ok()).map(|it| it.st_uid);
        let answer = owner.map_or_else(|| vec![0], |owner| owner.to_ne_bytes().to_vec());
        if send(asked, &answer, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// The next file that is asked for, if one came with the question; `None` when nobody asks any
/// more.
fn question(asked: &OwnedFd) -> Option<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); CONTROL];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let parts = &mut [IoSliceMut::new(&mut byte)];
    let got =
        rustix::io::retry_on_intr(|| recvmsg(asked, parts, &mut control, RecvFlags::CMSG_CLOEXEC));
    if got.ok()?.bytes == 0 {
        return None;
    }
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Some(files.next().and_then(|mut files| files.next()))
}
