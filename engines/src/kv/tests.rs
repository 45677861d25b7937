//! The engine against a small server of the test's own, which can be wrong, slow, silent and full.

use crate::{Refused, answer_to};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Flaw of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    /// The last letter of each value is another one.
    OtherLetter,
    /// A letter of each value is missing.
    Shorter,
    /// It forgets every key that begins with these.
    Forgets,
    /// It stores nothing.
    Full,
    /// It answers to no request.
    Silent,
    /// It stands still for so long at its hundredth read.
    Stands(Duration),
    /// It is told to end, and does not.
    Stays,
    /// It has run for a day.
    Old,
}

type Stored = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// A server of memcached's text protocol; its address.
fn server(flaw: Flaw) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stored = Stored::default();
    let reads = Arc::new(Mutex::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (stored, reads) = (Arc::clone(&stored), Arc::clone(&reads));
            thread::spawn(move || serve(&stream, flaw, &stored, &reads));
        }
    });
    address
}

fn serve(mut stream: &TcpStream, flaw: Flaw, stored: &Stored, reads: &Mutex<u32>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer: Vec<u8> = match words.as_slice() {
            ["stats"] => {
                let uptime = if flaw == Flaw::Old { 86_400 } else { 0 };
                let items = stored.lock().unwrap_or_else(PoisonError::into_inner).len();
                format!(
                    "STAT version 9.9\r\nSTAT uptime {uptime}\r\nSTAT rusage_user 0.1\r\nSTAT \
                     rusage_system 0.2\r\nSTAT curr_items {items}\r\nSTAT evictions 0\r\nEND\r\n"
                )
                .into()
            }
            ["shutdown"] if flaw == Flaw::Stays => b"ERROR: shutdown not enabled\r\n".to_vec(),
            ["shutdown"] => return None,
            ["set", key, _, _, length] => {
                let mut value = vec![0; length.parse::<usize>().ok()? + 2];
                reader.read_exact(&mut value).ok()?;
                value.truncate(value.len() - 2);
                match flaw {
                    Flaw::Full => b"SERVER_ERROR out of memory storing object\r\n".to_vec(),
                    _ => {
                        let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
                        stored.insert((*key).to_owned(), value);
                        b"STORED\r\n".to_vec()
                    }
                }
            }
            ["get", key] => {
                let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
                *reads += 1;
                if let (Flaw::Stands(time), 100) = (flaw, *reads) {
                    thread::sleep(time);
                }
                drop(reads);
                let value = stored.lock().unwrap_or_else(PoisonError::into_inner);
                answer(key, value.get(*key).cloned(), flaw)?
            }
            _ => b"ERROR\r\n".to_vec(),
        };
        stream.write_all(&answer).ok()?;
    }
}

fn answer(key: &str, value: Option<Vec<u8>>, flaw: Flaw) -> Option<Vec<u8>> {
    let mut value = match value {
        Some(value) if flaw != Flaw::Forgets || !key.ends_with('7') => value,
        _ => return Some(b"END\r\n".to_vec()),
    };
    match flaw {
        Flaw::OtherLetter => *value.last_mut()? ^= 1,
        Flaw::Shorter => drop(value.pop()),
        Flaw::Silent => thread::sleep(Duration::from_secs(60)),
        _ => {}
    }
    let head = format!("VALUE {key} 0 {}\r\n", value.len());
    Some([head.as_bytes(), &value, b"\r\nEND\r\n"].concat())
}

fn asked(address: &str, more: &str) -> Result<String, Refused> {
    answer_to(&format!("kv --connect {address} --value-size 20 --keys 100 {more}"))
}

/// A whole number of an answer.
fn number(answer: &str, key: &str) -> u64 {
    let (_, rest) = answer.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{answer}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{key}: {answer}"))
}

#[test]
fn every_value_that_is_read_is_the_one_that_was_written() {
    let address = server(Flaw::None);
    for (more, connections) in [
        ("--time 100ms", 1),
        ("--time 100ms --connections 3 --depth 4 --no-load", 3),
        ("--time 100ms --connections 3 --threads 2 --no-load", 3),
        ("--time 100ms --connections 2 --rate 500 --no-load --gaps etc --warm-up 10ms", 2),
    ] {
        let answer = asked(&address, &format!("--ratio 1:3 {more}")).unwrap();
        let count = |key| number(&answer, key);
        assert_eq!(count("connection_count"), connections);
        assert!(count("transactions") >= 10, "{answer}");
        assert_eq!(count("hit_count"), count("read_count"), "{answer}");
        assert_eq!(count("transactions"), count("read_count") + count("update_count"));
        for none in ["miss_count", "wrong_count", "refused_count", "lost_count"] {
            assert_eq!(count(none), 0, "{none}: {answer}");
        }
        assert!(count("update_count") > 0 && count("update_count") < count("read_count"));
    }
}

#[test]
fn what_a_server_does_wrong_is_counted() {
    for (flaw, key) in [
        (Flaw::OtherLetter, "wrong_count"),
        (Flaw::Shorter, "wrong_count"),
        (Flaw::Forgets, "miss_count"),
    ] {
        // With several on their way nothing waits for answers that are shorter than expected.
        for more in ["", "--connections 3 --depth 4", "--connections 2 --depth 4 --poll on"] {
            let answer = asked(&server(flaw), &format!("--time 150ms --ratio 0:1 {more}")).unwrap();
            let (wrong, reads) = (number(&answer, key), number(&answer, "read_count"));
            let is_every = flaw != Flaw::Forgets;
            assert!(wrong > 0 && (wrong == reads) == is_every, "{flaw:?} {more}: {answer}");
        }
    }
}

#[test]
fn a_server_that_stands_still_delays_all_that_was_due_meanwhile() {
    let stop = Duration::from_millis(200);
    let rate = "--rate 1500 --gaps even --time 1s --ratio 0:1 --connections 2";
    let answer = asked(&server(Flaw::Stands(stop)), rate).unwrap();
    assert_eq!(number(&answer, "due_count"), 1500);
    // On a busy machine this side may wake up too late for the last ones. Of those that it sends a
    // thousand are enough for a p99.
    assert!(number(&answer, "sent_count") >= 1350, "{answer}");
    // 300 of 1500 wait up to 200 ms: half of them at least 100 ms, and the longest tenth 180 ms.
    // How much longer is the machine's; who leaves out what was due meanwhile tells a thousandth of
    // that.
    let (p90, p99) = (number(&answer, "latency_p90_ns"), number(&answer, "latency_p99_ns"));
    assert!(p90 >= 90_000_000, "{p90}: {answer}");
    assert!((180_000_000..1_000_000_000).contains(&p99), "{p99}: {answer}");
}

#[test]
fn a_rate_that_cannot_be_reached_is_a_shortfall() {
    let answer = asked(&server(Flaw::None), "--rate 20000000 --time 100ms --worst 3").unwrap();
    assert!(number(&answer, "due_count") > 1_900_000, "{answer}");
    assert!(answer.contains("\"rate_shortfall_ratio\":0.9"), "{answer}");
}

#[test]
fn a_search_tells_a_rate_and_all_that_it_tried() {
    let address = server(Flaw::None);
    let found = asked(&address, "--search 100ms --quantile p50 --time 150ms").unwrap();
    let (rate, peak) = (number(&found, "rate_found_per_s"), number(&found, "rate_peak_per_s"));
    assert!(rate > 0 && rate <= peak, "{found}");
    assert!(number(&found, "latency_p50_ns") <= 100_000_000, "{found}");
    let refused = asked(&address, "--search 1ns --quantile p50 --time 40ms").unwrap_err();
    assert!(refused.what.contains("keeps the p50 of its latency below 1 ns"), "{refused}");
}

#[test]
fn a_server_that_cannot_be_measured_is_told_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf = listener.local_addr().unwrap().to_string();
    for (address, more, what) in [
        (deaf, "", "takes connections and has not answered for 0.3 s"),
        (String::from("127.0.0.1:1"), "", "no key-value server listens at 127.0.0.1:1"),
        (server(Flaw::Silent), "", "the server has not answered for 0.3 s"),
        (server(Flaw::Silent), "--connections 2", "the server has not answered for 0.3 s"),
        (server(Flaw::Silent), "--rate 100", "the server has not answered for 0.3 s"),
        (server(Flaw::Full), "", "the server does not store 100 of 100 keys: `SERVER_ERROR out"),
        (server(Flaw::None), "--protocol redis", "is no server of redis: `ERROR`"),
        (server(Flaw::Stays), "--own-server", "does not end when it is told to: `ERROR: shutdown"),
    ] {
        let refused = asked(&address, &format!("--time 100ms --patience 300ms {more}"));
        let refused = refused.unwrap_err();
        assert!(!refused.is_users && refused.what.contains(what), "{what}: {refused}");
        assert!(!refused.hint.is_empty(), "{refused}");
    }
}

#[test]
fn a_server_that_holds_something_is_nobodys_own() {
    let address = server(Flaw::None);
    asked(&address, "--time 20ms --own-server").unwrap();
    let refused = asked(&address, "--time 20ms --own-server").unwrap_err();
    assert!(refused.is_users && refused.what.contains("holds 100 keys already"), "{refused}");
    let refused = asked(&server(Flaw::Old), "--time 20ms --own-server").unwrap_err();
    assert!(refused.is_users && refused.what.contains("has run for 86400 s"), "{refused}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    for (line, what) in [
        ("kv", "nobody says where the other side is"),
        ("kv --connect 127.0.0.1:1 --protocol http", "`--protocol http` is none of memcached"),
        ("kv --connect 127.0.0.1:1 --ratio 0:0", "`--ratio 0:0` is no ratio"),
        ("kv --connect 127.0.0.1:1 --ratio 1", "`--ratio 1` is no ratio"),
        ("kv --connect 127.0.0.1:1 --threads 2", "2 threads cannot share 1 connections"),
        ("kv --connect 127.0.0.1:1 --gaps even", "there are no gaps without a schedule"),
        ("kv --connect 127.0.0.1:1 --quantile p99", "there is no limit for the quantile"),
        ("kv --connect 127.0.0.1:1 --search 1ms --quantile p98", "`--quantile p98` is none"),
        ("kv --connect 127.0.0.1:1 --search 1ms --rate 5", "a rate cannot be both"),
        ("kv --connect 127.0.0.1:1 --no-load --own-server", "a server that is there for this"),
        ("kv --connect 127.0.0.1:1 --key-size 251", "`--key-size 251` is no whole number"),
        ("kv --connect 127.0.0.1:1 --connections 2 --threads 2 --cpu 0", "several threads would"),
        ("kv --connect 127.0.0.1:1 --cpu 65000", "CPU 65000 is not to be had"),
    ] {
        let refused = answer_to(line).unwrap_err();
        assert!(refused.is_users && refused.what.contains(what), "{line}: {refused}");
    }
}
