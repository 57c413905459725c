DROP INDEX tenet_policy_client_reported;
ALTER TABLE tenet_policy_client DROP COLUMN reported;
