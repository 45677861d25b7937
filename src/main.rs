//! The `surtax` command: hidden roles first, then the command line.

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, umask};
use signal_hook::consts::SIGXFSZ;
use std::process::ExitCode;
use std::sync::Arc;
use surtax::cli;
use surtax::driver::krun::library;
use surtax::fault::Fault;
use surtax::lab::{REAPER_ARGUMENT, reaper_main};
use surtax::prove::racer::attacker::{self, ATTACKER};
use surtax::prove::toil::{self, TOIL};
use surtax::stack::start::STARTER;
use surtax::stack::starter;

/// A word and what it asks for.
type Role = (&'static str, fn() -> Result<(), Fault>);

/// Roles of this binary, for when another surtax started it with one of these words first: serve as
/// the starter inside a layer, undo a journal whose owner died, become libkrun's machine, toil as a
/// proof's command, or race as another user. They speak no clap, so that they start fast and their
/// words stay out of the help.
const ROLES: [Role; 5] = [
    (STARTER, starter::serve),
    (REAPER_ARGUMENT, reap),
    (library::ARGUMENT, library::main),
    (TOIL, toil::main),
    (ATTACKER, attacker::main),
];

fn main() -> ExitCode {
    shut_to_writers();
    hear_of_children();
    hear_of_full_files();
    surtax::lab::hear_where_we_are();
    cli::catch_bugs(|| {
        let first = std::env::args_os().nth(1);
        let role = ROLES.iter().find(|(word, _)| first.as_ref().is_some_and(|first| first == word));
        if role.is_none_or(|(word, _)| *word == STARTER) {
            keep_keys();
        }
        match role {
            Some((_, role)) => cli::exit(role()),
            None => cli::main(std::env::args_os()),
        }
    })
}

/// Lets nobody else write to what this process makes, whatever it was started with; what was
/// forbidden stays forbidden.
fn shut_to_writers() {
    let before = umask(Mode::RWXG | Mode::RWXO);
    umask(before | Mode::WGRP | Mode::WOTH);
}

/// Hears how children end, whatever it was started with: where that signal is ignored, the kernel
/// tells nobody.
fn hear_of_children() {
    // SAFETY: no handler is named, and no other thread is there yet.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Learns of a file that may not grow (`ulimit -f`) from the call that would make it, and is not
/// ended without a word. Programs that it starts are ended by it as ever.
fn hear_of_full_files() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Keeps a command of the same user from the keys of sessions in this process's memory, and from
/// its descriptors. A kernel that cannot do it is one of an old sandbox.
fn keep_keys() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

fn reap() -> Result<(), Fault> {
    reaper_main(std::env::args_os().skip(2))
}
