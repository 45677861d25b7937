//! `surtax prove`: measures surtax's own error, and says which bars were met.

use super::measuring::Footing;
use super::rows::Rows;
use super::{Format, Globals, answer, note};
use crate::fault::{Doing, Fault};
use crate::ledger::calendar;
use crate::plan::duration::rough;
use crate::prove::{Bar, Line, Proof, REGISTRY, Size};
use crate::stack::instead;
use crate::trial::interrupts::Urgency;
use serde::Serialize;
use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// How long nothing is said about how far it is.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Exit code when a bar was missed.
const MISSED: u8 = 1;

/// Flags of `surtax prove`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples\n  surtax prove --quick\n  surtax prove --only false-positives,planted"
)]
pub struct Arguments {
    /// Makes few runs, in minutes: enough to see that something is badly broken.
    #[arg(long)]
    quick: bool,
    /// Makes only these proofs, such as `false-positives,planted`; without it, all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Lists the proofs, and makes none.
    #[arg(long)]
    list: bool,
}

/// Everything that is said, in the shape of `--format json`.
#[derive(Debug, Serialize)]
struct Answer {
    schema_version: u32,
    surtax_version: &'static str,
    commit: &'static str,
    date: String,
    size: &'static str,
    lines: Vec<Judged>,
}

/// A line and its judgement.
#[derive(Debug, Serialize)]
struct Judged {
    #[serde(flatten)]
    line: Line,
    met: bool,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<ExitCode, Fault> {
    let proofs = chosen(&arguments.only)?;
    if arguments.list {
        answer(&list(&proofs).text(globals.format_or(Format::Table), globals.table_width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = if arguments.quick { Size::Quick } else { Size::Full };
    let date = calendar::rfc3339(clock::wall());
    let footing = Footing::open(globals)?;
    let interrupts = footing.interrupts(globals)?;
    let pace = Pace::new(proofs.iter().map(|proof| proof.run_count(size)).sum(), globals);
    let lines = footing.with_bench(&interrupts, &|| pace.ended(), |bench| {
        let mut lines = Vec::new();
        for proof in &proofs {
            pace.now(proof.name());
            lines.extend(proof.prove(bench, size)?);
        }
        Ok(lines)
    });
    let was_interrupted = interrupts.urgency() > Urgency::None;
    let closed = footing.close(globals);
    if was_interrupted {
        return Ok(ExitCode::from(super::measuring::INTERRUPTED));
    }
    let lines = lines?.into_iter().map(|line| Judged { met: line.is_met(), line }).collect();
    closed?;
    let said = Answer {
        schema_version: 1,
        surtax_version: env!("CARGO_PKG_VERSION"),
        commit: env!("SURTAX_COMMIT"),
        date,
        size: if arguments.quick { "quick" } else { "full" },
        lines,
    };
    answer(&text(&said, globals)?)?;
    let all_met = said.lines.iter().all(|line| line.met);
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}

/// The proofs of these names, in the order of the registry; all without a name.
fn chosen(names: &[String]) -> Result<Vec<&'static dyn Proof>, Fault> {
    for name in names {
        if REGISTRY.iter().all(|proof| proof.name() != name) {
            let known = REGISTRY.iter().map(|proof| proof.name());
            return Err(
                Fault::user(format!("unknown proof `{name}`")).hint(instead(name, "proofs", known))
            );
        }
    }
    let is_chosen =
        |proof: &&&dyn Proof| names.is_empty() || names.iter().any(|name| name == proof.name());
    Ok(REGISTRY.iter().filter(is_chosen).copied().collect())
}

fn list(proofs: &[&dyn Proof]) -> Rows {
    let mut rows = Rows::new(&["Proof", "What is asked", "Runs quick", "Runs full"]);
    for proof in proofs {
        let runs = |size| proof.run_count(size).to_string();
        let (name, summary) = (proof.name().into(), proof.summary().into());
        rows.push(vec![name, summary, runs(Size::Quick), runs(Size::Full)]);
    }
    rows
}

fn text(said: &Answer, globals: &Globals) -> Result<String, Fault> {
    let format = globals.format_or(Format::Table);
    if format == Format::Json {
        return Ok(serde_json::to_string_pretty(said).doing("write the proofs as JSON")? + "\n");
    }
    let mut rows = Rows::new(&["Proof", "Part", "N", "Found", "What", "Bar", "", "Because"]);
    for Judged { line, met } in &said.lines {
        let Line { proof, part, tried, found, what, bar, because } = line;
        let judged = match (bar, met) {
            (Bar::Shown, _) => "—",
            (_, true) => "met",
            (_, false) => "MISSED",
        };
        rows.push(vec![
            (*proof).to_owned(),
            part.clone(),
            tried.to_string(),
            found.to_string(),
            (*what).to_owned(),
            bar.to_string(),
            judged.to_owned(),
            because.clone(),
        ]);
    }
    let rows = rows.text(format, globals.table_width());
    if format == Format::Csv {
        return Ok(rows);
    }
    let Answer { surtax_version, commit, date, size, .. } = said;
    let missed = said.lines.iter().filter(|line| !line.met).count();
    let verdict = match missed {
        0 => String::from("every bar was met"),
        1 => String::from("1 bar was missed"),
        missed => format!("{missed} bars were missed"),
    };
    Ok(format!("surtax {surtax_version} ({commit}), {date}, {size}\n\n{rows}\n{verdict}\n"))
}

/// How far it is, said now and then.
struct Pace<'a> {
    all: u32,
    done: Cell<u32>,
    name: Cell<&'static str>,
    began_at: Nanoseconds,
    said_at: Cell<Nanoseconds>,
    globals: &'a Globals,
}

impl<'a> Pace<'a> {
    fn new(all: u32, globals: &'a Globals) -> Self {
        let now = clock::monotonic_raw();
        let (done, name, said_at) = (Cell::new(0), Cell::new(""), Cell::new(now));
        Self { all, done, name, began_at: now, said_at, globals }
    }

    fn now(&self, name: &'static str) {
        self.name.set(name);
    }

    fn ended(&self) {
        self.done.set(self.done.get() + 1);
        let now = clock::monotonic_raw();
        if Duration::from(now.since(self.said_at.get())) >= SAY_EVERY {
            self.said_at.set(now);
            note(&self.text(now.since(self.began_at).into()), self.globals);
        }
    }

    fn text(&self, passed: Duration) -> String {
        let Self { all, .. } = *self;
        let (done, name) = (self.done.get(), self.name.get());
        let left = passed.mul_f64(f64::from(all.saturating_sub(done)) / f64::from(done.max(1)));
        format!("{name}: {done} of {all} runs, about {} left", rough(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_proof_is_answered_with_the_nearest() {
        let Err(fault) = chosen(&[String::from("plantde")]) else { panic!("it is known") };
        assert!(fault.to_string().contains("use `planted`"), "{fault}");
        assert_eq!(chosen(&[]).unwrap_or_default().len(), REGISTRY.len());
    }

    #[test]
    fn a_missed_bar_is_said_in_its_line_and_below() {
        let line = Line {
            proof: "planted",
            part: String::from("cost 1.05"),
            tried: 200,
            found: 30,
            what: "outside the interval",
            bar: Bar::AtMost(20),
            because: String::from("so"),
        };
        let met = line.is_met();
        let said = Answer {
            schema_version: 1,
            surtax_version: "1.2.3",
            commit: "abc",
            date: String::from("today"),
            size: "quick",
            lines: vec![Judged { line, met }],
        };
        let text = text(&said, &Globals::default()).unwrap();
        assert!(text.starts_with("surtax 1.2.3 (abc), today, quick\n"), "{text}");
        assert!(text.contains("at most 20") && text.contains("MISSED"), "{text}");
        assert!(text.ends_with("\n1 bar was missed\n"), "{text}");
    }

    #[test]
    fn the_time_left_is_that_of_the_runs_left() {
        let globals = Globals::default();
        let pace = Pace::new(40, &globals);
        pace.now("planted");
        pace.done.set(10);
        assert_eq!(pace.text(Duration::from_secs(5)), "planted: 10 of 40 runs, about 15 s left");
    }
}
