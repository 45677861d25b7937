//! A command that computes and does nothing else, for about as long as is wanted.

use std::time::Duration;

/// Rounds of the loop for the first guess.
const FIRST_ROUNDS: u32 = 2_000_000;

/// The script that keeps awk busy for about so many seconds, by how long `run` says that it took.
pub fn awk_script(seconds: f64, run: impl Fn(&[&str]) -> Duration) -> String {
    let mut rounds = FIRST_ROUNDS;
    for _ in 0..3 {
        let took = run(&["awk", &script(rounds)]).as_secs_f64();
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
