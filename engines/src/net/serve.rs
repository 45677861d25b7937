//! The server's end: answers one client after another, each with what that one has made a deal for.

use super::alarm::Alarm;
use super::client_options::{Handshake, refused_address};
use super::offload;
use super::place::{EndPlace, current_cpu};
use super::session::{Served, greet, hear, limited, say};
use super::wire::{Lost, Patience, wait, watched};
use super::{Kind, crr, echo, flow, rr, stream, udp_stream};
use crate::{Answer, Engine, Options, Refused, option};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use surtax_instrument::clock;

/// The other end of every other engine of this folder.
pub(crate) const ENGINE: Engine = Engine {
    name: "serve",
    about: "the other end of every network engine: answers one after another, and says what that \
            took",
    options: &[
        option("listen", "ADDRESS:PORT", "where; 0.0.0.0:5201"),
        option("for", "TIME", "how long to wait for a client; 60s"),
        option("sessions", "N", "how many clients to answer before it ends; 1"),
        option("echo", "", "be a plain echo (RFC 862) until the last client has hung up"),
    ],
    run,
};

/// Address that it listens on unless told otherwise.
const USUAL: &str = "0.0.0.0:5201";

/// Time that a client may take to say what it wants.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// Serves, and says how many and what that took.
///
/// # Errors
/// Nobody comes in time, or the last client was none of ours or broke off.
pub(super) fn run(options: &Options) -> Result<Answer, Refused> {
    let text = options.text("listen").unwrap_or(USUAL);
    let address: SocketAddr = text.parse().map_err(|_| refused_address(text))?;
    let limit = options.duration("for", Duration::from_secs(60))?;
    let sessions = options.number("sessions", 1, 1..=u64::MAX)?;
    let listener = TcpListener::bind(address).map_err(|error| {
        Refused::machine(format!("cannot listen at {address}: {error}"))
            .hint("let another port be listened at (`--listen`), or end who does at this one")
    })?;
    if options.has("echo") {
        return echo::run(&listener, limit);
    }
    let cpus = sched_getaffinity(None);
    let mut total = Served::default();
    for _ in 0..sessions {
        let control = next(&listener, limit)?;
        // Where nobody else is served, one port is enough, and whoever reaches it reaches all.
        let data = (sessions == 1).then_some(&listener);
        let served = session(control, data)?;
        total.count += served.count;
        total.bytes += served.bytes;
        total.cpu_ns += served.cpu_ns;
        if let Ok(cpus) = &cpus {
            let _ = sched_setaffinity(None, cpus);
        }
    }
    let mut answer = Answer::of("serve");
    answer.whole("session_count", sessions);
    answer.whole("served_count", total.count);
    answer.whole("served_bytes", total.bytes);
    answer.whole("server_cpu_ns", total.cpu_ns);
    Ok(answer)
}

/// The next client.
fn next(listener: &TcpListener, limit: Duration) -> Result<TcpStream, Refused> {
    wait(&mut [watched(listener.as_raw_fd(), libc::POLLIN)], Some(limit));
    let set = listener.set_nonblocking(true);
    let accepted = set.and_then(|()| listener.accept());
    let (control, _) = accepted.map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            Refused::machine(format!("no client came in {} s", limit.as_secs_f64()))
        }
        _ => Refused::machine(format!("cannot accept a client: {error}")),
    })?;
    control
        .set_nonblocking(false)
        .map_err(|error| Refused::machine(format!("cannot wait for a client: {error}")))?;
    limited(control, GREETING_LIMIT)
}

/// One client, from its greeting to its end; its data comes to that listener over TCP, or to a port
/// of its own.
fn session(mut control: TcpStream, data: Option<&TcpListener>) -> Result<Served, Refused> {
    let (handshake, client) = greet(&mut control)?;
    let (place, port, data) = match prepared(&control, data, &handshake, &client) {
        Ok(ready) => ready,
        Err(refused) => {
            say(&mut control, &format!("refused {}", refused.what.escape_debug()))?;
            return Err(refused);
        }
    };
    let EndPlace { cpus, kernel, idle, offloads } = place;
    say(&mut control, &format!("data {port} {cpus} {kernel} {idle} {offloads}"))?;
    let mut served = Served::default();
    let alarm = Alarm::start();
    let until = rr::unlimited();
    let patience =
        Patience { until, control: Some(control.as_raw_fd()), is_polling: handshake.is_polling };
    match work(&data, patience, &handshake, &mut served) {
        Ok(()) | Err(Lost::Closed) => {}
        Err(lost) => return Err(lost.refused()),
    }
    served.cpu = current_cpu();
    drop(alarm);
    match hear(&mut control)?.as_str() {
        "end" => say(&mut control, &served.line())?,
        _ => return Err(Refused::machine("the client says something else than that it has ended")),
    }
    Ok(served)
}

/// Socket at which the data of a session comes in.
enum Data {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

fn prepared(
    control: &TcpStream,
    data: Option<&TcpListener>,
    handshake: &Handshake,
    client: &EndPlace,
) -> Result<(EndPlace, u16, Data), Refused> {
    let place = EndPlace::here();
    let cpu = handshake.cpu_request.of_server(client, &place)?;
    let mut place = place.moved_to(cpu)?;
    let cannot = |error| Refused::machine(format!("cannot open a socket for data: {error}"));
    let here = SocketAddr::new(control.local_addr().map_err(cannot)?.ip(), 0);
    place.offloads = offload::of(here.ip());
    if handshake.kind.is_udp() {
        let udp = UdpSocket::bind(here).map_err(cannot)?;
        return Ok((place, udp.local_addr().map_err(cannot)?.port(), Data::Udp(udp)));
    }
    let tcp = data.map_or_else(|| TcpListener::bind(here), TcpListener::try_clone);
    let tcp = tcp.map_err(cannot)?;
    tcp.set_nonblocking(false).map_err(cannot)?;
    Ok((place, tcp.local_addr().map_err(cannot)?.port(), Data::Tcp(tcp)))
}

/// Does the server's part until the client has ended.
fn work(
    data: &Data,
    patience: Patience,
    handshake: &Handshake,
    served: &mut Served,
) -> Result<(), Lost> {
    let lengths = (handshake.request, handshake.response);
    let mut cpu = clock::process_cpu();
    let ended = match data {
        Data::Udp(udp) if handshake.kind == Kind::UdpStream => {
            udp_stream::serve(udp, patience, handshake, served)
        }
        Data::Udp(udp) => {
            rr::serve_datagrams(udp, patience, lengths, handshake.sockets == 1, &mut served.count)
        }
        Data::Tcp(listener) if handshake.kind == Kind::TcpCrr => {
            crr::serve(listener, patience, handshake, &mut served.count)
        }
        Data::Tcp(listener) => {
            let all = accept_all(listener, patience, handshake)?;
            // Spinning for the first client is no part of what it costs.
            cpu = clock::process_cpu();
            connected(&all, patience, handshake, served)
        }
    };
    served.cpu_ns = clock::process_cpu().since(cpu).0;
    ended
}

fn accept_all(
    listener: &TcpListener,
    patience: Patience,
    handshake: &Handshake,
) -> Result<Vec<OwnedFd>, Lost> {
    let blocking = Patience { is_polling: false, ..patience };
    let one = |_| {
        let socket = crr::accept(listener, blocking)?;
        crr::prepare(&socket, handshake)?;
        Ok(socket)
    };
    (0..handshake.sockets).map(one).collect()
}

/// Over connections that stay.
fn connected(
    all: &[OwnedFd],
    patience: Patience,
    handshake: &Handshake,
    served: &mut Served,
) -> Result<(), Lost> {
    let numbers: Vec<_> = all.iter().map(AsRawFd::as_raw_fd).collect();
    match (handshake.kind, numbers.as_slice()) {
        (Kind::TcpStream, numbers) => {
            served.bytes = stream::take_all(numbers, patience, handshake.request, || false)?;
            Ok(())
        }
        (Kind::TcpMaerts, numbers) => {
            stream::give(numbers, patience, handshake.request, || false).map(drop)
        }
        (_, &[one]) => {
            rr::serve_one(one, patience, (handshake.request, handshake.response), &mut served.count)
        }
        _ => flow::serve_many(
            all,
            patience,
            (handshake.request, handshake.response),
            &mut served.count,
        ),
    }
}
