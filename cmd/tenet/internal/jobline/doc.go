// Package jobline reads jobs written as lines of JSON and imports files of them into a store.
//
// # The model
//
// A line is one object with the fields of [Line]; only the type is
// required. Unknown fields are errors, also in the payload of an http or exec job, which must be complete. [Import] reads a file
// once, in batches, and keeps no state about it. Unique keys make it safe to repeat: a line without a key gets one made of its
// content and the number of equal lines before it. Equal lines of a file are therefore different jobs, and the same file read
// again adds none. Keys are held for a window ([Options].Window), even after their jobs have finished.
//
//	lines ──► parse ──► batch of 1,000 ──► Enqueue ──► imported, existing
//	            └──► rejected, by number
package jobline
