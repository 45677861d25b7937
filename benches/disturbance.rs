//! Our own disturbance: a CPU-bound command under `native`, against the same command without
//! surtax.
//!
//! - **Measures** what a trial records as the command's wall time, from the agent's `Started` to
//!   its `Exited`, for a loop in awk of about 1 s.
//! - **Peer** fork, exec and wait of the same command by this program, timed with the same clock.
//!   It waits in a group like that of the trial's command: elsewhere it would have another share of
//!   the machine. It is there before the clock starts, as the agent is. A second line, for
//!   information, has the peer in the caller's group.
//! - **Bar** the ratio of medians of at least 30 alternating pairs, and its interval, within 0.99
//!   and 1.01. Pairs are added until the interval is narrower than that, up to 200.
//! - **Command** `cargo bench --bench disturbance -- --enforce`, as root, on a quiet machine.

mod busy;
mod figure;
mod opened_lab;
mod one_trial;
mod pairs;
mod ratio;

use busy::alone;
use figure::Sheet;
use opened_lab::OpenedLab;
use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::{self, Limits, Process, Program, Room};

/// Pairs that count, at least.
const PAIRS: u32 = 30;

/// The argument that makes this program the peer: it runs what follows once for each byte it reads.
const PEER: &str = "--peer";

/// Time that the command should take, in seconds.
const TARGET: f64 = 1.0;

/// Time limit of the peer.
const DEADLINE: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((PEER, command)) = words.split_first().map(|(first, rest)| (&**first, rest)) {
        serve(command);
        return ExitCode::SUCCESS;
    }
    let mut sheet = Sheet::open();
    let opened = OpenedLab::open();
    if let Err(why) = opened.at("native", |_, _, _| Ok(())) {
        println!("disturbance: SKIPPED: {why}");
        return sheet.close();
    }
    let script = busy::awk_script(TARGET);
    let command = ["awk", script.as_str()];
    let plan = one_trial::plan("native", &command);
    let mut number = 0;
    let mut trial = || {
        number += 1;
        Duration::from(one_trial::run(&plan, number, &opened).wall)
    };

    let room = opened.lab.room("plain").expect("a room opens");
    let mut peer = Peer::start(&command, &room);
    let name = "disturbance: native over fork+exec+wait, in a group alike";
    let bar = Some(0.99..=1.01);
    pairs::compare(&mut sheet, name, bar, PAIRS, &mut trial, || peer.run());
    let name = "disturbance: native over fork+exec+wait, in the caller's group";
    pairs::compare(&mut sheet, name, None, PAIRS, &mut trial, || alone(&command));

    peer.end();
    room.close().expect("the room closes");
    opened.close();
    sheet.close()
}

/// This program in a group of its own, where it runs the command whenever it is told to.
struct Peer {
    process: Process,
    orders: File,
    durations: File,
}

impl Peer {
    fn start(command: &[&str], room: &Room) -> Self {
        let exe = std::env::current_exe().expect("a program has a file");
        let mut argv = vec![exe.to_string_lossy().into_owned(), String::from(PEER)];
        argv.extend(command.iter().map(|word| String::from(*word)));
        let (stdin, orders) = lab::pipe().expect("a pipe opens");
        let (durations, stdout) = lab::pipe().expect("a pipe opens");
        let group = room.subgroup("command", &Limits::default()).expect("a group is made");
        let program = Program {
            argv,
            stdio: [Some(stdin), Some(stdout), None],
            group: Some(group),
            ..Program::default()
        };
        let process = room.spawn(program).expect("the peer starts");
        Self { process, orders: orders.into(), durations: durations.into() }
    }

    fn run(&mut self) -> Duration {
        self.orders.write_all(b"x").expect("the peer listens");
        let mut nanoseconds = [0; 8];
        self.durations.read_exact(&mut nanoseconds).expect("the peer answers");
        Duration::from_nanos(u64::from_le_bytes(nanoseconds))
    }

    fn end(mut self) {
        drop(self.orders);
        let status = self.process.wait(DEADLINE).expect("it can be waited for");
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

/// Acts as the peer: runs the command for each byte it reads, and writes how long it took, in
/// nanoseconds.
fn serve(command: &[String]) {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut order = [0];
    while std::io::stdin().read_exact(&mut order).is_ok() {
        let took = u64::try_from(alone(&command).as_nanos()).expect("a run ends within 500 years");
        let mut answers = std::io::stdout();
        answers.write_all(&took.to_le_bytes()).expect("somebody reads");
        answers.flush().expect("somebody reads");
    }
}
