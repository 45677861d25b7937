//! The network engines: both ends as processes of this machine, over its loopback.

use crate::machine::Machine;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// An engine by the words after `engine`.
fn start(line: &str) -> Child {
    let mut process = Command::new(env!("SURTAX_AGENT"));
    process.arg("engine").args(line.split_whitespace());
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for an engine, and returns its exit code and what it said: its answer, or why there is
/// none.
fn end(process: Child) -> (i32, String) {
    let output = process.wait_with_output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[track_caller]
fn answer(process: Child) -> Value {
    let (status, text) = end(process);
    assert_eq!(status, 0, "{text}");
    assert_eq!(text.matches('\n').count(), 1, "one line: {text}");
    serde_json::from_str(&text).unwrap()
}

/// A port that nobody listens at right now.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The answers of a client and its server.
#[track_caller]
fn both(client: &str) -> (Value, Value) {
    let at = format!("127.0.0.1:{}", port());
    let server = start(&format!("serve --listen {at} --for 10s"));
    (answer(start(&format!("{client} --connect {at}"))), answer(server))
}

/// A number of an answer.
#[track_caller]
fn number(answer: &Value, key: &str) -> f64 {
    answer[key].as_f64().unwrap_or_else(|| panic!("no `{key}` in {answer}"))
}

/// The sum of all bins.
fn recorded(answer: &Value) -> f64 {
    answer["histogram"].as_array().unwrap().iter().map(|bin| bin[1].as_f64().unwrap()).sum()
}

#[test]
fn every_transaction_is_recorded_and_both_ends_agree_on_their_number() {
    let machine = Machine::alone();
    for client in [
        "tcp_rr",
        "tcp_rr --request 3000 --response 100000 --nodelay off",
        "tcp_rr --sockets 3",
        "udp_rr",
        "udp_rr --sockets 3 --request 16 --response 8",
        "tcp_crr",
    ] {
        let (answer, server) = both(&format!("{client} --time 100ms --worst 3"));
        let count = number(&answer, "transactions");
        assert!(count >= 3.0, "{client}: {answer}");
        assert_eq!(recorded(&answer), count, "{client}");
        let lost = number(&answer, "lost_count");
        let served = number(&server, "served_count");
        assert!((count..=count + lost).contains(&served), "{client}: {answer} {server}");
        let worst = answer["worst_begin_and_latency_ns"].as_array().unwrap();
        assert_eq!((worst.len(), &worst[0][1]), (3, &answer["latency_max_ns"]), "{client}");
        assert!(number(&answer, "client_cpu_ns_per_transaction") > 0.0);
        assert!(number(&answer, "server_cpu_ns_per_transaction") > 0.0);
    }
    machine.assert_as_before();
}

#[test]
fn what_is_sent_by_a_stream_arrives_and_is_counted_where_it_is_received() {
    let machine = Machine::alone();
    for (client, is_one_count) in [
        ("tcp_stream", true),
        ("tcp_stream --sockets 3 --message 4096", true),
        ("tcp_stream --warm-up 50ms", false),
        ("tcp_maerts", false),
        ("tcp_maerts --sockets 2", false),
    ] {
        let (answer, server) = both(&format!("{client} --time 100ms"));
        assert!(number(&answer, "bytes") > 1e6, "{client}: {answer}");
        assert!(number(&answer, "bytes_per_s") > 1e6);
        if is_one_count {
            assert_eq!(number(&answer, "bytes"), number(&server, "served_bytes"), "{client}");
        }
    }
    for client in ["udp_stream", "udp_stream --gso on --message 100"] {
        let (answer, server) = both(&format!("{client} --time 100ms"));
        let (sent, received) = (number(&answer, "sent_count"), number(&answer, "received_count"));
        assert!(received > 100.0 && received <= sent, "{client}: {answer}");
        assert_eq!(received, number(&server, "served_count"));
    }
    machine.assert_as_before();
}

#[test]
fn a_schedule_is_kept_and_counts_from_the_time_at_which_it_was_due() {
    let machine = Machine::alone();
    for client in ["tcp_rr --sockets 2", "udp_rr --request 8 --response 8"] {
        let (answer, _) = both(&format!("{client} --rate 1000 --time 200ms"));
        assert_eq!(number(&answer, "due_count"), 200.0, "{answer}");
        let done = number(&answer, "transactions") + number(&answer, "lost_count");
        assert_eq!(done, number(&answer, "sent_count"), "{answer}");
        let missing = 200.0 - number(&answer, "transactions");
        assert_eq!(number(&answer, "rate_shortfall_ratio"), missing / 200.0);
    }
    let (answer, _) = both("tcp_rr --rate 100000000 --time 100ms");
    assert!(number(&answer, "rate_shortfall_ratio") > 0.5, "{answer}");
    assert!(
        number(&answer, "latency_max_ns") > 1e6,
        "what was due and not sent has waited: {answer}"
    );
    machine.assert_as_before();
}

#[test]
fn a_plain_echo_answers_several_clients_and_ends_with_the_last_of_them() {
    let machine = Machine::alone();
    let at = format!("127.0.0.1:{}", port());
    let server = start(&format!("serve --echo --listen {at} --for 10s"));
    let client =
        start(&format!("tcp_rr --echo --sockets 3 --request 100 --time 50ms --connect {at}"));
    let (client, server) = (answer(client), answer(server));
    assert_eq!(number(&server, "session_count"), 3.0);
    let count = number(&client, "transactions");
    let bytes = number(&server, "served_bytes");
    // What was on its way at the end was echoed too.
    assert!((100.0 * count..=100.0 * (count + 3.0)).contains(&bytes), "{client} {server}");
    let nobody = end(start(&format!("serve --echo --listen 127.0.0.1:{} --for 50ms", port())));
    assert_eq!(nobody, (3, String::from("surtax engine: no client of the echo came in 0.05 s\n")));
    machine.assert_as_before();
}

/// An echo that stands still for `pause` after the first `before` requests.
fn pausing_echo(before: usize, pause: Duration) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut buffer, mut count) = ([0; 4096], 0);
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if count <= before && count + length > before {
                thread::sleep(pause);
            }
            count += length;
            if stream.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    });
    (port, echo)
}

#[test]
fn a_server_that_stands_still_delays_all_that_was_due_meanwhile() {
    let machine = Machine::alone();
    let (port, echo) = pausing_echo(100, Duration::from_millis(200));
    let line = format!("tcp_rr --echo --connect 127.0.0.1:{port} --rate 1000 --time 600ms");
    let answer = answer(start(&line));
    echo.join().unwrap();
    // 200 of 600 were due while it stood still, and the first of them waited for all of that.
    assert_eq!(number(&answer, "due_count"), 600.0);
    assert!(number(&answer, "latency_max_ns") > 190e6, "{answer}");
    let p90 = number(&answer, "latency_p90_ns");
    assert!((100e6..190e6).contains(&p90), "a tenth of all waited 140 ms or more: {answer}");
    machine.assert_as_before();
}

#[test]
fn a_server_that_never_answers_is_an_error_in_time() {
    let machine = Machine::alone();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap();
    let options = "--time 50ms --patience 200ms";
    for (client, what) in [
        (format!("tcp_rr --echo --connect {at} {options}"), "the other side does not answer"),
        (format!("tcp_rr --connect {at} {options}"), "the other side says nothing in time"),
        (format!("tcp_crr --connect 127.0.0.1:{} {options}", port()), "nobody answers at "),
    ] {
        let began = monotonic_raw();
        let (status, said) = end(start(&client));
        assert!(
            status == 3 && said.starts_with(&format!("surtax engine: {what}")),
            "{client}: {said}"
        );
        assert!(monotonic_raw().since(began).seconds() < 5.0);
    }
    let nobody = end(start(&format!("serve --listen 127.0.0.1:{} --for 50ms", port())));
    assert_eq!(nobody, (3, String::from("surtax engine: no client came in 0.05 s\n")));
    machine.assert_as_before();
}

#[test]
fn ends_that_would_poll_on_one_cpu_are_refused_and_on_two_they_do() {
    let machine = Machine::alone();
    let at = format!("127.0.0.1:{}", port());
    let server = start(&format!("serve --listen {at} --for 10s"));
    let (status, said) = end(start(&format!("tcp_rr --poll on --time 50ms --connect {at}")));
    assert!(status == 2 && said.starts_with("surtax engine: both ends would poll"), "{said}");
    let server = end(server);
    assert_eq!(server, (3, String::from("surtax engine: the other side has hung up\n")));
    if thread::available_parallelism().unwrap().get() >= 2 {
        let (answer, _) = both("udp_rr --poll on --time 50ms --place 0/1");
        assert_eq!(answer["is_polling"], true);
        assert_eq!(answer["waiting"], "polling");
        assert_eq!(answer["placement"], "client on CPU 0, server on CPU 1");
        assert_eq!((&answer["client_cpus"], &answer["server_cpus"]), (&"0".into(), &"1".into()));
        assert_eq!(answer["is_one_kernel"], true);
    }
    machine.assert_as_before();
}

#[test]
fn both_ends_are_where_they_are_wanted_in_every_run() {
    let machine = Machine::alone();
    let count = thread::available_parallelism().unwrap().get();
    for (place, is_one) in [("apart", count < 2), ("together", true)] {
        let words = |_| {
            let (answer, _) = both(&format!("tcp_rr --time 20ms --place {place}"));
            let cpus = [&answer["client_cpus"], &answer["server_cpus"]]
                .map(|it| it.as_str().unwrap().to_owned());
            assert!(cpus.iter().all(|cpu| cpu.parse::<usize>().is_ok()), "{place}: {answer}");
            assert_eq!(cpus[0] == cpus[1], is_one, "{place}: {answer}");
            for (end, cpu) in ["client_cpu_last", "server_cpu_last"].into_iter().zip(&cpus) {
                assert_eq!(number(&answer, end).to_string(), *cpu, "{place}: {answer}");
            }
            answer["placement"].as_str().unwrap().to_owned()
        };
        let seen: Vec<String> = (0..3).map(words).collect();
        assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
    }
    machine.assert_as_before();
}
