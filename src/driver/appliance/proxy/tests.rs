//! A conversation with both ends held by the test.

use super::*;
use crate::agent::Link;
use crate::driver::appliance::guest::InQemu;
use crate::vm::qmp::Qmp;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::Mutex;
use surtax_instrument::wire::Outcome;

/// QEMU as far as a conversation needs it: it greets, and answers every question with nothing. Told
/// to go on, it says something on this console and shuts its machine down.
fn qemu(mut console: Option<UnixStream>) -> Qmp {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let version = r#"{"major":7,"minor":2,"micro":22}"#;
        let greeting = format!("{{\"QMP\":{{\"version\":{{\"qemu\":{version}}}}}}}\n");
        theirs.write_all(greeting.as_bytes()).unwrap();
        let lines = BufReader::new(theirs.try_clone().unwrap()).lines();
        for (number, line) in lines.map_while(Result::ok).enumerate() {
            let mut answer = format!("{{\"return\":{{}},\"id\":{}}}\n", number + 1);
            let let_go = console.take_if(|_| line.contains("cont"));
            if let Some(console) = &let_go {
                (&mut &*console).write_all(b"Hello from a unikernel\n").unwrap();
                answer += "{\"event\":\"RESUME\"}\n{\"event\":\"SHUTDOWN\"}\n";
            }
            theirs.write_all(answer.as_bytes()).unwrap();
        }
    });
    Qmp::open(ours).unwrap()
}

/// A link to a proxy, and the appliance's end of the console.
fn link(runs: CommandPlace, over: Option<Carrier>, port: Option<u16>) -> (Link, UnixStream) {
    link_of(std::process::id(), runs, over, port)
}

/// A link to the proxy of a machine whose QEMU is this process.
fn link_of(
    pid: u32,
    runs: CommandPlace,
    over: Option<Carrier>,
    port: Option<u16>,
) -> (Link, UnixStream) {
    let (console, theirs) = UnixStream::pair().unwrap();
    let tail = ConsoleTail::new();
    let ended = (runs == CommandPlace::Inside).then(|| String::from("exit "));
    let talks = runs == CommandPlace::Boot;
    let qmp = qemu(talks.then(|| theirs.try_clone().unwrap()));
    let bell = qmp.bell().unwrap();
    let proxy = Proxy {
        talk: Talk { runs, over, port, ready: None, probe: None, ended },
        address: Ipv4Addr::LOCALHOST,
        guest: Box::new(InQemu { pid, tids: vec![pid], qmp: Arc::new(Mutex::new(qmp)), bell }),
        network: None,
        console,
        tail: tail.clone(),
        image: Vec::new(),
    };
    let ours = proxy.start().unwrap();
    let mut link = Link::over("appliance", ours.try_clone().unwrap(), ours, &tail).unwrap();
    assert!(matches!(link.receive(DEADLINE).unwrap().reply, Reply::Hello(_)));
    (link, theirs)
}

const DEADLINE: Duration = Duration::from_secs(10);

fn command(words: &[&str]) -> Command {
    let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    Command { argv, keep_bytes: 1024, ..Command::default() }
}

/// Has a command run; `answer` is the appliance's part.
fn run(link: &mut Link, command: &Command, answer: impl FnOnce()) -> Result<Outcome, Fault> {
    link.ask(&Request::Run(command.clone()), DEADLINE)?;
    link.send(&Request::Go)?;
    answer();
    let mut ended = link.receive(DEADLINE)?.reply;
    if matches!(ended, Reply::Ended { .. }) {
        ended = link.receive(DEADLINE)?.reply;
    }
    match ended {
        Reply::Exited(outcome) => Ok(*outcome),
        Reply::Failed(failure) => Err(crate::agent::refused(failure)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_over_the_console_is_a_command_and_the_text_before_its_end_the_output() {
    let (mut link, console) = link(CommandPlace::Inside, Some(Carrier::Console), None);
    let mut lines = BufReader::new(console.try_clone().unwrap()).lines();
    for status in [0, 3] {
        let outcome = run(&mut link, &command(&["primes", "10"]), || {
            assert_eq!(lines.next().unwrap().unwrap(), "primes 10");
            (&console).write_all(format!("4\r\nexit {status}\r\n").as_bytes()).unwrap();
        });
        let outcome = outcome.unwrap();
        assert_eq!(outcome.status, Status::Exit(status));
        assert_eq!(outcome.stdout.tail, b"4\n");
        assert!(outcome.wall > Nanoseconds(0));
    }
    assert_eq!(link.ask(&Request::Stop, DEADLINE).unwrap().reply, Reply::Stopped);
}

#[test]
fn every_command_over_tcp_has_a_connection_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (mut link, _console) = link(CommandPlace::Inside, Some(Carrier::Tcp), Some(port));
    for _ in 0..2 {
        let outcome = run(&mut link, &command(&["echo", "a"]), || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            stream.write_all(format!("{line}exit 0\n").as_bytes()).unwrap();
        });
        assert_eq!(outcome.unwrap().stdout.tail, b"echo a\n");
    }
    let hung_up = run(&mut link, &command(&["echo"]), || drop(listener.accept().unwrap()));
    let fault = hung_up.unwrap_err();
    assert!(fault.message.contains("closed the connection"), "{fault}");
}

#[test]
fn a_machine_that_is_booted_with_its_command_ends_with_it_and_takes_no_other() {
    let (mut link, _console) = link(CommandPlace::Boot, None, None);
    let outcome = run(&mut link, &command(&["hello"]), || {}).unwrap();
    assert_eq!(outcome.status, Status::Exit(0));
    assert_eq!(outcome.stdout.tail, b"Hello from a unikernel\n");
    let fault = run(&mut link, &command(&["hello"]), || {}).unwrap_err();
    assert!(fault.message.contains("one command in each start"), "{fault}");
}

#[test]
fn what_measures_along_is_answered_after_the_end_of_a_machine_and_of_its_console() {
    let (mut link, console) = link(CommandPlace::Boot, None, None);
    run(&mut link, &command(&["hello"]), || {}).unwrap();
    drop(console);
    for _ in 0..3 {
        let answer = link.ask(&Request::Clock, DEADLINE).unwrap().reply;
        assert!(matches!(answer, Reply::Clock { .. }), "{answer:?}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "stands for a QEMU that is gone, and is waited for")]
fn a_machine_that_took_its_counts_with_it_gives_no_number() {
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    // It has ended, and keeps its number until it is waited for.
    let ended = WaitId::Pid(rustix::process::Pid::from_child(&gone));
    waitid(ended, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let (mut link, _console) = link_of(gone.id(), CommandPlace::Boot, None, None);
    let fault = run(&mut link, &command(&["hello"]), || {}).unwrap_err();
    assert!(fault.message.contains("can no longer be read"), "{fault}");
    gone.wait().unwrap();
}

#[test]
fn a_command_that_takes_too_long_is_given_up_and_none_follows_it() {
    let (mut link, _console) = link(CommandPlace::Inside, Some(Carrier::Console), None);
    let slow = Command { deadline: Nanoseconds(20_000_000), ..command(&["primes", "1"]) };
    let outcome = run(&mut link, &slow, || {}).unwrap();
    assert_eq!(outcome.status, Status::Deadline);
    let fault = run(&mut link, &command(&["echo"]), || {}).unwrap_err();
    assert_eq!(fault.message, "the appliance takes one command in each start");
}

#[test]
fn a_command_can_be_cancelled_and_nothing_else_can_be_started() {
    let (mut link, _console) = link(CommandPlace::Inside, Some(Carrier::Console), None);
    let cancelled = link.ask(&Request::Run(command(&["primes", "1"])), DEADLINE);
    assert!(matches!(cancelled.unwrap().reply, Reply::Started { .. }));
    link.send(&Request::Go).unwrap();
    let ended = link.ask(&Request::Cancel, DEADLINE).unwrap().reply;
    assert!(matches!(ended, Reply::Ended { .. }), "{ended:?}");
    let Reply::Exited(outcome) = link.receive(DEADLINE).unwrap().reply else { panic!() };
    assert_eq!(outcome.status, Status::Cancelled);
    let fault = link.ask(&Request::Relay(command(&["sh"])), DEADLINE).unwrap_err();
    assert!(fault.message.contains("holds no agent"), "{fault}");
}

#[test]
fn words_that_would_be_others_inside_are_refused() {
    assert_eq!(words(&command(&["primes", "10"])).unwrap(), "primes 10");
    let no_text = Command { argv: vec![b"echo".to_vec(), b"caf\xe9".to_vec()], ..command(&[]) };
    let fault = words(&no_text).unwrap_err();
    assert_eq!(fault.message, r"appliance: `caf\xe9` is not one plain word");
    for word in ["", "two words", "a\nb", "'"] {
        let fault = words(&command(&["echo", word])).unwrap_err();
        assert!(fault.message.ends_with("is not one plain word"), "{fault}");
    }
}
