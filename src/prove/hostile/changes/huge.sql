-- Texts and lists of many megabytes.

UPDATE OR IGNORE evidence SET fact_list = (SELECT '[' || group_concat(1) || ']' FROM
    (WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 2000000) SELECT x FROM n))

UPDATE run SET title = hex(zeroblob(6000000))

UPDATE run SET plan_json = plan_json || hex(zeroblob(30000000))

UPDATE trials SET why = hex(zeroblob(1000000)), state = 'failed'

UPDATE outputs SET tail = zeroblob(9000000)

UPDATE OR IGNORE facts SET value = hex(zeroblob(200000))
