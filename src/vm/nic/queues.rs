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
/// and threads of the kernel's own before. A process of anybody's may bear the name of one. Source:
/// Linux `drivers/vhost/vhost.c`, `kernel/vhost_task.c`.
pub(crate) fn vhost_workers(pid: u32) -> (Vec<u32>, Vec<u32>) {
    let named = |directory: &str| -> Vec<u32> {
        let all = lab::tasks(directory).unwrap_or_default();
        let workers = all.into_iter().filter(|(name, _)| *name == format!("vhost-{pid}"));
        workers.map(|(_, number)| number).collect()
    };
    let mut of_the_kernel = named("/proc");
    of_the_kernel.retain(|pid| lab::is_of_the_kernel(*pid));
    (named(&format!("/proc/{pid}/task")), of_the_kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process that belongs to no room")]
    fn whoever_calls_himself_a_worker_of_the_kernel_is_none() {
        let mut qemu = std::process::Command::new("sleep").arg("20").spawn().unwrap();
        let name = format!("vhost-{}", qemu.id());
        // The shell itself waits, which bears the name.
        let script = format!("printf {name} > /proc/$$/comm; echo; read end");
        let mut other = std::process::Command::new("sh")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let is_named = |(named, pid): (String, u32)| named == name && pid == other.id();
        assert!(lab::tasks("/proc").unwrap().into_iter().any(is_named));
        assert_eq!(vhost_workers(qemu.id()), (Vec::new(), Vec::new()));
        for child in [&mut qemu, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
