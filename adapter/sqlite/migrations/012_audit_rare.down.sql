DROP INDEX tenet_audit_rare;
