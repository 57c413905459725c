-- Finds the few events of these types, by position.
CREATE INDEX audit_rare ON {{schema}}.audit (event_type, position) WHERE event_type IN ('policy_snapshot', 'policy_changed', 'operator_action');
