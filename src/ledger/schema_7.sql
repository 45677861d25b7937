-- What format 7 had in the place of `quantities` and `readings`; the formats before it the first of the two tables.

CREATE TABLE readings (
    trial              INTEGER NOT NULL REFERENCES trials (trial),
    position           INTEGER NOT NULL,
    payer              INTEGER NOT NULL REFERENCES payers (payer),
    cpu_user_ns        INTEGER NOT NULL,
    cpu_system_ns      INTEGER NOT NULL,
    memory_peak_bytes  INTEGER,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

-- Whose the memory of a payer is, and what it consisted of right after the command.
CREATE TABLE memory (
    trial             INTEGER NOT NULL REFERENCES trials (trial),
    position          INTEGER NOT NULL,
    is_shared         INTEGER NOT NULL CHECK (is_shared IN (0, 1)),
    anon_bytes        INTEGER,
    page_cache_bytes  INTEGER,
    shmem_bytes       INTEGER,
    kernel_bytes      INTEGER,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;
