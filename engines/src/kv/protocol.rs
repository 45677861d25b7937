//! The three languages of key-value servers: what a request looks like, and what an answer says.
//!
//! Each is a file beside this one. Answers come in the order of their requests in all of them.

use super::{binary, resp, text};
use crate::{Options, Refused};

/// A server's language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The text protocol of memcached.
    Text,
    /// The binary protocol of memcached.
    Binary,
    /// That of Redis.
    Resp,
}

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// The value of the key that was asked for.
    Value(&'a [u8]),
    /// It was stored.
    Stored,
    /// There is no such key.
    Missing,
    /// The server does not do it, for this reason.
    Refused(&'a [u8]),
}

/// Error that bytes are no answer in a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProtocolError;

/// An answer and its length in bytes; nothing where it is not whole yet.
pub(super) type Read<'a> = Result<Option<(usize, Reply<'a>)>, ProtocolError>;

impl Protocol {
    /// Their names, the usual one first.
    pub(super) const WORDS: [&'static str; 3] = ["memcached", "memcached-binary", "redis"];

    /// Reads the protocol that was typed.
    ///
    /// # Errors
    /// The user's: it is none of them.
    pub(super) fn read_option(options: &Options) -> Result<Self, Refused> {
        Ok(match options.word("protocol", &Self::WORDS)? {
            "memcached-binary" => Self::Binary,
            "redis" => Self::Resp,
            _ => Self::Text,
        })
    }

    /// Returns its name, as people type it.
    pub(super) fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Adds the request for the value of a key.
    #[inline]
    pub(super) fn get(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Text => text::get(key, out),
            Self::Binary => binary::get(key, out),
            Self::Resp => resp::get(key, out),
        }
    }

    /// Adds the request to store a value.
    #[inline]
    pub(super) fn set(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Text => text::set(key, value, out),
            Self::Binary => binary::set(key, value, out),
            Self::Resp => resp::set(key, value, out),
        }
    }

    /// The length of the answer that is expected, in bytes: that the key is there, or was stored.
    #[inline]
    pub(super) fn expected(self, key: &[u8], value: &[u8], is_set: bool) -> usize {
        match self {
            Self::Text => text::expected(key, value, is_set),
            Self::Binary => binary::expected(value, is_set),
            Self::Resp => resp::expected(value, is_set),
        }
    }

    /// Reads the answer that bytes begin with, to a request of this key.
    ///
    /// # Errors
    /// They are no answer of this language, or that of another key.
    #[inline]
    pub(super) fn read<'a>(self, bytes: &'a [u8], key: &[u8]) -> Read<'a> {
        match self {
            Self::Text => text::read(bytes, key),
            Self::Binary => binary::read(bytes),
            Self::Resp => resp::read(bytes),
        }
    }
}

/// Counts the digits of a number.
#[inline]
pub(super) fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |more| more as usize + 1)
}

/// Adds a number in digits.
#[inline]
pub(super) fn put_number(mut number: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b"0123456789"[number % 10];
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// The number in digits that fill all of it.
#[inline]
pub(super) fn number_in(digits: &[u8]) -> Result<usize, ProtocolError> {
    if digits.is_empty() || digits.len() > 9 {
        return Err(ProtocolError);
    }
    digits.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Ok(number * 10 + usize::from(digit - b'0')),
        _ => Err(ProtocolError),
    })
}

/// The longest line that an answer begins with, in bytes.
const LINE_LIMIT: usize = 2048;

/// The line that bytes begin with, without its end; nothing where it has none yet.
///
/// # Errors
/// It is too long for any server's.
#[inline]
pub(super) fn line(bytes: &[u8]) -> Result<Option<&[u8]>, ProtocolError> {
    let looked = &bytes[..bytes.len().min(LINE_LIMIT)];
    match looked.iter().position(|byte| *byte == b'\n') {
        Some(at) if at > 0 && looked[at - 1] == b'\r' => Ok(Some(&looked[..at - 1])),
        Some(_) => Err(ProtocolError),
        None if looked.len() == LINE_LIMIT => Err(ProtocolError),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
