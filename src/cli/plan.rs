//! `surtax plan`: every trial of a plan and how long it will take; runs nothing.

use super::completions::candidates;
use super::measure::{MeasureArguments, complete, defaults};
use super::rows::Rows;
use super::{Format, Globals, answer, note};
use crate::driver::registered;
use crate::fault::{Doing, Fault};
use crate::plan::duration::{rough, text};
use crate::plan::{CheckedPlan, Costs, Plan, TrialId, Word, file, percentage, shell_line};
use crate::report::json;
use crate::report::page::Page;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;

/// Flags of `surtax plan`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "surtax plan [OPTIONS] <PLAN.toml>\n       surtax plan [OPTIONS] --in \
                      <STACKS> -- <CMD>...\n       surtax plan [OPTIONS] --in <STACKS> --workload \
                      <NAME>",
    after_long_help = include_str!("help/plan.txt")
)]
pub struct Arguments {
    /// The plan, a file or the name of one that comes with surtax; without it, flags and a command
    /// as for `compare`.
    #[arg(value_name = "PLAN.toml", add = candidates::plan())]
    plan: Option<PathBuf>,
    /// Prints the plan as a file for `surtax run`.
    #[arg(long, conflicts_with = "format")]
    toml: bool,
    /// The command and its arguments, after `--`.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    measure: MeasureArguments,
}

pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<(), Fault> {
    let descriptors = registered();
    let mut draft = arguments.measure.draft(&arguments.command, &descriptors)?;
    if let Some(path) = &arguments.plan {
        draft = file::read(path, &descriptors)?.overlaid_by(draft);
    }
    let around = defaults(&descriptors)?;
    let CheckedPlan { plan, notes } = complete(draft, &around)?;
    notes.iter().for_each(|text| note(text, globals));
    if arguments.toml {
        return answer(&file::write(&plan));
    }
    answer(&shown(&plan, globals.format(), globals.look().width)?)
}

/// One trial of the list.
#[derive(Serialize, schemars::JsonSchema)]
struct TrialRow<'a> {
    #[serde(flatten)]
    trial: TrialPosition,
    stack: &'a str,
    estimate_ns: u64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct TrialPosition {
    block: u32,
    position: u32,
    arm: u32,
}

/// The whole answer as JSON.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Shown<'a> {
    schema_version: u32,
    plan: &'a Plan,
    /// Blocks that are expected to run: the count, or what fits into the time.
    block_count: u32,
    estimate_ns: u64,
    trials: Vec<TrialRow<'a>>,
}

fn shown(plan: &Plan, format: Format, width: u16) -> Result<String, Fault> {
    let costs = Costs::of(plan);
    let block_count = costs.blocks(plan, 0, Duration::ZERO);
    let stacks: Vec<String> = plan.arms().iter().map(ToString::to_string).collect();
    let trials: Vec<TrialRow<'_>> = (0..block_count)
        .flat_map(|block| plan.block(block))
        .map(|TrialId { block, position, arm }| TrialRow {
            trial: TrialPosition { block, position, arm },
            stack: stacks.get(arm as usize).map_or("", String::as_str),
            estimate_ns: Nanoseconds::from(costs.trial(arm)).0,
        })
        .collect();
    if format == Format::Json {
        let estimate_ns = Nanoseconds::from(costs.total(plan)).0;
        let shown = Shown { schema_version: 1, plan, block_count, estimate_ns, trials };
        return json::pretty(&shown).doing("write JSON");
    }
    Ok(match format {
        Format::Csv => list(&trials, format).text(format, None),
        Format::Markdown => {
            head(plan, &costs, block_count, width)
                + "\n"
                + &list(&trials, format).text(format, None)
        }
        _ => head(plan, &costs, block_count, width) + "\n" + &blocks(&trials, width),
    })
}

/// One paragraph per block: its estimate, and its trials in their order.
fn blocks(trials: &[TrialRow<'_>], width: u16) -> String {
    let mut page = Page::new(width);
    for block in trials.chunk_by(|one, next| one.trial.block == next.trial.block) {
        let Some(first) = block.first() else { continue };
        let estimate = rough(Duration::from_nanos(block.iter().map(|line| line.estimate_ns).sum()));
        let label = format!("block {}, {estimate}: ", first.trial.block.saturating_add(1));
        let again = |line: &TrialRow<'_>| if line.trial.arm == 1 { " (again)" } else { "" };
        let names: Vec<String> =
            block.iter().map(|line| format!("{}{}", line.stack, again(line))).collect();
        page.paragraph(&label, &names.join(", "), 2);
    }
    page.finish()
}

fn head(plan: &Plan, costs: &Costs, block_count: u32, width: u16) -> String {
    let command = shell_line(&plan.command);
    let count = match (plan.runs, plan.time_budget()) {
        (Some(runs), None) => format!("{runs}"),
        (Some(runs), Some(time)) => format!("at most {runs}, within {}", text(time)),
        (None, time) => {
            format!("about {block_count}, within {}", time.map(text).unwrap_or_default())
        }
    };
    let count = plan.looks_in_words().unwrap_or(count);
    let count = match plan.precision_ppm {
        Some(precision) => format!("until ±{}, {count}", percentage::text(precision)),
        None => count,
    };
    let estimate = rough(costs.total(plan));
    let trial_count = u64::from(block_count) * u64::from(plan.arm_count());
    let estimate = format!(
        "{estimate} for {trial_count} trials, guessing 1 s for the command; each trial that runs \
         mends it"
    );
    let mut page = Page::new(width);
    page.paragraph("", &plan.title, 0);
    let baseline = format!("{}, as two arms", plan.baseline);
    for (name, text) in [
        ("command", command.as_str()),
        ("in", &shell_line([Word::from(plan.cwd.as_path())])),
        ("baseline", &baseline),
        ("blocks", &count),
        ("seed", &plan.seed.to_string()),
        ("estimate", &estimate),
    ] {
        page.paragraph(&format!("  {name:8}  "), text, 12);
    }
    page.finish()
}

fn list(trials: &[TrialRow<'_>], format: Format) -> Rows {
    let mut rows = match format {
        Format::Csv => Rows::new(&["block", "position", "arm", "stack", "estimate_ns"]),
        _ => Rows::new(&["Block", "Position", "Arm", "Stack", "Estimate"]),
    };
    for line in trials {
        let TrialPosition { block, position, arm } = line.trial;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    #[test]
    fn every_trial_is_shown_in_every_form() {
        let plan = plan(&["native", "runc", "qemu:mem=1G"]);
        let json: serde_json::Value =
            serde_json::from_str(&shown(&plan, Format::Json, 80).unwrap()).unwrap();
        assert_eq!(json["trials"].as_array().unwrap().len(), 40);
        assert_eq!(json["plan"]["stacks"][2], "qemu:memory=1G");
        assert!(json["trials"][7]["estimate_ns"].is_u64());
        let csv = shown(&plan, Format::Csv, 80).unwrap();
        assert_eq!(csv.lines().count(), 41);
        assert!(csv.starts_with("block,position,arm,stack,estimate_ns\r\n0,0,"), "{csv}");
        let table = shown(&plan, Format::Table, 80).unwrap();
        assert_eq!(table.matches("qemu:memory=1G").count(), 10);
        assert!(table.contains("block 10, ") && !table.contains("block 11, "), "{table}");
        assert!(table.contains("baseline  native, as two arms"), "{table}");
    }

    #[test]
    fn a_time_budget_shows_as_many_blocks_as_fit() {
        let plan = Plan { runs: None, time_budget_ns: Some(60_000_000_000), ..plan(&["native"]) };
        let table = shown(&plan, Format::Table, 80).unwrap();
        assert!(table.contains("blocks    about 29, within 1m"), "{table}");
    }
}
