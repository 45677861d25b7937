//! The agent: the small static binary that surtax starts on the inside of every layer.
//!
//! In a container it is the entry process and speaks on its standard input and output
//! (`agent stdio`; `agent enclosed` makes namespaces first); below an init it is a service and
//! calls the host (`agent dial SOCKET`), or waits for what its machine was given (`agent system`);
//! in a virtual machine it is PID 1 of an initramfs; on another machine it lives under a lease
//! (`agent leased SECONDS`) and takes its own file away. It starts, times and reaps the command,
//! relays bytes to a starter of the next layer, and says what it sees. Started as
//! `agent engine NAME`, it measures. It has no threads but those that an engine asks for, no async
//! runtime and no JSON.

mod channel;
mod disk;
mod enclosed;
mod engine;
mod guard;
mod hvc;
mod identity;
mod init;
mod network;
mod relay;
mod program;
mod run;
mod serve;
mod started;
mod stops;
mod stream;
mod system;
mod concurrency;
mod victim;
mod vsock;
mod watching;

use channel::Channel;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;
use surtax_instrument::wire::{Failure, WireError};

fn main() -> ExitCode {
    // Where it is ignored, nobody is told how a child ended.
    // SAFETY: no handler is named, and no other thread is there yet.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    if rustix::process::getpid().is_init() && std::path::Path::new(init::SCRIPT).exists() {
        init::main();
    }
    let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((_, words)) = typed.split_first().filter(|(word, _)| *word == concurrency::GATE) {
        return concurrency::gate(words);
    }
    let text = |word: OsString| word.to_string_lossy().into_owned();
    let arguments: Vec<String> = typed.into_iter().map(text).collect();
    if let Some(("engine", words)) =
        arguments.split_first().map(|(word, rest)| (word.as_str(), rest))
    {
        return engine::main(words);
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["addressed", link, address, gateway, rest @ ..] => {
            if let Err(error) = network::take_address(link, address, gateway) {
                eprintln!("surtax agent: the link `{link}` gets no address `{address}`: {error}");
                return ExitCode::from(3);
            }
            start(rest)
        }
        words => start(words),
    }
}

fn start(words: &[&str]) -> ExitCode {
    match words {
        ["stdio"] => serve_stdio(Ok(())),
        ["dial", socket] => serve_over(socket),
        ["leased", seconds] => serve_leased(seconds),
        ["enclosed", kinds] => enclosed::main(kinds),
        ["system", given @ ..] => system::main(given),
        _ => {
            eprintln!("surtax agent: started by surtax as `agent stdio`, not by hand");
            ExitCode::from(2)
        }
    }
}

/// Serves the host over a socket where it listens; the end of that connection is ours.
fn serve_over(socket: &str) -> ExitCode {
    match UnixStream::connect(socket).map(OwnedFd::from) {
        Ok(stream) => {
            let copy = stream.try_clone().map(File::from);
            serve(copy.map(|copy| Channel::new(copy, File::from(stream))), Ok(()))
        }
        Err(error) => {
            eprintln!("surtax agent: nobody listens at `{socket}`: {error}");
            ExitCode::from(3)
        }
    }
}

/// Serves the host over standard input and output, after what had to be done before.
fn serve_stdio(prepared: Result<(), Failure>) -> ExitCode {
    serve(guard::take_stdio().map(|(requests, replies)| Channel::new(requests, replies)), prepared)
}

/// Serves a host on another machine. From its first frame on nothing of us is left in files here.
fn serve_leased(seconds: &str) -> ExitCode {
    let Ok(limit) = seconds.parse().map(Duration::from_secs) else {
        eprintln!("surtax agent: `{seconds}` is not a number of seconds");
        return ExitCode::from(2);
    };
    if let Err(error) = remove_own_file() {
        eprintln!("surtax agent: its own file stays behind: {error}");
    }
    let stdio = guard::take_stdio();
    serve(stdio.and_then(|(requests, replies)| Channel::leased(requests, replies, limit)), Ok(()))
}

/// Removes the file that we run from, and its directory if it is empty then: it was made for us.
fn remove_own_file() -> io::Result<()> {
    let file = std::env::current_exe()?;
    fs::remove_file(&file)?;
    file.parent().map_or(Ok(()), fs::remove_dir)
}

/// Serves after what had to be done before; where that failed, the first request is told.
fn serve(channel: io::Result<Channel>, prepared: Result<(), Failure>) -> ExitCode {
    let served = channel.map_err(WireError::Io).and_then(|channel| {
        let mut session = serve::Session::new(channel);
        session.greet()?;
        session.look_around();
        if let Err(failure) = &prepared {
            session.refuse(failure)?;
        }
        session.serve()
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("surtax agent: {error}");
            ExitCode::from(3)
        }
    }
}
