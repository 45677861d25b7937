//! Requests as the documents write them, and answers whole, in part, and of somebody else.

use super::*;

const ALL: [Protocol; 3] = [Protocol::Text, Protocol::Binary, Protocol::Resp];

#[test]
fn requests_are_those_of_the_documents() {
    for (protocol, get, set) in [
        (Protocol::Text, b"get ab\r\n".to_vec(), b"set ab 0 0 12\r\nhello, world\r\n".to_vec()),
        (
            Protocol::Binary,
            b"\x80\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0ab".to_vec(),
            b"\x80\x01\0\x02\x08\0\0\0\0\0\0\x16\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0abhello, \
              world"
                .to_vec(),
        ),
        (
            Protocol::Resp,
            b"*2\r\n$3\r\nGET\r\n$2\r\nab\r\n".to_vec(),
            b"*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$12\r\nhello, world\r\n".to_vec(),
        ),
    ] {
        let mut out = Vec::new();
        protocol.get(b"ab", &mut out);
        assert_eq!(out, get, "{}", protocol.name());
        out.clear();
        protocol.set(b"ab", b"hello, world", &mut out);
        assert_eq!(out, set, "{}", protocol.name());
    }
}

/// An answer of the binary protocol.
fn binary(opcode: u8, status: u8, extras: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x81, opcode, 0, 0];
    bytes.extend([u8::try_from(extras.len()).unwrap(), 0, 0, status, 0, 0, 0]);
    bytes.push(u8::try_from(extras.len() + value.len()).unwrap());
    bytes.extend([9; 12]);
    [&bytes, extras, value].concat()
}

/// Every kind of answer to a request of the key `ab`.
fn answers(protocol: Protocol) -> Vec<(Vec<u8>, Reply<'static>)> {
    let value = Reply::Value(b"va\r\nl");
    match protocol {
        Protocol::Text => vec![
            (b"VALUE ab 0 5\r\nva\r\nl\r\nEND\r\n".to_vec(), value),
            (b"VALUE ab 0 0\r\n\r\nEND\r\n".to_vec(), Reply::Value(b"")),
            (b"END\r\n".to_vec(), Reply::Missing),
            (b"STORED\r\n".to_vec(), Reply::Stored),
            (
                b"SERVER_ERROR out of memory\r\n".to_vec(),
                Reply::Refused(b"SERVER_ERROR out of memory"),
            ),
            (b"ERROR\r\n".to_vec(), Reply::Refused(b"ERROR")),
        ],
        Protocol::Binary => vec![
            (binary(0, 0, &[0; 4], b"va\r\nl"), value),
            (binary(0, 1, &[], b"Not found"), Reply::Missing),
            (binary(1, 0, &[], b""), Reply::Stored),
            (binary(1, 0x82, &[], b"Out of memory"), Reply::Refused(b"Out of memory")),
        ],
        Protocol::Resp => vec![
            (b"$5\r\nva\r\nl\r\n".to_vec(), value),
            (b"$0\r\n\r\n".to_vec(), Reply::Value(b"")),
            (b"$-1\r\n".to_vec(), Reply::Missing),
            (b"+OK\r\n".to_vec(), Reply::Stored),
            (b"-OOM command not allowed\r\n".to_vec(), Reply::Refused(b"OOM command not allowed")),
        ],
    }
}

#[test]
fn an_answer_is_read_once_it_is_whole_and_no_further() {
    for protocol in ALL {
        for (bytes, reply) in answers(protocol) {
            for length in 0..bytes.len() {
                assert_eq!(protocol.read(&bytes[..length], b"ab"), Ok(None), "{reply:?} {length}");
            }
            let more = [bytes.as_slice(), b"VALUE"].concat();
            assert_eq!(protocol.read(&more, b"ab"), Ok(Some((bytes.len(), reply))));
        }
    }
}

#[test]
fn an_answer_that_is_as_expected_has_the_length_that_is_expected() {
    for protocol in ALL {
        for (bytes, reply) in answers(protocol) {
            let (value, is_set) = match reply {
                Reply::Value(value) => (value, false),
                Reply::Stored => (b"any".as_slice(), true),
                _ => continue,
            };
            assert_eq!(protocol.expected(b"ab", value, is_set), bytes.len(), "{reply:?}");
        }
        for (count, digits) in [(9, 1), (10, 2), (99, 2), (100, 3), (1_000_000, 7)] {
            assert_eq!(super::digits(count), digits);
        }
    }
}

#[test]
fn what_is_no_answer_is_strange_in_every_language() {
    for protocol in ALL {
        for bytes in [
            b"HTTP/1.1 400 Bad Request\r\n".as_slice(),
            b"VALUE ab 0 5\r\nvalue!!END\r\n",
            b"VALUE other 0 5\r\nvalue\r\nEND\r\n",
            b"VALUE ab 0 -5\r\n",
            b"$5\r\nvalue!!\r\n",
            b"$99999999999\r\n",
            b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"\x81\0\0\xff\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0",
            b"\x81\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0",
            &[b'A'; 3000],
            b"\n",
        ] {
            // In a language of lines those have no end yet.
            if bytes[0] >= 0x80 && protocol != Protocol::Binary {
                continue;
            }
            assert_eq!(protocol.read(bytes, b"ab"), Err(ProtocolError), "{protocol:?} {bytes:?}");
        }
    }
}
