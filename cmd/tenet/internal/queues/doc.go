// Package queues lists, pauses and resumes queues.
package queues
