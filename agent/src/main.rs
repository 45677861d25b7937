//! The agent: the small static binary that surtax starts on the inside of every layer.
//!
//! In a container it is the entry process and speaks on its standard input and output
//! (`agent stdio`; `agent enclosed` makes namespaces first); in a virtual machine it is PID 1 of an
//! initramfs; on another machine it lives under a lease (`agent leased SECONDS`) and takes its own file
//! away. It starts, times and reaps the command, relays bytes to a starter of the next layer, and says
//! what it sees. It has no threads, no async runtime and no JSON.

mod channel;
mod enclosed;
mod identity;
mod init;
mod network;
mod relay;
mod program;
mod run;
mod serve;
mod stops;

use channel::Channel;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    if rustix::process::getpid().is_init() && std::path::Path::new(init::SCRIPT).exists() {
        init::main();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["stdio"] => serve_stdio(),
        ["leased", seconds] => serve_leased(seconds),
        ["enclosed", kinds] => enclosed::main(kinds),
        _ => {
            eprintln!("surtax agent: started by surtax as `agent stdio`, not by hand");
            ExitCode::from(2)
        }
    }
}

fn serve_stdio() -> ExitCode {
    serve(|requests, replies| Ok(Channel::new(requests, replies)))
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
    serve(|requests, replies| Channel::leased(requests, replies, limit))
}

/// Removes the file that we run from, and its directory if it is empty then: it was made for us.
fn remove_own_file() -> io::Result<()> {
    let file = std::env::current_exe()?;
    fs::remove_file(&file)?;
    file.parent().map_or(Ok(()), fs::remove_dir)
}

fn serve(channel: impl FnOnce(File, File) -> io::Result<Channel>) -> ExitCode {
    let (Ok(requests), Ok(replies)) = (
        std::io::stdin().as_fd().try_clone_to_owned(),
        std::io::stdout().as_fd().try_clone_to_owned(),
    ) else {
        return ExitCode::from(3);
    };
    let served = channel(File::from(requests), File::from(replies))
        .map_err(surtax_instrument::wire::WireError::Io)
        .and_then(|channel| {
            let mut session = serve::Session::new(channel);
            session.greet().and_then(|()| session.serve())
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("surtax agent: {error}");
            ExitCode::from(3)
        }
    }
}
