// Package jobline reads jobs written as lines of JSON and imports files of them into a store.
//
// # The model
//
// A line is one object: {type, payload, queue, run_at, max_attempts, priority, timeout, unique_key}; only the type is
// required. Unknown fields are errors, also those in the payload of an http or exec job, which must be complete. [Import] goes through a file once, in batches, and keeps nothing about it: what
// makes repeating it harmless are unique keys. A line without one is given one, from its content and from how many equal
// lines came before it, so that equal lines of one file are different jobs and the same file read again is not. Keys hold
// for a window ([Options].Window), also after their job has finished.
//
//	lines ──► parse ──► batch of 1,000 ──► Enqueue ──► imported, existing
//	            └──► rejected, by number
package jobline
