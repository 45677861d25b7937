# Reads a run's table of trials with pandas, Polars and DuckDB, and holds it against its JSON.

import json
import sys
from pathlib import Path

import duckdb
import pandas
import polars

place = Path(sys.argv[1])
answer = json.loads((place / "answer.json").read_text())
arms = {arm["arm"]: arm for arm in answer["arms"]}
trials = [(arm, trial) for arm in answer["arms"] for trial in arm["trials"]]


def median(arm):
    """Returns the median wall time of an arm in ns; None if it has none."""
    wall = [metric for metric in arm["metrics"] if metric["metric"] == "wall_ns"]
    return wall[0]["median"] if wall else None


EXPECTED = {number: median(arm) for number, arm in arms.items() if median(arm) is not None}
UNCOUNTED = sum(1 for _, trial in trials if trial["state"] != "done")
WITHOUT_TIME = sum(1 for _, trial in trials if trial["wall_ns"] is None)
assert len(EXPECTED) > 2 and UNCOUNTED > 0 and WITHOUT_TIME > 0, "the run shows nothing"


def hold(reader, rows, uncounted, without_time, medians, runs):
    """Fails unless what a reader found is what the JSON says."""
    assert rows == len(trials), f"{reader}: {rows} rows of {len(trials)}"
    assert uncounted == UNCOUNTED, f"{reader}: {uncounted} do not count, of {UNCOUNTED}"
    assert without_time == WITHOUT_TIME, f"{reader}: {without_time} without time"
    assert medians.keys() == EXPECTED.keys(), f"{reader}: arms {medians.keys()}"
    for arm, found in medians.items():
        assert abs(found - EXPECTED[arm]) <= 1, f"{reader}: arm {arm}: {found} ns"
    assert runs == {answer["run"]["id"]}, f"{reader}: runs {runs}"
    print(f"{reader}: {rows} rows")


for name, read in [("trials.parquet", pandas.read_parquet), ("trials.csv", pandas.read_csv)]:
    table = read(place / name)
    counted = table[table.is_counted]
    hold(
        f"pandas {pandas.__version__}, {name}",
        len(table),
        int((~table.is_counted).sum()),
        int(table.wall_ns.isna().sum()),
        counted.groupby("arm").wall_ns.median().to_dict(),
        set(table.run_id),
    )

for name, read in [("trials.parquet", polars.read_parquet), ("trials.csv", polars.read_csv)]:
    table = read(place / name)
    counted = table.filter(polars.col("is_counted"))
    medians = counted.group_by("arm").agg(polars.col("wall_ns").median()).iter_rows()
    hold(
        f"Polars {polars.__version__}, {name}",
        table.height,
        table.filter(~polars.col("is_counted")).height,
        table["wall_ns"].null_count(),
        dict(medians),
        set(table["run_id"]),
    )
    if name.endswith(".parquet"):
        types = {column: str(kind) for column, kind in table.schema.items()}
        wanted = {"wall_ns": "Int64", "stack": "String", "is_counted": "Boolean"}
        assert wanted.items() <= types.items(), types

for name in ["trials.parquet", "trials.csv"]:
    data = duckdb.query(f"SELECT * FROM '{place / name}'")
    counts = duckdb.query(
        "SELECT count(*), count(*) FILTER (NOT is_counted), count(*) FILTER (wall_ns IS NULL)"
        " FROM data"
    ).fetchall()[0]
    medians = duckdb.query("SELECT arm, median(wall_ns) FROM data WHERE is_counted GROUP BY arm")
    runs = duckdb.query("SELECT DISTINCT run_id FROM data").fetchall()
    hold(
        f"DuckDB {duckdb.__version__}, {name}",
        *counts,
        dict(medians.fetchall()),
        {run for (run,) in runs},
    )
