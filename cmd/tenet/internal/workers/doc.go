// Package workers runs workers of stored jobs.
package workers
