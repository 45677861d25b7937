-- Views in the place of tables, and columns that are computed.

ALTER TABLE trials RENAME TO kept;
    CREATE VIEW trials AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
    SELECT x AS trial, x AS block, 0 AS position, 0 AS arm, 1 AS attempt, 'done' AS state, x AS began_at_ns,
    x AS ended_at_ns, NULL AS exit_status, NULL AS why, NULL AS remedy, 1 AS evidence FROM n

ALTER TABLE run RENAME TO kept;
    CREATE VIEW run AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
    SELECT kept.*, x FROM kept, n WHERE x < 0

ALTER TABLE logs ADD COLUMN harm TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000)))
