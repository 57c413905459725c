// Package auditlog reads, verifies and replays audit logs.
package auditlog
