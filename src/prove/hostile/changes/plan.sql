-- Another plan than the one that was run.

UPDATE run SET plan_json = json_set(plan_json, '$.seed', 99)

UPDATE run SET plan_json = json_set(plan_json, '$.runs', 4294967295, '$.time_budget_ns', 1)

UPDATE run SET plan_json = '[' || replace(hex(zeroblob(100000)), '00', '[')

UPDATE run SET plan_json = json_set(plan_json, '$.title', (SELECT group_concat('x' || char(8238)) FROM
    (WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 200) SELECT x FROM n)))

UPDATE run SET plan_json = json_set(plan_json, '$.title', hex(zeroblob(200000)))

UPDATE run SET plan_json = json_set(plan_json, '$.stacks', json((SELECT '[' ||
    group_concat('"runc:env.A=' || x || '"') || ']' FROM (WITH RECURSIVE n (x) AS
    (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 20000) SELECT x FROM n))))

UPDATE run SET plan_json = json_set(plan_json, '$.workload', json_object('name', 'w', 'parameters', json('[]'),
    'text', 'about = "w"' || char(10) || 'command = ["w"]' || char(10) || '[[check]]' || char(10) ||
    'about = "w"' || char(10) || 'jsonpath = ''$' || replace(hex(zeroblob(30)), '00', '[?@') || '.a' ||
    replace(hex(zeroblob(30)), '00', ']') || '''' || char(10)))

UPDATE run SET plan_json = json_set(plan_json, '$.workload', json_object('name', 'w', 'parameters', json('[]'),
    'text', 'about = "w"' || char(10) || 'command = ["w"]' || char(10) || '[[check]]' || char(10) ||
    'about = "w"' || char(10) || 'jsonpath = ''$[?' || replace(hex(zeroblob(3000)), '00', '(') || '@.a' ||
    replace(hex(zeroblob(3000)), '00', ')') || ']''' || char(10)))

UPDATE run SET plan_json = json_set(plan_json, '$.workload', json_object('name', 'w', 'parameters', json('[]'),
    'text', 'about = "w"' || char(10) || 'command = ["w"]' || char(10) || replace(hex(zeroblob(120)), '00',
    '[[check]]' || char(10) || 'about = "w"' || char(10) || 'regex = ''(\pL{99})''' || char(10))))
