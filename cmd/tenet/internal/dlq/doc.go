// Package dlq looks at, requeues and purges dead jobs.
package dlq
