//! The CPUs that both ends are to have: the choice is made from what both may use, and so is the
//! same in every trial.
//!
//! Two ends that share a CPU take turns, which costs a switch for each message; on two CPUs each
//! message wakes the other one. The same engine is two to nine times as fast on the one as on the
//! other, so left to the scheduler it has two results.

use super::place::{EndPlace, list_of};
use crate::Refused;
use std::fmt;
use surtax_instrument::wire::INSTANCES_LIMIT;

/// CPUs that are wanted for both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuRequest {
    /// Whatever the schedulers do.
    Free,
    /// A CPU of its own for each, where there are two; for the instance of this number among
    /// several that run at once.
    Apart(usize),
    /// One CPU for both, likewise.
    Together(usize),
    /// These.
    Named {
        /// Of the client.
        client: Option<usize>,
        /// Of the server, by its own kernel's numbers.
        server: Option<usize>,
    },
}

impl CpuRequest {
    /// Reads `apart`, `together`, `free`, or the client's CPU and the server's: `0/1`, `any/1`;
    /// with the number of an instance, `apart@2`, the ends of each have other CPUs as long as there
    /// are any.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let cpu = |text: &str| match text {
            "any" => Some(None),
            number => number.parse().ok().filter(|cpu: &usize| *cpu <= 65_535).map(Some),
        };
        let (text, instance) = match text.split_once('@') {
            Some((text, number)) => (text, number.parse().ok().filter(|it| *it < INSTANCES_LIMIT)?),
            None => (text, 0),
        };
        match text {
            "free" => Some(Self::Free),
            "apart" => Some(Self::Apart(instance)),
            "together" => Some(Self::Together(instance)),
            pair => {
                let (client, server) = pair.split_once('/')?;
                Some(Self::Named { client: cpu(client)?, server: cpu(server)? })
            }
        }
    }

    /// The CPU for the server, given where both are now.
    ///
    /// # Errors
    /// The user's: there is none that both could share.
    pub(super) fn of_server(
        self,
        client: &EndPlace,
        server: &EndPlace,
    ) -> Result<Option<usize>, Refused> {
        let theirs = list_of(&client.cpus);
        let ours = self.last_first(&server.cpus);
        let is_one_kernel = client.is_with(server);
        Ok(match self {
            Self::Free => None,
            Self::Named { server, .. } => server,
            Self::Together(_) if is_one_kernel => {
                let shared = ours.iter().find(|cpu| theirs.contains(cpu)).copied();
                Some(shared.ok_or_else(|| nothing_shared(&client.cpus, &server.cpus))?)
            }
            Self::Together(_) => ours.first().copied(),
            Self::Apart(_) => {
                let is_left = |cpu: &&usize| !is_one_kernel || theirs != [**cpu];
                ours.iter().find(is_left).or(ours.first()).copied()
            }
        })
    }

    /// The CPUs of a list, the last one first: the first is where a kernel does most of its own
    /// work. Of several instances each begins two further.
    fn last_first(self, cpus: &str) -> Vec<usize> {
        let mut cpus = list_of(cpus);
        cpus.reverse();
        let steps = match self {
            Self::Apart(instance) | Self::Together(instance) => 2 * instance,
            Self::Free | Self::Named { .. } => 0,
        };
        let count = cpus.len().max(1);
        cpus.rotate_left(steps % count);
        cpus
    }

    /// The CPU for the client, given where it is and where the server has gone; `are_siblings`
    /// tells two halves of a core.
    pub(super) fn of_client(
        self,
        client: &EndPlace,
        server: &EndPlace,
        are_siblings: impl Fn(usize, usize) -> bool,
    ) -> Option<usize> {
        let ours = self.last_first(&client.cpus);
        let last = ours.first().copied();
        let is_one_kernel = client.is_with(server);
        let theirs = if is_one_kernel { list_of(&server.cpus).last().copied() } else { last };
        match self {
            Self::Free => None,
            Self::Named { client, .. } => client,
            Self::Together(_) => theirs,
            // The server's number, also where that is another kernel's: so the client has the same
            // one in all stacks.
            Self::Apart(_) => {
                let others = || ours.iter().filter(|cpu| Some(**cpu) != theirs);
                let on_own_core =
                    others().find(|cpu| theirs.is_none_or(|theirs| !are_siblings(**cpu, theirs)));
                on_own_core.or_else(|| others().next()).or(ours.first()).copied()
            }
        }
    }
}

fn nothing_shared(client: &str, server: &str) -> Refused {
    Refused::user(format!(
        "both ends have no CPU in common: the client {client}, the server {server}"
    ))
    .hint("let them be `apart`, or give both the same CPUs")
}

impl fmt::Display for CpuRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |cpu: Option<usize>| cpu.map_or(String::from("any"), |cpu| cpu.to_string());
        match self {
            Self::Free => f.write_str("free"),
            Self::Apart(0) => f.write_str("apart"),
            Self::Together(0) => f.write_str("together"),
            Self::Apart(instance) => write!(f, "apart@{instance}"),
            Self::Together(instance) => write!(f, "together@{instance}"),
            Self::Named { client, server } => write!(f, "{}/{}", word(*client), word(*server)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cpus: &str, kernel: &str) -> EndPlace {
        EndPlace { cpus: cpus.into(), kernel: kernel.into(), ..EndPlace::unknown() }
    }

    /// Returns the CPUs that both go to: client and server.
    fn seats(request: &str, client: &str, server: (&str, &str)) -> (Option<usize>, Option<usize>) {
        let request = CpuRequest::parse(request).unwrap();
        let (client, server) = (place(client, "1"), place(server.0, server.1));
        let seat = request.of_server(&client, &server).unwrap();
        let after = seat.map_or(server.clone(), |seat| place(&seat.to_string(), &server.kernel));
        (request.of_client(&client, &after, |one, other| one / 2 == other / 2), seat)
    }

    #[test]
    fn ends_apart_have_cpus_of_their_own_where_there_are_two() {
        for (client, server, expected) in [
            ("0-1", ("0-1", "1"), (0, 1)),
            ("0", ("0", "1"), (0, 0)),
            ("1", ("0-1", "1"), (1, 0)),
            ("0-1", ("1", "1"), (0, 1)),
            // CPUs 6 and 7 are one core.
            ("0-7", ("0-7", "1"), (5, 7)),
            // Another kernel's numbers are its own.
            ("0-1", ("0", "2000000000"), (0, 0)),
            ("0-7", ("0-3", "2000000000"), (5, 3)),
            ("0", ("0-1", "2000000000"), (0, 1)),
            ("0-1", ("0-1", "?"), (0, 1)),
        ] {
            let expected = (Some(expected.0), Some(expected.1));
            assert_eq!(seats("apart", client, server), expected, "{client} {server:?}");
        }
    }

    #[test]
    fn the_ends_of_several_instances_have_cpus_of_their_own_as_long_as_there_are_any() {
        let of = |request: &str, cpus: &str| seats(request, cpus, (cpus, "1"));
        let apart = ["apart@0", "apart@1", "apart@2"].map(|request| of(request, "0-7"));
        assert_eq!(apart, [(Some(5), Some(7)), (Some(3), Some(5)), (Some(1), Some(3))]);
        assert_eq!(["apart", "apart@1"].map(|request| of(request, "0-1")), [(Some(0), Some(1)); 2]);
        assert_eq!(of("together@1", "0-3"), (Some(1), Some(1)));
        assert_eq!(of("0/1@3", "0-3"), (Some(0), Some(1)));
    }

    #[test]
    fn ends_together_share_a_cpu_or_are_refused() {
        assert_eq!(seats("together", "0-1", ("0-1", "1")), (Some(1), Some(1)));
        assert_eq!(seats("together", "0-1", ("0", "1")), (Some(0), Some(0)));
        assert_eq!(seats("together", "0-1", ("0-3", "2000000000")), (Some(1), Some(3)));
        let refused =
            CpuRequest::Together(0).of_server(&place("0", "1"), &place("1", "1")).unwrap_err();
        assert!(refused.what.starts_with("both ends have no CPU in common: the client 0, "));
    }

    #[test]
    fn a_wish_is_read_as_it_is_written() {
        for text in ["free", "apart", "together", "0/1", "any/7", "3/any", "apart@2", "together@1"]
        {
            assert_eq!(CpuRequest::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "near", "0", "0/", "/1", "-1/0", "0/1/2", "0/70000", "apart@", "apart@64"]
        {
            assert_eq!(CpuRequest::parse(text), None, "{text}");
        }
        assert_eq!(seats("free", "0-1", ("0-1", "1")), (None, None));
        assert_eq!(seats("any/1", "0-1", ("0-1", "1")), (None, Some(1)));
    }
}
