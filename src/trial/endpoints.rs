//! Settles where the two sides of a trial meet: what the client calls, where the server listens,
//! and over which network.
//!
//! An address is one that a stack has proved. Between two machines it is that of the connection by
//! which ssh has come, of which both ends say the same: so the way that is measured is one that is
//! known to lead there. Whoever listens on a machine's own network does so at the one address that
//! is called, or that this one is translated to.

use crate::fault::Fault;
use crate::lab::{self, Room};
use crate::layer::publish::Port;
use crate::layer::{StackSpec, WorkloadNetwork};
use crate::stack::reach::needs_bridge;
use crate::stack::start::StartContext;
use crate::workload::Definition;
use crate::workload::definition::Client;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surtax_instrument::link;
use surtax_instrument::wire::Fact;

/// Words that stand in the evidence for an address that is a machine's own.
const OURS: &str = "this machine's own, as the other one sees it";
const THEIRS: &str = "the other machine's own";

/// Source of evidence of a way between machines.
const SOURCE: &str = "`SSH_CONNECTION` on the other machine, and the client's own socket";

/// Place at which both sides are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoints {
    /// Address that the client calls.
    pub(super) address: IpAddr,
    /// Address at which the server listens.
    pub(super) listen: IpAddr,
    /// The published port by which that is, where it is not the server's own address.
    pub(super) published: Option<Port>,
    /// True where they are on two machines.
    pub(super) is_far: bool,
    /// True where the server is on this one of them.
    is_ours: bool,
    /// The link of this machine that leads to the other one, where it is known.
    link: Option<String>,
}

impl Endpoints {
    /// The same by a port that the stack publishes, if there is one: the client calls the level.
    pub(super) fn at_published(self, port: Option<Port>, stack: &WorkloadNetwork) -> Self {
        let address = port.map_or(self.address, |_| stack.outside);
        Self { address, published: port, ..self }
    }

    /// Returns the place as evidence. The addresses of machines themselves are nobody's business,
    /// and the link is.
    pub(super) fn facts(&self) -> Vec<Fact> {
        if !self.is_far {
            let address = self.address.to_string();
            let mut facts = vec![Fact::new("server_address", address, "the stack's network")];
            let call = "the layer's network, and the client's call";
            facts.extend(
                self.published.map(|it| Fact::new("server_published_port", it.word(), call)),
            );
            return facts;
        }
        let whose = if self.is_ours { OURS } else { THEIRS };
        let link = self.link.as_deref().unwrap_or("unknown");
        vec![
            Fact::new("server_address", whose, SOURCE),
            Fact::new("link_between_machines", link, "getifaddrs(3)"),
        ]
    }
}

/// Settles where the sides of a workload meet, given the network of its stack and that of the
/// client's, if that is another.
///
/// # Errors
/// The machine's: the two are not in one network after all, or this machine has another address
/// than the one by which it is reached.
pub(super) fn meet(
    stack: &WorkloadNetwork,
    other: Option<&WorkloadNetwork>,
    place: &Client,
) -> Result<Endpoints, Fault> {
    let (address, listen) = match (place, other) {
        (Client::Beside(_), Some(client)) if stack.is_shared && client.is_far => {
            (client.outside, client.outside)
        }
        (Client::Beside(_), Some(client)) if stack.is_shared && calls_the_level(client) => {
            (client.outside, addresses(stack, place)?.1)
        }
        (Client::Beside(_), Some(client)) if stack.is_far && client.is_shared => {
            addresses(stack, place)?
        }
        (Client::Beside(beside), client) => {
            require_same(stack, client, beside)?;
            addresses(stack, place)?
        }
        (Client::Native | Client::Stack, _) => addresses(stack, place)?,
    };
    let far = [Some(stack), other].into_iter().flatten().find(|network| network.is_far);
    let is_far = far.is_some();
    let is_ours = far.is_none_or(|far| address == far.outside);
    let link = far.and_then(|far| link::with_address(far.outside));
    if is_far && address.is_ipv6() {
        return Err(Fault::machine(
            "the other machine was reached by IPv6, and both sides call by \
                                   IPv4",
        )
        .hint(
            "name the host by its IPv4 address, or write `AddressFamily inet` for it into \
                   the client's configuration",
        ));
    }
    if is_far && is_ours && link.is_none() {
        return Err(Fault::machine(
            "the other machine sees this one at an address that is not its own, so it cannot call \
             a server here",
        )
        .hint(
            "name a host that is reached directly, without `ProxyJump` and without translation \
               of addresses",
        ));
    }
    Ok(Endpoints { address, listen, published: None, is_far, is_ours, link })
}

/// Tells whether the server stands on a machine's own network, where others are, too: also outside
/// of a stack that is not in it, and calls from there.
pub(super) fn is_among_others(network: &WorkloadNetwork, place: &Client) -> bool {
    let calls = *place == Client::Stack && is_the_levels(&network.namespace);
    network.is_shared || network.is_far || calls
}

/// Returns the address at which the client finds the server, and the one at which the server
/// listens: on a network that is a machine's own, only the one that is called, or the loopback
/// where that one is translated to it.
pub(super) fn addresses(
    network: &WorkloadNetwork,
    place: &Client,
) -> Result<(IpAddr, IpAddr), Fault> {
    let address = match place {
        Client::Stack => network.outside,
        _ => network.workload.ok_or_else(|| {
            Fault::machine("a command in the stack can call and not be called")
                .hint("put the client into the stack: `client=stack`")
        })?,
    };
    let listen = match is_among_others(network, place) {
        true if calls_the_level(network) => Ipv4Addr::LOCALHOST.into(),
        true => address,
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    Ok((address, listen))
}

/// Tells whether a command in there calls this level by an address that is translated.
fn calls_the_level(client: &WorkloadNetwork) -> bool {
    client.workload.is_none() && is_the_levels(&client.namespace)
}

/// Tells whether a network namespace is the level's own.
fn is_the_levels(namespace: &Path) -> bool {
    same_file(namespace, &WorkloadNetwork::of_level().namespace)
}

/// That two stacks are in one network after all.
fn require_same(
    server: &WorkloadNetwork,
    client: Option<&WorkloadNetwork>,
    beside: &StackSpec,
) -> Result<(), Fault> {
    let is_same = |client: &WorkloadNetwork| {
        client.is_shared == server.is_shared
            && (client.is_shared || same_file(&client.namespace, &server.namespace))
    };
    if client.is_some_and(is_same) {
        return Ok(());
    }
    Err(Fault::machine(format!("the client's stack `{beside}` is not in the server's network"))
        .hint("give both stacks a network of one kind: `net=…`"))
}

/// Tells whether two files that name namespaces name the same one. Source: `namespaces(7)`.
fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    identity(one).is_some() && identity(one) == identity(other)
}

/// A bridge for two sides of which none makes one: a server that is an ordinary process stands at
/// its address, where the outside of the client would be.
pub(super) struct Bridge {
    network: lab::RoomNetwork,
    room: Room,
}

impl Bridge {
    /// Makes one where the stack and the client's need it.
    ///
    /// # Errors
    /// The machine's: its kernel has no bridges.
    pub(super) fn between(
        definition: Option<&Definition>,
        stack: &StackSpec,
        context: &StartContext<'_>,
        name: &str,
    ) -> Result<Option<Self>, Fault> {
        let Some(definition) = definition else { return Ok(None) };
        let Client::Beside(beside) = &definition.client else { return Ok(None) };
        if definition.server.is_none() || !needs_bridge(stack, beside) {
            return Ok(None);
        }
        let room = context.lab.room(&format!("{name}-between"))?;
        let network = room.network().map_err(|fault| fault.during("the bridge of both sides"))?;
        Ok(Some(Self { network, room }))
    }

    /// Returns the path of its network namespace.
    pub(super) fn path(&self) -> PathBuf {
        self.network.path()
    }

    /// Takes it away; what was left of it.
    pub(super) fn close(self) -> Vec<String> {
        drop(self.network);
        self.room.close().unwrap_or_else(|fault| vec![fault.message])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUR_END: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THEIR_END: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 8));

    fn far() -> WorkloadNetwork {
        let workload = Some(THEIR_END);
        WorkloadNetwork {
            outside: OUR_END,
            workload,
            is_shared: false,
            is_far: true,
            ..WorkloadNetwork::of_level()
        }
    }

    #[test]
    fn a_server_on_this_machines_own_network_listens_at_its_loopback_alone() {
        let shared = WorkloadNetwork::of_level();
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(addresses(&shared, &Client::Native), Ok((loopback, loopback)));
        let [outside, workload] = [IpAddr::from([198, 18, 0, 1]), IpAddr::from([198, 18, 0, 2])];
        let wired = WorkloadNetwork::apart(PathBuf::from("/proc/0"), outside, Some(workload));
        let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        assert_eq!(addresses(&wired, &Client::Native), Ok((workload, everywhere)));
        assert_eq!(addresses(&wired, &Client::Stack), Ok((outside, everywhere)));
        let outward = WorkloadNetwork { workload: None, ..wired };
        assert!(
            addresses(&outward, &Client::Native).unwrap_err().message.ends_with("not be called")
        );
    }

    fn beside(text: &str) -> Client {
        Client::parse(text).unwrap()
    }

    #[test]
    fn a_client_on_another_machine_calls_the_address_at_which_that_one_sees_us() {
        let met = meet(&WorkloadNetwork::of_level(), Some(&far()), &beside("ssh:lab7")).unwrap();
        assert_eq!((met.address, met.listen), (OUR_END, OUR_END));
        let told: Vec<_> = met.facts().into_iter().map(|fact| fact.value).collect();
        assert_eq!(told, [OURS, "lo"]);
    }

    #[test]
    fn a_server_on_another_machine_listens_where_ssh_was_let_in_and_nowhere_else() {
        for (place, other) in [
            (Client::Native, WorkloadNetwork::of_level()),
            (beside("runc:net=host"), WorkloadNetwork::of_level()),
        ] {
            let met = meet(&far(), Some(&other), &place).unwrap();
            assert_eq!((met.address, met.listen), (THEIR_END, THEIR_END), "{place:?}");
            assert_eq!(met.facts()[0].value, THEIRS);
        }
        let met = meet(&far(), None, &Client::Stack).unwrap();
        assert_eq!((met.address, met.listen), (OUR_END, OUR_END));
    }

    #[test]
    fn a_machine_that_sees_us_at_an_address_of_somebody_elses_is_refused() {
        let translated = WorkloadNetwork { outside: [203, 0, 113, 7].into(), ..far() };
        let level = WorkloadNetwork::of_level();
        let why = meet(&level, Some(&translated), &beside("ssh:lab7")).unwrap_err().message;
        assert!(why.contains("at an address that is not its own"), "{why}");
        assert_eq!(meet(&translated, None, &Client::Stack).unwrap_err().message, why);
        // A client here calls the other machine, and is not called.
        assert!(meet(&translated, None, &Client::Native).is_ok());
        let v6 = WorkloadNetwork { outside: "::1".parse().unwrap(), ..far() };
        let why = meet(&level, Some(&v6), &beside("ssh:lab7")).unwrap_err().message;
        assert!(why.contains("by IPv6"), "{why}");
    }

    #[test]
    fn a_guest_behind_a_stack_of_its_own_calls_this_machines_loopback_at_another_address() {
        let outside = IpAddr::from([10, 0, 2, 2]);
        let user = WorkloadNetwork {
            outside,
            workload: None,
            is_shared: false,
            ..WorkloadNetwork::of_level()
        };
        let loopback = Ipv4Addr::LOCALHOST.into();
        let met =
            meet(&WorkloadNetwork::of_level(), Some(&user), &beside("qemu:net=user")).unwrap();
        assert_eq!((met.address, met.listen), (outside, loopback));
        let met = meet(&user, None, &Client::Stack).unwrap();
        assert_eq!((met.address, met.listen), (outside, loopback));
    }

    #[test]
    fn a_server_on_a_bridge_of_this_machines_own_network_listens_at_the_bridge_alone() {
        let [ours, theirs] = [1, 2].map(|it| IpAddr::from([172, 17, 0, it]));
        let level = WorkloadNetwork::of_level().namespace;
        let bridged = WorkloadNetwork::apart(level, ours, Some(theirs));
        assert_eq!(addresses(&bridged, &Client::Stack), Ok((ours, ours)));
        assert!(is_among_others(&bridged, &Client::Stack));
        // In the stack a server is in a network of its own.
        let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        assert_eq!(addresses(&bridged, &Client::Native), Ok((theirs, everywhere)));
        assert!(!is_among_others(&bridged, &Client::Native));
    }

    #[test]
    fn stacks_that_are_not_in_one_network_after_all_do_not_meet() {
        let bridge = WorkloadNetwork { is_shared: false, ..WorkloadNetwork::of_level() };
        for (stack, other) in [(WorkloadNetwork::of_level(), Some(bridge.clone())), (bridge, None)]
        {
            let fault = meet(&stack, other.as_ref(), &beside("runc:net=veth")).unwrap_err();
            assert!(fault.message.ends_with("is not in the server's network"), "{fault}");
        }
    }
}
