//! `surtax serve`: the runs as pages for a browser.

use super::{Globals, answer, note, run_and_report};
use crate::fault::Fault;
use crate::serve::{PageServer, Settings};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of `surtax serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/serve.txt"))]
pub struct Arguments {
    /// Serves the run files of this directory instead.
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
    /// Address and port to listen at; port 0 is any that is free.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7878",
        value_parser = address
    )]
    pub listen: SocketAddr,
    /// Lets whoever has the address end a run, as Ctrl-C would.
    #[arg(long)]
    pub allow_stop: bool,
}

/// Reads where to listen. What is left out is never guessed: it decides who can reach the runs.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.trim_start_matches("localhost").trim_start_matches(':');
        match port.parse::<u16>() {
            Ok(port) => format!("it names no address; for this machine alone: `127.0.0.1:{port}`"),
            Err(_) => String::from(
                "it is no numeric address and port, as in `127.0.0.1:7878` or `[::1]:7878`",
            ),
        }
    })
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let directories = match &arguments.directory {
        Some(directory) if !directory.is_dir() => {
            return Err(Fault::user(format!("`{}` is no directory", directory.display())).hint(
                "name one that holds run files, or none for those that `surtax list` shows",
            ));
        }
        Some(directory) => vec![directory.clone()],
        None => run_and_report::shelf_directories(globals)?,
    };
    let settings =
        Settings { listen: arguments.listen, directories, may_stop: arguments.allow_stop };
    let server = PageServer::bind(&settings)?;
    if !arguments.listen.ip().is_loopback() {
        note(
            "what is sent is not encrypted: whoever sees it on its way learns the secret",
            globals,
        );
    }
    answer(&format!("{}\n", server.url()))?;
    if arguments.listen.ip().is_unspecified() {
        note(
            "in a browser, put an address of this machine in the place of the first part",
            globals,
        );
    }
    note("open that address in a browser; Ctrl-C ends the server", globals);
    server.run().map(|never| match never {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_answered_with_the_address_that_this_machine_alone_reaches() {
        assert_eq!(address("[::1]:0").unwrap().port(), 0);
        for port_alone in ["8080", ":8080", "localhost:8080"] {
            let why = address(port_alone).unwrap_err();
            assert!(why.ends_with("`127.0.0.1:8080`"), "{port_alone}: {why}");
        }
        assert!(address("127.0.0.1").unwrap_err().contains("as in `127.0.0.1:7878`"));
    }
}
