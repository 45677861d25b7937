//! The host's end of a link: an inside that says whatever it likes, directly and through a relay.

use super::Target;
use super::wire::{bodies, of_reply, replies};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use surtax::agent::{ConsoleTail, Heartbeat, Link, refused, unexpected};
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{
    Command, Hello, PROTOCOL, Reply, Request, agents, read_request, write_any, write_reply,
};

pub const TARGET: Target = Target { name: "link", run, seeds, folders: &[], longest: 16 << 10 };

/// The whole of what is said is there from the beginning, so nobody waits for so long.
const DEADLINE: Duration = Duration::from_secs(20);

/// The most replies of one input.
const REPLIES: usize = 4096;

fn run(bytes: &[u8]) {
    with_link(bytes, drain);
    with_link(bytes, |link| {
        if let Ok(relayed) = link.relay("starter", Command::default()) {
            drain(relayed);
        }
    });
    with_link(bytes, |mut link| {
        let mut heartbeat = Heartbeat::default();
        if link.outlast(&mut heartbeat, DEADLINE).is_ok() {
            // Nothing was asked, so nothing is owed.
            assert!(heartbeat.settle(link.listener.as_mut(), DEADLINE).is_ok());
        }
    });
}

/// Does something with a link to an inside that greets, is told its key, and then says all of this
/// under its seal.
fn with_link(bytes: &[u8], work: impl FnOnce(Link)) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    std::thread::scope(|scope| {
        scope.spawn(|| say(&theirs, bytes));
        let reader = ours.try_clone().expect("one more descriptor");
        let mut link =
            Link::over("guest", reader, ours, &ConsoleTail::new()).expect("random bytes");
        let greeting = link.receive(DEADLINE).map(|stamped| stamped.reply);
        assert!(matches!(greeting, Ok(Reply::Hello(_))), "{greeting:?}");
        link.send(&Request::Clock).expect("somebody listens");
        work(link);
        // Whoever still speaks is not listened to any more.
        drop(theirs.shutdown(std::net::Shutdown::Both));
    });
}

/// Says what it is given, until nobody listens.
fn say(stream: &UnixStream, bytes: &[u8]) {
    let (mut sealer, mut opener) = agents();
    let hello = Hello { protocol: PROTOCOL, pid: 1, at: Nanoseconds(5) };
    let mut stream = stream;
    let greeted = write_reply(&mut stream, &mut sealer, &Reply::Hello(hello));
    if greeted.is_err() || read_request(&mut stream, &mut opener).is_err() {
        return;
    }
    for body in bodies(bytes) {
        if write_any(&mut stream, &mut sealer, body).is_err() {
            return;
        }
    }
    drop(stream.shutdown(std::net::Shutdown::Write));
}

fn drain(mut link: Link) {
    for _ in 0..REPLIES {
        match link.ask(&Request::Identify, DEADLINE).map(|stamped| stamped.reply) {
            Ok(Reply::Failed(failure)) => drop(refused(failure)),
            Ok(reply) => assert!(unexpected(&reply, "a question").message.len() < 1000),
            Err(_) => return,
        }
    }
}

/// Every reply, all of them in a row, and the same in the frames of a relay.
fn seeds() -> Vec<Vec<u8>> {
    let frames: Vec<Vec<u8>> = replies().iter().map(of_reply).collect();
    let relayed = |bytes: &Vec<u8>| of_reply(&Reply::Data(bytes.clone()));
    let mut seeds: Vec<Vec<u8>> = frames.iter().map(relayed).collect();
    let split: Vec<u8> = frames[2].chunks(7).flat_map(|part| relayed(&part.to_vec())).collect();
    seeds.extend([frames.concat(), relayed(&frames.concat()), split]);
    seeds.extend(frames);
    seeds
}
