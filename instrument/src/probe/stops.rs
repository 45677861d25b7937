//! Children of this process that were stopped or continued by a signal.
//!
//! A virtual machine or an engine that somebody stops for a while looks like a slow one.
//!
//! - **Reads** what `waitid` says of every child with `WSTOPPED` and `WCONTINUED`, and takes it
//!   away.
//! - **Costs** one system call, and one more for each change.
//! - **Cannot see** how long, nor a second stop of the same child since the last look, nor whoever
//!   is no child of this process, nor a control group that was frozen.
//! - **Reference** `waitid(2)`, `signal(7)`.

use rustix::process::{WaitId, WaitIdOptions, waitid};

/// The kernel keeps one change per child; more children than these are not looked at.
const CHILDREN_MAX: u64 = 1024;

/// Counts the children that were stopped or continued since the last look. None is reaped.
#[must_use]
pub fn of_children() -> u64 {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
    let mut count = 0;
    while count < CHILDREN_MAX && matches!(waitid(WaitId::All, options), Ok(Some(_))) {
        count += 1;
    }
    count
}
