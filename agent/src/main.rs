//! The agent: the small static binary that surtax starts on the inside of every layer.
//!
//! In a container it is the entry process and speaks on its standard input and output
//! (`agent stdio`; `agent enclosed` makes namespaces first); in a virtual machine it is PID 1 of an
//! initramfs. It starts, times and reaps
//! the command, relays bytes to a starter of the next layer, and says what it sees. It has no
//! threads, no async runtime and no JSON.

mod enclosed;
mod identity;
mod init;
mod relay;
mod program;
mod run;
mod serve;
mod stops;

use std::fs::File;
use std::os::fd::AsFd;
use std::process::ExitCode;

fn main() -> ExitCode {
    if rustix::process::getpid().is_init() && std::path::Path::new(init::SCRIPT).exists() {
        init::main();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["stdio"] => serve_stdio(),
        ["enclosed", kinds] => enclosed::main(kinds),
        _ => {
            eprintln!("surtax agent: started by surtax as `agent stdio`, not by hand");
            ExitCode::from(2)
        }
    }
}

fn serve_stdio() -> ExitCode {
    let (Ok(requests), Ok(replies)) = (
        std::io::stdin().as_fd().try_clone_to_owned(),
        std::io::stdout().as_fd().try_clone_to_owned(),
    ) else {
        return ExitCode::from(3);
    };
    let mut session = serve::Session::new(File::from(requests), File::from(replies));
    match session.greet().and_then(|()| session.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("surtax agent: {error}");
            ExitCode::from(3)
        }
    }
}
