//! Time that a workload works, where a parameter of it says that: a neighbour has to go on for as
//! long as a command takes.

use super::Workload;
use super::definition::Definition;
use super::parameter::{Kind, Parameter};
use crate::fault::Fault;

/// Names of the parameters that say for how long a workload works.
const NAMES: [&str; 3] = ["time", "seconds", "duration"];

impl Definition {
    /// The parameter that says for how long it works.
    #[must_use]
    pub fn lasting(&self) -> Option<&Parameter> {
        self.parameters.iter().find(|it| NAMES.contains(&it.name.as_str()))
    }
}

impl Workload {
    /// The same for as long as it can work, where nobody said for how long and its file has another
    /// command for that neither.
    ///
    /// # Errors
    /// As [`Workload::resolve`].
    pub fn for_long(&self) -> Result<Self, Fault> {
        let definition = self.resolve()?;
        let lasting = definition.lasting().filter(|_| definition.beside.is_none());
        let Some(Parameter { name, kind: Kind::Whole { max, .. }, .. }) = lasting else {
            return Ok(self.clone());
        };
        if self.parameters.iter().any(|(known, _)| known == name) {
            return Ok(self.clone());
        }
        self.with_parameter(name, max.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_goes_on_for_long_where_nobody_said_for_how_long() {
        for (typed, expected) in [
            ("net.tcp_rr", "net.tcp_rr:time=3600000"),
            ("net.tcp_rr:time=50,poll=on", "net.tcp_rr:time=50,poll=on"),
            ("net.tcp_rr:poll=on", "net.tcp_rr:time=3600000,poll=on"),
            ("noise", "noise:seconds=86400"),
            // These end when they are told to, and that one never says how long it takes.
            ("adversary.load:cpu=30", "adversary.load:cpu=30"),
            ("cpu.pi", "cpu.pi"),
        ] {
            assert_eq!(Workload::find(typed).unwrap().for_long().unwrap().typed(), expected);
        }
    }
}
