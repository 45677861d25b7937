//! Facts that a trial knows of its workload: what runs inside and outside, how often, and where
//! both sides meet. Of an ordinary command there is none of it.

use super::peer::{self, Peer};
use crate::fault::Fault;
use crate::layer::{StackSpec, Unavailable, WorkloadNetwork};
use crate::plan::Plan;
use crate::stack::start::{RunningStack, StartContext};
use crate::workload::{Definition, Workload};
use surtax_instrument::wire::{Command, Fact};

/// Work of a plan's trials beside their command.
pub(super) struct TrialWorkload {
    pub(super) workload: Option<Workload>,
    pub(super) definition: Option<Definition>,
    /// Of a workload of which several run at once: each.
    pub(super) instances: Vec<Definition>,
    /// Number of instances that run at once.
    pub(super) count: u32,
    /// Fact of where its server listens, if that had to be settled.
    pub(super) port: Option<Fact>,
    pub(super) role: Role,
}

/// Role of a workload in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that is measured.
    Measured,
    /// The neighbour of this number, counted from 0.
    Neighbour(usize),
}

impl Role {
    /// Returns what a workload in this role executes.
    pub(super) fn definition(self, workload: &Workload) -> Result<Definition, Fault> {
        let mut definition = workload.resolve()?;
        if let (Self::Neighbour(_), Some(words)) = (self, &definition.beside) {
            definition.command.clone_from(words);
        }
        Ok(definition)
    }
}

impl TrialWorkload {
    pub(super) fn of(plan: &Plan) -> Result<Self, Fault> {
        let definition =
            plan.workload.as_ref().map(crate::workload::Workload::resolve).transpose()?;
        let count = plan.conduct.instances;
        let instances = match &plan.workload {
            Some(workload) if count > 1 => workload.instances(count)?,
            _ => Vec::new(),
        };
        let (workload, role) = (plan.workload.clone(), Role::Measured);
        Ok(Self { workload, definition, instances, count, port: None, role })
    }

    /// That of a neighbour, which goes on for as long as its workload can.
    ///
    /// # Errors
    /// As [`Workload::resolve`].
    pub(super) fn beside(workload: &Workload, place: usize) -> Result<Self, Fault> {
        let (workload, role) = (workload.for_long()?, Role::Neighbour(place));
        let definition = Some(role.definition(&workload)?);
        let (instances, count) = (Vec::new(), 1);
        Ok(Self { workload: Some(workload), definition, instances, count, port: None, role })
    }

    /// Makes of the command so many as the plan has at once.
    pub(super) fn multiply(&self, command: &mut Command) {
        if self.count < 2 {
            return;
        }
        let bytes = |words: &Vec<String>| words.iter().map(|word| word.clone().into()).collect();
        command.instances = match self.definition {
            Some(_) => self.instances.iter().map(|it| bytes(&it.command)).collect(),
            None => (0..self.count).map(|_| command.argv.clone()).collect(),
        };
    }

    /// Returns how many ran at once, where that was asked for.
    pub(super) fn instances(&self) -> Option<Fact> {
        let source = "the agent, which let them go at once and told how each ended";
        (self.count > 1).then(|| Fact::new("instances", self.count.to_string(), source))
    }

    /// The command that runs in the stack, which is the server of a workload whose client is
    /// outside.
    pub(super) fn inside(&self, command: &Command) -> Command {
        peer::inside(self.definition.as_ref(), command)
    }

    /// The other side of a workload that has two, with the port of either settled.
    pub(super) fn peer(
        &mut self,
        running: &RunningStack,
        command: &mut Command,
        context: &StartContext<'_>,
        name: &str,
    ) -> Result<Option<Peer>, Fault> {
        self.settle_port(running.network(), context.lab, command)?;
        let Some(definition) = &self.definition else { return Ok(None) };
        if let Some((network, port)) = self.served_by(running) {
            peer::call(definition, network, port, command)?;
            return Ok(None);
        }
        let sides = if self.count < 2 { std::slice::from_ref(definition) } else { &self.instances };
        Peer::open(definition, sides, running, command, context, name)
    }

    /// The network and the port at which what was booted serves by itself, for a workload that has
    /// a server.
    fn served_by<'a>(&self, running: &'a RunningStack) -> Option<(&'a WorkloadNetwork, u16)> {
        self.definition.as_ref()?.server.as_ref()?;
        let network = running.network()?;
        Some((network, network.serves?))
    }

    /// Returns where the sides were, if what was booted is the server; the port of another one, if
    /// that was settled.
    pub(super) fn places(&self, running: &RunningStack) -> Vec<Fact> {
        let Some((network, port)) = self.served_by(running) else {
            return self.port.clone().into_iter().collect();
        };
        let address = network.workload.unwrap_or(network.outside);
        vec![
            Fact::new("client_place", "beside the image, which is the server", "the recipe"),
            Fact::new("server_address", format!("{address}:{port}"), "the recipe, and its answers"),
        ]
    }

    /// Returns why a stack cannot have its side of a workload that has two.
    pub(super) fn gap(&self, stack: &StackSpec) -> Option<Unavailable> {
        peer::gap(self.definition.as_ref()?, stack)
    }
}
