//! The port at which a workload listens: the one that was named, or one that is still to be chosen.

use super::Workload;
use super::instances::{InstanceIndex, Share};
use super::parameter::Kind;
use crate::fault::Fault;
use std::ops::RangeInclusive;

/// The parameter that says where, in a workload that listens.
pub(super) const PORT: &str = "port";

/// The ports of a workload, one for each of its instances where they have their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first of them.
    pub first: u16,
    /// Number of ports in a row.
    pub count: u16,
    /// Range of the ports where nobody named one.
    pub open: Option<RangeInclusive<u16>>,
    /// True if datagrams come to them.
    pub is_over_udp: bool,
}

impl Workload {
    /// Returns where so many instances of it listen; `None` where none does, or its file does not
    /// say where.
    ///
    /// # Errors
    /// As [`Workload::resolve`].
    pub fn ports(&self, instances: u32) -> Result<Option<Ports>, Fault> {
        let definition = self.resolve_at(InstanceIndex::ONLY)?;
        if definition.server.is_none() && !definition.listens {
            return Ok(None);
        }
        let parameter = definition.parameters.iter().find(|it| it.name == PORT);
        let (Some(parameter), Some(first)) = (parameter, definition.port) else { return Ok(None) };
        let is_next = parameter.share == Some(Share::Next);
        let count = if is_next { u16::try_from(instances).unwrap_or(u16::MAX).max(1) } else { 1 };
        let is_named = self.parameters.iter().any(|(key, _)| key == PORT);
        let open = match parameter.kind {
            Kind::Whole { min, max } if !is_named => {
                let within = |it: i64| u16::try_from(it.clamp(1, u16::MAX.into())).unwrap_or(1);
                Some(within(min)..=within(max))
            }
            _ => None,
        };
        Ok(Some(Ports { first, count, open, is_over_udp: definition.is_over_udp }))
    }

    /// The same with another port.
    ///
    /// # Errors
    /// As [`Workload::resolve`]; also the user's, where it has no such parameter.
    pub fn at_port(&self, port: u16) -> Result<Self, Fault> {
        self.with_parameter(PORT, port.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::shelf;
    use super::*;

    fn ports(typed: &str, instances: u32) -> Option<Ports> {
        Workload::find(typed).unwrap().ports(instances).unwrap()
    }

    #[test]
    fn a_port_is_open_to_be_chosen_where_nobody_named_one_and_something_listens() {
        let all = 1..=u16::MAX;
        let usual = Ports { first: 5201, count: 1, open: Some(all), is_over_udp: false };
        assert_eq!(ports("net.tcp_rr", 1), Some(usual.clone()));
        assert_eq!(ports("net.iperf3", 1), Some(usual.clone()));
        assert_eq!(ports("net.tcp_rr", 3), Some(Ports { count: 3, ..usual.clone() }));
        assert_eq!(ports("net.udp_rr", 1), Some(Ports { is_over_udp: true, ..usual.clone() }));
        assert_eq!(ports("net.tcp_rr:port=80", 1), Some(Ports { first: 80, open: None, ..usual }));
        for none in ["net.ping", "cpu.sysbench"] {
            assert_eq!(ports(none, 1), None, "{none}");
        }
    }

    #[test]
    fn every_workload_that_comes_with_surtax_and_has_a_port_listens_there() {
        for (name, text) in shelf::READY {
            let has_port = text.lines().any(|line| line.starts_with("port = "));
            assert_eq!(ports(name, 1).is_some(), has_port, "{name}");
        }
    }

    #[test]
    fn another_port_is_in_every_word_and_in_no_other_place() {
        let asked = Workload::find("net.tcp_rr:time=50").unwrap();
        let other = asked.at_port(20_000).unwrap();
        let [one, two] = [&asked, &other].map(|it| it.resolve().unwrap());
        assert_eq!(other.parameters.len(), 2, "{:?}", other.parameters);
        let changed = |word: &String| word.replace(":5201", ":20000");
        assert_eq!(one.command.iter().map(changed).collect::<Vec<_>>(), two.command);
        assert_eq!(
            one.server.unwrap().iter().map(changed).collect::<Vec<_>>(),
            two.server.unwrap()
        );
        assert_eq!(two.port, Some(20_000));
        assert_eq!(other.at_port(80).unwrap().ports(1).unwrap().unwrap().first, 80);
        assert!(Workload::find("cpu.sysbench").unwrap().at_port(80).is_err());
    }
}
