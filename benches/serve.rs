//! `surtax serve` under 200 clients at once.
//!
//! - **Measures** from the connection to the last byte of a page, of 200 clients of a closed loop,
//!   each over a new connection: the list of twenty runs, and a report. The runs are of simulated
//!   stacks. A client waits half a second between two pages, so that 200 of them ask 400 times a
//!   second at most, which is more than people do.
//! - **Peer** none: the bar is absolute.
//! - **Bar** 50 ms, the 99th percentile. `--count` is the number of pages of each client.
//! - **Command** `cargo bench --bench serve -- --enforce`.

mod figure;

use figure::{Figure, Sheet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;
use surtax_instrument::clock;

/// Clients at one time.
const CLIENTS: u32 = 200;

/// Pages that each client asks for.
const PAGES: u32 = 20;

/// Runs that are kept.
const RUNS: u32 = 20;

/// Between two pages of a client.
const THINK: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let pages = sheet.count(PAGES);
    let shelf = tempfile::tempdir_in("/dev/shm").expect("there is memory to write to");
    (0..RUNS).for_each(|run| measure(shelf.path(), run));
    let (mut server, url) = serve(shelf.path());
    let (address, secret) = url.split_once('/').expect("an address and a secret");
    let address: SocketAddr = address.parse().expect("an address");
    for (what, path) in [("list", format!("/{secret}/")), ("report", format!("/{secret}/runs/0/"))]
    {
        let mut times = all_clients(address, &path, pages);
        times.sort_by(f64::total_cmp);
        let last = times.len() - 1;
        for (name, share, bar) in [("median", 50, None), ("99th percentile", 99, Some(0.0..=50.0))]
        {
            let value = times[last * share / 100];
            let count = u32::try_from(times.len()).expect("few pages");
            let name = format!("{what} of 200 clients: {name}");
            sheet.put(&Figure { name: &name, value, interval: None, unit: "ms", bar, count });
        }
    }
    server.kill().expect("it is ours");
    server.wait().expect("it is ours");
    sheet.close()
}

/// Keeps a run of simulated stacks.
#[expect(clippy::disallowed_methods, reason = "the binary is under test")]
fn measure(shelf: &Path, run: u32) {
    let file = shelf.join(format!("{run}.surtax"));
    let stacks = "simulated:seed=1,simulated:cost=1.5,seed=2";
    let mut command = Command::new(env!("CARGO_BIN_EXE_surtax"));
    command
        .args(["compare", "--in", stacks, "--baseline", "simulated:seed=1", "--runs", "20", "-o"]);
    let output = command.arg(file).args(["--", "true"]).output().expect("surtax starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts the server, and reads where it is.
#[expect(clippy::disallowed_methods, reason = "the binary is under test")]
fn serve(shelf: &Path) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surtax"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg(shelf);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("surtax starts");
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it says where it is");
    let url = line.trim().strip_prefix("http://").expect("an address").trim_end_matches('/');
    (child, url.to_owned())
}

/// Times of all pages of all clients, in milliseconds.
fn all_clients(address: SocketAddr, path: &str, pages: u32) -> Vec<f64> {
    // What is measured is a server that has read its runs.
    page(address, path);
    let client = |number: u32| {
        // They do not ask all at once, as people do not.
        thread::sleep(THINK * number / CLIENTS);
        let one = |_| {
            let began = clock::monotonic_raw();
            page(address, path);
            let took = Duration::from(clock::monotonic_raw().since(began));
            thread::sleep(THINK.saturating_sub(took));
            took.as_secs_f64() * 1e3
        };
        (0..pages).map(one).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|it| it.join().expect("a client ends")).collect()
    })
}

/// Asks for a page, which must come whole.
fn page(address: SocketAddr, path: &str) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"</html>\n"));
}
