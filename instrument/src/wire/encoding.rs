//! Frames to bytes and back, with every length checked before it is believed.
//!
//! One [`Field`] implementation per type says how a value looks; the kinds of frames are the two
//! tables at the end. A frame that is longer than its fields is as malformed as one that is
//! shorter.

mod amounts;
mod errors;

use super::seal::{HEAD, Opener, Sealer, TAIL};
use super::{
    Calls, Cause, Command, Dropped, FRAME_LIMIT, Fact, Failure, Hello, Instance, LevelFacts,
    Outcome, Output, Reading, Reply, Request, Role, StartNested, Status, Stops, Watching,
};
use crate::calls::Call;
use crate::quantity::{Bytes, Nanoseconds};
pub use errors::{Malformed, WireError};
use std::io::{self, Read, Write};

/// Writes one request, in one piece where the stream takes it so; before the first one, the key of
/// the session.
///
/// # Errors
/// The stream's, or [`Malformed::TooLong`] for a request that no agent would accept.
pub fn write_request(
    stream: &mut impl Write,
    sealer: &mut Sealer,
    request: &Request,
) -> Result<(), WireError> {
    write_frame(stream, sealer, request)
}

/// Writes one reply, in one piece where the stream takes it so. The first one must be
/// [`Reply::Hello`].
///
/// # Errors
/// The stream's, or [`Malformed::TooLong`] for a reply that the host would not accept.
pub fn write_reply(
    stream: &mut impl Write,
    sealer: &mut Sealer,
    reply: &Reply,
) -> Result<(), WireError> {
    write_frame(stream, sealer, reply)
}

/// Reads one request; before the first one, the key of the session.
///
/// # Errors
/// [`WireError::Closed`] at a clean end of the stream; [`WireError::Forged`]; else the stream's, or
/// what is malformed.
pub fn read_request(stream: &mut impl Read, opener: &mut Opener) -> Result<Request, WireError> {
    read_frame(stream, opener)
}

/// Reads one reply.
///
/// # Errors
/// [`WireError::Closed`] at a clean end of the stream; [`WireError::Forged`]; else the stream's, or
/// what is malformed.
pub fn read_reply(stream: &mut impl Read, opener: &mut Opener) -> Result<Reply, WireError> {
    read_frame(stream, opener)
}

/// Returns the length in bytes of the reply that begins with `bytes`, with its head and seal;
/// `None` where its head is not all there.
///
/// # Errors
/// [`WireError::Forged`] for a head that does not bear the seal that is due; a length beyond the
/// limit.
pub fn length_of_reply(bytes: &[u8], opener: &Opener) -> Result<Option<usize>, WireError> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    Ok(Some(HEAD + sealed_length(*head, opener)?))
}

/// Refuses a request that no agent would accept, without sending it.
///
/// # Errors
/// [`Malformed::TooLong`].
pub fn require_short(request: &Request) -> Result<(), Malformed> {
    bytes_of(request).map(drop)
}

/// Writes one frame of any bytes, under the seal that is due: for those who try what readers make
/// of it.
///
/// # Errors
/// The stream's, or [`Malformed::TooLong`] where no length can say how many they are.
pub fn write_any(
    stream: &mut impl Write,
    sealer: &mut Sealer,
    body: &[u8],
) -> Result<(), WireError> {
    sealer.write(stream, [&[0; HEAD], body].concat())
}

/// The bytes of a request or a reply without head and seal.
///
/// # Errors
/// [`Malformed::TooLong`].
pub fn body_of(frame: &impl Field) -> Result<Vec<u8>, Malformed> {
    bytes_of(frame).map(|bytes| bytes[HEAD..].to_vec())
}

/// A frame after room for its head.
fn bytes_of(frame: &impl Field) -> Result<Vec<u8>, Malformed> {
    let mut bytes = vec![0; HEAD];
    frame.put(&mut bytes);
    let length = bytes.len() - HEAD;
    if length > FRAME_LIMIT { Err(Malformed::TooLong(length)) } else { Ok(bytes) }
}

fn write_frame(
    stream: &mut impl Write,
    sealer: &mut Sealer,
    frame: &impl Field,
) -> Result<(), WireError> {
    sealer.write(stream, bytes_of(frame)?)
}

fn read_frame<T: Field>(stream: &mut impl Read, opener: &mut Opener) -> Result<T, WireError> {
    if opener.wants_key() {
        let mut bytes = read_sealed(stream, opener)?;
        opener.take_key(&mut bytes)?;
    }
    let bytes = read_sealed(stream, opener)?;
    let mut rest = opener.open(&bytes)?;
    let frame = T::take(&mut rest)?;
    if rest.is_empty() { Ok(frame) } else { Err(Malformed::Trailing(rest.len()).into()) }
}

/// The bytes of the next frame, with the seal at their end that nobody has looked at.
fn read_sealed(stream: &mut impl Read, opener: &Opener) -> Result<Vec<u8>, WireError> {
    let mut head = [0; HEAD];
    let first = loop {
        match stream.read(&mut head) {
            Ok(count) => break count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    };
    if first == 0 {
        return Err(WireError::Closed);
    }
    stream.read_exact(&mut head[first..])?;
    let mut bytes = vec![0; sealed_length(head, opener)?];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Returns how many bytes follow a head, with the seal at their end.
fn sealed_length(head: [u8; HEAD], opener: &Opener) -> Result<usize, WireError> {
    let length = opener.length(head)?;
    if length > FRAME_LIMIT { Err(Malformed::TooLong(length).into()) } else { Ok(length + TAIL) }
}

/// Encoding of one type on the wire.
pub trait Field: Sized {
    /// Adds it to the bytes of a frame.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it from those that are left of a frame.
    ///
    /// # Errors
    /// Reason why they are none.
    fn take(from: &mut &[u8]) -> Result<Self, Malformed>;
    /// Adds several, one after the other.
    fn put_all(all: &[Self], out: &mut Vec<u8>) {
        all.iter().for_each(|one| one.put(out));
    }
    /// Takes so many.
    ///
    /// # Errors
    /// As [`Self::take`].
    fn take_all(count: usize, from: &mut &[u8]) -> Result<Vec<Self>, Malformed> {
        (0..count).map(|_| Self::take(from)).collect()
    }
}

fn split<'a>(from: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (head, rest) = from.split_at_checked(count).ok_or(Malformed::Short)?;
    *from = rest;
    Ok(head)
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Field for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                let bytes = split(from, size_of::<Self>())?;
                bytes.try_into().map(Self::from_le_bytes).map_err(|_| Malformed::Short)
            }
        }
    )*};
}
integers!(u16, u32, u64, u128, i32, i64);

impl Field for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        split(from, 1).map(|bytes| bytes[0])
    }
    // What a command wrote, and its environment, are thousands of them.
    fn put_all(all: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(all);
    }
    fn take_all(count: usize, from: &mut &[u8]) -> Result<Vec<Self>, Malformed> {
        split(from, count).map(<[u8]>::to_vec)
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Malformed::Unknown(other)),
        }
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    // A count that does not fit is refused by the frame limit, which is far below `u32::MAX`.
    u32::try_from(count).unwrap_or(u32::MAX).put(out);
}

fn take_count(from: &mut &[u8]) -> Result<usize, Malformed> {
    let count = usize::try_from(u32::take(from)?).map_err(|_| Malformed::Short)?;
    // Each element takes at least one byte, so a larger count cannot be true.
    if count > from.len() { Err(Malformed::Short) } else { Ok(count) }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        T::put_all(self, out);
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let count = take_count(from)?;
        T::take_all(count, from)
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let count = take_count(from)?;
        let bytes = split(from, count)?;
        std::str::from_utf8(bytes).map(Self::from).map_err(|_| Malformed::NotText)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Field> Field for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        T::take(from).map(Self::new)
    }
}

/// Structs: their fields in order.
macro_rules! structs {
    ($($name:ident { $($field:tt),* $(,)? })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                Ok(Self { $($field: Field::take(from)?),* })
            }
        }
    )*};
}
structs! {
    Nanoseconds { 0 }
    Bytes { 0 }
    Command { argv, instances, env, cwd, keep_bytes, deadline, terminal, counts_calls, watching }
    Watching { kernel_begin_ns, level, every }
    Hello { protocol, pid, at }
    Outcome { status, wall, cpu_user, cpu_system, memory_peak, counts, calls, stops, oom_kill_count, left_running_count, agent_cpu, machine, stdout, stderr, instances }
    Instance { status, wall, cpu_user, cpu_system, memory_peak, counts, stdout, stderr }
    Call { number, count, returned, fresh }
    Calls { counted, program_count, file_fault_count, failure }
    Stops { count, time }
    Output { hash, length, tail }
    Failure { cause, what, hint }
    Fact { key, value, source }
    LevelFacts { layer, facts }
    Reading { payer, role, level, amounts, carries_workload, is_shared }
    StartNested { stack, level, writable, cwd, command, start_deadline }
    Dropped { kernel, failure }
}

/// Enums: one byte of tag, then the fields of the variant.
macro_rules! enums {
    ($($name:ident { $($tag:literal = $variant:ident $(($value:ident))? $({ $($field:ident),* })?),* $(,)? })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($value))? $({ $($field),* })? => {
                        out.push($tag);
                        $($value.put(out);)?
                        $($($field.put(out);)*)?
                    })*
                }
            }
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                match u8::take(from)? {
                    $($tag => {
                        $(let $value = Field::take(from)?;)?
                        $($(let $field = Field::take(from)?;)*)?
                        Ok(Self::$variant $(($value))? $({ $($field),* })?)
                    })*
                    other => Err(Malformed::Unknown(other)),
                }
            }
        }
    )*};
}
enums! {
    Cause {
        0 = NoSuchProgram,
        1 = Absent,
        2 = NoSpace,
        3 = PortTaken,
        4 = TooManyOpen,
        5 = Forged,
        6 = NoSuchLibrary,
        7 = TooManyProcesses,
        8 = NoMemory,
    }
    Role { 0 = Workload, 1 = GuestKernel, 2 = Hypervisor, 3 = Engine, 4 = Surtax, 5 = Machine }
    Status { 0 = Exit(code), 1 = Signal(number), 2 = Deadline, 3 = Cancelled }
    Request {
        1 = Run(command),
        2 = Cancel,
        3 = Put { path, mode, bytes },
        4 = Relay(command),
        5 = Data(bytes),
        6 = CloseRelay,
        7 = Clock,
        8 = Identify,
        9 = StartNested(what),
        10 = Stop,
        11 = Resize { rows, columns },
        12 = Go,
        13 = DropCaches,
        14 = Resolve(command),
        15 = KeepAlive,
        16 = Locate(command),
    }
    Reply {
        1 = Hello(hello),
        2 = Started { at },
        14 = Ended { at },
        3 = Exited(outcome),
        4 = Bill(readings),
        5 = Failed(failure),
        6 = Written,
        7 = Data(bytes),
        8 = RelayEnded { status, stderr },
        9 = Clock { at, passed },
        10 = Identity(facts),
        11 = StartedNested(levels),
        12 = Stopped,
        13 = Dropped(levels),
        15 = Sampled { at, readings },
    }
}

#[cfg(test)]
mod tests {
    use super::super::PROTOCOL;
    use super::*;
    use crate::amount::{Amounts, PAGE_FAULTS};
    use crate::wire::{agents, hosts};
    use proptest::prelude::*;

    /// The two ends of a session: the host's, then the agent's, which have greeted each other.
    fn session() -> ((Sealer, Opener), (Sealer, Opener)) {
        let (mut host, mut agent) = (hosts().unwrap(), agents());
        let hello = Reply::Hello(Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(2) });
        let (mut up, mut down) = (Vec::new(), Vec::new());
        write_reply(&mut up, &mut agent.0, &hello).unwrap();
        assert_eq!(read_reply(&mut up.as_slice(), &mut host.1).unwrap(), hello);
        write_request(&mut down, &mut host.0, &Request::Go).unwrap();
        assert_eq!(read_request(&mut down.as_slice(), &mut agent.1).unwrap(), Request::Go);
        (host, agent)
    }

    fn round_trip(reply: &Reply) -> Reply {
        let (mut host, mut agent) = session();
        let mut bytes = Vec::new();
        write_reply(&mut bytes, &mut agent.0, reply).unwrap();
        read_reply(&mut bytes.as_slice(), &mut host.1).unwrap()
    }

    /// A frame of these bytes as its sender would have sealed it, and the one who reads it.
    fn sealed(body: &[u8]) -> (Vec<u8>, Opener) {
        let ((_, opener), (mut sealer, _)) = session();
        let mut bytes = Vec::new();
        sealer.write(&mut bytes, [&[0; HEAD], body].concat()).unwrap();
        (bytes, opener)
    }

    #[test]
    fn a_frame_looks_as_documented() {
        let ((mut sealer, _), _) = session();
        let mut bytes = Vec::new();
        write_request(&mut bytes, &mut sealer, &Request::Data(b"ab".to_vec())).unwrap();
        assert_eq!(bytes.len(), HEAD + 7 + TAIL);
        assert_eq!(bytes[..4], [7, 0, 0, 0]);
        assert_eq!(bytes[HEAD..HEAD + 7], [5, 2, 0, 0, 0, b'a', b'b']);
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_it_is_allocated() {
        let (bytes, mut opener) = sealed(&vec![0; FRAME_LIMIT + 1]);
        let error = read_reply(&mut &bytes[..HEAD], &mut opener).unwrap_err();
        assert!(matches!(error, WireError::Malformed(Malformed::TooLong(_))), "{error}");
    }

    #[test]
    fn a_count_beyond_the_frame_is_refused() {
        let (bytes, mut opener) = sealed(&[7, 0xff, 0xff, 0, 0]);
        let error = read_reply(&mut bytes.as_slice(), &mut opener).unwrap_err();
        assert!(matches!(error, WireError::Malformed(Malformed::Short)), "{error}");
    }

    #[test]
    fn the_end_between_two_frames_is_not_an_error_of_the_frame() {
        let (_, mut opener) = hosts().unwrap();
        assert!(matches!(read_reply(&mut [].as_slice(), &mut opener), Err(WireError::Closed)));
    }

    proptest! {
        #[test]
        fn no_bytes_at_all_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (frame, mut opener) = sealed(&bytes);
            let _ = read_reply(&mut frame.as_slice(), &mut opener);
            let (mut host, mut agent) = session();
            let mut frame = Vec::new();
            host.0.write(&mut frame, [&[0; HEAD], bytes.as_slice()].concat()).unwrap();
            let _ = read_request(&mut frame.as_slice(), &mut agent.1);
            // The same without any seal.
            let _ = read_request(&mut bytes.as_slice(), &mut agents().1);
            let _ = read_reply(&mut bytes.as_slice(), &mut hosts().unwrap().1);
        }

        #[test]
        fn what_is_written_is_read_back(tail in proptest::collection::vec(any::<u8>(), 0..99),
                                        hash: u128, wall: u64, code: i32, text in ".{0,20}") {
            let outcome = Outcome {
                status: Status::Signal(code),
                wall: Nanoseconds(wall),
                cpu_user: Nanoseconds(1),
                cpu_system: Nanoseconds(2),
                memory_peak: Bytes(3),
                counts: Amounts::default().with(PAGE_FAULTS, wall),
                calls: None,
                stops: Some(Stops { count: 1, time: Nanoseconds(wall) }),
                oom_kill_count: Some(wall),
                left_running_count: 3,
                agent_cpu: Nanoseconds(0),
                machine: Vec::new(),
                stdout: Output { hash, length: Bytes(wall), tail },
                stderr: Output::default(),
                instances: vec![Instance {
                    status: Status::Exit(code),
                    wall: Nanoseconds(wall),
                    cpu_user: Nanoseconds(4),
                    cpu_system: Nanoseconds(5),
                    memory_peak: Bytes(6),
                    counts: Amounts::NONE,
                    stdout: Output::default(),
                    stderr: Output { hash, length: Bytes(7), tail: Vec::new() },
                }],
            };
            let reply = Reply::Exited(outcome.into());
            prop_assert_eq!(round_trip(&reply), reply);
            let reply = Reply::StartedNested(vec![LevelFacts {
                layer: text.clone(),
                facts: vec![Fact { key: text.clone(), value: text.clone(), source: text }],
            }]);
            prop_assert_eq!(round_trip(&reply), reply);
        }
    }
}
