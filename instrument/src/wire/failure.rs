//! Failures: why a request could not be done, and the causes that somebody decides by.

/// Reason why a request could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Cause that somebody decides by, where there is such.
    pub cause: Option<Cause>,
    /// Action that was tried, for people: "cannot start `make`".
    pub what: String,
    /// Advice on what would help, or empty.
    pub hint: String,
}

impl Failure {
    /// One by which nobody decides, and without advice.
    pub fn of(what: impl Into<String>) -> Self {
        Self { cause: None, what: what.into(), hint: String::new() }
    }
}

/// A cause of a failure that somebody decides by; whoever only shows it needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no program of that name.
    NoSuchProgram,
    /// The thing that was asked about is not there.
    Absent,
    /// A program lacks a shared library.
    NoSuchLibrary,
    /// A medium is full.
    NoSpace,
    /// Somebody else listens at that port.
    PortTaken,
    /// A process may have no more files open.
    TooManyOpen,
    /// Somebody wrote into a channel of ours who is no end of it.
    Forged,
    /// There may be no more processes.
    TooManyProcesses,
    /// There is too little memory to start, or a limit on it is too small.
    NoMemory,
}

/// First words of whoever was lied to, on either side of a channel: see [`Cause::Forged`].
pub const FORGED: &str = "somebody wrote into";

impl Cause {
    /// Reads the cause from the number of a system call's error.
    ///
    /// Source: `errno(3)`.
    #[must_use]
    pub fn of_errno(errno: i32) -> Option<Self> {
        match errno {
            libc::ENOSPC | libc::EDQUOT => Some(Self::NoSpace),
            libc::EADDRINUSE => Some(Self::PortTaken),
            libc::EMFILE => Some(Self::TooManyOpen),
            libc::ENOMEM => Some(Self::NoMemory),
            _ => None,
        }
    }

    /// Reads the cause from an error of the standard library.
    #[must_use]
    pub fn of(error: &std::io::Error) -> Option<Self> {
        error.raw_os_error().and_then(Self::of_errno)
    }

    /// Reads the cause from the error with which a program was not started.
    #[must_use]
    pub fn of_start(error: &std::io::Error) -> Option<Self> {
        match error.kind() {
            std::io::ErrorKind::NotFound => Some(Self::NoSuchProgram),
            std::io::ErrorKind::WouldBlock => Some(Self::TooManyProcesses),
            _ => Self::of(error),
        }
    }
}
