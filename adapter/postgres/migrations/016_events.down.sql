DROP TABLE {{schema}}.watch;
DROP TABLE {{schema}}.event;
