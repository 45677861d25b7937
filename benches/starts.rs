//! Starting a layer and removing it again, against the same by its tool's own command line.
//!
//! - **Measures** a room, the driver's start up to the agent's first words, its stop, and all taken
//!   away. Not the evidence, the command or the conditions: `fixed_cost` has the whole trial.
//! - **Peer** what one types for the same container of `true`: the very line that our driver gives
//!   `runc`, `crun`, `runsc`, `podman`, `lxc-start`, `systemd-nspawn` and `bwrap`, and `unshare`
//!   for `namespaces`, after a shell has mounted the root with its throw-away layer;
//!   `docker run --rm`, which makes one itself; and `ssh HOST true` at an `sshd` on this machine.
//!   For information the same line on a root that was mounted once and for all, which is less than
//!   what we do.
//! - **Bar** at most 1.3 times the peer, ratio of medians of 40 pairs, 20 of engines.
//! - **Command** `cargo bench --bench starts -- --enforce`, as root, on a quiet machine;
//!   `--only LAYER` for one of them.

mod docker;
mod far;
mod figure;
mod opened_lab;
mod pairs;
mod ratio;
mod typed;

use docker::Engine;
use far::Far;
use figure::Sheet;
use opened_lab::OpenedLab;
use std::process::ExitCode;
use std::time::Duration;
use surtax::layer::Started;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reply, Request};
use surtax_statistics::{Sample, quantile};
use typed::Typed;

/// Pairs that count.
const PAIRS: u32 = 40;

/// Pairs that count, of what takes long.
const SLOW_PAIRS: u32 = 20;

/// The most that it may take, as a multiple of its peer.
const BAR: f64 = 1.3;

/// Time that the agent may take to say farewell.
const DEADLINE: Duration = Duration::from_secs(60);

/// The layers in the order of the registry, and how many pairs count.
const LAYERS: [(&str, u32); 10] = [
    ("namespaces", PAIRS),
    ("bubblewrap", PAIRS),
    ("runc", PAIRS),
    ("crun", PAIRS),
    ("nspawn", PAIRS),
    ("lxc", PAIRS),
    ("gvisor", SLOW_PAIRS),
    ("docker", SLOW_PAIRS),
    ("podman", SLOW_PAIRS),
    ("ssh", SLOW_PAIRS),
];

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let opened = OpenedLab::open();
    for (kind, pairs) in LAYERS {
        if sheet.wants(kind) {
            compare(&mut sheet, &opened, kind, pairs);
        }
    }
    opened.close();
    sheet.close()
}

fn compare(sheet: &mut Sheet, opened: &OpenedLab, kind: &str, pairs: u32) {
    let name = format!("starts: {kind}, started and removed, over its own command line");
    let mut parts: Vec<Vec<f64>> = vec![Vec::new(); PARTS.len()];
    let far = match (kind == "ssh").then(|| Far::listen(opened)).transpose() {
        Ok(far) => far,
        Err(why) => return println!("{name}: SKIPPED: {why}"),
    };
    let stack = far.as_ref().map_or_else(|| kind.to_owned(), Far::stack);
    let mut ours = || {
        let took = start_and_remove(opened, &stack).expect("it is usable");
        took.iter().zip(&mut parts).for_each(|(took, part)| part.push(*took));
        Duration::from_secs_f64(took.iter().sum::<f64>() / 1e3)
    };
    let bar = Some(0.0..=BAR);
    let skip = |why| println!("{name}: SKIPPED: {why}");
    if let Some(peer) = far {
        pairs::compare(sheet, &name, bar, pairs, &mut ours, || peer.run());
        peer.close();
    } else if kind == "docker" {
        let peer = match Engine::of(kind, opened) {
            Ok(peer) => peer,
            Err(why) => return skip(why),
        };
        pairs::compare(sheet, &name, bar, pairs, &mut ours, || peer.run());
        peer.close();
    } else {
        let peer = match Typed::of(kind, opened) {
            Ok(peer) => peer,
            Err(why) => return skip(why),
        };
        pairs::compare(sheet, &name, bar, pairs, &mut ours, || peer.run_with_root());
        let name =
            format!("starts: {kind}, the same over its command line on a root that is there");
        pairs::compare(sheet, &name, None, pairs, &mut ours, || peer.run());
        peer.close();
    }
    let median = |of: &Vec<f64>| Sample::counts(of).map_or(0.0, |it| quantile(&it, 0.5));
    let said = PARTS.iter().zip(&parts).map(|(part, of)| format!("{part} {:.2}", median(of)));
    println!("  where ours goes, medians in ms: {}", said.collect::<Vec<_>>().join(", "));
}

/// Parts that are measured, in their order.
const PARTS: [&str; 5] = ["room", "start", "first words", "stop", "close"];

/// One start and its end, part by part, in milliseconds.
fn start_and_remove(opened: &OpenedLab, stack: &str) -> Result<Vec<f64>, String> {
    opened.at(stack, |driver, spec, site| {
        let mut marks = vec![clock::monotonic_raw()];
        let room = site.lab.room("starts")?;
        marks.push(clock::monotonic_raw());
        let Started { running, mut link } = driver.start(spec, site, &room)?;
        marks.push(clock::monotonic_raw());
        let first = link.receive(site.start_deadline)?;
        assert!(matches!(first.reply, Reply::Hello(_)), "{:?}", first.reply);
        marks.push(clock::monotonic_raw());
        link.ask(&Request::Stop, DEADLINE)?;
        drop(link);
        running.stop()?;
        marks.push(clock::monotonic_raw());
        let left = room.close()?;
        assert!(left.is_empty(), "removed by force: {left:?}");
        marks.push(clock::monotonic_raw());
        let parts = marks.windows(2).map(|pair: &[Nanoseconds]| pair[1].since(pair[0]));
        Ok(parts.map(|part| part.seconds() * 1e3).collect())
    })
}
