-- More rows than a run has, from the numbers of the table `n`.

INSERT INTO samples SELECT 1, 'm' || x, 'u', x FROM n

INSERT INTO metrics (metric, unit, better) SELECT 'm' || x, 'u', 'lower' FROM n

INSERT INTO trials (block, position, arm, attempt, state, began_at_ns, ended_at_ns, evidence)
    SELECT x, 0, x % 3, 1, 'done', x, x + 1, 1 FROM n

INSERT INTO machine_facts (key, value, source) SELECT 'k' || x, x, 's' FROM n
