//! Timelines as a table: a row for each amount at each time, for programs that draw.
//!
//! CSV and Parquet are two ways of writing it. It is written series by series: a run of hours has
//! millions of rows. What is unknown has no value. Names of columns are promised.

use super::export::row;
#[cfg(feature = "parquet")]
use super::forms::parquet::Tables;
use super::trials::{Cells, Column};
use crate::finding::timeline::{self, TrialSeries};
use crate::finding::{Findings, foreign};

/// A table in the making.
pub struct SeriesTable {
    /// Facts that stand in every row.
    run: Run,
    rows: Rows,
}

/// The rows so far.
enum Rows {
    Csv(String),
    #[cfg(feature = "parquet")]
    Parquet(Tables),
}

/// Facts that stand in every row.
#[derive(Clone, Debug)]
pub struct Run {
    id: String,
    machine_hash: String,
}

impl Run {
    /// Those of a run.
    #[must_use]
    pub fn of(findings: &Findings) -> Self {
        let machine_hash = findings.machine_hash().unwrap_or_default().to_owned();
        Self { id: findings.run.id.clone(), machine_hash }
    }
}

impl SeriesTable {
    /// An empty one in CSV, or in Parquet.
    #[must_use]
    pub fn new(run: Run, is_parquet: bool) -> Self {
        #[cfg(feature = "parquet")]
        if is_parquet {
            let mut tables = Tables::default();
            tables.add("timeline", &columns(&TrialSeries::default(), &run));
            return Self { run, rows: Rows::Parquet(tables) };
        }
        let _ = is_parquet;
        let names = columns(&TrialSeries::default(), &run).into_iter().map(|it| it.name);
        Self { rows: Rows::Csv(row(names)), run }
    }

    /// Adds the rows of a series.
    pub fn add(&mut self, series: &TrialSeries<'_>) {
        let columns = columns(series, &self.run);
        match &mut self.rows {
            Rows::Csv(text) => {
                for at in 0..series.at_ns.len() {
                    *text += &row(columns.iter().map(|column| column.text(at)));
                }
            }
            #[cfg(feature = "parquet")]
            Rows::Parquet(tables) => tables.add("timeline", &columns),
        }
    }

    /// The whole table.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        match self.rows {
            Rows::Csv(text) => text.into_bytes(),
            #[cfg(feature = "parquet")]
            Rows::Parquet(tables) => tables.finish(),
        }
    }
}

/// The columns of a series.
fn columns(of: &TrialSeries<'_>, run: &Run) -> Vec<Column> {
    let rows = of.at_ns.len();
    let text = |text: &str| Cells::Text(vec![Some(foreign::line(text)); rows]);
    let count = |count: Option<u64>| Cells::Count(vec![count; rows]);
    let each = [
        ("arm", count(Some(of.arm.into()))),
        ("stack", text(of.stack)),
        ("block", count(Some(of.block.into()))),
        ("position", count(Some(of.position.into()))),
        ("attempt", count(Some(of.attempt.into()))),
        ("state", text(of.state)),
        ("level", count(Some(of.level.into()))),
        ("clock_bound_ns", count(of.clock_bound_ns)),
        ("payer", text(of.payer)),
        ("role", text(of.role)),
        ("quantity", text(of.quantity)),
        ("unit", text(of.unit)),
        ("at_ns", Cells::Count(of.at_ns.iter().copied().map(Some).collect())),
        ("amount", Cells::Count(of.values.clone())),
        ("amount_per_s", Cells::Number(rates(of))),
        ("run_id", text(&run.id)),
        ("machine_hash", text(&run.machine_hash)),
    ];
    each.into_iter().map(|(name, cells)| Column { name: name.into(), cells }).collect()
}

/// Use per second since the time before; nothing of what goes up and down.
fn rates(of: &TrialSeries<'_>) -> Vec<Option<f64>> {
    match of.grows {
        true => timeline::rates(of.at_ns, &of.values),
        false => vec![None; of.values.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> TrialSeries<'static> {
        TrialSeries {
            stack: "qemu",
            state: "done",
            level: 1,
            clock_bound_ns: Some(7),
            payer: "the machine",
            role: "machine",
            quantity: "cpu_user_ns",
            unit: "ns",
            grows: true,
            at_ns: &[0, 500_000_000, 1_000_000_000],
            values: vec![Some(0), Some(100), None],
            ..TrialSeries::default()
        }
    }

    fn run() -> Run {
        Run { id: String::from("ab"), machine_hash: String::from("cd") }
    }

    #[test]
    fn every_amount_is_a_row_with_its_time_and_what_was_used_per_second() {
        let mut table = SeriesTable::new(run(), false);
        table.add(&series());
        let text = String::from_utf8(table.finish()).unwrap();
        let rows: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(
            rows[0],
            "arm,stack,block,position,attempt,state,level,clock_bound_ns,payer,role,quantity,unit,\
             at_ns,amount,amount_per_s,run_id,machine_hash"
        );
        let row = |end: &str| {
            format!("0,qemu,0,0,0,done,1,7,the machine,machine,cpu_user_ns,ns,{end},ab,cd")
        };
        assert_eq!(rows[1..], ["0,0,", "500000000,100,200", "1000000000,,"].map(row));
        let gauge = TrialSeries { grows: false, ..series() };
        assert!(rates(&gauge).iter().all(Option::is_none));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_has_the_same_rows_and_an_empty_one_has_its_columns() {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use std::io::Write;
        for count in [0, 2] {
            let mut table = SeriesTable::new(run(), true);
            (0..count).for_each(|_| table.add(&series()));
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&table.finish()).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            let metadata = reader.metadata().file_metadata();
            assert_eq!(metadata.num_rows(), 3 * count);
            assert_eq!(metadata.schema_descr().num_columns(), 17);
        }
    }
}
