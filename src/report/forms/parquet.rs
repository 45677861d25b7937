//! Apache Parquet: the table of all trials, or of timelines, for pandas, Polars, DuckDB and such.
//!
//! One row group, or one for each series; texts as UTF-8, counts as 64-bit integers, pages
//! compressed by LZ4. Every column may have no value, which is null and never zero.
//!
//! Source: <https://parquet.apache.org/docs/file-format/>.

use crate::finding::{Findings, foreign};
use crate::report::trials::{self, Cells, Column};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// Writes every trial of a run as one file.
pub(super) fn bytes(findings: &Findings) -> Vec<u8> {
    let mut tables = Tables::default();
    tables.add("trials", &trials::columns(findings));
    tables.finish()
}

/// A file in the making, of groups of rows that all have the same columns.
#[derive(Default)]
pub(in crate::report) enum Tables {
    /// Nothing was added.
    #[default]
    Empty,
    /// Groups are in it.
    Begun(Box<SerializedFileWriter<Vec<u8>>>),
    /// One could not be added, and none is any more.
    Failed,
}

impl Tables {
    /// Adds a group of rows; `name` is the table's.
    pub(in crate::report) fn add(&mut self, name: &str, columns: &[Column]) {
        // Only memory is written to, of columns that are as long as one another.
        let file = match std::mem::replace(self, Self::Failed) {
            Self::Empty => begun(name, columns),
            Self::Begun(file) => Ok(*file),
            Self::Failed => return,
        };
        if let Ok(file) = file.and_then(|file| with_group(file, columns)) {
            *self = Self::Begun(Box::new(file));
        }
    }

    /// The whole file.
    pub(in crate::report) fn finish(self) -> Vec<u8> {
        match self {
            Self::Begun(file) => file.into_inner().unwrap_or_default(),
            Self::Empty | Self::Failed => Vec::new(),
        }
    }
}

fn begun(name: &str, columns: &[Column]) -> Result<SerializedFileWriter<Vec<u8>>> {
    let fields = columns.iter().map(field).collect::<Result<Vec<TypePtr>>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_created_by(concat!("surtax version ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
}

fn with_group(
    mut file: SerializedFileWriter<Vec<u8>>,
    columns: &[Column],
) -> Result<SerializedFileWriter<Vec<u8>>> {
    let mut group = file.next_row_group()?;
    for column in columns {
        let Some(mut writer) = group.next_column()? else { break };
        match &column.cells {
            Cells::Text(cells) => {
                let bytes = |text: &String| ByteArray::from(text.as_str());
                put::<ByteArrayType>(&mut writer, cells.iter().map(|it| it.as_ref().map(bytes)))?;
            }
            Cells::Count(cells) => {
                // Nanoseconds of three hundred years fit.
                let counts = cells.iter().map(|it| it.and_then(|it| i64::try_from(it).ok()));
                put::<Int64Type>(&mut writer, counts)?;
            }
            Cells::Number(cells) => put::<DoubleType>(&mut writer, cells.iter().copied())?,
            Cells::Flag(cells) => put::<BoolType>(&mut writer, cells.iter().copied())?,
        }
        writer.close()?;
    }
    group.close()?;
    Ok(file)
}

/// Writes the values of a column, and in which rows there are any.
fn put<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<T::T>> + Clone,
) -> Result<()> {
    let levels: Vec<i16> = cells.clone().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.flatten().collect();
    writer.typed::<T>().write_batch(&values, Some(&levels), None).map(drop)
}

fn field(column: &Column) -> Result<TypePtr> {
    let (physical, logical) = match column.cells {
        Cells::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Cells::Count(_) => (Physical::INT64, None),
        Cells::Number(_) => (Physical::DOUBLE, None),
        Cells::Flag(_) => (Physical::BOOLEAN, None),
    };
    let name = foreign::line(&column.name);
    let field = Type::primitive_type_builder(&name, physical);
    field.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::io::Write;

    fn text(field: &Field) -> String {
        match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            Field::Long(count) => count.to_string(),
            Field::Double(number) => number.to_string(),
            Field::Bool(flag) => flag.to_string(),
            other => panic!("{other:?} is of no column"),
        }
    }

    #[test]
    fn what_is_read_back_is_what_the_table_has() {
        let mut findings = example(6, |_| {});
        findings.arms[0].trials[0].metrics = [(String::from("latency_p99.9"), 2.5)].into();
        let columns = trials::columns(&findings);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes(&findings)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<Vec<(String, String)>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                let row = row.unwrap();
                row.get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect()
            })
            .collect();
        assert_eq!(rows.len(), columns[0].len());
        for (at, row) in rows.iter().enumerate() {
            let expected = columns.iter().map(|column| (column.name.clone(), column.text(at)));
            assert_eq!(*row, expected.collect::<Vec<_>>(), "row {at}");
        }
        assert!(rows.iter().flatten().any(|(_, text)| text.is_empty()), "what is unknown is null");
    }
}
