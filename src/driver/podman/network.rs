//! Podman's networks that are made for a container: it knows them by a file for its plugins, which
//! need no command of podman's to make them.
//!
//! What is in the file of a user-defined network is what `podman network create` of 4.3.1 writes
//! there.

use crate::fault::{Doing, Fault};
use crate::lab;
use crate::lab::network::{BELOW, OUTSIDE, PREFIX, WORKLOAD};
use crate::layer::Unavailable;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Name of its macvlan.
const MACVLAN: &str = "surtax-macvlan";

/// Name of its user-defined bridge.
const USER: &str = "surtax-user";

/// The address of that bridge itself, in the first network that `podman network create` gives.
pub(super) const USER_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);

/// Directories of the CNI plugins.
const PLUGINS: [&str; 3] = ["/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"];

/// The program of podman's own that makes networks.
const NETAVARK: [&str; 2] = ["/usr/lib/podman/netavark", "/usr/libexec/podman/netavark"];

/// That there is what makes a network, and publishes a port where one is asked for.
///
/// # Errors
/// What is missing.
pub(super) fn require(word: &str, is_published: bool) -> Result<(), Unavailable> {
    let is_there = |path: &dyn AsRef<Path>| path.as_ref().exists();
    let plugin = |name: &str| PLUGINS.iter().any(|place| is_there(&Path::new(place).join(name)));
    let missing = match word {
        "bridge" if NETAVARK.iter().any(|path| is_there(path)) => None,
        "bridge" | "user" => [Some("bridge"), is_published.then_some("portmap")]
            .into_iter()
            .flatten()
            .find(|name| !plugin(name)),
        "macvlan" => Some("macvlan").filter(|name| !plugin(name)),
        "slirp4netns" if lab::find("slirp4netns").is_none() => {
            return Err(Unavailable::new(
                "`net=slirp4netns` takes `slirp4netns`, which is not in `PATH`",
                "apt-get install slirp4netns",
            ));
        }
        _ => None,
    };
    let Some(name) = missing else { return Ok(()) };
    Err(Unavailable::new(
        format!("podman finds no plugin for its network, such as `{}/{name}`", PLUGINS[0]),
        "apt-get install containernetworking-plugins",
    ))
}

/// The name of the network of a word, and the part of the configuration with which podman knows it;
/// files for its plugins are put below `books`.
///
/// # Errors
/// The machine's: a file cannot be written.
pub(super) fn known(word: &str, books: &Path) -> Result<(String, String), Fault> {
    let (name, conflist) = match word {
        "macvlan" => (MACVLAN, macvlan()),
        "user" => (USER, user()),
        // Else nobody of this level can be called.
        "slirp4netns" => return Ok(("slirp4netns:allow_host_loopback=true".into(), String::new())),
        word => return Ok((word.to_owned(), String::new())),
    };
    let directory = books.join("networks");
    fs::create_dir_all(&directory).doing(format_args!("make `{}`", directory.display()))?;
    lab::write(&directory.join(format!("{name}.conflist")), conflist)?;
    let directory = directory.display();
    let text =
        format!("[network]\nnetwork_backend = \"cni\"\nnetwork_config_dir = \"{directory}\"\n");
    Ok((name.to_owned(), text))
}

/// The network of the room's addresses.
fn subnet() -> String {
    let mask = u32::MAX << (32 - u32::from(PREFIX));
    format!("{}/{PREFIX}", Ipv4Addr::from(OUTSIDE.to_bits() & mask))
}

fn macvlan() -> String {
    let conflist = include_str!("macvlan.conflist").replace("{below}", BELOW);
    let conflist = conflist.replace("{subnet}", &subnet());
    conflist.replace("{outside}", &OUTSIDE.to_string()).replace("{workload}", &WORKLOAD.to_string())
}

fn user() -> String {
    include_str!("user.conflist").replace("{gateway}", &USER_GATEWAY.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_macvlan_is_told_to_the_plugins_with_the_addresses_of_the_room() {
        let macvlan: Value = serde_json::from_str(&macvlan()).unwrap();
        assert_eq!(macvlan["plugins"][0]["master"], "below");
        let range = &macvlan["plugins"][0]["ipam"]["ranges"][0][0];
        assert_eq!(range["subnet"], "198.18.0.0/24");
        assert_eq!(range["gateway"], "198.18.0.1");
        assert_eq!(range["rangeStart"], "198.18.0.2");
    }

    #[test]
    fn a_user_defined_network_is_a_file_beside_podmans_own_books() {
        let books = tempfile::tempdir().unwrap();
        let (name, text) = known("user", books.path()).unwrap();
        assert!(text.contains("network_backend = \"cni\""), "{text}");
        let file = books.path().join("networks").join(format!("{name}.conflist"));
        let written: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(written["plugins"][0]["ipam"]["ranges"][0][0]["gateway"], "10.89.0.1");
        assert_eq!(written["plugins"][1]["type"], "portmap");
        assert_eq!(known("bridge", books.path()).unwrap(), ("bridge".into(), String::new()));
    }
}
