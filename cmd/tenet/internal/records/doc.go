// Package records reads, resolves and clears idempotency records.
package records
