//! Mutants: breaks the method on purpose, one part at a time, and requires a quick proof to notice.
//!
//! A proof that cannot fail proves nothing. Each mutant is one change of the source, made in a copy
//! of the working tree below the target directory. The copy is built, the quick proofs that the
//! mutant names are run, and a bar must be missed: a copy that does not build, crashes or hangs
//! shows nothing. The copy without any change must meet every bar.

mod copy;
mod list;
mod proving;

use copy::Copy;
use list::{MUTANTS, Mutant};
use proving::Proved;
use std::path::Path;
use std::process::ExitCode;

/// Usage line of the command, for people.
pub const USAGE: &str = "cargo xtask mutants [--list | --only NAMES]";

/// Does what the arguments ask for: all mutants, some of them, or their list.
pub fn run(arguments: &[&str]) -> ExitCode {
    let chosen = match arguments {
        [] => Ok(MUTANTS.iter().collect()),
        ["--list"] => return list(),
        ["--only", names] => chosen(names),
        _ => Err(format!("usage: {USAGE}")),
    };
    let chosen: Vec<&Mutant> = match chosen {
        Ok(chosen) => chosen,
        Err(words) => {
            eprintln!("xtask: {words}");
            return ExitCode::from(2);
        }
    };
    match check(&chosen) {
        Ok(0) => {
            println!("mutants: {} were made, and every one was caught", chosen.len());
            ExitCode::SUCCESS
        }
        Ok(survivors) => {
            println!("mutants: {survivors} of {} were not caught", chosen.len());
            ExitCode::FAILURE
        }
        Err(words) => {
            eprintln!("xtask: {words}");
            ExitCode::from(3)
        }
    }
}

fn list() -> ExitCode {
    for Mutant { name, breaks, path, proofs, .. } in MUTANTS.iter() {
        println!("{name}: {breaks} ({path}; {proofs})");
    }
    ExitCode::SUCCESS
}

/// The mutants of these names, in the order of the list.
fn chosen(names: &str) -> Result<Vec<&'static Mutant>, String> {
    let names: Vec<&str> = names.split(',').collect();
    if let Some(name) = names.iter().find(|name| MUTANTS.iter().all(|it| it.name != **name)) {
        let known: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name.as_str()).collect();
        return Err(format!("no mutant `{name}`; there are {}", known.join(", ")));
    }
    Ok(MUTANTS.iter().filter(|mutant| names.contains(&mutant.name.as_str())).collect())
}

/// Tries each mutant; counts those that were not caught.
///
/// # Errors
/// Nothing could be shown: the copy cannot be made or built, or misses a bar without any change.
fn check(chosen: &[&Mutant]) -> Result<usize, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut copy = Copy::of(&root)?;
    println!("the tree as it is, which must meet every bar: {}", copy.place().display());
    match try_one(&copy, &proofs_of(chosen)) {
        Ok(Proved::Met) => println!("  met"),
        Ok(Proved::Missed(lines)) => {
            return Err(format!("a bar is missed without any mutant:\n  {}", lines.join("\n  ")));
        }
        Err(words) => return Err(words),
    }
    let mut survivors = 0;
    for mutant in chosen {
        println!("{}: {}", mutant.name, mutant.breaks);
        copy.change(mutant)?;
        match try_one(&copy, &mutant.proofs) {
            Ok(Proved::Missed(lines)) => println!("  caught: {}", lines.join("\n          ")),
            Ok(Proved::Met) => {
                println!("  SURVIVED: `prove --quick --only {}` met every bar", mutant.proofs);
                survivors += 1;
            }
            Err(words) => {
                println!("  BROKEN, which shows nothing: {words}");
                survivors += 1;
            }
        }
        copy.restore()?;
    }
    Ok(survivors)
}

fn try_one(copy: &Copy, proofs: &str) -> Result<Proved, String> {
    let binary = copy.build()?;
    proving::prove(&binary, proofs)
}

/// Every proof that one of them names, once.
fn proofs_of(chosen: &[&Mutant]) -> String {
    let mut proofs: Vec<&str> = chosen.iter().flat_map(|mutant| mutant.proofs.split(',')).collect();
    proofs.sort_unstable();
    proofs.dedup();
    proofs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_mutant_is_answered_with_those_that_there_are() {
        let Err(words) = chosen("order-fixed,order-fxied") else { panic!("it is known") };
        assert!(words.starts_with("no mutant `order-fxied`; there are "), "{words}");
        assert_eq!(chosen("order-fixed").map(|found| found.len()), Ok(1));
    }

    #[test]
    fn the_proofs_of_several_mutants_are_named_once_each() {
        let all: Vec<&Mutant> = MUTANTS.iter().collect();
        let proofs = proofs_of(&all);
        assert_eq!(proofs.matches("recounted").count(), 1, "{proofs}");
    }
}
