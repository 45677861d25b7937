//! The agent: how large it is, how soon it is ready, how much memory it holds.
//!
//! - **Measures** the size of the static agent that surtax carries; the time from spawning
//!   `agent stdio` to its first frame, by this host's clock; its resident memory (`VmRSS`) while it
//!   waits, after it has said what it sees and run one command.
//! - **Peer** none: these are absolute.
//! - **Bar** 3 MB; p50 of 200 starts 5 ms; 4 MiB.
//! - **Command** `cargo bench --bench agent -- --enforce`, as root.

mod figure;

use figure::{Figure, Sheet};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;
use surtax::lab::Lab;
use surtax_instrument::clock;
use surtax_instrument::wire::{
    self, Opener, Reply, Request, Sealer, Status, hosts, read_reply, write_request,
};
use surtax_statistics::{Sample, quantile};

/// Starts that count.
const STARTS: u32 = 200;

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab opens");
    let agent = lab.agent().expect("the agent is written");

    let size = std::fs::metadata(&agent).expect("the agent is there").len();
    sheet.put(&Figure {
        name: "agent: size",
        value: f64::from(u32::try_from(size).expect("smaller than 4 GiB")) / 1e6,
        interval: None,
        unit: "MB",
        bar: Some(0.0..=3.0),
        count: 1,
    });

    let count = sheet.count(STARTS);
    Started::of(&agent);
    let (mut ready_ms, mut idle_mib) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut started = Started::of(&agent);
        ready_ms.push(started.ready.as_secs_f64() * 1e3);
        started.work();
        idle_mib.push(started.resident_mib());
    }
    put(&mut sheet, "agent: start to ready, p50 [p5, p95]", "ms", 5.0, &ready_ms);
    put(&mut sheet, "agent: resident while idle, p50 [p5, p95]", "MiB", 4.0, &idle_mib);
    lab.close().expect("the lab closes");
    sheet.close()
}

fn put(sheet: &mut Sheet, name: &str, unit: &'static str, bar: f64, values: &[f64]) {
    let sample = Sample::new(values).expect("every value is positive");
    let interval = Some((quantile(&sample, 0.05), quantile(&sample, 0.95)));
    let count = u32::try_from(values.len()).expect("a few hundred");
    let value = quantile(&sample, 0.5);
    sheet.put(&Figure { name, value, interval, unit, bar: Some(0.0..=bar), count });
}

/// An agent that has said hello. Dropped, its channel ends, and it leaves.
struct Started {
    child: Child,
    requests: Option<ChildStdin>,
    replies: ChildStdout,
    session: (Sealer, Opener),
    ready: Duration,
}

impl Started {
    fn of(agent: &Path) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "nothing of surtax is between the two stamps"
        )]
        let mut command = Command::new(agent);
        command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
        let began = clock::monotonic_raw();
        let mut child = command.spawn().expect("the agent starts");
        let requests = child.stdin.take();
        let mut replies = child.stdout.take().expect("its output is a pipe");
        let mut session = hosts().expect("a key is drawn");
        let first = read_reply(&mut replies, &mut session.1).expect("the agent says something");
        let ready = clock::monotonic_raw().since(began).into();
        assert!(matches!(first, Reply::Hello(_)), "{first:?}");
        Self { child, requests, replies, session, ready }
    }

    /// Lets it do what it does in a trial.
    fn work(&mut self) {
        let answer = self.ask(&Request::Identify);
        assert!(matches!(answer, Reply::Identity(_)), "{answer:?}");
        let command = wire::Command {
            argv: vec![b"true".to_vec()],
            instances: Vec::new(),
            env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
            cwd: b"/".to_vec(),
            keep_bytes: 16 << 10,
            deadline: Duration::from_secs(60).into(),
            terminal: false,
            counts_calls: false,
            watching: None,
        };
        let answer = self.ask(&Request::Run(command));
        assert!(matches!(answer, Reply::Started { .. }), "{answer:?}");
        let ended = self.ask(&Request::Go);
        assert!(matches!(ended, Reply::Ended { .. }), "{ended:?}");
        let exited = self.answer();
        let Reply::Exited(outcome) = exited else { panic!("{exited:?}") };
        assert_eq!(outcome.status, Status::Exit(0));
    }

    fn ask(&mut self, request: &Request) -> Reply {
        let requests = self.requests.as_mut().expect("its input is a pipe");
        write_request(requests, &mut self.session.0, request).expect("the agent listens");
        self.answer()
    }

    fn answer(&mut self) -> Reply {
        read_reply(&mut self.replies, &mut self.session.1).expect("the agent answers")
    }

    fn resident_mib(&self) -> f64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the agent lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u32>().ok());
        f64::from(kib.expect("the kernel says how much")) / 1024.0
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}
