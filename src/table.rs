//! Tables of ours that stand in files beside the code: a row on each line, its cells parted by
//! tabs.
//!
//! They are built into the binary, and a test reads each of them: a row that is wrong is found
//! before anybody has it.

/// Lists the rows of a table. Several tabs are as good as one; a line that begins with `#` is for
/// whoever edits the table.
///
/// # Panics
/// A row has more or fewer cells than are asked for.
pub(crate) fn rows<const CELLS: usize>(
    table: &'static str,
) -> impl Iterator<Item = [&'static str; CELLS]> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').filter(|cell| !cell.is_empty()).collect();
        cells.try_into().unwrap_or_else(|_| panic!("the row `{line}` has not {CELLS} cells"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_the_cells_between_tabs_and_a_comment_is_none() {
        let table = "# name\tvalue\none\t1\nthe other\t\tof # two\n";
        assert_eq!(rows(table).collect::<Vec<_>>(), [["one", "1"], ["the other", "of # two"]]);
    }

    #[test]
    #[should_panic(expected = "the row `one\t1` has not 3 cells")]
    fn a_row_of_another_length_is_none() {
        rows::<3>("one\t1\n").for_each(drop);
    }
}
