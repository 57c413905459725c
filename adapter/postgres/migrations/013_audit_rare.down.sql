DROP INDEX {{schema}}.audit_rare;
