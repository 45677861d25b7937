//! Reasons why a frame cannot be read or written.

use super::super::{FRAME_LIMIT, PROTOCOL};
use std::fmt;
use std::io;

/// Reason why a frame could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The frame says it is longer than [`FRAME_LIMIT`].
    TooLong(usize),
    /// A field reaches past the end of its frame.
    Short,
    /// Bytes are left after the last field.
    Trailing(usize),
    /// No such kind of frame, role, status or truth value.
    Unknown(u8),
    /// No such quantity, or one that stands where it must not.
    Quantity(u16),
    /// A text is not UTF-8.
    NotText,
    /// The first bytes are no greeting of this protocol.
    Foreign,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(length) => {
                write!(f, "a frame of {length} bytes is longer than the limit of {FRAME_LIMIT}")
            }
            Self::Short => f.write_str("a frame ends in the middle of a field"),
            Self::Trailing(count) => write!(f, "{count} bytes are left at the end of a frame"),
            Self::Unknown(tag) => write!(f, "tag {tag} is unknown"),
            Self::Quantity(key) => write!(f, "quantity {key} is unknown, or out of its order"),
            Self::NotText => f.write_str("a text is not UTF-8"),
            Self::Foreign => {
                write!(f, "what came first is no greeting of protocol {PROTOCOL}")
            }
        }
    }
}

/// Reason why no frame could be read or written.
#[derive(Debug)]
pub enum WireError {
    /// The stream failed.
    Io(io::Error),
    /// The stream ended between two frames.
    Closed,
    /// The bytes that came are not a frame.
    Malformed(Malformed),
    /// The frame that came does not bear the seal that is due: it was written by somebody else, or
    /// not now.
    Forged,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Closed => f.write_str("the stream was closed"),
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Forged => f.write_str("a frame does not bear the seal of this session"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for WireError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}
