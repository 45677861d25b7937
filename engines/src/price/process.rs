//! Prices of making what runs: a thread, and a process with a program in it.

use super::Setting;
use super::batch::Measured;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::io;
use std::ptr;

/// The thread does nothing.
pub fn thread(setting: &Setting) -> io::Result<Measured> {
    setting.each(|| {
        let thread = std::thread::Builder::new().spawn(|| {})?;
        thread.join().map_err(|_| io::Error::other("a thread that does nothing panicked"))
    })
}

/// Forked in the old way, not by a short cut such as `vfork` or `posix_spawn`, which leave out
/// copying the page tables.
pub fn fork_exec(setting: &Setting) -> io::Result<Measured> {
    let mut arguments: Vec<*const libc::c_char> =
        setting.program.iter().map(|word| word.as_ptr()).collect();
    let program = *arguments.first().ok_or_else(|| io::Error::other("no program is named"))?;
    arguments.push(ptr::null());
    setting.each(|| {
        // SAFETY: the child calls nothing but execv and _exit, which it may whatever threads
        // there are.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: words that end with a null byte, in a list that ends with a null
                // pointer.
                unsafe { libc::execv(program, arguments.as_ptr()) };
                // SAFETY: ends the child, and runs nothing of its parent's.
                unsafe { libc::_exit(127) }
            }
            child => expect_success(child),
        }
    })
}

fn expect_success(child: i32) -> io::Result<()> {
    let status = waitpid(Pid::from_raw(child), WaitOptions::empty())?;
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(127) => Err(io::Error::other("the program that was to run could not be started")),
        other => {
            Err(io::Error::other(format!("the program that was started ended with {other:?}")))
        }
    }
}
