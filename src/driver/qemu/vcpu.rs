//! Threads of the machine: virtual CPUs pinned to CPUs of this level, and a thread for the disk.
//!
//! Pinned as soon as QEMU has its threads, which is before the guest's firmware has run.

use crate::fault::{Doing, Fault};
use crate::lab::Limits;
use crate::layer::{LayerSpec, OptionSpec, option};
use crate::vm::disk::IOTHREAD_ID;
use crate::vm::qmp::{IoThread, Qmp, VirtualCpu};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::path::Path;
use surtax_instrument::probe::cgroup::{CPUS_MAX, parse_cpus};
use surtax_instrument::wire::Fact;

/// The options.
pub(super) const PIN: OptionSpec = option("pin", &[]).help(
    "`on` keeps each virtual CPU on a CPU of its own, of `cpuset=` if that is given; a list such \
     as `2;3` says on which, in their order (default: off)",
);
pub(super) const IOTHREAD: OptionSpec = option("iothread", &["on", "off"]).help(
    "whether the scratch disk has a thread of its own; virtio-blk and virtio-scsi (default: off)",
);

/// CPUs that the virtual CPUs are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// To the first CPUs that there are.
    Any,
    /// To these, in the order of the virtual CPUs.
    To(Vec<u32>),
}

impl Pin {
    /// Reads the option.
    ///
    /// # Errors
    /// The user's: it is no list of CPUs, or one is in it twice.
    pub(super) fn read(spec: &LayerSpec) -> Result<Option<Self>, Fault> {
        let Some(text) = spec.option("pin") else { return Ok(None) };
        match text {
            "off" => return Ok(None),
            "on" => return Ok(Some(Self::Any)),
            _ => {}
        }
        let cpus = text.split(';').try_fold(Vec::new(), |mut cpus, part| {
            cpus.extend(parse_cpus(part)?);
            (cpus.len() <= CPUS_MAX as usize).then_some(cpus)
        });
        let cpus = cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(|| {
            Fault::user(format!("`pin={text}` is neither `on` nor `off` nor a list of CPUs"))
                .hint(format!("write `pin=on`, or CPUs below {CPUS_MAX} such as `pin=2;3`"))
        })?;
        if let Some(twice) =
            cpus.iter().find(|&cpu| cpus.iter().filter(|it| *it == cpu).count() > 1)
        {
            return Err(Fault::user(format!("`pin={text}` has CPU {twice} twice"))
                .hint("give each virtual CPU a CPU of its own"));
        }
        Ok(Some(Self::To(cpus)))
    }

    /// Returns the number of virtual CPUs that a list is for; `None` without a list.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Any => None,
            Self::To(cpus) => Some(cpus.len()),
        }
    }

    /// The CPU of each of `count` virtual CPUs, of those that the machine may run on. Which these
    /// are only its own level knows, where no limit names them; elsewhere all of a list may be.
    ///
    /// # Errors
    /// The user's: there are fewer than that, or one of the list is not among them.
    pub(super) fn resolve(
        &self,
        count: u32,
        limits: &Limits,
        is_here: bool,
    ) -> Result<Vec<u32>, Fault> {
        let usable = match (&limits.cpuset, self) {
            (Some(cpus), _) => cpus.clone(),
            (None, _) if is_here => own_cpus()?,
            (None, Self::To(cpus)) => cpus.clone(),
            (None, Self::Any) => return Ok(Vec::new()),
        };
        self.choose(usize::try_from(count).unwrap_or(usize::MAX), &usable)
    }

    fn choose(&self, count: usize, usable: &[u32]) -> Result<Vec<u32>, Fault> {
        let listed = match self {
            Self::Any => usable.get(..count).ok_or_else(|| {
                Fault::user(format!(
                    "`pin=on`: {count} virtual CPUs, and only the CPUs {usable:?} to pin them to"
                ))
                .hint(format!("use `cpus={}` or fewer", usable.len()))
            })?,
            Self::To(cpus) => cpus,
        };
        if let Some(foreign) = listed.iter().find(|cpu| !usable.contains(cpu)) {
            return Err(Fault::user(format!(
                "`pin=`: the machine may not run on CPU {foreign}, but on {usable:?}"
            ))
            .hint("take it out of `pin=`, or add it to `cpuset=`"));
        }
        if listed.len() != count {
            return Err(Fault::user(format!(
                "`pin=` names {} CPUs for {count} virtual CPUs",
                listed.len()
            ))
            .hint(format!("write `cpus={}`, or a CPU for each", listed.len())));
        }
        Ok(listed.to_vec())
    }
}

/// Pins each thread of a process to its CPU. What thread it is the process says, which a guest may
/// have taken over.
///
/// # Errors
/// The machine's: it is no thread of that process, or the kernel refuses.
pub(super) fn pin(process: u32, threads: &[VirtualCpu], cpus: &[u32]) -> Result<(), Fault> {
    for (thread, cpu) in threads.iter().zip(cpus) {
        if !Path::new(&format!("/proc/{process}/task/{}", thread.thread_id)).exists() {
            let number = thread.thread_id;
            return Err(Fault::machine(format!(
                "thread {number}, as QEMU says, is none of its own"
            )));
        }
        let mut set = CpuSet::new();
        set.set(usize::try_from(*cpu).unwrap_or(usize::MAX));
        sched_setaffinity(pid_of(thread.thread_id), &set)
            .doing(format_args!("keep a virtual CPU on CPU {cpu}"))?;
    }
    Ok(())
}

/// On which CPUs each virtual CPU may run; where they were pinned, that it is the one it was given.
///
/// # Errors
/// It may run on others.
pub(super) fn prove(
    process: u32,
    threads: &[VirtualCpu],
    pinned: Option<&[u32]>,
) -> Result<Fact, Fault> {
    let mut all = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        let path = format!("/proc/{process}/task/{}/status", thread.thread_id);
        let status = fs::read_to_string(&path).doing(format_args!("read `{path}`"))?;
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = allowed.unwrap_or_default().trim().to_owned();
        let asked = pinned.map(|cpus| cpus.get(index).map_or(String::new(), u32::to_string));
        if asked.as_ref().is_some_and(|asked| *asked != allowed) {
            let asked = asked.unwrap_or_default();
            return Err(Fault::machine(format!(
                "qemu: virtual CPU {index} was pinned to CPU {asked}, and may run on {allowed}"
            )));
        }
        all.push(allowed);
    }
    let key = if pinned.is_some() { "vcpu_pinned_to" } else { "vcpu_allowed_on" };
    Ok(Fact::new(key, all.join(" "), "/proc/PID/task/TID/status of QEMU, Cpus_allowed_list"))
}

/// The thread of the disk, which there is only where it was asked for.
///
/// # Errors
/// QEMU has another number of such threads.
pub(super) fn iothread(qmp: &mut Qmp, is_asked: bool) -> Result<Option<IoThread>, Fault> {
    let threads = qmp.iothreads()?;
    let found = threads.iter().find(|thread| thread.id == IOTHREAD_ID).cloned();
    if threads.len() == usize::from(is_asked) && found.is_some() == is_asked {
        return Ok(found);
    }
    let count = threads.len();
    Err(Fault::machine(format!(
        "qemu: `iothread=` was to be {is_asked}, and QMP lists {count} threads for disks"
    )))
}

fn own_cpus() -> Result<Vec<u32>, Fault> {
    let set = sched_getaffinity(None).doing("ask on which CPUs surtax may run")?;
    let is_in = |cpu: &u32| usize::try_from(*cpu).is_ok_and(|cpu| set.is_set(cpu));
    let most = u32::try_from(CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    Ok((0..most).filter(is_in).collect())
}

fn pid_of(thread: u32) -> Option<Pid> {
    i32::try_from(thread).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Pin>, Fault> {
        let options = [(String::from("pin"), text.to_owned())].into();
        Pin::read(&LayerSpec { kind: "qemu".into(), options })
    }

    #[test]
    fn each_virtual_cpu_gets_a_cpu_of_its_own() {
        assert_eq!(read("off"), Ok(None));
        let any = read("on").unwrap().unwrap();
        assert_eq!(any.choose(2, &[4, 5, 6]), Ok(vec![4, 5]));
        let listed = read("6;4-5").unwrap().unwrap();
        assert_eq!(listed.len(), Some(3));
        assert_eq!(listed.choose(3, &[4, 5, 6]), Ok(vec![6, 4, 5]));
    }

    #[test]
    fn cpus_that_are_too_few_foreign_or_shared_are_refused() {
        let fault = Pin::Any.choose(3, &[0, 1]).unwrap_err();
        assert_eq!(
            fault.message,
            "`pin=on`: 3 virtual CPUs, and only the CPUs [0, 1] to pin them to"
        );
        let fault = Pin::To(vec![0, 2]).choose(2, &[0, 1]).unwrap_err();
        assert!(fault.message.contains("may not run on CPU 2"), "{fault}");
        let fault = Pin::To(vec![0]).choose(2, &[0, 1]).unwrap_err();
        assert!(fault.message.contains("names 1 CPUs for 2 virtual CPUs"), "{fault}");
        assert!(read("0;0").unwrap_err().message.contains("has CPU 0 twice"));
        for text in ["left", "8192", "0-4294967295", "0-8191;0"] {
            let fault = read(text).unwrap_err();
            assert!(fault.message.ends_with("nor a list of CPUs"), "{text}: {fault}");
            assert!(fault.hint.unwrap().contains("CPUs below 8192"), "{text}");
        }
    }

    #[test]
    fn a_thread_is_pinned_and_read_back() {
        let cpu = own_cpus().unwrap()[0];
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (says, hears) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            says.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = receiver.recv();
        });
        let thread_id = u32::try_from(hears.recv().unwrap()).unwrap();
        let cpus = [VirtualCpu { thread_id, path: String::new() }];
        let of_all = [VirtualCpu { thread_id: 0, path: String::new() }];
        assert!(pin(std::process::id(), &of_all, &[cpu]).is_err(), "0 is whoever asks");
        assert!(pin(1, &cpus, &[cpu]).is_err());
        pin(std::process::id(), &cpus, &[cpu]).unwrap();
        let fact = prove(std::process::id(), &cpus, Some(&[cpu])).unwrap();
        assert_eq!(fact.value, cpu.to_string());
        assert!(prove(std::process::id(), &cpus, Some(&[cpu + 1])).is_err());
        drop(sender);
        thread.join().unwrap();
    }
}
