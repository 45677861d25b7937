//! The port of a trial's server on a network that others share: one that no other surtax has.
//!
//! In a namespace of the room, nobody else is, and a port is what the workload says. On a machine's
//! own network the usual one may be somebody else's: where the user named none, the lab chooses,
//! and the evidence has what it was. The plan stays as it was asked, so that a run goes on and is
//! repeated whoever else is there.

use super::endpoints::is_among_others;
use super::trial_workload::{Role, TrialWorkload};
use crate::fault::Fault;
use crate::lab::{Lab, Protocol};
use crate::layer::WorkloadNetwork;
use crate::workload::Workload;
use crate::workload::definition::Client;
use crate::workload::port::Ports;
use surtax_instrument::wire::{Command, Fact};

/// Whose a port is that was not named.
const CHOSEN: &str = "the lab, which keeps it from other surtaxes";

/// Whose one is that was.
const NAMED: &str = "the workload's `port=`";

/// A workload that has a port of its own, and that port as evidence.
pub(super) type Settled = (Workload, Fact);

/// Settles where so many instances of a workload listen whose client is at that place, if that is
/// on a machine's own network.
///
/// # Errors
/// The machine's: the port that was named is somebody else's, or none is free.
pub(super) fn settle(
    (workload, client): (&Workload, &Client),
    instances: u32,
    network: Option<&WorkloadNetwork>,
    lab: &Lab,
    whose: &str,
) -> Result<Option<Settled>, Fault> {
    let Some(network) = network.filter(|it| is_among_others(it, client)) else { return Ok(None) };
    let Some(Ports { first, count, open, is_over_udp }) = workload.ports(instances)? else {
        return Ok(None);
    };
    let fact = |first: u16, source: &str| {
        let last = first.saturating_add(count - 1);
        let told = if count > 1 { format!("{first} to {last}") } else { first.to_string() };
        Fact::new("server_port", told, source)
    };
    let Some(open) = open else {
        // Which ports another machine has free is not known here.
        if !network.is_far {
            let protocol = if is_over_udp { Protocol::Udp } else { Protocol::Tcp };
            lab.named_ports(whose, first, count, protocol)?;
        }
        return Ok(Some((workload.clone(), fact(first, NAMED))));
    };
    let chosen = lab.ports(whose, first, count, &open)?;
    Ok(Some((workload.at_port(chosen)?, fact(chosen, CHOSEN))))
}

impl TrialWorkload {
    /// Settles where the server of the workload listens, in the stack that stands or outside of it.
    ///
    /// # Errors
    /// As [`settle`].
    pub(super) fn settle_port(
        &mut self,
        network: Option<&WorkloadNetwork>,
        lab: &Lab,
        command: &mut Command,
    ) -> Result<(), Fault> {
        let (Some(workload), Some(definition)) = (&self.workload, &self.definition) else {
            return Ok(());
        };
        let whose = match self.role {
            Role::Measured => String::from("measured"),
            Role::Neighbour(place) => format!("neighbour {place}"),
        };
        let sides = (workload, &definition.client);
        let settled = settle(sides, self.count, network, lab, &whose)?;
        let Some((workload, fact)) = settled else { return Ok(()) };
        let definition = self.role.definition(&workload)?;
        command.argv = definition.command.iter().map(|word| word.clone().into_bytes()).collect();
        if self.count > 1 {
            self.instances = workload.instances(self.count)?;
        }
        self.definition = Some(definition);
        self.port = Some(fact);
        self.multiply(command);
        Ok(())
    }
}
