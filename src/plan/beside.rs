//! Neighbours: what runs in other stacks while each trial is measured.
//!
//! With a neighbour every stack of a plan is there twice, alone and beside it, in the same blocks:
//! so what the neighbour costs is known as any overhead is.

use super::Draft;
use super::networks::connected;
use super::stacks::names_scratch;
use crate::fault::Fault;
use crate::layer::{Descriptor, StackSpec};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Largest number of neighbours in a plan.
const LIMIT: usize = 8;

/// Separator between the workload and its stack.
const AT: char = '@';

/// A workload that runs in a stack of its own meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Neighbour {
    /// Workload that runs.
    pub workload: Workload,
    /// Stack in which it runs.
    pub stack: StackSpec,
}

impl Neighbour {
    /// Reads `WORKLOAD@STACK`, as in `adversary.load:cpu=50@runc:cpus=1`.
    ///
    /// # Errors
    /// The user's: there is no such workload, or no such stack.
    pub fn parse_with(text: &str, descriptors: &[&'static Descriptor]) -> Result<Self, Fault> {
        let Some((workload, stack)) = text.split_once(AT) else {
            let shown = text.escape_debug();
            return Err(Fault::user(format!("`{shown}` does not say in which stack it runs"))
                .hint(format!("write it as in `{shown}@runc:cpus=1,memory=256M`")));
        };
        let workload = Workload::find(workload)?;
        Ok(Self { workload, stack: StackSpec::parse_with(stack, descriptors)? })
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{AT}{}", self.workload.typed(), self.stack)
    }
}

impl Draft {
    /// The neighbours, each in a stack that can be.
    pub(super) fn checked_neighbours(
        &self,
        cwd: &Path,
        around: &super::Defaults<'_>,
    ) -> Result<Vec<Neighbour>, Fault> {
        if self.beside.len() > LIMIT {
            let count = self.beside.len();
            return Err(self.refuse("beside", format!("{count} neighbours are above {LIMIT}")));
        }
        let checked = |neighbour: &Neighbour| {
            let definition = neighbour.workload.resolve()?;
            let name = neighbour.workload.name.escape_debug();
            if definition.scratch && !names_scratch(&neighbour.stack) {
                let stack = &neighbour.stack;
                let message = format!(
                    "`{name}` works in a scratch directory, and its stack `{stack}` has none"
                );
                let fault = self.refuse("beside", message);
                return Err(fault.hint("say on what its data lies: `scratch=layer`"));
            }
            let stack = self.located("beside", &neighbour.stack, (cwd, around.descriptors))?;
            let has_two_sides = definition.server.is_some();
            let stack = if has_two_sides { connected(&stack, around.descriptors) } else { stack };
            self.check_sense(&stack, around)?;
            Ok(Neighbour { workload: neighbour.workload.clone(), stack })
        };
        self.beside.iter().map(checked).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{around, draft};
    use super::*;
    use crate::layer::tests::DESCRIPTORS;

    fn parse(text: &str) -> Result<Neighbour, Fault> {
        Neighbour::parse_with(text, DESCRIPTORS)
    }

    #[test]
    fn a_neighbour_is_a_workload_in_a_stack_and_is_written_as_it_is_read() {
        let text = "adversary.load:cpu=30,time=60000@runc:cpus=1";
        assert_eq!(parse(text).unwrap().to_string(), text);
        let fault = parse("adversary.load").unwrap_err();
        assert_eq!(fault.message, "`adversary.load` does not say in which stack it runs");
        assert!(parse("no.such@runc").is_err() && parse("adversary.load@rnuc").is_err());
    }

    #[test]
    fn with_a_neighbour_every_stack_is_there_alone_and_beside_it() {
        let beside = vec![parse("adversary.load@native").unwrap()];
        let plan = Draft { beside, ..draft(&["native", "runc"]) }.complete(&around()).unwrap().plan;
        let labels: Vec<String> = plan.arms().iter().map(ToString::to_string).collect();
        assert_eq!(
            labels,
            [
                "native", "native", "runc", "native beside adversary.load@native",
                "runc beside adversary.load@native"
            ]
        );
        assert_eq!(plan.arm_count(), 5);
        assert!(plan.neighbours(2).is_empty());
        assert_eq!(plan.neighbours(3).len(), 1);
    }

    #[test]
    fn a_neighbour_without_its_scratch_directory_is_refused() {
        let beside = vec![parse("adversary.thrash@native").unwrap()];
        let fault = Draft { beside, ..draft(&["native"]) }.complete(&around()).unwrap_err();
        assert_eq!(
            fault.message,
            "`adversary.thrash` works in a scratch directory, and its stack `native` has none"
        );
    }

    #[test]
    fn a_neighbour_with_two_sides_gets_a_network_where_its_stack_names_none() {
        let descriptors = crate::driver::registered();
        let beside = vec![Neighbour::parse_with("net.tcp_rr@runc", &descriptors).unwrap()];
        let around = super::super::Defaults { descriptors: &descriptors, ..around() };
        let plan = Draft { beside, ..draft(&["native"]) }.complete(&around).unwrap().plan;
        assert_eq!(plan.neighbours(2)[0].to_string(), "net.tcp_rr@runc:net=veth");
    }
}
