//! Every target for seconds, and a runner that finds what was planted.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use surtax_fuzz::campaign::{self, Engine};
use surtax_fuzz::runner::{Ran, Run};
use surtax_fuzz::target::{self, TARGETS};
use surtax_instrument::clock;

/// Time that inputs are made for each target, in `make test-all` and otherwise; `cargo xtask fuzz`
/// may take longer.
const TIMES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(1)];

/// Time that a planted bug may take to be found. It takes a moment.
const PLANTED_TIME: Duration = Duration::from_secs(60);

/// Seed of the inputs that find what is planted. With it they find a hang within seconds of CPU
/// time; others take up to half a minute.
const PLANTED_SEED: u64 = 4;

/// Targets that run at the same time.
const AT_ONCE: usize = 2;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_surtax-fuzz"))
}

/// The day: every day meets other inputs, and one day always the same.
fn seed() -> u64 {
    clock::wall().0 / 86_400_000_000_000
}

#[test]
fn no_target_finds_anything_in_its_corpus_nor_in_seconds_of_mutation() {
    let is_slow_made = std::env::var("SURTAX_SLOW_TESTS").is_ok_and(|value| value == "1");
    let time = TIMES[usize::from(!is_slow_made)];
    if !is_slow_made {
        println!("LEFT to `make test-all`: {:?} of {:?} of each target", TIMES[0] - time, TIMES[0]);
    }
    let state = tempfile::tempdir().unwrap();
    let run = Run { time, seed: seed(), state: state.path().into(), planted: None };
    println!("seed {}", run.seed);
    let (left, found) = (Mutex::new(TARGETS.to_vec()), Mutex::new(Vec::new()));
    let work = || loop {
        let Some(target) = left.lock().unwrap().pop() else { return };
        let ran = campaign::apart(program(), Engine::Mutation, &target, &run, &[]);
        let ran = ran.unwrap_or_else(|words| panic!("{words}"));
        println!("{}: {} executions", target.name, ran.executions);
        if let Some(finding) = &ran.finding {
            let input = std::fs::read(&finding.path).unwrap_or_default();
            let line = format!("{}: {}: {}", target.name, finding.why, input.escape_ascii());
            found.lock().unwrap().push(line);
        }
        assert!(ran.finding.is_some() || ran.executions > 20, "{}: {ran:?}", target.name);
    };
    std::thread::scope(|scope| {
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(work)));
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "seed {}:\n{}", run.seed, found.join("\n"));
}

fn planted(kind: &str) -> Ran {
    let state = tempfile::tempdir().expect("a place for its state");
    let state_at = state.path().into();
    let run = Run { time: PLANTED_TIME, seed: PLANTED_SEED, state: state_at, planted: None };
    let wire = target::find("wire").expect("a target of this name");
    let ran = campaign::apart(program(), Engine::Mutation, &wire, &run, &["--planted", kind]);
    let ran = ran.unwrap_or_else(|words| panic!("{words}"));
    if let Some(finding) = &ran.finding {
        // The real target bears the input: what was found is the planted bug.
        (wire.run)(&std::fs::read(&finding.path).expect("what was found was kept"));
    }
    ran
}

#[test]
fn a_planted_panic_a_hang_and_a_gigabyte_are_found() {
    for (kind, words) in
        [("panic", "the planted bug"), ("hang", "more than 2 s"), ("memory", "512 MiB")]
    {
        let finding = planted(kind).finding.unwrap_or_else(|| panic!("{kind} was not found"));
        assert!(finding.why.contains(words), "{kind}: {}", finding.why);
    }
}

#[test]
fn the_same_seed_finds_the_same_input_after_as_many_executions() {
    let (one, other) = (planted("panic"), planted("panic"));
    assert_eq!(one.executions, other.executions);
    assert!(one.executions > 1, "the corpus alone finds it");
    let name = |ran: &Ran| ran.finding.as_ref().unwrap().path.file_name().unwrap().to_owned();
    assert_eq!(name(&one), name(&other));
}
