//! Chores of this repository: `cargo xtask` with `tidy`, `mutants`, `fuzz` or `lab`.

mod fuzz;
mod lab;
mod mutants;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        ["fuzz", arguments @ ..] => fuzz::run(arguments),
        ["lab", arguments @ ..] => lab::run(arguments),
        ["mutants", arguments @ ..] => mutants::run(arguments),
        _ => {
            let others = [fuzz::USAGE, lab::USAGE, mutants::USAGE].join("\n       ");
            eprintln!("usage: cargo xtask tidy\n       {others}");
            ExitCode::from(2)
        }
    }
}
