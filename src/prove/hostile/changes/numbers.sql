-- Numbers that no run has, and values that do not fit each other.

UPDATE samples SET value = 9e999

UPDATE samples SET value = -9e999 WHERE trial % 2

UPDATE samples SET value = 0

UPDATE samples SET value = 1e308

UPDATE OR IGNORE trials SET block = 4294967295 - trial

UPDATE trials SET began_at_ns = -9223372036854775807, ended_at_ns = 9223372036854775807

UPDATE OR IGNORE trials SET arm = 99

UPDATE readings SET amount_map = '{"1":18446744073709551615,"2":18446744073709551615,"999":1}'

UPDATE readings SET amount_map = '{"3":-1}'

UPDATE readings SET amount_map = replace(hex(zeroblob(50000)), '0', '[')

UPDATE payers SET level = 255

UPDATE trials SET state = 'owned'
