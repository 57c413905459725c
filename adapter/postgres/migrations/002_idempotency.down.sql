DROP TABLE {{schema}}.idempotency;
