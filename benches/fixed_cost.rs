//! The fixed cost of one trial: all that surtax does around a command that does nothing, but for
//! writing it down.
//!
//! - **Measures** one trial of `true` as a campaign runs it in an open lab, 50 ms after the last
//!   run: conditions, room, start, evidence, run, stop, close. For information, where that time
//!   goes. The ledger's transaction is not in it.
//! - **Peer** `runc run` of `true` on the same bundle, its root mounted beforehand;
//!   `docker run --rm` of `true` at the same daemon. For information `runsc run` likewise, what one
//!   would type for `bwrap`, `systemd-nspawn`, `lxc-start` and `podman run`, and fork, exec and
//!   wait.
//! - **Bar** `runc` and `docker` at most 1.5 times their peer, ratio of medians of 100 and 20
//!   pairs.
//! - **Command** `cargo bench --bench fixed_cost -- --enforce`, as root, on a quiet machine.

mod docker;
mod figure;
mod opened_lab;
mod one_trial;
mod pairs;
mod ratio;
mod runtime;
mod tools;

use docker::Engine;
use figure::Sheet;
use opened_lab::OpenedLab;
use runtime::Bundle;
use std::process::ExitCode;
use std::time::Duration;
use surtax::lab::Program;
use surtax::layer::Started;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Reply, Request};
use surtax_statistics::{Sample, quantile};
use tools::Tool;

/// Pairs that count of what has a bar.
const BAR_PAIRS: u32 = 100;

/// Pairs that count, of other runtimes and tools.
const PAIRS: u32 = 40;

/// Pairs that count, of engines.
const ENGINE_PAIRS: u32 = 20;

/// The most that a trial may take, as a multiple of its peer.
const BAR: f64 = 1.5;

/// Time limit of `true`.
const DEADLINE: Duration = Duration::from_secs(60);

/// gVisor's runtime with the options that our driver gives it.
const RUNSC: [&str; 3] = ["runsc", "--platform=systrap", "--network=none"];

/// Stacks in their order.
const STACKS: [&str; 8] =
    ["runc", "gvisor", "docker", "bubblewrap", "nspawn", "lxc", "podman", "native"];

fn main() -> ExitCode {
    let mut sheet = Sheet::open();
    let opened = OpenedLab::open();
    for stack in STACKS {
        if !sheet.wants(stack) {
            continue;
        }
        let whole = match stack {
            "runc" => with_runtime(&mut sheet, &opened, stack, &["runc"], Some(BAR)),
            "gvisor" => with_runtime(&mut sheet, &opened, stack, &RUNSC, None),
            "docker" => with_docker(&mut sheet, &opened),
            "native" => Ok(with_native(&mut sheet, &opened)),
            kind => with_tool(&mut sheet, &opened, kind),
        };
        match whole {
            Ok(whole) => say_where_it_goes(&sheet, &opened, stack, whole),
            Err(why) => println!("fixed cost of {stack}: SKIPPED: {why}"),
        }
    }
    opened.close();
    sheet.close()
}

fn with_runtime(
    sheet: &mut Sheet,
    opened: &OpenedLab,
    stack: &str,
    program: &[&str],
    bar: Option<f64>,
) -> Result<f64, String> {
    let name = format!("fixed cost: {stack} over `{} run`", program[0]);
    let bundle = Bundle::of(stack, program, &["true"], opened)?;
    let mut trials = Trials::of(stack, opened);
    let count = if bar.is_some() { BAR_PAIRS } else { PAIRS };
    let bar = bar.map(|bar| 0.0..=bar);
    let whole = pairs::compare(sheet, &name, bar, count, || trials.next(), || bundle.run());
    bundle.close();
    Ok(whole)
}

fn with_docker(sheet: &mut Sheet, opened: &OpenedLab) -> Result<f64, String> {
    let name = "fixed cost: docker over `docker run --rm`";
    let engine = Engine::of("docker", opened)?;
    let mut trials = Trials::of("docker", opened);
    let bar = Some(0.0..=BAR);
    let whole = pairs::compare(sheet, name, bar, ENGINE_PAIRS, || trials.next(), || engine.run());
    engine.close();
    Ok(whole)
}

fn with_tool(sheet: &mut Sheet, opened: &OpenedLab, kind: &str) -> Result<f64, String> {
    let name = format!("fixed cost: {kind} over the tool's own command line");
    let tool = Tool::of(kind, opened)?;
    let mut trials = Trials::of(kind, opened);
    let whole = pairs::compare(sheet, &name, None, PAIRS, || trials.next(), || tool.run());
    tool.close();
    Ok(whole)
}

fn with_native(sheet: &mut Sheet, opened: &OpenedLab) -> f64 {
    let name = "fixed cost: native over fork+exec+wait";
    let room = opened.lab.room("plain").expect("a room opens");
    let mut trials = Trials::of("native", opened);
    let plain = || {
        let program = Program { argv: vec![String::from("true")], ..Program::default() };
        let began = clock::monotonic_raw();
        let mut process = room.spawn(program).expect("`true` starts");
        let status = process.wait(DEADLINE).expect("it can be waited for");
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
        clock::monotonic_raw().since(began).into()
    };
    let whole = pairs::compare(sheet, name, None, PAIRS, || trials.next(), plain);
    room.close().expect("the room closes");
    whole
}

/// Trials of `true` in one stack, one after the other.
struct Trials<'a> {
    opened: &'a OpenedLab,
    plan: surtax::plan::Plan,
    number: u32,
}

impl<'a> Trials<'a> {
    fn of(stack: &str, opened: &'a OpenedLab) -> Self {
        Self { opened, plan: one_trial::plan(stack, &["true"]), number: 0 }
    }

    fn next(&mut self) -> Duration {
        self.number += 1;
        let began = clock::monotonic_raw();
        one_trial::run(&self.plan, self.number, self.opened);
        clock::monotonic_raw().since(began).into()
    }
}

/// The steps of a trial, in their order.
const STEPS: [&str; 9] =
    ["room", "start", "hello", "identify", "evidence", "run", "stop agent", "stop layer", "close"];

/// Prints the median of each step, of the mounts that are part of the start, and what of the median
/// of whole trials, in seconds, is in no step.
fn say_where_it_goes(sheet: &Sheet, opened: &OpenedLab, stack: &str, whole: f64) {
    let count = sheet.count(PAIRS);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); STEPS.len()];
    let mut mounting = Vec::new();
    for _ in 0..count {
        std::thread::sleep(pairs::REST);
        match steps(opened, stack) {
            Ok(took) => took.iter().zip(&mut times).for_each(|(time, of)| of.push(*time)),
            Err(why) => return println!("where it goes in {stack}: SKIPPED: {why}"),
        }
        let room = opened.lab.room("mounts").expect("a room opens");
        let began = clock::monotonic_raw();
        drop(runtime::namespace(&room, opened.context().cache));
        mounting.push(clock::monotonic_raw().since(began).seconds() * 1e3);
        room.close().expect("the room closes");
    }
    let median =
        |values: &[f64]| Sample::counts(values).map_or(0.0, |sample| quantile(&sample, 0.5));
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let named = STEPS.iter().zip(&medians);
    let parts: Vec<String> = named.map(|(step, took)| format!("{step} {took:.2}")).collect();
    let mounts = median(&mounting);
    let (sum, whole) = (medians.iter().sum::<f64>(), whole * 1e3);
    println!("  where it goes in {stack}, medians of {count} in ms: {}", parts.join(", "));
    println!(
        "  in sum {sum:.2} of {whole:.2}: in no step are conditions, bill, clock, and what a trial \
         of a campaign asks beside them: {:.2}",
        whole - sum
    );
    println!("  (a merged root alone, mounted and unmounted: {mounts:.2})");
}

/// One trial of `true`, step by step, in milliseconds.
fn steps(opened: &OpenedLab, stack: &str) -> Result<Vec<f64>, String> {
    opened.at(stack, |driver, spec, site| {
        let mut marks = vec![clock::monotonic_raw()];
        let room = site.lab.room("steps")?;
        marks.push(clock::monotonic_raw());
        let Started { mut running, mut link } = driver.start(spec, site, &room)?;
        marks.push(clock::monotonic_raw());
        link.receive(site.start_deadline)?;
        marks.push(clock::monotonic_raw());
        let Reply::Identity(inside) = link.ask(&Request::Identify, DEADLINE)?.reply else {
            panic!("the agent does not say what it sees");
        };
        marks.push(clock::monotonic_raw());
        running.evidence(&inside)?;
        marks.push(clock::monotonic_raw());
        let plan = one_trial::plan(stack, &["true"]);
        let command = surtax::trial::command::command(&plan, &plan.baseline);
        link.ask(&Request::Run(command), DEADLINE)?;
        link.send(&Request::Go)?;
        link.receive(DEADLINE)?;
        marks.push(clock::monotonic_raw());
        link.ask(&Request::Stop, DEADLINE)?;
        drop(link);
        marks.push(clock::monotonic_raw());
        running.stop()?;
        marks.push(clock::monotonic_raw());
        room.close()?;
        marks.push(clock::monotonic_raw());
        let steps = marks.windows(2).map(|pair: &[Nanoseconds]| pair[1].since(pair[0]));
        Ok(steps.map(|step| step.seconds() * 1e3).collect())
    })
}
