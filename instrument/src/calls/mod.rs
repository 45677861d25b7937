//! Counts the system calls of a command, by number: in a trial that is in no time, since each call
//! costs more meanwhile.
//!
//! - **Reads** the kernel's trace points of system calls and of processes, by programs of BPF that
//!   follow every process and thread which comes of one.
//! - **Costs** some hundred nanoseconds of each system call on the whole machine.
//! - **Cannot see** what a kernel of its own answers, as a guest's or gVisor's: who stands in there
//!   counts, or nobody. From a PID namespace of its own it cannot be asked.
//! - **Reference** Linux `Documentation/trace/events.rst`, `bpf(2)`, `perf_event_open(2)`.

mod bpf;
mod perf;
mod program;
mod trace_event;

use bpf::Map;
use perf::Attached;
use program::Programs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use trace_event::{TraceEvents, field};

/// The most numbers of system calls that a kernel knows.
const NUMBERS: u32 = 1024;

/// The most processes and threads that are followed at once.
const TASKS: u32 = 1 << 16;

/// The most names of files, and the most descriptors, that are remembered.
const NAMES: u32 = 1 << 18;

/// Events at which a page of a file is faulted in: with those around it, and alone. Not every
/// kernel has the first one, without which most are not seen.
const FILE_FAULTS: [&str; 2] = ["filemap/mm_filemap_map_pages", "filemap/mm_filemap_fault"];

/// Inode of the PID namespace in which the numbers of the kernel itself are.
///
/// Source: Linux `include/linux/proc_ns.h` (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Counts of one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the call, as the architecture has it.
    pub number: u16,
    /// Number of times that it was asked for.
    pub count: u64,
    /// Sum of what it returned where that was more than 0: of calls that read and write, bytes.
    pub returned: u64,
    /// Number of times with the name of a file that nobody had said before.
    pub fresh: u64,
}

/// All that was counted of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were asked for at least once, by number.
    pub calls: Vec<Call>,
    /// Number of programs that were started.
    pub program_count: u64,
    /// Number of page faults of which a file stands behind the page; `None` where nobody says.
    pub file_fault_count: Option<u64>,
}

/// A counter that follows one process.
pub struct Counter {
    counts: Map,
    returned: Map,
    fresh: Map,
    started: Map,
    file_faults: Option<Map>,
    lost: Map,
    _programs: Vec<Attached>,
}

impl Counter {
    /// Follows what this process starts from now on, each from its first `execve`.
    ///
    /// # Errors
    /// The kernel does not let us, or has no such trace points.
    pub fn begin(parent: u32) -> io::Result<Self> {
        let events = TraceEvents::open().map_err(|error| {
            let why = format!("its kernel lets nobody see its trace points: {error}");
            io::Error::new(error.kind(), why)
        })?;
        if std::fs::metadata("/proc/self/ns/pid")?.ino() != FIRST_PID_NAMESPACE {
            let why = "processes have other numbers there than the kernel itself gives them";
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        let (tasks, names) = (Map::hash(4, TASKS)?, Map::hash(program::NAME_BYTES, NAMES)?);
        let closed = Map::hash(8, NAMES)?;
        let [counts, returned, fresh, places] = [(); 4].map(|()| Map::array(NUMBERS));
        let (counts, returned, fresh, places) = (counts?, returned?, fresh?, places?);
        let (started, lost) = (Map::array(1)?, Map::array(1)?);
        for (call, place) in program::LOOK_UP {
            places.set(u32::try_from(*call).unwrap_or(0), *place as u64)?;
        }
        for thread in threads_of(parent)? {
            tasks.set(thread, program::PARENT)?;
        }
        let programs = Programs {
            tasks: &tasks,
            counts: &counts,
            returned: &returned,
            fresh: &fresh,
            places: &places,
            names: &names,
            closed: &closed,
            started: &started,
            lost: &lost,
        };
        let enter = events.event("raw_syscalls/sys_enter")?;
        let exit = events.event("raw_syscalls/sys_exit")?;
        let fork = events.event("sched/sched_process_fork")?;
        let exec = events.event("sched/sched_process_exec")?;
        let gone = events.event("sched/sched_process_exit")?;
        let fork_fields = (field(&fork, "parent_pid", 4)?, field(&fork, "child_pid", 4)?);
        let exec_fields = (field(&exec, "pid", 4)?, field(&exec, "old_pid", 4)?);
        let exit_fields = (field(&exit, "id", 8)?, field(&exit, "ret", 8)?);
        let all = [
            (&enter, programs.enter(field(&enter, "id", 8)?, field(&enter, "args", 48)?)),
            (&exit, programs.exit(exit_fields)),
            (&fork, programs.fork(fork_fields)),
            (&exec, programs.exec(exec_fields)),
            (&gone, programs.gone()),
        ];
        let attached = all.map(|(event, code)| perf::attach(event.id, &bpf::load(&code)?));
        let mut attached = attached.into_iter().collect::<io::Result<Vec<_>>>()?;
        let file_faults = count_file_faults(&events, &programs, &mut attached)?;
        let _programs = attached;
        Ok(Self { counts, returned, fresh, started, file_faults, lost, _programs })
    }

    /// Returns what was counted.
    ///
    /// # Errors
    /// More ran at once than were followed, or the kernel does not say.
    pub fn end(self) -> io::Result<Counts> {
        if self.lost.get(0)? > 0 {
            let why = format!(
                "more than {TASKS} processes and threads ran at once, or {NAMES} names of files \
                 were said"
            );
            return Err(io::Error::new(ErrorKind::QuotaExceeded, why));
        }
        let mut calls = Vec::new();
        for number in 0..NUMBERS {
            let count = self.counts.get(number)?;
            if count > 0 {
                let (returned, fresh) = (self.returned.get(number)?, self.fresh.get(number)?);
                let number = u16::try_from(number).unwrap_or(u16::MAX);
                calls.push(Call { number, count, returned, fresh });
            }
        }
        let file_fault_count = self.file_faults.as_ref().map(|map| map.get(0)).transpose()?;
        Ok(Counts { calls, program_count: self.started.get(0)?, file_fault_count })
    }
}

/// Counts faults of pages of files, where the kernel has all that tells of them.
fn count_file_faults(
    events: &TraceEvents,
    programs: &Programs<'_>,
    attached: &mut Vec<Attached>,
) -> io::Result<Option<Map>> {
    let faults = FILE_FAULTS.map(|name| events.event(name));
    let Ok(faults) = faults.into_iter().collect::<io::Result<Vec<_>>>() else { return Ok(None) };
    let map = Map::array(1)?;
    let code = programs.file_fault(&map);
    for event in faults {
        attached.push(perf::attach(event.id, &bpf::load(&code)?)?);
    }
    Ok(Some(map))
}

/// Lists the threads of a process.
fn threads_of(process: u32) -> io::Result<Vec<u32>> {
    let named = |entry: io::Result<std::fs::DirEntry>| {
        entry.map(|it| it.file_name().to_str().and_then(|name| name.parse().ok()))
    };
    let threads = std::fs::read_dir(format!("/proc/{process}/task"))?.map(named);
    Ok(threads.collect::<io::Result<Vec<Option<u32>>>>()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
