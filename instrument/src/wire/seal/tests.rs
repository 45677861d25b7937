//! Tests that what is forged, replayed, doubled, early, or broken is noticed, and what is honest is
//! understood.

use super::*;
use crate::quantity::Nanoseconds;
use crate::wire::{
    Hello, PROTOCOL, Reply, Request, read_reply, read_request, write_reply, write_request,
};
use proptest::prelude::*;

const CLOCK: Reply = Reply::Clock { at: Nanoseconds(7), passed: Vec::new() };

fn hello() -> Reply {
    Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(1) })
}

/// Both ends of a session that stands, and what the host's first write was.
fn session() -> ((Sealer, Opener), (Sealer, Opener), Vec<u8>) {
    let (mut host, mut agent) = (hosts().unwrap(), agents());
    let first = said(&mut agent.0, &hello());
    assert_eq!(read_reply(&mut first.as_slice(), &mut host.1).unwrap(), hello());
    let opening = asked(&mut host.0, &Request::Identify);
    let mut rest = opening.as_slice();
    assert_eq!(read_request(&mut rest, &mut agent.1).unwrap(), Request::Identify);
    assert!(rest.is_empty());
    (host, agent, opening)
}

fn said(sealer: &mut Sealer, reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_reply(&mut bytes, sealer, reply).unwrap();
    bytes
}

fn asked(sealer: &mut Sealer, request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_request(&mut bytes, sealer, request).unwrap();
    bytes
}

/// Returns what the host makes of these bytes.
fn heard(mut bytes: &[u8], opener: &mut Opener) -> Result<Reply, WireError> {
    read_reply(&mut bytes, opener)
}

fn is_forged<T>(heard: &Result<T, WireError>) -> bool {
    matches!(heard, Err(WireError::Forged))
}

#[test]
fn both_ends_understand_each_other_for_as_long_as_they_speak() {
    let (mut host, mut agent, _) = session();
    for number in 0..1000 {
        let reply = Reply::Clock { at: Nanoseconds(number), passed: Vec::new() };
        assert_eq!(heard(&said(&mut agent.0, &reply), &mut host.1).unwrap(), reply);
        let request = asked(&mut host.0, &Request::Go);
        assert_eq!(read_request(&mut request.as_slice(), &mut agent.1).unwrap(), Request::Go);
    }
}

#[test]
fn a_frame_of_another_session_is_forged() {
    let (mut host, ..) = session();
    let (_, mut other, _) = session();
    assert!(is_forged(&heard(&said(&mut other.0, &CLOCK), &mut host.1)));
}

#[test]
fn a_frame_without_the_key_is_forged_whatever_it_says() {
    let (_, mut stranger) = (hosts().unwrap(), agents());
    let greeting = said(&mut stranger.0, &hello());
    let (mut host, _, _) = session();
    assert!(is_forged(&heard(&greeting, &mut host.1)), "a second greeting");
    for body in [&[12][..], &[6], &[3, 0], &[0; 99]] {
        let (mut host, _, _) = session();
        let mut frame = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(body);
        frame.extend_from_slice(&[0; TAIL]);
        assert!(is_forged(&heard(&frame, &mut host.1)), "{body:?}");
    }
}

#[test]
fn a_frame_that_is_doubled_replayed_or_early_is_forged() {
    let (mut host, mut agent, _) = session();
    let first = said(&mut agent.0, &CLOCK);
    assert_eq!(heard(&first, &mut host.1).unwrap(), CLOCK);
    assert!(is_forged(&heard(&first, &mut host.1)), "the same again");
    let second = said(&mut agent.0, &Reply::Written);
    let third = said(&mut agent.0, &Reply::Stopped);
    assert!(is_forged(&heard(&third, &mut host.1)), "before its turn");
    assert_eq!(heard(&second, &mut host.1).unwrap(), Reply::Written);
    assert!(is_forged(&heard(&first, &mut host.1)), "an old one");
    assert_eq!(heard(&third, &mut host.1).unwrap(), Reply::Stopped);
}

#[test]
fn what_a_host_has_said_is_no_reply_and_what_it_says_twice_is_no_request() {
    let (mut host, mut agent, opening) = session();
    let request = asked(&mut host.0, &Request::Clock);
    assert!(is_forged(&heard(&request, &mut host.1)), "sent back");
    assert_eq!(read_request(&mut request.as_slice(), &mut agent.1).unwrap(), Request::Clock);
    assert!(is_forged(&read_request(&mut request.as_slice(), &mut agent.1)), "the same again");
    assert!(is_forged(&read_request(&mut opening.as_slice(), &mut agent.1)), "another key");
}

#[test]
fn a_part_of_a_frame_is_noticed_with_the_next_whole_one() {
    let (mut host, mut agent, _) = session();
    let whole = said(&mut agent.0, &CLOCK);
    for length in 1..HEAD {
        let torn = [&whole[..length], &whole].concat();
        let (bytes, mut opener) = (torn, Opener { state: copy(&host.1.state), is_agents: false });
        assert!(is_forged(&heard(&bytes, &mut opener)), "{length} bytes before it");
    }
    assert_eq!(heard(&whole, &mut host.1).unwrap(), CLOCK);
}

fn copy(state: &SealState) -> SealState {
    SealState { key: Arc::clone(&state.key), direction: state.direction, next: state.next }
}

#[test]
fn who_is_no_agent_is_told_from_who_forges() {
    let mut host = hosts().unwrap();
    let heard = heard(b"GET / HTTP/1.1\r\n\r\n", &mut host.1);
    assert!(matches!(heard, Err(WireError::Malformed(Malformed::Foreign))), "{heard:?}");
}

#[test]
fn nothing_but_the_greeting_is_said_before_the_key_is_there() {
    let (mut sealer, _opener) = agents();
    said(&mut sealer, &hello());
    let early = write_reply(&mut Vec::new(), &mut sealer, &CLOCK);
    assert!(matches!(early, Err(WireError::Io(_))), "{early:?}");
}

#[test]
fn two_sessions_have_two_keys() {
    let keys =
        [hosts().unwrap(), hosts().unwrap()].map(|(sealer, _)| *sealer.state.key.0.get().unwrap());
    assert_ne!(keys[0], keys[1]);
    assert_ne!(keys[0], EVERYBODYS);
}

#[test]
fn the_seal_is_the_published_function() {
    // The key and the message of the reference implementation's vectors, 128 bits, of 15 bytes.
    let key: [u8; KEY] = std::array::from_fn(|place| u8::try_from(place).unwrap());
    let message: [u8; 15] = std::array::from_fn(|place| u8::try_from(place).unwrap());
    let mut hasher = SipHasher24::new_with_key(&key);
    hasher.write(&message);
    let expected = [
        0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3,
        0xd9,
    ];
    assert_eq!(hasher.finish128().as_u128().to_le_bytes(), expected);
}

proptest! {
    #[test]
    fn no_change_of_any_bit_goes_unnoticed(text in proptest::collection::vec(any::<u8>(), 0..60), place: usize, bit in 0..8u8) {
        let (mut host, mut agent, _) = session();
        let mut frame = said(&mut agent.0, &Reply::Data(text));
        let place = place % frame.len();
        frame[place] ^= 1 << bit;
        prop_assert!(is_forged(&heard(&frame, &mut host.1)));
    }
}
