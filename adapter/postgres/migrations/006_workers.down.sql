DROP TABLE {{schema}}.worker;
