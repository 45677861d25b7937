//! Queues of a network device, and who moves their frames.

use crate::fault::Fault;
use crate::lab;

/// The most queues that are asked for: more than anybody measures.
const QUEUES_MOST: u32 = 64;

/// Reads how many there are.
///
/// # Errors
/// The user's: too many, or more than there are CPUs.
pub(super) fn queues(text: &str, cpus: u32) -> Result<u32, Fault> {
    let count: u32 =
        text.parse().ok().filter(|count| (1..=QUEUES_MOST).contains(count)).ok_or_else(|| {
            Fault::user(format!("`queues={text}` is no number from 1 to {QUEUES_MOST}"))
                .hint("write for example `queues=2`")
        })?;
    if count > cpus {
        return Err(Fault::user(format!(
            "a guest uses one queue for each CPU: {cpus}, and not `queues={count}`"
        ))
        .hint(format!("give the machine `cpus={count}`, or `queues={cpus}`")));
    }
    Ok(count)
}

/// The workers of this level's kernel that move frames for a QEMU: threads of it since Linux 6.4,
/// and processes of the kernel before. Source: Linux `drivers/vhost/vhost.c`,
/// `kernel/vhost_task.c`.
pub(in crate::driver::qemu) fn vhost_workers(pid: u32) -> (Vec<u32>, Vec<u32>) {
    let named = |directory: &str| -> Vec<u32> {
        let all = lab::tasks(directory).unwrap_or_default();
        let workers = all.into_iter().filter(|(name, _)| *name == format!("vhost-{pid}"));
        workers.map(|(_, number)| number).collect()
    };
    (named(&format!("/proc/{pid}/task")), named("/proc"))
}
