//! Our own disturbance: a CPU-bound command under `native`, against the same command without surtax.
//!
//! - **Measures** what a trial records as the command's wall time, from the agent's `Started` to its
//!   `Exited`, for a loop in awk of about 1 s.
//! - **Peer** fork, exec and wait of the same command by this process, timed with the same clock. The
//!   child is put into a group like that of the trial's command: elsewhere it would have another
//!   share of the machine. A second line, for information, leaves it in the caller's own group.
//! - **Bar** the ratio of medians of 30 alternating pairs and its interval within 0.99 and 1.01.
//! - **Command** `cargo bench --bench disturbance -- --enforce`, as root, on a quiet machine.

mod figure;
mod footing;
mod one_trial;
mod pairs;

use figure::Sheet;
use footing::Footing;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use surtax::lab::{Program, Room};
use surtax::stack::Limits;
use surtax_instrument::clock;

/// Pairs that count.
const PAIRS: u32 = 30;

/// How long the command should take, in seconds.
const TARGET: f64 = 1.0;

/// Rounds of the loop for the first guess.
const FIRST_ROUNDS: u32 = 2_000_000;

/// How long the peer may take.
const DEADLINE: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let footing = Footing::open();
    if let Err(why) = footing.at("native", |_, _, _| Ok(())) {
        println!("disturbance: SKIPPED: {why}");
        return sheet.close();
    }
    let script = calibrated();
    let command = ["awk", script.as_str()];
    let plan = one_trial::plan("native", &command);
    let mut number = 0;
    let mut trial = || {
        number += 1;
        Duration::from(one_trial::run(&plan, number, &footing).wall)
    };

    let room = footing.lab.room("plain").expect("a room opens");
    let group = room.subgroup("command", &Limits::default()).expect("a group is made");
    let name = "disturbance: native over fork+exec+wait, in a group alike";
    let bar = Some(0.99..=1.01);
    pairs::compare(&mut sheet, name, bar, PAIRS, &mut trial, || in_group(&command, &room, &group));
    let name = "disturbance: native over fork+exec+wait, in the caller's group";
    pairs::compare(&mut sheet, name, None, PAIRS / 3, &mut trial, || in_no_group(&command));

    room.close().expect("the room closes");
    footing.close();
    sheet.close()
}

/// The peer, in a group of its own.
fn in_group(command: &[&str], room: &Room, group: &std::path::Path) -> Duration {
    let program = Program {
        argv: command.iter().map(|word| String::from(*word)).collect(),
        group: Some(PathBuf::from(group)),
        ..Program::default()
    };
    let began = clock::monotonic_raw();
    let mut process = room.spawn(program).expect("the command starts");
    let status = process.wait(DEADLINE).expect("it can be waited for");
    let wall = clock::monotonic_raw().since(began).into();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    wall
}

/// The peer, in the group of this process.
fn in_no_group(command: &[&str]) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "nothing of surtax is between the two stamps")]
    let mut child = Command::new(command[0]);
    child.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    let began = clock::monotonic_raw();
    let status = child.status().expect("the command starts");
    let wall = clock::monotonic_raw().since(began).into();
    assert!(status.success(), "{status}");
    wall
}

/// The script that keeps awk busy for about [`TARGET`].
fn calibrated() -> String {
    let mut rounds = FIRST_ROUNDS;
    for _ in 0..3 {
        let took = in_no_group(&["awk", &script(rounds)]).as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float beyond the type's range becomes its end"
        )]
        let next = (f64::from(rounds) * TARGET / took) as u32;
        rounds = next.max(1);
    }
    script(rounds)
}

fn script(rounds: u32) -> String {
    format!("BEGIN {{ for (i = 0; i < {rounds}; i++) sum += i % 7; print sum }}")
}
