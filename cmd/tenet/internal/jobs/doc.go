// Package jobs enqueues, imports, lists and changes jobs.
package jobs
