//! Round trips, kills between begin and end, and the examples of FORMAT.md.

mod foreign;
mod held;
mod kill_points;

use super::fixture::{add, done, fact, id, ledger, measured, plan, record};
use super::*;
use crate::fault::Blame;
use crate::trial::{READINGS_MOST, TrialResult};
use crate::workload::{Better, Metric};
use std::path::Path;
use surtax_instrument::amount::{
    CPU_SYSTEM, CPU_USER, MEMORY_ANON, MEMORY_KERNEL, MEMORY_PAGE_CACHE, MEMORY_PEAK, MEMORY_SHMEM,
    QUANTITIES,
};
use surtax_instrument::wire::{Reading, Status};

fn shelf() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.surtax");
    (directory, path)
}

#[test]
fn what_is_written_is_read_back_by_another_process() {
    let (_shelf, path) = shelf();
    let mut writer = ledger(&path, &["native", "runc"]);
    add(&mut writer, &done(id(0, 0), 1_000_000_000));

    let reader = Ledger::open(&path).unwrap();
    assert_eq!(reader.plan().unwrap(), plan(&["native", "runc"]));
    assert_eq!(reader.machine().unwrap()[0], fact("cpu_model", "AMD EPYC"));
    let run = reader.run().unwrap();
    assert_eq!((run.state, run.id.len()), (RunState::Running, 36));

    let trials = reader.trials().unwrap();
    let trial = &trials[0];
    assert_eq!((trials.len(), trial.id, trial.attempt), (1, id(0, 0), 1));
    assert_eq!((trial.state, trial.exit_status.as_deref()), (TrialState::Done, Some("exit 0")));
    let sample = |metric| trial.sample(metric).map(|sample| sample.whole);
    assert_eq!(sample("wall_ns"), Some(1_000_000_000));
    assert_eq!(sample("cpu_others_ns"), Some(150_000));
    assert_eq!(sample("cpu_total_ns"), Some(1_000_151_000));
    assert_eq!(sample("memory_others_peak_bytes"), Some(40 << 20));
    assert_eq!(sample("start_ns"), Some(5_000_000));
    assert_eq!(trial.readings, measured(1_000_000_000).readings);
    let proofs = reader.evidence().unwrap();
    let expected = measured(1).evidence;
    assert_eq!(proofs[&trial.evidence.unwrap()], expected.levels());
}

#[test]
fn a_trial_in_flight_at_a_crash_is_void_and_is_run_again_but_counted_once() {
    let (_shelf, path) = shelf();
    let mut first = ledger(&path, &["native"]);
    add(&mut first, &done(id(0, 0), 10));
    first.begin_trial(id(0, 1)).unwrap();
    drop(first); // as after SIGKILL: no `finish`

    assert_eq!(Ledger::open(&path).unwrap().run().unwrap().state, RunState::Interrupted);
    let mut second = Ledger::resume(&path).unwrap();
    second.void_unfinished().unwrap();
    assert_eq!(second.done().unwrap(), std::collections::HashSet::from([id(0, 0)]));

    let counted_twice = second.begin_trial(id(0, 0)).unwrap_err();
    assert_eq!(counted_twice.blame, Blame::Surtax);
    add(&mut second, &done(id(0, 1), 10));
    let trials = second.trials().unwrap();
    let attempts: Vec<_> = trials
        .iter()
        .filter(|trial| trial.id == id(0, 1))
        .map(|trial| (trial.attempt, trial.state))
        .collect();
    assert!(attempts.contains(&(1, TrialState::Void)), "{attempts:?}");
    assert!(attempts.contains(&(2, TrialState::Done)), "{attempts:?}");
}

/// A trial that succeeded while others used most of a CPU.
fn noisy(trial: TrialId, is_repeated: bool) -> crate::trial::Record {
    let mut record = done(trial, 10);
    let key = String::from("others_cpu_ratio");
    record.disturbances.push(Disturbance { key, value: 0.93, limit: 0.2 });
    if let (true, TrialResult::Done(measured)) = (is_repeated, &record.result) {
        record.result = TrialResult::Disturbed(measured.clone());
    }
    record
}

#[test]
fn a_disturbed_attempt_is_kept_with_its_numbers_and_its_repeat_counts_once() {
    let (_shelf, path) = shelf();
    let mut first = ledger(&path, &["native"]);
    add(&mut first, &noisy(id(0, 0), true));
    add(&mut first, &noisy(id(0, 0), false));
    let counted_twice = first.begin_trial(id(0, 0)).unwrap_err();
    assert_eq!(counted_twice.blame, Blame::Surtax);

    let trials = Ledger::open(&path).unwrap().trials().unwrap();
    let states: Vec<_> = trials.iter().map(|trial| (trial.attempt, trial.state)).collect();
    assert_eq!(states, [(1, TrialState::Disturbed), (2, TrialState::Done)]);
    for trial in &trials {
        assert_eq!(trial.disturbances, noisy(id(0, 0), false).disturbances);
        assert_eq!(trial.sample("wall_ns").unwrap().whole, 10);
        assert!(trial.evidence.is_some());
    }
}

#[test]
fn a_crash_before_the_repeat_leaves_a_trial_to_do_that_is_not_repeated_again() {
    let (_shelf, path) = shelf();
    let mut first = ledger(&path, &["native"]);
    add(&mut first, &noisy(id(0, 0), true));
    add(&mut first, &noisy(id(0, 1), true));
    add(&mut first, &done(id(0, 1), 10));
    add(&mut first, &noisy(id(1, 0), true));
    first.begin_trial(id(1, 0)).unwrap();
    drop(first); // as after SIGKILL

    let mut second = Ledger::resume(&path).unwrap();
    second.void_unfinished().unwrap();
    let all = |ids: &[TrialId]| ids.iter().copied().collect::<std::collections::HashSet<_>>();
    assert_eq!(second.done().unwrap(), all(&[id(0, 1)]));
    assert_eq!(second.repeated().unwrap(), all(&[id(0, 0), id(0, 1), id(1, 0)]));
    add(&mut second, &done(id(0, 0), 10));
    assert_eq!(second.done().unwrap(), all(&[id(0, 0), id(0, 1)]));
}

#[test]
fn a_ledger_of_the_first_format_is_read_and_not_gone_on_with() {
    let (_shelf, path) = shelf();
    let mut writer = ledger(&path, &["native"]);
    add(&mut writer, &done(id(0, 0), 10));
    drop(writer);
    as_in_format_7(&path);
    let old = "DROP TABLE metrics; DROP TABLE histograms; DROP TABLE absences; DROP TABLE instances;
        DROP TABLE iterations; DROP TABLE disturbances; DROP TABLE memory; PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, '''disturbed'', ', '');
        UPDATE sqlite_schema SET sql = replace(sql, ',' || char(10) || '    seal            TEXT', '');
        PRAGMA user_version = 1";
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(old).unwrap();
    drop(connection);
    assert_eq!(Ledger::open(&path).unwrap().trials().unwrap().len(), 1);
    let error = Ledger::resume(&path).unwrap_err();
    assert_eq!(error.blame, Blame::User);
    assert!(error.message.contains("an older surtax, in format 1 of now 11"), "{error}");
}

#[test]
fn what_a_payers_memory_is_is_read_back_and_absent_from_an_older_ledger() {
    let (_shelf, path) = shelf();
    let mut writer = ledger(&path, &["native"]);
    let mut measured = measured(10);
    for (amount, key) in (1..).zip([MEMORY_ANON, MEMORY_PAGE_CACHE, MEMORY_SHMEM]) {
        measured.readings[0].amounts.set(key, amount);
    }
    measured.readings.push(Reading {
        amounts: measured.readings[0].amounts.clone().with(MEMORY_KERNEL, 4),
        is_shared: true,
        ..measured.readings[1].clone()
    });
    let readings = measured.readings.clone();
    add(&mut writer, &record(id(0, 0), TrialResult::Done(Box::new(measured))));
    drop(writer);
    let read = || Ledger::open(&path).unwrap().trials().unwrap().remove(0).readings;
    assert_eq!(read(), readings);
    let spelled = "SELECT count(*) FROM amounts WHERE name = 'memory_kernel_bytes' AND unit = \
                   'bytes' AND value = 4";
    let connection = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(connection.query_row(spelled, [], |row| row.get(0)), Ok(1));
    drop(connection);

    as_in_format_7(&path);
    assert_eq!(read(), readings);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("DROP TABLE memory; PRAGMA user_version = 6").unwrap();
    drop(connection);
    let of_6 = read();
    assert_eq!(of_6.len(), 3);
    let has_peak_alone = |it: &Reading| {
        it.amounts.iter().map(|(key, _)| key).eq([CPU_USER, CPU_SYSTEM, MEMORY_PEAK])
    };
    assert!(of_6.iter().all(|it| has_peak_alone(it) && !it.is_shared), "{of_6:?}");
}

#[test]
fn a_trial_with_more_payers_or_levels_than_any_run_has_is_refused() {
    let shelf = tempfile::tempdir().unwrap();
    let path = shelf.path().join("run.surtax");
    let mut writer = ledger(&path, &["runc"]);
    let mut measured = measured(1);
    measured.readings = vec![measured.readings[0].clone(); READINGS_MOST];
    add(&mut writer, &record(id(0, 0), TrialResult::Done(Box::new(measured))));
    drop(writer);
    let read = || Ledger::open(&path).unwrap().trials();
    assert_eq!(read().unwrap()[0].readings.len(), READINGS_MOST);
    let change = |statement: &str| {
        rusqlite::Connection::open(&path).unwrap().execute_batch(statement).unwrap();
        read().unwrap_err().message
    };
    let said = change(
        "INSERT INTO readings SELECT trial, position + 5000, payer, is_shared, amount_map
                       FROM readings WHERE position = 0",
    );
    assert!(said.contains("more than 2048 payers"), "{said}");
    let said = change("DELETE FROM readings WHERE position > 0; UPDATE payers SET level = 9");
    assert!(said.contains("no stack has a level 9"), "{said}");
}

#[test]
fn a_name_or_a_unit_that_is_longer_than_any_is_refused() {
    for column in ["metric", "unit"] {
        let shelf = tempfile::tempdir().unwrap();
        let path = shelf.path().join("run.surtax");
        let mut writer = ledger(&path, &["runc"]);
        add(&mut writer, &done(id(0, 0), 10));
        drop(writer);
        let change = |length: u32| {
            let text = "x".repeat(length as usize);
            let statement = format!(
                "UPDATE samples SET {column} = '{text}'
                 WHERE metric = (SELECT max(metric) FROM samples)"
            );
            rusqlite::Connection::open(&path).unwrap().execute_batch(&statement).unwrap();
            Ledger::open(&path).unwrap().trials()
        };
        assert!(change(200).is_ok());
        let said = change(201).unwrap_err().message;
        assert!(said.contains("a name of 201 bytes"), "{said}");
    }
}

/// Makes a ledger as format 7 had it, with all that it says.
fn as_in_format_7(path: &Path) {
    let columns: Vec<String> =
        (1..=7).map(|key| format!("amount_map ->> '{key}' AS a{key}")).collect();
    let as_it_was = format!(
        "CREATE TEMP TABLE kept AS SELECT trial, position, payer, is_shared, {} FROM readings;
         DROP VIEW amounts; DROP TABLE readings; DROP TABLE quantities;
         DROP TABLE calls; DROP TABLE counting; DROP TABLE prices;
         DROP TABLE series; DROP TABLE timelines; DROP TABLE phases;
         DROP TABLE meters;
         {};
         INSERT INTO readings SELECT trial, position, payer, a1, a2, a3 FROM kept;
         INSERT INTO memory SELECT trial, position, is_shared, a4, a5, a6, a7 FROM kept;
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, ', ''machine''', '');
         PRAGMA user_version = 7",
        columns.join(", "),
        schema::READINGS_OF_7
    );
    rusqlite::Connection::open(path).unwrap().execute_batch(&as_it_was).unwrap();
}

#[test]
fn a_trial_that_was_never_begun_cannot_end() {
    let (_shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    assert_eq!(ledger.end_trial(&done(id(0, 0), 10)).unwrap_err().blame, Blame::Surtax);
    assert!(ledger.trials().unwrap().is_empty());
}

#[test]
fn two_processes_cannot_write_one_ledger_but_one_can_read_what_another_writes() {
    let (_shelf, path) = shelf();
    let writer = ledger(&path, &["native"]);
    let error = Ledger::resume(&path).unwrap_err();
    assert!(error.message.contains("a running surtax works on the run file"), "{error}");
    assert!(Ledger::open(&path).is_ok());
    drop(writer);
    assert!(Ledger::resume(&path).is_ok());
}

#[test]
fn what_is_no_ledger_or_too_new_is_refused_with_a_reason() {
    let (shelf, path) = shelf();
    assert!(Ledger::open(&path).unwrap_err().message.starts_with("there is no run file"));

    std::fs::write(&path, "hello, this is text and not SQLite at all").unwrap();
    let error = Ledger::open(&path).unwrap_err();
    assert!(error.message.ends_with("is not a run file of surtax"), "{error}");
    let occupied = Ledger::create(&path, &plan(&["native"]), &[]).unwrap_err();
    assert!(occupied.message.ends_with("already exists"), "{occupied}");
    let directory = Ledger::create(shelf.path(), &plan(&["native"]), &[]).unwrap_err();
    assert!(directory.message.ends_with("and a run is a file"), "{directory}");

    let other = shelf.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    let error = Ledger::open(&other).unwrap_err();
    assert!(error.message.ends_with("but not a run file of surtax"), "{error}");

    let newer = shelf.path().join("newer.surtax");
    drop(ledger(&newer, &["native"]));
    let connection = rusqlite::Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let error = Ledger::open(&newer).unwrap_err();
    assert!(error.message.contains("has format 99"), "{error}");
}

#[test]
fn a_full_disk_says_where_what_is_kept_and_how_to_go_on() {
    let (_shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    add(&mut ledger, &done(id(0, 0), 10));
    let pages: i64 =
        ledger.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    ledger.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();

    ledger.begin_trial(id(0, 1)).unwrap();
    let mut big = measured(10);
    big.outcome.stdout.tail = vec![b'x'; 1 << 20];
    big.outcome.stdout.hash = 99;
    let error = ledger.end_trial(&record(id(0, 1), TrialResult::Done(Box::new(big)))).unwrap_err();
    assert_eq!(error.blame, Blame::Machine);
    assert!(error.message.contains("is full; every trial that ended before is kept"), "{error}");
    assert!(error.hint.unwrap().contains("surtax resume"));
    assert_eq!(ledger.trials().unwrap()[0].state, TrialState::Done);
}

#[test]
fn what_no_ledger_can_hold_makes_its_trial_invalid_and_the_run_goes_on() {
    let (_shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    // Two of one name, or what is no number.
    let told = |values: &[f64]| {
        let mut told = measured(10);
        let metric = |&value: &f64| Metric {
            name: String::from("laps"),
            unit: "laps",
            better: Better::Higher,
            value,
        };
        told.workload.metrics = values.iter().map(metric).collect();
        told.outcome.stdout.hash = 77;
        TrialResult::Done(Box::new(told))
    };
    let cases = [(&[1.0, 2.0][..], 0.5), (&[f64::NAN], 0.5), (&[1.0], f64::NAN), (&[1.0], 0.5)];
    for (block, (values, load)) in cases.into_iter().enumerate() {
        let mut record = record(id(u32::try_from(block).unwrap(), 0), told(values));
        record.conditions = vec![(String::from("first"), 0.5), (String::from("second"), load)];
        ledger.begin_trial(record.trial).unwrap();
        ledger.end_trial_or_refuse(&mut record).unwrap();
        assert_eq!(matches!(record.result, TrialResult::Done(_)), block == 3, "{record:?}");
    }
    let kept: Option<Vec<u8>> = ledger
        .connection
        .query_row("SELECT tail FROM outputs WHERE stream = 'stdout'", [], |row| row.get(0))
        .unwrap();
    assert!(kept.is_some(), "the first that is written is kept whole");
    let trials = ledger.trials().unwrap();
    let states: Vec<TrialState> = trials.iter().map(|trial| trial.state).collect();
    use TrialState::{Done, Invalid};
    assert_eq!(states, [Invalid, Invalid, Invalid, Done]);
    let why = trials[0].why.as_str();
    assert!(why.starts_with("what the trial said cannot be written down: "), "{why}");
    let rows = |query: &str| -> Vec<String> {
        let mut statement = ledger.connection.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    // Of a trial that was refused no part is kept, and the log says of each why.
    let kept = rows("SELECT block || ' ' || key FROM conditions JOIN trials USING (trial)");
    assert_eq!(kept, ["3 first", "3 second"]);
    let logged = rows("SELECT message FROM logs ORDER BY at_ns");
    assert_eq!(logged.len(), 3, "{logged:?}");
    assert_eq!(logged[0], format!("trial 1.1 of arm 0 is invalid: {why}"));
}

#[test]
fn proofs_and_facts_that_repeat_are_stored_once() {
    let (_shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    for block in 0..20 {
        add(&mut ledger, &done(id(block, 0), 10));
    }
    let other = rusqlite::Connection::open(&path).unwrap();
    let count = |table: &str| -> i64 {
        let query = format!("SELECT count(*) FROM {table}");
        other.query_row(&query, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("facts"), count("evidence"), count("payers")), (2, 1, 2));
    assert_eq!(count("trial_evidence"), 40);
    assert_eq!(count("outputs WHERE tail IS NOT NULL"), 2); // both streams, once
}

#[test]
fn the_output_of_a_failed_command_is_kept() {
    let (_shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    add(&mut ledger, &done(id(0, 0), 10));
    let mut failed = measured(10);
    failed.outcome.status = Status::Signal(9);
    failed.outcome.stderr.tail = b"out of memory\n".into();
    add(&mut ledger, &record(id(1, 0), TrialResult::CommandFailed(Box::new(failed))));
    let tail = ledger.tail(0, TrialState::Failed, Stream::Stderr).unwrap();
    assert_eq!(tail.unwrap(), b"out of memory\n");
    let trials = ledger.trials().unwrap();
    assert_eq!(trials[1].exit_status.as_deref(), Some("signal 9"));
}

#[test]
fn a_finished_run_is_one_file() {
    let (shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    add(&mut ledger, &done(id(0, 0), 10));
    ledger.log(Severity::Note, "all is well").unwrap();
    ledger.finish(RunState::Finished).unwrap();
    assert_eq!(ledger.run().unwrap().state, RunState::Finished);
    assert_eq!(std::fs::read_dir(shelf.path()).unwrap().count(), 1);
}

#[test]
fn the_three_questions_of_the_format_page_can_be_pasted() {
    let (_shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    add(&mut ledger, &done(id(0, 0), 10));
    let why = String::from("the kernel stopped");
    add(&mut ledger, &record(id(0, 1), TrialResult::Broken(why.into())));

    let other = rusqlite::Connection::open(&path).unwrap();
    let page = include_str!("FORMAT.md");
    let questions: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("sqlite3 -box RUN.surtax \"")?.strip_suffix('"'))
        .collect();
    assert_eq!(questions.len(), 3);
    for question in questions {
        let mut statement = other.prepare(question).unwrap();
        assert!(statement.exists([]).unwrap(), "no answer to: {question}");
    }
}

#[test]
fn every_table_and_field_is_on_the_format_page() {
    let page = include_str!("FORMAT.md");
    for line in include_str!("schema.sql").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = match words.as_slice() {
            ["CREATE", "TABLE", table, ..] => format!("**{table}**"),
            [field, kind, ..]
                if matches!(kind.trim_end_matches(','), "TEXT" | "INTEGER" | "REAL" | "BLOB") =>
            {
                format!("`{field}`")
            }
            _ => continue,
        };
        assert!(name == "`one`" || page.contains(&name), "{name} is not explained");
    }
    for quantity in &QUANTITIES {
        assert!(
            page.contains(&format!("`{}`", quantity.name)),
            "{} is not explained",
            quantity.name
        );
    }
}

#[test]
fn what_a_workload_measures_is_kept_with_its_unit_its_direction_and_whole_histograms() {
    use crate::workload::{Better, Histogrammed, Metric};
    let (_shelf, path) = shelf();
    let mut ledger = ledger(&path, &["native"]);
    for block in 0..3 {
        let mut measured = measured(10);
        let metric = |name: &str, unit, better, value| Metric {
            name: String::from(name),
            unit,
            better,
            value,
        };
        measured.workload.metrics = vec![
            metric("rate", "1/s", Better::Higher, 1.5 + f64::from(block)),
            metric("latency", "ns", Better::Lower, 7.0),
        ];
        let mut histogram = surtax_statistics::Histogram::new();
        histogram.record_many(5 + u64::from(block), 10).unwrap();
        measured.workload.histograms =
            vec![Histogrammed { name: String::from("latencies"), histogram }];
        measured.workload.instances = [1.0, 0.5 + f64::from(block)]
            .into_iter()
            .zip(0..)
            .map(|(value, instance)| crate::workload::Instanced {
                instance,
                metric: String::from("rate"),
                unit: "1/s",
                value,
            })
            .collect();
        add(&mut ledger, &record(id(block, 0), TrialResult::Done(Box::new(measured))));
    }
    let metrics = ledger.metrics().unwrap();
    let said: Vec<_> =
        metrics.iter().map(|it| (it.name.as_str(), it.unit.as_str(), it.better)).collect();
    assert_eq!(said, [("rate", "1/s", Better::Higher), ("latency", "ns", Better::Lower)]);
    let trials = ledger.trials().unwrap();
    assert!((trials[2].sample("rate").unwrap().value - 3.5).abs() < 1e-12);
    let instances: Vec<f64> = trials[2].instances.iter().map(|it| it.value).collect();
    assert_eq!(instances, [1.0, 2.5]);
    let histograms = ledger.histograms().unwrap();
    let merged = &histograms[&(0, String::from("latencies"))];
    assert_eq!(
        (merged.count(), merged.quantile(0.0), merged.quantile(1.0)),
        (30, Some(5), Some(7))
    );
}

#[test]
fn a_number_is_found_wherever_it_stands_and_not_taken_for_the_one_at_its_place() {
    let trial = |metrics: &[&str]| StoredTrial {
        samples: metrics
            .iter()
            .zip(1..)
            .map(|(metric, whole)| Sample {
                metric: (*metric).into(),
                unit: "ns".into(),
                value: 0.0,
                whole,
            })
            .collect(),
        ..StoredTrial::default()
    };
    let mut place = 7;
    for (metrics, found) in [
        (&["a", "b"][..], Some(2)),
        (&["a", "b", "c"], Some(2)),
        (&["b", "a"], Some(1)),
        (&["a"], None),
        (&[], None),
        (&["b"], Some(1)),
    ] {
        let trial = trial(metrics);
        let near = trial.sample_near("b", &mut place).map(|sample| sample.whole);
        assert_eq!(near, found, "{metrics:?}");
        assert_eq!(trial.sample("b").map(|sample| sample.whole), found);
    }
}
