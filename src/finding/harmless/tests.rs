//! A ledger in which every text acts, in every format.

use crate::finding::{Findings, compare, foreign};
use crate::ledger::Ledger;
use crate::ledger::fixture::{add, done, id, plan, record};
use crate::plan::Plan;
use crate::report::terminal::{Colour, Look, PLAIN};
use crate::report::{export, html, markdown, terminal};
use crate::trial::TrialResult;
use crate::trial::disturbance::Disturbance;
use crate::workload::{Absence, Better, Histogrammed, Instanced, Metric};
use std::path::Path;

/// Text that retitles a terminal, clears it, colours it, turns a line round, and breaks it.
const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[38;5;213m\u{9b}31m\u{202e}\u{2066}\u{200b}\r\n| \
                    x | y |\0\u{7f}";

/// The columns of text in which any text may stand, by their table; numbers of other tables and
/// words of ours are not among them.
const TEXTS: [(&str, &[&str]); 13] = [
    ("run", &["id", "title", "surtax_version"]),
    ("arms", &["stack"]),
    ("machine_facts", &["key", "value", "source"]),
    ("facts", &["layer", "key", "value", "source"]),
    ("trials", &["exit_status", "why", "remedy"]),
    ("samples", &["unit"]),
    ("metrics", &["metric", "unit", "better"]),
    ("absences", &["metric", "why"]),
    ("instances", &["metric", "unit"]),
    ("payers", &["name"]),
    ("outputs", &["xxh3_hex"]),
    ("leftovers", &["what"]),
    ("logs", &["message"]),
];

/// A run of three blocks with everything that a run can have, in which every text is followed by
/// `EVIL`.
fn hostile(path: &Path) -> Findings {
    let evil = |text: &str| format!("{text}{EVIL}");
    let mut plan =
        Plan { title: evil("t"), cwd: evil("/").into(), ..plan(&["native", "runc", "qemu"]) };
    plan.command = vec![evil("make").into(), evil("-j4").into()];
    plan.environment = vec![(evil("NAME"), evil("value").into())];
    // A stack with a character that controls is refused as a whole; these are none, and turn the
    // line round.
    let turned = String::from("value\u{202e}\u{2066}owned");
    plan.stacks[1].layers[0].options.insert(String::from("option"), turned);
    let mut ledger = Ledger::create(path, &plan, &[]).unwrap();
    for block in 0..3 {
        for arm in 0..3 {
            let mut record = done(id(block, arm), 1_000_000_000 + u64::from(block * arm));
            fill(&mut record);
            add(&mut ledger, &record);
        }
    }
    let why = evil("why\n  hint: remedy");
    add(&mut ledger, &record(id(0, 3), TrialResult::Broken(why.into())));
    let mut failed = crate::ledger::fixture::measured(10);
    failed.outcome.status = surtax_instrument::wire::Status::Exit(1);
    // Lines of its own it may have: they are fenced in.
    failed.outcome.stderr.tail = EVIL.replace('\n', "").into_bytes();
    add(&mut ledger, &record(id(1, 3), TrialResult::CommandFailed(Box::new(failed))));
    drop(ledger);

    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_update(None, "ignore_check_constraints", "ON").unwrap();
    for (table, columns) in TEXTS {
        for column in columns {
            let change = format!("UPDATE {table} SET {column} = {column} || ?1");
            connection.execute(&change, [EVIL]).unwrap();
        }
    }
    for table in ["samples", "histograms"] {
        let change = format!("UPDATE {table} SET metric = metric || ?1 WHERE metric LIKE 'rate%'");
        connection.execute(&change, [EVIL]).unwrap();
    }
    connection.execute("UPDATE disturbances SET key = key || ?1", [EVIL]).unwrap();
    drop(connection);
    compare(&Ledger::open(path).unwrap()).unwrap()
}

/// Gives a trial something of every kind.
fn fill(record: &mut crate::trial::Record) {
    record.leftovers = vec![String::from("a mount")];
    let key = String::from("others_cpu_ratio");
    record.disturbances.push(Disturbance { key, value: 0.93, limit: 0.2 });
    let TrialResult::Done(measured) = &mut record.result else { return };
    let name = || String::from("rate");
    measured.workload.metrics =
        vec![Metric { name: name(), unit: "1/s", better: Better::Higher, value: 1.5 }];
    let mut histogram = surtax_statistics::Histogram::new();
    histogram.record_many(5, 1000).unwrap();
    measured.workload.histograms = vec![Histogrammed { name: name(), histogram }];
    measured.workload.instances = [0, 1]
        .map(|instance| Instanced { instance, metric: name(), unit: "1/s", value: 2.0 })
        .into();
    measured.workload.absences =
        vec![Absence { metric: String::from("loss"), why: String::from("not here") }];
}

/// The first letters that act, with what stands around them.
fn acting(text: &str, is_meant: impl Fn(char) -> bool) -> Option<String> {
    let at = text.char_indices().find(|(_, it)| foreign::acts(*it) && !is_meant(*it))?.0;
    let from = text[..at].char_indices().rev().nth(60).map_or(0, |it| it.0);
    Some(text[from..].chars().take(90).collect::<String>().escape_debug().to_string())
}

#[test]
fn no_text_of_a_strangers_ledger_acts_in_any_format() {
    let shelf = tempfile::tempdir().unwrap();
    let findings = hostile(&shelf.path().join("run.surtax"));
    // What is looked for is there at all.
    let arm = &findings.arms[0];
    assert!(!arm.instances.is_empty() && !arm.absences.is_empty() && !arm.histograms.is_empty());
    assert!(arm.metrics.iter().any(|it| it.unit.contains("owned")), "{:?}", arm.metrics);
    assert!(arm.payers.iter().any(|it| it.payer.contains("owned")));
    for (format, text) in [
        ("terminal", terminal::render(&findings, PLAIN)),
        ("narrow terminal", terminal::render(&findings, Look { width: 60, ..PLAIN })),
        ("markdown", markdown::markdown(&findings)),
        ("json", export::json(&findings)),
        ("html", html::html(&findings)),
        ("csv", export::csv(&findings).replace("\r\n", "\n")),
        ("csv of trials", export::csv_trials(&findings).replace("\r\n", "\n")),
    ] {
        assert!(text.contains("owned"), "{format} shows nothing of it");
        assert_eq!(acting(&text, |it| it == '\n'), None, "{format}");
        // A line of its own would be a row, a heading or a record that nobody wrote.
        assert!(text.lines().all(|line| !line.starts_with("| x | y |")), "{format}");
    }
    let coloured = terminal::render(&findings, Look { colour: Colour::Yes, ..PLAIN });
    assert_eq!(acting(&coloured, |it| matches!(it, '\n' | '\u{1b}')), None);
    for act in ["\u{1b}]", "\u{1b}[2J", "\u{1b}[38;5;213m"] {
        assert!(!coloured.contains(act), "{act:?}");
    }
}

#[test]
fn a_reason_of_several_lines_is_one_line_in_every_format() {
    let findings = crate::finding::compare::tests::example(6, |record| {
        if record.trial.arm == 2 {
            let why = String::from("the agent is gone\n  | no memory\n  hint: give it more");
            record.result = TrialResult::Broken(why.into());
        }
    });
    for (format, text) in [
        ("terminal", terminal::render(&findings, PLAIN)),
        ("markdown", markdown::markdown(&findings)),
        ("html", html::html(&findings)),
        ("csv", export::csv(&findings)),
        ("csv of trials", export::csv_trials(&findings)),
    ] {
        assert!(text.contains("no memory"), "{format} shows nothing of it");
        let escaped =
            text.match_indices("\\n").map(|(at, _)| text.get(at.saturating_sub(90)..at + 20));
        let of_it = escaped.flatten().find(|it| it.contains("| no memory"));
        assert_eq!(of_it, None, "{format}");
    }
}

#[test]
fn values_of_the_environment_are_in_the_run_file_and_in_no_report() {
    let shelf = tempfile::tempdir().unwrap();
    let path = shelf.path().join("run.surtax");
    let environment = [("TOKEN", "s3cret-1"), ("not a name", "s3cret-2")];
    let environment = environment.map(|(name, value)| (name.into(), value.into()));
    let plan = Plan { environment: environment.into(), ..plan(&["native", "runc"]) };
    let mut ledger = Ledger::create(&path, &plan, &[]).unwrap();
    add(&mut ledger, &done(id(0, 0), 10));
    assert_eq!(ledger.plan().unwrap(), plan, "`surtax resume` needs them");
    let findings = compare(&ledger).unwrap();
    for text in [
        terminal::render(&findings, PLAIN),
        markdown::markdown(&findings),
        export::json(&findings),
        html::html(&findings),
        export::csv(&findings),
        export::csv_trials(&findings),
    ] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    let line = &findings.run.repeat_with;
    assert!(line.contains("--env TOKEN=\"$TOKEN\" ") && line.contains("'not a name=…'"), "{line}");
}
