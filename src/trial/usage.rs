//! Measures what everybody used on this level who is part of a trial: the stack, which is its bill,
//! and the other side, which is in none.

use super::acts::Who;
use super::companion::{Companion, Seen};
use super::held_against;
use super::iterate::TimedRun;
use super::peer::Peer;
use super::stage::Stage;
use crate::fault::Fault;
use crate::layer::Payer;
use crate::stack::watch::Watch;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::Role;

/// The bill of the stack.
#[derive(Default)]
pub(super) struct Bill {
    watch: Option<Watch>,
    paused_cpu: Nanoseconds,
}

/// The other side of a workload that has two.
#[derive(Default)]
pub(super) struct PeerUsage {
    watch: Option<Watch>,
    payer_count: usize,
}

impl Companion for Bill {
    fn who(&self) -> Who {
        Who::Bill
    }

    fn begin(&mut self, stage: &mut Stage<'_>) {
        let all: Vec<Payer> = stage.payers.iter().cloned().chain(Payer::whole_machine()).collect();
        self.watch = Some(Watch::begin(all, stage.level, stage.hierarchies));
    }

    fn pause(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.pause();
        }
    }

    fn resume(&mut self) {
        if let Some(watch) = &mut self.watch {
            self.paused_cpu += watch.resume();
        }
    }

    fn end(&mut self, stage: &mut Stage<'_>, _: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        let read = self.watch.take().map(Watch::end).unwrap_or_default();
        (seen.machines, seen.bill) = read.into_iter().partition(|it| it.role == Role::Machine);
        seen.paused_cpu = self.paused_cpu;
        seen.group_cpu = held_against::of_the_group(&stage.payers, &seen.bill);
        seen.payer_count += stage.payers.len();
        Ok(())
    }
}

impl Companion for PeerUsage {
    fn who(&self) -> Who {
        Who::Peer
    }

    fn begin(&mut self, stage: &mut Stage<'_>) {
        let payers = stage.placed.peer.as_ref().map(Peer::payers).unwrap_or_default();
        self.payer_count = payers.len();
        self.watch = Some(Watch::begin(payers, stage.level, stage.hierarchies));
    }

    fn end(&mut self, _: &mut Stage<'_>, _: &[TimedRun], seen: &mut Seen) -> Result<(), Fault> {
        seen.beside.extend(self.watch.take().map(Watch::end).unwrap_or_default());
        seen.payer_count += self.payer_count;
        Ok(())
    }
}
