// Package operation describes what operators do to jobs, queues and idempotency records, for the audit log.
package operation
