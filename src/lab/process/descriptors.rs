//! Descriptors that a child is handed, and the pipe that it reports by.

use super::{InheritedFds, pipe};
use crate::fault::{Doing, Fault};
use std::os::fd::{OwnedFd, RawFd};

/// Moves descriptors above all the numbers that they must get, so that none is overwritten before
/// it is copied; and says the first number above them.
pub(super) fn raise_descriptors(descriptors: InheritedFds) -> Result<(InheritedFds, RawFd), Fault> {
    if let Some((_, to)) = descriptors.iter().find(|(_, to)| *to < 3) {
        return Err(Fault::bug(format!("descriptor {to} is handed down through `stdio`")));
    }
    let above = descriptors.iter().map(|(_, to)| to + 1).max().unwrap_or(3);
    let copy = |(from, to): (OwnedFd, RawFd)| raised(&from, above).map(|copy| (copy, to));
    Ok((descriptors.into_iter().map(copy).collect::<Result<_, Fault>>()?, above))
}

/// A pipe for what a child could not do, which writes to it when it has taken its descriptors.
/// Whoever frees one of their numbers meanwhile, it sits on none.
pub(super) fn report_above(above: RawFd) -> Result<(OwnedFd, OwnedFd), Fault> {
    pipe().and_then(|(report, sent)| Ok((report, raised(&sent, above)?)))
}

fn raised(from: &OwnedFd, above: RawFd) -> Result<OwnedFd, Fault> {
    rustix::io::fcntl_dupfd_cloexec(from, above)
        .doing(format_args!("copy a descriptor above {above}"))
}
