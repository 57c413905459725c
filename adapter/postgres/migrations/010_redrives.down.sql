DROP TABLE {{schema}}.redrive_pending;
DROP TABLE {{schema}}.redrive_waiting;
DROP TABLE {{schema}}.redrive;
