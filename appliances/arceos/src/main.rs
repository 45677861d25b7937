//! A unikernel to measure: it answers over TCP, computes when told to, and is nothing else.
//!
//! Once it listens it says so on the serial console. Port 7 is an echo (RFC 862): what comes in
//! goes out again. Port 8007, and the console itself, take one command a line:
//!
//! | command | answers |
//! |---|---|
//! | `echo WORDS` | the words |
//! | `primes N` | how many primes are below N, by trial division |
//! | `true` | nothing |
//! | `exit N` | nothing, and ends with N |
//!
//! Behind the answer to each stands a line `surtax: exit N`, 0 if it was done.

#![no_std]
#![no_main]

#[macro_use]
extern crate axstd as std;

use std::io::{self, prelude::*};
use std::net::{TcpListener, TcpStream};
use std::string::{String, ToString};
use std::thread;
use std::time::Duration;
use std::vec::Vec;

/// The longest command, in bytes.
const LINE_LIMIT: usize = 4096;

/// Number of bytes that an echo reads at once.
const ECHO_BYTES: usize = 16 << 10;

#[no_mangle]
fn main() {
    let echo = TcpListener::bind("0.0.0.0:7").expect("port 7 is free");
    let commands = TcpListener::bind("0.0.0.0:8007").expect("port 8007 is free");
    thread::spawn(move || serve(&echo, echo_all));
    thread::spawn(move || serve(&commands, answer_all));
    println!("surtax: ready");
    answer_console()
}

/// A thread for each that connects.
fn serve(listener: &TcpListener, with: fn(TcpStream) -> io::Result<()>) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => drop(thread::spawn(move || with(stream))),
            Err(error) => println!("surtax: cannot accept: {error:?}"),
        }
    }
}

fn echo_all(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; ECHO_BYTES];
    loop {
        match stream.read(&mut buffer)? {
            0 => return stream.shutdown(),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    let mut lines = Lines::default();
    let mut buffer = [0; 512];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return stream.shutdown();
        }
        for line in lines.add(&buffer[..count]) {
            stream.write_all(answer(&line).as_bytes())?;
        }
    }
}

/// Whoever waits for the console asks again and again: ArceOS has no interrupt for it.
fn answer_console() {
    let mut lines = Lines::default();
    let mut buffer = [0; 512];
    loop {
        let count = std::io::stdin().lock().read(&mut buffer).unwrap_or(0);
        if count == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        for line in lines.add(&buffer[..count]) {
            print!("{}", answer(&line));
        }
    }
}

/// Bytes of a line that have come so far.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// The lines that these bytes complete. One that is too long is cut.
    fn add(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut whole = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' | b'\r' if !self.0.is_empty() => {
                    whole.push(String::from_utf8_lossy(&self.0).to_string());
                    self.0.clear();
                }
                b'\n' | b'\r' => {}
                _ if self.0.len() < LINE_LIMIT => self.0.push(byte),
                _ => {}
            }
        }
        whole
    }
}

/// The whole answer to a command, with how it ended.
fn answer(line: &str) -> String {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (text, status) = match words.as_slice() {
        ["echo", rest @ ..] => (rest.join(" ") + "\n", 0),
        ["primes", limit] => match limit.parse() {
            Ok(limit) => (format!("{}\n", primes_below(limit)), 0),
            Err(_) => (format!("{limit} is not a number\n"), 2),
        },
        ["true"] => (String::new(), 0),
        ["exit", status] => (String::new(), status.parse().unwrap_or(2)),
        _ => (format!("there is no command {line}\n"), 127),
    };
    format!("{text}surtax: exit {status}\n")
}

fn primes_below(limit: u64) -> usize {
    let is_prime = |number: &u64| {
        let mut divisors = (2..).take_while(|divisor| divisor * divisor <= *number);
        divisors.all(|divisor| number % divisor != 0)
    };
    (2..limit).filter(is_prime).count()
}
