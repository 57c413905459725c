-- What clients reported of their breakers, budgets, limits and pipelines, in JSON: empty for nothing, NULL before the first report.
ALTER TABLE {{schema}}.policy_client ADD COLUMN reported text;
CREATE INDEX policy_client_reported ON {{schema}}.policy_client (document, id) WHERE reported <> '';
