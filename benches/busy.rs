//! A command that computes and does nothing else, for about as long as is wanted.

use std::process::{Command, Stdio};
use std::time::Duration;
use surtax_instrument::clock;

/// Rounds of the loop for the first guess.
const FIRST_ROUNDS: u32 = 2_000_000;

/// The script that keeps awk busy for about so many seconds, when it runs by itself.
pub fn awk_script(seconds: f64) -> String {
    let mut rounds = FIRST_ROUNDS;
    for _ in 0..3 {
        let took = alone(&["awk", &script(rounds)]).as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float beyond the type's range becomes its end"
        )]
        let next = (f64::from(rounds) * seconds / took) as u32;
        rounds = next.max(1);
    }
    script(rounds)
}

fn script(rounds: u32) -> String {
    format!("BEGIN {{ for (i = 0; i < {rounds}; i++) sum += i % 7; print sum }}")
}

/// The command by itself, from before its fork to after its end.
pub fn alone(command: &[&str]) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "nothing of surtax is between the two stamps")]
    let mut child = Command::new(command[0]);
    child.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    let began = clock::monotonic_raw();
    let status = child.status().expect("the command starts");
    let wall = clock::monotonic_raw().since(began).into();
    assert!(status.success(), "{status}");
    wall
}
