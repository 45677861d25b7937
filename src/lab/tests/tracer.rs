//! For tests: SIGKILL at every system call of a life that can change something.
//!
//! A life is led by a test of this very program, started again and traced: it stops at each system
//! call between its two marks, and is killed before the call is made. What it says on its standard
//! output has been promised. Who traces it is a process of its own, too: beside other tests, one
//! that waits for any child would be told of a stop that is meant for the tracer.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Variable that names the place of a life, in the environment of the process that leads it.
const PLACE: &str = "SURTAX_TEST_LIFE";

/// Says to the program that is started again that it leads and kills such lives.
const TRACER: &str = "SURTAX_TEST_LIVES";

/// System calls that change no file: a kill before one of them leaves what a kill before the next
/// call leaves.
const HARMLESS: [i64; 22] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_getcwd,
    libc::SYS_getpid,
    libc::SYS_geteuid,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_fcntl,
];

/// Of `struct ptrace_syscall_info`: that a call is about to be made.
const ENTRY: u64 = 1;

/// `PTRACE_GET_SYSCALL_INFO` of `linux/ptrace.h`.
const GET_SYSCALL_INFO: libc::c_uint = 0x420e;

/// Returns the place where this process is to lead a life; `None` where it only happens to come to
/// that test.
pub(crate) fn place() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(PathBuf::from)
}

/// Says to whoever traces this process that its life begins, or has ended.
pub(crate) fn mark() {
    // The number is nobody's business; the call is seen.
    let _ = std::os::unix::process::parent_id();
}

/// One life after another, each killed one call later than the last, until one ends by itself:
/// `before` is given where it is led just before it is killed, and `check` that, what it had said,
/// and the number of the call. All of it in a process that runs `test` alone.
#[expect(clippy::disallowed_methods, reason = "a test in a process of its own, and waited for")]
pub(crate) fn kill_at_each<T: Default>(
    test: &str,
    life: &str,
    before: impl Fn(&Path, usize) -> T,
    check: impl FnMut(&Path, &str, usize, T),
) {
    if std::env::var_os(TRACER).is_some() {
        return lead_and_kill(life, before, check);
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(TRACER, "");
    let ended = alone.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains(" kill points"), "{said}");
}

fn lead_and_kill<T: Default>(
    life: &str,
    before: impl Fn(&Path, usize) -> T,
    mut check: impl FnMut(&Path, &str, usize, T),
) {
    let mut point = 0;
    loop {
        let place = tempfile::tempdir().unwrap();
        let mut seen = None;
        let said = lead(life, place.path(), point, || seen = Some(before(place.path(), point)));
        let was_killed = seen.is_some();
        check(place.path(), &said, point, seen.unwrap_or_default());
        if !was_killed {
            break;
        }
        point += 1;
    }
    assert!(point > 50, "a life has only {point} points");
    println!("{point} kill points");
}

/// Leads a life and kills it before the call of this number, and after `before`, if it comes so
/// far; what it had said.
#[expect(clippy::zombie_processes, reason = "whoever traces it waits for it")]
fn lead(life: &str, place: &Path, point: usize, before: impl FnMut()) -> String {
    let mut child = start(life, place);
    trace(&child, point, before);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    said
}

#[expect(clippy::disallowed_methods, reason = "a process that is traced, and dies with its tracer")]
fn start(life: &str, place: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", life, "--nocapture", "--test-threads=1"]).env(PLACE, place);
    command.stdout(Stdio::piped());
    let trace_me = || match ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: the function makes one system call, and allocates nothing unless that fails.
    unsafe { command.pre_exec(trace_me) };
    command.spawn().unwrap()
}

/// Follows a process and its threads from call to call until it is killed, or has ended.
fn trace(child: &Child, point: usize, mut before: impl FnMut()) {
    let (mut marks, mut calls, mut is_set) = (0, 0, false);
    loop {
        let Some((thread, status)) = wait() else { return };
        let has_ended = libc::WIFEXITED(status) || libc::WIFSIGNALED(status);
        if has_ended && thread.cast_unsigned() == child.id() {
            assert!(libc::WIFSIGNALED(status) || libc::WEXITSTATUS(status) == 0, "it failed");
            return;
        }
        if has_ended {
            continue;
        }
        if !is_set {
            let options =
                libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
            ptrace(libc::PTRACE_SETOPTIONS, thread, 0, options.cast_unsigned() as usize);
            is_set = true;
        }
        let mut signal = 0;
        match libc::WSTOPSIG(status) {
            stop if stop == libc::SIGTRAP | 0x80 => {
                let entered = entered(thread);
                marks += usize::from(entered == Some(libc::SYS_getppid));
                let counts = entered.is_some_and(|call| !HARMLESS.contains(&call));
                if marks == 1 && counts {
                    if calls == point {
                        before();
                        kill(child);
                    }
                    calls += 1;
                }
            }
            libc::SIGTRAP | libc::SIGSTOP => {}
            other => signal = other.cast_unsigned() as usize,
        }
        ptrace(libc::PTRACE_SYSCALL, thread, 0, signal);
    }
}

/// The call that a thread is about to make, if it is not on its way back from one.
fn entered(thread: libc::pid_t) -> Option<i64> {
    let mut info = [0u64; 16];
    let size = size_of_val(&info);
    ptrace(GET_SYSCALL_INFO, thread, size, info.as_mut_ptr() as usize);
    (info[0] & 0xff == ENTRY).then_some(info[3].cast_signed())
}

fn kill(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Waits for a child or a traced thread of this thread, and for nobody else's; `None` where there
/// is none left.
fn wait() -> Option<(libc::pid_t, libc::c_int)> {
    let mut status = 0;
    // SAFETY: the pointer is to a value of ours that outlives the call.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    (thread > 0).then_some((thread, status))
}

fn ptrace(request: libc::c_uint, thread: libc::pid_t, address: usize, data: usize) -> i64 {
    // SAFETY: of the requests made here only one writes, and `entered` hands it a buffer of that
    // size.
    unsafe { libc::ptrace(request, thread, address, data) }
}
