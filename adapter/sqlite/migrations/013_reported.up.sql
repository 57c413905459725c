-- What clients reported of their breakers, budgets, limits and pipelines, in JSON: empty for nothing, NULL before the first report.
ALTER TABLE tenet_policy_client ADD COLUMN reported TEXT;
CREATE INDEX tenet_policy_client_reported ON tenet_policy_client (document, id) WHERE reported <> '';
