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
// A line that is not a record (not JSON, the wrong number of columns, longer than the limit) is logged with its number, and goes
// to the sink [SourceOptions].Poison, or, where that is nil, to the task, which finds out with [Problem].
//
// A [Sink] writes beside its target and puts the file in its place as a whole when it is closed. Everything that was
// dispatched survives a crash before that, and the next sink goes on with it.
//
// # What it does not do
//
// A file that is followed may grow, and must not shrink, be replaced or rotated. A sink does not recognise a transaction that
// is dispatched twice. Sources have no values for fetch.extra.
package file
