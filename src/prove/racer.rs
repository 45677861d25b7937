//! A local user who races surtax for the names of its directories, sockets and files.
//!
//! While whole runs are made, each by a surtax of its own, a process of user 65534 watches what
//! every user may see (groups, command lines, mounts, the places where everybody makes names) and
//! tries to be first at every name of surtax's, to swap what is there, and to write or connect to
//! it. The bar is that nothing of root's is ever found in what that user made, and that nothing of
//! ours was changed.

pub mod attacker;

use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::fault::{Doing, Fault};
use crate::lab::environment;
use attacker::{ATTACKER, Tally};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Stacks that are in each run, as far as this machine has their tools.
const STACKS: [(&str, Option<&str>); 4] = [
    ("native", None),
    ("runc", Some("runc")),
    ("bubblewrap", Some("bwrap")),
    ("namespaces:net=none", None),
];

/// Stacks of which one is in each run in turn: daemons, monitors and what serves a guest have names
/// of their own.
const IN_TURN: [(&str, Option<&str>); 9] = [
    ("crun", Some("crun")),
    ("lxc:net=veth", Some("lxc-start")),
    ("nspawn", Some("systemd-nspawn")),
    ("podman:scratch=volume", Some("podman")),
    ("gvisor", Some("runsc")),
    ("docker", Some("dockerd")),
    ("runc+runc", Some("runc")),
    ("qemu:accel=tcg", Some("qemu-system-x86_64")),
    ("qemu:accel=tcg,disk-size=64M,net=tap,scratch=virtio-blk", Some("qemu-system-x86_64")),
];

/// Time that one run may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Time that the attacker may take to give up.
const GIVE_UP: Duration = Duration::from_secs(20);

pub(super) const PROOF: Proof = Proof {
    name: "racer",
    summary: "another local user races for every name: what of it was taken, and what of ours was \
              changed",
    parts: |size| vec![Part::of(run_count(size), 7_000)],
    prove,
};

fn run_count(size: Size) -> u32 {
    size.pick(2, 1_000)
}

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    if !rustix::process::geteuid().is_root() {
        let fault = Fault::machine("only root can start a process of another user");
        return Err(fault.hint("run it as root"));
    }
    let mut races = Vec::new();
    let done = bench.units(run_count(size)).try_for_each(|number| {
        races.push(bench.unit(&format!("racer/{number}"), 1, || race(bench, number))?);
        Ok(())
    });
    figures.extend(lines(&races));
    done
}

/// One run, and the other user beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Race {
    /// Reason why the run failed; `None` if it did not.
    failure: Option<String>,
    tally: Tally,
}

fn race(bench: &Bench<'_>, number: u32) -> Result<Race, Fault> {
    let exe = std::env::current_exe().doing("find the program that is raced against")?;
    let data = bench.directory()?.join("raced");
    let (each, in_turn) = (usable(&STACKS), usable(&IN_TURN));
    let turn = in_turn.get(number as usize % in_turn.len().max(1));
    let stacks: Vec<&str> = each.iter().chain(turn).copied().collect();
    let (arms, stacks) = (stacks.len(), stacks.join(","));
    let argv = [
        &*exe.to_string_lossy(),
        "compare",
        "--quiet",
        "--format",
        "json",
        "--runs",
        "1",
        "--in",
        &stacks,
        "--",
        "true",
    ];
    let (tally, made) = attack(bench, || run_once(bench, &argv, &data, arms))?;
    let failure = made.err().map(|fault| format!("{stacks}: {}", fault.message));
    bench.told()?;
    Ok(Race { failure, tally })
}

/// Those of some stacks whose tool this machine has.
fn usable(stacks: &[(&'static str, Option<&str>)]) -> Vec<&'static str> {
    let has = |tool: &Option<&str>| tool.is_none_or(|tool| crate::lab::find(tool).is_some());
    stacks.iter().filter(|(_, tool)| has(tool)).map(|(stack, _)| *stack).collect()
}

/// One run of a surtax of its own. It fails if a stack of it has no trial that counts.
fn run_once(bench: &Bench<'_>, argv: &[&str], data: &Path, arms: usize) -> Result<(), Fault> {
    let caller = environment::ours().into_iter().filter(|(name, _)| name != "XDG_DATA_HOME");
    let own = [(String::from("XDG_DATA_HOME"), data.to_string_lossy().into_owned())];
    let said = bench.other(argv, caller.chain(own).collect(), DEADLINE)?;
    let _ = std::fs::remove_dir_all(data);
    let counted = said.matches("\"trial_count\": 1").count();
    if counted > arms {
        return Ok(());
    }
    Err(Fault::machine(format!("of {arms} stacks and a second baseline, {counted} have a trial")))
}

/// Does something while the attacker is at work; what that one says in the end is added up.
fn attack(
    bench: &Bench<'_>,
    act: impl FnOnce() -> Result<(), Fault>,
) -> Result<(Tally, Result<(), Fault>), Fault> {
    let (input, lifeline) = crate::lab::pipe()?;
    let (answer, output) = crate::lab::pipe()?;
    let mut argv = ["/proc/self/exe", ATTACKER].map(String::from).to_vec();
    argv.extend(attacker::labs()?);
    argv.push(bench.lab_id().to_owned());
    let (mut process, room) = bench.as_user(argv, attacker::USER, [Some(input), Some(output)])?;
    let done = act();
    drop(lifeline);
    if process.wait(GIVE_UP)?.is_none() {
        return Err(Fault::machine("the racing user's process did not end"));
    }
    let mut text = String::new();
    File::from(answer).read_to_string(&mut text).doing("read what the racing user counted")?;
    drop(room);
    Ok((Tally::parse(&text)?, done))
}

fn lines(races: &[Race]) -> Vec<Figure> {
    let made = u32::try_from(races.len()).unwrap_or(u32::MAX);
    let failures: Vec<&String> = races.iter().filter_map(|race| race.failure.as_ref()).collect();
    let unseen = races.iter().filter(|race| race.tally.labs == 0).count();
    let unseen = u32::try_from(unseen).unwrap_or(u32::MAX);
    let tally = races.iter().fold(Tally::default(), |all, race| all.and(&race.tally));
    let failed = u32::try_from(failures.len()).unwrap_or(u32::MAX);
    let failure = failures.first().map(|why| (*why).clone());
    let examples = |text: &str| match text {
        "" => String::from("none may be"),
        text => format!("such as {text}"),
    };
    let names = |found, what| Figure::new("names", [tally.tried, found], what);
    let none = Bar::AtMost(0);
    vec![
        Figure::new("runs", [made, failed], "failed").bar(
            none,
            failure.unwrap_or_else(|| String::from("nobody is to be kept from measuring")),
        ),
        Figure::new("runs", [made, unseen], "of which the other user saw no lab")
            .bar(none, "one who sees none races for nothing"),
        names(tally.made, "made first by the other user")
            .bar(Bar::Shown, "they are free to make what surtax does not use"),
        names(tally.entered, "then used by root").bar(none, examples(&tally.entered_such_as)),
        names(tally.changed, "of ours changed").bar(none, examples(&tally.changed_such_as)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_that_root_uses_after_another_user_made_it_misses_the_bar() {
        let race = |tally: &Tally| Race { tally: tally.clone(), ..Race::default() };
        let seen = race(&Tally { labs: 2, ..Tally::default() });
        let met = |tally: &Tally| lines(&[race(tally), seen.clone()]).iter().all(Figure::is_met);
        let fine = Tally { labs: 1, tried: 900, made: 7, ..Tally::default() };
        assert!(met(&fine));
        assert!(!met(&Tally { entered: 1, ..fine.clone() }));
        assert!(!met(&Tally { changed: 1, ..fine.clone() }));
        assert!(!met(&Tally { labs: 0, ..fine }));
    }

    #[test]
    fn a_race_that_found_something_among_many_that_did_not_is_told_with_its_example() {
        let entered_such_as = String::from("/dev/shm/surtax-1/runc");
        let found = Tally { labs: 1, entered: 1, entered_such_as, ..Tally::default() };
        let fine = Tally { labs: 1, ..Tally::default() };
        let failure = Some(String::from("runc: no trial"));
        let races = [
            Race { failure: None, tally: fine.clone() },
            Race { failure: None, tally: found },
            Race { failure, tally: fine },
        ];
        let missed: Vec<String> = lines(&races)
            .into_iter()
            .filter(|line| !line.is_met())
            .map(|line| format!("{} of {}: {}", line.found, line.tried, line.because))
            .collect();
        assert_eq!(missed, ["1 of 3: runc: no trial", "1 of 0: such as /dev/shm/surtax-1/runc"]);
    }
}
