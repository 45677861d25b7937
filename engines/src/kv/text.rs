//! memcached's text protocol.
//!
//! Source: memcached, `doc/protocol.txt`.

use super::protocol::{ProtocolError, Read, Reply, digits, line, number_in, put_number};

const VALUE: &[u8] = b"VALUE ";

/// Bytes that end a value and its answer.
const END: &[u8] = b"\r\nEND\r\n";

#[inline]
pub(super) fn get(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"get ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// Stored for ever (0), without flags (0).
#[inline]
pub(super) fn set(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" 0 0 ");
    put_number(value.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Returns the length in bytes of an answer that everything is as it was asked for.
#[inline]
pub(super) fn expected(key: &[u8], value: &[u8], is_set: bool) -> usize {
    if is_set {
        return b"STORED\r\n".len();
    }
    let line = VALUE.len() + key.len() + b" 0 ".len() + digits(value.len()) + b"\r\n".len();
    line + value.len() + END.len()
}

/// Reads an answer; a value's names its key: `VALUE KEY FLAGS LENGTH`.
#[inline]
pub(super) fn read<'a>(bytes: &'a [u8], key: &[u8]) -> Read<'a> {
    let Some(first) = line(bytes)? else { return Ok(None) };
    let begin = first.len() + 2;
    if let Some(rest) = first.strip_prefix(VALUE) {
        let rest = rest.strip_prefix(key).and_then(|rest| rest.strip_prefix(b" 0 "));
        let length = number_in(rest.ok_or(ProtocolError)?)?;
        let Some(end) = bytes.get(begin + length..begin + length + END.len()) else {
            return Ok(None);
        };
        let value = &bytes[begin..begin + length];
        return if end == END {
            Ok(Some((begin + length + END.len(), Reply::Value(value))))
        } else {
            Err(ProtocolError)
        };
    }
    let reply = match first {
        b"STORED" => Reply::Stored,
        b"END" => Reply::Missing,
        b"ERROR" | b"NOT_STORED" => Reply::Refused(first),
        _ if first.starts_with(b"SERVER_ERROR") || first.starts_with(b"CLIENT_ERROR") => {
            Reply::Refused(first)
        }
        _ => return Err(ProtocolError),
    };
    Ok(Some((begin, reply)))
}
