//! Chores of this repository: `cargo xtask tidy`, `cargo xtask mutants`.

mod lab;
mod mutants;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        ["lab", arguments @ ..] => lab::run(arguments),
        ["mutants", arguments @ ..] => mutants::run(arguments),
        _ => {
            eprintln!("usage: cargo xtask tidy\n       {}\n       {}", lab::USAGE, mutants::USAGE);
            ExitCode::from(2)
        }
    }
}
