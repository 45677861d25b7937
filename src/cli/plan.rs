//! `surtax plan`: every trial of a plan and how long it will take; runs nothing.

use super::measure::{MeasureArguments, surroundings};
use super::rows::Rows;
use super::{Format, Globals, answer, note};
use crate::fault::{Doing, Fault};
use crate::plan::duration::{rough, text};
use crate::plan::{Costs, Decided, Plan, TrialId, file, shell_line};
use crate::stack::registered;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `surtax plan`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = include_str!("help/plan.txt"))]
pub struct Arguments {
    /// The plan; without it, flags and a command as for `compare`.
    #[arg(value_name = "PLAN.toml")]
    plan: Option<PathBuf>,
    /// Prints the plan as a file for `surtax run`.
    #[arg(long, conflicts_with = "format")]
    toml: bool,
    #[command(flatten)]
    measure: MeasureArguments,
    /// The command and its arguments, after `--`.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let cards = registered();
    let mut draft = arguments.measure.draft(&arguments.command, &cards)?;
    if let Some(path) = &arguments.plan {
        draft = file::read(path, &cards)?.overlaid_by(draft);
    }
    let around = surroundings(&cards)?;
    let Decided { plan, notes } = draft.complete(&around)?;
    notes.iter().for_each(|text| note(text, globals));
    if arguments.toml {
        return answer(&file::write(&plan));
    }
    answer(&shown(&plan, globals.format_or(Format::Table))?)
}

/// One trial of the list.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    trial: Place,
    stack: &'a str,
    estimate_ns: u64,
}

#[derive(Serialize)]
struct Place {
    block: u32,
    position: u32,
    arm: u32,
}

/// The whole answer as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    schema_version: u32,
    plan: &'a Plan,
    /// Blocks that are expected to run: the count, or what fits into the time.
    block_count: u32,
    estimate_ns: u64,
    trials: Vec<Line<'a>>,
}

fn shown(plan: &Plan, format: Format) -> Result<String, Fault> {
    let costs = Costs::of(plan);
    let block_count = costs.blocks(plan, 0, Duration::ZERO);
    let stacks: Vec<String> = plan.arms().iter().map(|arm| arm.stack.to_string()).collect();
    let trials: Vec<Line<'_>> = (0..block_count)
        .flat_map(|block| plan.block(block))
        .map(|TrialId { block, position, arm }| Line {
            trial: Place { block, position, arm },
            stack: stacks.get(arm as usize).map_or("", String::as_str),
            estimate_ns: nanoseconds(costs.trial(arm)),
        })
        .collect();
    if format == Format::Json {
        let estimate_ns = nanoseconds(costs.total(plan));
        let shown = Shown { schema_version: 1, plan, block_count, estimate_ns, trials };
        return Ok(serde_json::to_string_pretty(&shown).doing("write JSON")? + "\n");
    }
    let (head, list) = (head(plan, &costs, block_count), list(&trials, format).text(format));
    Ok(if format == Format::Csv { list } else { head + "\n" + &list })
}

fn head(plan: &Plan, costs: &Costs, block_count: u32) -> String {
    let command = shell_line(plan.command.iter().map(String::as_str));
    let blocks = match (plan.runs, plan.time_budget()) {
        (Some(runs), None) => format!("{runs}"),
        (Some(runs), Some(time)) => format!("at most {runs}, within {}", text(time)),
        (None, time) => {
            format!("about {block_count}, within {}", time.map(text).unwrap_or_default())
        }
    };
    let estimate = rough(costs.total(plan));
    let trial_count = u64::from(block_count) * u64::from(plan.arm_count());
    [
        format!("{}\n", super::say::escaped(&plan.title)),
        format!("  command   {}\n", super::say::escaped(&command)),
        format!("  in        {}\n", plan.cwd.display()),
        format!("  baseline  {} (as two arms)\n", plan.baseline),
        format!("  blocks    {blocks}\n"),
        format!("  seed      {}\n", plan.seed),
        format!("  estimate  {estimate} for {trial_count} trials, by guesses about the layers and 1 s for the command\n"),
    ]
    .concat()
}

fn list(trials: &[Line<'_>], format: Format) -> Rows {
    let mut rows = match format {
        Format::Csv => Rows::new(&["block", "position", "arm", "stack", "estimate_ns"]),
        _ => Rows::new(&["Block", "Position", "Arm", "Stack", "Estimate"]),
    };
    for line in trials {
        let Place { block, position, arm } = line.trial;
        let estimate = match format {
            Format::Csv => line.estimate_ns.to_string(),
            _ => rough(Duration::from_nanos(line.estimate_ns)),
        };
        let number = |n: u32| n.to_string();
        rows.push(vec![
            number(block),
            number(position),
            number(arm),
            line.stack.to_owned(),
            estimate,
        ]);
    }
    rows
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    #[test]
    fn every_trial_is_shown_in_every_form() {
        let plan = plan(&["native", "runc", "qemu:mem=1G"]);
        let json: serde_json::Value =
            serde_json::from_str(&shown(&plan, Format::Json).unwrap()).unwrap();
        assert_eq!(json["trials"].as_array().unwrap().len(), 40);
        assert_eq!(json["plan"]["stacks"][2], "qemu:memory=1G");
        assert!(json["trials"][7]["estimate_ns"].is_u64());
        let csv = shown(&plan, Format::Csv).unwrap();
        assert_eq!(csv.lines().count(), 41);
        assert!(csv.starts_with("block,position,arm,stack,estimate_ns\r\n0,0,"), "{csv}");
        let table = shown(&plan, Format::Table).unwrap();
        assert_eq!(table.matches("qemu:memory=1G").count(), 10);
        assert!(table.contains("baseline  native (as two arms)"), "{table}");
    }

    #[test]
    fn a_time_budget_shows_as_many_blocks_as_fit() {
        let plan = Plan { runs: None, time_budget_ns: Some(60_000_000_000), ..plan(&["native"]) };
        let table = shown(&plan, Format::Table).unwrap();
        assert!(table.contains("blocks    about 29, within 1m"), "{table}");
    }
}
