//! An appliance that is a domain of Xen's: the same recipes and the same answers, another machine
//! below.

use super::booted::{Booted, KIND};
use super::guest::Guest;
use super::recipe::CommandPlace;
use super::request::ApplianceOptions;
use crate::agent::ConsoleTail;
use crate::container::first_process::FirstProcess;
use crate::driver::native::{PlainProcess, same_kernel};
use crate::driver::xen::application::{ADDRESS, Application, ApplicationOptions};
use crate::fault::Fault;
use crate::lab::{self, Room};
use crate::layer::{Payer, Running, Site, Started};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use surtax_instrument::probe::cpu_time::CpuTime;
use surtax_instrument::probe::process::Usage;
use surtax_instrument::probe::xen;
use surtax_instrument::quantity::Bytes;
use surtax_instrument::wire::Fact;

/// Exit status of a command of which nothing more is known, as a shell gives it.
const UNKNOWN_STATUS: i32 = 255;

/// A domain that runs, or stands still until it is told its command.
struct RunningDomain {
    client: Option<PlainProcess>,
    application: Application,
    files: Vec<PathBuf>,
    facts: Vec<Fact>,
}

/// Makes the domain and opens the way to it.
///
/// # Errors
/// It cannot be made, or was not ready in time.
pub(super) fn start(
    asked: &ApplianceOptions,
    order: ApplicationOptions,
    site: &Site<'_>,
    room: &Room,
) -> Result<Started, Fault> {
    let talk = &asked.found.recipe.command;
    let files = [Some(order.kernel.clone()), order.initrd.clone()].into_iter().flatten().collect();
    let image = order.kernel.clone();
    let (application, console) = Application::make(order, site, room)?;
    let tail = ConsoleTail::new();
    let network = application.network();
    let address = if network.is_some() { ADDRESS } else { Ipv4Addr::LOCALHOST };
    let mut booted = Booted { console, tail, network, address };
    if talk.runs != CommandPlace::Boot {
        application.let_go()?;
    }
    let explained = |fault: Fault| match application.exit_reason() {
        Some(exit_reason) => {
            Fault { message: format!("{exit_reason}; {}", fault.message), ..fault }
        }
        None => fault,
    };
    let ready = booted.wait(talk, site).map_err(explained)?;
    let starter = Box::new(application.starter());
    let guest = Box::new(InXen { probe: application.probe()?, starter });
    let (link, client) = booted.open(talk, guest, &image, site, room)?;
    let mut facts = vec![
        Fact::new("recipe", &asked.found.name, "the stack's own text"),
        Fact::new("recipe_about", &asked.found.recipe.about, "the recipe"),
        Fact::new("time_taken", "outside, by surtax's own clock", "there is no agent inside"),
    ];
    facts.extend(ready);
    Ok(Started::new(link, RunningDomain { client, application, files, facts }))
}

impl Running for RunningDomain {
    fn payers(&self) -> Vec<Payer> {
        let mut payers = self.client.as_ref().map(PlainProcess::payers).unwrap_or_default();
        payers.extend(self.application.payers(self.client.is_none()));
        payers
    }

    fn evidence(&mut self, inside: &[Fact]) -> Result<Vec<Fact>, Fault> {
        let mut facts = self.application.evidence()?;
        for (name, file) in ["image_sha256", "initrd_sha256"].into_iter().zip(&self.files) {
            facts.push(Fact::new(name, lab::sha256(file)?, file.display().to_string()));
        }
        if let Some(client) = &mut self.client {
            let agent = FirstProcess::of(client.process.pid(), &client.hierarchies);
            facts.extend(client.facts(&agent)?);
            facts.push(same_kernel(KIND, inside)?);
        }
        facts.append(&mut self.facts);
        Ok(facts)
    }

    fn exit_reason(&mut self) -> Option<String> {
        self.application.exit_reason()
    }

    fn stop(mut self: Box<Self>) -> Result<(), Fault> {
        let client = self.client.take().map_or(Ok(()), PlainProcess::stop);
        self.application.stop()?;
        client
    }
}

/// An appliance in a domain of Xen's, which counts its time.
struct InXen {
    probe: xen::Domain,
    starter: Box<dyn Fn() -> Result<(), Fault> + Send>,
}

impl Guest for InXen {
    /// Xen does not tell a domain's kernel from its programs.
    fn usage(&self) -> Option<Usage> {
        let total = self.probe.read().ok()?.cpu;
        Some(Usage { cpu: CpuTime { total, ..CpuTime::default() }, ..Usage::default() })
    }

    /// All that it has: a domain is given its memory at once.
    fn touched(&self) -> Option<Bytes> {
        Some(self.probe.read().ok()?.memory)
    }

    fn let_go(&self) -> Result<(), Fault> {
        (self.starter)()
    }

    /// Xen's own reason: 0 where it powered itself off.
    fn status(&self) -> i32 {
        self.probe.end().ok().flatten().map_or(UNKNOWN_STATUS, i32::from)
    }

    fn bell(&self) -> Option<&UnixStream> {
        None
    }

    fn has_ended(&self) -> Result<bool, Fault> {
        Ok(false)
    }
}
