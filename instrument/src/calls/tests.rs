//! Counts of commands whose system calls are known.

use super::*;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Held while somebody counts: the children of one test are those of all, which are one process.
static COUNTING: Mutex<()> = Mutex::new(());

/// Counts what a command asks for; `None` where nobody may count here.
fn counted(program: &str, arguments: &[&str]) -> Option<Counts> {
    let _alone = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let counter = match Counter::begin(std::process::id()) {
        Ok(counter) => counter,
        Err(error) => {
            assert!(!rustix::process::geteuid().is_root(), "root may count: {error}");
            eprintln!("skipped: system calls cannot be counted here: {error}");
            return None;
        }
    };
    #[expect(clippy::disallowed_methods, reason = "a test starts what it counts")]
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", "/usr/bin").stdout(Stdio::null());
    let ended = command.status().unwrap();
    assert!(ended.success());
    Some(counter.end().unwrap())
}

fn of(Counts { calls, .. }: &Counts, number: libc::c_long) -> (u64, u64) {
    let found = calls.iter().find(|call| libc::c_long::from(call.number) == number);
    found.map_or((0, 0), |call| (call.count, call.returned))
}

/// `dd` reads and writes as often as it is told, and its children are nobody.
#[test]
fn every_call_of_a_command_is_counted_by_number_with_what_it_returned() {
    let blocks = ["if=/dev/zero", "of=/dev/null", "bs=1000", "count=4321", "status=none"];
    let Some(calls) = counted("dd", &blocks) else { return };
    let (reads, bytes) = of(&calls, libc::SYS_read);
    assert!((4321..4340).contains(&reads), "{calls:?}");
    assert!((4_321_000..4_400_000).contains(&bytes), "{calls:?}");
    assert_eq!(of(&calls, libc::SYS_write), (4321, 4_321_000));
    assert_eq!(of(&calls, libc::SYS_execve).0, 1);
    assert_eq!((of(&calls, libc::SYS_exit_group).0, calls.program_count), (1, 1));
}

/// Also of the children of its children; those of the shell itself are in it, and ours are not.
#[test]
fn what_comes_of_a_command_is_counted_with_it() {
    let line = "for it in 1 2 3; do (exec env env env true); done";
    let Some(calls) = counted("sh", &["-c", line]) else { return };
    assert_eq!(of(&calls, libc::SYS_execve).0, 1 + 3 * 4, "{calls:?}");
    assert_eq!(of(&calls, libc::SYS_exit_group).0, 4, "{calls:?}");
    assert_eq!(calls.program_count, 13);
    // What could not be executed is no program.
    let Some(calls) = counted("sh", &["-c", "/nothing/here; exec /usr/bin/true"]) else { return };
    assert_eq!(calls.program_count, 2);
}

/// A name is new once in each folder, whichever call says it; a descriptor that was closed may be
/// of another folder. Of one that lies in memory which nobody has touched, nothing is known.
#[test]
fn names_of_files_are_new_once_in_each_folder() {
    let names = tempfile::tempdir().unwrap();
    for folder in ["a", "b"] {
        std::fs::create_dir(names.path().join(folder)).unwrap();
        for file in 0..50 {
            std::fs::write(names.path().join(format!("{folder}/{file}")), "").unwrap();
        }
    }
    let path = names.path().to_str().unwrap();
    // What these ask for anyway, which is the same whatever they find.
    let fresh = |program, arguments: &[&str]| {
        counted(program, arguments).map(|calls| calls.calls.iter().map(|it| it.fresh).sum::<u64>())
    };
    let Some(without) = fresh("find", &["/proc/sys/net/core/somaxconn", "-ls"]) else { return };
    let all = fresh("find", &[path, "-ls"]).unwrap();
    assert!((all - without).abs_diff(102) <= 8, "{all} {without}");
    let once = fresh("stat", &[&format!("{path}/a/1")]).unwrap();
    let thrice = fresh("stat", &[format!("{path}/a/1").as_str(); 3]).unwrap();
    assert!(once.abs_diff(thrice) <= 8, "{once} {thrice}");
}

/// Libraries are mapped from files, and what a program zeroes is not.
#[test]
fn faults_of_pages_of_files_are_told_from_others() {
    let Some(few) = counted("true", &[]) else { return };
    let zeroes = ["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", "status=none"];
    let many = counted("dd", &zeroes).unwrap();
    let Some((few, many)) = few.file_fault_count.zip(many.file_fault_count) else { return };
    assert!(few > 5 && many.abs_diff(few) < 100, "{few} {many}");
}

/// A thread that executes a file becomes its process, whose first thread has ended by then.
#[test]
fn a_program_that_a_thread_starts_is_counted_on() {
    let line = "import os, threading; threading.Thread(target=lambda: \
                os.execv('/usr/bin/env', ['env', '/usr/bin/true'])).start()";
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return;
    }
    let Some(calls) = counted("/usr/bin/python3", &["-c", line]) else { return };
    assert_eq!((calls.program_count, of(&calls, libc::SYS_exit_group).0), (3, 1));
}
