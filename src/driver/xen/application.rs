//! A domain that is one application and holds no agent: it is made, watched and ended for whoever
//! speaks for it.

use super::configuration::Domain;
use super::toolstack::{self, Info};
use super::vif::{Nic, Vif};
use super::{Kind, evidence, require_ability, require_dom0, weight};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Room, network};
use crate::layer::{Payer, Site, Unavailable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use surtax_instrument::probe::xen;
use surtax_instrument::wire::Fact;

/// Time that a silent console is listened to before the domain's state is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Time allowed for the last output of a domain that has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The address that an application must give itself, with its network.
pub(in crate::driver) const ADDRESS: Ipv4Addr = network::WORKLOAD;

/// Options of the domain, as they were asked for.
pub(in crate::driver) struct ApplicationOptions {
    /// Virtualization type of the domain.
    pub(in crate::driver) kind: Kind,
    /// Virtual CPUs.
    pub(in crate::driver) cpus: u32,
    /// Memory.
    pub(in crate::driver) memory_mib: u64,
    /// Image that the domain enters.
    pub(in crate::driver) kernel: PathBuf,
    /// Initial RAM disk, or what the image takes for one.
    pub(in crate::driver) initrd: Option<PathBuf>,
    /// Command line of the kernel.
    pub(in crate::driver) append: String,
    /// True where the domain has a network device.
    pub(in crate::driver) has_nic: bool,
}

/// That such a domain can be made here.
///
/// # Errors
/// This is no Dom0, or Xen cannot do that here.
pub(in crate::driver) fn check(
    kind: Kind,
    has_nic: bool,
    site: &Site<'_>,
) -> Result<Vec<Fact>, Unavailable> {
    super::usable(kind, has_nic, site).map(|usable| usable.facts)
}

/// A domain that stands still until it is let go.
pub(in crate::driver) struct Application {
    domain: Domain,
    id: u16,
    vif: Option<Vif>,
}

impl Application {
    /// Makes it, and gives back our end of its console.
    ///
    /// # Errors
    /// This is no Dom0, or `xl` says why not.
    pub(in crate::driver) fn make(
        order: ApplicationOptions,
        site: &Site<'_>,
        room: &Room,
    ) -> Result<(Self, UnixStream), Fault> {
        let unavailable = |it: Unavailable| it.fault().during("xen");
        require_dom0().map_err(unavailable)?;
        require_ability(order.kind, &Info::ask()?).map_err(unavailable)?;
        let nic = order.has_nic.then(|| Nic::prepare(site, room)).transpose()?;
        let domain = Domain {
            name: site.container_name(room),
            kind: order.kind,
            cpus: order.cpus,
            cpuset: site.limits.cpuset.clone(),
            memory_mib: order.memory_mib,
            weight: site.limits.weight.map(weight),
            kernel: order.kernel,
            initramfs: order.initrd,
            command_line: order.append,
            export: None,
            disk: None,
            nic,
            socket: None,
        };
        let network = order.has_nic.then(|| room.network()).transpose()?;
        let id = toolstack::create(&domain, None, room, site.start_deadline)?;
        let console = carry(toolstack::console(id)?, id)?;
        let vif = network.map(|network| Vif::plug_in(id, network)).transpose()?;
        Ok((Self { domain, id, vif }, console))
    }

    /// Lets it run.
    ///
    /// # Errors
    /// `xl` says why not.
    pub(in crate::driver) fn let_go(&self) -> Result<(), Fault> {
        toolstack::unpause(&self.domain.name)
    }

    /// The same for somebody else, later.
    pub(in crate::driver) fn starter(&self) -> impl Fn() -> Result<(), Fault> + Send + use<> {
        let name = self.domain.name.clone();
        move || toolstack::unpause(&name)
    }

    /// Opens Xen's counters of the domain.
    ///
    /// # Errors
    /// Xen does not say.
    pub(in crate::driver) fn probe(&self) -> Result<xen::Domain, Fault> {
        xen::Domain::open(self.id).doing("ask Xen for a domain's CPU time")
    }

    /// The network with the other end of its device, if it has one.
    pub(in crate::driver) fn network(&self) -> Option<Arc<lab::RoomNetwork>> {
        self.vif.as_ref().map(|vif| Arc::clone(&vif.network))
    }

    /// Lists who pays for the domain.
    pub(in crate::driver) fn payers(&self, carries_workload: bool) -> Vec<Payer> {
        super::payers(self.id, carries_workload)
    }

    /// Collects what Xen, the store and Dom0's kernel say of the domain. Nobody inside can be asked
    /// to confirm it.
    ///
    /// # Errors
    /// They say something else than was asked for.
    pub(in crate::driver) fn evidence(&self) -> Result<Vec<Fact>, Fault> {
        let mut facts = evidence::of_image(&self.domain, self.id)?;
        let memory = self.domain.memory_mib << 20;
        facts.push(Fact::new("cpus", self.domain.cpus.to_string(), "xl list"));
        facts.push(Fact::new("memory_bytes", memory.to_string(), "xl list"));
        match &self.vif {
            Some(vif) => facts.extend(vif.prove_outside()?),
            None => facts.push(Fact::new("network", "none", "the domain's configuration")),
        }
        Ok(facts)
    }

    /// Tells how the domain has ended. `None` while it runs, or where Xen does not say.
    pub(in crate::driver) fn exit_reason(&self) -> Option<String> {
        let reason = self.probe().ok()?.end().ok()??;
        Some(match reason {
            0 => String::from("the domain has powered itself off"),
            3 => String::from("the domain has crashed"),
            other => format!("the domain has ended for Xen's reason {other}"),
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// `xl` says why not.
    pub(in crate::driver) fn stop(&self) -> Result<(), Fault> {
        toolstack::destroy(&self.domain.name, self.id)
    }
}

/// Carries a domain's console between its terminal and a socket, whose other end is given back.
/// When the domain has ended there is nothing more to come: the terminal of one that is kept would
/// stay open.
fn carry(terminal: OwnedFd, id: u16) -> Result<UnixStream, Fault> {
    let (ours, theirs) = UnixStream::pair().doing("make a socket pair for a console")?;
    let terminal = File::from(terminal);
    let mut into_terminal = terminal.try_clone().doing("listen to a console twice")?;
    let mut said = theirs.try_clone().doing("duplicate the socket of a console")?;
    let probe = xen::Domain::open(id).doing("watch a domain")?;
    std::thread::spawn(move || {
        // It ends with the conversation, or with the domain; neither is an error of the console's.
        let _ = hear(terminal, &theirs, &probe);
        let _ = theirs.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || std::io::copy(&mut said, &mut into_terminal));
    Ok(ours)
}

fn hear(mut terminal: File, mut to: &UnixStream, probe: &xen::Domain) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    let mut patience = LOOK_AGAIN;
    loop {
        let timeout = Timespec::try_from(patience).ok();
        let is_heard = poll(&mut [PollFd::new(&terminal, PollFlags::IN)], timeout.as_ref())? > 0;
        match is_heard {
            true => match terminal.read(&mut buffer)? {
                0 => return Ok(()),
                count => to.write_all(buffer.get(..count).unwrap_or_default())?,
            },
            false if patience == LAST_WORDS => return Ok(()),
            false if probe.end()?.is_some() => patience = LAST_WORDS,
            false => {}
        }
    }
}
