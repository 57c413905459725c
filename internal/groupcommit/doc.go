// Package groupcommit stores what concurrent callers hand over in groups: while one group is being stored, the next one
// gathers, so that many callers share one flush.
package groupcommit
