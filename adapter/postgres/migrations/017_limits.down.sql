DROP TABLE {{schema}}.shared_limit;
