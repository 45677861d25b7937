//! A published port: one of a container's that is the same outside, by destination NAT of its
//! bridge.

use crate::fault::Fault;
use crate::layer::{LayerSpec, OptionSpec, option};

/// The option that publishes a port.
pub const CHOICE: OptionSpec = option("publish", &[]).help(
    "a port that is the same outside, by destination NAT: `8080`, `5201/udp` (default: none)",
);

/// The networks of engines that translate addresses.
const TRANSLATED: [&str; 2] = ["bridge", "user"];

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
