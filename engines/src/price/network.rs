//! Prices of the network that every kernel has in itself: loopback.

use super::Setting;
use super::batch::{Measured, measure, repeat};
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Number of bytes sent at once.
const MESSAGE: usize = 64;

/// Number of messages that surely fit into the buffer of a receiver that does not read.
const MESSAGES_MAX: u64 = 64;

/// A handshake whose both ends are here, so that nobody else is waited for.
pub fn tcp_connect(setting: &Setting) -> io::Result<Measured> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    setting.each(|| {
        let caller = TcpStream::connect(address)?;
        drop(listener.accept()?);
        // Or the port would be kept for a minute, and after some thousands there were none.
        Ok(set_socket_linger(&caller, Some(Duration::ZERO))?)
    })
}

/// The price of the sender; on loopback that is also the way into the receiver's buffer.
pub fn udp_send(setting: &Setting) -> io::Result<Measured> {
    let (sender, receiver) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    sender.connect(receiver.local_addr()?)?;
    receiver.set_nonblocking(true)?;
    measure(setting.budget, MESSAGES_MAX, |count| {
        let took = repeat(count, || sender.send(&[1; MESSAGE]).map(drop))?;
        let received = drain(&receiver)?;
        if received != count {
            return Err(io::Error::other(format!("of {count} datagrams, {received} arrived")));
        }
        Ok(took)
    })
}

/// Receives all that is there and returns the number of whole messages.
fn drain(receiver: &UdpSocket) -> io::Result<u64> {
    let mut message = [0; MESSAGE + 1];
    let mut received = 0;
    loop {
        match receiver.recv(&mut message) {
            Ok(MESSAGE) => received += 1,
            Ok(_) => return Err(io::Error::other("a datagram arrived that is not as it was sent")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(received),
            Err(error) => return Err(error),
        }
    }
}
