//! A published port: one of a container's that is the same outside, by destination NAT of its
//! bridge.

use crate::fault::Fault;
use crate::lab;
use crate::layer::{LayerSpec, OptionSpec, WorkloadNetwork, option};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// The option that publishes a port.
pub const CHOICE: OptionSpec = option("publish", &[]).help(
    "a port that is the same outside, by destination NAT: `8080`, `5201/udp` (default: none)",
);

/// The networks of engines that translate addresses.
const TRANSLATED: [&str; 2] = ["bridge", "user"];

/// The programs that print the rules of a network namespace, for either of the kernel's two ways to
/// have them.
const PRINTERS: [&[&str]; 2] = [&["iptables-save", "-t", "nat"], &["nft", "list", "ruleset"]];

/// Time limit of one of these programs.
const PRINT_DEADLINE: Duration = Duration::from_secs(10);

/// A port of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Number of the port, inside and outside.
    pub number: u16,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
}

impl Port {
    /// Reads a spec, whose network is `net`.
    ///
    /// # Errors
    /// The user's: a port that is none, or one of a network that has no NAT.
    pub fn read(spec: &LayerSpec, net: &str) -> Result<Option<Self>, Fault> {
        let Some(text) = spec.option("publish") else { return Ok(None) };
        let port = parse(&spec.kind, text)?;
        if TRANSLATED.contains(&net) {
            return Ok(Some(port));
        }
        Err(Fault::user(format!(
            "{}: `publish` needs a bridge to translate addresses, and not `net={net}`",
            spec.kind
        ))
        .hint("use `net=bridge` or `net=user`, or leave `publish` out"))
    }

    /// The engines' word for it.
    pub fn word(self) -> String {
        format!("{}/{}", self.number, self.protocol)
    }

    /// That the rules of the outside's network namespace lead from the port to the workload.
    ///
    /// # Errors
    /// The machine's: none does.
    pub fn prove(self, network: &WorkloadNetwork) -> Result<Fact, Fault> {
        let namespace = format!("--net={}", network.namespace.display());
        let workload = network.workload.map_or_else(String::new, |address| address.to_string());
        for printer in PRINTERS.iter().filter(|words| lab::find(words[0]).is_some()) {
            let words = ["nsenter", &namespace].into_iter().chain(printer.iter().copied());
            let argv: Vec<String> = words.map(str::to_owned).collect();
            let rules = lab::ask(&argv, None, PRINT_DEADLINE)?;
            if self.is_translated(&rules, &workload) {
                return Ok(Fact::new("published_port", self.word(), printer.join(" ")));
            }
        }
        Err(Fault::machine(format!(
            "the port {} was to be published, and no rule leads from there to `{workload}`",
            self.word()
        ))
        .hint("install `iptables` or `nft`, which print the rules"))
    }

    /// Tells whether one of these rules is the destination NAT of this port.
    fn is_translated(self, rules: &str, workload: &str) -> bool {
        let Self { number, protocol } = self;
        let (port, target) = (number.to_string(), format!("{workload}:{number}"));
        rules.lines().any(|rule| {
            let words: Vec<&str> = rule.split_whitespace().collect();
            let is_of = |flags: &[&str]| {
                words.windows(2).any(|pair| flags.contains(&pair[0]) && pair[1] == port)
            };
            words.contains(&protocol)
                && is_of(&["--dport", "dport"])
                && words.contains(&target.as_str())
                && words.iter().any(|word| word.eq_ignore_ascii_case("dnat"))
        })
    }
}

/// `8080` or `5201/udp`.
fn parse(kind: &str, text: &str) -> Result<Port, Fault> {
    let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = ["tcp", "udp"].into_iter().find(|known| *known == protocol);
    match (number.parse(), protocol) {
        (Ok(number @ 1..), Some(protocol)) => Ok(Port { number, protocol }),
        _ => Err(Fault::user(format!("{kind}: `publish={text}` is not a port"))
            .hint("write a number from 1 to 65535, and `/udp` behind it for UDP")),
    }
}

#[cfg(test)]
mod tests {
    use crate::layer::publish::*;

    #[test]
    fn a_rule_is_found_in_the_words_of_either_program() {
        let port = Port { number: 80, protocol: "tcp" };
        let rules = "-A CNI-DN-2f -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.89.0.2:80";
        assert!(port.is_translated(rules, "10.89.0.2"));
        assert!(port.is_translated("\t\ttcp dport 80 dnat to 10.89.0.2:80", "10.89.0.2"));
        assert!(!port.is_translated(rules, "10.89.0.20"));
        assert!(!port.is_translated(&rules.replace("--dport 80", "--dport 8080"), "10.89.0.2"));
        assert!(!port.is_translated(&rules.replace("tcp", "udp"), "10.89.0.2"));
        assert!(!port.is_translated("-A CNI-HOSTPORT-SETMARK -p tcp --dport 80 -j MARK", ""));
    }

    fn read(text: &str, net: &str) -> Result<Option<Port>, Fault> {
        let options = [("publish".to_owned(), text.to_owned())].into();
        Port::read(&LayerSpec { kind: "docker".into(), options }, net)
    }

    #[test]
    fn a_port_is_a_number_and_a_protocol_behind_a_bridge() {
        assert_eq!(read("5201/udp", "user").unwrap().unwrap().word(), "5201/udp");
        assert_eq!(read("80", "bridge").unwrap().unwrap().word(), "80/tcp");
        for net in ["none", "host", "macvlan", "slirp4netns"] {
            let fault = read("80", net).unwrap_err();
            assert!(fault.message.contains(&format!("`net={net}`")), "{fault}");
        }
        for text in ["0", "65536", "http", "80/sctp", "80:80", "-1"] {
            let fault = read(text, "bridge").unwrap_err();
            assert!(fault.message.contains(text), "{fault}");
        }
    }
}
