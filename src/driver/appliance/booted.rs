//! An appliance that was booted, whoever carries it: it is waited for, and the way to it opened.

use super::guest::Guest;
use super::proxy::Proxy;
use super::recipe::{CommandPlace, Talk};
use super::{evidence, ready};
use crate::agent::{ConsoleTail, Link, Speaker};
use crate::driver::native::{Grouping, PlainProcess};
use crate::fault::Fault;
use crate::lab::{Room, RoomNetwork};
use crate::layer::Site;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use surtax_instrument::wire::{Fact, Request};

/// Name of the layer.
pub(super) const KIND: &str = "appliance";

/// The variable that tells a client where the appliance is.
const ADDRESS: &str = "SURTAX_APPLIANCE";

/// Parts of an appliance that are known from outside.
pub(super) struct Booted {
    /// Our end of its console.
    pub(super) console: UnixStream,
    /// Output that it has written there.
    pub(super) tail: ConsoleTail,
    /// The network of its own, where it has one.
    pub(super) network: Option<Arc<RoomNetwork>>,
    /// Address of the appliance on that network.
    pub(super) address: Ipv4Addr,
}

impl Booted {
    /// Waits until it is ready; one that is booted with its command stands still, and is not waited
    /// for.
    ///
    /// # Errors
    /// The machine's: it was not ready in time, or ended.
    pub(super) fn wait(&mut self, talk: &Talk, site: &Site<'_>) -> Result<Option<Fact>, Fault> {
        if talk.runs == CommandPlace::Boot {
            return Ok(None);
        }
        let (deadline, tail) = (site.start_deadline, &self.tail);
        if let (None, Some(probe)) = (&talk.ready, &talk.probe) {
            let address = SocketAddrV4::new(self.address, talk.port.unwrap_or_default());
            let place = (self.network.as_deref(), address);
            ready::wait_for_answer(&mut self.console, place, probe, deadline, tail)?;
            let fact = Fact::new("appliance_ready", "it answered", "a question to its port");
            return Ok(Some(fact));
        }
        let line = talk.ready.as_deref().unwrap_or_default();
        ready::wait(&mut self.console, line, deadline, tail)?;
        Ok(Some(Fact::new("appliance_ready", line, "its console")))
    }

    /// Opens the way that its recipe names: to its client, or to a thread that answers for it.
    ///
    /// # Errors
    /// The machine's: the client cannot be started, or the image not be read.
    pub(super) fn open(
        self,
        talk: &Talk,
        guest: Box<dyn Guest>,
        image: &Path,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<(Link, Option<PlainProcess>), Fault> {
        if talk.runs == CommandPlace::Beside {
            self.tail.drain(self.console.into());
            let network = self.network.as_ref().map(|network| network.namespace()).transpose()?;
            let (Link { speaker, listener }, client) =
                PlainProcess::start(network, Grouping::Own, KIND, &["stdio"], site, room)?;
            let address = format!("{}:{}", self.address, talk.port.unwrap_or_default());
            let speaker = Box::new(Guide { speaker, address });
            return Ok((Link { speaker, listener }, Some(client)));
        }
        let tail = self.tail.clone();
        let proxy = Proxy {
            talk: talk.clone(),
            address: self.address,
            guest,
            network: self.network,
            console: self.console,
            tail: self.tail,
            image: evidence::of_image(image)?,
        };
        let ours = proxy.start()?;
        Ok((Link::over_socket(KIND, ours, &tail)?, None))
    }
}

/// Tells a client where the appliance is, in a variable of its environment.
struct Guide {
    speaker: Box<dyn Speaker>,
    address: String,
}

impl Speaker for Guide {
    fn send_within(&mut self, request: &Request, patience: Duration) -> Result<(), Fault> {
        let Request::Run(command) = request else {
            return self.speaker.send_within(request, patience);
        };
        let mut command = command.clone();
        command.env.push((ADDRESS.into(), self.address.clone().into_bytes()));
        self.speaker.send_within(&Request::Run(command), patience)
    }
}
