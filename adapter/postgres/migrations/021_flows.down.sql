-- Jobs that wait for needs keep waiting: cancel or retry them.
DROP FUNCTION {{schema}}.flow_ended;
ALTER TABLE {{schema}}.done DROP COLUMN needed;
ALTER TABLE {{schema}}.running DROP COLUMN needed;
ALTER TABLE {{schema}}.ready DROP COLUMN needed;
ALTER TABLE {{schema}}.scheduled DROP COLUMN needed;
ALTER TABLE {{schema}}.waiting DROP COLUMN needed;
DROP TABLE {{schema}}.flow_node;
DROP TABLE {{schema}}.flow_change;
DROP TABLE {{schema}}.flow;
