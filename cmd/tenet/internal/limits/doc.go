// Package limits lists and sets the limits of queues and job types.
package limits
