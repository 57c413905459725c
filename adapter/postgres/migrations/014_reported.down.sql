DROP INDEX {{schema}}.policy_client_reported;
ALTER TABLE {{schema}}.policy_client DROP COLUMN reported;
