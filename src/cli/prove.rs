//! `surtax prove`: measures surtax's own error, and says which bars were met.

use super::rows::Rows;
use super::run_and_report::OpenedLab;
use super::{Format, Globals, answer, note};
use crate::campaign::interrupts::Urgency;
use crate::fault::{Doing, Fault};
use crate::layer::instead;
use crate::ledger::calendar;
use crate::plan::duration::rough;
use crate::prove::{Bar, Figure, Notebook, Proof, REGISTRY, Selection, Share, Size};
use crate::report::json;
use serde::Serialize;
use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::quantity::Nanoseconds;

/// Time between two notes on the progress.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Exit code when a bar was missed.
const MISSED: u8 = 1;

/// Flags of `surtax prove`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/prove.txt"))]
pub struct Arguments {
    /// Makes few runs, in minutes: enough to see that something is badly broken.
    #[arg(long)]
    quick: bool,
    /// Makes only these proofs, such as `false-positives,planted`; without it, all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Keeps what was counted in this file; the same command goes on from there, after Ctrl-C or a
    /// crash too.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Makes one share of the runs of each part, such as `1/2`, but all of `at-once`, `recounted`
    /// and the channel of `forged`; another surtax makes the others at the same time. Lines of
    /// their notebooks in one file are all of it, but of `invalid`, which keeps none.
    #[arg(long, value_name = "N/M", default_value = "1/1", hide_default_value = true)]
    share: Share,
    /// Makes only the parts of kills, forgeries, bills and limits that begin so, such as
    /// `kills/qemu`; may be given several times.
    #[arg(long = "part", value_name = "PART")]
    parts: Vec<String>,
    /// Lists the proofs, and makes none.
    #[arg(long)]
    list: bool,
}

/// Everything that is said, in the shape of `--format json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Answer {
    schema_version: u32,
    surtax_version: &'static str,
    commit: &'static str,
    date: String,
    size: &'static str,
    /// `finished`; or `interrupted` or `broken`, where the lines are of what was counted until
    /// then.
    state: &'static str,
    lines: Vec<Judged>,
}

/// A line and its judgement.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Judged {
    /// The proof's name.
    proof: &'static str,
    #[serde(flatten)]
    line: Figure,
    met: bool,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<ExitCode, Fault> {
    let size = if arguments.quick { Size::Quick } else { Size::Full };
    let selection = Selection { share: arguments.share, parts: arguments.parts.clone() };
    let proofs = chosen(&arguments.only, &selection, size)?;
    if arguments.list {
        answer(&list(&proofs).text(globals.format(), globals.table_width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let date = calendar::rfc3339(clock::wall());
    let notebook = match &arguments.keep {
        Some(path) => Notebook::open(path, size.word())?,
        None => Notebook::default(),
    };
    let opened = OpenedLab::open(globals)?;
    let interrupts = opened.interrupts(globals)?;
    let pace = Pace::new(&proofs, size, globals);
    note(&pace.estimate(), globals);
    let mut lines = Vec::new();
    let is_share = selection.share != Share::default();
    let proved = opened.with_bench(&interrupts, &|| pace.ended(), &notebook, &selection, |bench| {
        for proof in &proofs {
            pace.now(proof);
            let mut figures = Vec::new();
            let ended = (proof.prove)(bench, size, &mut figures);
            lines.extend(figures.into_iter().map(|figure| {
                let line = if is_share { figure.of_a_share() } else { figure };
                Judged { proof: proof.name, met: line.is_met(), line }
            }));
            ended?;
        }
        Ok(())
    });
    let was_interrupted = interrupts.urgency() > Urgency::None;
    let closed = opened.close(globals);
    let state = match proved {
        Ok(()) => "finished",
        Err(_) if was_interrupted => "interrupted",
        Err(_) => "broken",
    };
    let said = Answer {
        schema_version: 1,
        state,
        surtax_version: env!("CARGO_PKG_VERSION"),
        commit: env!("SURTAX_COMMIT"),
        date,
        size: size.word(),
        lines,
    };
    if state == "finished" || !said.lines.is_empty() {
        answer(&text(&said, globals)?)?;
    }
    if was_interrupted {
        return Ok(ExitCode::from(super::exit_code::INTERRUPTED));
    }
    proved?;
    closed?;
    let all_met = said.lines.iter().all(|line| line.met);
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}

/// The proofs of these names, in the order of the registry, all without a name; of them those that
/// have one of these parts, if any is asked for.
fn chosen(
    names: &[String],
    selection: &Selection,
    size: Size,
) -> Result<Vec<&'static Proof>, Fault> {
    for name in names {
        if REGISTRY.iter().all(|proof| proof.name != name) {
            let known = REGISTRY.iter().map(|proof| proof.name);
            return Err(
                Fault::user(format!("unknown proof `{name}`")).hint(instead(name, "proofs", known))
            );
        }
    }
    let is_named = |proof: &&Proof| names.is_empty() || names.iter().any(|name| name == proof.name);
    let named: Vec<_> = REGISTRY.iter().filter(is_named).collect();
    if selection.parts.is_empty() {
        return Ok(named);
    }
    let known: Vec<String> = named.iter().flat_map(|proof| proof.part_names(size)).collect();
    for part in &selection.parts {
        if !known.iter().any(|it| it.starts_with(part.as_str())) {
            let known = known.iter().map(String::as_str);
            return Err(Fault::user(format!("no part of these proofs begins with `{part}`"))
                .hint(instead(part, "parts", known)));
        }
    }
    let has_part = |proof: &&Proof| proof.part_names(size).iter().any(|part| selection.takes(part));
    Ok(named.into_iter().filter(has_part).collect())
}

fn list(proofs: &[&Proof]) -> Rows {
    let columns =
        ["Proof", "What is asked", "Runs quick", "Runs full", "Takes quick", "Takes full"];
    let mut rows = Rows::new(&columns);
    for proof in proofs {
        let runs = |size| proof.run_count(size).to_string();
        let takes = |size| format!("about {}", rough(Duration::from_millis(proof.total_ms(size))));
        let mut row = vec![String::from(proof.name), String::from(proof.summary)];
        row.extend([Size::Quick, Size::Full].map(runs));
        row.extend([Size::Quick, Size::Full].map(takes));
        rows.push(row);
    }
    rows
}

fn text(said: &Answer, globals: &Globals) -> Result<String, Fault> {
    let format = globals.format();
    if format == Format::Json {
        return json::pretty(said).doing("write the proofs as JSON");
    }
    let mut rows = Rows::new(&["Proof", "Part", "N", "Found", "What", "Bar", "", "Because"]);
    for Judged { proof, line, met } in &said.lines {
        let Figure { part, tried, found, what, bar, because } = line;
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
    let Answer { surtax_version, commit, date, size, state, .. } = said;
    let so_far = if *state == "finished" { "" } else { ", of what was counted so far" };
    let missed = said.lines.iter().filter(|line| !line.met).count();
    let verdict = match missed {
        0 => String::from("every bar was met"),
        1 => String::from("1 bar was missed"),
        missed => format!("{missed} bars were missed"),
    };
    let size = if *state == "finished" { String::from(*size) } else { format!("{size}, {state}") };
    Ok(format!("surtax {surtax_version} ({commit}), {date}, {size}\n\n{rows}\n{verdict}{so_far}\n"))
}

/// Progress of the proofs, said now and then.
struct Pace<'a> {
    all: u32,
    done: Cell<u32>,
    /// Time that all runs should take, and below it, that those done should have taken; in ms.
    all_ms: u64,
    done_ms: Cell<u64>,
    size: Size,
    /// The proof that is being made, and how many of its runs are done.
    now: Cell<Option<(&'static Proof, u32)>>,
    began_at: Nanoseconds,
    said_at: Cell<Nanoseconds>,
    globals: &'a Globals,
}

impl<'a> Pace<'a> {
    fn new(proofs: &[&Proof], size: Size, globals: &'a Globals) -> Self {
        let now = clock::monotonic_raw();
        Self {
            all: proofs.iter().map(|proof| proof.run_count(size)).sum(),
            done: Cell::new(0),
            all_ms: proofs.iter().map(|proof| proof.total_ms(size)).sum(),
            done_ms: Cell::new(0),
            size,
            now: Cell::new(None),
            began_at: now,
            said_at: Cell::new(now),
            globals,
        }
    }

    /// Said before anything is known of this machine.
    fn estimate(&self) -> String {
        let takes = rough(Duration::from_millis(self.all_ms));
        format!("{} runs, which take about {takes} on two CPUs", self.all)
    }

    fn now(&self, proof: &'static Proof) {
        self.now.set(Some((proof, 0)));
    }

    fn ended(&self) {
        self.done.set(self.done.get() + 1);
        if let Some((proof, run)) = self.now.get() {
            let run_ms = u64::from(proof.run_ms(self.size, run));
            self.done_ms.set(self.done_ms.get() + run_ms);
            self.now.set(Some((proof, run + 1)));
        }
        let now = clock::monotonic_raw();
        if Duration::from(now.since(self.said_at.get())) >= SAY_EVERY {
            self.said_at.set(now);
            note(&self.text(now.since(self.began_at).into()), self.globals);
        }
    }

    fn text(&self, passed: Duration) -> String {
        let Self { all, .. } = *self;
        let (done, name) = (self.done.get(), self.now.get().map_or("", |(proof, _)| proof.name));
        let (all_ms, done_ms) = (self.all_ms, self.done_ms.get());
        let left = passed.mul_f64(all_ms.saturating_sub(done_ms) as f64 / done_ms.max(1) as f64);
        format!("{name}: {done} of {all} runs, about {} left", rough(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_proof_is_answered_with_the_nearest() {
        let Err(fault) = chosen(&[String::from("plantde")], &Selection::default(), Size::Full)
        else {
            panic!("it is known")
        };
        assert!(fault.to_string().contains("use `planted`"), "{fault}");
        assert_eq!(
            chosen(&[], &Selection::default(), Size::Full).unwrap_or_default().len(),
            REGISTRY.len()
        );
    }

    #[test]
    fn a_part_chooses_its_proof() {
        let part = |text: &str| [String::from(text)];
        let asked = |parts: &[String]| Selection { parts: parts.to_vec(), ..Selection::default() };
        let names = chosen(&[], &asked(&part("kills/qemu")), Size::Full).unwrap_or_default();
        assert_eq!(names.iter().map(|proof| proof.name).collect::<Vec<_>>(), ["kills"]);
        let refused = |names: &[String], parts: &[String]| {
            chosen(names, &asked(parts), Size::Full).is_err_and(|fault| fault.hint.is_some())
        };
        assert!(refused(&part("planted"), &part("kills/qemu")));
        assert!(refused(&[], &part("planted/native")));
        assert!(refused(&[], &["kills/qemu", "kills/typo"].map(String::from)));
    }

    #[test]
    fn a_missed_bar_is_said_in_its_line_and_below() {
        let line = Figure {
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
            state: "finished",
            lines: vec![Judged { proof: "planted", line, met }],
        };
        let text = text(&said, &Globals::default()).unwrap();
        assert!(text.starts_with("surtax 1.2.3 (abc), today, quick\n"), "{text}");
        assert!(text.contains("at most 20") && text.contains("MISSED"), "{text}");
        assert!(text.ends_with("\n1 bar was missed\n"), "{text}");
    }

    #[test]
    fn the_time_left_is_that_of_the_runs_left() {
        let globals = Globals::default();
        let proof = &REGISTRY[0];
        let pace = Pace::new(&[proof], Size::Quick, &globals);
        pace.now(proof);
        let runs = proof.run_count(Size::Quick);
        for _ in 0..runs / 4 {
            pace.ended();
        }
        let expected = format!("{}: {} of {runs} runs, about 15 s left", proof.name, runs / 4);
        assert_eq!(pace.text(Duration::from_secs(5)), expected);
    }

    #[test]
    fn what_an_interrupted_campaign_had_counted_is_said_to_be_that() {
        let said = Answer {
            schema_version: 1,
            surtax_version: "1.2.3",
            commit: "abc",
            date: String::from("today"),
            size: "full",
            state: "interrupted",
            lines: Vec::new(),
        };
        let text = text(&said, &Globals::default()).unwrap();
        assert!(text.starts_with("surtax 1.2.3 (abc), today, full, interrupted\n"), "{text}");
        assert!(text.ends_with("\nevery bar was met, of what was counted so far\n"), "{text}");
    }
}
