// Package file reads and writes transactions in JSONL and CSV files.
//
// # The model
//
//	path ──► Source ──► consumer ──acks──► path.offset
//	                       │
//	                       ▼
//	                     Sink ──► path.part ──Close──► path
//
// A [Source] streams: its memory does not grow with the file. A line of JSONL is a transaction with the line as its payload;
// its ID is the "id" member where the line is an object that has one (a string or a number), else "path:offset". A row of CSV
// becomes a JSON object of strings with the header's names, and its ID follows the same rule. Blank lines are passed over.
//
// The source stores acknowledgements, in any order, in a file beside the input and flushes it to disk before Ack returns.
// A source that is opened again continues from there: it delivers exactly the records that were not acknowledged.
//
// A line that is not a record (not JSON, the wrong number of columns, longer than the limit) is logged with its number and goes
// to the sink [SourceOptions].Poison. Without such a sink the task gets it, and recognises it with [Problem].
//
// A [Sink] writes to a second file, which replaces the target when the sink is closed. After a crash, the next sink
// continues that file: nothing that was dispatched is lost.
//
// # Limits
//
// A file that is followed may grow, but must not shrink, be replaced or rotated. A source that sees it shrink reads no more of it. A
// sink does not recognise a transaction that is dispatched twice. Sources do not use fetch.extra.
package file
