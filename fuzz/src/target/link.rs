//! The host's end of a link: an inside that says whatever it likes, directly and through a relay.

use super::Target;
use super::wire::{of_reply, replies};
use std::io::Cursor;
use std::time::Duration;
use surtax::agent::{ConsoleTail, Link, Pulse, refused, unexpected};
use surtax_instrument::wire::{Command, Reply, Request};

pub const TARGET: Target =
    Target { name: "link", run, seeds, folders: &[], words: &["\0\0\0\0"], longest: 16 << 10 };

/// The whole of what is said is there from the beginning, so nobody waits for so long.
const DEADLINE: Duration = Duration::from_secs(20);

/// The most replies of one input.
const REPLIES: usize = 4096;

fn run(bytes: &[u8]) {
    let link = || {
        let said = Cursor::new(bytes.to_vec());
        Link::over("guest", said, std::io::sink(), &ConsoleTail::new())
    };
    drain(link());
    if let Ok(relayed) = link().relay("starter", Command::default()) {
        drain(relayed);
    }
    let mut pulsed = link();
    let mut pulse = Pulse::default();
    if pulsed.outlast(&mut pulse, DEADLINE).is_ok() {
        // Nothing was asked, so nothing is owed.
        assert!(pulse.settle(pulsed.listener.as_mut(), DEADLINE).is_ok());
    }
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
