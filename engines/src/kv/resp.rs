//! The Redis serialisation protocol, RESP2.
//!
//! Source: Redis documentation, *Redis serialization protocol specification*.

use super::protocol::{ProtocolError, Read, Reply, digits, line, number_in, put_number};

fn word(word: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    put_number(word.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

#[inline]
pub(super) fn get(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    word(key, out);
}

#[inline]
pub(super) fn set(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    word(key, out);
    word(value, out);
}

/// Returns the length in bytes of an answer that everything is as it was asked for.
#[inline]
pub(super) fn expected(value: &[u8], is_set: bool) -> usize {
    if is_set {
        return b"+OK\r\n".len();
    }
    b"$\r\n\r\n".len() + digits(value.len()) + value.len()
}

/// Reads an answer: `+OK`, `-WHY`, `$-1` for nothing, or `$LENGTH` and a value.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Read<'_> {
    let Some(first) = line(bytes)? else { return Ok(None) };
    let begin = first.len() + 2;
    match first.split_first() {
        Some((b'$', b"-1")) => Ok(Some((begin, Reply::Missing))),
        Some((b'$', digits)) => {
            let length = number_in(digits)?;
            match bytes.get(begin + length..begin + length + 2) {
                Some(b"\r\n") => {
                    let value = &bytes[begin..begin + length];
                    Ok(Some((begin + length + 2, Reply::Value(value))))
                }
                Some(_) => Err(ProtocolError),
                None => Ok(None),
            }
        }
        Some((b'+', b"OK")) => Ok(Some((begin, Reply::Stored))),
        Some((b'-', why)) => Ok(Some((begin, Reply::Refused(why)))),
        _ => Err(ProtocolError),
    }
}
