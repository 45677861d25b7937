//! Calls: an agent that was given no channel finds its host at a socket.

use crate::fault::{Doing, Fault};
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// Socket at which an agent is to call.
pub struct Call(UnixListener);

impl Call {
    /// Listens at a path.
    ///
    /// # Errors
    /// The machine's: the path is too long, or taken.
    pub fn at(socket: &Path) -> Result<Self, Fault> {
        let doing = format!("listen for an agent at `{}`", socket.display());
        let listener = UnixListener::bind(socket).doing(&doing)?;
        listener.set_nonblocking(true).doing(&doing)?;
        Ok(Self(listener))
    }

    /// Waits for the first call, of which no frame has been read; or says why nobody calls. `ended`
    /// pauses between two looks, and says how the caller has ended, if it has. Whoever called is
    /// asked for its evidence as ever.
    ///
    /// # Errors
    /// The machine's: no call can be taken; or those of `ended`.
    pub fn take(
        &self,
        deadline: Duration,
        mut ended: impl FnMut() -> Result<Option<String>, Fault>,
    ) -> Result<Result<UnixStream, String>, Fault> {
        let began = monotonic_raw();
        loop {
            match self.0.accept() {
                Ok((stream, _)) => return Ok(Ok(stream)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).doing("take the call of an agent"),
            }
            match ended()? {
                Some(why) => return Ok(Err(why)),
                None if Duration::from(monotonic_raw().since(began)) < deadline => {}
                None => {
                    let limit = deadline.as_secs_f64();
                    return Ok(Err(format!("started no agent within {limit:.1} s")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_is_taken_and_who_does_not_is_told_of() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let call = Call::at(&socket).unwrap();
        let take = |limit, ended: Option<&str>| {
            call.take(Duration::from_secs(limit), || Ok(ended.map(String::from))).unwrap()
        };
        assert_eq!(take(9, Some("has ended")).unwrap_err(), "has ended");
        assert_eq!(take(0, None).unwrap_err(), "started no agent within 0.0 s");
        let _agent = UnixStream::connect(&socket).unwrap();
        assert!(take(0, Some("has ended")).is_ok(), "it called before it ended");
        assert!(Call::at(&socket).is_err(), "the path is taken");
    }
}
