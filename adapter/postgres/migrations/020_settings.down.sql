DROP TABLE {{schema}}.setting;
