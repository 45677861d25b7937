//! Looks for the program of a command, before anything is started.

use crate::driver;
use crate::fault::Fault;
use crate::lab;
use crate::layer::{LayerSpec, Root, StackSpec};
use crate::plan::{Plan, Word, shell_line};
use crate::workload::Workload;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use surtax_engines::OURSELVES;

/// Refuses a command that no stack of the plan would find, where all of them look where we do.
///
/// # Errors
/// The user's.
pub(super) fn require(plan: &Plan) -> Result<(), Fault> {
    let Some(program) = plan.command.first().filter(|program| **program != OURSELVES) else {
        return Ok(());
    };
    if !plan.stacks.iter().all(sees_our_files) {
        return Ok(());
    }
    let shown = program.escaped();
    let is_path = program.as_bytes().contains(&b'/');
    let fault = if is_path {
        fault_of_file(plan, program, &shown)
    } else if is_path_ours(plan) && lab::find(program).is_none() {
        Some(Fault::user(format!("`{shown}` is not in `PATH`, so no stack would find it")))
    } else {
        None
    };
    let Some(fault) = fault else { return Ok(()) };
    let definition = plan.workload.as_ref().map(Workload::resolve).transpose()?;
    // What is run before the command in each stack may make the file.
    if is_path && definition.as_ref().is_some_and(|definition| !definition.setup.is_empty()) {
        return Ok(());
    }
    if fault.hint.is_some() {
        return Err(fault);
    }
    let remedy = definition.and_then(|definition| definition.remedy());
    Err(fault.hint(remedy.unwrap_or_else(|| hint_of(&shown))))
}

/// Tells whether a stack's programs are those of this machine: the root of an inner layer lies over
/// that of the level around it.
fn sees_our_files(stack: &StackSpec) -> bool {
    let is_ours = |layer: &LayerSpec| {
        let descriptor = driver::descriptor(&layer.kind);
        !descriptor.is_some_and(|descriptor| descriptor.has_own_program)
            && matches!(layer.root(), Ok(Root::Overlay | Root::Host | Root::Packed))
    };
    stack.layers.iter().all(is_ours) && !driver::runs_elsewhere(stack)
}

/// Tells whether programs are looked up where this process would.
fn is_path_ours(plan: &Plan) -> bool {
    let of_stacks = plan.stacks.iter().flat_map(StackSpec::variables).map(|(name, _)| name);
    let own = plan.environment.iter().map(|(name, _)| name.as_str());
    plan.inherit_environment && !own.chain(of_stacks).any(|name| name == "PATH")
}

/// Returns why nothing at a path can be executed; a hint where there is something.
fn fault_of_file(plan: &Plan, program: &Word, shown: &str) -> Option<Fault> {
    match fs::metadata(plan.cwd.join(AsRef::<Path>::as_ref(program))) {
        Ok(found) if found.is_dir() => Some(
            Fault::user(format!("`{shown}` is a directory"))
                .hint("name a program, or `sh` with a script"),
        ),
        Ok(found) if found.mode() & 0o111 == 0 => Some(
            Fault::user(format!("`{shown}` is not executable"))
                .hint(shell_line(["chmod", "+x", shown])),
        ),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Some(Fault::user(format!("there is no `{shown}`, so no stack would find it")))
        }
        // Anything else is said by whoever starts it.
        _ => None,
    }
}

/// Words that a shell obeys itself, and that are no programs.
const OF_A_SHELL: [&str; 12] = [
    ".", "alias", "cd", "eval", "exec", "exit", "export", "set", "source", "ulimit", "umask",
    "wait",
];

/// Returns a hint for somebody whose program is not there.
fn hint_of(program: &str) -> String {
    if program.contains(|letter: char| letter.is_whitespace() || "|&;<>$".contains(letter)) {
        format!("for a line of the shell write `-- {}`", shell_line(["sh", "-c", program]))
    } else if OF_A_SHELL.contains(&program) {
        format!("`{program}` is a part of the shell: write `-- sh -c '{program} …'`")
    } else {
        String::from("check its spelling, or install it on this machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_told_from_one_that_is_not_here() {
        assert_eq!(hint_of("cd"), "`cd` is a part of the shell: write `-- sh -c 'cd …'`");
        assert!(hint_of("a b").starts_with("for a line of the shell"));
        assert!(hint_of("mak").starts_with("check its spelling"));
    }

    #[test]
    fn a_layer_over_the_root_of_something_else_does_not_see_our_files() {
        for (stack, is_ours) in [
            ("native", true),
            ("qemu:accel=tcg,root=packed", true),
            ("qemu:accel=tcg+runc", true),
            ("runc:root=dir:/srv", false),
            ("qemu:accel=tcg,root=image:/srv/disk.img+runc", false),
            ("ssh:root@example.org+runc", false),
        ] {
            assert_eq!(sees_our_files(&driver::parse(stack).unwrap()), is_ours, "{stack}");
        }
    }
}
