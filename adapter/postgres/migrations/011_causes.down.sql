DROP TRIGGER done_left ON {{schema}}.done;
DROP TRIGGER done_died ON {{schema}}.done;
DROP FUNCTION {{schema}}.count_death();
DROP TABLE {{schema}}.cause_change;
DROP TABLE {{schema}}.cause_total;
DROP INDEX {{schema}}.done_cause;
ALTER TABLE {{schema}}.redrive_pending DROP COLUMN cause;
ALTER TABLE {{schema}}.done DROP COLUMN dead_type;
ALTER TABLE {{schema}}.done DROP COLUMN cause;
