DROP TABLE tenet_idempotency;
