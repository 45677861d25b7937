-- The ledger: one run, one file. Every field that holds a quantity ends with its unit.
-- FORMAT.md explains each table; raise `user_version` whenever a field changes its meaning.

CREATE TABLE run (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    id              TEXT NOT NULL,
    title           TEXT NOT NULL,
    plan_json       TEXT NOT NULL,
    surtax_version  TEXT NOT NULL,
    began_at_ns     INTEGER NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted')),
    seal            TEXT
) STRICT;

CREATE TABLE arms (
    arm    INTEGER PRIMARY KEY,
    stack  TEXT NOT NULL,
    part   TEXT NOT NULL CHECK (part IN ('baseline', 'baseline-again', 'compared'))
) STRICT;

CREATE TABLE machine_facts (
    position  INTEGER PRIMARY KEY,
    key       TEXT NOT NULL,
    value     TEXT NOT NULL,
    source    TEXT NOT NULL
) STRICT;

CREATE TABLE facts (
    fact    INTEGER PRIMARY KEY,
    level   INTEGER NOT NULL,
    layer   TEXT NOT NULL,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    source  TEXT NOT NULL,
    UNIQUE (level, layer, key, value, source)
) STRICT;

CREATE TABLE evidence (
    evidence   INTEGER PRIMARY KEY,
    fact_list  TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE trials (
    trial        INTEGER PRIMARY KEY,
    block        INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    arm          INTEGER NOT NULL REFERENCES arms (arm),
    attempt      INTEGER NOT NULL,
    state        TEXT NOT NULL CHECK (state IN
        ('running', 'done', 'disturbed', 'failed', 'broken', 'unavailable', 'invalid', 'void')),
    began_at_ns  INTEGER NOT NULL,
    ended_at_ns  INTEGER,
    exit_status  TEXT,
    why          TEXT,
    remedy       TEXT,
    evidence     INTEGER REFERENCES evidence (evidence),
    CHECK ((state = 'running') = (ended_at_ns IS NULL)),
    CHECK (state <> 'done' OR evidence IS NOT NULL),
    UNIQUE (block, position, arm, attempt)
) STRICT;

-- A trial of the plan counts at most once, and is never running twice.
CREATE UNIQUE INDEX trials_counted_once ON trials (block, position, arm)
    WHERE state IN ('running', 'done');

CREATE TABLE samples (
    trial   INTEGER NOT NULL REFERENCES trials (trial),
    metric  TEXT NOT NULL,
    unit    TEXT NOT NULL,
    value   REAL NOT NULL,
    PRIMARY KEY (trial, metric)
) STRICT, WITHOUT ROWID;

-- What a workload measures, beside what every trial has.
CREATE TABLE metrics (
    position  INTEGER PRIMARY KEY,
    metric    TEXT NOT NULL UNIQUE,
    unit      TEXT NOT NULL,
    better    TEXT NOT NULL CHECK (better IN ('lower', 'higher'))
) STRICT;

CREATE TABLE histograms (
    trial        INTEGER NOT NULL REFERENCES trials (trial),
    metric       TEXT NOT NULL,
    value_count  INTEGER NOT NULL,
    hdr_v2       BLOB NOT NULL,
    PRIMARY KEY (trial, metric)
) STRICT, WITHOUT ROWID;

-- A metric that a workload could not measure where it ran.
CREATE TABLE absences (
    trial   INTEGER NOT NULL REFERENCES trials (trial),
    metric  TEXT NOT NULL,
    why     TEXT NOT NULL,
    PRIMARY KEY (trial, metric)
) STRICT, WITHOUT ROWID;

-- Only of trials that ran several instances of the command at once.
CREATE TABLE instances (
    trial     INTEGER NOT NULL REFERENCES trials (trial),
    instance  INTEGER NOT NULL,
    metric    TEXT NOT NULL,
    unit      TEXT NOT NULL,
    value     REAL NOT NULL,
    PRIMARY KEY (trial, instance, metric)
) STRICT, WITHOUT ROWID;

-- Only of trials that ran the command more than once.
CREATE TABLE iterations (
    trial          INTEGER NOT NULL REFERENCES trials (trial),
    iteration      INTEGER NOT NULL,
    wall_ns        INTEGER NOT NULL,
    cpu_user_ns    INTEGER NOT NULL,
    cpu_system_ns  INTEGER NOT NULL,
    PRIMARY KEY (trial, iteration)
) STRICT, WITHOUT ROWID;

CREATE TABLE payers (
    payer             INTEGER PRIMARY KEY,
    name              TEXT NOT NULL,
    role              TEXT NOT NULL CHECK (role IN
        ('workload', 'guest-kernel', 'hypervisor', 'engine', 'surtax', 'machine')),
    level             INTEGER NOT NULL,
    carries_workload  INTEGER NOT NULL CHECK (carries_workload IN (0, 1)),
    UNIQUE (name, role, level, carries_workload)
) STRICT;

-- What the numbers of quantities stand for.
CREATE TABLE quantities (
    quantity  INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    unit      TEXT NOT NULL
) STRICT;

CREATE TABLE readings (
    trial       INTEGER NOT NULL REFERENCES trials (trial),
    position    INTEGER NOT NULL,
    payer       INTEGER NOT NULL REFERENCES payers (payer),
    is_shared   INTEGER NOT NULL CHECK (is_shared IN (0, 1)),
    amount_map  TEXT NOT NULL,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

-- Levels that were looked at again and again while the command of a trial ran.
CREATE TABLE timelines (
    timeline        INTEGER PRIMARY KEY,
    trial           INTEGER NOT NULL REFERENCES trials (trial),
    level           INTEGER NOT NULL,
    every_ns        INTEGER NOT NULL,
    sample_count    INTEGER NOT NULL,
    late_count      INTEGER NOT NULL,
    clock_bound_ns  INTEGER,
    time_list       BLOB NOT NULL,
    UNIQUE (trial, level)
) STRICT;

CREATE TABLE series (
    series       INTEGER PRIMARY KEY,
    timeline     INTEGER NOT NULL REFERENCES timelines (timeline),
    position     INTEGER NOT NULL,
    payer        INTEGER NOT NULL REFERENCES payers (payer),
    quantity     INTEGER NOT NULL REFERENCES quantities (quantity),
    amount_list  BLOB NOT NULL,
    UNIQUE (timeline, position)
) STRICT;

CREATE TABLE phases (
    trial     INTEGER NOT NULL REFERENCES trials (trial),
    position  INTEGER NOT NULL,
    phase     TEXT NOT NULL CHECK (phase IN ('start', 'warm-up', 'run')),
    from_ns   INTEGER NOT NULL,
    to_ns     INTEGER NOT NULL,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE outputs (
    trial         INTEGER NOT NULL REFERENCES trials (trial),
    stream        TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
    xxh3_hex      TEXT NOT NULL,
    length_bytes  INTEGER NOT NULL,
    tail          BLOB,
    PRIMARY KEY (trial, stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE conditions (
    trial  INTEGER NOT NULL REFERENCES trials (trial),
    key    TEXT NOT NULL,
    value  REAL NOT NULL,
    PRIMARY KEY (trial, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE disturbances (
    trial        INTEGER NOT NULL REFERENCES trials (trial),
    position     INTEGER NOT NULL,
    key          TEXT NOT NULL,
    value        REAL NOT NULL,
    limit_value  REAL NOT NULL,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE leftovers (
    trial     INTEGER NOT NULL REFERENCES trials (trial),
    position  INTEGER NOT NULL,
    what      TEXT NOT NULL,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

-- Whose system calls were counted, in a trial that is in no time.
CREATE TABLE counting (
    arm               INTEGER PRIMARY KEY REFERENCES arms (arm),
    began_at_ns       INTEGER NOT NULL,
    is_of_this_level  INTEGER NOT NULL CHECK (is_of_this_level IN (0, 1)),
    program_count     INTEGER NOT NULL,
    file_fault_count  INTEGER,
    why               TEXT
) STRICT;

CREATE TABLE calls (
    arm             INTEGER NOT NULL REFERENCES counting (arm),
    call            TEXT NOT NULL,
    call_count      INTEGER NOT NULL,
    returned_bytes  INTEGER NOT NULL,
    fresh_count     INTEGER NOT NULL,
    PRIMARY KEY (arm, call)
) STRICT, WITHOUT ROWID;

-- What primitives cost in the stacks of this run, by a run of `surtax prices`.
CREATE TABLE prices (
    arm           INTEGER NOT NULL REFERENCES arms (arm),
    block         INTEGER NOT NULL,
    price         TEXT NOT NULL,
    operation_ns  REAL NOT NULL,
    PRIMARY KEY (arm, block, price)
) STRICT, WITHOUT ROWID;

-- Meters of power that were read all through the run.
CREATE TABLE meters (
    meter          TEXT PRIMARY KEY,
    metric         TEXT NOT NULL UNIQUE,
    every_ns       INTEGER NOT NULL,
    read_count     INTEGER NOT NULL,
    failed_count   INTEGER NOT NULL,
    late_count     INTEGER NOT NULL,
    resolution_uw  INTEGER,
    idle_uw        INTEGER,
    step_uw        INTEGER,
    delay_ns       INTEGER,
    why            TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE logs (
    log       INTEGER PRIMARY KEY,
    at_ns     INTEGER NOT NULL,
    severity  TEXT NOT NULL CHECK (severity IN ('note', 'warning', 'error')),
    message   TEXT NOT NULL
) STRICT;

CREATE VIEW trial_evidence AS
    SELECT t.trial, f.level, f.layer, f.key, f.value, f.source
    FROM trials t
    JOIN evidence e ON e.evidence = t.evidence
    JOIN json_each(e.fact_list) listed
    JOIN facts f ON f.fact = listed.value;

CREATE VIEW amounts AS
    SELECT r.trial, r.position, q.name, q.unit, a.value
    FROM readings r
    JOIN json_each(r.amount_map) a
    JOIN quantities q ON q.quantity = CAST(a.key AS INTEGER);
