//! The suite of `suite.rs` for what takes long to start: virtual machines of every kind, and stacks
//! of more than one layer, each of whose levels is a starter's work.
//!
//! Two of a stack are started at once, each by a thread of its own, so that the whole suite takes
//! the time of one start: the first is used and stopped while the second stands; then the second's
//! payload is killed.

use crate::machine::{Machine, is_required, is_slow_made, is_usable, skip};
use crate::suite::{lab, run, start};
use std::sync::mpsc::channel;
use std::time::Duration;
use surtax::fault::Fault;
use surtax::lab::Lab;
use surtax::stack::start::RunningStack;
use surtax_instrument::wire::Status;

/// Time limit of a start: a machine in a machine, twice, beside a build.
const DEADLINE: Duration = Duration::from_secs(150);

/// Message of a thread that waits for the other one, and finds that it has failed.
const FAILED: &str = "the other one of the stack has failed";

/// The stacks, each as small as its guests work in, and how many are started but for
/// `make test-all`.
macro_rules! conformance {
    ($($name:ident: $started:ident, $stack:literal),* $(,)?) => {$(
        #[test]
        fn $name() {
            passes_the_suite(&Machine::take(), $stack, Started::$started);
        }
    )*};
}
conformance! {
    qemu_pc: One, "qemu:accel=tcg,machine=pc,cpu=Nehalem,scratch=ide,format=qcow2",
    qemu_microvm: One, "qemu:accel=tcg,machine=microvm",
    qemu_ninep: One, "qemu:accel=tcg,files=9p,firmware=qboot",
    qemu_user_network: One, "qemu:accel=tcg,net=user",
    qemu_tap: One, "qemu:accel=tcg,net=tap",
    qemu_vhost_user: Two, "qemu:accel=tcg,net=vhost-user",
    qemu_tap_e1000: One, "qemu:accel=tcg,net=tap,nic=e1000",
    qemu_packed: One, "qemu:accel=tcg,machine=microvm,root=packed",
    runc_runc: Two, "runc+runc",
    qemu_runc: Two, "qemu:accel=tcg,cpus=1+runc",
    docker_qemu: Two, "docker+qemu:accel=tcg,cpus=1",
}

/// Number of a stack that are started.
#[derive(Clone, Copy, PartialEq)]
pub enum Started {
    /// Stack that shows what another one shows as well, or that starts for half a minute.
    One,
    Two,
}

pub fn passes_the_suite(machine: &Machine, stack: &str, started: Started) {
    if !is_usable(machine, stack) {
        return;
    }
    let lab = lab();
    let given_up = start(&lab, stack, "given-up", Duration::ZERO);
    assert!(given_up.is_err(), "nothing starts in no time");
    // One file of the lab's, which threads that ask for it at the same time would write at the same
    // time.
    lab.agent().unwrap();
    let are_two =
        started == Started::Two || is_slow_made(&format!("a second `{stack}`, which is killed"));
    if are_two {
        two_pass(&lab, stack);
    } else if let Some(mut only) = stands(start(&lab, stack, "only", DEADLINE), stack) {
        is_used(&mut only, stack);
        assert_eq!(only.stop().unwrap(), Vec::<String>::new(), "a tidy stop forces nothing");
    }
    let forced = lab.close().unwrap();
    assert!(are_two || forced.is_empty(), "{forced:?}");
    machine.assert_as_before();
}

fn two_pass(lab: &Lab, stack: &str) {
    let (second_stands, wait_for_second) = channel::<()>();
    let (first_is_gone, wait_for_first) = channel::<()>();
    let (second_is_done, wait_for_end) = channel::<()>();
    std::thread::scope(|scope| {
        // What a thread has started ends with the thread.
        scope.spawn(move || {
            let Some(mut first) = stands(start(lab, stack, "first", DEADLINE), stack) else {
                return;
            };
            is_used(&mut first, stack);
            wait_for_second.recv().expect(FAILED);
            assert_eq!(first.stop().unwrap(), Vec::<String>::new(), "a tidy stop forces nothing");
            first_is_gone.send(()).expect(FAILED);
            // A daemon of the lab's serves both and is a child of the thread that asked first.
            let _ = wait_for_end.recv();
        });
        scope.spawn(move || {
            let Some(mut second) = stands(start(lab, stack, "second", DEADLINE), stack) else {
                return;
            };
            second_stands.send(()).expect(FAILED);
            wait_for_first.recv().expect(FAILED);
            let outcome = run(&mut second, "true").unwrap();
            assert_eq!(outcome.status, Status::Exit(0), "the second outlives the first");
            lab.kill_everything();
            assert!(run(&mut second, "true").is_err(), "a killed payload answers nothing");
            let _ = second.stop();
            drop(second_is_done);
        });
    });
}

/// The stack, or why a machine that need not run it does not; the doctor knows the outermost layer
/// alone.
fn stands(started: Result<RunningStack, Fault>, stack: &str) -> Option<RunningStack> {
    match started {
        Err(fault) if !is_required(stack) => {
            skip(stack, &fault.to_string());
            None
        }
        started => Some(started.unwrap()),
    }
}

/// A command runs there and every level has proved what it is.
fn is_used(running: &mut RunningStack, stack: &str) {
    assert!(!running.payers().is_empty(), "somebody must pay");
    let levels: Vec<&str> =
        running.evidence().iter().filter_map(|level| level.layer.split(':').next()).collect();
    let asked: Vec<&str> = stack.split('+').filter_map(|layer| layer.split(':').next()).collect();
    assert_eq!(levels, asked);
    assert!(running.evidence().iter().all(|level| !level.facts.is_empty()));
    let script = "echo inside; echo there >&2; cat /etc/os-release > /dev/null";
    let outcome = run(running, script).unwrap();
    assert_eq!(outcome.status, Status::Exit(0), "{outcome:?}");
    assert_eq!(outcome.stdout.tail, b"inside\n");
    assert_eq!(outcome.stderr.tail, b"there\n");
    assert_eq!(run(running, "exit 7").unwrap().status, Status::Exit(7));
}
