-- Another plan than the one that was run.

UPDATE run SET plan_json = json_set(plan_json, '$.seed', 99)

UPDATE run SET plan_json = json_set(plan_json, '$.runs', 4294967295, '$.time_budget_ns', 1)

UPDATE run SET plan_json = '[' || replace(hex(zeroblob(100000)), '00', '[')

UPDATE run SET plan_json = json_set(plan_json, '$.title', (SELECT group_concat('x' || char(8238)) FROM
    (WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100000) SELECT x FROM n)))

UPDATE run SET plan_json = json_set(plan_json, '$.stacks', json((SELECT '[' ||
    group_concat('"runc:env.A=' || x || '"') || ']' FROM (WITH RECURSIVE n (x) AS
    (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 20000) SELECT x FROM n))))
