//! memcached's binary protocol.
//!
//! ```text
//! magic 1, opcode 1, key length 2, extras length 1, type 1, status 2, body length 4, opaque 4, version 8
//! ```
//! then extras, key and value, which are the body. Numbers are big-endian. Source: memcached,
//! `docs/protocol_binary.xml` and its wiki page `BinaryProtocolRevamped`.

use super::protocol::{ProtocolError, Read, Reply};

/// The length of what every message begins with, in bytes.
const HEAD: usize = 24;

/// The length of what a value is told with.
const FLAGS: usize = 4;

const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const GET: u8 = 0;
const SET: u8 = 1;

/// A response's status where there is no such key.
const NOT_FOUND: u16 = 1;

fn head(opcode: u8, key: usize, extras: u8, value: usize, out: &mut Vec<u8>) {
    let mut head = [0; HEAD];
    let body = key + usize::from(extras) + value;
    head[0] = REQUEST;
    head[1] = opcode;
    // A key has at most 250 bytes and a value at most a million.
    head[2..4].copy_from_slice(&u16::try_from(key).unwrap_or(u16::MAX).to_be_bytes());
    head[4] = extras;
    head[8..12].copy_from_slice(&u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&head);
}

#[inline]
pub(super) fn get(key: &[u8], out: &mut Vec<u8>) {
    head(GET, key.len(), 0, 0, out);
    out.extend_from_slice(key);
}

/// The extras are 4 bytes of flags and 4 of an expiry: none.
#[inline]
pub(super) fn set(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    head(SET, key.len(), 8, value.len(), out);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// Returns the length in bytes of an answer that everything is as it was asked for.
#[inline]
pub(super) fn expected(value: &[u8], is_set: bool) -> usize {
    if is_set { HEAD } else { HEAD + FLAGS + value.len() }
}

/// Reads an answer; one with a value has 4 bytes of flags before it.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Read<'_> {
    if bytes.first().is_some_and(|magic| *magic != RESPONSE) {
        return Err(ProtocolError);
    }
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    let &[_, opcode, k0, k1, extras, _, s0, s1, l0, l1, l2, l3, ..] = head;
    let (key, status) = (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([s0, s1]));
    let body = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let before = usize::from(key) + usize::from(extras);
    if body > 1 << 21 || before > body {
        return Err(ProtocolError);
    }
    let Some(body) = bytes.get(HEAD..HEAD + body) else { return Ok(None) };
    let reply = match (opcode, status) {
        (GET, 0) => Reply::Value(&body[before..]),
        (SET, 0) => Reply::Stored,
        (GET, NOT_FOUND) => Reply::Missing,
        (GET | SET, _) => Reply::Refused(&body[before..]),
        _ => return Err(ProtocolError),
    };
    Ok(Some((HEAD + body.len(), reply)))
}
