//! The hijacked stream of a container: its standard input, output and error over one connection.
//!
//! After the answer `101` the connection carries raw bytes inward, and outward frames of a stream
//! number, three zero bytes, a big-endian length and as many bytes. This is spoken by hand, so that
//! the thread that stamps the agent's replies reads the daemon's socket itself, with nobody in
//! between.
//!
//! Source: Docker Engine API 1.41, `ContainerAttach`, "Stream format".

use crate::agent::ConsoleTail;
use crate::fault::{Doing, Fault};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest head of an answer, in bytes.
const HEAD_LIMIT: usize = 16 << 10;

/// The number of standard error in a frame's head.
const STDERR: u8 = 2;

/// Attaches to a container that was made and not yet started.
///
/// # Errors
/// The daemon's refusal, or that it does not answer in time.
pub fn attach(
    socket: &Path,
    container: &str,
    console: &ConsoleTail,
    deadline: Duration,
) -> Result<(Output, Input), Fault> {
    let doing = format!("attach to the container `{container}`");
    let stream = shake_hands(socket, container, deadline).doing(&doing)?;
    let input = Input(stream.try_clone().doing(&doing)?);
    Ok((Output::over(stream, console), input))
}

fn shake_hands(socket: &Path, container: &str, deadline: Duration) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    let request = format!(
        "POST /containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n\
         Host: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let head = head(&mut stream)?;
    match head.split(' ').nth(1) {
        Some("101" | "200") => {}
        _ => {
            let line = head.lines().next().unwrap_or_default();
            return Err(io::Error::other(format!("the daemon answers `{line}`")));
        }
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Reads up to the empty line and not a byte further: what follows is the container's.
pub(in crate::driver) fn head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_LIMIT {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "the head of the answer has no end",
            ));
        }
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Standard output of the container; what it says on standard error goes to the console.
pub struct Output<R = UnixStream> {
    stream: R,
    /// Bytes of the current frame of standard output that were not read yet.
    left: usize,
    console: ConsoleTail,
}

impl<R: Read> Read for Output<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let mut head = [0; 8];
            if self.stream.read(&mut head[..1])? == 0 {
                return Ok(0);
            }
            self.stream.read_exact(&mut head[1..])?;
            let [kind, _, _, _, length @ ..] = head;
            let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            if kind == STDERR {
                self.pass_to_console(length)?;
            } else {
                self.left = length;
            }
        }
        let wanted = self.left.min(buffer.len());
        let count = self.stream.read(&mut buffer[..wanted])?;
        self.left -= count;
        Ok(count)
    }
}

impl<R: Read> Output<R> {
    /// The frames of a stream behind its head; what is on standard error goes to this console.
    pub(in crate::driver) fn over(stream: R, console: &ConsoleTail) -> Self {
        Self { stream, left: 0, console: console.clone() }
    }

    fn pass_to_console(&mut self, mut length: usize) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while length > 0 {
            let wanted = length.min(buffer.len());
            self.stream.read_exact(&mut buffer[..wanted])?;
            self.console.keep(&buffer[..wanted]);
            length -= wanted;
        }
        Ok(())
    }
}

/// The container's standard input; dropped, its end.
pub struct Input(UnixStream);

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // Fails only where the other end is gone already.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, text: &[u8]) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&[kind, 0, 0, 0], length.as_slice(), text].concat()
    }

    fn output(bytes: &[u8]) -> (Output<&[u8]>, ConsoleTail) {
        let console = ConsoleTail::new();
        (Output::over(bytes, &console), console)
    }

    #[test]
    fn standard_output_is_joined_and_standard_error_goes_to_the_console() {
        let bytes =
            [frame(1, b"one "), frame(2, b"oh no\n"), frame(1, b""), frame(1, b"two")].concat();
        let (mut output, console) = output(&bytes);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        assert_eq!(console.text(), "oh no\n");
    }

    #[test]
    fn a_frame_that_is_cut_off_is_an_error_and_not_an_end() {
        let bytes = frame(2, b"whole");
        let (mut output, _) = output(&bytes[..10]);
        let error = output.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn nothing_of_the_container_is_read_with_the_head() {
        let mut stream: &[u8] = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n\x01\x00";
        assert!(head(&mut stream).unwrap().starts_with("HTTP/1.1 101"));
        assert_eq!(stream, b"\x01\x00");
        let endless = vec![b'a'; HEAD_LIMIT + 1];
        assert_eq!(head(&mut endless.as_slice()).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
