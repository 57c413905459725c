-- Finds the few events of these types, by position.
CREATE INDEX tenet_audit_rare ON tenet_audit (event_type) WHERE event_type IN ('policy_snapshot', 'policy_changed', 'operator_action');
